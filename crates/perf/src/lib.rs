//! `sluice perf`: what the rail does between two processes, beside what the
//! machine allows.
//!
//! The command starts its second process itself (`pair`), pins both, and drives
//! the same endpoint that an MPI drives through libfabric (`node`). For each
//! size it checks every byte of a message each way, warms up, measures
//! (`latency`, `stream`) and checks again. Nothing is timed while it is
//! checked.
//!
//! With `--api portals` the same is driven through `libportals` (`portals`).
//!
//! `sluice perf flood` sends more than is wanted (`flood`); `sluice perf overlap`
//! computes meanwhile (`overlap`, `compute`); `sluice perf pace` has a receiver
//! that takes slowly (`pace`).
//!
//! `sluice perf match` is apart: it measures the engine without a rail, in this
//! process alone (`matching`).

#![forbid(unsafe_code)]

mod bandwidth;
mod compute;
mod cores;
mod direct;
mod flood;
mod latency;
mod limits;
mod matching;
mod node;
mod output;
mod overlap;
mod pace;
mod pair;
mod portals;
mod progress;
mod rail;
mod rate;
mod stats;
mod step;
mod stream;
mod verify;

pub use pair::{PeerArgs, run_peer};
pub use rail::open_default;

use crate::cores::{CorePair, Placement};
use crate::rail::{Bulk, Credits, RailKind, RailOptions};
use anyhow::{Result, ensure};
use clap::{Args, Subcommand, ValueEnum};
use flood::FloodArgs;
use limits::Limits;
use matching::MatchArgs;
use node::Node;
use output::{Report, Row};
use overlap::OverlapArgs;
use pace::PaceArgs;
use portals::{NiKind, Op, Portals};
use progress::Progress;
use sluice_text::{parse_seconds, parse_size};
use stats::{Samples, Spread};
use std::time::{Duration, Instant};
use step::Step;

/// The measurements.
#[derive(Debug, Subcommand)]
pub enum PerfCommand {
    /// Half round trips: one message there, one back.
    #[command(after_help = "\
Examples:
  sluice perf latency                       a sweep of sizes
  sluice perf latency --size 8 --seconds 5  one size, longer
  sluice perf latency --cores 0,2 --json    on these two cores, for a program
  sluice perf latency --api portals         puts and gets as a Portals program does them
  sluice perf latency --api portals --op get --ni nonmatching")]
    Latency(LatencyArgs),
    /// Bytes per second, one way, a window of messages at a time.
    #[command(after_help = "\
Examples:
  sluice perf bandwidth                     a sweep of sizes
  sluice perf bandwidth --size 1M,4M        two sizes
  sluice perf bandwidth --size 1M,4M --window 1   message by message
  sluice perf bandwidth --bulk ring         as where direct reads are forbidden
  sluice perf bandwidth --api portals       puts through libportals, acknowledgements counted")]
    Bandwidth(Windowed),
    /// Messages per second, one way, a window of messages at a time.
    #[command(after_help = "\
Examples:
  sluice perf rate                          small messages
  sluice perf rate --size 8 --window 256    more messages before each answer
  sluice perf rate --api portals            puts through libportals, acknowledgements counted")]
    Rate(Windowed),
    /// Far more messages than the receiver wants: what it keeps, and whether all come.
    #[command(after_help = "\
The receiver wants nothing for a while; then it takes everything, the last tag
first, and checks every byte. The exit status tells whether all came and whether
what was kept of them stayed within the bound.

Examples:
  sluice perf flood                                a million messages of 1 KiB
  sluice perf flood --messages 200000 --size 8192
  sluice perf flood --messages 5000000 --size 1K --json")]
    Flood(FloodArgs),
    /// How much of a large transfer each side can compute through.
    #[command(after_help = overlap::HELP)]
    Overlap(OverlapArgs),
    /// What a slow sink costs a fast flow from the same sender.
    #[command(after_help = pace::HELP)]
    Pace(PaceArgs),
    /// One match in the Portals engine, as its lists grow, in this process alone.
    #[command(after_help = MATCH_HELP)]
    Match(MatchArgs),
}

