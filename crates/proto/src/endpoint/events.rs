//! The events of the interface: messages that have met their receives, and ends.

use super::Endpoint;
use super::remote::is_remote;
use crate::api::{Completion, Failure};
use crate::completion::Met;
use crate::rendezvous::pull::Announced;
use crate::rendezvous::rtr_throttle::Use;
use crate::rendezvous::sender::end_exposed;
use crate::request::{RecvOp, SendState, Shape};
use sluice_link::{ClaimsId, Port};
use sluice_portals::{EqTaken, Event, EventKind, Handle, Landed, NiFail};
use sluice_wire::{PeerId, Rts};

impl Endpoint {
    /// Handles every event that the last call into the interface caused.
    #[inline]
    pub(super) fn drain_events<P: Port>(&mut self, port: &mut P) {
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

    /// A message has met its receive.
    #[inline(always)]
    pub(super) fn on_matched<P: Port>(&mut self, port: &mut P, event: &Event) {
        let handle = Handle::from_u64(event.user_ptr);
        if self.exhausted.is_tracking() {
            self.leave_order(handle);
        }
        if let Some(rts) = event.rts() {
            self.on_announcement(port, handle, event, rts);
            return;
        }
        let Some(op) = self.recvs.get(handle) else {
            // An entry outlives its receive; the names of regions are no receive's.
            return self.on_remote_event(port, event);
        };
        if let Some(hold) = event.hold {
            let buf = op.recv.buf;
            let fits = event.rlength.min(buf.len);
            if fits > 0 {
                port.copy(event.start, buf.addr, fits);
            }
            self.core.ni.end_hold(port, hold);
        }
        self.end_recv(port, handle, &Met::of(event), event.rlength, event.outcome);
    }

    /// A message has landed in the buffer of its receive.
    #[inline(always)]
    pub(super) fn on_landed<P: Port>(&mut self, port: &mut P, from: PeerId, landed: &Landed) {
        let handle = Handle::from_u64(landed.user_ptr);
        if self.exhausted.is_tracking() {
            self.leave_order(handle);
        }
        self.end_recv(port, handle, &Met::with(from, &landed.plain), landed.rlength, Ok(()));
    }

    /// A receive ends whose message, of `rlength` bytes, is in its buffer as far as it fits, if it
    /// has `landed`.
    #[inline(always)]
    fn end_recv<P: Port>(
        &mut self,
        port: &mut P,
        handle: Handle<RecvOp>,
        met: &Met,
        rlength: u64,
        landed: Result<(), NiFail>,
    ) {
        if self.recvs.get(handle).is_some_and(|op| op.announced.is_some()) {
            // A long one came with its bytes because this process looked. The next one may find
            // it at work.
            let is_long = rlength > u64::from(self.core.config.eager_bytes_max);
            let used = if is_long { Use::Spared } else { Use::InVain };
            self.rtrs.end(&mut self.core, &mut self.recvs, port, handle, used);
        }
        let Some(op) = self.recvs.get(handle) else { return };
        let recv = &op.recv;
        let fits = rlength.min(recv.buf.len);
        let outcome = if let Err(fail) = landed {
            Err(Failure::of(fail, met.peer))
        } else if rlength > fits {
            Err(Failure::Truncated { excess: rlength - fits })
        } else {
            Ok(())
        };
        if self.core.tells(recv.report) || outcome.is_err() {
            self.core.complete(Completion::of_recv(recv, met, fits, outcome));
        }
        let shape = op.shape;
        self.recvs.discard(handle);
        match shape {
            Shape::Whole => {}
            Shape::Part(multi) => {
                self.go_on(port, multi, fits);
                self.recvs.multis.message_ended(&mut self.core, multi);
            }
            Shape::Pieces(pieces) => self.recvs.forget_pieces(pieces),
        }
    }

    /// An announcement has met its receive.
    #[inline(never)]
    fn on_announcement<P: Port>(
        &mut self,
        port: &mut P,
        handle: Handle<RecvOp>,
        event: &Event,
        rts: Rts,
    ) {
        if let Some(multi) = self.recvs.get(handle).and_then(RecvOp::multi) {
            self.go_on(port, multi, rts.total_len);
        }
        let Endpoint { core, recvs, rtrs, pulls, .. } = self;
        let named = rts.claims.map(ClaimsId);
        let recv = rtrs.on_announcement(core, recvs, port, handle, event.peer, named);
        let message = Announced { event: *event, rts, taken: false, recv };
        pulls.start(core, recvs, port, handle, message);
    }

    #[inline(never)]
    fn on_other_event<P: Port>(&mut self, port: &mut P, event: Event) {
        let event = &event;
        if is_remote(event.pt_index) {
            return self.on_remote_event(port, event);
        }
        match event.kind {
            EventKind::Reply => {
                self.pulls.on_pulled(&mut self.core, &mut self.recvs, port, event);
            }
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

    /// A send that waited for its end has it.
    fn on_send_ended<P: Port>(&mut self, port: &mut P, event: &Event) {
        let Endpoint { core, sends, stalled, .. } = self;
        let handle = Handle::from_u64(event.user_ptr);
        let Some(op) = sends.get_mut(handle) else { return };
        let expected = match event.kind {
            EventKind::Send => {
                if let SendState::Acking { read } = &mut op.state {
                    *read = true;
                }
                op.state == SendState::Transmitting || event.outcome.is_err()
            }
            EventKind::Ack => matches!(op.state, SendState::Acking { .. }),
            EventKind::GetDone => {
                let exposed = matches!(op.state, SendState::Announced(_) | SendState::Offered(..));
                if exposed && op.send.peer == event.peer {
                    end_exposed(core, sends, stalled, port, handle, event.outcome);
                }
                return;
            }
            _ => false,
        };
        if expected {
            sends.end(core, port, handle, event.outcome);
        }
    }

    #[cold]
    #[inline(never)]
    fn leave_order(&mut self, handle: Handle<RecvOp>) {
        if let Some(op) = self.recvs.get(handle) {
            self.exhausted.leave(op.recv.source, op.serial);
        }
    }
}
