//! `sluice perf overlap`: how much of a transfer a side can compute through,
//! after Rashti and Afsahi.
//!
//! The first process is always the measured side. Each repetition it tells the
//! second one at which moment of the clock to come, and both stay out of the
//! library until then: nobody makes progress by waiting for the other. Which of
//! the two comes first is part of the case. A repetition in which it did not happen
//! so, or in which one of the two lost its core to another program, is done again;
//! on a machine so busy that this is no use, it counts as disturbed. `share` turns
//! times into a figure.

mod case;
mod role;
mod share;

use crate::access::Attended;
use crate::compute::{ComputeRate, compute, compute_timed, core_losses, now_ns, wait_until};
use crate::cores::{CorePair, Placement};
use crate::limits::Limits;
use crate::node::Node;
use crate::progress::Progress;
use crate::rail::{Opening, RailArgs, RailKind, choice};
use crate::report::{Conditions, Report, bulk_name, bulk_text};
use crate::session;
use crate::step::{Role, Step, When};
use crate::verify;
use anyhow::{Result, bail, ensure};
use case::{CASES, First, MeasuredSide, ProgressBy};
use clap::Args;
use serde::Serialize;
use share::{Repetition, Row, median};
use sluice_rail::shm::BulkKind;
use sluice_runtime::RailOptions;
use sluice_text::parse_size;

/// What an overlap can be told.
#[derive(Debug, Args)]
pub struct OverlapArgs {
    /// Message size in bytes, or several
    #[arg(long, visible_alias = "sizes", value_name = "BYTES", value_delimiter = ',',
          value_parser = parse_size, allow_negative_numbers = true,
          default_value = "64K,256K,1M,4M")]
    size: Vec<u64>,
    /// Repetitions of each case
    #[arg(long, value_name = "N", default_value_t = 101,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repetitions: u32,
    /// Length of the computation after both sides are there, in times of the
    /// communication alone
    #[arg(long, value_name = "TIMES", default_value = "3", value_parser = parse_times,
          allow_negative_numbers = true)]
    compute: f64,
    /// The core of each process [default: the first two that are allowed]
    #[arg(long, value_name = "A,B")]
    cores: Option<CorePair>,
    /// Who comes first [default: either]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHO")]
    first: Vec<First>,
    /// Whose operation is measured [default: either's]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHICH")]
    side: Vec<MeasuredSide>,
    /// Who makes progress while the measured side computes, or several
    #[arg(long, value_enum, value_delimiter = ',', value_name = "BY", default_value = "manual")]
    progress: Vec<ProgressBy>,
    #[command(flatten)]
    rail: RailArgs,
    /// How the bytes of large messages move
    #[arg(long, value_parser = choice::<BulkKind>(), default_value = "auto")]
    bulk: BulkKind,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

impl OverlapArgs {
    fn wants(&self, first: First, side: MeasuredSide) -> bool {
        (self.first.is_empty() || self.first.contains(&first))
            && (self.side.is_empty() || self.side.contains(&side))
    }
}

/// The end of the command's help.
pub const HELP: &str = "\
One side posts its operation (no wait), computes without a call of the library,
then waits. The other side posts and waits at once. One of the two comes first, by
more than a transfer takes.

overlap = 100 % x (1 - (total - t) / comm), from 0 to 100: comm is how long the
communication takes alone, t the computation alone, total both; all three from the
moment at which both sides are there, medians over repetitions. One in which
either side loses its core to another program is done again. So it is the share of
the communication that the measured side does not wait for. A computation is an
amount of work, not a time. t is three times comm, because that may be of two sides that
copy together, and whoever is left copies alone; --compute changes that.

With --progress thread the measured side has the progress thread that an MPI may ask for. It
runs on an idle core, or where the system lets it: with two cores it takes turns with one of
the two sides, which is in the figure. The computation's own lost core then counts as no
disturbance.

Examples:
  sluice perf overlap                     four sizes, all four cases
  sluice perf overlap --size 1M --json    one size, for a program
  sluice perf overlap --bulk ring         as where direct reads are forbidden
  sluice perf overlap --rail tcp          over TCP; with --other, hosts that share a clock
  sluice perf overlap --lab-rails 10 --size 4M --first receiver --side receive \\
    --progress manual,thread              one case over a rail of 10 Gbit/s, without and
                                          with a thread of the library";