const MATCH_HELP: &str = "\
A list is filled to the depth; each step then takes one element by a match and
appends one again. Figures are nanoseconds of such a step, over blocks of steps.

Lists: posted (a put arrives and finds its entry), unexpected (an entry is
appended and finds its message). Order: in (the oldest is matched next), out
(any, drawn at random, the same in every run). Match: exact (bits and source),
masked (16 bits ignored), wildcard (every other entry takes any source).

The event that a program gets for a match is taken out of its queue within the
step; events of linking and unlinking are disabled. In the same run, with the
same steps: plain, a linked list that is walked, alone; and at depth 1 plain
target, that list with credits, numbering and an event for each match.

Examples:
  sluice perf match                            all lists, some 15 seconds
  sluice perf match --depth 1,100000           two depths
  sluice perf match --queue unexpected --json  one list, for a program";

/// What every measurement can be told.
#[derive(Debug, Args)]
pub struct Common {
    /// Message size in bytes, or several: 8, 64K, 1M [default: a sweep]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = parse_size,
          allow_negative_numbers = true)]
    size: Vec<u64>,
    /// The rail to measure
    #[arg(long, value_enum, default_value_t = RailKind::Shm)]
    rail: RailKind,
    /// Samples of each size, instead of a time
    #[arg(long, value_name = "N", conflicts_with = "seconds",
          value_parser = clap::value_parser!(u64).range(1..))]
    iterations: Option<u64>,
    /// Time to measure each size for, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds,
          allow_negative_numbers = true, default_value = "0.5")]
    seconds: f64,
    /// Time to warm up before each size, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds,
          allow_negative_numbers = true, default_value = "0.1")]
    warmup: f64,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// The core of each process [default: the first two that are allowed]
    #[arg(long, value_name = "A,B")]
    cores: Option<CorePair>,
    /// How the bytes of large messages move, with --api messages [default: auto]
    #[arg(long, value_enum)]
    bulk: Option<Bulk>,
    /// How the room for messages is shared among senders, with --api messages
    /// [default: dynamic]
    #[arg(long, value_enum)]
    credits: Option<Credits>,
    /// What the two processes call
    #[arg(long, value_enum, default_value_t = ApiKind::Messages)]
    api: ApiKind,
    /// Which interface, with --api portals [default: matching]
    #[arg(long, value_enum)]
    ni: Option<NiKind>,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ApiKind {
    /// Messages, as an MPI sees them through libfabric
    Messages,
    /// Puts and gets, as a Portals program sees them through libportals.so
    Portals,
}

/// What is measured, with what only it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Api {
    Messages {
        /// Whether the bytes of large messages were read directly.
        direct: bool,
    },
    Portals {
        ni: NiKind,
    },
}

/// What latency can be told besides.
#[derive(Debug, Args)]
pub struct LatencyArgs {
    #[command(flatten)]
    common: Common,
    /// Which operation, with --api portals [default: both]
    #[arg(long, value_enum)]
    op: Option<Op>,
}

/// What a stream can be told besides.
#[derive(Debug, Args)]
pub struct Windowed {
    #[command(flatten)]
    common: Common,
    /// Messages before each answer, or before all acknowledgements are awaited
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u64).range(1..=4096))]
    window: u64,
}

/// Which measurement, with what only it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    Latency,
    Bandwidth { window: u64 },
    Rate { window: u64 },
}

const SIZES: [u64; 12] = [
    8,
    64,
    256,
    1 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
    16 << 20,
];
const RATE_SIZES: [u64; 4] = [8, 64, 256, 1024];

/// A batch lasts about so long: rarely enough to cost nothing, often enough to
/// show progress and to end in time.
const BATCH: Duration = Duration::from_millis(50);
/// Most samples in a batch.
const BATCH_SAMPLES_MAX: u64 = 1 << 20;

