//! The endpoint of one process: requests in, completions out, and the events
//! of its Portals interface in between.
//!
//! Invariants: messages of one pair leave in the order they were sent in; a
//! request is in exactly one table until its completion is pushed; nothing is
//! completed twice.

use crate::api::{Completion, Config, Pending, Stats};
use crate::core::Core;
use crate::order::Order;
use crate::peers::Peers;
use crate::queue::Waiter;
use crate::rendezvous::Fin;
use crate::rendezvous::budget::Budget;
use crate::rendezvous::moved::Moved;
use crate::rendezvous::rtr_throttle::RtrThrottle;
use crate::request::{Claimed, ProbeOp, RecvOp, SendOp, SendState};
use sluice_link::{Layout, Links, Machine, Opened, PeerError, Port, RailError, Token};
use sluice_portals::{EqTaken, Event, EventKind, Table, Taken, UnexpectedBytes};
use sluice_wire::{Addr, Nanos, Packet, Parsed, PeerId};
use std::collections::VecDeque;

/// One process's endpoint: a [`Machine`] over all its peers.
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) core: Core,
    pub(crate) sends: Table<SendOp>,
    pub(crate) recvs: Table<RecvOp>,
    /// Peers with sends that wait for credits. Each is here once.
    pub(crate) stalled: Vec<PeerId>,
    /// Receives with chunks that are still to be asked for, and what is in flight.
    pub(crate) budget: Budget,
    /// What is to be said of transfers and waits for a control credit.
    pub(crate) fins: VecDeque<Fin>,
    pub(crate) claimed: Vec<Claimed>,
    /// Probes that wait for answers.
    pub(crate) probes: Table<ProbeOp>,
    /// Peers that may have messages they have no credits for.
    pub(crate) short: Vec<PeerId>,
    /// While there are such peers: what is posted, in order.
    pub(crate) order: Option<Box<Order>>,
    /// Memory of injected messages that wait.
    pub(crate) injected_bytes: u64,
    /// Some peer has announced a receive.
    pub(crate) speculates: bool,
    pub(crate) throttle: RtrThrottle,
    /// A peer whose message named a tally that is not that of the receive it met.
    pub(crate) astray: Option<PeerId>,
    pub(crate) next_serial: u64,
}

impl Endpoint {
    /// Heap bytes of a peer that was named but never spoken to.
    pub const IDLE_PEER_BYTES: usize = sluice_link::Links::IDLE_PEER_BYTES + Peers::PEER_BYTES;
    /// Heap bytes of a peer that was spoken to.
    pub const ACTIVE_PEER_BYTES: usize = sluice_link::Links::ACTIVE_PEER_BYTES + Peers::PEER_BYTES;

    /// Heap bytes of a send that waits for credits, besides an injected
    /// message's copy.
    pub const PENDING_SEND_BYTES: usize = Table::<SendOp>::ENTRY_BYTES + size_of::<Waiter>();

    /// An endpoint whose own mailbox is divided as `mailbox` says.
    ///
    /// # Panics
    /// Never: a new interface has room for what is made here.
    #[must_use]
    pub fn new(config: Config, mailbox: Layout) -> Endpoint {
        let core = Core::new(config, mailbox);
        let pulled_at_once = core.ni.gets_bytes_max();
        Endpoint {
            core,
            sends: Table::new(config.requests_max),
            recvs: Table::new(config.requests_max),
            stalled: Vec::new(),
            budget: Budget::new(config.pull_bytes_max.min(pulled_at_once)),
            fins: VecDeque::new(),
            claimed: Vec::new(),
            probes: Table::new(config.requests_max),
            short: Vec::new(),
            order: None,
            injected_bytes: 0,
            speculates: false,
            throttle: RtrThrottle::default(),
            astray: None,
            next_serial: 0,
        }
    }

    /// The most memory, in bytes, that messages not matched yet can take of a
    /// process whose mailbox is divided as `mailbox` says: their records and what
    /// is lent for their payloads ([`Stats::unexpected_bytes_now`]).
    #[must_use]
    pub fn unexpected_bytes_max(mailbox: &Layout) -> u64 {
        u64::from(mailbox.data_slots_total()) * UnexpectedBytes::SLOT_MAX
    }

    /// The most data slots that a mailbox may have for [`Endpoint::unexpected_bytes_max`]
    /// to be at most `bytes_max`.
    #[must_use]
    pub fn data_slots_within(bytes_max: u64) -> u32 {
        u32::try_from(bytes_max / UnexpectedBytes::SLOT_MAX).unwrap_or(u32::MAX)
    }

    /// Whether what has arrived should be taken in before a request of this length:
    /// the other side may have been first, and then data moves at once (speculative
    /// paper, section 3.1.1).
    #[must_use]
    #[inline]
    pub fn looks_first(&self, len: u64) -> bool {
        self.core.config.table().minds_who_is_first(len)
    }

    /// Whether a request has ended that was not popped yet.
    #[must_use]
    pub fn has_completions(&self) -> bool {
        !self.core.completions.is_empty()
    }

    /// The next ended request.
    #[inline]
    pub fn pop(&mut self) -> Option<Completion> {
        self.core.pop()
    }

