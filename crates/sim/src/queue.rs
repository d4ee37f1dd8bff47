//! The events to come, in order of time; those of the same time in the order
//! they were added in, so that a run never depends on anything but its seed.
//!
//! A wheel of buckets, each some nanoseconds wide, for the near future, and an
//! ordered map for what lies beyond it. With a thousand processes there are a
//! few events a bucket: adding one is a push, taking one a read, and the short
//! sort of a bucket that is opened is shared by its events. A binary heap of
//! the same events costs a cache miss for each of its levels.
//!
//! Invariants: nothing is added before the present; an event of the map enters
//! its bucket before any later one can be added there directly, which keeps
//! the order of equal times.

use std::collections::BTreeMap;

/// Width of a bucket in nanoseconds, as a power of two.
const BUCKET_SHIFT: u32 = 5;
/// Buckets of the wheel, as a power of two: half a millisecond in all.
const WHEEL_SHIFT: u32 = 14;
const WHEEL: usize = 1 << WHEEL_SHIFT;

/// See the module.
#[derive(Debug)]
pub struct Queue<E> {
    buckets: Vec<Vec<(u64, E)>>,
    /// A bit for each bucket that holds something.
    occupied: Vec<u64>,
    /// The bucket that is open, counted from the beginning of time.
    open: u64,
    /// Its events, sorted; those before `next` have happened.
    current: Vec<(u64, E)>,
    next: usize,
    beyond: BTreeMap<(u64, u64), E>,
    /// Events ever put beyond the wheel.
    beyond_added: u64,
    now: u64,
    len: usize,
}

impl<E: Copy> Queue<E> {
    /// Nothing to come, at time zero.
    pub fn new() -> Queue<E> {
        Queue {
            buckets: (0..WHEEL).map(|_| Vec::new()).collect(),
            occupied: vec![0; WHEEL / 64],
            open: 0,
            current: Vec::new(),
            next: 0,
            beyond: BTreeMap::new(),
            beyond_added: 0,
            now: 0,
            len: 0,
        }
    }

    /// The time of the last event taken.
    #[cfg(test)]
    fn now(&self) -> u64 {
        self.now
    }

    /// Adds an event.
    ///
    /// # Panics
    /// If its time has passed.
    #[inline]
    pub fn add(&mut self, at: u64, event: E) {
        assert!(at >= self.now, "an event before the present");
        self.len += 1;
        let bucket = at >> BUCKET_SHIFT;
        if bucket <= self.open {
            let place = self.next + self.current[self.next..].partition_point(|(t, _)| *t <= at);
            self.current.insert(place, (at, event));
        } else if bucket < self.open + WHEEL as u64 {
            self.put(bucket, at, event);
        } else {
            self.beyond.insert((at, self.beyond_added), event);
            self.beyond_added += 1;
        }
    }

    /// Takes the next event.
    #[inline]
    pub fn take(&mut self) -> Option<(u64, E)> {
        while self.next == self.current.len() {
            if self.len == 0 {
                return None;
            }
            self.open_next();
        }
        let (at, event) = self.current[self.next];
        self.next += 1;
        self.len -= 1;
        self.now = at;
        Some((at, event))
    }

    /// How many events are to come.
    pub fn len(&self) -> usize {
        self.len
    }

    /// All events to come, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &E> {
        let near = self.current[self.next..].iter().chain(self.buckets.iter().flatten());
        near.map(|(_, event)| event).chain(self.beyond.values())
    }

    fn put(&mut self, bucket: u64, at: u64, event: E) {
        let index = bucket as usize & (WHEEL - 1);
        self.buckets[index].push((at, event));
        self.occupied[index / 64] |= 1 << (index % 64);
    }

    /// Opens the next bucket that holds something; there is one.
    fn open_next(&mut self) {
        self.current.clear();
        self.next = 0;
        let far = self.beyond.first_key_value().map(|((at, _), _)| at >> BUCKET_SHIFT);
        self.open = match (self.next_occupied(), far) {
            (Some(near), Some(far)) => near.min(far),
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => unreachable!("the length says that something is there"),
        };
        let horizon = (self.open + WHEEL as u64) << BUCKET_SHIFT;
        while let Some(entry) = self.beyond.first_entry() {
            let at = entry.key().0;
            if at >= horizon {
                break;
            }
            let event = entry.remove();
            self.put(at >> BUCKET_SHIFT, at, event);
        }
        let index = self.open as usize & (WHEEL - 1);
        // The vectors change places, so that none is ever allocated twice.
        std::mem::swap(&mut self.current, &mut self.buckets[index]);
        self.occupied[index / 64] &= !(1 << (index % 64));
        self.current.sort_by_key(|(at, _)| *at);
    }

    /// The first bucket after the open one that holds something.
    fn next_occupied(&self) -> Option<u64> {
        let words = self.occupied.len();
        let start = (self.open as usize + 1) & (WHEEL - 1);
        for step in 0..=words {
            let word = (start / 64 + step) % words;
            let mut bits = self.occupied[word];
            if step == 0 {
                bits &= u64::MAX << (start % 64);
            } else if step == words {
                bits &= !(u64::MAX << (start % 64));
            }
            if bits != 0 {
                let index = word * 64 + bits.trailing_zeros() as usize;
                let ahead = index.wrapping_sub(start) & (WHEEL - 1);
                return Some(self.open + 1 + ahead as u64);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::SplitMix64;
    use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

    /// The order of a sorted list, whatever comes in between.
    #[test]
    fn events_come_by_time_and_then_by_order() {
        let mut random = SplitMix64::seed_from_u64(7);
        let mut queue = Queue::new();
        let mut wanted: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        let mut added = 0;
        for _ in 0..200_000 {
            if random.next_u64().is_multiple_of(2) {
                let span = [1, 40, 3_000, 600_000, 3_000_000][random.next_u64() as usize % 5];
                let at = queue.now() + random.next_u64() % span;
                queue.add(at, added);
                wanted.insert((at, added), added);
                added += 1;
            } else {
                let first = wanted.pop_first().map(|((at, _), event)| (at, event));
                assert_eq!(queue.take(), first);
            }
        }
    }
}
