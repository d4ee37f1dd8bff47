//! `sluice sim swarm`: many random programs over the whole stack in virtual time.
//!
//! The threads take the seeds one by one; what is printed is in order of the
//! seeds and does not depend on the threads.

use super::progress::duration;
use super::verdict::{self, with_quiet_panics};
use anyhow::{Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use sluice_sim::swarm::{Cut, FaultCounts, Summary, Trace};
use std::io::{IsTerminal as _, Write as _};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Failures after which no new seed is begun: more would only repeat them.
const FAILURES_MAX: u64 = 10;
/// Failures whose traces are printed.
const TRACES_MAX: usize = 3;

const HELP: &str = "\
Each seed draws processes, mailboxes, a network and a legal program of sends, receives, probes and
cancels, and runs it over the code that ships. Credits, memory, matching and bytes are checked after
every step, and in the end everything must have ended. In half of the worlds processes are on several
hosts, joined by rails that break, fall silent, lose frames, slow down and return. Processes stop, are
slow and end, clocks jump, and what they have too little of runs out.

Exit status: 0 nothing is wrong, 1 a seed failed or an error.

Examples:
  sluice sim swarm --seeds 0..20000
  sluice sim swarm --seed 17
  sluice sim trace 17
  sluice sim shrink 17";

/// Arguments of `sluice sim swarm`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct SwarmArgs {
    /// The seeds from A up to, and without, B.
    #[arg(long, value_name = "A..B", default_value = "0..1000", value_parser = seeds)]
    seeds: Range<u64>,
    /// One seed only.
    #[arg(long, value_name = "N", conflicts_with = "seeds",
        value_parser = clap::value_parser!(u64).range(..u64::MAX))]
    seed: Option<u64>,
    /// How many threads; the results do not depend on it [default: one a core].
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// A seed whose program went wrong.
#[derive(Debug, Serialize)]
struct Failure {
    seed: u64,
    what: String,
    trace: Vec<String>,
    replay: String,
}

/// Totals of one thread, or of all.
#[derive(Debug, Default)]
struct Outcomes {
    seeds: u64,
    sum: Summary,
    /// Faults, also in worlds that went wrong.
    faults: FaultCounts,
    failures: Vec<Failure>,
}

/// Runs the command.
pub fn run(args: &SwarmArgs) -> Result<ExitCode> {
    let seeds = args.seed.map_or(args.seeds.clone(), |seed| seed..seed + 1);
    if seeds.is_empty() {
        bail!("no seeds: {} is not less than {}", seeds.start, seeds.end);
    }
    let start = Instant::now();
    let outcomes = with_quiet_panics(|| run_all(&seeds, args));
    let seconds = start.elapsed().as_secs_f64();
    if args.json {
        json(&outcomes, seconds)?;
    } else {
        text(&outcomes, seconds)?;
    }
    Ok(if outcomes.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let parsed = text
        .split_once("..")
        .and_then(|(first, end)| Some(first.trim().parse().ok()?..end.trim().parse().ok()?));
    parsed.ok_or_else(|| "must be two numbers like 0..1000".to_owned())
}

fn run_all(seeds: &Range<u64>, args: &SwarmArgs) -> Outcomes {
    let count = seeds.end - seeds.start;
    let threads = args
        .threads
        .or_else(|| std::thread::available_parallelism().ok())
        .map_or(1, NonZeroUsize::get)
        .min(usize::try_from(count).unwrap_or(usize::MAX));
    let bar = bar(count, args.json);
    let (next, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        let mut outcomes = Outcomes::default();
        while failed.load(Ordering::Relaxed) < FAILURES_MAX {
            let taken = next.fetch_add(1, Ordering::Relaxed);
            if taken >= count {
                break;
            }
            if !outcomes.add(seeds.start + taken) {
                failed.fetch_add(1, Ordering::Relaxed);
            }
            if let Some(bar) = &bar {
                bar.inc(1);
            }
        }
        outcomes
    };
    let mut all = Outcomes::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            all.join(worker.join().expect("a failure is caught where it happens"));
        }
    });
    all.failures.sort_by_key(|failure| failure.seed);
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    all
}

