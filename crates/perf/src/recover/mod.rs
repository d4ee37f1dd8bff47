//! `sluice perf recover`: many processes put to one whose event queue is short, as the
//! Rportals paper's One_put_all does, beside the same with a queue that is long enough.
//!
//! Each run is a job of its own processes (`role`): the environment says how they recover.
//! Runs with the short queue and with the long one alternate, and each short one is compared
//! with the long one before it. A target that always looked at its queue would never run out
//! of places. So it looks away about as often as it is to run out, each time until it has, or
//! until as many puts have come.

mod role;
mod simulated;
mod worlds;

use crate::cores::Placement;
use crate::other::{Second, Start};
use crate::progress::Progress;
use crate::report::{Report, word};
use crate::stats::tenth;
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use role::{Found, Job, Told};
pub use role::{Part, serve};
use serde::Serialize;
use sluice_text::Table;
use std::time::{Duration, Instant};

/// What it can be told.
#[derive(Debug, Args)]
pub struct RecoverArgs {
    /// How many processes, the target among them
    #[arg(long, value_name = "N", default_value_t = 17,
          value_parser = clap::value_parser!(u64).range(2..=128))]
    processes: u64,
    /// Puts of each process
    #[arg(long, value_name = "N", default_value_t = 40_000,
          value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    puts: u64,
    /// Puts of each process that may be under way
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    window: u64,
    /// Places of the short queue
    #[arg(long, value_name = "N", default_value_t = 256,
          value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    queue: u64,
    /// How often the target looks away in a run
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    exhaustions: u64,
    /// Pairs of runs of each scheme
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: u64,
    /// In virtual time, with the real engines, in worlds of so many processes, of which
    /// --processes take part
    #[arg(long, value_name = "N", value_delimiter = ',', num_args = 0..,
          default_missing_value = "64,1024,4096",
          value_parser = clap::value_parser!(u64).range(16..=4096))]
    simulated: Option<Vec<u64>>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// The end of the command's help.
pub const HELP: &str = "\
'resume' is PTL_RECOVERY=resume: only those who were refused wait. 'pause' is the protocol
of the Rportals paper: all stop before the entry takes puts again. The overhead is the time
of a run with the short queue beside the run with a long one before it; the median of all
pairs. 'again' are puts that were refused and went again, a run. Every put is checked: each
initiator's come in order, each once.

Examples:
  sluice perf recover                              16 put to one, 100 exhaustions a run
  sluice perf recover --puts 10000 --runs 3 --json
  sluice perf recover --queue 64 --window 256
  sluice perf recover --simulated                  worlds of 64, 1,024 and 4,096 processes";

/// The schemes, as `PTL_RECOVERY` calls them.
const SCHEMES: [&str; 2] = ["resume", "pause"];
/// Longest run.
const RUN_MAX: Duration = Duration::from_secs(300);
/// Bytes of a put.
pub(crate) const PUT_BYTES: u64 = 8;

/// What was found of one scheme; medians of runs.
#[derive(Debug, Serialize)]
struct Row {
    scheme: &'static str,
    processes: u64,
    puts: u64,
    exhaustions: u64,
    refused: u64,
    large_ms: f64,
    small_ms: f64,
    overhead_pct: f64,
    /// The least and the most of all pairs.
    overhead_pct_range: [f64; 2],
    lost: u64,
}

/// What only this measurement says.
#[derive(Debug, Serialize)]
struct More {
    queue: u64,
    large_queue: u64,
    window: u64,
    runs: u64,
}

/// Runs the measurement and prints what it found.
pub fn run(args: &RecoverArgs) -> Result<()> {
    if let Some(worlds) = &args.simulated {
        return worlds::run(args, worlds);
    }
    let mut large_queue = LargeQueue::new(args);
    let mut progress = Progress::new("recover");
    let mut pairs: [Vec<(Found, Found)>; 2] = Default::default();
    for nth in 0..args.runs {
        for (scheme, pairs) in SCHEMES.into_iter().zip(&mut pairs) {
            progress.show(&format!("{scheme}, pair {} of {}", nth + 1, args.runs));
            let large = large_queue.run(|places| one(args, scheme, places))?;
            let small = one(args, scheme, args.queue)?;
            pairs.push((large, small));
        }
    }
    progress.clear();
    let rows: Vec<Row> =
        SCHEMES.into_iter().zip(&pairs).map(|(scheme, pairs)| row(args, scheme, pairs)).collect();
    let lost: u64 = rows.iter().map(|row| row.lost).sum();
    report(args, large_queue.places, rows).print(args.json)?;
    ensure!(lost == 0, "{lost} puts were lost");
    Ok(())
}

/// The queue that is long enough: twice as long after each run in which it was not. An
/// initiator has as many puts under way as its window allows, but a put is acknowledged when
/// its event has a place: while the target's program has no core, its thread goes on.
struct LargeQueue {
    places: u64,
    /// All events of a run have a place.
    places_max: u64,
}

impl LargeQueue {
    fn new(args: &RecoverArgs) -> LargeQueue {
        let initiators = args.processes - 1;
        let places_max = initiators * (args.puts + 1);
        LargeQueue { places: (initiators * args.window + args.queue).min(places_max), places_max }
    }

