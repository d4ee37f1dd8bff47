//! Invitations to shared transfers: which are under way, and which messages wait for a control
//! credit to invite their sender by.
//!
//! A window of messages takes more CTS than a receiver has control credits. What cannot be said now waits
//! while another transfer that both sides copy is under way from the same sender: its end, or a
//! credit, has the next one invited. When none is under way, the receiver moves by itself what still waits. So the
//! sender is never waited for, only transfers that end without it.
//!
//! Invariant: messages of a sender wait only while a transfer of its is under way.

use crate::request::RecvOp;
use sluice_link::mutants::{self, Mutant};
use sluice_portals::Handle;
use sluice_wire::PeerId;
use std::collections::{BTreeMap, VecDeque};

/// See the module. A sender of which nothing is under way has no entry.
#[derive(Debug, Default)]
pub(crate) struct Invitations {
    of: BTreeMap<PeerId, OfSender>,
}

/// The messages that wait are announced, which the credits of their sender bound.
#[derive(Debug, Default)]
struct OfSender {
    under_way: usize,
    waiting: VecDeque<Handle<RecvOp>>,
}

impl Invitations {
    /// A transfer that both sides copy begins.
    pub fn begin(&mut self, peer: PeerId) {
        self.of.entry(peer).or_default().under_way += 1;
    }

    /// One has ended. Says whether messages wait.
    pub fn end(&mut self, peer: PeerId) -> bool {
        let Some(of) = self.of.get_mut(&peer) else { unreachable!("each end has its beginning") };
        of.under_way -= 1;
        let waits = !of.waiting.is_empty() && !mutants::is(Mutant::LeavesOthersUninvited);
        if of.under_way == 0 && of.waiting.is_empty() {
            self.of.remove(&peer);
        }
        waits
    }

    /// Whether transfers of a sender are under way.
    pub fn are_under_way(&self, peer: PeerId) -> bool {
        self.of.get(&peer).is_some_and(|of| of.under_way > 0)
    }

    /// Whether messages of a sender wait.
    pub fn waits(&self, peer: PeerId) -> bool {
        self.of.get(&peer).is_some_and(|of| !of.waiting.is_empty())
    }

    /// A message waits, behind all others.
    pub fn wait(&mut self, peer: PeerId, handle: Handle<RecvOp>) {
        self.of.entry(peer).or_default().waiting.push_back(handle);
    }

    /// The message that has waited longest.
    pub fn first(&self, peer: PeerId) -> Option<Handle<RecvOp>> {
        self.of.get(&peer)?.waiting.front().copied()
    }

    /// It waits no more.
    pub fn leave(&mut self, peer: PeerId) {
        let Some(of) = self.of.get_mut(&peer) else { return };
        of.waiting.pop_front();
        if of.under_way == 0 && of.waiting.is_empty() {
            self.of.remove(&peer);
        }
    }

    /// What waits of a sender that is gone ends otherwise.
    pub fn forget_waiting(&mut self, peer: PeerId) {
        let Some(of) = self.of.get_mut(&peer) else { return };
        of.waiting.clear();
        if of.under_way == 0 {
            self.of.remove(&peer);
        }
    }

    /// Transfers under way and messages that wait, of all senders. Panics unless each that waits has another one
    /// to wait for.
    pub fn check_invariants(&self) -> (usize, usize) {
        self.of.values().fold((0, 0), |(under_way, waiting), of| {
            assert!(of.under_way > 0, "who waits waits for another transfer");
            (under_way + of.under_way, waiting + of.waiting.len())
        })
    }
}
