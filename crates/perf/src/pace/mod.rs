//! `sluice perf pace`: a slow sink beside a fast flow from the same sender.
//!
//! The first process sends, the second one receives. Beside the endpoints by
//! which they speak about what to do (`node`) they have others, with mailboxes of
//! their own, for the flows (`flow`): the sender one, the receiver two. The slow
//! flow goes to the first of these, into a buffer that takes bytes at a set rate
//! only (`sink`); the fast one goes there as well, or to the second. The second
//! is in the same process, polled in turn: a third process would want a core of
//! its own, and without one the scheduler would be measured.

mod flow;
mod share;
mod sink;

use crate::compute::now_ns;
use crate::cores::{CorePair, Placement};
use crate::limits::Limits;
use crate::node::Node;
use crate::other::Start;
use crate::progress::Progress;
use crate::rail::Opening;
use crate::report::{Conditions, Report, bulk_name, bulk_text};
use crate::session;
use crate::step::{Mix, Receiver, Span, Step};
use crate::verify;
use anyhow::{Context, Result, ensure};
use clap::Args;
use flow::{Each, End, FLOWS, Receives};
use serde::Serialize;
use share::{Round, Row, mib_per_s};
use sluice_text::{bytes, parse_seconds, parse_size};

/// What a pace can be told.
#[derive(Debug, Args)]
pub struct PaceArgs {
    /// Rate of the slow sink, in MiB per second
    #[arg(long, value_name = "MIB", default_value_t = 200,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    sink_mib_per_s: u32,
    /// Message size of both flows, in bytes
    #[arg(long, value_name = "BYTES", value_parser = parse_size, default_value = "1M",
          allow_negative_numbers = true)]
    size: u64,
    /// Messages of each flow under way at once
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    window: u32,
    /// Rounds, each of which measures everything once
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Time of each measurement, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds,
          allow_negative_numbers = true, default_value = "0.2")]
    seconds: f64,
    /// The core of each process [default: the first two that are allowed]
    #[arg(long, value_name = "A,B")]
    cores: Option<CorePair>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// The end of the command's help.
pub const HELP: &str = "\
Two flows of large messages from one sender, a window of each under way: the slow
one into a receive buffer that takes bytes at a set rate, the fast one into memory.
Each is measured alone and beside the other; the fast one goes to the receiver of
the slow one (same), then to another mailbox (other). Of the rounds, the row is the
middle one by what the flow kept.

Such a sink takes no time of a core, as a device would; the bytes of the slow flow
cost the fast one what copying them costs, its rate over that of the machine.

Examples:
  sluice perf pace                          a sink of 200 MiB/s
  sluice perf pace --sink-mib-per-s 50      a slower one
  sluice perf pace --size 256K --json       for a program";

impl Receiver {
    /// Which of the receiver's ends it is.
    fn end(self) -> usize {
        match self {
            Receiver::Same => 0,
            Receiver::Other => 1,
        }
    }
}

/// Flows before they count.
const WARM_UP_NS: u64 = 50_000_000;
/// Ends of the receiving process.
const ENDS: usize = 2;
/// Room for their addresses.
const MEETING_BYTES: u64 = 4096;

impl Mix {
    /// The end that each flow goes to.
    fn ends(self) -> Each<Option<usize>> {
        [self.fast.then_some(self.receiver.end()), self.slow.then_some(0)]
    }
}

/// Runs the measurement and prints what it found.
pub fn run(args: &PaceArgs) -> Result<()> {
    ensure!(args.size > 0, "messages without bytes have no pace; give --size from 1");
    let placement = Placement::choose(args.cores);
    let mut progress = Progress::new("pace");
    progress.show("the machine's limits");
    let mut limits = Limits::measure(placement.cores);
    let mut node = session::start(&placement, &Opening::default(), &Start::Child)?;
    let (size, window) = (args.size, args.window);
    let reserved = size.max(MEETING_BYTES);
    node.begin(&Step::Reserve { size: reserved })?;
    node.reserve(reserved);
    verify::first(&mut node, size, size ^ 0x5EED)?;
    let bytes_per_s = u64::from(args.sink_mib_per_s) << 20;
    let mut sender = Sender::open(&mut node, size, window, bytes_per_s)?;
    let mut rows = Vec::with_capacity(2 * FLOWS.len());
    let count = 2 * args.rounds;
    for receiver in [Receiver::Same, Receiver::Other] {
        let mut rounds: Each<Vec<Round>> = [Vec::new(), Vec::new()];
        for round in 0..args.rounds {
            let done = round + if receiver == Receiver::Other { args.rounds } else { 0 };
            progress.show(&format!("round {} of {count}", done + 1));
            let mut rates =
                |fast, slow| sender.measure(&mut node, Mix { fast, slow, receiver }, args.seconds);
            let [fast_alone, _] = rates(true, false)?;
            let shared = rates(true, true)?;
            let [_, slow_alone] = rates(false, true)?;
            for ((all, alone_mib_per_s), shared_mib_per_s) in
                rounds.iter_mut().zip([fast_alone, slow_alone]).zip(shared)
            {
                all.push(Round { alone_mib_per_s, shared_mib_per_s });
            }
        }
        for (flow, all) in FLOWS.into_iter().zip(rounds) {
            rows.push(Row::of(receiver, flow, all));
        }
    }
    verify::first(&mut node, size, size ^ 0xF00D)?;
    let direct = sender.end.moves_directly();
    session::stop(node)?;
    progress.show("the machine's limits");
    limits.measure_after(placement.cores);
    progress.clear();
    report(args, rows, direct, &limits, &placement).print(args.json)
}