/// What drives the two processes.
trait Measured {
    /// Checks every byte of a message each way.
    fn verify(&mut self, size: u64, seed: u64) -> Result<()>;

    /// Takes `count` samples.
    fn batch(
        &mut self,
        test: Test,
        op: Op,
        size: u64,
        count: u64,
        samples: &mut Samples,
    ) -> Result<()>;
}

impl Measured for Node {
    fn verify(&mut self, size: u64, seed: u64) -> Result<()> {
        verify::first(self, size, seed)
    }

    fn batch(
        &mut self,
        test: Test,
        _: Op,
        size: u64,
        count: u64,
        samples: &mut Samples,
    ) -> Result<()> {
        match test {
            Test::Latency => latency::first(self, size, count, samples),
            Test::Bandwidth { window } | Test::Rate { window } => {
                stream::first(self, size, window, count, samples)
            }
        }
    }
}

/// Runs a measurement and prints what it found.
pub fn run(command: &PerfCommand) -> Result<()> {
    let (common, test, op) = match command {
        PerfCommand::Latency(args) => (&args.common, Test::Latency, args.op),
        PerfCommand::Bandwidth(args) => {
            (&args.common, Test::Bandwidth { window: args.window }, None)
        }
        PerfCommand::Rate(args) => (&args.common, Test::Rate { window: args.window }, None),
        PerfCommand::Match(args) => return matching::run(args),
        PerfCommand::Flood(args) => return flood::run(args),
        PerfCommand::Overlap(args) => return overlap::run(args),
        PerfCommand::Pace(args) => return pace::run(args),
    };
    let is_portals = common.api == ApiKind::Portals;
    let strangers: &[(&str, bool)] = if is_portals {
        &[("--bulk", common.bulk.is_some()), ("--credits", common.credits.is_some())]
    } else {
        &[("--op", op.is_some()), ("--ni", common.ni.is_some())]
    };
    portals::check_options(is_portals, strangers)?;
    let sizes = match (&common.size[..], test) {
        ([], Test::Latency) if is_portals => &portals::LATENCY_SIZES[..],
        ([], Test::Bandwidth { .. }) if is_portals => &portals::BANDWIDTH_SIZES[..],
        ([], Test::Rate { .. }) if is_portals => &portals::RATE_SIZES[..],
        ([], Test::Rate { .. }) => &RATE_SIZES[..],
        ([], _) => &SIZES[..],
        (sizes, _) => sizes,
    };
    ensure!(
        !matches!(test, Test::Bandwidth { .. }) || !sizes.contains(&0),
        "messages without bytes have no bandwidth; give --size from 1"
    );
    // One rail so far; the match tells whoever adds the next.
    match common.rail {
        RailKind::Shm => {}
    }
    let placement = Placement::choose(common.cores);
    let mut progress = Progress::new(test.name());
    progress.show("the machine's limits");
    let mut limits = Limits::measure(placement.cores);
    let largest = sizes.iter().copied().max().unwrap_or(0);
    let (rows, api) = match common.api {
        ApiKind::Messages => {
            let default = RailOptions::default();
            let options = RailOptions {
                bulk: common.bulk.unwrap_or(default.bulk),
                credits: common.credits.unwrap_or(default.credits),
                ..default
            };
            let mut node = pair::start(&placement, options)?;
            node.begin(&Step::Reserve { size: largest })?;
            node.reserve(largest);
            // Only now is it known: a peer's memory is probed when it is connected.
            limits.direct_read = direct::measure(&mut node)?;
            let rows = measure_all(&mut node, test, &[Op::Put], sizes, common, &mut progress)?;
            let direct = node.reads_directly();
            pair::stop(node)?;
            (rows, Api::Messages { direct })
        }
        ApiKind::Portals => {
            let ni = common.ni.unwrap_or(NiKind::Matching);
            let ops = match (test, op) {
                (Test::Latency, None) => vec![Op::Put, Op::Get],
                (_, op) => vec![op.unwrap_or(Op::Put)],
            };
            let mut both = Portals::start(&placement, ni, largest)?;
            let rows = measure_all(&mut both, test, &ops, sizes, common, &mut progress)?;
            both.stop()?;
            (rows, Api::Portals { ni })
        }
    };
    progress.show("the machine's limits");
    limits.measure_after(placement.cores);
    progress.clear();
    let report = Report { test, rail: common.rail, api, rows, limits, placement };
    if common.json { report.print_json() } else { report.print_table() }
}

