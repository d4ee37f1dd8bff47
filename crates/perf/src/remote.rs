//! `sluice perf rma` and `sluice perf atomic`: operations on the memory of another process,
//! which calls the library meanwhile or computes.
//!
//! The second process exposes a buffer. The first one writes it, reads it and combines with
//! it, one operation after the other, and then a window of them at a time. While the second
//! one computes it calls nothing of the library for some time, of which it is told before.
//! An operation that needs its call lasts until it is back.

use crate::compute::{now_ns, wait_until};
use crate::cores::{CorePair, Placement};
use crate::limits::Limits;
use crate::node::Node;
use crate::progress::Progress;
use crate::rail::{Opening, RailArgs, RailKind};
use crate::report::{Conditions, Report, word};
use crate::session;
use crate::stats::{Samples, Spread};
use crate::step::Step;
use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use serde::Serialize;
use sluice_proto::{COMBINED_BYTES_MAX, Deed};
use sluice_text::{Table, bytes, parse_seconds, parse_size};
use sluice_wire::{AtomicOp, Datatype};

/// What both can be told.
#[derive(Debug, Args)]
pub struct Common {
    /// What the other process does meanwhile, or several
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "WHAT",
        default_value = "calls,computes"
    )]
    target: Vec<Target>,
    /// Time to measure each case for, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds,
          allow_negative_numbers = true, default_value = "0.3")]
    seconds: f64,
    /// Operations under way where a rate is measured
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u64).range(1..=4096))]
    window: u64,
    /// The core of each process [default: the first two that are allowed]
    #[arg(long, value_name = "A,B")]
    cores: Option<CorePair>,
    #[command(flatten)]
    rail: RailArgs,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// What `sluice perf rma` can be told.
#[derive(Debug, Args)]
pub struct RmaArgs {
    /// Bytes of an operation, or several
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = parse_size,
          allow_negative_numbers = true, default_value = "8,1K,64K,1M")]
    size: Vec<u64>,
    #[command(flatten)]
    common: Common,
}

/// What `sluice perf atomic` can be told.
#[derive(Debug, Args)]
pub struct AtomicArgs {
    /// Bytes of an operation that combines, or several; others have one item of 8
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = parse_size,
          allow_negative_numbers = true, default_value = "8,512")]
    size: Vec<u64>,
    #[command(flatten)]
    common: Common,
}

/// The end of the command's help.
pub const HELP_RMA: &str = "\
A write has ended when its bytes are in their place, a read when they are here. On shared
memory neither needs a call of the target, so the target may compute. Over TCP it does, or a
thread of the library (FI_SLUICE_PROGRESS=thread in an MPI program).

Examples:
  sluice perf rma                              four sizes, target calls and computes
  sluice perf rma --size 8 --target computes --json
  sluice perf rma --rail tcp --target calls";

/// The end of the command's help.
pub const HELP_ATOMIC: &str = "\
sum: items of 8 bytes are added there; fetch: the same, and the values from before come back;
swap: one item, if it equals an operand. All go through the target's engine, so where the
target computes they end when it is back.

Examples:
  sluice perf atomic                           target calls and computes
  sluice perf atomic --target calls --json";

/// What the other process does meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Target {
    /// It polls
    Calls,
    /// It calls nothing of the library
    Computes,
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Op {
    Write,
    Read,
    Sum,
    Fetch,
    Swap,
}

impl Op {
    fn deed(self) -> Deed {
        let item = Datatype::Uint64;
        match self {
            Op::Write => Deed::Write,
            Op::Read => Deed::Read,
            Op::Sum => Deed::Combine(AtomicOp::Sum, item),
            Op::Fetch => Deed::Fetch(AtomicOp::Sum, item),
            Op::Swap => Deed::Fetch(AtomicOp::Cswap, item),
        }
    }
}

/// What was found of one case.
#[derive(Debug, Serialize)]
struct Row {
    op: Op,
    size: u64,
    target: Target,
    /// From the call to the end of the operation.
    us: Spread,
    /// With a window of them under way.
    per_s: f64,
    samples: u64,
    /// False if none ended before a target that computed was back: then the times are those of its
    /// absence.
    ends_meanwhile: bool,
}

impl Row {
    /// A figure of operations, or that there was none.
    fn shown(&self, figure: String) -> String {
        if self.ends_meanwhile { figure } else { "when it is back".to_owned() }
    }
}

/// What only this measurement says.
#[derive(Debug, Serialize)]
struct More {
    window: u64,
    #[serde(flatten)]
    conditions: Conditions,
}

