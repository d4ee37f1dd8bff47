//! The endpoint of one process: requests in, completions out, and the events
//! of its Portals interface in between.
//!
//! Invariants: messages of one pair leave in the order they were sent in; a
//! request is in exactly one table until its completion is pushed; nothing is
//! completed twice.

use crate::api::{Completion, Config, Pending, Space, Stats};
use crate::order::Order;
use crate::portal::{PT_BULK, overflow_entry};
use crate::queue::Waiter;
use crate::rendezvous::Fin;
use crate::rendezvous::budget::Budget;
use crate::rendezvous::moved::Moved;
use crate::rendezvous::rtr_throttle::RtrThrottle;
use crate::request::{Claimed, ProbeOp, RecvOp, SendOp, SendState};
use crate::stalled::PeerState;
use sluice_link::{Layout, Links, Machine, Opened, PeerError, Port, RailError, Token};
use sluice_portals::{
    Eq, EqTaken, Event, EventKind, Handle, Limits, Md, MdOptions, Ni, PtOptions, Table, Taken,
    UnexpectedBytes,
};
use sluice_wire::{Addr, Nanos, Packet, Parsed, PeerId, PtIndex, Region};
use std::collections::VecDeque;

/// One process's endpoint: a [`Machine`] over all its peers.
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) config: Config,
    pub(crate) ni: Ni,
    pub(crate) eq: Handle<Eq>,
    /// All of memory: local offsets are addresses.
    pub(crate) md: Handle<Md>,
    pub(crate) sends: Table<SendOp>,
    pub(crate) recvs: Table<RecvOp>,
    /// Only peers that one side is or was stalled toward, or that are gone,
    /// have a state here.
    pub(crate) peers: Vec<Option<Box<PeerState>>>,
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
    /// Peers to which something about waiting messages could not be said for
    /// want of a control credit.
    pub(crate) owing: Vec<PeerId>,
    /// Memory of injected messages that wait.
    pub(crate) injected_bytes: u64,
    pub(crate) any_gone: bool,
    /// Some peer has announced a receive.
    pub(crate) speculates: bool,
    pub(crate) throttle: RtrThrottle,
    /// A peer whose message named a tally that is not that of the receive it met.
    pub(crate) astray: Option<PeerId>,
    pub(crate) next_serial: u64,
    /// The latest time that a call came with.
    pub(crate) now: Nanos,
    pub(crate) stats: Stats,
    pub(crate) completions: VecDeque<Completion>,
}

impl Endpoint {
    /// Heap bytes of a peer that was named but never spoken to.
    pub const IDLE_PEER_BYTES: usize =
        sluice_link::Links::IDLE_PEER_BYTES + size_of::<Option<Box<PeerState>>>();
    /// Heap bytes of a peer that was spoken to.
    pub const ACTIVE_PEER_BYTES: usize =
        sluice_link::Links::ACTIVE_PEER_BYTES + size_of::<Option<Box<PeerState>>>();

    /// Heap bytes of a send that waits for credits, besides an injected
    /// message's copy.
    pub const PENDING_SEND_BYTES: usize = Table::<SendOp>::ENTRY_BYTES + size_of::<Waiter>();

    /// An endpoint whose own mailbox is divided as `mailbox` says.
    ///
    /// # Panics
    /// Never: a new interface has room for what is made here.
    #[must_use]
    pub fn new(config: Config, mailbox: Layout) -> Endpoint {
        let mut ni = Ni::new(Limits::default(), mailbox);
        let pulled_at_once = ni.gets_bytes_max();
        // Every event is taken out before the call that caused it returns, and
        // a call causes few; a peer's end causes one for each operation on it.
        let eq = ni.eq_alloc(usize::MAX).expect("a new interface has room");
        let whole = Region { addr: Addr(0), len: u64::MAX };
        let options = MdOptions { event_send_if_pending: true, ..MdOptions::default() };
        let md =
            ni.md_bind(whole, None, Some(eq), None, options).expect("a new interface has room");
        for index in [PtIndex(0), PtIndex(1), PT_BULK] {
            ni.pt_alloc(index, PtOptions::default(), Some(eq)).expect("a new interface has room");
        }
        Endpoint {
            config,
            ni,
            eq,
            md,
            sends: Table::new(config.requests_max),
            recvs: Table::new(config.requests_max),
            peers: Vec::new(),
            stalled: Vec::new(),
            budget: Budget::new(config.pull_bytes_max.min(pulled_at_once)),
            fins: VecDeque::new(),
            claimed: Vec::new(),
            probes: Table::new(config.requests_max),
            short: Vec::new(),
            order: None,
            owing: Vec::new(),
            injected_bytes: 0,
            any_gone: false,
            speculates: false,
            throttle: RtrThrottle::default(),
            astray: None,
            next_serial: 0,
            now: Nanos(0),
            stats: Stats::default(),
            completions: VecDeque::new(),
        }
        .with_overflow_entries()
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
        self.config.table().minds_who_is_first(len)
    }

