//! Counting events and what they set off (sections 3.14 and 3.16).
//!
//! When an entry or a descriptor counts is the network's affair, so of such a counter the model
//! knows what may have been counted at most, and takes its value from outside. One that the
//! program alone changes ([`Counter::is_own`]) it computes.

use super::Model;
use super::losses::{Counted, Side};
use std::collections::BTreeSet;

/// Successes and failures.
pub type Count = (u64, u64);

/// What waits for a threshold.
#[derive(Clone, Copy, Debug)]
pub enum Shot {
    Op(usize),
    Inc(usize, Count),
    Set(usize, Count),
}

#[derive(Clone, Copy, Debug)]
struct Armed {
    threshold: u64,
    shot: Shot,
}

/// A counter.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    /// The program alone changes it.
    pub is_own: bool,
    value: Count,
    /// The most that it may say.
    may: Count,
    /// Of operations that a loss may have ended: so many successes, which are in `may`, or one
    /// failure.
    either: Vec<u64>,
    /// In order of the calls.
    armed: Vec<Armed>,
}

impl Counter {
    pub fn own() -> Counter {
        Counter { is_own: true, ..Counter::default() }
    }

    pub(super) fn check_end(&self, who: usize, at: usize) {
        assert!(
            self.is_own || self.is_complete(),
            "counter {at} of {who} says {:?} and has counted {:?}",
            self.value,
            self.may
        );
    }

    /// Whether all is counted, of operations that may have failed either way.
    fn is_complete(&self) -> bool {
        let unsure: u64 = self.either.iter().sum();
        let failures_min = self.may.1 - self.either.len() as u64;
        let Some(successes) = self.value.0.checked_sub(self.may.0 - unsure) else { return false };
        let Some(failures) = self.value.1.checked_sub(failures_min) else { return false };
        // Successes and failures that some of them may have made.
        let mut made = BTreeSet::from([(0, 0)]);
        for amount in &self.either {
            let next = made.iter().flat_map(|&(good, bad)| [(good + amount, bad), (good, bad + 1)]);
            made = next.filter(|&(good, bad)| good <= successes && bad <= failures).collect();
        }
        made.contains(&(successes, failures))
    }

    /// What was to be so many successes may be a failure.
    pub(super) fn doubt(&mut self, successes: u64) {
        self.may.1 += 1;
        self.either.push(successes);
    }

    /// The first in order that is due: the lowest threshold, of equal ones the oldest.
    fn take_due(&mut self) -> Option<Shot> {
        let sum = self.value.0 + self.value.1;
        let due = self.armed.iter().enumerate().filter(|(_, armed)| armed.threshold <= sum);
        let (first, _) = due.min_by_key(|(at, armed)| (armed.threshold, *at))?;
        Some(self.armed.remove(first).shot)
    }
}

impl Model {
    /// Something is counted, now or later: one, or so many bytes; or a failure. `of`: at which
    /// side of which operation.
    pub(super) fn may_count(
        &mut self,
        who: usize,
        ct: Option<usize>,
        what: Result<Option<u64>, ()>,
        of: Option<(usize, Side)>,
    ) {
        let Some(ct) = ct else { return };
        let counter = &mut self.processes[who].counters[ct];
        match what {
            Ok(bytes) => {
                let successes = bytes.unwrap_or(1);
                counter.may.0 += successes;
                if let Some((id, side)) = of {
                    self.note_counted(id, Counted { side, who, ct, successes });
                }
            }
            Err(()) => counter.may.1 += 1,
        }
        self.met.counted_bytes |= u64::from(matches!(what, Ok(Some(_))));
    }

    /// What the counters of a process say after a step. What they set off is issued.
    ///
    /// # Panics
    /// If one says what it cannot.
    pub fn counters_are(&mut self, who: usize, found: &[Count]) {
        for (at, found) in found.iter().enumerate() {
            let counter = &mut self.processes[who].counters[at];
            if counter.is_own {
                continue;
            }
            let before = counter.value;
            let grows = before.0 <= found.0 && before.1 <= found.1;
            assert!(grows, "counter {at} of {who} went from {before:?} to {found:?}");
            counter.value = *found;
        }
        for at in 0..found.len() {
            self.fire(who, at);
        }
        for (at, found) in found.iter().enumerate() {
            let counter = &self.processes[who].counters[at];
            let (value, may) = (counter.value, counter.may);
            assert!(value == *found, "counter {at} of {who} says {found:?} and is {value:?}");
            // What it has set off may count in the same step.
            let can_be = counter.is_own || (found.0 <= may.0 && found.1 <= may.1);
            assert!(can_be, "counter {at} of {who} says {found:?}, of at most {may:?}");
        }
    }

    /// `PtlCTInc`, by the program.
    pub fn ct_inc(&mut self, who: usize, at: usize, by: Count) {
        let counter = &mut self.processes[who].counters[at];
        counter.value = (counter.value.0 + by.0, counter.value.1 + by.1);
        self.fire(who, at);
    }

    /// `PtlCTSet`, by the program.
    pub fn ct_set(&mut self, who: usize, at: usize, to: Count) {
        self.processes[who].counters[at].value = to;
        self.fire(who, at);
    }

    /// `PtlCTCancelTriggered`.
    pub fn ct_cancel(&mut self, who: usize, at: usize) {
        let armed = std::mem::take(&mut self.processes[who].counters[at].armed);
        self.met.cancelled |= u64::from(!armed.is_empty());
    }

    /// How many triggered operations wait at a process.
    pub fn armed(&self, who: usize) -> usize {
        self.processes[who].counters.iter().map(|counter| counter.armed.len()).sum()
    }

    /// A triggered operation: it starts when the counter is there, which may be now.
    pub fn arm(&mut self, who: usize, at: usize, threshold: u64, shot: Shot) {
        let counter = &mut self.processes[who].counters[at];
        self.met.triggered_late |= u64::from(threshold <= counter.value.0 + counter.value.1);
        counter.armed.push(Armed { threshold, shot });
        self.fire(who, at);
    }

    fn fire(&mut self, who: usize, at: usize) {
        while let Some(shot) = self.processes[who].counters[at].take_due() {
            match shot {
                Shot::Op(id) => {
                    self.met.triggered = 1;
                    self.start(id, Some(at));
                }
                Shot::Inc(changed, by) => {
                    self.met.chained = 1;
                    self.ct_inc(who, changed, by);
                }
                Shot::Set(changed, to) => {
                    self.met.chained = 1;
                    self.ct_set(who, changed, to);
                }
            }
        }
    }
}