/// Every size of every operation.
fn measure_all(
    both: &mut impl Measured,
    test: Test,
    ops: &[Op],
    sizes: &[u64],
    common: &Common,
    progress: &mut Progress,
) -> Result<Vec<Row>> {
    let count = ops.len() * sizes.len();
    let mut rows = Vec::with_capacity(count);
    for &op in ops {
        for &size in sizes {
            progress.at(rows.len(), count, size);
            rows.push(measure(both, test, op, size, common, progress)?);
        }
    }
    Ok(rows)
}

/// One size: checked, warmed up, measured, checked.
fn measure(
    both: &mut impl Measured,
    test: Test,
    op: Op,
    size: u64,
    common: &Common,
    progress: &mut Progress,
) -> Result<Row> {
    both.verify(size, size ^ 0x5EED)?;
    let mut per_sample = warm_up(both, test, op, size, common)?;
    let mut samples = Samples::new();
    let start = Instant::now();
    let span = Duration::from_secs_f64(common.seconds);
    loop {
        let by_time = (BATCH.as_nanos() / per_sample.as_nanos().max(1)) as u64;
        let left = common.iterations.map_or(u64::MAX, |wanted| wanted - samples.count());
        let count = by_time.clamp(1, BATCH_SAMPLES_MAX).min(left);
        let before = Instant::now();
        both.batch(test, op, size, count, &mut samples)?;
        per_sample = before.elapsed() / u32::try_from(count).unwrap_or(u32::MAX);
        let done = match common.iterations {
            Some(wanted) => samples.count() as f64 / wanted as f64,
            None => start.elapsed().as_secs_f64() / span.as_secs_f64().max(1e-9),
        };
        if done >= 1.0 {
            break;
        }
        progress.within(done);
    }
    both.verify(size, size ^ 0xF00D)?;
    Ok(Row { op, size, spread: test.spread(op, &samples, size), samples: samples.count() })
}

/// Runs for a while without looking, and says how long a sample takes.
fn warm_up(
    both: &mut impl Measured,
    test: Test,
    op: Op,
    size: u64,
    common: &Common,
) -> Result<Duration> {
    let span = Duration::from_secs_f64(common.warmup);
    let start = Instant::now();
    let mut count = 1;
    loop {
        let before = Instant::now();
        both.batch(test, op, size, count, &mut Samples::new())?;
        let took = before.elapsed();
        if start.elapsed() >= span {
            return Ok(took / u32::try_from(count).unwrap_or(u32::MAX));
        }
        if took < BATCH {
            count = (count * 2).min(BATCH_SAMPLES_MAX);
        }
    }
}

impl Test {
    /// Its name on the command line and in JSON.
    fn name(self) -> &'static str {
        match self {
            Test::Latency => "latency",
            Test::Bandwidth { .. } => "bandwidth",
            Test::Rate { .. } => "rate",
        }
    }

    /// What the samples say.
    fn spread(self, op: Op, samples: &Samples, size: u64) -> Spread {
        match self {
            Test::Latency if op == Op::Get => Spread::of_times(samples, 1.0),
            Test::Latency => Spread::of_times(samples, 2.0),
            Test::Bandwidth { window } => bandwidth::mib_per_s(samples, size, window),
            Test::Rate { window } => rate::msgs_per_s(samples, window),
        }
    }
}
