//! `sluice perf alltoall`: processes of this host that all send to each other, without an MPI.
//!
//! The first process is one rank and starts the others, as the hidden command `perf-peer`. It
//! tells them by pipes what to do (`order`) and times its own rounds (`rank`): a round begins
//! with its first receive, and ends when a part of every other rank is there and its own sends
//! have ended. No rank can be more than a round ahead of another one. So where ranks take turns
//! on a core, a long round is followed by one whose parts are all there. A sample is the mean of
//! ten rounds, as in `bench/crowd.c`.

mod order;
mod rank;

use crate::cores;
use crate::cores::Placement;
use crate::effort::Effort;
use crate::limits::Limits;
use crate::other::{Other, Second, Start, can_be_heard, read_line, write_line};
use crate::progress::Progress;
use crate::report::Report;
use crate::stats::{Samples, Spread};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use order::{Job, Order, Wrong};
use rank::Rank;
use serde::Serialize;
use serde_json::Value;
use sluice_text::{Table, bytes, parse_size};
use std::time::Instant;

/// What it can be told.
#[derive(Debug, Args)]
pub struct AlltoallArgs {
    /// Processes, each of which sends to every other one
    #[arg(long, value_name = "N", value_parser = parse_ranks, default_value = "16",
          allow_negative_numbers = true)]
    ranks: usize,
    /// Bytes from each process to each other one, or several: 8, 1K
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = parse_size,
          default_value = "8,1K", allow_negative_numbers = true)]
    size: Vec<u64>,
    #[command(flatten)]
    effort: Effort,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// The end of the command's help.
pub const HELP: &str = "\
A time is that of one all-to-all in the first process, from its first receive until all parts
have come and its own have gone; a sample is the mean of ten. Processes have a core each if there are as many cores; else
they go where the system lets them, and one that waits gives its core away. Every byte of a
round before the measurement and of one after it is checked.

Examples:
  sluice perf alltoall                        16 processes, 8 bytes and 1 KiB
  sluice perf alltoall --ranks 4 --size 8,1K,64K
  sluice perf alltoall --ranks 16 --json      for a program";

/// Most processes.
const RANKS_MAX: usize = 128;
/// Rounds of a sample.
const ROUNDS: u64 = 10;
/// Most memory of all processes' buffers.
const BUFFER_BYTES_MAX: u64 = 4 << 30;

/// A number of processes that have somebody to send to.
fn parse_ranks(text: &str) -> Result<usize, String> {
    let ranks = text.trim().parse().ok().filter(|ranks| (2..=RANKS_MAX).contains(ranks));
    ranks.ok_or_else(|| {
        format!("'{text}' is not a number of ranks; give processes from 2 to {RANKS_MAX}")
    })
}

/// What was found of one size.
#[derive(Debug, Serialize)]
struct Row {
    ranks: usize,
    size: u64,
    us: Spread,
    samples: u64,
    verified: bool,
}

/// What only this measurement says.
#[derive(Debug, Serialize)]
struct More {
    /// Where ranks may run; the first ones have one each if these are as many.
    cores: Vec<usize>,
    rounds_per_sample: u64,
    limits: Value,
}

/// Runs the measurement and prints what it found.
pub fn run(args: &AlltoallArgs) -> Result<()> {
    let largest = args.size.iter().copied().max().unwrap_or(0);
    let buffers = 2 * (args.ranks as u64).pow(2) * largest;
    ensure!(
        buffers <= BUFFER_BYTES_MAX,
        "{} ranks have buffers of {buffers} bytes, more than {BUFFER_BYTES_MAX}; give fewer \
         --ranks or a smaller --size",
        args.ranks
    );
    let cores = cores::allowed();
    let pair = Placement::choose(None);
    let placement = Placement { cores: pair.cores, note: note(args.ranks, cores.len()) };
    let mut progress = Progress::new("alltoall");
    progress.show("the machine's limits");
    let mut limits = Limits::measure(placement.cores);
    progress.show("the ranks start");
    let mut all = Ranks::start(args.ranks, &cores)?;
    let mut rows = Vec::with_capacity(args.size.len());
    for (index, &size) in args.size.iter().enumerate() {
        progress.at(index, args.size.len(), size);
        rows.push(all.measure(size, &args.effort, &mut progress)?);
    }
    all.stop()?;
    progress.show("the machine's limits");
    limits.measure_after(placement.cores);
    progress.clear();
    report(args.ranks, rows, cores, &limits, &placement).print(args.json)
}