/// Bytes of an item of an atomic operation.
const ITEM_BYTES: u64 = 8;
/// The second process is away from the library by then: its answer has come, and it has only
/// to return from the call that sent it.
const LEAVING_NS: u64 = 1_000_000;
/// Operations of one case at most: of rows that are fast.
const SAMPLES_MAX: u64 = 1_000_000;

/// Runs the measurement of reads and writes, and prints what it found.
pub fn run_rma(args: &RmaArgs) -> Result<()> {
    let cases = [Op::Write, Op::Read]
        .into_iter()
        .flat_map(|op| args.size.iter().map(move |&size| (op, size)))
        .collect();
    run("rma", cases, &args.common)
}

/// Runs the measurement of atomic operations, and prints what it found.
pub fn run_atomic(args: &AtomicArgs) -> Result<()> {
    for &size in &args.size {
        let fits = size > 0 && size.is_multiple_of(ITEM_BYTES) && size <= COMBINED_BYTES_MAX;
        ensure!(
            fits,
            "an operation combines whole items of 8 bytes, {COMBINED_BYTES_MAX} bytes at most; \
             {size} is none"
        );
    }
    let mut cases: Vec<(Op, u64)> = [Op::Sum, Op::Fetch]
        .into_iter()
        .flat_map(|op| args.size.iter().map(move |&size| (op, size)))
        .collect();
    cases.push((Op::Swap, ITEM_BYTES));
    run("atomic", cases, &args.common)
}

fn run(test: &'static str, cases: Vec<(Op, u64)>, args: &Common) -> Result<()> {
    args.rail.check()?;
    if args.rail.hosts.launch()? {
        return Ok(());
    }
    let placement = Placement::choose(args.cores);
    let mut progress = Progress::new(test);
    progress.show("the machine's limits");
    let mut limits = Limits::measure(placement.cores);
    let kind = args.rail.kind();
    let opening = Opening { kind, ..Opening::default() };
    let mut node = session::start(&placement, &opening, &args.rail.hosts.start())?;
    let room = cases.iter().map(|(_, size)| *size).max().unwrap_or(0).max(ITEM_BYTES);
    node.begin(&Step::Reserve { size: room })?;
    node.reserve(room);
    node.begin(&Step::Share)?;
    check(&mut node, room)?;
    let mut rows = Vec::new();
    for (nth, &(op, size)) in cases.iter().enumerate() {
        progress.at(nth, cases.len(), size);
        for &target in &args.target {
            rows.push(measure(&mut node, op, size, target, args)?);
        }
    }
    check(&mut node, room)?;
    session::stop(node)?;
    progress.show("the machine's limits");
    limits.measure_after(placement.cores);
    progress.clear();
    report(test, kind, rows, args.window, &limits, &placement).print(args.json)
}

/// Bytes that were written are read back, and sums are counted.
fn check(node: &mut Node, size: u64) -> Result<()> {
    for (at, byte) in node.send_buf()[..size as usize].iter_mut().enumerate() {
        *byte = (at * 7 + at / 256) as u8;
    }
    one(node, Op::Write, size)?;
    node.recv_buf()[..size as usize].fill(0);
    one(node, Op::Read, size)?;
    let sent = node.send_buf()[..size as usize].to_vec();
    ensure!(node.recv_buf()[..size as usize] == sent, "data altered on its way");
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    let (first, added) = (word(&sent[..8]), word(&sent[..8]));
    one(node, Op::Fetch, ITEM_BYTES)?;
    ensure!(word(&node.recv_buf()[..8]) == first, "the value from before is another one");
    one(node, Op::Read, ITEM_BYTES)?;
    ensure!(word(&node.recv_buf()[..8]) == first.wrapping_add(added), "the sum is another one");
    Ok(())
}

fn one(node: &mut Node, op: Op, size: u64) -> Result<()> {
    let ended = node.remote_ended() + 1;
    node.begin_remote(op.deed(), size, 0)?;
    node.wait_remote(ended)
}

