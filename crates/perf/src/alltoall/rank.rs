//! One process of an all-to-all: its endpoint, its parts, and waits that end.

use super::order::{Job, Wrong};
use crate::cores::pin;
use crate::node::region;
use crate::other::Other;
use crate::rail::{self, Opening};
use crate::read::Reader;
use crate::verify::{fill, first_wrong};
use anyhow::{Context as _, Result, anyhow, bail};
use sluice_proto::{Completion, Kind, Recv, Refused, Send, Space};
use sluice_runtime::Context;
use sluice_runtime::spin::Spin;
use sluice_wire::PeerId;
use std::time::{Duration, Instant};

/// Senders that a mailbox has room for where a program does not say how many it expects.
const SENDERS_MIN: u16 = 64;
/// Longest wait in which nothing at all happens.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time for the end of another rank to be known.
const EXPLANATION: Duration = Duration::from_millis(500);
/// Polls without anything between two looks at the clock and the other ranks.
const POLLS_PER_LOOK: u32 = 1 << 14;
/// Messages between two ranks arrive in order, so all rounds have one tag.
const TAG: u64 = 1;

/// One process of the job.
#[derive(Debug)]
pub struct Rank {
    number: usize,
    context: Context<Reader>,
    /// The others, from the next one on, and the numbers of their processes.
    peers: Vec<(usize, PeerId)>,
    /// Processes with whose end this rank ends: the others, or the first rank.
    watched: Vec<Other>,
    spin: Spin,
    /// A part for each rank and one from each, its own unused.
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    /// Receives and sends that have ended.
    received: u64,
    sent: u64,
}

/// How long nothing has happened.
#[derive(Debug, Default)]
struct Idle {
    polls: u32,
    since: Option<Instant>,
}

impl Rank {
    /// Opens the rail.
    pub fn open(job: &Job, watched: Vec<Other>) -> Result<Rank> {
        if let Some(core) = job.core {
            pin(core)?;
        }
        let senders = u16::try_from(job.ranks).context("more ranks than senders")?;
        Ok(Rank {
            number: job.rank,
            context: rail::open_for(&Opening::default(), senders.max(SENDERS_MIN))?,
            peers: Vec::new(),
            watched,
            spin: Spin::new(),
            outgoing: Vec::new(),
            incoming: Vec::new(),
            received: 0,
            sent: 0,
        })
    }

    /// The address to be given to all others.
    pub fn address(&self) -> Vec<u8> {
        rail::address(&self.context)
    }

    /// Takes the addresses of all ranks.
    pub fn meet(&mut self, addresses: &[Vec<u8>]) -> Result<()> {
        let ranks = addresses.len();
        for distance in 1..ranks {
            let number = (self.number + distance) % ranks;
            let peer = rail::meet(&mut self.context, &addresses[number])
                .with_context(|| format!("rank {number}"))?;
            self.peers.push((number, peer));
        }
        Ok(())
    }

    /// Processes with whose end this rank ends.
    pub fn watched(&mut self) -> &mut [Other] {
        &mut self.watched
    }

    /// Whether the watched process of this index has said something.
    pub fn has_said(&self, index: usize) -> Result<bool> {
        match &self.watched[index] {
            Other::Second(second) => second.has_said(),
            Other::First(_) | Other::Distant => Ok(false),
        }
    }

    /// A round whose every byte is checked; what was wrong.
    pub fn verify(&mut self, size: u64, seed: u64) -> Result<Option<Wrong>> {
        self.reserve(size);
        for index in 0..self.peers.len() {
            let (to, _) = self.peers[index];
            fill(part(&mut self.outgoing, to, size), seed_of(seed, self.number, to));
        }
        self.incoming.fill(0);
        self.round(size)?;
        for index in 0..self.peers.len() {
            let (from, _) = self.peers[index];
            let seed = seed_of(seed, from, self.number);
            if let Some(byte) = first_wrong(part(&mut self.incoming, from, size), seed) {
                return Ok(Some(Wrong { from, byte }));
            }
        }
        Ok(None)
    }

    /// So many rounds.
    pub fn rounds(&mut self, size: u64, count: u64) -> Result<()> {
        self.reserve(size);
        (0..count).try_for_each(|_| self.round(size))
    }

    /// Does what there is to do until `done`, which is soon.
    pub fn attend(&mut self, done: impl Fn(&Rank) -> Result<bool>) -> Result<()> {
        let mut idle = Idle::default();
        while !done(self)? {
            self.turn(&mut idle)?;
        }
        Ok(())
    }

    /// A part to each rank, and one from each.
    fn round(&mut self, size: u64) -> Result<()> {
        let count = self.peers.len() as u64;
        let (received, sent) = (self.received + count, self.sent + count);
        for index in 0..self.peers.len() {
            self.post(index, size)?;
        }
        for index in 0..self.peers.len() {
            self.send(index, size)?;
        }
        let mut idle = Idle::default();
        while self.received < received || self.sent < sent {
            self.turn(&mut idle)?;
        }
        Ok(())
    }

    fn reserve(&mut self, size: u64) {
        let len = (self.peers.len() + 1) * size as usize;
        for buf in [&mut self.outgoing, &mut self.incoming] {
            if buf.len() < len {
                *buf = vec![1; len];
            }
        }
    }