    /// Counts.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let status = self.core.ni.status();
        Stats {
            unexpected: status.unexpected,
            unexpected_now: self.core.ni.unexpected_now(),
            violations: status.protocol_violations,
            stalled_now: self.core.peers.iter().map(|state| state.queue.len() as u64).sum(),
            unexpected_bytes_now: self.core.ni.unexpected_bytes().now,
            unexpected_bytes_peak: self.core.ni.unexpected_bytes().peak,
            injected_bytes_now: self.injected_bytes,
            pull_bytes_now: self.budget.bytes_now(),
            pull_bytes_peak: self.budget.bytes_peak(),
            ..self.core.stats
        }
    }

    /// The links to the peers, to be looked at.
    #[must_use]
    pub fn links(&self) -> &Links {
        self.core.ni.links()
    }

    /// What has not ended yet.
    #[must_use]
    pub fn pending(&self) -> Pending {
        Pending {
            sends: self.sends.len(),
            recvs: self.recvs.len(),
            claimed: self.claimed.len(),
            probes: self.probes.len(),
            operations: self.core.ni.operations_now(),
            answers: self.fins.len() + self.core.ni.owed_now(),
        }
    }

    /// Panics unless the endpoint's books are in order. For tests.
    pub fn check_invariants(&self) {
        self.core.ni.check_invariants();
        let queued: usize = self.core.peers.iter().map(|state| state.queue.len()).sum();
        let waits = |op: &SendOp| matches!(op.state, SendState::Queued | SendState::Offered(..));
        let waiting = self.sends.iter().filter(|(_, op)| waits(op)).count();
        assert!(queued == waiting, "every waiting send is in its peer's queue");
        let copied = self.sends.iter().filter(|(_, op)| op.copy.is_some());
        let copied: u64 = copied.map(|(_, op)| Endpoint::injected_bytes_of(&op.send)).sum();
        assert!(copied == self.injected_bytes, "memory of injected messages");
        for state in self.core.peers.iter() {
            state.queue.check_invariants();
        }
        self.check_order();
        self.check_pulls();
        assert!(self.budget.bytes_peak() <= self.core.config.pull_bytes_max.max(1));
        for peer in &self.stalled {
            assert!(self.core.peers.get(*peer).is_some_and(|state| !state.queue.is_empty()));
        }
    }

    /// Handles every event that the last call into the interface caused.
    #[inline]
    pub(crate) fn drain_events<P: Port>(&mut self, port: &mut P) {
        loop {
            match self.core.ni.eq_take(self.core.eq) {
                EqTaken::Empty => return,
                EqTaken::Event(event) | EqTaken::EventAfterDrop(event) => match event.kind {
                    EventKind::Put | EventKind::PutOverflow => self.on_matched(port, &event),
                    // By value: what the messages above read of an event is
                    // then never put together in memory.
                    _ => self.on_other_event(port, event),
                },
            }
        }
    }

    #[inline(never)]
    fn on_other_event<P: Port>(&mut self, port: &mut P, event: Event) {
        let event = &event;
        match event.kind {
            EventKind::Reply => self.on_pulled(port, event),
            EventKind::Send if event.user_ptr == 0 => {}
            EventKind::Send | EventKind::Ack | EventKind::GetDone => {
                self.on_send_ended(port, event);
            }
            // Searches are answered where they are asked; no entry of the
            // endpoint asks for the others.
            EventKind::Put
            | EventKind::PutOverflow
            | EventKind::Get
            | EventKind::GetOverflow
            | EventKind::Atomic
            | EventKind::AtomicOverflow
            | EventKind::FetchAtomic
            | EventKind::FetchAtomicOverflow
            | EventKind::PtDisabled
            | EventKind::Search
            | EventKind::Link
            | EventKind::AutoUnlink
            | EventKind::AutoFree => {}
        }
    }

    /// What waited for credits of a peer may go on.
    fn on_credits<P: Port>(&mut self, port: &mut P, from: PeerId) {
        if !self.stalled.is_empty() {
            self.flush_peer(port, from);
        }
        self.flush_pulls(port);
        if self.core.peers.is_control_pending() {
            self.core.peers.end_pending_control(from);
            self.speak(port, from);
        }
    }

    /// What the layer below does not know. False if it breaks the protocol.
    fn on_packet_of_ours<P: Port>(&mut self, port: &mut P, from: PeerId, packet: &Packet) -> bool {
        match packet {
            Packet::Rtr(rtr) => self.on_rtr(port, from, rtr),
            Packet::Cts(cts) => self.on_cts(port, from, cts),
            Packet::Written(written) => self.on_written(port, from, written),
            _ => self.on_stall_packet(port, from, packet),
        }
    }

    /// Says to a peer what is to be said of messages that wait, here or there.
    fn speak<P: Port>(&mut self, port: &mut P, peer: PeerId) {
        if self.core.peers.gone(peer).is_none() {
            self.answer_questions(port, peer);
            self.ask_stalled(port, peer);
        }
    }

    fn peer_gone<P: Port>(&mut self, port: &mut P, peer: PeerId, why: PeerError) {
        if self.core.peers.gone(peer).is_some() {
            return;
        }
        self.core.peers.note_gone(peer, why);
        self.core.ni.on_peer_gone(port, peer, why);
        self.drain_events(port);
        self.fail_sends(port, peer, why);
        self.fail_recvs(port, peer, why);
        self.fins.retain(|fin| fin.peer != peer);
        self.core.peers.state_mut(peer).rtrs = None;
        self.forget_frontier(peer);
        self.fail_probes(port, peer, why);
    }
}

