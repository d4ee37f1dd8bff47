//! The measurements, as they are given on the command line.

use crate::alltoall::{self, AlltoallArgs};
use crate::behind::{self, BehindArgs};
use crate::failover::{self, FailoverArgs};
use crate::flood::{self, FloodArgs};
use crate::matching::{self, MatchArgs};
use crate::measured::Test;
use crate::memory::{self, MemoryArgs};
use crate::overlap::{self, OverlapArgs};
use crate::pace::{self, PaceArgs};
use crate::recover::{self, RecoverArgs};
use crate::remote::{self, AtomicArgs, RmaArgs};
use crate::stripe::{self, StripeArgs};
use crate::sweep::{self, BandwidthArgs, LatencyArgs, Windowed};
use anyhow::Result;
use clap::Subcommand;

/// The measurements.
#[derive(Debug, Subcommand)]
pub enum PerfCommand {
    /// Half round trips: one message there, one back.
    #[command(after_help = "\
Examples:
  sluice perf latency                       a sweep of sizes
  sluice perf latency --size 8 --seconds 5  one size, longer
  sluice perf latency --cores 0,2 --json    on these two cores, for a program
  sluice perf latency --rail tcp --raw      over TCP, beside a plain connection
  sluice perf latency --rail tcp --other 'ssh node2'   the second process on another host
  sluice perf latency --rail tcp --here 'sluice lab exec h0' --other 'sluice lab exec h1'
  sluice perf latency --api portals         puts and gets as a Portals program does them
  sluice perf latency --api portals --op get --ni nonmatching")]
    Latency(LatencyArgs),
    /// Bytes per second, one way, a window of messages at a time.
    #[command(after_help = "\
Examples:
  sluice perf bandwidth                     a sweep of sizes
  sluice perf bandwidth --size 1M,4M        two sizes
  sluice perf bandwidth --size 1M,4M --window 1   message by message
  sluice perf bandwidth --cold --json       from and into memory that is in no cache
  sluice perf bandwidth --buffers distinct  a buffer for each message of a window
  sluice perf bandwidth --bulk ring         as where direct reads are forbidden
  sluice perf bandwidth --rail tcp --raw    over TCP, beside a plain connection
  sluice perf bandwidth --api portals       puts through libportals, acknowledgements counted")]
    Bandwidth(BandwidthArgs),
    /// Messages per second, one way, a window of messages at a time.
    #[command(after_help = "\
Examples:
  sluice perf rate                          small messages
  sluice perf rate --size 8 --window 256    more messages before each answer
  sluice perf rate --rail tcp --raw         over TCP; a plain one with 1, 16, 64 a write
  sluice perf rate --api portals            puts through libportals, acknowledgements counted")]
    Rate(Windowed),
    /// Many processes that all send to each other, without an MPI.
    #[command(after_help = alltoall::HELP)]
    Alltoall(AlltoallArgs),
    /// Far more messages than the receiver wants: what it keeps, and whether all come.
    #[command(after_help = "\
The receiver wants nothing for a while; then it takes everything, the last tag
first, and checks every byte. The exit status tells whether all came and whether
what was kept of them stayed within the bound.

Examples:
  sluice perf flood                                a million messages of 1 KiB
  sluice perf flood --messages 200000 --size 8192
  sluice perf flood --messages 5000000 --size 1K --json
  sluice perf flood --rail tcp --messages 100000")]
    Flood(FloodArgs),
    /// How much of a large transfer each side can compute through.
    #[command(after_help = overlap::HELP)]
    Overlap(OverlapArgs),
    /// What a slow sink costs a fast flow from the same sender.
    #[command(after_help = pace::HELP)]
    Pace(PaceArgs),
    /// What reads over several network rails have of their sum.
    #[command(after_help = stripe::HELP)]
    Stripe(StripeArgs),
    /// How long nothing comes when one of several network rails fails.
    #[command(after_help = failover::HELP)]
    Failover(FailoverArgs),
    /// How long a short message waits behind large ones to the same peer.
    #[command(after_help = behind::HELP)]
    Behind(BehindArgs),
    /// Reads and writes of another process's memory, which calls or computes meanwhile.
    #[command(after_help = remote::HELP_RMA)]
    Rma(RmaArgs),
    /// Atomic operations on another process's memory, which calls or computes meanwhile.
    #[command(after_help = remote::HELP_ATOMIC)]
    Atomic(AtomicArgs),
    /// What recovery from exhaustion costs: many processes put to one whose queue is short.
    #[command(after_help = recover::HELP)]
    Recover(RecoverArgs),
    /// Bytes that each peer takes, connected or only known.
    #[command(after_help = memory::HELP)]
    Memory(MemoryArgs),
    /// One match in the Portals engine, as its lists grow, in this process alone.
    #[command(after_help = matching::HELP)]
    Match(MatchArgs),
}

/// Runs a measurement and prints what it found.
pub fn run(command: &PerfCommand) -> Result<()> {
    match command {
        PerfCommand::Latency(args) => sweep::run(&args.common, Test::Latency, args.op),
        PerfCommand::Bandwidth(args) => sweep::run_bandwidth(args),
        PerfCommand::Rate(args) => {
            sweep::run(&args.common, Test::Rate { window: args.window }, None)
        }
        PerfCommand::Alltoall(args) => alltoall::run(args),
        PerfCommand::Flood(args) => flood::run(args),
        PerfCommand::Overlap(args) => overlap::run(args),
        PerfCommand::Pace(args) => pace::run(args),
        PerfCommand::Stripe(args) => stripe::run(args),
        PerfCommand::Failover(args) => failover::run(args),
        PerfCommand::Behind(args) => behind::run(args),
        PerfCommand::Rma(args) => remote::run_rma(args),
        PerfCommand::Atomic(args) => remote::run_atomic(args),
        PerfCommand::Recover(args) => recover::run(args),
        PerfCommand::Memory(args) => memory::run(args),
        PerfCommand::Match(args) => matching::run(args),
    }
}
