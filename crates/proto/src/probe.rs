//! Probes: looking for an unexpected message, claiming it, dropping it. One
//! that finds none asks the senders that may be stalled (`frontier`).

use crate::api::{Completion, Failure, Probe, ProbeAction, Recv, Refused};
use crate::endpoint::Endpoint;
use crate::order::Asker;
use crate::portal::entry_for;
use crate::request::{Claimed, ProbeOp, RecvOp, RecvState};
use sluice_link::{PeerError, Port};
use sluice_portals::{EqTaken, Event, EventKind, Handle, SearchOp};
use sluice_wire::{Nanos, PeerId, Region};

/// Most messages that may be claimed and not yet received.
const CLAIMED_MAX: usize = 1 << 16;

impl Endpoint {
    /// Looks for an unexpected message. The answer is a completion, pushed
    /// before this returns unless it depends on senders that are stalled; then
    /// it comes when they have answered.
    ///
    /// # Errors
    /// [`Refused::Again`] if too many messages are claimed, or too many probes
    /// wait.
    ///
    /// # Panics
    /// Never: the interface has the entries that the endpoint uses.
    pub fn probe<P: Port>(
        &mut self,
        _now: Nanos,
        port: &mut P,
        probe: &Probe,
    ) -> Result<(), Refused> {
        let before = self.footprint_to_check(probe.source);
        let taken = self.take_probe(port, probe);
        self.check_refusal(before, taken)
    }

    fn take_probe<P: Port>(&mut self, port: &mut P, probe: &Probe) -> Result<(), Refused> {
        let claims_max = self.claimed.len() + self.probes.len() as usize;
        if claims_max >= CLAIMED_MAX || self.probes.is_full() {
            return Err(Refused::Again);
        }
        if self.probe_arrived(port, probe) {
            return Ok(());
        }
        self.forget_supplied();
        let can_fill = |peer: &&PeerId| probe.source.is_none_or(|source| source == **peer);
        let pending: Vec<PeerId> = self.short.iter().filter(can_fill).copied().collect();
        if pending.is_empty() {
            let failure = self.failure_of(port, probe);
            self.core.complete(Completion::of_vain_probe(probe, failure));
            return Ok(());
        }
        let serial = self.next_serial;
        self.next_serial += 1;
        let peers = pending.clone();
        let Ok(handle) = self.probes.insert(ProbeOp { probe: *probe, serial, pending }) else {
            return Err(Refused::Again);
        };
        if let Some(order) = &mut self.order {
            order.insert(probe.source, serial, Asker::Probe(handle));
        }
        for peer in peers {
            self.ask_stalled(port, peer);
        }
        Ok(())
    }

    /// Receives the message claimed by the probe with this `context`.
    ///
    /// # Errors
    /// [`Refused::NotClaimed`] if there is none, [`Refused::Again`].
    pub fn recv_claimed<P: Port>(
        &mut self,
        now: Nanos,
        port: &mut P,
        context: u64,
        buf: Region,
        report: bool,
    ) -> Result<(), Refused> {
        self.core.note_time(now);
        let at = self.claimed_at(context)?;
        let mut event = self.claimed[at].event;
        let recv = Recv {
            space: crate::api::Space::of(event.pt_index),
            source: Some(event.peer),
            buf,
            tag: event.match_bits.0,
            ignore: 0,
            context,
            report,
        };
        let serial = self.next_serial;
        let op = RecvOp { recv, serial, state: RecvState::Posted(None), announced: None };
        let Ok(handle) = self.recvs.insert(op) else {
            return Err(Refused::Again);
        };
        self.next_serial += 1;
        let taken = self.claimed.swap_remove(at).taken;
        event.user_ptr = handle.to_u64();
        match event.rts() {
            Some(rts) => self.start_pull(port, handle, event, rts, taken, None),
            None => self.on_matched(port, &event),
        }
        Ok(())
    }

    /// Drops the message claimed by the probe with this `context`; completes
    /// like a receive of no bytes.
    ///
    /// # Errors
    /// [`Refused::NotClaimed`] if there is none.
    pub fn discard_claimed<P: Port>(
        &mut self,
        _now: Nanos,
        port: &mut P,
        context: u64,
        report: bool,
    ) -> Result<(), Refused> {
        let at = self.claimed_at(context)?;
        let Claimed { event, taken, .. } = self.claimed.swap_remove(at);
        self.drop_message(port, &event, taken);
        if report {
            self.core.complete(Completion::of_discarded(context, &event));
        }
        Ok(())
    }

    /// Why a probe finds nothing: a source that is gone is named, as who probes in a
    /// loop would wait for it for ever.
    fn failure_of<P: Port>(&mut self, port: &mut P, probe: &Probe) -> Failure {
        let Some(peer) = probe.source else { return Failure::NoMessage };
        match self.core.await_peer(port, peer) {
            Ok(()) => Failure::NoMessage,
            Err(why) => Failure::PeerGone { peer, why },
        }
    }

