//! What the rail reports besides packets: memory that is free again, and peers
//! that are gone.

use crate::engine::ni::Ni;
use crate::objects::event::NiFail;
use crate::objects::operation::{Operation, Place, Stage};
use crate::table::Handle;
use sluice_link::mutants::{self, Mutant};
use sluice_link::{PeerError, Port, Token};
use sluice_wire::PeerId;

impl Ni {
    /// The rail has read the memory of a packet, or will not read it any more.
    pub fn on_transmitted<P: Port>(&mut self, port: &mut P, token: Token) {
        let handle = Handle::from_u64(token.0);
        let Some(operation) = self.operations.get_mut(handle) else { return };
        let (staged, then) = match &operation.stage {
            Stage::Transmit { then_ack, length, acked, staged } => {
                (*staged, Some((*then_ack, *length, *acked)))
            }
            Stage::Answer { staged } => (*staged, None),
            Stage::Lent(_) => return self.on_lent_read(port, handle),
            _ => return,
        };
        if let Some(staged) = staged {
            port.give_back(staged.addr, staged.len as u32);
        }
        let Some((then_ack, length, acked)) = then else {
            self.end(handle);
            return;
        };
        let (md, peer, pt_index) = (operation.md, operation.peer, operation.pt_index);
        let user_ptr = operation.user_ptr;
        match then_ack {
            Some(kind) => operation.stage = Stage::Ack { kind, length },
            None => {
                self.end(handle);
            }
        }
        // A peer that was lost meanwhile got it only if it has said so.
        let lost = self.links.gone(peer).filter(|_| acked.is_none()).map(NiFail::Undeliverable);
        self.sent(md, peer, pt_index, length, user_ptr, true, lost.map_or(Ok(()), Err));
        if let Some(ack) = acked {
            self.on_ack(port, peer, &ack);
        } else if let Some(why) = lost {
            self.end_with_peer(port, handle, why);
        }
        // What was refused may go again now that it is not with the rail any more.
        if self.recovery.is_some() && self.waiting_now != 0 {
            self.flush_waiting(port, peer);
        }
        self.fire(port);
    }

    /// The rail has read an entry's memory for the answer to a get: now the program may be told,
    /// and use it. A peer that was lost meanwhile may not have got it.
    fn on_lent_read<P: Port>(&mut self, port: &mut P, handle: Handle<Operation>) {
        let Some(operation) = self.end(handle) else { return };
        let Stage::Lent(done) = operation.stage else { return };
        let lost = self.links.gone(operation.peer).map(NiFail::Undeliverable);
        self.finish(port, *done, lost.map_or(Ok(()), Err));
        self.fire(port);
    }

    /// Ends every operation on a peer that is gone, and forgets its link. The
    /// events say why. What the rail reads or writes directly is not touched: the
    /// rail reports its end, before this or, where the machine has refused the peer, after.
    /// Nor is a packet that is not written yet: the rail still reads its memory, and
    /// reports its end later.
    pub fn on_peer_gone<P: Port>(&mut self, port: &mut P, peer: PeerId, why: PeerError) {
        self.links.drop_peer(peer, why);
        self.kept_untold.remove(&peer);
        for owed in self.owed.remove(&peer).into_iter().flatten() {
            if !owed.held.is_none() {
                self.links.free(port, peer, owed.held);
            }
        }
        let (gone, why) = (why, NiFail::Undeliverable(why));
        let doomed: Vec<Handle<Operation>> = self
            .operations
            .iter()
            .filter(|(_, op)| op.peer == peer && !op.is_with_rail())
            .map(|(handle, _)| handle)
            .collect();
        // Pieces first: what they are of ends when none is left.
        for &handle in &doomed {
            let chunk = self.operations.get(handle).map(|operation| &operation.stage);
            if let Some(&Stage::Chunk { of, slots, .. }) = chunk {
                self.end(handle);
                self.links.release_reply(slots);
                self.has_freed_reply_slots = true;
                if let Some(Operation { stage: Stage::Incoming(incoming), .. }) =
                    self.operations.get_mut(of)
                {
                    incoming.chunks -= 1;
                }
            }
        }
        for handle in doomed {
            self.end_with_peer(port, handle, why);
        }
        self.drop_waiting(port, peer, why);
        self.forget_refusals(peer);
        if !mutants::is(Mutant::KeepsWhatTheDeadRefused) {
            self.drop_flows(peer, gone);
        }
        self.fire(port);
    }

    fn end_with_peer<P: Port>(&mut self, port: &mut P, handle: Handle<Operation>, why: NiFail) {
        let Some(operation) = self.operations.get(handle) else { return };
        match &operation.stage {
            Stage::Incoming(incoming) => {
                // A read under way is reported by the rail.
                if incoming.direct.is_none() || incoming.asked == incoming.arrived {
                    if !mutants::is(Mutant::TakesTheCutForWhole) {
                        self.fail_incoming(handle, why);
                    }
                    self.end_incoming(port, handle);
                }
                return;
            }
            Stage::Outgoing(outgoing) if outgoing.direct.is_some() => return,
            _ => {}
        }
        let Some(operation) = self.end(handle) else { return };
        Ni::revoke_of(port, &operation);
        match operation.stage {
            Stage::Ack { .. } | Stage::Exposed { .. } => {
                let is_done = mutants::is(Mutant::TakesTheLostForDone);
                let outcome = if is_done { Ok(()) } else { Err(why) };
                self.acked(&operation, 0, Place::default(), outcome, false);
            }
            Stage::Reply { into, slots, .. } => {
                self.links.release_reply(slots);
                self.has_freed_reply_slots = true;
                self.replied(&operation, into, 0, Place::default(), Err(why));
            }
            Stage::Outgoing(outgoing) => self.finish(port, outgoing.done, Err(why)),
            Stage::Transmit { .. }
            | Stage::Answer { .. }
            | Stage::Lent(_)
            | Stage::Read { .. }
            | Stage::Chunk { .. }
            | Stage::Incoming(_) => {}
        }
    }
}