    /// A run in which it did not run out.
    fn run(&mut self, run: impl Fn(u64) -> Result<Found>) -> Result<Found> {
        loop {
            let found = run(self.places)?;
            if found.exhaustions == 0 {
                return Ok(found);
            }
            ensure!(self.places < self.places_max, "a queue with a place for all events ran out");
            self.places = (self.places * 2).min(self.places_max);
        }
    }
}

/// One job, with a queue of so many places.
fn one(args: &RecoverArgs, scheme: &str, queue: u64) -> Result<Found> {
    let start = Start::By(format!("env PTL_RECOVERY={scheme}"));
    let placement = Placement { cores: None, note: None };
    let begin = |part: Part| {
        Second::start(&start, &placement, &["--recover", &word(&part)])
            .context("a process of the job")
    };
    let mut target = begin(Part::Target)?;
    let mut initiators = Vec::new();
    for _ in 1..args.processes {
        initiators.push(begin(Part::Initiator)?);
    }
    let job = Job {
        initiators: args.processes - 1,
        puts: args.puts,
        window: args.window,
        queue,
        short: args.queue,
        looks_away: args.exhaustions,
    };
    target.tell(&job)?;
    let Told::Address(address) = target.hear()? else { bail!("no address") };
    for initiator in &mut initiators {
        initiator.tell(&job)?;
        initiator.tell(&address)?;
    }
    // All are connected before the clock starts.
    for initiator in &mut initiators {
        ensure!(initiator.hear::<Told>()? == Told::Ready, "an initiator is not ready");
    }
    target.tell(&Told::Ready)?;
    ensure!(target.hear::<Told>()? == Told::Ready, "the target is not ready");
    for initiator in &mut initiators {
        initiator.tell(&Told::Ready)?;
    }
    wait_for(&mut target)?;
    let Told::Found(found) = target.hear()? else { bail!("no figures") };
    for mut initiator in initiators {
        ensure!(initiator.hear::<Told>()? == Told::Ready, "an initiator failed");
        initiator.part()?;
    }
    target.tell(&Told::Ready)?;
    target.part()?;
    Ok(found)
}

/// Waits until the target has something to say, which takes as long as the run.
fn wait_for(target: &mut Second) -> Result<()> {
    let until = Instant::now() + RUN_MAX;
    while !target.has_said()? {
        target.check()?;
        ensure!(Instant::now() < until, "a run takes more than {} seconds", RUN_MAX.as_secs());
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn row(args: &RecoverArgs, scheme: &'static str, pairs: &[(Found, Found)]) -> Row {
    let ms = |ns: u64| ns as f64 / 1e6;
    let overheads: Vec<f64> = pairs
        .iter()
        .map(|(large, small)| (small.ns as f64 / large.ns as f64 - 1.0) * 100.0)
        .collect();
    let least = overheads.iter().copied().fold(f64::INFINITY, f64::min);
    let most = overheads.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let median_of =
        |figure: &dyn Fn(&(Found, Found)) -> f64| median(pairs.iter().map(figure).collect());
    Row {
        scheme,
        processes: args.processes,
        puts: args.puts * (args.processes - 1),
        exhaustions: median_of(&|(_, small)| small.exhaustions as f64) as u64,
        refused: median_of(&|(_, small)| small.refused as f64) as u64,
        large_ms: tenth(median_of(&|(large, _)| ms(large.ns))),
        small_ms: tenth(median_of(&|(_, small)| ms(small.ns))),
        overhead_pct: tenth(median(overheads)),
        overhead_pct_range: [tenth(least), tenth(most)],
        lost: pairs.iter().map(|(large, small)| large.lost + small.lost).sum(),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

fn report(args: &RecoverArgs, large_queue: u64, rows: Vec<Row>) -> Report<Row, More> {
    let mut table = Table::new(&[
        "scheme",
        "exhaustions",
        "again",
        "long queue",
        "short queue",
        "overhead",
        "lost",
    ]);
    for row in &rows {
        let [least, most] = row.overhead_pct_range;
        table.row(vec![
            row.scheme.to_owned(),
            row.exhaustions.to_string(),
            row.refused.to_string(),
            format!("{:.1} ms", row.large_ms),
            format!("{:.1} ms", row.small_ms),
            format!("{:.1} % ({least:.1} to {most:.1})", row.overhead_pct),
            row.lost.to_string(),
        ]);
    }
    let head = format!(
        "recover: {} processes put {} times {PUT_BYTES} bytes each to one, queues of {} and {}",
        args.processes - 1,
        args.puts,
        args.queue,
        large_queue
    );
    let more = More { queue: args.queue, large_queue, window: args.window, runs: args.runs };
    let foot = format!("medians of {} pairs of runs; lost is the sum", args.runs);
    Report { test: "recover", rail: Some("shm"), rows, more, notes: Vec::new(), head, table, foot }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_queue_that_ran_out_is_longer_next_time() {
        let found = |exhaustions| Found { ns: 1, exhaustions, refused: 0, lost: 0 };
        let mut queue = LargeQueue { places: 10, places_max: 70 };
        let enough = queue.run(|places| Ok(found(u64::from(places < 40)))).expect("a run");
        assert_eq!((enough, queue.places), (found(0), 40));
        queue.run(|places| Ok(found(u64::from(places < 41)))).expect("a run");
        assert_eq!(queue.places, 70);
        queue.run(|_| Ok(found(1))).expect_err("no queue is long enough");
    }
}
