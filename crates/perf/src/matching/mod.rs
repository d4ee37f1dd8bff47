//! `sluice perf match`: what one match costs in the Portals engine as its
//! lists grow.
//!
//! A list is filled to its depth. Each step then takes one element by a match
//! and appends one again, so that the depth stays. Steps are timed in blocks,
//! for the clock costs about as much as a match. What was matched is checked
//! in every step; that is a comparison.

mod case;
mod engine;
mod plain;
mod script;
mod table;

use crate::cores;
use crate::progress::Progress;
use crate::stats::{Samples, Spread};
use anyhow::Result;
use case::{Case, Cost, Match, Order, Queue};
use clap::{Args, ValueEnum};
use engine::{Posted, Unexpected};
use plain::{PlainList, PlainTarget};
use rustix::time::{ClockId, clock_gettime};
use script::{Element, Script, Subject};
use std::time::{Duration, Instant};
use table::{Measurement, Row};

/// What `sluice perf match` can be told.
#[derive(Debug, Args)]
pub struct MatchArgs {
    /// Elements in the list, or several: 1,1000 [default: 1 to 100000, by tens]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = parse_depth,
          allow_negative_numbers = true)]
    depth: Vec<u32>,
    /// Which list grows
    #[arg(long, value_enum, default_value_t = Queues::Both)]
    queue: Queues,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// The end of the command's help.
pub const HELP: &str = "\
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

/// More would not fit the memory of a usual machine.
const DEPTH_MAX: u32 = 1_000_000;

fn parse_depth(text: &str) -> Result<u32, String> {
    let depth = text.trim().parse().ok().filter(|depth| (1..=DEPTH_MAX).contains(depth));
    depth.ok_or_else(|| {
        format!("'{text}' is not a depth; give elements from 1 to {DEPTH_MAX}: 1, 1000")
    })
}

const DEPTHS: [u32; 6] = [1, 10, 100, 1_000, 10_000, 100_000];

/// Lists that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Queues {
    /// Entries that wait for messages: a put arrives
    Posted,
    /// Messages that wait for entries: an entry is appended
    Unexpected,
    /// One, then the other
    Both,
}

impl Queues {
    fn list(self) -> &'static [Queue] {
        match self {
            Queues::Posted => &[Queue::Posted],
            Queues::Unexpected => &[Queue::Unexpected],
            Queues::Both => &[Queue::Posted, Queue::Unexpected],
        }
    }
}

/// How long a subject is measured.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    /// At least so long before, and every element twice.
    warmup: Duration,
    /// But not longer than this.
    warmup_max: Duration,
    span: Duration,
}

const ENGINE: Schedule = Schedule {
    warmup: Duration::from_millis(20),
    warmup_max: Duration::from_millis(1000),
    span: Duration::from_millis(150),
};
const PLAIN: Schedule = Schedule {
    warmup: Duration::from_millis(5),
    warmup_max: Duration::from_millis(20),
    span: Duration::from_millis(30),
};

/// Rounds in which the subjects are measured one after the other.
const ROUNDS: u32 = 6;

/// A block of steps lasts about so long: a thousand times a reading of the
/// clock, and far less than a scheduler's slice.
const BLOCK: Duration = Duration::from_micros(25);
/// Most steps in a block: what is planned ahead stays in the first cache.
const BLOCK_STEPS_MAX: usize = 512;

/// Runs the measurement and prints what it found.
pub fn run(args: &MatchArgs) -> Result<()> {
    let depths = if args.depth.is_empty() { &DEPTHS[..] } else { &args.depth };
    let cases = cases(depths, args.queue);
    let core = cores::allowed().first().copied().filter(|&core| cores::pin(core).is_ok());
    let mut progress = Progress::new("match");
    let (start, cpu_start) = (Instant::now(), cpu_time());
    let mut rows = Vec::with_capacity(cases.len());
    for group in cases.chunks(depths.len()) {
        progress.show(&format!("{} ({} of {} rows)", group[0], rows.len(), cases.len()));
        rows.extend(measure(group)?);
    }
    progress.clear();
    let cpu_share = (cpu_time() - cpu_start) / start.elapsed().as_secs_f64().max(1e-9);
    Measurement { core, cpu_share }.report(rows).print(args.json)
}

/// Seconds that this process has had a core.
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The cases in the order of the table: what is compared stands together, and
/// is measured together, before the machine has changed.
fn cases(depths: &[u32], queues: Queues) -> Vec<Case> {
    let mut cases = Vec::new();
    for &queue in queues.list() {
        for order in Order::ALL {
            for kind in Match::ALL {
                cases.extend(depths.iter().map(|&depth| Case { depth, queue, order, kind }));
            }
        }
    }
    cases
}

/// Measures cases that differ in their depth.
fn measure(group: &[Case]) -> Result<Vec<Row>> {
    let queue = group[0].queue;
    let plain = costs(|| Ok(PlainList::new(queue)), group, PLAIN)?;
    // At other depths it is as slow as the list in it.
    let at_1: Vec<Case> = group.iter().copied().filter(|case| case.depth == 1).collect();
    let target = costs(|| PlainTarget::new(queue), &at_1, PLAIN)?;
    let engine = match queue {
        Queue::Posted => costs(Posted::new, group, ENGINE)?,
        Queue::Unexpected => costs(Unexpected::new, group, ENGINE)?,
    };
    let mut target = target.iter().map(|cost| cost.spread.p50);
    let rows = group.iter().zip(engine).zip(plain).map(|((&case, cost), plain)| {
        let plain_target_ns = if case.depth == 1 { target.next() } else { None };
        Row { case, cost, plain_ns: plain.spread.p50, plain_target_ns }
    });
    Ok(rows.collect())
}

