//! The processes of one job: a target that looks away now and then, and those who put to it.

use super::PUT_BYTES;
use crate::other::{can_be_heard, read_line, write_line};
use anyhow::{Result, bail, ensure};
use clap::ValueEnum;
use portals::program::{Counter, Interface, Op, Process, Queue, Target};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What a process of the job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// It is put to.
    Target,
    /// It puts.
    Initiator,
}

/// What all processes of a job are told.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub initiators: u64,
    /// Puts of each.
    pub puts: u64,
    /// Puts of each that may be under way.
    pub window: u64,
    /// Places of the target's queue.
    pub queue: u64,
    /// Places of the short one.
    pub short: u64,
    /// How often the target looks away.
    pub looks_away: u64,
}

/// What they say to each other through their pipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Told {
    Ready,
    /// Node and process of the target.
    Address((u32, u32)),
    Found(Found),
}

/// What the target found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Found {
    /// From the first moment that somebody may put until the last put was taken.
    pub ns: u64,
    pub exhaustions: u64,
    pub refused: u64,
    /// Puts that never came, came twice or out of order.
    pub lost: u64,
}

const PORTAL: u32 = 1;
const MATCH_BITS: u64 = 0x5245_434F;
/// Longest time without any put.
const PATIENCE: Duration = Duration::from_secs(20);
/// Looks at the clock while nothing comes: one in so many.
const CLOCK_EVERY: u64 = 1024;

/// The life of a process of the job.
pub fn serve(part: Part) -> Result<()> {
    let job: Job = read_line(std::io::stdin(), true)?;
    let ni = Interface::open(true)?;
    match part {
        Part::Target => target(&ni, &job),
        Part::Initiator => initiator(&ni, &job),
    }
}

fn initiator(ni: &Interface, job: &Job) -> Result<()> {
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    let (nid, pid): (u32, u32) = read_line(&stdin, true)?;
    let to = Target { process: Process { nid, pid }, portal: PORTAL, match_bits: MATCH_BITS };
    let memory = ni.memory(PUT_BYTES as usize);
    let acked = ni.counter()?;
    let from = ni.bind(&memory, Op::Put, acked)?;
    // The first opens the connection.
    ni.put_with(from, PUT_BYTES, 0, &to)?;
    ni.wait(acked, 1)?;
    write_line(&stdout, &Told::Ready)?;
    ensure!(read_line::<Told>(&stdin, true)? == Told::Ready, "not told to begin");
    for number in 1..=job.puts {
        if number > job.window {
            ni.wait(acked, number - job.window + 1)?;
        }
        ni.put_with(from, PUT_BYTES, number, &to)?;
    }
    ni.wait(acked, job.puts + 1)?;
    write_line(&stdout, &Told::Ready)
}

fn target(ni: &Interface, job: &Job) -> Result<()> {
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    let memory = ni.memory(PUT_BYTES as usize);
    let (queue, came) = (ni.queue(job.queue)?, ni.counter()?);
    ni.expose_told(&memory, PORTAL, MATCH_BITS, queue, Some(came))?;
    let Process { nid, pid } = ni.identity()?;
    write_line(&stdout, &Told::Address((nid, pid)))?;
    let mut sink = Sink { ni, queue, came, next: BTreeMap::new(), taken: 0, lost: 0 };
    while !can_be_heard(&stdin)? {
        sink.take_all()?;
    }
    ensure!(read_line::<Told>(&stdin, true)? == Told::Ready, "not told to begin");
    while sink.taken < job.initiators {
        sink.take_all()?;
    }
    let before = ni.counts();
    write_line(&stdout, &Told::Ready)?;
    let ns = sink.take(job)?;
    let after = ni.counts();
    let exhaustions = after.exhaustions - before.exhaustions;
    let refused = after.refused - before.refused;
    write_line(&stdout, &Told::Found(Found { ns, exhaustions, refused, lost: sink.lost }))?;
    // Initiators end first.
    ensure!(read_line::<Told>(&stdin, true)? == Told::Ready, "not told to end");
    Ok(())
}

/// The target's queue, and what came through it.
struct Sink<'a> {
    ni: &'a Interface,
    queue: Queue,
    came: Counter,
    /// The next number of each initiator.
    next: BTreeMap<(u32, u32), u64>,
    taken: u64,
    lost: u64,
}

impl Sink<'_> {
    /// Takes one event, if there is one.
    fn take_one(&mut self) -> Result<bool> {
        let Some(put) = self.ni.take(self.queue)? else { return Ok(false) };
        let next = self.next.entry((put.from.nid, put.from.pid)).or_default();
        self.lost += u64::from(put.hdr_data != *next);
        *next = put.hdr_data + 1;
        self.taken += 1;
        Ok(true)
    }

    fn take_all(&mut self) -> Result<()> {
        while self.take_one()? {}
        Ok(())
    }

    /// Takes all puts of the run, looking away at times. In how many nanoseconds.
    fn take(&mut self, job: &Job) -> Result<u64> {
        let first = self.taken;
        let all = job.initiators * job.puts;
        let every = (all / job.looks_away).max(1);
        let begun = Instant::now();
        let (mut looks_away_at, mut since, mut vain) = (every / 2, Instant::now(), 0_u64);
        while self.taken - first < all {
            // While some are held back, not enough may come to run out again.
            if self.taken - first >= looks_away_at && self.ni.counts().held == 0 {
                looks_away_at += every;
                self.look_away(job, first + all)?;
            }
            if self.take_one()? {
                vain = 0;
                continue;
            }
            vain += 1;
            if vain == 1 {
                since = Instant::now();
            } else if vain.is_multiple_of(CLOCK_EVERY) && since.elapsed() > PATIENCE {
                bail!("{} of {all} puts came, then none", self.taken - first);
            }
        }
        let ns = begun.elapsed().as_nanos() as u64;
        let missing = self.next.values().filter(|&&next| next != job.puts + 1).count() as u64;
        self.lost += missing;
        Ok(ns)
    }

    /// Takes no event until as many wait as the short queue holds, and one more has come
    /// that it has no place for.
    fn look_away(&mut self, job: &Job, all: u64) -> Result<()> {
        let runs_out_at = self.ni.counts().exhaustions + 1;
        let wanted = (self.taken + job.short + 1).min(all);
        let since = Instant::now();
        let mut looks = 0_u64;
        // Each look takes in what has arrived.
        while self.ni.count(self.came)? < wanted && self.ni.counts().exhaustions < runs_out_at {
            looks += 1;
            if looks.is_multiple_of(CLOCK_EVERY) && since.elapsed() > PATIENCE {
                bail!("nothing comes while the target looks away");
            }
        }
        Ok(())
    }
}
