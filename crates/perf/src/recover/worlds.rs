//! `sluice perf recover --simulated`: what one exhaustion costs as the world grows.

use super::simulated::{self, EVENT_NS, LATENCY_NS, Outcome, PACKET_NS, Plan};
use super::{PUT_BYTES, RecoverArgs};
use crate::progress::Progress;
use crate::report::Report;
use crate::stats::tenth;
use anyhow::{Result, ensure};
use serde::Serialize;
use sluice_portals::Scheme;
use sluice_text::Table;

/// What was found of one scheme in one world.
#[derive(Debug, Serialize)]
struct Row {
    scheme: &'static str,
    processes: u64,
    initiators: u64,
    exhaustions: u64,
    refused: u64,
    overhead_pct: f64,
    /// What one exhaustion takes, in virtual time, and in words of recovery.
    us_each: f64,
    words_each: f64,
    lost: u64,
}

/// What only this measurement says.
#[derive(Debug, Serialize)]
struct More {
    simulated: bool,
    queue: u64,
    window: u64,
    latency_ns: u64,
    packet_ns: u64,
    event_ns: u64,
}

pub fn run(args: &RecoverArgs, worlds: &[u64]) -> Result<()> {
    let mut progress = Progress::new("recover");
    let mut rows = Vec::new();
    for (name, scheme) in [("resume", Scheme::Resume), ("pause", Scheme::Pause)] {
        for &processes in worlds {
            progress.show(&format!("{name} in a world of {processes}"));
            rows.push(measure(args, name, scheme, processes)?);
        }
    }
    progress.clear();
    let lost: u64 = rows.iter().map(|row| row.lost).sum();
    report(args, rows).print(args.json)?;
    ensure!(lost == 0, "{lost} puts were lost");
    Ok(())
}

fn measure(args: &RecoverArgs, name: &'static str, scheme: Scheme, processes: u64) -> Result<Row> {
    let initiators = (args.processes.min(processes) - 1) as usize;
    let plan = |queue| Plan {
        scheme,
        processes: processes as usize,
        initiators,
        puts: args.puts,
        window: args.window,
        queue,
        short: args.queue as usize,
        looks_away: args.exhaustions,
    };
    // All events of a run have a place: a put is acknowledged when its event has one, and not
    // when the target takes it. All others have put once.
    let long = processes + initiators as u64 * args.puts;
    let large = simulated::run(&plan(long as usize))?;
    let small = simulated::run(&plan(args.queue as usize))?;
    ensure!(large.exhaustions == 0, "the long queue ran out");
    let Outcome { exhaustions, refused, words, .. } = small;
    let each = |amount: f64| tenth(amount / exhaustions.max(1) as f64);
    let longer_ns = small.ns as f64 - large.ns as f64;
    Ok(Row {
        scheme: name,
        processes,
        initiators: initiators as u64,
        exhaustions,
        refused,
        overhead_pct: tenth(longer_ns / large.ns as f64 * 100.0),
        us_each: each(longer_ns / 1e3),
        words_each: each(words as f64),
        lost: large.lost + small.lost,
    })
}

fn report(args: &RecoverArgs, rows: Vec<Row>) -> Report<Row, More> {
    let heads =
        ["scheme", "processes", "exhaustions", "again", "overhead", "each", "words each", "lost"];
    let mut table = Table::new(&heads);
    for row in &rows {
        table.row(vec![
            row.scheme.to_owned(),
            row.processes.to_string(),
            row.exhaustions.to_string(),
            row.refused.to_string(),
            format!("{:.1} %", row.overhead_pct),
            format!("{:.1} µs", row.us_each),
            format!("{:.1}", row.words_each),
            row.lost.to_string(),
        ]);
    }
    let head = format!(
        "recover, in virtual time: {} processes put {} times {PUT_BYTES} bytes each to one",
        args.processes - 1,
        args.puts
    );
    let foot = format!(
        "a packet takes {LATENCY_NS} ns, to handle or send one {PACKET_NS} ns, to take an event \
         {EVENT_NS} ns; queue of {}",
        args.queue
    );
    let more = More {
        simulated: true,
        queue: args.queue,
        window: args.window,
        latency_ns: LATENCY_NS,
        packet_ns: PACKET_NS,
        event_ns: EVENT_NS,
    };
    Report { test: "recover", rail: None, rows, more, notes: Vec::new(), head, table, foot }
}
