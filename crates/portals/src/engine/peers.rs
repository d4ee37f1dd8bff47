//! What the rail reports besides packets: memory that is free again, and peers
//! that are gone.

use crate::engine::ni::Ni;
use crate::objects::event::NiFail;
use crate::objects::operation::{Operation, Place, Stage};
use crate::table::Handle;
use sluice_link::{PeerError, Port, Token};
use sluice_wire::{Ack, PeerId};

impl Ni {
    /// The rail has read the memory of a packet.
    pub fn on_transmitted<P: Port>(&mut self, port: &mut P, token: Token) {
        let handle = Handle::from_u64(token.0);
        let Some(operation) = self.operations.get_mut(handle) else { return };
        let (staged, then) = match &operation.stage {
            Stage::Transmit { then_ack, length, acked, staged } => {
                (*staged, Some((*then_ack, *length, *acked)))
            }
            Stage::Answer { staged } => (*staged, None),
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
        self.sent(md, peer, pt_index, length, user_ptr, true, Ok(()));
        if let Some(ack) = acked {
            self.on_ack(port, peer, &ack);
        }
        self.fire(port);
    }

    /// Ends every operation on a peer that is gone, and forgets its link. The
    /// events say why. What the rail moves is not touched: the rail reports its
    /// end before.
    pub fn on_peer_gone<P: Port>(&mut self, port: &mut P, peer: PeerId, why: PeerError) {
        self.links.drop_peer(peer, why);
        self.owed.retain(|owed| owed.peer != peer);
        let why = NiFail::Undeliverable(why);
        let doomed: Vec<Handle<Operation>> = self
            .operations
            .iter()
            .filter(|(_, op)| op.peer == peer && !matches!(op.stage, Stage::Read { .. }))
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
        self.fire(port);
    }

    fn end_with_peer<P: Port>(&mut self, port: &mut P, handle: Handle<Operation>, why: NiFail) {
        let Some(operation) = self.operations.get(handle) else { return };
        let peer = operation.peer;
        match &operation.stage {
            Stage::Incoming(incoming) => {
                // A read under way is reported by the rail.
                if incoming.direct.is_none() || incoming.asked == incoming.arrived {
                    self.fail_incoming(handle, why);
                    self.end_incoming(port, handle);
                }
                return;
            }
            Stage::Outgoing(outgoing) if outgoing.direct.is_some() => return,
            _ => {}
        }
        let Some(operation) = self.end(handle) else { return };
        Ni::revoke_of(port, &operation);
        let (md, pt_index, user_ptr) = (operation.md, operation.pt_index, operation.user_ptr);
        match operation.stage {
            Stage::Ack { .. } | Stage::Exposed { .. } => {
                self.acked(&operation, 0, Place::default(), Err(why), false)
            }
            Stage::Reply { into, slots, .. } => {
                self.links.release_reply(slots);
                self.has_freed_reply_slots = true;
                self.replied(&operation, into, 0, Place::default(), Err(why));
            }
            Stage::Transmit { then_ack, length, acked, staged } => {
                if let Some(staged) = staged {
                    port.give_back(staged.addr, staged.len as u32);
                }
                // What the target has acknowledged was sent.
                let sent = acked.map_or(Err(why), |_| Ok(()));
                self.sent(md, peer, pt_index, length, user_ptr, true, sent);
                if let Some(kind) = then_ack {
                    let stage = Stage::Ack { kind, length };
                    let operation = Operation { peer, pt_index, md, user_ptr, stage };
                    let (mlength, place, outcome) = match acked {
                        Some(Ack { mlength, offset, list, status, .. }) => {
                            (mlength, Place { offset, list }, NiFail::check(status))
                        }
                        None => (0, Place::default(), Err(why)),
                    };
                    self.acked(&operation, mlength, place, outcome, acked.is_some());
                }
            }
            Stage::Outgoing(outgoing) => self.finish(port, outgoing.done, Err(why)),
            Stage::Answer { staged: Some(staged) } => {
                port.give_back(staged.addr, staged.len as u32);
            }
            Stage::Answer { staged: None }
            | Stage::Read { .. }
            | Stage::Chunk { .. }
            | Stage::Incoming(_) => {}
        }
    }
}
