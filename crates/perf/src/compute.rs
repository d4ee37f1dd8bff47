//! What a process does while it is not in the library: it computes, or waits
//! for a moment.
//!
//! A computation is a fixed amount of work in registers, not a time: whatever
//! takes the core away from it, a thread that makes progress for instance, is
//! seen, because it ends later. Moments are of the machine's monotonic clock,
//! which all of its processes share, so two of them can meet at one without a
//! message.

use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::hint::{black_box, spin_loop};
use std::os::unix::fs::FileExt;

/// Runs of which the fastest tells the rate.
const RUNS: u32 = 9;
/// A run is at least so long, so that reading the clock does not count.
const RUN_NS_MIN: u64 = 200_000;

/// Nanoseconds of the machine's monotonic clock.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Waits for a moment, busily: a process that sleeps wakes too late.
pub fn wait_until(at_ns: u64) {
    while now_ns() < at_ns {
        spin_loop();
    }
}

/// Computes for so many rounds, each of which needs the one before.
pub fn compute(rounds: u64) {
    let mut state = black_box(1_u64);
    for _ in 0..rounds {
        // Knuth's linear congruence.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    }
    black_box(state);
}

/// Computes for so many rounds, and says how many nanoseconds that took.
pub fn compute_timed(rounds: u64) -> u64 {
    let start = now_ns();
    compute(rounds);
    now_ns() - start
}

/// How often this thread was given a core so far; zero where the system does not say.
/// To be compared before and after: if it has grown, somebody else had the core in
/// between, and what was measured is of somebody else as well.
///
/// The shortest of the files that tell it, and it stays open: a longer one takes the
/// system so many instructions that the library, called next, finds its own gone.
pub fn core_losses() -> u64 {
    schedstat()[2]
}

/// For how long this thread was ready to run and others had the core, in nanoseconds; zero
/// where the system does not say.
pub fn core_wait_ns() -> u64 {
    schedstat()[1]
}

/// Time on a core, time of waiting for one, and how often there was one.
fn schedstat() -> [u64; 3] {
    thread_local! {
        static SCHEDSTAT: Option<File> = File::open("/proc/thread-self/schedstat").ok();
    }
    let mut text = [0; 96];
    let len = SCHEDSTAT.with(|file| file.as_ref()?.read_at(&mut text, 0).ok()).unwrap_or(0);
    let mut words = str::from_utf8(&text[..len]).unwrap_or_default().split_whitespace();
    [(); 3].map(|()| words.next().and_then(|word| word.parse().ok()).unwrap_or(0))
}

/// How fast this core computes.
#[derive(Clone, Copy, Debug)]
pub struct ComputeRate {
    rounds_per_ns: f64,
}

impl ComputeRate {
    /// Measures it.
    pub fn calibrate() -> ComputeRate {
        let mut rounds = 1_000;
        while compute_timed(rounds) < RUN_NS_MIN {
            rounds *= 2;
        }
        let fastest_ns = (0..RUNS).map(|_| compute_timed(rounds)).min().unwrap_or(1);
        ComputeRate { rounds_per_ns: rounds as f64 / fastest_ns.max(1) as f64 }
    }

    /// Rounds that take so long if nothing disturbs them, at least one.
    pub fn rounds_in(self, ns: f64) -> u64 {
        ((ns * self.rounds_per_ns) as u64).max(1)
    }

    /// How long so many rounds take if nothing disturbs them.
    pub fn ns_of(self, rounds: u64) -> u64 {
        (rounds as f64 / self.rounds_per_ns) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_rounds_take_longer() {
        let rate = ComputeRate::calibrate();
        let rounds = rate.rounds_in(1e6);
        assert!(rounds > rate.rounds_in(1e5));
        // Other programs can only make it longer; the clock of a virtual machine
        // may be a little off.
        assert!(compute_timed(rounds) > 500_000);
        assert_eq!(rate.rounds_in(0.0), 1);
    }

    #[test]
    fn who_slept_was_given_a_core_anew() {
        let before = core_losses();
        if !std::fs::exists("/proc/thread-self/schedstat").expect("readable") {
            assert_eq!(before, 0);
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(core_losses() > before);
    }

    #[test]
    fn a_moment_is_waited_for() {
        let at_ns = now_ns() + 100_000;
        wait_until(at_ns);
        assert!(now_ns() >= at_ns);
        wait_until(0);
    }
}
