//! Many seeds, each a world of its own, taken one by one by threads: what comes of them does not
//! depend on the threads.

use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::io::{IsTerminal as _, Write};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

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
    let bar = bar(count, quiet);
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
            if let Some(bar) = &bar {
                bar.inc(1);
            }
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
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
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

/// A bar on a terminal.
fn bar(count: u64, quiet: bool) -> Option<ProgressBar> {
    (!quiet && std::io::stderr().is_terminal()).then(|| {
        let bar = ProgressBar::new(count);
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
        let style = "{bar:30} {percent:>3} %  {pos} of {len} done  time left {eta}";
        bar.set_style(
            ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        bar
    })
}
