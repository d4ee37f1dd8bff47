//! Asking senders without credits, as the receiver: what their answers mean for the
//! receives and probes that wait.

use super::Endpoint;
use crate::api::{Completion, Failure, ProbeAction};
use crate::order::Asker;
use crate::probes::drop_message;
use crate::rendezvous::pull::Announced;
use crate::rendezvous::rtr_throttle::Use;
use crate::request::{ProbeOp, RecvOp, RecvState};
use crate::stall_cursor::{Missed, StallCursor};
use crate::wanted::Wanted;
use sluice_link::{PeerError, Port};
use sluice_portals::{Event, Handle};
use sluice_wire::{Found, MatchBits, PeerId, Waiting};

impl Endpoint {
    /// The last credit of `peer` has been spent: whatever else it has waits.
    #[cold]
    #[inline(never)]
    pub(super) fn on_exhausted<P: Port>(&mut self, port: &mut P, peer: PeerId) {
        self.exhausted.note(&mut self.core, &self.recvs, peer);
        self.ask_stalled(port, peer);
    }

    /// A receive was posted that nothing here matches, while some sender may
    /// be stalled.
    #[cold]
    #[inline(never)]
    pub(super) fn on_posted_while_tracking<P: Port>(
        &mut self,
        port: &mut P,
        source: Option<PeerId>,
        serial: u64,
        handle: Handle<RecvOp>,
    ) {
        self.exhausted.forget_supplied(&self.core);
        self.exhausted.enter_recv(&self.probes, source, serial, handle);
        if self.exhausted.is_empty() {
            return;
        }
        if let Some(peer) = source {
            return self.ask_stalled(port, peer);
        }
        let mut nth = 0;
        while let Some(peer) = self.exhausted.get(nth) {
            self.ask_stalled(port, peer);
            nth += 1;
        }
    }

    /// Says and asks what there is to be said to `peer` and asked of it, as far
    /// as control credits allow.
    pub(super) fn ask_stalled<P: Port>(&mut self, port: &mut P, peer: PeerId) {
        let Endpoint { core, recvs, probes, exhausted, .. } = self;
        if let Err(why) = exhausted.ask(core, recvs, probes, port, peer) {
            self.fail_probes(port, peer, why);
        }
    }

