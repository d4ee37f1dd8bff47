//! Many seeds, each a world of its own, taken one by one by threads: what comes of them does not
//! depend on the threads.

use super::progress::duration;
use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::io::{IsTerminal as _, Write};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Failures after which no new seed is begun: more would only repeat them.
const FAILURES_MAX: u64 = 10;
/// Failures whose traces are printed.
const TRACES_MAX: usize = 3;

/// A seed whose program went wrong.
#[derive(Debug, Serialize)]
pub struct Failure {
    pub seed: u64,
    pub what: String,
    pub trace: Vec<String>,
    pub replay: String,
}

/// What comes of seeds, of one thread or of all.
pub trait Tally: Default + Send {
    /// Runs a seed. False if it failed.
    fn add(&mut self, seed: u64) -> bool;
    /// Adds what another thread has.
    fn join(&mut self, other: Self);
    /// The seeds that failed.
    fn failures(&mut self) -> &mut Vec<Failure>;
}

/// Runs all seeds, by so many threads or one a core.
pub fn run_all<T: Tally>(seeds: &Range<u64>, threads: Option<NonZeroUsize>, quiet: bool) -> T {
    let count = seeds.end - seeds.start;
    let threads = threads
        .or_else(|| std::thread::available_parallelism().ok())
        .map_or(1, NonZeroUsize::get)
        .min(usize::try_from(count).unwrap_or(usize::MAX));
    let progress = Progress::new(count, quiet);
    let (next, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        let mut tally = T::default();
        while failed.load(Ordering::Relaxed) < FAILURES_MAX {
            let taken = next.fetch_add(1, Ordering::Relaxed);
            if taken >= count {
                break;
            }
            if !tally.add(seeds.start + taken) {
                failed.fetch_add(1, Ordering::Relaxed);
            }
            progress.ended_one(failed.load(Ordering::Relaxed));
        }
        tally
    };
    let mut all = T::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            all.join(worker.join().expect("a failure is caught where it happens"));
        }
    });
    all.failures().sort_by_key(|failure| failure.seed);
    progress.clear();
    all
}

/// Prints what went wrong, the first ones with what led to it.
pub fn print_failures(out: &mut impl Write, failures: &[Failure]) -> Result<()> {
    for failure in failures.iter().take(TRACES_MAX) {
        writeln!(out, "seed {}: {}", failure.seed, failure.what)?;
        for line in &failure.trace {
            writeln!(out, "  {line}")?;
        }
        writeln!(out, "replay it with: {}\n", failure.replay)?;
    }
    for failure in failures.iter().skip(TRACES_MAX) {
        writeln!(out, "seed {}: {}", failure.seed, failure.what)?;
    }
    Ok(())
}

/// What is shown on standard error while seeds run: a bar on a terminal, otherwise a line a minute.
struct Progress {
    bar: Option<ProgressBar>,
    count: u64,
    ended: AtomicU64,
    started: Instant,
    /// Minutes of which there is a line.
    minutes: AtomicU64,
}

impl Progress {
    /// Without a bar if it is to be `quiet`.
    fn new(count: u64, quiet: bool) -> Progress {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new(count);
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
            let style = "{bar:30} {percent:>3} %  {pos} of {len} done  time left {eta}";
            bar.set_style(
                ProgressStyle::with_template(style)
                    .unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar
        });
        let (ended, minutes) = (AtomicU64::new(0), AtomicU64::new(0));
        Progress { bar, count, ended, started: Instant::now(), minutes }
    }

    /// A seed has ended; so many have failed.
    fn ended_one(&self, failed: u64) {
        let ended = self.ended.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(bar) = &self.bar {
            return bar.inc(1);
        }
        let elapsed = self.started.elapsed();
        let minutes = elapsed.as_secs() / 60;
        if self.minutes.fetch_max(minutes, Ordering::Relaxed) < minutes {
            let line = line(ended, self.count, failed, elapsed);
            // A line that cannot be shown is no reason to stop.
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn line(ended: u64, count: u64, failed: u64, elapsed: Duration) -> String {
    let left = elapsed.mul_f64((count - ended) as f64 / ended as f64);
    format!("{ended} of {count} seeds done, {failed} failed; about {} left\n", duration(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_how_far_it_is() {
        let told = line(250, 1000, 1, Duration::from_secs(60));
        assert_eq!(told, "250 of 1000 seeds done, 1 failed; about 3 min 0 s left\n");
    }
}
