//! `sluice sim swarm --portals`: many random programs of Portals 4 calls, each compared with a
//! model of the specification.

use super::progress::duration;
use super::seeds::{Failure, Tally, print_failures, run_all};
use super::swarm::{fault_counts, print_faults};
use super::verdict::{self, with_quiet_panics};
use anyhow::Result;
use sluice_sim::portals::{Cut, Summary, Trace};
use sluice_sim::swarm::FaultCounts;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Totals of one thread, or of all.
#[derive(Debug, Default)]
struct Outcomes {
    seeds: u64,
    sum: Summary,
    /// Worlds in which each fault has happened.
    faults: FaultCounts,
    failures: Vec<Failure>,
}

impl Tally for Outcomes {
    fn add(&mut self, seed: u64) -> bool {
        let mut trace = Trace::tail();
        let summary = verdict::of_portals(seed, &Cut::default(), &mut trace);
        self.seeds += 1;
        self.faults = self.faults + trace.faults();
        match summary {
            Ok(summary) => self.sum = sum(&self.sum, &summary),
            Err(what) => {
                let trace = trace.to_string().lines().map(str::to_owned).collect();
                let replay = format!("sluice sim trace --portals {seed}");
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
        operations: a.operations + b.operations,
        entries: a.entries + b.entries,
        events: a.events + b.events,
        steps: a.steps + b.steps,
        time_ns: a.time_ns + b.time_ns,
        coverage: a.coverage + b.coverage,
        faults: a.faults + b.faults,
        // The order of the seeds among threads does not matter.
        hash: a.hash.wrapping_add(b.hash),
    }
}

/// Runs the seeds and prints what became of them.
pub fn run(seeds: &Range<u64>, threads: Option<NonZeroUsize>, json: bool) -> Result<ExitCode> {
    let start = Instant::now();
    let outcomes: Outcomes = with_quiet_panics(|| run_all(seeds, threads, json));
    let taken = start.elapsed();
    let mut out = std::io::stdout().lock();
    if json {
        serde_json::to_writer(&mut out, &document(&outcomes, taken))?;
        writeln!(out)?;
    } else {
        print_failures(&mut out, &outcomes.failures)?;
        let sum = &outcomes.sum;
        writeln!(
            out,
            "seeds: {}, failed: {}, in {}: {} operations and {} entries of {} processes, {} \
             events, {} steps, hash {:016x}",
            outcomes.seeds,
            outcomes.failures.len(),
            duration(taken),
            sum.operations,
            sum.entries,
            sum.processes,
            sum.events,
            sum.steps,
            sum.hash,
        )?;
        print_faults(&mut out, &outcomes.faults, &sum.faults)?;
    }
    let is_well = outcomes.failures.is_empty();
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn document(outcomes: &Outcomes, taken: Duration) -> serde_json::Value {
    let sum = &outcomes.sum;
    serde_json::json!({
        "seeds": outcomes.seeds,
        "failed": outcomes.failures.len(),
        "seconds": taken.as_secs_f64(),
        "processes": sum.processes,
        "operations": sum.operations,
        "entries": sum.entries,
        "events": sum.events,
        "steps": sum.steps,
        "hash": format!("{:016x}", sum.hash),
        "worlds_with": sum.coverage,
        "faults": fault_counts(&outcomes.faults, &sum.faults),
        "failures": outcomes.failures,
    })
}
