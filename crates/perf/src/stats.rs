//! Times of one size, and what is said of them.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Longest time that is told from longer ones: a hundred seconds.
const NS_MAX: u64 = 100_000_000_000;

/// Times, each of one sample of the same amount of work.
#[derive(Debug)]
pub struct Samples {
    histogram: Histogram<u64>,
    min_ns: u64,
    max_ns: u64,
}

impl Samples {
    /// None yet.
    pub fn new() -> Samples {
        let histogram = Histogram::new_with_bounds(1, NS_MAX, 3);
        Samples {
            histogram: histogram.expect("these bounds are sound"),
            min_ns: u64::MAX,
            max_ns: 0,
        }
    }

    /// Adds one.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns.max(1));
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The shortest.
    pub fn min_ns(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.min_ns as f64 }
    }

    /// The longest.
    pub fn max_ns(&self) -> f64 {
        self.max_ns as f64
    }

    /// The time that this many per cent of the samples do not exceed.
    pub fn percentile_ns(&self, percent: f64) -> f64 {
        // The histogram rounds up, but none took longer than the longest.
        self.histogram.value_at_percentile(percent).min(self.max_ns) as f64
    }
}

/// A distribution: of half round trips in nanoseconds, or of a rate.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    pub min: f64,
    pub p50: f64,
    /// What 99 of 100 samples do not exceed (times) or reach (rates).
    pub p99: f64,
    pub max: f64,
}

impl Spread {
    /// Each time divided by `parts`.
    pub fn of_times(samples: &Samples, parts: f64) -> Spread {
        Spread {
            min: samples.min_ns() / parts,
            p50: samples.percentile_ns(50.0) / parts,
            p99: samples.percentile_ns(99.0) / parts,
            max: samples.max_ns() / parts,
        }
    }

    /// `amount` of something done in each sample, per second.
    pub fn of_rates(samples: &Samples, amount: f64) -> Spread {
        let rate = |ns: f64| amount / (ns.max(1.0) / 1e9);
        Spread {
            min: rate(samples.max_ns()),
            p50: rate(samples.percentile_ns(50.0)),
            // The rate that 99 of 100 samples reach.
            p99: rate(samples.percentile_ns(99.0)),
            max: rate(samples.min_ns()),
        }
    }

    /// To a tenth.
    pub fn rounded(self) -> Spread {
        self.map(tenth)
    }

    /// To a thousandth: of microseconds, nanoseconds.
    pub fn thousandths(self) -> Spread {
        self.map(|value| (value * 1e3).round() / 1e3)
    }

    fn map(self, digits: impl Fn(f64) -> f64) -> Spread {
        let Spread { min, p50, p99, max } = self;
        Spread { min: digits(min), p50: digits(p50), p99: digits(p99), max: digits(max) }
    }
}

/// Rounded to a tenth: more digits than that are noise.
pub fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_times() {
        let mut samples = Samples::new();
        for ns in 1..=1000 {
            samples.record(ns);
        }
        let spread = Spread::of_times(&samples, 2.0);
        assert_eq!((spread.min, spread.p50, spread.p99), (0.5, 250.0, 495.0));
    }

    #[test]
    fn the_median_rate_is_that_of_the_median_time() {
        let mut samples = Samples::new();
        for ns in [100, 200, 400] {
            samples.record(ns);
        }
        let spread = Spread::of_rates(&samples, 64.0);
        assert_eq!(spread.p50, 64.0 / 200e-9);
        assert_eq!(spread.max, 64.0 / 100e-9);
        assert!(spread.min <= spread.p50 && spread.p50 <= spread.max);
    }

    #[test]
    fn no_samples_are_no_panic() {
        let spread = Spread::of_times(&Samples::new(), 2.0);
        assert_eq!(spread.min, 0.0);
    }
}
