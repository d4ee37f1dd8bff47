//! Whose turn it is to ask for a chunk, and how many bytes all pulls of a process
//! may have asked for that have not come: the budget.
//!
//! Senders take turns, and the pulls of one sender take turns among themselves; a
//! turn is a chunk. So a sender of a hundred messages gets no more than a sender of
//! one. A sender may have in flight at most twice what is then still free, whoever
//! else wants something: one that gives back slowly cannot hold everything. A sender
//! with nothing in flight needs no more than that its chunk fits. If it does not,
//! nobody overtakes it. So several that answer nothing at all (three, in a budget of
//! eight chunks) can hold all of it until one of them is back.
//!
//! Invariants: bytes in flight never exceed the budget; each sender that waits is
//! in `order` once; each pull waits at most once (its owner keeps count). At most
//! as many wait as receives are pending.

use crate::request::RecvOp;
use sluice_portals::Handle;
use sluice_wire::PeerId;
use std::collections::{BTreeMap, VecDeque};

/// What may come of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The chunk may be asked for.
    Granted,
    /// This sender has its share; others may have theirs.
    HasShare,
    /// The room that comes next is for this one.
    NoRoom,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes_max: u64,
    bytes_now: u64,
    bytes_peak: u64,
    /// Those with something in flight, or waiting for a turn.
    senders: BTreeMap<PeerId, Sender>,
    /// Senders with pulls that wait, the next one first.
    order: VecDeque<PeerId>,
}

#[derive(Debug, Default)]
struct Sender {
    bytes: u64,
    waiting: VecDeque<Handle<RecvOp>>,
}