    fn post(&mut self, index: usize, size: u64) -> Result<()> {
        let (number, peer) = self.peers[index];
        let recv = Recv {
            space: Space::Tagged,
            source: Some(peer),
            buf: region(part(&mut self.incoming, number, size)),
            tag: TAG,
            ignore: 0,
            context: 0,
            report: true,
        };
        self.ask(size, |context| {
            let (now, Reader { endpoint, .. }, port) = context.parts();
            endpoint.recv(now, port, &recv)
        })
        .with_context(|| format!("a receive from rank {number}"))
    }

    fn send(&mut self, index: usize, size: u64) -> Result<()> {
        let (number, peer) = self.peers[index];
        let send = Send {
            space: Space::Tagged,
            peer,
            buf: region(part(&mut self.outgoing, number, size)),
            tag: TAG,
            data: None,
            context: 0,
            report: true,
            inject: false,
            delivery: None,
        };
        self.ask(size, |context| {
            let (now, Reader { endpoint, .. }, port) = context.parts();
            endpoint.send(now, port, &send)
        })
        .with_context(|| format!("a send to rank {number}"))
    }

    /// Asks the endpoint for something until it takes it.
    fn ask(
        &mut self,
        size: u64,
        request: impl Fn(&mut Context<Reader>) -> Result<(), Refused>,
    ) -> Result<()> {
        if self.context.machine().endpoint.should_poll_first(size) {
            self.context.take_in();
        }
        let mut idle = Idle::default();
        loop {
            match request(&mut self.context) {
                Ok(()) => return Ok(()),
                Err(Refused::Again) => self.turn(&mut idle)?,
                Err(refused) => bail!("{refused}"),
            }
        }
    }

    /// Does what there is to do. If that is nothing, gives the core away now and then, and
    /// looks whether the others are there.
    fn turn(&mut self, idle: &mut Idle) -> Result<()> {
        if self.poll()? {
            self.spin.found();
            *idle = Idle::default();
            return Ok(());
        }
        self.spin.vain();
        idle.polls += 1;
        if !idle.polls.is_multiple_of(POLLS_PER_LOOK) {
            return Ok(());
        }
        self.check_watched()?;
        let since = *idle.since.get_or_insert_with(Instant::now);
        if since.elapsed() > PATIENCE {
            bail!("nothing has happened for {} seconds; giving up", PATIENCE.as_secs());
        }
        Ok(())
    }

    /// Whether there was anything.
    fn poll(&mut self) -> Result<bool> {
        let mut any = self.context.poll() > 0;
        while let Some(completion) = self.context.machine_mut().endpoint.pop() {
            any = true;
            self.note(&completion)?;
        }
        Ok(any)
    }

    fn note(&mut self, completion: &Completion) -> Result<()> {
        if let Err(failure) = &completion.outcome {
            return Err(self.explained(anyhow!("a message failed: {failure}")));
        }
        match completion.kind {
            Kind::Recv => self.received += 1,
            Kind::Send => self.sent += 1,
            _ => {}
        }
        Ok(())
    }

    fn check_watched(&mut self) -> Result<()> {
        for (index, other) in self.watched.iter_mut().enumerate() {
            let is_rank = matches!(other, Other::Second(_));
            let checked = other.check();
            if is_rank {
                checked.with_context(|| format!("rank {}", index + 1))?;
            } else {
                checked?;
            }
        }
        Ok(())
    }

    /// The end of another rank explains most failures.
    fn explained(&mut self, failure: anyhow::Error) -> anyhow::Error {
        let until = Instant::now() + EXPLANATION;
        while Instant::now() < until {
            if let Err(end) = self.check_watched() {
                return end.context("a message was lost");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        failure
    }
}

/// The part of a rank.
fn part(buf: &mut [u8], rank: usize, size: u64) -> &mut [u8] {
    &mut buf[rank * size as usize..][..size as usize]
}

/// What the bytes from one rank to another are told by.
fn seed_of(seed: u64, from: usize, to: usize) -> u64 {
    seed ^ (from as u64) << 48 ^ (to as u64) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Barrier, Mutex};

    const RANKS: usize = 3;

    /// What each rank of three, in threads, makes of `then`.
    fn each_of_three<R: std::marker::Send>(then: impl Fn(&mut Rank) -> R + Sync) -> Vec<R> {
        let addresses = Mutex::new(vec![Vec::new(); RANKS]);
        let all_there = Barrier::new(RANKS);
        let of = |rank: usize| {
            let job = Job { ranks: RANKS, rank, core: None };
            let mut this = Rank::open(&job, Vec::new()).expect("a rail");
            addresses.lock().expect("no panic")[rank] = this.address();
            all_there.wait();
            let all = addresses.lock().expect("no panic").clone();
            this.meet(&all).expect("addresses");
            then(&mut this)
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..RANKS).map(|rank| scope.spawn(move || of(rank))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        })
    }

    #[test]
    fn every_part_arrives_where_it_belongs() {
        let found = each_of_three(|rank| {
            [0, 8, 1000, 100_000].map(|size| {
                rank.rounds(size, 20).expect("rounds");
                rank.verify(size, size).expect("a round")
            })
        });
        assert_eq!(found, [[None; 4]; RANKS]);
    }

    #[test]
    fn bytes_that_are_not_as_they_were_to_be_are_found_and_their_sender_named() {
        for size in [1, 8, 100_000] {
            // Rank 1 sends other bytes than the others expect, and expects others.
            let found = each_of_three(|rank| {
                let seed = if rank.number == 1 { 7 } else { 8 };
                rank.verify(size, seed).expect("a round").map(|wrong| wrong.from)
            });
            assert_eq!(found, [Some(1), Some(2), Some(1)], "{size}");
        }
    }
}