impl Machine for Endpoint {
    #[inline]
    fn on_packet<P: Port>(&mut self, now: Nanos, port: &mut P, from: PeerId, packet: &Parsed) {
        self.core.note_time(now);
        if self.core.peers.gone(from).is_some() {
            return;
        }
        let taken = if is_foreign(&packet.packet) {
            self.core.ni.note_violation();
            Taken::Violation
        } else {
            self.core.ni.on_packet(port, from, packet)
        };
        self.drain_events(port);
        match taken {
            Taken::Fine { brought_credits } => {
                if self.astray.take().is_some() {
                    self.core.ni.note_violation();
                    return self.peer_gone(port, from, PeerError::Protocol);
                }
                if brought_credits {
                    self.on_credits(port, from);
                }
                if spends_data(&packet.packet) && self.core.ni.is_exhausted(from) {
                    self.on_exhausted(port, from);
                }
            }
            Taken::Above { brought_credits } => {
                // What can go by itself need not be told of.
                if brought_credits {
                    self.on_credits(port, from);
                }
                if !self.on_packet_of_ours(port, from, &packet.packet) {
                    self.core.ni.note_violation();
                    self.peer_gone(port, from, PeerError::Protocol);
                }
            }
            Taken::Violation => self.peer_gone(port, from, PeerError::Protocol),
        }
    }

    fn on_connected<P: Port>(&mut self, now: Nanos, port: &mut P, peer: PeerId, opened: Opened) {
        self.core.note_time(now);
        let connected = self.core.ni.on_connected(port, peer, opened);
        self.drain_events(port);
        match connected {
            Ok(()) => {
                self.on_credits(port, peer);
                self.announce_posted(port, peer);
            }
            Err(why) => self.peer_gone(port, peer, why),
        }
    }

    fn on_transmitted<P: Port>(&mut self, _now: Nanos, port: &mut P, token: Token) {
        self.core.ni.on_transmitted(port, token);
        self.drain_events(port);
    }

    fn on_moved<P: Port>(
        &mut self,
        now: Nanos,
        port: &mut P,
        token: Token,
        outcome: Result<(), RailError>,
    ) {
        self.core.note_time(now);
        match Moved::of(token) {
            Some(Moved::Recv(handle)) => self.on_read_shared(port, handle, outcome),
            Some(Moved::Send(handle)) => self.on_written_out(port, handle, outcome),
            None => self.core.ni.on_moved(port, token, outcome),
        }
        self.drain_events(port);
    }

    fn on_peer_gone<P: Port>(&mut self, now: Nanos, port: &mut P, peer: PeerId, why: PeerError) {
        self.core.note_time(now);
        self.peer_gone(port, peer, why);
    }

    #[inline]
    fn on_idle<P: Port>(&mut self, now: Nanos, port: &mut P) {
        self.core.note_time(now);
        self.core.ni.on_idle(port);
        self.flush_pulls(port);
        if !self.stalled.is_empty() {
            self.flush_stalled(now, port);
        }
        for peer in self.core.peers.take_pending_control() {
            self.speak(port, peer);
        }
    }

    fn deadline(&self) -> Option<Nanos> {
        // Without a credit only the peer can help, and time cannot.
        self.stalled
            .iter()
            .filter(|peer| self.core.ni.data_credits(**peer) > 0)
            .filter_map(|peer| {
                // Nor can it with one that the peer was told of.
                let state = self.core.peers.get(*peer)?;
                state.queue.front()?;
                state.stalled_since
            })
            .map(|since| since.saturating_add(self.core.config.patience))
            .min()
    }
}

/// Packets that take the last data credits of their sender, or give them back:
/// what an endpoint sends of the data region.
#[inline]
fn spends_data(packet: &Packet) -> bool {
    matches!(packet, Packet::Put(_) | Packet::ReturnRequest | Packet::ReturnResponse(_))
}

/// Packets of the engine below that no endpoint sends.
#[inline]
fn is_foreign(packet: &Packet) -> bool {
    match packet {
        Packet::Put(put) => put.bulk.is_some(),
        Packet::Get(get) => get.into != Addr(0),
        Packet::Atomic(_) | Packet::Offer(_) | Packet::Pull(_) => true,
        Packet::Ack(_)
        | Packet::Reply(_)
        | Packet::GetDone(_)
        | Packet::Credit
        | Packet::Search(_)
        | Packet::Watch(_)
        | Packet::Waiting(_)
        | Packet::Decline(_)
        | Packet::ReturnRequest
        | Packet::ReturnResponse(_)
        | Packet::Rtr(_)
        | Packet::Cts(_)
        | Packet::Written(_) => false,
    }
}