impl Budget {
    /// A budget of so many bytes, at least one.
    pub fn new(bytes_max: u64) -> Budget {
        Budget {
            bytes_max: bytes_max.max(1),
            bytes_now: 0,
            bytes_peak: 0,
            senders: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }

    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Bytes in flight.
    pub fn bytes_now(&self) -> u64 {
        self.bytes_now
    }

    /// The most that there ever were.
    pub fn bytes_peak(&self) -> u64 {
        self.bytes_peak
    }

    /// How many senders have pulls that wait.
    pub fn senders_waiting(&self) -> usize {
        self.order.len()
    }

    /// Lets a pull wait for its turn.
    pub fn join(&mut self, peer: PeerId, pull: Handle<RecvOp>) {
        let sender = self.senders.entry(peer).or_default();
        if sender.waiting.is_empty() {
            self.order.push_back(peer);
        }
        sender.waiting.push_back(pull);
    }

    /// Whose turn it is.
    pub fn next(&self) -> Option<Handle<RecvOp>> {
        let sender = self.senders.get(self.order.front()?)?;
        sender.waiting.front().copied()
    }

    /// The turn was used: the next pull of this sender is first when the sender has
    /// its turn again. The pull itself waits on if it `stays`.
    pub fn end_turn(&mut self, stays: bool) {
        let Some(peer) = self.order.pop_front() else { return };
        let Some(sender) = self.senders.get_mut(&peer) else { return };
        let pull = sender.waiting.pop_front();
        if stays {
            sender.waiting.extend(pull);
        }
        if sender.waiting.is_empty() {
            self.forget_if_idle(peer);
        } else {
            self.order.push_back(peer);
        }
    }

    /// The sender has to let others go first; its pulls stay as they are.
    pub fn pass(&mut self) {
        if let Some(peer) = self.order.pop_front() {
            self.order.push_back(peer);
        }
    }

    /// A pull that waits has ended.
    pub fn leave(&mut self, peer: PeerId, pull: Handle<RecvOp>) {
        let Some(sender) = self.senders.get_mut(&peer) else { return };
        sender.waiting.retain(|waiting| *waiting != pull);
        if sender.waiting.is_empty() {
            self.forget_waiting(peer);
        }
    }

    /// Nothing of this peer waits any more.
    pub fn forget_waiting(&mut self, peer: PeerId) {
        let Some(sender) = self.senders.get_mut(&peer) else { return };
        sender.waiting.clear();
        self.order.retain(|waiting| *waiting != peer);
        self.forget_if_idle(peer);
    }

    /// Whether `peer` may be asked for a chunk.
    pub fn admission(&self, peer: PeerId, chunk: u64) -> Admission {
        let held = self.senders.get(&peer).map_or(0, |sender| sender.bytes);
        match (self.bytes_max - self.bytes_now).checked_sub(chunk) {
            Some(_) if held == 0 => Admission::Granted,
            None if held == 0 => Admission::NoRoom,
            Some(free) if held + chunk <= free.saturating_mul(2) => Admission::Granted,
            _ => Admission::HasShare,
        }
    }

    /// A chunk was asked for.
    pub fn spend(&mut self, peer: PeerId, chunk: u64) {
        self.bytes_now += chunk;
        assert!(self.bytes_now <= self.bytes_max, "more was asked for than the budget allows");
        self.bytes_peak = self.bytes_peak.max(self.bytes_now);
        self.senders.entry(peer).or_default().bytes += chunk;
    }

    /// It has come, or will not come.
    pub fn give_back(&mut self, peer: PeerId, chunk: u64) {
        let Some(sender) = self.senders.get_mut(&peer) else { return };
        assert!(chunk <= sender.bytes, "what comes was asked for");
        sender.bytes -= chunk;
        self.bytes_now -= chunk;
        self.forget_if_idle(peer);
    }

    fn forget_if_idle(&mut self, peer: PeerId) {
        if self.senders.get(&peer).is_some_and(|s| s.bytes == 0 && s.waiting.is_empty()) {
            self.senders.remove(&peer);
        }
    }

    /// Panics unless the books are in order; says how many pulls wait. For tests.
    pub fn check_invariants(&self) -> usize {
        assert!(self.bytes_now <= self.bytes_max);
        let sum: u64 = self.senders.values().map(|sender| sender.bytes).sum();
        assert!(sum == self.bytes_now, "bytes in flight by sender");
        let waits = |peer: &PeerId| self.senders.get(peer).is_some_and(|s| !s.waiting.is_empty());
        assert!(self.order.iter().all(waits), "whoever has turns waits");
        let waiting = self.senders.values().filter(|sender| !sender.waiting.is_empty()).count();
        assert!(waiting == self.order.len(), "each sender that waits has turns, once");
        self.senders.values().map(|sender| sender.waiting.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pull(nth: u64) -> Handle<RecvOp> {
        Handle::from_u64(1 << 32 | nth)
    }

    #[test]
    fn senders_take_turns_and_so_do_the_pulls_of_each() {
        let mut budget = Budget::new(1000);
        for nth in 0..3 {
            budget.join(PeerId(1), pull(10 + nth));
        }
        budget.join(PeerId(2), pull(20));
        let mut turns = Vec::new();
        for _ in 0..8 {
            turns.extend(budget.next());
            budget.end_turn(true);
            assert_eq!(budget.check_invariants(), 4);
        }
        assert_eq!(turns, [10, 20, 11, 20, 12, 20, 10, 20].map(pull));
        budget.end_turn(false);
        budget.end_turn(false);
        assert_eq!((budget.next(), budget.senders_waiting()), (Some(pull(12)), 1));
        budget.pass();
        assert_eq!(budget.next(), Some(pull(12)));
        budget.forget_waiting(PeerId(1));
        assert_eq!((budget.next(), budget.check_invariants()), (None, 0));
        assert!(budget.senders.is_empty());
    }

    #[test]
    fn somebody_who_comes_later_finds_room() {
        let mut budget = Budget::new(900);
        for peer in (0..20).map(PeerId) {
            let mut asked = 0;
            while budget.admission(peer, 10) == Admission::Granted {
                budget.spend(peer, 10);
                asked += 10;
            }
            // A third of what was free is left, as far as chunks divide it.
            let left = budget.bytes_max() - budget.bytes_now();
            assert!(asked >= 10 || left < 10, "sender {peer:?} got {asked}, {left} left");
            assert!(peer.0 > 0 || (asked, left) == (600, 300));
            budget.check_invariants();
        }
        assert_eq!(budget.bytes_peak(), 900);
        assert_eq!(budget.admission(PeerId(0), 10), Admission::HasShare);
        assert_eq!(budget.admission(PeerId(30), 10), Admission::NoRoom);
        budget.give_back(PeerId(0), 10);
        assert_eq!(budget.admission(PeerId(0), 10), Admission::HasShare);
        assert_eq!(budget.admission(PeerId(30), 10), Admission::Granted);
    }

    #[test]
    #[should_panic(expected = "more was asked for than the budget allows")]
    fn more_than_the_budget_is_a_bug() {
        let mut budget = Budget::new(10);
        budget.spend(PeerId(0), 11);
    }
}
