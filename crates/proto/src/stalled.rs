//! Sends without credit: they wait in order, one queue per peer, and nothing
//! overtakes them.
//!
//! What of them the receiver learns meanwhile is in `offer`. A message of
//! several slots that has waited longer than the configured
//! patience goes as an announcement, which takes one slot: the receiver then
//! fetches it when it is matched.

use crate::api::{Failure, Send};
use crate::core::Core;
use crate::offer::{answer_questions, is_watched};
use crate::queue::Waiter;
use crate::request::{SendOp, Started};
use crate::sends::Sends;
use crate::start::{Attempt, eager_slots, is_too_long, is_vain, never_fits, start};
use sluice_link::Port;
use sluice_link::mutants::{self, Mutant};
use sluice_portals::{Handle, PtlError};
use sluice_wire::{Addr, Nanos, PeerId};

/// The peers with sends that wait for credits.
#[derive(Debug, Default)]
pub(crate) struct Stalled {
    /// Each is here once.
    peers: Vec<PeerId>,
}

impl Stalled {
    pub fn len(&self) -> usize {
        self.peers.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// Puts a send behind those that wait already; `copy` is where its bytes
    /// are, if not in its own memory. Room for it was checked before.
    pub fn enqueue<P: Port>(
        &mut self,
        core: &mut Core,
        sends: &mut Sends,
        port: &mut P,
        now: Nanos,
        send: &Send,
        copy: Option<Addr>,
    ) {
        let handle = sends.insert(SendOp::queued(send, copy));
        let peer = send.peer;
        let state = core.peers.state_mut(peer);
        state.queue.push(Waiter { handle, space: send.space, tag: send.tag });
        if state.queue.len() == 1 {
            state.stalled_since = Some(now);
            state.queued_since = Some(now);
            // Messages may be asked for out of order now.
            if let Some(rtrs) = &mut state.rtrs {
                rtrs.block();
            }
            self.peers.push(peer);
        }
        if is_watched(core, peer) {
            answer_questions(core, sends, port, peer);
        }
    }

    /// A send to `peer` that waits, and is no more, leaves the queue. What stood behind it may go.
    pub fn withdraw<P: Port>(
        &mut self,
        core: &mut Core,
        sends: &mut Sends,
        port: &mut P,
        peer: PeerId,
        handle: Handle<SendOp>,
    ) {
        let state = core.peers.state_mut(peer);
        let was_oldest = state.queue.front() == Some(handle);
        state.queue.withdraw(handle);
        if was_oldest {
            state.stalled_since = None;
        }
        self.settle(core, peer);
        self.flush_peer(core, sends, port, peer, Attempt::First);
        let now = core.now;
        let state = core.peers.state_mut(peer);
        if was_oldest && !state.queue.is_empty() {
            // Patience with the next one begins now.
            state.stalled_since.get_or_insert(now);
        }
    }

    /// Sends what credits allow of the queue of `peer`, of which some have come or not.
    pub fn flush_peer<P: Port>(
        &mut self,
        core: &mut Core,
        sends: &mut Sends,
        port: &mut P,
        peer: PeerId,
        attempt: Attempt,
    ) {
        while let Some(handle) = queue_front(core, peer) {
            if !self.advance(core, sends, port, handle, attempt) {
                return;
            }
        }
    }

    /// Sends what credits and patience allow of every queue.
    pub fn flush_all<P: Port>(
        &mut self,
        core: &mut Core,
        sends: &mut Sends,
        port: &mut P,
        now: Nanos,
    ) {
        let mut at = 0;
        while at < self.peers.len() {
            let peer = self.peers[at];
            self.flush_peer(core, sends, port, peer, Attempt::First);
            let since = *core.peers.state_mut(peer).stalled_since.get_or_insert(now);
            if now.since(since) >= core.config.patience
                && let Some(handle) = queue_front(core, peer)
                && is_divisible(sends, handle)
                && self.advance(core, sends, port, handle, Attempt::Announced)
            {
                let state = core.peers.state_mut(peer);
                state.stalled_since = Some(now);
                state.slots_had = 0;
            }
            // A queue that has run empty took its peer out of the list.
            if self.peers.get(at) == Some(&peer) {
                at += 1;
            }
        }
    }

    /// A queue that has run empty is not stalled any more.
    pub fn settle(&mut self, core: &mut Core, peer: PeerId) {
        let now = core.now;
        let state = core.peers.get_mut(peer);
        if state.as_ref().is_none_or(|state| state.queue.is_empty()) {
            self.peers.retain(|stalled| *stalled != peer);
            if let Some(state) = state {
                state.queued = state.queued_until(now);
                state.queued_since = None;
            }
        }
    }

    /// Nothing waits for a peer that is gone.
    pub fn forget(&mut self, core: &mut Core, peer: PeerId) {
        core.peers.state_mut(peer).queue.clear();
        self.settle(core, peer);
    }

    /// When patience with the receivers ends.
    pub fn deadline(&self, core: &Core) -> Option<Nanos> {
        // Without a credit only the peer can help, and time cannot.
        self.peers
            .iter()
            .filter(|peer| core.ni.data_credits(**peer) > 0)
            .filter_map(|peer| {
                // Nor can it with one that the peer was told of.
                let state = core.peers.get(*peer)?;
                state.queue.front()?;
                state.stalled_since
            })
            .map(|since| since.saturating_add(core.config.patience))
            .min()
    }

    /// Panics unless those listed have sends that wait. For tests.
    pub fn check_invariants(&self, core: &Core) {
        for peer in &self.peers {
            assert!(core.peers.get(*peer).is_some_and(|state| !state.queue.is_empty()));
        }
    }

    /// Tries to send the oldest waiting send of its peer. False if it still waits.
    fn advance<P: Port>(
        &mut self,
        core: &mut Core,
        sends: &mut Sends,
        port: &mut P,
        handle: Handle<SendOp>,
        attempt: Attempt,
    ) -> bool {
        let Some(op) = sends.get(handle) else { unreachable!("a queue names only pending sends") };
        let (send, bytes, peer) = (op.send, op.bytes(), op.send.peer);
        let attempt = if never_fits(core, &send) { Attempt::Announced } else { attempt };
        let (slots, credits) = (eager_slots(&send), core.ni.data_credits(peer));
        // Nobody is watched for what cannot go anyway.
        if attempt == Attempt::First
            && slots > credits
            && !is_too_long(core, port, &send, |_| true)
            && (credits == 0 || !is_vain(core, port, &send, slots))
        {
            return false;
        }
        match start(core, port, &Send { buf: bytes, ..send }, handle, attempt) {
            Ok(Started::Done) => sends.finish(core, port, handle, Ok(())),
            Ok(Started::Waits(state, sender_copy)) => {
                if let Some(op) = sends.get_mut(handle) {
                    (op.state, op.sender_copy) = (state, sender_copy);
                }
            }
            Err(PtlError::Peer(why)) => {
                sends.finish(core, port, handle, Err(Failure::PeerGone { peer, why }));
            }
            Err(PtlError::ArgInvalid(_)) => {
                sends.finish(core, port, handle, Err(Failure::Fault));
            }
            Err(_) if mutants::is_now(Mutant::LosesQueuedMessages) => {}
            Err(_) => return false,
        }
        let state = core.peers.state_mut(peer);
        state.queue.pop();
        state.stalled_since = None;
        self.settle(core, peer);
        true
    }
}

fn queue_front(core: &Core, peer: PeerId) -> Option<Handle<SendOp>> {
    core.peers.get(peer)?.queue.front()
}

/// Whether announcing this send takes fewer slots than sending it.
fn is_divisible(sends: &Sends, handle: Handle<SendOp>) -> bool {
    sends.get(handle).is_some_and(|op| eager_slots(&op.send) > 1)
}
