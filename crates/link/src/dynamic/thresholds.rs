//! The FIFO of thresholds of one sender (EXTOLL paper, section 6.2): how many of
//! its slots have to be freed before credits go to it the next time, the time
//! after that, and so on.
//!
//! What it is for: whatever credits a sender has been given, it can bring its
//! receiver over a threshold at most once for each place that its mailbox has for
//! credit packets, unless it reads one. That holds as long as the thresholds
//! together exceed the slots that the sender has, holds, and is owed. They exceed
//! them by one, so that the last threshold but one can always be reached: a
//! greater excess would leave a sender without credits waiting.

use crate::account::CREDIT_PACKETS_MAX;

const THRESHOLDS_MAX: usize = CREDIT_PACKETS_MAX + 1;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thresholds {
    values: [u16; THRESHOLDS_MAX],
    first: u8,
    count: u8,
}

impl Thresholds {
    /// One threshold more than `credit_slots`, as equal as can be, for a sender
    /// to which `slots` belong. With as many slots as places they are all one,
    /// as in section 6.3.
    pub(crate) fn spread(slots: u16, credit_slots: u8) -> Thresholds {
        let count = credit_slots.min(CREDIT_PACKETS_MAX as u8) + 1;
        let sum = u32::from(slots) + 1;
        let (each, more) = (sum / u32::from(count), sum % u32::from(count));
        let mut values = [0; THRESHOLDS_MAX];
        for (i, value) in values.iter_mut().take(usize::from(count)).enumerate() {
            *value = (each + u32::from((i as u32) < more)).max(1) as u16;
        }
        Thresholds { values, first: 0, count }
    }

    /// The current one.
    #[inline]
    pub(crate) fn current(&self) -> u16 {
        self.values[usize::from(self.first)]
    }

    /// How many there are: that many crossings make a monitoring point.
    #[inline]
    pub(crate) fn count(&self) -> u8 {
        self.count
    }

    /// The current one is removed and `new` becomes the last one; the one that is
    /// current then rises by `excess`.
    pub(crate) fn cross(&mut self, new: u16, excess: u16) {
        assert!(new > 0, "a threshold of nothing");
        self.values[usize::from(self.first)] = new;
        self.first += 1;
        if self.first == self.count {
            self.first = 0;
        }
        self.values[usize::from(self.first)] += excess;
    }

    /// All together.
    pub(crate) fn sum(&self) -> u32 {
        self.values[..usize::from(self.count)].iter().map(|&value| u32::from(value)).sum()
    }

    /// From the current one on.
    #[cfg(test)]
    pub(crate) fn list(&self) -> Vec<u16> {
        let (first, count) = (usize::from(self.first), usize::from(self.count));
        (0..count).map(|i| self.values[(first + i) % count]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_as_many_slots_as_places_all_are_one() {
        for credit_slots in 1..9 {
            let thresholds = Thresholds::spread(u16::from(credit_slots), credit_slots);
            assert_eq!(thresholds.list(), vec![1; usize::from(credit_slots) + 1]);
        }
    }

    #[test]
    fn together_they_exceed_the_slots_by_one() {
        assert_eq!(Thresholds::spread(20, 2).list(), [7, 7, 7]);
        assert_eq!(Thresholds::spread(19, 2).list(), [7, 7, 6]);
        assert_eq!(Thresholds::spread(u16::MAX, 1).list(), [32768, 32768]);
        // Fewer slots than places: none is less than one.
        assert_eq!(Thresholds::spread(1, 3).list(), [1, 1, 1, 1]);
        assert_eq!(Thresholds::spread(1, 3).sum(), 4);
    }

    #[test]
    fn the_oldest_goes_and_the_excess_delays_the_next() {
        let mut thresholds = Thresholds::spread(19, 2);
        thresholds.cross(9, 0);
        assert_eq!(thresholds.list(), [7, 6, 9]);
        thresholds.cross(2, 4);
        assert_eq!(thresholds.list(), [10, 9, 2]);
        assert_eq!((thresholds.current(), thresholds.count()), (10, 3));
    }
}
