//! Receives: posting, matching, cancelling.

use crate::api::{Completion, Failure, Recv, Refused};
use crate::endpoint::Endpoint;
use crate::portal::entry_for;
use crate::rendezvous::ability::shared;
use crate::request::{RecvOp, RecvState};
use sluice_link::{PeerError, Port, SharedCopy, Tally};
use sluice_portals::{Event, Handle, List};
use sluice_wire::{Nanos, PeerId, Rts};

impl Endpoint {
    /// Takes a receive.
    ///
    /// # Errors
    /// [`Refused`]; the request leaves no trace then.
    ///
    /// # Panics
    /// Never: the interface has the entries that the endpoint uses.
    #[inline]
    pub fn recv<P: Port>(&mut self, now: Nanos, port: &mut P, recv: &Recv) -> Result<(), Refused> {
        let before = self.footprint_to_check(recv.source);
        let taken = self.take_recv(now, port, recv);
        self.check_refusal(before, taken)
    }

    #[inline(always)]
    fn take_recv<P: Port>(&mut self, now: Nanos, port: &mut P, recv: &Recv) -> Result<(), Refused> {
        self.core.note_time(now);
        if self.recvs.is_full() {
            return Err(Refused::Again);
        }
        let handle = self.recvs.next_handle();
        let spec = entry_for(recv, handle.to_u64());
        let Ok(entry) = self.core.ni.me_append(port, recv.space.pt(), List::Priority, spec) else {
            return Err(Refused::Again);
        };
        let serial = self.next_serial;
        self.next_serial += 1;
        let op = RecvOp { recv: *recv, serial, state: RecvState::Posted(entry), announced: None };
        let inserted = self.recvs.insert(op);
        assert!(inserted.is_ok_and(|inserted| inserted == handle), "room was checked");
        if entry.is_none() {
            self.drain_events(port);
            return Ok(());
        }
        if let Some(source) = recv.source
            && let Err(why) = self.core.await_peer(port, source)
        {
            // Nobody will ever fill it if its only source is gone.
            self.fail_posted(handle, source, why);
        } else if self.order.is_some() {
            self.on_posted_while_short(port, recv.source, serial, handle);
        } else if self.core.config.table().minds_who_is_first(recv.buf.len) {
            self.announce(port, handle, recv);
        }
        Ok(())
    }

    /// Cancels the oldest pending receive with this `context`. True if one was
    /// found unmatched: its completion says [`Failure::Cancelled`].
    pub fn cancel<P: Port>(&mut self, _now: Nanos, port: &mut P, context: u64) -> bool {
        let oldest = self
            .recvs
            .iter()
            .filter(|(_, op)| op.recv.context == context && op.is_posted())
            .min_by_key(|(_, op)| op.serial)
            .map(|(handle, _)| handle);
        let Some(handle) = oldest else { return false };
        // Its message is on its way if the source has used it.
        let announced = self.recvs.get(handle).and_then(|op| op.announced);
        if announced.is_some_and(|tally| !shared(port).revoke_tally(tally)) {
            return false;
        }
        let Some(op) = self.recvs.remove(handle) else { return false };
        if let (Some(peer), Some(_)) = (op.recv.source, announced) {
            self.core.peers.state_mut(peer).announced -= 1;
        }
        if let RecvState::Posted(Some(entry)) = op.state {
            let unlinked = self.core.ni.me_unlink(entry);
            assert!(unlinked.is_ok(), "a posted receive's entry is linked");
        }
        self.leave_order(op.recv.source, op.serial);
        self.core.complete(Completion::of_unmatched(&op.recv, Failure::Cancelled));
        true
    }

    /// A message has met its receive.
    #[inline(always)]
    pub(crate) fn on_matched<P: Port>(&mut self, port: &mut P, event: &Event) {
        let handle = Handle::from_u64(event.user_ptr);
        if self.order.is_some() {
            self.on_matched_while_short(handle);
        }
        if let Some(rts) = event.rts() {
            self.on_announcement(port, handle, event, rts);
            return;
        }
        let Some(op) = self.recvs.get(handle) else {
            unreachable!("an entry outlives its receive")
        };
        if op.announced.is_some() {
            self.end_announced(port, handle, false);
        }
        let Some(op) = self.recvs.get(handle) else { return };
        let recv = &op.recv;
        let fits = event.rlength.min(recv.buf.len);
        if let Some(hold) = event.hold {
            if fits > 0 {
                port.copy(event.start, recv.buf.addr, fits);
            }
            self.core.ni.end_hold(port, hold);
        }
        let outcome = if event.rlength > fits {
            Err(Failure::Truncated { excess: event.rlength - fits })
        } else {
            Ok(())
        };
        if recv.report || outcome.is_err() {
            self.core.completions.push_back(Completion::of_recv(recv, event, fits, outcome));
        }
        self.recvs.discard(handle);
    }

    /// An announcement has met its receive.
    fn on_announcement<P: Port>(
        &mut self,
        port: &mut P,
        handle: Handle<RecvOp>,
        event: &Event,
        rts: Rts,
    ) {
        let announced = self.recvs.get(handle).and_then(|op| op.announced);
        let tally = rts.tally.map(Tally);
        if tally.is_some() && tally != announced {
            // The message is taken all the same: its receive would be lost else.
            self.astray = Some(event.peer);
        }
        let used = tally.filter(|_| tally == announced);
        if announced.is_some() {
            self.end_announced(port, handle, used.is_some());
        }
        self.start_pull(port, handle, *event, rts, false, used);
    }

    /// Ends every receive that only a peer that is gone could fill, or was
    /// filling.
    pub(crate) fn fail_recvs<P: Port>(&mut self, port: &mut P, peer: PeerId, why: PeerError) {
        let posted: Vec<_> = self
            .recvs
            .iter()
            .filter(|(_, op)| {
                op.recv.source == Some(peer) && matches!(op.state, RecvState::Posted(_))
            })
            .map(|(handle, _)| handle)
            .collect();
        for handle in posted {
            self.end_announced(port, handle, false);
            self.fail_posted(handle, peer, why);
        }
        self.fail_pulls(port, peer, why);
    }

    fn fail_posted(&mut self, handle: Handle<RecvOp>, peer: PeerId, why: PeerError) {
        let Some(op) = self.recvs.remove(handle) else { return };
        if let RecvState::Posted(Some(entry)) = op.state {
            let unlinked = self.core.ni.me_unlink(entry);
            assert!(unlinked.is_ok(), "a posted receive's entry is linked");
        }
        self.leave_order(op.recv.source, op.serial);
        self.core.complete(Completion::of_unmatched(&op.recv, Failure::PeerGone { peer, why }));
    }

    /// A receive or a probe has ended, or met its message.
    pub(crate) fn leave_order(&mut self, source: Option<PeerId>, serial: u64) {
        if let Some(order) = &mut self.order {
            order.remove(source, serial);
        }
    }

    #[cold]
    #[inline(never)]
    fn on_matched_while_short(&mut self, handle: Handle<RecvOp>) {
        if let Some(op) = self.recvs.get(handle) {
            let (source, serial) = (op.recv.source, op.serial);
            self.leave_order(source, serial);
        }
    }
}