impl Outcomes {
    /// Runs a seed. False if it failed.
    fn add(&mut self, seed: u64) -> bool {
        let mut trace = Trace::tail();
        let summary = verdict::of(seed, &Cut::default(), &mut trace);
        self.seeds += 1;
        self.faults = self.faults + trace.faults();
        match summary {
            Ok(summary) => self.sum = sum(&self.sum, &summary),
            Err(what) => {
                let trace = trace.to_string().lines().map(str::to_owned).collect();
                let replay = format!("sluice sim trace {seed}");
                self.failures.push(Failure { seed, what, trace, replay });
                return false;
            }
        }
        true
    }

    fn join(&mut self, other: Outcomes) {
        self.seeds += other.seeds;
        self.faults = self.faults + other.faults;
        self.sum = sum(&self.sum, &other.sum);
        self.failures.extend(other.failures);
    }
}

fn sum(a: &Summary, b: &Summary) -> Summary {
    Summary {
        processes: a.processes + b.processes,
        messages: a.messages + b.messages,
        waited: a.waited + b.waited,
        asked_for: a.asked_for + b.asked_for,
        refused: a.refused + b.refused,
        found: a.found + b.found,
        steps: a.steps + b.steps,
        time_ns: a.time_ns + b.time_ns,
        coverage: a.coverage + b.coverage,
        faults: a.faults + b.faults,
        // The order of the seeds among threads does not matter.
        hash: a.hash.wrapping_add(b.hash),
    }
}

fn json(outcomes: &Outcomes, seconds: f64) -> Result<()> {
    let sum = &outcomes.sum;
    let document = serde_json::json!({
        "seeds": outcomes.seeds,
        "failed": outcomes.failures.len(),
        "seconds": seconds,
        "processes": sum.processes,
        "messages": sum.messages,
        "waited": sum.waited,
        "asked_for": sum.asked_for,
        "refused": sum.refused,
        "probes_found": sum.found,
        "steps": sum.steps,
        "hash": format!("{:016x}", sum.hash),
        "worlds_with": sum.coverage,
        "faults": fault_counts(outcomes),
        "failures": outcomes.failures,
    });
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &document)?;
    writeln!(out)?;
    Ok(())
}

fn text(outcomes: &Outcomes, seconds: f64) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for failure in outcomes.failures.iter().take(TRACES_MAX) {
        writeln!(out, "seed {}: {}", failure.seed, failure.what)?;
        for line in &failure.trace {
            writeln!(out, "  {line}")?;
        }
        writeln!(out, "replay it with: {}\n", failure.replay)?;
    }
    for failure in outcomes.failures.iter().skip(TRACES_MAX) {
        writeln!(out, "seed {}: {}", failure.seed, failure.what)?;
    }
    let sum = &outcomes.sum;
    writeln!(
        out,
        "seeds: {}, failed: {}, in {}: {} messages of {} processes, {} waited for credits, {} were \
         asked for, {} probes found one, {} steps, hash {:016x}",
        outcomes.seeds,
        outcomes.failures.len(),
        duration(std::time::Duration::from_secs_f64(seconds)),
        sum.messages,
        sum.processes,
        sum.waited,
        sum.asked_for,
        sum.found,
        sum.steps,
        sum.hash,
    )?;
    let counts = outcomes.faults.iter().zip(outcomes.sum.faults.iter());
    let kinds = counts.filter(|((_, happened), _)| *happened > 0);
    let kinds: Vec<String> = kinds
        .map(|((name, happened), (_, survived))| format!("{name} {survived} of {happened}"))
        .collect();
    if !kinds.is_empty() {
        writeln!(out, "worlds that survived faults: {}", kinds.join(", "))?;
    }
    Ok(())
}

/// By kind of fault: in how many worlds it has happened, and how many of these came to a
/// good end.
fn fault_counts(outcomes: &Outcomes) -> serde_json::Value {
    let counts = outcomes.faults.iter().zip(outcomes.sum.faults.iter());
    let counts = counts.map(|((name, happened), (_, survived))| {
        (name.to_owned(), serde_json::json!({ "happened": happened, "survived": survived }))
    });
    serde_json::Value::Object(counts.collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_range() {
        assert_eq!(seeds("3..12"), Ok(3..12));
        for wrong in ["", "3", "3..", "..4", "a..b", "-1..2"] {
            assert!(seeds(wrong).is_err(), "{wrong}");
        }
    }
}
