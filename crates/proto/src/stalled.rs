//! Sends without credit: they wait in order, one queue per peer, and nothing
//! overtakes them.
//!
//! What of them the receiver learns meanwhile is in `offer`. A message of
//! several slots that has waited longer than the configured
//! patience goes as an announcement, which takes one slot: the receiver then
//! fetches it when it is matched.

use crate::api::{Completion, Failure, Refused, Send};
use crate::endpoint::Endpoint;
use crate::queue::Waiter;
use crate::request::{SendOp, SendState, SenderCopy, Started};
use crate::send::eager_slots;
use sluice_link::Port;
use sluice_portals::{Handle, PtlError};
use sluice_wire::{Addr, Nanos, PeerId};

impl Endpoint {
    /// Puts a send behind those that wait already; `copy` is where its bytes
    /// are, if not in its own memory. Room in the table was checked before.
    pub(crate) fn enqueue<P: Port>(
        &mut self,
        now: Nanos,
        port: &mut P,
        send: &Send,
        copy: Option<Addr>,
    ) -> Result<(), Refused> {
        let op = SendOp { send: *send, state: SendState::Queued, part: SenderCopy::None, copy };
        let Ok(handle) = self.sends.insert(op) else {
            return Err(Refused::Again);
        };
        let peer = send.peer;
        let state = self.core.peers.state_mut(peer);
        state.queue.push(Waiter { handle, space: send.space, tag: send.tag });
        if state.queue.len() == 1 {
            state.stalled_since = Some(now);
            // Messages may be asked for out of order now.
            if let Some(rtrs) = &mut state.rtrs {
                rtrs.block();
            }
            self.stalled.push(peer);
        }
        if self.is_watched(peer) {
            self.answer_questions(port, peer);
        }
        Ok(())
    }

    /// Sends what credits allow of the queue of `peer`.
    pub(crate) fn flush_peer<P: Port>(&mut self, port: &mut P, peer: PeerId) {
        while let Some(handle) = self.queue_front(peer) {
            if !self.advance(port, peer, handle, false) {
                return;
            }
        }
    }

    /// Sends what credits and patience allow of every queue.
    pub(crate) fn flush_stalled<P: Port>(&mut self, now: Nanos, port: &mut P) {
        let mut at = 0;
        while at < self.stalled.len() {
            let peer = self.stalled[at];
            self.flush_peer(port, peer);
            let state = self.core.peers.state_mut(peer);
            let since = *state.stalled_since.get_or_insert(now);
            if now.since(since) >= self.core.config.patience
                && let Some(handle) = self.queue_front(peer)
                && self.is_divisible(handle)
                && self.advance(port, peer, handle, true)
            {
                self.core.peers.state_mut(peer).stalled_since = Some(now);
            }
            // A queue that has run empty took its peer out of the list.
            if self.stalled.get(at) == Some(&peer) {
                at += 1;
            }
        }
    }

    fn queue_front(&self, peer: PeerId) -> Option<Handle<SendOp>> {
        self.core.peers.get(peer)?.queue.front()
    }

    /// Whether announcing this send takes fewer slots than sending it.
    fn is_divisible(&self, handle: Handle<SendOp>) -> bool {
        self.sends.get(handle).is_some_and(|op| eager_slots(&op.send) > 1)
    }

    /// Tries to send the oldest waiting send. False if it still waits.
    fn advance<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        handle: Handle<SendOp>,
        announce: bool,
    ) -> bool {
        let Some(op) = self.sends.get(handle) else {
            unreachable!("a queue names only pending sends")
        };
        let (send, bytes) = (op.send, op.bytes());
        let announce = announce || self.never_fits(&send);
        let ended = match self.start(port, &Send { buf: bytes, ..send }, handle, announce) {
            Ok(Started::Done) => Some(Ok(())),
            Ok(Started::Waits(state, part)) => {
                if let Some(op) = self.sends.get_mut(handle) {
                    (op.state, op.part) = (state, part);
                }
                None
            }
            Err(PtlError::Peer(why)) => Some(Err(Failure::PeerGone { peer, why })),
            Err(PtlError::ArgInvalid(_)) => Some(Err(Failure::Fault)),
            Err(_) => return false,
        };
        if let Some(outcome) = ended {
            if let Some(op) = self.sends.remove(handle) {
                self.give_back(port, &op);
            }
            if send.report || outcome.is_err() {
                self.core.complete(Completion::of_send(&send, outcome));
            }
        }
        let state = self.core.peers.state_mut(peer);
        state.queue.pop();
        state.stalled_since = None;
        self.settle_queue(peer);
        true
    }

    /// A queue that has run empty is not stalled any more.
    pub(crate) fn settle_queue(&mut self, peer: PeerId) {
        if self.core.peers.get(peer).is_none_or(|state| state.queue.is_empty()) {
            self.stalled.retain(|stalled| *stalled != peer);
        }
    }
}