fn measure(node: &mut Node, op: Op, size: u64, target: Target, args: &Common) -> Result<Row> {
    let mut samples = Samples::new();
    let span_ns = (args.seconds * 1e9) as u64;
    // What is slow at first is not what is measured.
    for _ in 0..100 {
        one(node, op, size)?;
    }
    during(node, target, span_ns, |node, until_ns| {
        let mut before_ns = now_ns();
        while before_ns < until_ns && samples.count() < SAMPLES_MAX {
            one(node, op, size)?;
            let now_ns = now_ns();
            samples.record(now_ns - before_ns);
            before_ns = now_ns;
        }
        Ok(())
    })?;
    let (mut done, mut took_ns) = (0, 0);
    during(node, target, span_ns, |node, until_ns| {
        let begin_ns = now_ns();
        while now_ns() < until_ns {
            let ended = node.remote_ended() + args.window;
            for _ in 0..args.window {
                node.begin_remote(op.deed(), size, 0)?;
            }
            node.wait_remote(ended)?;
            done += args.window;
        }
        took_ns = now_ns() - begin_ns;
        Ok(())
    })?;
    let us = Spread::of_times(&samples, 1e3);
    let per_s = done as f64 / (took_ns.max(1) as f64 / 1e9);
    Ok(Row {
        op,
        size,
        target,
        us: us.thousandths(),
        per_s: per_s.round(),
        samples: samples.count(),
        ends_meanwhile: target == Target::Calls || samples.count() > 1,
    })
}

/// Does something for some time, while the target does what it shall.
fn during(
    node: &mut Node,
    target: Target,
    span_ns: u64,
    doing: impl FnOnce(&mut Node, u64) -> Result<()>,
) -> Result<()> {
    if target == Target::Calls {
        return doing(node, now_ns() + span_ns);
    }
    node.begin(&Step::Away { for_ns: LEAVING_NS + span_ns })?;
    let begin_ns = now_ns() + LEAVING_NS;
    wait_until(begin_ns);
    // It is away somewhat longer than this.
    doing(node, begin_ns + span_ns - span_ns / 10)?;
    node.begin(&Step::Reserve { size: 0 })
}

/// The other side of an absence: nothing is called.
pub fn away(node: &mut Node, for_ns: u64) -> Result<()> {
    node.answer(0)?;
    wait_until(now_ns() + for_ns);
    Ok(())
}

fn report(
    test: &'static str,
    rail: RailKind,
    rows: Vec<Row>,
    window: u64,
    limits: &Limits,
    placement: &Placement,
) -> Report<Row, More> {
    let table = Table::of(
        &rows,
        &[
            ("operation", &|row| word(&row.op)),
            ("size", &|row| bytes(row.size)),
            ("target", &|row| word(&row.target)),
            ("µs p50", &|row| row.shown(format!("{:.3}", row.us.p50))),
            ("p99", &|row| row.shown(format!("{:.3}", row.us.p99))),
            ("operations/s", &|row| row.shown(format!("{:.0}", row.per_s))),
        ],
    );
    let mut notes = limits.notes(placement);
    if rows.iter().any(|row| !row.ends_meanwhile) {
        notes.push(
            "operations that need the target's engine ended when it was back from its computation, \
             which takes as long as --seconds; a thread of the target's (FI_SLUICE_PROGRESS=thread) \
             does them meanwhile"
                .to_owned(),
        );
    }
    let rail = rail.name();
    Report {
        test,
        rail: Some(rail),
        rows,
        more: More { window, conditions: Conditions::of(placement, limits) },
        notes,
        head: format!("{test} over {rail}: operations on the memory of another process"),
        table,
        foot: format!(
            "\
µs: from the call to the end of one operation; operations/s: with {window} under way;
calls: the target polls; computes: it calls nothing of the library
"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_promised_shape() {
        let us = Spread { min: 1.0, p50: 1.5, p99: 2.0, max: 9.0 };
        let (op, target) = (Op::Fetch, Target::Computes);
        let ends_meanwhile = true;
        let row = Row { op, size: 8, target, us, per_s: 1e6, samples: 10, ends_meanwhile };
        let (limits, placement) = (Limits::example(), Placement { cores: None, note: None });
        let report_of = |rows| report("atomic", RailKind::Shm, rows, 64, &limits, &placement);
        let report = report_of(vec![row]);
        assert!(report.table.to_string().contains("1.500"), "{}", report.table);
        let json = serde_json::to_value(&report).expect("plain data");
        let row = &json["rows"][0];
        assert_eq!((&row["op"], &row["target"]), (&"fetch".into(), &"computes".into()));
        assert_eq!((&row["us"]["p50"], &json["window"]), (&1.5.into(), &64.into()));
        let usual = report.notes.len();
        let row = Row { op, size: 8, target, us, per_s: 1.0, samples: 1, ends_meanwhile: false };
        let report = report_of(vec![row]);
        assert!(report.table.to_string().contains("when it is back"), "{}", report.table);
        assert!(report.notes.len() == usual + 1 && report.notes[usual].contains("--seconds"));
    }
}