/// What the reader of the figures must know about cores.
fn note(ranks: usize, cores: usize) -> Option<String> {
    (ranks > cores)
        .then(|| format!("{ranks} ranks take turns on the cores, of which {cores} may be used"))
}

/// All ranks, as the first one holds them.
struct Ranks {
    first: Rank,
}

impl Ranks {
    /// Starts them and has them meet.
    fn start(ranks: usize, cores: &[usize]) -> Result<Ranks> {
        let core = |rank: usize| cores.get(rank).copied().filter(|_| ranks <= cores.len());
        let job = |rank: usize| Job { ranks, rank, core: core(rank) };
        let nowhere = Placement { cores: None, note: None };
        let mut others = Vec::with_capacity(ranks - 1);
        for rank in 1..ranks {
            let mut other = Second::start(&Start::Child, &nowhere, &["--alltoall"])
                .with_context(|| format!("rank {rank}"))?;
            other.tell(&job(rank))?;
            others.push(other);
        }
        let watched = others.into_iter().map(Other::Second).collect();
        let mut all = Ranks { first: Rank::open(&job(0), watched)? };
        let mut addresses: Vec<Vec<u8>> = vec![all.first.address()];
        for (index, other) in all.others().enumerate() {
            addresses.push(other.hear().with_context(|| format!("rank {}", index + 1))?);
        }
        for address in &addresses {
            all.tell(address)?;
        }
        all.first.meet(&addresses)?;
        Ok(all)
    }

    /// The other ranks.
    fn others(&mut self) -> impl Iterator<Item = &mut Second> {
        self.first.watched().iter_mut().filter_map(|other| match other {
            Other::Second(second) => Some(second),
            Other::First(_) | Other::Distant => None,
        })
    }

    fn tell(&mut self, what: &impl Serialize) -> Result<()> {
        self.others().try_for_each(|other| other.tell(what))
    }

    /// One size: checked, warmed up, measured, checked.
    fn measure(&mut self, size: u64, effort: &Effort, progress: &mut Progress) -> Result<Row> {
        self.verify(size, size ^ 0x5EED)?;
        let samples =
            effort.samples(progress, |count, samples| self.rounds(size, count, samples))?;
        self.verify(size, size ^ 0xF00D)?;
        let us = Spread::of_times(&samples, 1e3).thousandths();
        // A byte that is wrong ends the command with an error instead.
        let verified = true;
        let ranks = self.first.watched().len() + 1;
        Ok(Row { ranks, size, us, samples: samples.count(), verified })
    }

    /// So many samples. The others are not told at the same moment, so one more round, which
    /// does not count, begins.
    fn rounds(&mut self, size: u64, count: u64, samples: &mut Samples) -> Result<()> {
        self.tell(&Order::Rounds { size, count: 1 + count * ROUNDS })?;
        self.first.rounds(size, 1)?;
        let mut before = Instant::now();
        for _ in 0..count {
            self.first.rounds(size, ROUNDS)?;
            let now = Instant::now();
            samples.record((now - before).as_nanos() as u64 / ROUNDS);
            before = now;
        }
        Ok(())
    }