/// The other side comes later by this much and twice the transfer.
const LEAD_NS_MIN: f64 = 20_000.0;
/// Communications of which the median tells at first how long to compute.
const TRIALS: usize = 5;
/// How often the length of the computation is chosen for one case.
const CHOICES_MAX: u32 = 3;
/// One that is shorter than this share of what it should be is chosen anew.
const SHORTEST: f64 = 0.9;
/// Tries of one repetition until the two come in the order wanted.
const TRIES_MAX: u32 = 2_000;
/// Tries of those after which it is taken although it was disturbed.
const CLEAN_TRIES_MAX: u32 = 5;

/// Runs the measurement and prints what it found.
pub fn run(args: &OverlapArgs) -> Result<()> {
    ensure!(!args.size.contains(&0), "messages without bytes hide nothing; give --size from 1");
    args.rail.check()?;
    if args.rail.hosts.launch()? {
        return Ok(());
    }
    let placement = Placement::choose(args.cores);
    ensure!(
        !placement.shares_a_core(),
        "one side computes while the other communicates: that takes two cores"
    );
    let mut progress = Progress::new("overlap");
    progress.show("the machine's limits");
    let mut limits = Limits::measure(placement.cores);
    let mailbox = RailOptions { bulk: args.bulk, ..RailOptions::default() };
    // A thread sleeps.
    let sleeps = args.progress.contains(&ProgressBy::Thread);
    let opening = Opening { kind: args.rail.kind(), mailbox, sleeps, ..Opening::default() };
    let mut node: Node<Attended> =
        session::start_with(&placement, &opening, &args.rail.hosts.start())?;
    let largest = args.size.iter().copied().max().unwrap_or(0);
    node.begin(&Step::Reserve { size: largest })?;
    node.reserve(largest);
    let rate = ComputeRate::calibrate();
    let mut measured = MeasuredProcess { node, rate, seed: 0, by: ProgressBy::Manual };
    let mut rows = Vec::new();
    // Once the thread is there it stays.
    for by in [ProgressBy::Manual, ProgressBy::Thread] {
        if !args.progress.contains(&by) {
            continue;
        }
        measured.make_progress(by, &placement)?;
        for (index, &size) in args.size.iter().enumerate() {
            progress.at(index, args.size.len(), size);
            verify::first(&mut measured.node, size, size ^ 0x5EED)?;
            for (first, side) in CASES.into_iter().filter(|(first, side)| args.wants(*first, *side))
            {
                rows.push(measured.case(size, first, side, args)?);
            }
            verify::first(&mut measured.node, size, size ^ 0xF00D)?;
        }
    }
    let direct = measured.node.reads_directly();
    session::stop(measured.node)?;
    progress.show("the machine's limits");
    limits.measure_after(placement.cores);
    progress.clear();
    let kind = args.rail.kind();
    report(kind, rows, args.compute, direct, &limits, &placement).print(args.json)
}

/// What only this measurement says.
#[derive(Debug, Serialize)]
struct More {
    /// Length of the computation, in times of the communication.
    compute_times: f64,
    bulk: &'static str,
    #[serde(flatten)]
    conditions: Conditions,
}

/// What was found. Of each row `size`, `first`, `side` and `overlap_pct` are relied on.
fn report(
    rail: RailKind,
    rows: Vec<Row>,
    compute_times: f64,
    direct: bool,
    limits: &Limits,
    placement: &Placement,
) -> Report<Row, More> {
    let mut notes = limits.notes(placement);
    if rows.iter().any(|row| 2 * row.disturbed > row.samples) {
        notes.push(
            "other programs took a core away in most repetitions of some rows: these rows \
             say little"
                .to_owned(),
        );
    }
    let conditions = Conditions::of(placement, limits);
    Report {
        test: "overlap",
        rail: Some(rail.name()),
        more: More { compute_times, bulk: bulk_name(direct), conditions },
        notes,
        head: format!("overlap over {}: large messages {}", rail.name(), bulk_text(direct)),
        table: share::table(&rows),
        rows,
        foot: "\
wanted: of a side that came first; comm: the communication alone; compute: the
computation alone; total: both; all from the moment at which both sides are there
"
        .to_owned(),
    }
}

