//! Invitations to shared transfers: how many transfers are under way, and which messages wait for a control
//! credit to invite their sender by.
//!
//! A window of messages takes more CTS than a receiver has control credits. What cannot be said now waits
//! while another transfer that both sides copy is under way from the same sender; a credit has the next one
//! invited. When none is under way any more, or nobody could be invited for [`PATIENCE`], the receiver moves by
//! itself what still waits. So a sender that computes, or has lost its core, is waited for no longer than that.
//!
//! Invariant: messages of a sender wait only while a transfer of its is under way.

use crate::request::RecvOp;
use sluice_portals::Handle;
use sluice_wire::{Nanos, PeerId};
use std::collections::{BTreeMap, VecDeque};

/// How long messages wait while none of their sender can be invited. A sender that looks at its mailbox gives
/// credits back within a fraction of that.
const PATIENCE: Nanos = Nanos(1_000_000);

/// See the module. Senders of which something was ever shared.
#[derive(Debug, Default)]
pub(crate) struct Invitations {
    of: BTreeMap<PeerId, OfSender>,
    /// Messages that wait, of all senders.
    waiting: usize,
}

/// The messages that wait have met their receives, whose number bounds them.
#[derive(Debug, Default)]
struct OfSender {
    under_way: usize,
    waiting: VecDeque<Handle<RecvOp>>,
    /// Since when none could be invited, if messages wait.
    since: Nanos,
}

impl OfSender {
    fn deadline(&self) -> Option<Nanos> {
        (!self.waiting.is_empty()).then(|| self.since.saturating_add(PATIENCE))
    }

    fn is_due(&self, now: Nanos) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= now)
    }
}

impl Invitations {
    /// A transfer that both sides copy begins.
    pub fn begin(&mut self, peer: PeerId) {
        self.of.entry(peer).or_default().under_way += 1;
    }

    /// One has ended.
    pub fn end(&mut self, peer: PeerId) {
        let Some(of) = self.of.get_mut(&peer) else { unreachable!("each end has its beginning") };
        of.under_way -= 1;
    }

    /// Whether a message had better wait than be moved by the receiver alone.
    pub fn may_wait(&self, peer: PeerId, now: Nanos) -> bool {
        self.of.get(&peer).is_some_and(|of| of.under_way > 0 && !of.is_due(now))
    }

    /// Whether messages of a sender wait.
    pub fn waits(&self, peer: PeerId) -> bool {
        self.first(peer).is_some()
    }

    /// A message waits, behind all others.
    pub fn wait(&mut self, peer: PeerId, handle: Handle<RecvOp>, now: Nanos) {
        let of = self.of.entry(peer).or_default();
        if of.waiting.is_empty() {
            of.since = now;
        }
        of.waiting.push_back(handle);
        self.waiting += 1;
    }

    /// The message that has waited longest.
    pub fn first(&self, peer: PeerId) -> Option<Handle<RecvOp>> {
        if self.waiting == 0 {
            return None;
        }
        self.of.get(&peer)?.waiting.front().copied()
    }

    /// It waits no more.
    pub fn leave(&mut self, peer: PeerId) {
        let left = self.of.get_mut(&peer).and_then(|of| of.waiting.pop_front());
        self.waiting -= usize::from(left.is_some());
    }

    /// A sender was invited, and may be again.
    pub fn note_invited(&mut self, peer: PeerId, now: Nanos) {
        if let Some(of) = self.of.get_mut(&peer) {
            of.since = now;
        }
    }

    /// What waits of a sender that is gone ends otherwise.
    pub fn forget_waiting(&mut self, peer: PeerId) {
        if let Some(of) = self.of.get_mut(&peer) {
            self.waiting -= of.waiting.len();
            of.waiting.clear();
        }
    }

    /// When patience with a sender ends.
    pub fn deadline(&self) -> Option<Nanos> {
        if self.waiting == 0 {
            return None;
        }
        self.of.values().filter_map(OfSender::deadline).min()
    }

    /// A sender with which patience has ended.
    pub fn due(&self, now: Nanos) -> Option<PeerId> {
        if self.waiting == 0 {
            return None;
        }
        self.of.iter().find(|(_, of)| of.is_due(now)).map(|(peer, _)| *peer)
    }

    /// Panics unless so many transfers are under way and so many messages wait, each while another one is under
    /// way.
    pub fn check_invariants(&self, under_way: usize, waiting: usize) {
        let of = self.of.values();
        assert!(of.clone().all(|of| of.under_way > 0 || of.waiting.is_empty()), "one to wait for");
        assert_eq!(of.clone().map(|of| of.under_way).sum::<usize>(), under_way, "shared transfers");
        assert_eq!(of.map(|of| of.waiting.len()).sum::<usize>(), waiting, "messages that wait");
        assert_eq!(self.waiting, waiting);
    }
}
