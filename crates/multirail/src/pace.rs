//! How fast a rail is now, by what it has done.
//!
//! Bytes count while the rail has something to bring; an idle rail says nothing about
//! its rate. A sample is closed after a while that is long beside what one arrival
//! takes, so that bytes which come in a burst are not taken for a fast rail. The newest
//! samples weigh most: a rail that becomes slower is known as such within a few of them.
//! One that becomes faster has to show that in several. A shaped link brings what it has
//! saved while it rested at many times its rate, for a fraction of a millisecond. Whoever
//! believed that would ask it for the most of a short read, and all others would wait for it.

use sluice_wire::Nanos;

/// Least time of a sample.
const SAMPLE_NS: u64 = 200_000;
/// Least bytes of a sample.
const SAMPLE_BYTES: u64 = 32 << 10;
/// Weight of a sample beside all before it, as a power of two.
const WEIGHT_SHIFT: u32 = 1;
/// A sample counts as so many times the rate before it at most.
const FASTER_MAX: u64 = 2;

/// The measured pace of one rail.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Bytes per millisecond, which is kilobytes per second; never zero.
    rate: u64,
    is_measured: bool,
    /// Since when the rail has had something to bring, or the last sample was closed.
    since: Option<Nanos>,
    bytes: u64,
}

impl Pace {
    /// A rail of which nothing is known but what its device claims, in bytes per second.
    #[must_use]
    pub fn claimed(bytes_per_s: u64) -> Pace {
        Pace { rate: (bytes_per_s / 1000).max(1), is_measured: false, since: None, bytes: 0 }
    }

    /// Bytes per second, as measured, or as claimed before that.
    #[must_use]
    pub fn bytes_per_s(&self) -> u64 {
        self.rate.saturating_mul(1000)
    }

    /// Whether that is measured.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.is_measured
    }

    /// The rail has something to bring from now on, if it had not.
    pub fn begin(&mut self, now: Nanos) {
        self.since.get_or_insert(now);
    }

    /// Nothing is under way any more: what follows until the next beginning is no time of
    /// the rail's.
    pub fn rest(&mut self, now: Nanos) {
        self.close(now, 0);
        self.stop();
    }

    /// The same, and what has come since the last sample is none.
    pub fn stop(&mut self) {
        (self.since, self.bytes) = (None, 0);
    }

    /// Bytes have come.
    pub fn note(&mut self, now: Nanos, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.close(now, SAMPLE_NS);
    }

    /// How long the rail takes for so many bytes, in nanoseconds.
    #[must_use]
    pub fn ns_for(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(1_000_000) / self.rate
    }

    /// So many bytes come in so many nanoseconds.
    #[must_use]
    pub fn bytes_in(&self, ns: u64) -> u64 {
        self.rate.saturating_mul(ns) / 1_000_000
    }

    fn close(&mut self, now: Nanos, least_ns: u64) {
        let Some(since) = self.since else { return };
        let ns = now.since(since).0;
        if ns == 0 || ns < least_ns || self.bytes < SAMPLE_BYTES {
            return;
        }
        let sample = (self.bytes.saturating_mul(1_000_000) / ns).max(1);
        self.rate = if self.is_measured {
            let sample = sample.min(self.rate.saturating_mul(FASTER_MAX));
            self.rate - (self.rate >> WEIGHT_SHIFT) + (sample >> WEIGHT_SHIFT)
        } else {
            sample
        }
        .max(1);
        self.is_measured = true;
        (self.since, self.bytes) = (Some(now), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    #[test]
    fn a_rail_is_as_fast_as_what_it_brought() {
        let mut pace = Pace::claimed(1_000_000);
        pace.begin(after(0));
        pace.note(after(10), 10_000_000);
        assert_eq!((pace.bytes_per_s(), pace.is_measured()), (1_000_000_000, true));
        assert_eq!((pace.ns_for(1_000), pace.bytes_in(1_000)), (1_000, 1_000));
    }

    #[test]
    fn idle_time_is_not_the_rails() {
        let mut pace = Pace::claimed(1);
        pace.begin(after(0));
        pace.note(after(1), 1_000_000);
        pace.rest(after(1));
        pace.begin(after(1_000));
        pace.note(after(1_001), 1_000_000);
        assert_eq!(pace.bytes_per_s(), 1_000_000_000);
    }

    #[test]
    fn a_burst_is_no_rate() {
        let mut pace = Pace::claimed(1_000_000);
        pace.begin(after(0));
        // What lay in a buffer comes within a microsecond.
        pace.note(Nanos(1_000), 1_000_000);
        assert!(!pace.is_measured());
    }

    #[test]
    fn a_rail_that_becomes_slower_is_known_as_such_soon() {
        let mut pace = Pace::claimed(1);
        let mut now = 0;
        pace.begin(after(now));
        for _ in 0..10 {
            now += 1;
            pace.note(after(now), 1_000_000);
        }
        for _ in 0..5 {
            now += 1;
            pace.note(after(now), 100_000);
        }
        assert!(pace.bytes_per_s() < 150_000_000, "{pace:?}");
    }

    #[test]
    fn one_that_is_fast_for_a_moment_is_not_taken_for_much_faster() {
        let mut pace = Pace::claimed(1);
        pace.begin(after(0));
        for ms in 1..10 {
            pace.note(after(ms), 1_000_000);
        }
        pace.note(after(10), 50_000_000);
        assert!(pace.bytes_per_s() <= 1_500_000_000, "{pace:?}");
        for ms in 11..25 {
            pace.note(after(ms), 50_000_000);
        }
        assert!(pace.bytes_per_s() > 45_000_000_000, "{pace:?}");
    }

    #[test]
    fn nothing_overflows_and_no_rate_is_zero() {
        let mut pace = Pace::claimed(0);
        assert_eq!(pace.ns_for(u64::MAX), u64::MAX);
        pace.begin(Nanos(0));
        pace.note(Nanos(u64::MAX), u64::MAX);
        pace.note(Nanos(u64::MAX), u64::MAX);
        pace.rest(Nanos(u64::MAX));
        assert!(pace.ns_for(1) > 0 && pace.bytes_in(u64::MAX) > 0);
    }
}