/// The side that is not measured, in the second process: it comes at its moment,
/// posts and waits, and answers when it came; the lowest bit tells whether it lost
/// its core. The answer is no part of what is measured, so it waits until that is
/// over.
pub fn second(node: &mut Node, size: u64, when: When, role: Role) -> Result<()> {
    role.prepare(node, size);
    let losses = core_losses();
    wait_until(when.come_ns);
    let came_ns = now_ns();
    let posted = role.post(node, size)?;
    role.wait(node, posted)?;
    let is_disturbed = core_losses() != losses;
    role.check(node, size)?;
    wait_until(when.come_ns + when.quiet_ns);
    node.answer(came_ns << 1 | u64::from(is_disturbed))
}

/// The first process, which is measured.
struct MeasuredProcess {
    node: Node<Attended>,
    rate: ComputeRate,
    by: ProgressBy,
    /// Of the last repetition.
    seed: u32,
}

/// When what happened, in one repetition.
#[derive(Clone, Copy, Debug)]
struct Moments {
    came_ns: u64,
    other_came_ns: u64,
    ended_ns: u64,
    /// Whether one of the two lost its core meanwhile.
    is_disturbed: bool,
}

impl MeasuredProcess {
    /// Starts the thread, if it is that.
    fn make_progress(&mut self, by: ProgressBy, placement: &Placement) -> Result<()> {
        self.by = by;
        match by {
            ProgressBy::Manual => Ok(()),
            ProgressBy::Thread => {
                self.node.access().start_thread(placement.cores.map(|pair| pair.first))
            }
        }
    }

    /// One case. Between computations a communication takes longer than in a few tries
    /// one after the other, and a machine may change: where the computation turns out
    /// too short for the communication that it was to hide, it is chosen anew.
    fn case(
        &mut self,
        size: u64,
        first: First,
        side: MeasuredSide,
        args: &OverlapArgs,
    ) -> Result<Row> {
        let tried_ns = self.tries(size, first, side)?;
        let mut row = self.repetitions(size, first, side, args, tried_ns)?;
        for _ in 1..CHOICES_MAX {
            if row.compute_us >= SHORTEST * args.compute * row.comm_us {
                break;
            }
            row = self.repetitions(size, first, side, args, row.comm_us * 1e3)?;
        }
        Ok(row)
    }

    /// How long a communication takes in a few tries.
    fn tries(&mut self, size: u64, first: First, side: MeasuredSide) -> Result<f64> {
        // At first nobody knows how long it takes: a gigabyte a second.
        let mut comm_ns = size as f64;
        for _ in 0..2 {
            let mut all = Vec::with_capacity(TRIALS);
            for _ in 0..TRIALS {
                let moments = self.together(size, first, side, lead_ns(comm_ns), 0)?;
                all.push(moments.both_there_ns());
            }
            comm_ns = median(all);
        }
        Ok(comm_ns)
    }

    /// All repetitions of one case, if a communication takes about so long.
    fn repetitions(
        &mut self,
        size: u64,
        first: First,
        side: MeasuredSide,
        args: &OverlapArgs,
        comm_ns: f64,
    ) -> Result<Row> {
        let lead_ns = lead_ns(comm_ns);
        let before_ns = if side.is(first) { lead_ns } else { 0.0 };
        let rounds = self.rate.rounds_in(before_ns + args.compute * comm_ns);
        let mut all = Vec::with_capacity(args.repetitions as usize);
        for _ in 0..args.repetitions {
            let comm = self.together(size, first, side, lead_ns, 0)?;
            let compute_ns = compute_undisturbed(rounds) as f64;
            let both = self.together(size, first, side, lead_ns, rounds)?;
            all.push(Repetition {
                comm_ns: comm.both_there_ns(),
                compute_ns,
                elapsed_ns: (both.ended_ns - both.came_ns) as f64,
                is_disturbed: comm.is_disturbed || both.is_disturbed,
            });
        }
        Ok(Row::of(size, first, side, self.by, lead_ns, &all))
    }

