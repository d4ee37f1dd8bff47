//! Receives: posting, cancelling, and their end when their source is gone.

use super::Endpoint;
use crate::api::{Completion, Failure, Recv, Refused};
use crate::multi::{MultiOp, Place};
use crate::portal::entry_for;
use crate::rendezvous::ability::{revoke, shared};
use crate::rendezvous::rtr_throttle::Use;
use crate::request::{RecvOp, Shape};
use sluice_link::mutants::{self, Mutant};
use sluice_link::{PeerError, Port, SharedCopy};
use sluice_portals::{Handle, List};
use sluice_wire::{Nanos, PeerId};

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
        if self.recvs.is_full() || self.core.is_unread() {
            return Err(Refused::Again);
        }
        if port.tag_matching().is_some() {
            return self.recv_at_rail(port, recv);
        }
        let name = self.recvs.next_handle();
        let spec = entry_for(recv, name.to_u64());
        let list = recv.space.pt();
        let Ok(entry) = self.core.ni.me_append(port, list, List::Priority, spec) else {
            return Err(Refused::Again);
        };
        let (handle, serial) = self.recvs.insert(recv, entry);
        assert!(handle == name, "the entry names its receive");
        if entry.is_none() {
            self.drain_events(port);
            return Ok(());
        }
        if let Some(source) = recv.source
            && let Err(why) = self.core.await_peer(port, source)
        {
            // Nobody will ever fill it if its only source is gone.
            self.fail_posted(handle, source, why);
        } else if self.exhausted.is_tracking() {
            self.on_posted_while_tracking(port, recv.source, serial, handle);
        } else if self.core.config.table().minds_who_is_first(recv.buf.len) {
            self.rtrs.announce(&mut self.core, &mut self.recvs, port, handle, recv);
        }
        Ok(())
    }

    /// Takes a buffer for many messages, until less than `left_min` bytes are left of it.
    /// Each message has a completion with the buffer's context; one more of
    /// [`Kind::Consumed`](crate::Kind) follows the last.
    ///
    /// # Errors
    /// [`Refused`]; the request leaves no trace then.
    pub fn recv_many<P: Port>(
        &mut self,
        now: Nanos,
        port: &mut P,
        recv: &Recv,
        left_min: u64,
    ) -> Result<(), Refused> {
        self.core.note_time(now);
        if port.tag_matching().is_some() {
            return Err(Refused::NotAtRail);
        }
        if self.recvs.multis.is_full() || self.core.is_unread() {
            return Err(Refused::Again);
        }
        let multi = self.recvs.multis.insert(recv, left_min);
        if !self.post_part(port, multi, recv) {
            self.recvs.multis.forget(multi);
            return Err(Refused::Again);
        }
        self.drain_events(port);
        Ok(())
    }

    /// A message of so many bytes has met a buffer for many: the rest waits anew.
    #[cold]
    pub(super) fn go_on<P: Port>(&mut self, port: &mut P, multi: Handle<MultiOp>, len: u64) {
        if let Some(next) = self.recvs.multis.met(multi, len)
            && !self.post_part(port, multi, &next)
        {
            self.recvs.multis.give_up(multi);
        }
    }

    /// Posts what is left of a buffer for many messages. False if there is no room. What it
    /// meets at once is told by an event, which the caller sees to.
    fn post_part<P: Port>(&mut self, port: &mut P, multi: Handle<MultiOp>, recv: &Recv) -> bool {
        if self.recvs.is_full() {
            return false;
        }
        let name = self.recvs.next_handle();
        let spec = entry_for(recv, name.to_u64());
        let (list, ni) = (recv.space.pt(), &mut self.core.ni);
        let place = self.recvs.multis.place(multi);
        let entry = match place {
            None => ni.me_append(port, list, List::Priority, spec),
            Some(_) if mutants::is(Mutant::WaitsBehindOthers) => {
                ni.me_append(port, list, List::Priority, spec)
            }
            Some(place) => ni.me_put_back(port, list, spec, place.age),
        };
        let Ok(entry) = entry else { return false };
        let age = entry.and_then(|entry| ni.me_age(entry));
        let (handle, newest) = self.recvs.insert(recv, entry);
        let serial = place.map_or(newest, |place| place.serial);
        if let Some(op) = self.recvs.get_mut(handle) {
            (op.shape, op.serial) = (Shape::Part(multi), serial);
        }
        if let Some(age) = age {
            self.recvs.multis.set_place(multi, Place { age, serial });
            self.await_message(port, recv, (handle, serial));
        }
        true
    }

    /// A receive that is not announced to its source was posted, and has met nothing.
    pub(super) fn await_message<P: Port>(
        &mut self,
        port: &mut P,
        recv: &Recv,
        (handle, serial): (Handle<RecvOp>, u64),
    ) {
        if let Some(source) = recv.source
            && let Err(why) = self.core.await_peer(port, source)
        {
            self.fail_posted(handle, source, why);
        } else if self.exhausted.is_tracking() {
            self.on_posted_while_tracking(port, recv.source, serial, handle);
        }
    }

    /// Cancels the oldest pending receive with this `context`. True if one was
    /// found unmatched: its completion says [`Failure::Cancelled`].
    pub fn cancel<P: Port>(&mut self, _now: Nanos, port: &mut P, context: u64) -> bool {
        if port.tag_matching().is_some() {
            return self.cancel_at_rail(port, context);
        }
        let Some(handle) = self.recvs.oldest_posted(context) else { return false };
        // Its message is on its way if the source has used it.
        let announced = self.recvs.get(handle).and_then(|op| op.announced);
        if announced.is_some_and(|claims| !shared(port).revoke_claims(claims))
            && !mutants::is(Mutant::CancelsUsedReceives)
        {
            return false;
        }
        let Some(op) = self.recvs.unpost(&mut self.core, handle) else { return false };
        if let (Some(peer), Some(claims)) = (op.recv.source, announced)
            && let Some(announced) = self.core.peers.take_announced(peer, claims)
        {
            revoke(port, peer, announced.into);
        }
        self.exhausted.leave(op.recv.source, op.serial);
        self.fail_unmatched(&op, Failure::Cancelled);
        true
    }

    /// Ends every receive that only a peer that is gone could fill, or was
    /// filling.
    pub(super) fn fail_recvs<P: Port>(&mut self, port: &mut P, peer: PeerId, why: PeerError) {
        for handle in self.recvs.only_from(peer) {
            if mutants::is(Mutant::ForgetsTheDead) {
                break;
            }
            self.rtrs.end(&mut self.core, &mut self.recvs, port, handle, Use::InVain);
            self.fail_posted(handle, peer, why);
        }
        self.fail_at_rail(port, peer, why);
        self.pulls.fail(&mut self.core, &mut self.recvs, port, peer, why);
    }

    pub(super) fn fail_posted(&mut self, handle: Handle<RecvOp>, peer: PeerId, why: PeerError) {
        let Some(op) = self.recvs.unpost(&mut self.core, handle) else { return };
        self.exhausted.leave(op.recv.source, op.serial);
        self.fail_unmatched(&op, Failure::PeerGone { peer, why });
    }

    /// What has waited in vain ends; of a buffer for many messages the whole does.
    fn fail_unmatched(&mut self, op: &RecvOp, failure: Failure) {
        match op.multi() {
            Some(multi) => self.recvs.multis.fail(&mut self.core, multi, failure),
            None => self.core.complete(Completion::of_unmatched(&op.recv, failure)),
        }
    }
}
