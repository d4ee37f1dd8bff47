//! `sluice sim swarm`: many random programs over the whole stack in virtual time.
//!
//! The threads take the seeds one by one; what is printed is in order of the
//! seeds and does not depend on the threads.

use super::portals_swarm;
use super::progress::duration;
use super::seeds::{Failure, Tally, print_failures, run_all};
use super::verdict::{self, with_quiet_panics};
use anyhow::{Result, bail};
use clap::Args;
use sluice_sim::swarm::{Cut, FaultCounts, Summary, Trace};
use std::io::Write;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

const HELP: &str = "\
Each seed draws processes, mailboxes, a network and a legal program of sends, receives, probes and
cancels, and runs it over the code that ships. Credits, memory, matching and bytes are checked after
every step, and in the end everything must have ended. In half of the worlds processes are on several
hosts, joined by rails that break, fall silent, lose frames, slow down and return. Processes stop, are
slow and end, clocks jump, and what they have too little of runs out.

With --portals each seed draws a program of Portals 4 calls: appends, puts, gets, atomic operations,
triggered ones, searches, unlinks. Each call, event, count and byte is compared with a model that was
written from the specification.

Exit status: 0 nothing is wrong, 1 a seed failed or an error.

Examples:
  sluice sim swarm --seeds 0..20000
  sluice sim swarm --seed 17
  sluice sim swarm --portals --seeds 0..20000
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
    /// Programs of Portals 4 calls over the engine alone, compared with a model of the
    /// specification.
    #[arg(long)]
    portals: bool,
    /// How many threads; the results do not depend on it [default: one a core].
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
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
    if args.portals {
        return portals_swarm::run(&seeds, args.threads, args.json);
    }
    let start = Instant::now();
    let outcomes: Outcomes = with_quiet_panics(|| run_all(&seeds, args.threads, args.json));
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

impl Tally for Outcomes {
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

    fn failures(&mut self) -> &mut Vec<Failure> {
        &mut self.failures
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
        "faults": fault_counts(&outcomes.faults, &sum.faults),
        "failures": outcomes.failures,
    });
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &document)?;
    writeln!(out)?;
    Ok(())
}

fn text(outcomes: &Outcomes, seconds: f64) -> Result<()> {
    let mut out = std::io::stdout().lock();
    print_failures(&mut out, &outcomes.failures)?;
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
    print_faults(&mut out, &outcomes.faults, &sum.faults)
}

/// Prints how many worlds have survived each fault that has happened.
pub fn print_faults(
    out: &mut impl Write,
    happened: &FaultCounts,
    survived: &FaultCounts,
) -> Result<()> {
    let kinds = happened.iter().zip(survived.iter()).filter(|((_, happened), _)| *happened > 0);
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
pub fn fault_counts(happened: &FaultCounts, survived: &FaultCounts) -> serde_json::Value {
    let counts = happened.iter().zip(survived.iter()).map(|((name, happened), (_, survived))| {
        (name.to_owned(), serde_json::json!({ "happened": happened, "survived": survived }))
    });
    serde_json::Value::Object(counts.collect())
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