    /// One repetition with a computation of so many rounds, done again if it was
    /// none.
    fn together(
        &mut self,
        size: u64,
        first: First,
        side: MeasuredSide,
        lead_ns: f64,
        rounds: u64,
    ) -> Result<Moments> {
        for tries in 1..=TRIES_MAX {
            let moments = self.try_once(size, first, side, lead_ns as u64, rounds)?;
            let (early_ns, late_ns) = if side.is(first) {
                (moments.came_ns, moments.other_came_ns)
            } else {
                (moments.other_came_ns, moments.came_ns)
            };
            let in_order = late_ns.saturating_sub(early_ns) as f64 >= 0.75 * lead_ns;
            if in_order && (!moments.is_disturbed || tries >= CLEAN_TRIES_MAX) {
                return Ok(moments);
            }
        }
        bail!("the two sides never came in the order wanted: this machine is too busy")
    }

    fn try_once(
        &mut self,
        size: u64,
        first: First,
        side: MeasuredSide,
        lead_ns: u64,
        rounds: u64,
    ) -> Result<Moments> {
        let MeasuredProcess { node, seed, rate, by } = self;
        let compute_ns = rate.ns_of(rounds);
        *seed = seed.wrapping_add(1);
        let role = Role { sends: side == MeasuredSide::Send, seed: *seed };
        role.prepare(node, size);
        let losses = core_losses();
        // Time for the other one to hear of it, and to prepare its buffer.
        let early_ns = now_ns() + 30_000 + size / 32;
        let late_ns = early_ns + lead_ns;
        let (own_ns, at_ns) =
            if side.is(first) { (early_ns, late_ns) } else { (late_ns, early_ns) };
        // The measured side ends that late at most, unless it is disturbed.
        let end_ns = late_ns.max(own_ns + compute_ns) + 2 * lead_ns;
        let when = When { come_ns: at_ns, quiet_ns: end_ns - at_ns };
        node.tell(&Step::Overlap { size, when, role: role.opposite() })?;
        wait_until(own_ns);
        let came_ns = now_ns();
        let posted = role.post(node, size)?;
        if rounds > 0 {
            compute(rounds);
        }
        role.wait(node, posted)?;
        let ended_ns = now_ns();
        let own_losses = core_losses() - losses;
        let answer = node.wait_answer()?;
        role.check(node, size)?;
        let other_came_ns = answer >> 1;
        // The thread may be what took it.
        let is_own_disturbed = own_losses > 0 && *by == ProgressBy::Manual;
        let is_disturbed = is_own_disturbed || answer & 1 == 1;
        Ok(Moments { came_ns, other_came_ns, ended_ns, is_disturbed })
    }
}

/// By how much the other side comes later.
fn lead_ns(comm_ns: f64) -> f64 {
    LEAD_NS_MIN + 2.0 * comm_ns
}

impl Moments {
    /// From when both sides were there until the measured one had ended.
    fn both_there_ns(&self) -> f64 {
        self.ended_ns.saturating_sub(self.came_ns.max(self.other_came_ns)) as f64
    }
}

/// How long a computation takes alone, if that can be had.
fn compute_undisturbed(rounds: u64) -> u64 {
    for _ in 0..CLEAN_TRIES_MAX {
        let losses = core_losses();
        let ns = compute_timed(rounds);
        if core_losses() == losses {
            return ns;
        }
    }
    compute_timed(rounds)
}

/// How many times something, as it is written on the command line.
fn parse_times(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|times| (0.1..=100.0).contains(times))
        .ok_or_else(|| format!("'{text}' is not a factor; give times from 0.1 to 100: 1, 2.5"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_were_disturbed_are_noted() {
        let one = |is_disturbed| Repetition {
            comm_ns: 1e5,
            compute_ns: 3e5,
            elapsed_ns: 3.1e5,
            is_disturbed,
        };
        let placement = Placement { cores: None, note: None };
        for (is_disturbed, notes) in [(true, 2), (false, 1)] {
            let row = Row::of(
                1 << 20,
                First::Sender,
                MeasuredSide::Receive,
                ProgressBy::Manual,
                0.0,
                &[one(is_disturbed)],
            );
            let report =
                report(RailKind::Shm, vec![row], 3.0, true, &Limits::example(), &placement);
            assert_eq!(report.notes.len(), notes);
        }
    }

    #[test]
    fn factors() {
        assert_eq!(parse_times("2.5"), Ok(2.5));
        for text in ["", "0", "-1", "x", "NaN", "1000"] {
            assert!(parse_times(text).is_err(), "{text}");
        }
    }
}