    /// An answer of `peer`. False if it answers nothing that was asked.
    pub(super) fn on_waiting<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        waiting: &Waiting,
    ) -> bool {
        let is_sound = match (&waiting.found, waiting.watched) {
            (Some(found), true) => self.on_watched(port, peer, waiting.number, found),
            (Some(found), false) => self.on_found(port, peer, waiting.number, found),
            (None, _) => self.on_missed(port, peer, waiting.number),
        };
        if is_sound {
            self.ask_stalled(port, peer);
        }
        is_sound
    }

    /// Ends the probes for which only a peer that is gone could answer; others
    /// do without its answer.
    pub(super) fn fail_probes<P: Port>(&mut self, port: &mut P, peer: PeerId, why: PeerError) {
        for (handle, source) in self.probes.awaiting(peer) {
            match source {
                Some(_) => self.end_probe(port, handle, Failure::PeerGone { peer, why }),
                None => self.probe_missed(port, handle, peer),
            }
        }
    }

    /// Panics unless this endpoint's cursor toward `peer`, whose endpoint is
    /// `sender` and knows this one as `own`, keeps the invariant. For tests.
    pub fn check_stall_cursor(&self, peer: PeerId, sender: &Endpoint, own: PeerId) {
        let Some(state) = self.core.peers.get(peer) else { return };
        let Some(theirs) = sender.core.peers.get(own) else { return };
        for (number, waiter) in theirs.queue.waiting() {
            for (_, op) in self.recvs.iter() {
                let counts = state.cursor.covers(op.serial, number)
                    && op.is_posted()
                    && op.recv.source.is_none_or(|source| source == peer);
                let matches = Wanted::of(&op.recv).accepts(waiter.space, waiter.tag);
                assert!(!(counts && matches), "a receive that was searched for matches");
            }
        }
    }

    fn cursor(&mut self, peer: PeerId) -> &mut StallCursor {
        &mut self.core.peers.state_mut(peer).cursor
    }

    /// A message newer than all that was seen waits at `peer`.
    fn on_watched<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        number: u64,
        found: &Found,
    ) -> bool {
        let Some(unsearched) = self.cursor(peer).on_watched(number, found) else { return false };
        let oldest = self.core.ni.me_that_matches(found.pt_index, found.match_bits, peer);
        let handle = oldest.map(Handle::from_u64);
        match handle.and_then(|handle| Some((handle, self.recvs.get(handle)?.serial))) {
            Some((handle, serial)) if serial < unsearched => {
                self.take(port, peer, number, found, handle);
            }
            // Nobody wants it, or somebody whose search will find it, unless
            // that finds an older one.
            _ => self.cursor(peer).decline(number),
        }
        true
    }

    /// A search has found a message.
    fn on_found<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        number: u64,
        found: &Found,
    ) -> bool {
        let Some(asker) = self.cursor(peer).on_found(number, found) else { return false };
        match asker {
            Asker::Recv(handle) if self.recvs.get(handle).is_some_and(RecvOp::is_posted) => {
                self.take(port, peer, number, found, handle);
            }
            // It has met another message, or was cancelled.
            Asker::Recv(_) => self.cursor(peer).decline(number),
            Asker::Probe(handle) => {
                let event = Event::of_waiting(peer, MatchBits(number), found, 0);
                if !self.probe_found(port, handle, &event) {
                    self.cursor(peer).decline(number);
                }
            }
        }
        true
    }

    /// A search has found nothing; `newest` is the newest number of all.
    fn on_missed<P: Port>(&mut self, port: &mut P, peer: PeerId, newest: u64) -> bool {
        match self.cursor(peer).on_missed(newest) {
            Missed::Unasked => return false,
            Missed::Searched(Asker::Probe(handle)) => self.probe_missed(port, handle, peer),
            Missed::Searched(Asker::Recv(_)) | Missed::AskAgain => {}
        }
        true
    }

    /// A receive takes a message that waits at `peer`, as if it had been
    /// announced.
    fn take<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        number: u64,
        found: &Found,
        handle: Handle<RecvOp>,
    ) {
        let Endpoint { core, recvs, rtrs, exhausted, .. } = self;
        let Some(op) = recvs.get(handle) else { return };
        let RecvState::Posted(Some(entry)) = op.state else { return };
        let (source, serial) = (op.recv.source, op.serial);
        rtrs.end(core, recvs, port, handle, Use::InVain);
        let unlinked = core.ni.me_unlink(entry);
        assert!(unlinked.is_ok(), "a posted receive's entry is linked");
        // This may make the order anew, of what is posted.
        exhausted.note_taken(core, recvs, peer);
        exhausted.leave(source, serial);
        core.stats.asked_for += 1;
        let event = Event::of_waiting(peer, MatchBits(number), found, handle.to_u64());
        if let Some(rts) = event.rts() {
            if let Some(multi) = self.recvs.get(handle).and_then(RecvOp::multi) {
                self.go_on(port, multi, rts.total_len);
            }
            let Endpoint { core, recvs, pulls, .. } = self;
            let message = Announced { event, rts, taken: true, recv: None };
            pulls.start(core, recvs, port, handle, message);
        }
    }

    /// A stalled sender has found a message for a probe. False if that has no
    /// use for it.
    fn probe_found<P: Port>(
        &mut self,
        port: &mut P,
        handle: Handle<ProbeOp>,
        event: &Event,
    ) -> bool {
        let Some(op) = self.probes.remove(handle) else { return false };
        self.exhausted.leave(op.probe.source, op.serial);
        if self.probe_arrived(port, &op.probe) {
            return false;
        }
        let Endpoint { core, recvs, pulls, probes, exhausted, .. } = self;
        core.complete(Completion::of_probe(&op.probe, event));
        if op.probe.action == ProbeAction::Peek {
            return false;
        }
        core.stats.asked_for += 1;
        exhausted.note_taken(core, recvs, event.peer);
        if op.probe.action == ProbeAction::Claim {
            probes.claim(op.probe.context, event, true);
        } else {
            drop_message(core, &mut pulls.fins, port, event, true);
        }
        true
    }

    /// A stalled sender has nothing for a probe.
    fn probe_missed<P: Port>(&mut self, port: &mut P, handle: Handle<ProbeOp>, peer: PeerId) {
        if self.probes.note_answer(handle, peer) {
            self.end_probe(port, handle, Failure::NoMessage);
        }
    }

    /// Ends a probe with what has arrived meanwhile, or with a failure.
    fn end_probe<P: Port>(&mut self, port: &mut P, handle: Handle<ProbeOp>, failure: Failure) {
        let Some(op) = self.probes.remove(handle) else { return };
        self.exhausted.leave(op.probe.source, op.serial);
        if !self.probe_arrived(port, &op.probe) {
            self.core.complete(Completion::of_vain_probe(&op.probe, failure));
        }
    }
}