/// What only this measurement says.
#[derive(Debug, Serialize)]
struct More {
    sink_mib_per_s: u32,
    size: u64,
    window: u32,
    bulk: &'static str,
    #[serde(flatten)]
    conditions: Conditions,
}

/// What was found. Of each row `receiver`, `flow`, `alone_mib_per_s` and
/// `shared_mib_per_s` are relied on.
fn report(
    args: &PaceArgs,
    rows: Vec<Row>,
    direct: bool,
    limits: &Limits,
    placement: &Placement,
) -> Report<Row, More> {
    let PaceArgs { sink_mib_per_s, size, window, .. } = *args;
    let conditions = Conditions::of(placement, limits);
    Report {
        test: "pace",
        rail: Some("shm"),
        more: More { sink_mib_per_s, size, window, bulk: bulk_name(direct), conditions },
        notes: limits.notes(placement),
        head: format!(
            "pace over shm: a sink of {sink_mib_per_s} MiB/s beside a fast flow, messages of {}, \
             windows of {window}; {}",
            bytes(size),
            bulk_text(direct),
        ),
        table: share::table(&rows),
        rows,
        foot: "receiver: the fast flow goes to that of the slow one, or to another\n".to_owned(),
    }
}

/// The sending side, in the first process.
struct Sender {
    end: End,
    size: u64,
    window: u32,
}

impl Sender {
    /// Opens its end, has the second process open two, and meets them.
    fn open(node: &mut Node, size: u64, window: u32, bytes_per_s: u64) -> Result<Sender> {
        let mut end = End::open(size)?;
        let address = end.address();
        put(node, &address)?;
        node.begin(&Step::PaceOpen { size, window, bytes_per_s })?;
        let count = node.data_received() + 1;
        node.post_data(MEETING_BYTES)?;
        node.send_data(MEETING_BYTES)?;
        node.wait_data(count)?;
        for index in 0..ENDS {
            let at = index * address.len();
            let theirs = node.recv_buf().get(at..at + address.len());
            end.meet(theirs.context("an address of another length")?)?;
        }
        Ok(Sender { end, size, window })
    }

    /// The rate of each flow of a mix.
    fn measure(&mut self, node: &mut Node, mix: Mix, seconds: f64) -> Result<Each<f64>> {
        // A span without length has no rate.
        let span_ns = ((seconds * 1e9) as u64).max(1);
        let from_ns = now_ns() + WARM_UP_NS;
        let span = Span { from_ns, until_ns: from_ns + span_ns };
        node.begin(&Step::Pace { mix, span })?;
        flow::send(node, &mut self.end, mix.ends(), self.window, span)?;
        let counted = node.wait_answer()?;
        let counts = [counted as u32, (counted >> 32) as u32];
        Ok(counts.map(|count| mib_per_s(count, self.size, span_ns)))
    }
}

/// The receiving side, in the second process.
#[derive(Debug)]
pub struct Receivers {
    ends: Vec<End>,
    window: u32,
}

impl Receivers {
    /// The other side of `Sender::open`.
    pub fn open(node: &mut Node, size: u64, window: u32, bytes_per_s: u64) -> Result<Receivers> {
        ensure!(bytes_per_s > 0, "a sink that takes nothing");
        let count = node.data_received() + 1;
        node.post_data(MEETING_BYTES)?;
        node.answer(0)?;
        node.wait_data(count)?;
        let mut ends = Vec::with_capacity(ENDS);
        let mut addresses = Vec::new();
        for _ in 0..ENDS {
            let mut end = End::open(size)?;
            let address = end.address();
            let theirs = node.recv_buf().get(..address.len());
            end.meet(theirs.context("an address of another length")?)?;
            addresses.extend(address);
            ends.push(end);
        }
        ends[0].slow_down(bytes_per_s as f64);
        put(node, &addresses)?;
        // Its bytes stay until the next step, which comes only after they have
        // arrived.
        node.send_data(MEETING_BYTES)?;
        Ok(Receivers { ends, window })
    }

    /// The other side of `Sender::measure`.
    pub fn take(&mut self, node: &mut Node, mix: Mix, span: Span) -> Result<()> {
        let receives = Receives::post(&mut self.ends, mix.ends(), self.window)?;
        node.answer(0)?;
        let [fast, slow] = receives.take(node, &mut self.ends, span)?;
        node.answer(u64::from(fast) | u64::from(slow) << 32)
    }
}

/// Puts addresses where a message of `MEETING_BYTES` is sent from.
fn put(node: &mut Node, addresses: &[u8]) -> Result<()> {
    let to = node.send_buf().get_mut(..addresses.len());
    to.context("addresses that are too long")?.copy_from_slice(addresses);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_fast_flow_goes_elsewhere() {
        let mix = Mix { fast: true, slow: true, receiver: Receiver::Other };
        assert_eq!(mix.ends(), [Some(1), Some(0)]);
        let mix = Mix { fast: true, slow: false, receiver: Receiver::Same };
        assert_eq!(mix.ends(), [Some(0), None]);
    }
}
