//! What a world tells the endpoint.

use super::Endpoint;
use super::remote::is_remote;
use crate::api::Space;
use crate::offer::{answer_questions, on_decline, on_search, on_watch};
use crate::rendezvous::moved::Moved;
use crate::rendezvous::sender::{on_cts, on_written_out};
use crate::rendezvous::speculative::on_rtr;
use crate::start::Attempt;
use sluice_link::{Machine, Opened, PeerError, Port, RailError, TaggedEnd, Token, Told};
use sluice_portals::Taken;
use sluice_wire::{Nanos, Packet, Parsed, PeerId, PlainParsed, Put, Region, RemoteKey};

impl Machine for Endpoint {
    #[inline]
    fn on_packet<P: Port>(&mut self, now: Nanos, port: &mut P, from: PeerId, packet: &Parsed) {
        self.core.note_time(now);
        if self.core.peers.gone(from).is_some() {
            return;
        }
        let taken = if is_foreign(port, &packet.packet) {
            self.core.ni.note_violation();
            Taken::Violation
        } else {
            self.core.ni.on_packet(port, from, packet)
        };
        self.drain_events(port);
        match taken {
            Taken::Fine { brought_credits } => {
                self.after_packet(port, from, brought_credits, spends_data(&packet.packet));
            }
            Taken::Above { brought_credits } => {
                // What can go by itself need not be told of.
                if brought_credits {
                    self.on_credits(port, from);
                }
                if !self.on_packet_of_ours(port, from, &packet.packet) {
                    self.core.ni.note_violation();
                    self.refuse(port, from, PeerError::Protocol);
                }
            }
            Taken::Violation => self.refuse(port, from, PeerError::Protocol),
        }
    }

    #[inline]
    fn on_plain<P: Port>(&mut self, now: Nanos, port: &mut P, from: PeerId, packet: &PlainParsed) {
        if port.tag_matching().is_some() {
            // Such a message may be none of this endpoint's.
            return self.on_packet(now, port, from, &packet.parsed());
        }
        self.core.note_time(now);
        if self.core.peers.gone(from).is_some() {
            return;
        }
        let (taken, landed) = self.core.ni.on_plain(port, from, packet);
        let Taken::Fine { brought_credits } = taken else {
            return self.refuse(port, from, PeerError::Protocol);
        };
        if let Some(landed) = &landed {
            self.on_landed(port, from, landed);
        }
        // One that has landed is no event; what waited for credits may have caused some.
        if landed.is_none() || brought_credits && !self.core.ni.eq_is_empty(self.core.eq) {
            self.drain_events(port);
        }
        self.after_packet(port, from, brought_credits, true);
    }

    fn placement(&self, from: PeerId, packet: &Parsed) -> Option<Region> {
        if self.core.peers.gone(from).is_some() {
            return None;
        }
        self.core.ni.placement(from, packet)
    }

    fn on_connected<P: Port>(&mut self, now: Nanos, port: &mut P, peer: PeerId, opened: Opened) {
        self.core.note_time(now);
        let connected = self.core.ni.on_connected(port, peer, opened);
        self.drain_events(port);
        if let Err(why) = connected {
            return self.refuse(port, peer, why);
        }
        self.on_credits(port, peer);
        if !self.exhausted.is_tracking() && port.tag_matching().is_none() {
            self.rtrs.announce_posted(&mut self.core, &mut self.recvs, port, peer);
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
        let Endpoint { core, sends, stalled, recvs, pulls, .. } = self;
        core.note_time(now);
        match Moved::of(token) {
            Some(Moved::Recv(handle)) => pulls.on_read_shared(core, recvs, port, handle, outcome),
            Some(Moved::Send(handle)) => {
                on_written_out(core, sends, stalled, &mut pulls.fins, port, handle, outcome);
            }
            None => core.ni.on_moved(port, token, outcome),
        }
        self.drain_events(port);
    }

    fn on_tagged<P: Port>(&mut self, now: Nanos, port: &mut P, token: Token, end: TaggedEnd) {
        self.core.note_time(now);
        self.on_end_at_rail(port, token, end);
        self.serve_crowded(port);
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
        self.serve_crowded(port);
        self.pulls.flush(&mut self.core, &mut self.recvs, port);
        self.pulls.end_patience(&mut self.core, &mut self.recvs, port);
        if !self.stalled.is_empty() {
            self.stalled.flush_all(&mut self.core, &mut self.sends, port, now);
        }
        if self.core.peers.is_control_pending() {
            self.speak_to_all(port);
        }
    }

    fn deadline(&self) -> Option<Nanos> {
        let deadlines = [self.stalled.deadline(&self.core), self.pulls.deadline()];
        deadlines.into_iter().flatten().min()
    }

    fn told(&self) -> Told {
        let stats = self.stats();
        let mut peers = self.links().told();
        for told in &mut peers {
            if let Some(state) = self.core.peers.get(told.peer) {
                told.stalls = state.queue.given();
                told.stalled = state.queued_until(self.core.now);
                told.waiting = state.queue.len() as u64;
                told.waits_since = state.stalled_since.filter(|_| told.waiting > 0);
            }
        }
        Told {
            eager: stats.eager_sent,
            announced: stats.rendezvous_sent,
            asked_for: stats.asked_for,
            unexpected: stats.unexpected,
            unexpected_now: stats.unexpected_now,
            unexpected_bytes_now: stats.unexpected_bytes_now,
            unexpected_bytes_peak: stats.unexpected_bytes_peak,
            violations: stats.violations,
            peers,
        }
    }
}

impl Endpoint {
    /// What follows a packet that is sound.
    #[inline(always)]
    fn after_packet<P: Port>(
        &mut self,
        port: &mut P,
        from: PeerId,
        brought_credits: bool,
        spends_data: bool,
    ) {
        if self.rtrs.take_mismatch() {
            self.core.ni.note_violation();
            return self.refuse(port, from, PeerError::Protocol);
        }
        if brought_credits {
            self.on_credits(port, from);
        }
        if spends_data && self.core.ni.is_exhausted(from) {
            self.on_exhausted(port, from);
        }
    }

