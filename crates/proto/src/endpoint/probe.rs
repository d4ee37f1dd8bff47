//! Probes: looking for an unexpected message, claiming it, dropping it. One
//! that finds none asks the senders that may be stalled (`stalled`).
//!
//! A probe takes its place among the receives, and is gone with its answers. It
//! looks at what has arrived once more before each of them counts: what came
//! meanwhile is older than what waits.

use super::Endpoint;
use super::at_rail::matching;
use crate::api::{Completion, Failure, Probe, Recv, Refused, Space};
use crate::probes::drop_message;
use crate::rendezvous::pull::Announced;
use crate::request::{Claimed, ProbeOp, RecvOp};
use sluice_link::Port;
use sluice_portals::{Event, Handle};
use sluice_wire::{Nanos, Region};

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
        if self.probes.is_full() || self.core.is_unread() {
            return Err(Refused::Again);
        }
        if port.tag_matching().is_some() {
            self.probe_at_rail(port, probe);
            return Ok(());
        }
        if self.probe_arrived(port, probe) {
            return Ok(());
        }
        self.exhausted.forget_supplied(&self.core);
        let pending = self.exhausted.able_to_fill(probe.source);
        if pending.is_empty() {
            let failure = self.failure_of(port, probe);
            self.core.complete(Completion::of_vain_probe(probe, failure));
            return Ok(());
        }
        let serial = self.recvs.take_serial();
        let peers = pending.clone();
        let handle = self.probes.insert(ProbeOp { probe: *probe, serial, pending })?;
        self.exhausted.enter_probe(probe.source, serial, handle);
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
        let (handle, event, claimed) = self.begin_claimed(context, buf, report)?;
        if let Some(name) = claimed.at_rail {
            matching(port).take(name, buf);
        }
        self.receive_claimed(port, handle, &event, claimed.taken);
        Ok(())
    }

    /// A receive of what was claimed, which has that for its message from now on: its name, and
    /// the event that tells of the message.
    pub(super) fn begin_claimed(
        &mut self,
        context: u64,
        buf: Region,
        report: bool,
    ) -> Result<(Handle<RecvOp>, Event, Claimed), Refused> {
        let (at, mut event) = self.probes.claimed(context)?;
        let recv = Recv {
            space: Space::of(event.pt_index),
            source: Some(event.peer),
            buf,
            tag: event.match_bits.0,
            ignore: 0,
            context,
            report,
        };
        if self.recvs.is_full() || self.core.is_unread() {
            return Err(Refused::Again);
        }
        let (handle, _) = self.recvs.insert(&recv, None);
        event.user_ptr = handle.to_u64();
        Ok((handle, event, self.probes.end_claim(at)))
    }

    /// Fetches what was claimed if it was announced; else it is told of.
    pub(super) fn receive_claimed<P: Port>(
        &mut self,
        port: &mut P,
        handle: Handle<RecvOp>,
        event: &Event,
        taken: bool,
    ) {
        match event.rts() {
            Some(rts) => {
                let message = Announced { event: *event, rts, taken, recv: None };
                self.pulls.start(&mut self.core, &mut self.recvs, port, handle, message);
            }
            None => self.on_matched(port, event),
        }
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
        let (at, event) = self.probes.claimed(context)?;
        let Claimed { taken, at_rail, .. } = self.probes.end_claim(at);
        if let Some(name) = at_rail {
            matching(port).take(name, Region::EMPTY);
        }
        drop_message(&mut self.core, &mut self.pulls.fins, port, &event, taken);
        if self.core.tells(report) {
            self.core.complete(Completion::of_discarded(context, &event, report));
        }
        Ok(())
    }

    /// Answers a probe from what has arrived. False if nothing of it matches.
    pub(super) fn probe_arrived<P: Port>(&mut self, port: &mut P, probe: &Probe) -> bool {
        self.probes.answer_arrived(&mut self.core, &mut self.pulls.fins, port, probe)
    }

    /// Why a probe finds nothing: a source that is gone is named, as who probes in a
    /// loop would wait for it for ever.
    pub(super) fn failure_of<P: Port>(&self, port: &mut P, probe: &Probe) -> Failure {
        let Some(peer) = probe.source else { return Failure::NoMessage };
        match self.core.await_peer(port, peer) {
            Ok(()) => Failure::NoMessage,
            Err(why) => Failure::PeerGone { peer, why },
        }
    }
}