    /// Whether a request has ended that was not popped yet.
    #[must_use]
    pub fn has_completions(&self) -> bool {
        !self.completions.is_empty()
    }

    /// The next ended request.
    #[inline]
    pub fn pop(&mut self) -> Option<Completion> {
        let completion = self.completions.pop_front()?;
        if self.completions.is_empty() {
            // The next one is written where this one was: those lines are at hand.
            self.completions.clear();
        }
        Some(completion)
    }

    /// Counts.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let status = self.ni.status();
        Stats {
            unexpected: status.unexpected,
            unexpected_now: self.ni.unexpected_now(),
            violations: status.protocol_violations,
            stalled_now: self.peers.iter().flatten().map(|state| state.queue.len() as u64).sum(),
            unexpected_bytes_now: self.ni.unexpected_bytes().now,
            unexpected_bytes_peak: self.ni.unexpected_bytes().peak,
            injected_bytes_now: self.injected_bytes,
            pull_bytes_now: self.budget.bytes_now(),
            pull_bytes_peak: self.budget.bytes_peak(),
            ..self.stats
        }
    }

    /// The links to the peers, to be looked at.
    #[must_use]
    pub fn links(&self) -> &Links {
        self.ni.links()
    }

    /// What has not ended yet.
    #[must_use]
    pub fn pending(&self) -> Pending {
        Pending {
            sends: self.sends.len(),
            recvs: self.recvs.len(),
            claimed: self.claimed.len(),
            probes: self.probes.len(),
            operations: self.ni.operations_now(),
            answers: self.fins.len() + self.ni.owed_now(),
        }
    }

    /// Panics unless the endpoint's books are in order. For tests.
    pub fn check_invariants(&self) {
        self.ni.check_invariants();
        let queued: usize = self.peers.iter().flatten().map(|state| state.queue.len()).sum();
        let waits = |op: &SendOp| matches!(op.state, SendState::Queued | SendState::Offered(..));
        let waiting = self.sends.iter().filter(|(_, op)| waits(op)).count();
        assert!(queued == waiting, "every waiting send is in its peer's queue");
        let copied = self.sends.iter().filter(|(_, op)| op.copy.is_some());
        let copied: u64 = copied.map(|(_, op)| Endpoint::injected_bytes_of(&op.send)).sum();
        assert!(copied == self.injected_bytes, "memory of injected messages");
        for state in self.peers.iter().flatten() {
            state.queue.check_invariants();
        }
        self.check_order();
        self.check_pulls();
        assert!(self.budget.bytes_peak() <= self.config.pull_bytes_max.max(1));
        for peer in &self.stalled {
            assert!(self.peer_state(*peer).is_some_and(|state| !state.queue.is_empty()));
        }
    }

    /// A call at this time. Some callers look at the clock less often than others.
    #[inline(always)]
    pub(crate) fn note_time(&mut self, now: Nanos) {
        self.now = self.now.max(now);
    }

    #[inline(always)]
    pub(crate) fn complete(&mut self, completion: Completion) {
        self.completions.push_back(completion);
    }

    #[inline]
    pub(crate) fn peer_state(&self, peer: PeerId) -> Option<&PeerState> {
        self.peers.get(peer.index())?.as_deref()
    }

    /// Why `peer` is gone, if it is.
    #[inline]
    pub(crate) fn gone(&self, peer: PeerId) -> Option<PeerError> {
        if !self.any_gone {
            return None;
        }
        self.peer_state(peer)?.gone
    }

    /// Something waits for `peer` from now on: its end will be told. An error if it
    /// has been.
    #[inline]
    pub(crate) fn await_peer<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
    ) -> Result<(), PeerError> {
        if let Some(why) = self.gone(peer) {
            return Err(why);
        }
        // Nobody else has a reason to watch one that never spoke.
        if !self.ni.links().is_known(peer) {
            port.watch(peer);
        }
        Ok(())
    }

    /// Handles every event that the last call into the interface caused.
    #[inline]
    pub(crate) fn drain_events<P: Port>(&mut self, port: &mut P) {
        loop {
            match self.ni.eq_take(self.eq) {
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

    /// One entry per space takes what no receive waits for.
    fn with_overflow_entries(mut self) -> Endpoint {
        for space in [Space::Tagged, Space::Untagged] {
            self.ni
                .me_append_overflow(space.pt(), overflow_entry())
                .expect("a new interface has room");
        }
        self
    }

    /// What waited for credits of a peer may go on.
    fn on_credits<P: Port>(&mut self, port: &mut P, from: PeerId) {
        if !self.stalled.is_empty() {
            self.flush_peer(port, from);
        }
        self.flush_pulls(port);
        if !self.owing.is_empty() {
            self.owing.retain(|owing| *owing != from);
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
        if self.gone(peer).is_none() {
            self.answer_questions(port, peer);
            self.ask_stalled(port, peer);
        }
    }

    fn peer_gone<P: Port>(&mut self, port: &mut P, peer: PeerId, why: PeerError) {
        if self.gone(peer).is_some() {
            return;
        }
        self.any_gone = true;
        self.state_mut(peer).gone = Some(why);
        self.ni.on_peer_gone(port, peer, why);
        self.drain_events(port);
        self.fail_sends(port, peer, why);
        self.fail_recvs(port, peer, why);
        self.fins.retain(|fin| fin.peer != peer);
        self.state_mut(peer).rtrs = None;
        self.forget_frontier(peer);
        self.fail_probes(port, peer, why);
    }
}

impl Machine for Endpoint {
    #[inline]
    fn on_packet<P: Port>(&mut self, now: Nanos, port: &mut P, from: PeerId, packet: &Parsed) {
        self.note_time(now);
        if self.gone(from).is_some() {
            return;
        }
        let taken = if is_foreign(&packet.packet) {
            self.ni.note_violation();
            Taken::Violation
        } else {
            self.ni.on_packet(port, from, packet)
        };
        self.drain_events(port);
        match taken {
            Taken::Fine { brought_credits } => {
                if self.astray.take().is_some() {
                    self.ni.note_violation();
                    return self.peer_gone(port, from, PeerError::Protocol);
                }
                if brought_credits {
                    self.on_credits(port, from);
                }
                if spends_data(&packet.packet) && self.ni.is_exhausted(from) {
                    self.on_exhausted(port, from);
                }
            }
            Taken::Above { brought_credits } => {
                // What can go by itself need not be told of.
                if brought_credits {
                    self.on_credits(port, from);
                }
                if !self.on_packet_of_ours(port, from, &packet.packet) {
                    self.ni.note_violation();
                    self.peer_gone(port, from, PeerError::Protocol);
                }
            }
            Taken::Violation => self.peer_gone(port, from, PeerError::Protocol),
        }
    }

    fn on_connected<P: Port>(&mut self, now: Nanos, port: &mut P, peer: PeerId, opened: Opened) {
        self.note_time(now);
        let connected = self.ni.on_connected(port, peer, opened);
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
        self.ni.on_transmitted(port, token);
        self.drain_events(port);
    }

    fn on_moved<P: Port>(
        &mut self,
        now: Nanos,
        port: &mut P,
        token: Token,
        outcome: Result<(), RailError>,
    ) {
        self.note_time(now);
        match Moved::of(token) {
            Some(Moved::Recv(handle)) => self.on_read_shared(port, handle, outcome),
            Some(Moved::Send(handle)) => self.on_written_out(port, handle, outcome),
            None => self.ni.on_moved(port, token, outcome),
        }
        self.drain_events(port);
    }

    fn on_peer_gone<P: Port>(&mut self, now: Nanos, port: &mut P, peer: PeerId, why: PeerError) {
        self.note_time(now);
        self.peer_gone(port, peer, why);
    }

    #[inline]
    fn on_idle<P: Port>(&mut self, now: Nanos, port: &mut P) {
        self.note_time(now);
        self.ni.on_idle(port);
        self.flush_pulls(port);
        if !self.stalled.is_empty() {
            self.flush_stalled(now, port);
        }
        for peer in std::mem::take(&mut self.owing) {
            self.speak(port, peer);
        }
    }

    fn deadline(&self) -> Option<Nanos> {
        // Without a credit only the peer can help, and time cannot.
        self.stalled
            .iter()
            .filter(|peer| self.ni.data_credits(**peer) > 0)
            .filter_map(|peer| {
                // Nor can it with one that the peer was told of.
                let state = self.peer_state(*peer)?;
                state.queue.front()?;
                state.stalled_since
            })
            .map(|since| since.saturating_add(self.config.patience))
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