    /// What waited for credits of a peer may go on.
    fn on_credits<P: Port>(&mut self, port: &mut P, from: PeerId) {
        if !self.stalled.is_empty() {
            let Endpoint { core, sends, stalled, .. } = self;
            stalled.flush_peer(core, sends, port, from, Attempt::Again);
        }
        self.pulls.flush(&mut self.core, &mut self.recvs, port);
        if self.core.peers.is_control_pending() {
            self.core.peers.end_pending_control(from);
            self.speak(port, from);
        }
        self.pulls.go_on_inviting(&mut self.core, &mut self.recvs, port, from);
    }

    /// What the layer below does not know. False if it breaks the protocol.
    fn on_packet_of_ours<P: Port>(&mut self, port: &mut P, from: PeerId, packet: &Packet) -> bool {
        let Endpoint { core, sends, recvs, pulls, .. } = self;
        match packet {
            Packet::Rtr(rtr) => on_rtr(core, port, from, rtr),
            Packet::Cts(cts) => on_cts(core, sends, port, from, cts),
            Packet::Written(written) => pulls.on_written(core, recvs, port, from, written),
            _ => self.on_stall_packet(port, from, packet),
        }
    }

    /// Packets about messages that wait. False if it breaks the protocol.
    #[cold]
    #[inline(never)]
    fn on_stall_packet<P: Port>(&mut self, port: &mut P, from: PeerId, packet: &Packet) -> bool {
        let Endpoint { core, sends, stalled, .. } = self;
        match packet {
            Packet::Search(search) if on_search(core, from, search) => {
                answer_questions(core, sends, port, from);
            }
            Packet::Watch(watch) if on_watch(core, from, watch) => {
                answer_questions(core, sends, port, from);
            }
            Packet::Decline(decline) if on_decline(core, sends, port, from, decline.number) => {
                stalled.flush_peer(core, sends, port, from, Attempt::First);
            }
            Packet::Waiting(waiting) => return self.on_waiting(port, from, waiting),
            _ => return false,
        }
        true
    }

    #[cold]
    #[inline(never)]
    fn speak_to_all<P: Port>(&mut self, port: &mut P) {
        for peer in self.core.peers.take_pending_control() {
            self.speak(port, peer);
        }
    }

    /// Says to a peer what is to be said of messages that wait, here or there.
    fn speak<P: Port>(&mut self, port: &mut P, peer: PeerId) {
        if self.core.peers.gone(peer).is_none() {
            answer_questions(&mut self.core, &mut self.sends, port, peer);
            self.ask_stalled(port, peer);
        }
    }

    /// This endpoint itself gives a peer up, which the rail learns.
    #[cold]
    fn refuse<P: Port>(&mut self, port: &mut P, peer: PeerId, why: PeerError) {
        self.peer_gone(port, peer, why);
        port.refuse(peer);
    }

    fn peer_gone<P: Port>(&mut self, port: &mut P, peer: PeerId, why: PeerError) {
        if self.core.peers.gone(peer).is_some() {
            return;
        }
        self.core.peers.note_gone(peer, why);
        self.core.ni.on_peer_gone(port, peer, why);
        self.drain_events(port);
        self.stalled.forget(&mut self.core, peer);
        self.sends.fail_all(&mut self.core, port, peer, why);
        self.fail_recvs(port, peer, why);
        self.pulls.fins.forget(peer);
        self.exhausted.forget(peer);
        self.core.peers.forget_asked(peer);
        self.fail_probes(port, peer, why);
    }
}

/// Packets that take the last data credits of their sender, or give them back:
/// what an endpoint sends of the data region.
#[inline]
fn spends_data(packet: &Packet) -> bool {
    match packet {
        Packet::Put(put) => !put.by_control,
        Packet::Atomic(atomic) => !atomic.by_control,
        Packet::ReturnRequest | Packet::ReturnResponse(_) => true,
        _ => false,
    }
}

/// Packets of the engine below that no endpoint sends.
#[inline]
fn is_foreign<P: Port>(port: &mut P, packet: &Packet) -> bool {
    match packet {
        Packet::Put(put) => {
            !is_remote(put.pt_index) && (put.bulk.is_some() || is_misled(port, put))
        }
        Packet::Get(get) => !is_remote(get.pt_index) && get.into != RemoteKey::NONE,
        Packet::Atomic(atomic) => !is_remote(atomic.pt_index),
        Packet::Recovery(_) => true,
        Packet::Ack(_)
        | Packet::Reply(_)
        | Packet::GetDone(_)
        | Packet::Credit
        | Packet::Offer(_)
        | Packet::Pull(_)
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

/// A message, where a rail matches those: no peer sends one as a packet then.
#[inline]
fn is_misled<P: Port>(port: &mut P, put: &Put) -> bool {
    port.tag_matching().is_some() && Space::named(put.pt_index).is_some()
}