    fn claimed_at(&self, context: u64) -> Result<usize, Refused> {
        let at = self.claimed.iter().position(|claimed| claimed.context == context);
        at.ok_or(Refused::NotClaimed)
    }

    /// A stalled sender has found a message for a probe. False if that has no
    /// use for it.
    pub(crate) fn probe_found<P: Port>(
        &mut self,
        port: &mut P,
        handle: Handle<ProbeOp>,
        event: &Event,
    ) -> bool {
        let Some(op) = self.probes.remove(handle) else { return false };
        self.leave_order(op.probe.source, op.serial);
        if self.probe_arrived(port, &op.probe) {
            return false;
        }
        self.core.complete(Completion::of_probe(&op.probe, event));
        if op.probe.action == ProbeAction::Peek {
            return false;
        }
        self.core.stats.asked_for += 1;
        self.note_taken(event.peer);
        match op.probe.action {
            ProbeAction::Claim => {
                let (context, event) = (op.probe.context, *event);
                self.claimed.push(Claimed { context, event, taken: true });
            }
            ProbeAction::Peek | ProbeAction::Discard => self.drop_message(port, event, true),
        }
        true
    }

    /// A stalled sender has nothing for a probe.
    pub(crate) fn probe_missed<P: Port>(
        &mut self,
        port: &mut P,
        handle: Handle<ProbeOp>,
        peer: PeerId,
    ) {
        let Some(op) = self.probes.get_mut(handle) else { return };
        op.pending.retain(|pending| *pending != peer);
        if op.pending.is_empty() {
            self.end_probe(port, handle, Failure::NoMessage);
        }
    }

    /// Ends the probes for which only a peer that is gone could answer; others
    /// do without its answer.
    pub(crate) fn fail_probes<P: Port>(&mut self, port: &mut P, peer: PeerId, why: PeerError) {
        let waits = |op: &ProbeOp| op.pending.contains(&peer);
        let doomed = self.probes.iter().filter(|(_, op)| waits(op));
        let doomed: Vec<_> = doomed.map(|(handle, op)| (handle, op.probe.source)).collect();
        for (handle, source) in doomed {
            match source {
                Some(_) => self.end_probe(port, handle, Failure::PeerGone { peer, why }),
                None => self.probe_missed(port, handle, peer),
            }
        }
    }

    /// Ends a probe with what has arrived meanwhile, or with a failure.
    fn end_probe<P: Port>(&mut self, port: &mut P, handle: Handle<ProbeOp>, failure: Failure) {
        let Some(op) = self.probes.remove(handle) else { return };
        self.leave_order(op.probe.source, op.serial);
        if !self.probe_arrived(port, &op.probe) {
            self.core.complete(Completion::of_vain_probe(&op.probe, failure));
        }
    }

    /// Answers a probe from what has arrived. False if nothing of it matches.
    fn probe_arrived<P: Port>(&mut self, port: &mut P, probe: &Probe) -> bool {
        let op = match probe.action {
            ProbeAction::Peek => SearchOp::Only,
            ProbeAction::Claim | ProbeAction::Discard => SearchOp::Delete,
        };
        self.core
            .ni
            .me_search(port, probe.space.pt(), op, &entry_for(&wanted(probe), 0))
            .expect("the endpoint's own portal table entries exist");
        // Every earlier event has been taken out, so this is the answer.
        let EqTaken::Event(event) = self.core.ni.eq_take(self.core.eq) else {
            unreachable!("a search is always answered")
        };
        if event.outcome.is_err() {
            return false;
        }
        self.core.complete(Completion::of_probe(probe, &event));
        if event.kind == EventKind::PutOverflow {
            match probe.action {
                ProbeAction::Claim => {
                    self.claimed.push(Claimed { context: probe.context, event, taken: false });
                }
                ProbeAction::Peek | ProbeAction::Discard => {
                    self.drop_message(port, &event, false);
                }
            }
        }
        true
    }

    /// Lets go of a message that nobody will receive.
    fn drop_message<P: Port>(&mut self, port: &mut P, event: &Event, taken: bool) {
        if let Some(hold) = event.hold {
            self.core.ni.end_hold(port, hold);
        }
        if let Some(rts) = event.rts() {
            // Its sender waits for somebody to fetch it: nobody will, and MPI
            // calls that sent.
            self.finish_fetch(port, event.peer, rts.key, 0, sluice_wire::Status::Ok, taken);
        }
    }
}

/// A probe as a receive.
fn wanted(probe: &Probe) -> Recv {
    Recv {
        space: probe.space,
        source: probe.source,
        buf: Region::EMPTY,
        tag: probe.tag,
        ignore: probe.ignore,
        context: probe.context,
        report: true,
    }
}