/// Measures a subject of each case by turns, so that a machine that is slow for
/// a while is slow for all of them.
fn costs<S: Subject>(
    make: impl Fn() -> Result<S>,
    cases: &[Case],
    schedule: Schedule,
) -> Result<Vec<Cost>> {
    let running: Result<Vec<Running<S>>> =
        cases.iter().map(|&case| Ok(Running::start(make()?, case, schedule))).collect();
    let mut running = running?;
    for _ in 0..ROUNDS {
        for running in &mut running {
            running.round(schedule.span / ROUNDS);
        }
    }
    running.iter().map(Running::cost).collect()
}

/// A subject that is measured.
#[derive(Debug)]
struct Running<S> {
    subject: S,
    steps: Steps,
    block_steps: usize,
    samples: Samples,
}

impl<S: Subject> Running<S> {
    /// Fills it and warms it up.
    fn start(mut subject: S, case: Case, schedule: Schedule) -> Running<S> {
        let mut steps = Steps::new(&mut subject, case);
        let block_steps = warm_up(&mut subject, &mut steps, schedule);
        Running { subject, steps, block_steps, samples: Samples::new() }
    }

    /// Measures it for a while.
    fn round(&mut self, span: Duration) {
        let start = Instant::now();
        // What the others have done to the caches is mended first.
        while start.elapsed() < span / 4 {
            self.steps.run(&mut self.subject, self.block_steps);
        }
        loop {
            let took = self.steps.run(&mut self.subject, self.block_steps);
            self.samples.record(took.as_nanos() as u64);
            if start.elapsed() >= span {
                return;
            }
        }
    }

    /// What it cost, if all it did was right.
    fn cost(&self) -> Result<Cost> {
        self.subject.check()?;
        let spread = Spread::of_times(&self.samples, self.block_steps as f64);
        Ok(Cost { spread, blocks: self.samples.count(), block_steps: self.block_steps })
    }
}

/// Steps until the list is as it will stay: what there is to learn is learnt,
/// and its elements lie in memory as they come to lie in a long run. Returns
/// how many steps make a block.
fn warm_up(subject: &mut impl Subject, steps: &mut Steps, schedule: Schedule) -> usize {
    let start = Instant::now();
    let (mut count, mut done) = (1, 0);
    // The shortest, for a chunk that was interrupted says nothing.
    let mut step_ns = f64::INFINITY;
    loop {
        let took = steps.run(subject, count);
        step_ns = step_ns.min(took.as_nanos() as f64 / count as f64);
        done += count;
        let elapsed = start.elapsed();
        let enough = elapsed >= schedule.warmup && done >= 2 * steps.case.depth as usize;
        if enough || elapsed >= schedule.warmup_max {
            let in_block = BLOCK.as_nanos() as f64 / step_ns.max(1.0);
            return (in_block as usize).clamp(1, BLOCK_STEPS_MAX);
        }
        if took < 4 * BLOCK {
            count = (count * 2).min(BLOCK_STEPS_MAX);
        }
    }
}

/// The steps of a case.
#[derive(Debug)]
struct Steps {
    case: Case,
    script: Script,
    takes: Vec<u64>,
}

impl Steps {
    /// Fills the subject to its depth.
    fn new(subject: &mut impl Subject, case: Case) -> Steps {
        for serial in 0..u64::from(case.depth) {
            subject.append(&Element::new(case.kind, serial));
        }
        Steps { case, script: Script::new(case.order, case.depth), takes: Vec::new() }
    }

    /// Takes `count` steps and says how long they took.
    #[inline(never)]
    fn run<S: Subject>(&mut self, subject: &mut S, count: usize) -> Duration {
        let first = self.script.plan(count, &mut self.takes);
        let kind = self.case.kind;
        let start = Instant::now();
        for (&taken, appended) in self.takes.iter().zip(first..) {
            subject.take(&Element::new(kind, taken));
            subject.append(&Element::new(kind, appended));
        }
        start.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(mut subject: impl Subject, case: Case) {
        let mut steps = Steps::new(&mut subject, case);
        for _ in 0..20 {
            steps.run(&mut subject, 100);
        }
        subject.check().unwrap_or_else(|error| panic!("{case}: {error}"));
    }

    #[test]
    fn every_subject_matches_what_it_should() {
        // More steps than a sender has credits, with and without an index.
        for case in cases(&[1, 10, 300], Queues::Both) {
            walk(PlainList::new(case.queue), case);
            walk(PlainTarget::new(case.queue).expect("a target"), case);
            match case.queue {
                Queue::Posted => walk(Posted::new().expect("an engine"), case),
                Queue::Unexpected => walk(Unexpected::new().expect("an engine"), case),
            }
        }
    }

    #[test]
    fn a_wrong_match_is_an_error() {
        let element = |serial| Element::new(Match::Exact, serial);
        let mut posted = Posted::new().expect("an engine");
        posted.append(&element(0));
        posted.take(&element(1));
        assert!(posted.check().is_err(), "a message nobody waited for");
        let mut unexpected = Unexpected::new().expect("an engine");
        unexpected.append(&element(0));
        unexpected.take(&element(1));
        assert!(unexpected.check().is_err(), "an entry without a message");
        let mut plain = PlainList::new(Queue::Posted);
        plain.append(&element(0));
        plain.take(&element(1));
        assert!(plain.check().is_err());
    }

    #[test]
    fn every_case_is_there_once_and_depths_stand_together() {
        let cases = cases(&DEPTHS, Queues::Both);
        assert_eq!(cases.len(), 6 * 2 * 2 * 3);
        for same in cases.chunks(DEPTHS.len()) {
            assert!(same.iter().map(|case| case.depth).eq(DEPTHS));
            assert!(same.iter().all(|case| Case { depth: 1, ..*case } == same[0]));
        }
    }
}
