//! `sluice perf latency`, `bandwidth` and `rate`: sizes one after the other, each
//! checked, warmed up, measured and checked again.

mod table;

use crate::buffers::Buffers;
use crate::cores::{CorePair, Placement};
use crate::effort::Effort;
use crate::limits::Limits;
use crate::measured::{Api, Measured, NiKind, Op, Test};
use crate::messages::Messages;
use crate::node::Node;
use crate::portals::{self, Portals};
use crate::progress::Progress;
use crate::rail::{Opening, RailArgs, RailKind, choice};
use crate::raw::Raw;
use crate::step::Step;
use crate::{direct, session};
use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};
use sluice_rail::shm::{BulkKind, CreditKind};
use sluice_runtime::RailOptions;
use sluice_text::parse_size;
use table::{Measurement, RawFigure, Row};

/// What every measurement can be told.
#[derive(Debug, Args)]
pub struct Common {
    /// Message size in bytes, or several: 8, 64K, 1M [default: a sweep]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = parse_size,
          allow_negative_numbers = true)]
    size: Vec<u64>,
    #[command(flatten)]
    rail: RailArgs,
    /// Measure each size over a plain TCP connection too, with --rail tcp
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    effort: Effort,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// The core of each process [default: the first two that are allowed]
    #[arg(long, value_name = "A,B")]
    cores: Option<CorePair>,
    /// How the bytes of large messages move, with --api messages [default: auto]
    #[arg(long, value_parser = choice::<BulkKind>())]
    bulk: Option<BulkKind>,
    /// How the room for messages is shared among senders, with --api messages
    /// [default: dynamic]
    #[arg(long, value_parser = choice::<CreditKind>())]
    credits: Option<CreditKind>,
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

/// What latency can be told besides.
#[derive(Debug, Args)]
pub struct LatencyArgs {
    #[command(flatten)]
    pub common: Common,
    /// Which operation, with --api portals [default: both]
    #[arg(long, value_enum)]
    pub op: Option<Op>,
}

/// What bandwidth can be told besides.
#[derive(Debug, Args)]
pub struct BandwidthArgs {
    #[command(flatten)]
    pub windowed: Windowed,
    /// What messages are sent from and received into, with --api messages [default: hot]
    #[arg(long, value_enum, conflicts_with = "cold")]
    buffers: Option<Buffers>,
    /// The same as --buffers cold
    #[arg(long)]
    cold: bool,
}

impl BandwidthArgs {
    /// The measurement.
    fn test(&self) -> Test {
        Test::Bandwidth {
            window: self.windowed.window,
            buffers: self.buffers().unwrap_or_default(),
        }
    }

    /// The buffers, if they are given.
    fn buffers(&self) -> Option<Buffers> {
        if self.cold { Some(Buffers::Cold) } else { self.buffers }
    }
}

/// What a stream can be told besides.
#[derive(Debug, Args)]
pub struct Windowed {
    #[command(flatten)]
    pub common: Common,
    /// Messages before each answer, or before all acknowledgements are awaited
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub window: u64,
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

/// Most memory of one side's buffers.
const BUFFER_BYTES_MAX: u64 = 1 << 30;

/// Measures bandwidth at every size, and prints what it found.
pub fn run_bandwidth(args: &BandwidthArgs) -> Result<()> {
    let common = &args.windowed.common;
    let buffers = args.buffers();
    let is_given = args.buffers.is_some() || args.cold;
    ensure!(
        common.api == ApiKind::Messages || !is_given,
        "--buffers goes with --api messages only"
    );
    ensure!(
        !common.raw || buffers.is_none_or(|buffers| buffers == Buffers::Hot),
        "a plain connection has one buffer: --raw goes with --buffers hot only"
    );
    run(common, args.test(), None)
}

/// Measures every size, and prints what it found.
pub fn run(common: &Common, test: Test, op: Option<Op>) -> Result<()> {
    let is_portals = common.api == ApiKind::Portals;
    let strangers: &[(&str, bool)] = if is_portals {
        &[("--bulk", common.bulk.is_some()), ("--credits", common.credits.is_some())]
    } else {
        &[("--op", op.is_some()), ("--ni", common.ni.is_some())]
    };
    check_options(is_portals, strangers)?;
    let sizes = if common.size.is_empty() { default_sizes(test, is_portals) } else { &common.size };
    ensure!(
        !matches!(test, Test::Bandwidth { .. }) || !sizes.contains(&0),
        "messages without bytes have no bandwidth; give --size from 1"
    );
    let buffers = buffer_bytes(test, sizes);
    ensure!(
        buffers <= BUFFER_BYTES_MAX,
        "a window has buffers of {buffers} bytes, more than {BUFFER_BYTES_MAX}; give a smaller \
         --size or --window"
    );
    common.rail.check()?;
    ensure!(
        !is_portals || common.rail.kind() == RailKind::Shm,
        "--api portals goes with --rail shm only"
    );
    ensure!(!common.raw || common.rail.kind() == RailKind::Tcp, "--raw goes with --rail tcp only");
    if common.rail.hosts.launch()? {
        return Ok(());
    }
    let placement = Placement::choose(common.cores);
    let mut progress = Progress::new(test.name());
    progress.show("the machine's limits");
    let mut limits = Limits::measure(placement.cores);
    let mut sweep = Sweep { test, common, sizes, placement: &placement, progress };
    let (rows, api) = match common.api {
        ApiKind::Messages => sweep.by_messages(&mut limits)?,
        ApiKind::Portals => sweep.by_portals(op)?,
    };
    sweep.progress.show("the machine's limits");
    limits.measure_after(placement.cores);
    sweep.progress.clear();
    let measurement = Measurement { test, rail: common.rail.kind(), api, limits, placement };
    measurement.report(&rows).print(common.json)
}

/// Bytes of the buffers that messages of a stream are sent from.
fn buffer_bytes(test: Test, sizes: &[u64]) -> u64 {
    sizes.iter().map(|&size| test.places(size) * size).max().unwrap_or(0)
}

fn default_sizes(test: Test, is_portals: bool) -> &'static [u64] {
    match test {
        Test::Latency if is_portals => &portals::LATENCY_SIZES,
        Test::Bandwidth { .. } if is_portals => &portals::BANDWIDTH_SIZES,
        Test::Rate { .. } if is_portals => &portals::RATE_SIZES,
        Test::Latency | Test::Bandwidth { .. } => &SIZES,
        Test::Rate { .. } => &RATE_SIZES,
    }
}