    fn verify(&mut self, size: u64, seed: u64) -> Result<()> {
        self.tell(&Order::Verify { size, seed })?;
        let found = self.first.verify(size, seed)?;
        ensure_right(size, 0, found)?;
        for index in 0..self.first.watched().len() {
            // Another rank may need this one to be done with a message.
            self.first.attend(|first| first.has_said(index))?;
            let other = self.others().nth(index).context("a rank that is not there")?;
            let found = other.hear().with_context(|| format!("rank {}", index + 1))?;
            ensure_right(size, index + 1, found)?;
        }
        Ok(())
    }

    fn stop(mut self) -> Result<()> {
        self.tell(&Order::Stop)?;
        self.others().try_for_each(Second::part)
    }
}

fn ensure_right(size: u64, rank: usize, found: Option<Wrong>) -> Result<()> {
    let Some(Wrong { from, byte }) = found else { return Ok(()) };
    bail!(
        "data altered on its way: byte {byte} of a part of {size} bytes from rank {from} to rank \
         {rank} is wrong"
    )
}

/// The life of any rank but the first one.
pub fn serve(first: Other) -> Result<()> {
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    let job: Job = read_line(&stdin, true)?;
    let mut rank = Rank::open(&job, vec![first])?;
    write_line(&stdout, &rank.address())?;
    let addresses: Result<Vec<Vec<u8>>> = (0..job.ranks).map(|_| read_line(&stdin, true)).collect();
    rank.meet(&addresses?)?;
    loop {
        rank.attend(|_| can_be_heard(&stdin))?;
        match read_line(&stdin, true)? {
            Order::Verify { size, seed } => write_line(&stdout, &rank.verify(size, seed)?)?,
            Order::Rounds { size, count } => rank.rounds(size, count)?,
            Order::Stop => return Ok(()),
        }
    }
}

fn report(
    ranks: usize,
    rows: Vec<Row>,
    cores: Vec<usize>,
    limits: &Limits,
    placement: &Placement,
) -> Report<Row, More> {
    let table = Table::of(
        &rows,
        &[
            ("size", &|row| bytes(row.size)),
            ("min µs", &|row| format!("{:.3}", row.us.min)),
            ("p50 µs", &|row| format!("{:.3}", row.us.p50)),
            ("p99 µs", &|row| format!("{:.3}", row.us.p99)),
            ("samples", &|row| row.samples.to_string()),
        ],
    );
    Report {
        test: "alltoall",
        rail: Some("shm"),
        rows,
        more: More { cores, rounds_per_sample: ROUNDS, limits: limits.to_json() },
        notes: limits.notes(placement),
        head: format!("alltoall over shm: {ranks} ranks, each sends a part to every other one"),
        table,
        foot: limits.to_text(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_promised_shape() {
        let us = Spread { min: 1.0, p50: 1.5, p99: 2.0, max: 9.0 };
        let row = Row { ranks: 16, size: 1024, us, samples: 10, verified: true };
        let placement = Placement { cores: None, note: note(16, 2) };
        let report = report(16, vec![row], vec![0, 1], &Limits::example(), &placement);
        assert!(report.table.to_string().contains("1 KiB"), "{}", report.table);
        let json = serde_json::to_value(&report).expect("plain data");
        assert_eq!(
            (&json["rows"][0]["ranks"], &json["rows"][0]["size"]),
            (&16.into(), &1024.into())
        );
        assert_eq!(json["rows"][0]["us"]["p99"], 2.0);
        assert!(
            json["notes"][0].as_str().is_some_and(|note| note.starts_with("16 ranks take turns"))
        );
        assert_eq!(note(2, 2), None);
    }

    #[test]
    fn wrong_bytes_are_an_error_that_names_both_ranks() {
        ensure_right(8, 1, None).expect("nothing is wrong");
        let error = ensure_right(8, 1, Some(Wrong { from: 2, byte: 3 })).expect_err("wrong");
        assert!(error.to_string().contains("byte 3 of a part of 8 bytes from rank 2 to rank 1"));
    }
}