/// One measurement under way.
struct Sweep<'a> {
    test: Test,
    common: &'a Common,
    sizes: &'a [u64],
    placement: &'a Placement,
    progress: Progress,
}

impl Sweep<'_> {
    fn by_messages(&mut self, limits: &mut Limits) -> Result<(Vec<Row>, Api)> {
        let default = RailOptions::default();
        let mailbox = RailOptions {
            bulk: self.common.bulk.unwrap_or(default.bulk),
            credits: self.common.credits.unwrap_or(default.credits),
            ..default
        };
        let rail = &self.common.rail;
        let opening = Opening { kind: rail.kind(), mailbox, ..Opening::default() };
        let mut node = session::start(self.placement, &opening, &rail.hosts.start())?;
        let raw = self.common.raw.then(|| Raw::open(&mut node)).transpose()?;
        self.reserve(&mut node)?;
        // Only now is it known: a peer's memory is probed when it is connected.
        limits.direct_read = direct::measure(&mut node)?;
        let mut both = Messages { node, raw, test: self.test, streamed: 0 };
        let rows = self.all(&mut both, &[Op::Put])?;
        let node = both.node;
        let direct = node.reads_directly();
        session::stop(node)?;
        Ok((rows, Api::Messages { direct }))
    }

    /// Makes the buffers of both processes as large as any size needs them.
    fn reserve(&self, node: &mut Node) -> Result<()> {
        let largest = self.largest();
        node.begin(&Step::Reserve { size: largest })?;
        node.reserve(largest);
        let bytes = buffer_bytes(self.test, self.sizes);
        node.begin(&Step::ReservePlaces { bytes })?;
        node.reserve_sent(bytes);
        Ok(())
    }

    fn by_portals(&mut self, op: Option<Op>) -> Result<(Vec<Row>, Api)> {
        let ni = self.common.ni.unwrap_or(NiKind::Matching);
        let ops = match (self.test, op) {
            (Test::Latency, None) => vec![Op::Put, Op::Get],
            (_, op) => vec![op.unwrap_or(Op::Put)],
        };
        let mut both = Portals::start(self.placement, ni, self.largest())?;
        let rows = self.all(&mut both, &ops)?;
        both.stop()?;
        Ok((rows, Api::Portals { ni }))
    }

    fn largest(&self) -> u64 {
        self.sizes.iter().copied().max().unwrap_or(0)
    }

    /// Every size of every operation.
    fn all(&mut self, both: &mut impl Measured, ops: &[Op]) -> Result<Vec<Row>> {
        let count = ops.len() * self.sizes.len();
        let mut rows = Vec::with_capacity(count);
        for &op in ops {
            for &size in self.sizes {
                self.progress.at(rows.len(), count, size);
                rows.push(self.one(both, op, size)?);
            }
        }
        Ok(rows)
    }

    /// One size: checked, warmed up, measured, checked.
    fn one(&mut self, both: &mut impl Measured, op: Op, size: u64) -> Result<Row> {
        let Sweep { test, common, .. } = *self;
        let (effort, progress) = (&common.effort, &mut self.progress);
        both.verify(size, size ^ 0x5EED)?;
        let samples = effort
            .samples(progress, |count, samples| both.batch(test, op, size, count, samples))?;
        both.verify(size, size ^ 0xF00D)?;
        let mut raw = Vec::new();
        for &messages_per_write in if common.raw { messages_per_write(test) } else { &[] } {
            let samples = effort.samples(progress, |count, samples| {
                both.raw_batch(test, size, messages_per_write, count, samples)
            })?;
            raw.push(RawFigure { messages_per_write, spread: test.spread(op, &samples, size) });
        }
        let spread = test.spread(op, &samples, size);
        Ok(Row { op, size, spread, samples: samples.count(), raw })
    }
}

/// How many messages a write of the plain connection has.
fn messages_per_write(test: Test) -> &'static [u64] {
    match test {
        Test::Latency | Test::Bandwidth { .. } => &[1],
        Test::Rate { .. } => &[1, 16, 64],
    }
}

/// An error for what only the other way to measure can be told.
fn check_options(is_portals: bool, given: &[(&str, bool)]) -> Result<()> {
    let api = if is_portals { "messages" } else { "portals" };
    match given.iter().find(|(_, given)| *given) {
        Some((option, _)) => bail!("{option} goes with --api {api} only"),
        None => Ok(()),
    }
}
