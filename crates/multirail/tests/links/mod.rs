//! A reader and links of given rates, in virtual time.

#![allow(dead_code, reason = "each test program uses its part of it")]

use sluice_multirail::{Ask, ChunkId, Landing, RailId, ReadId, Stripes, Striping};
use sluice_wire::Nanos;
use std::collections::VecDeque;

pub const GBIT: u64 = 125_000_000;
/// What a socket brings in one go.
pub const PIECE_BYTES: u64 = 16 << 10;
/// Longest read whose bytes are told apart.
pub const COVERED_BYTES_MAX: u64 = 16 << 20;
/// How fast a token bucket gives what it has saved.
pub const MEMORY_BYTES_PER_S: u64 = 4_000_000_000;
/// How late at most a host is that has little time.
pub const LATE_NS: u64 = 400_000;
/// Between two looks at chunks that are late.
pub const LOOK_NS: u64 = 1_000_000;

/// By then everything has ended.
pub const END_NS: u64 = 1_000_000_000_000;

/// A link that brings one chunk after the other.
#[derive(Debug)]
pub struct Link {
    pub bytes_per_s: u64,
    /// From asking to when the first byte can come.
    pub latency_ns: u64,
    pub is_silent: bool,
    /// What it brings at most in one go.
    pub piece_bytes: u64,
    /// What it brings at the speed of memory when it has rested: a token bucket.
    pub burst_bytes: u64,
    /// When its bucket is full.
    pub full_at: u64,
    pub queue: VecDeque<(Ask, u64, u64)>,
    /// When its next piece comes.
    pub next: Option<u64>,
}

/// A reader, its rails, and the bytes that it has got.
pub struct World {
    pub stripes: Stripes,
    pub links: Vec<Link>,
    pub now: u64,
    pub next_look: u64,
    /// Of each read, which bytes have come: every byte once. Of long ones that is not
    /// kept ([`COVERED_BYTES_MAX`]).
    pub reads: Vec<(ReadId, Vec<bool>)>,
    pub ended: Vec<(ReadId, u64)>,
    pub dropped: u64,
    pub carried: Vec<u64>,
    /// For how late links with buckets are.
    pub chance: u64,
}

impl World {
    pub fn new(striping: Striping, gbits: &[u64], latency_ns: u64) -> World {
        let mut stripes = Stripes::new(striping);
        for _ in gbits {
            // Nothing is told about them: all claim the same.
            stripes.add_rail(GBIT, latency_ns);
        }
        let links = gbits.iter().map(|gbit| Link {
            bytes_per_s: gbit * GBIT,
            latency_ns,
            is_silent: false,
            piece_bytes: PIECE_BYTES,
            burst_bytes: 0,
            full_at: 0,
            queue: VecDeque::new(),
            next: None,
        });
        World {
            stripes,
            links: links.collect(),
            now: 0,
            next_look: LOOK_NS,
            reads: Vec::new(),
            ended: Vec::new(),
            dropped: 0,
            carried: vec![0; gbits.len()],
            chance: 1,
        }
    }

    pub fn begin(&mut self, id: u64, len: u64) {
        let covered = if len <= COVERED_BYTES_MAX { len as usize } else { 0 };
        self.reads.push((ReadId(id), vec![false; covered]));
        self.stripes.begin(ReadId(id), len);
        self.ask();
    }

    pub fn ask(&mut self) {
        while let Some(ask) = self.stripes.next_ask(Nanos(self.now)) {
            let link = &mut self.links[ask.rail.index()];
            self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let late_ns = if link.burst_bytes > 0 { (self.chance >> 33) % LATE_NS } else { 0 };
            link.queue.push_back((ask, 0, self.now + link.latency_ns + late_ns));
            link.schedule(self.now);
        }
    }

    /// One event. False if none is left.
    pub fn step(&mut self) -> bool {
        let at = (0..self.links.len()).filter(|&at| self.links[at].next.is_some());
        let first = at.min_by_key(|&at| self.links[at].next);
        let when = first.and_then(|at| self.links[at].next);
        if self.stripes.is_idle() && when.is_none() {
            return false;
        }
        match (first, when) {
            (Some(at), Some(when)) if when <= self.next_look => {
                self.now = when;
                self.arrive(RailId(at as u8));
            }
            _ => {
                self.now = self.next_look;
                assert!(self.now < END_NS, "somebody waits for ever");
                self.next_look += LOOK_NS;
                self.stripes.look(Nanos(self.now));
            }
        }
        self.ask();
        true
    }

    pub fn arrive(&mut self, rail: RailId) {
        let (chunk, bytes) = self.bring(rail);
        self.land(rail, chunk, bytes);
    }

    /// A link brings its next piece.
    pub fn bring(&mut self, rail: RailId) -> (ChunkId, u64) {
        let link = &mut self.links[rail.index()];
        let (ask, sent, _) = link.queue.front_mut().expect("something comes");
        let piece = link.piece_bytes.min(ask.len - *sent);
        *sent += piece;
        let (ask, is_whole) = (*ask, *sent == ask.len);
        if is_whole {
            link.queue.pop_front();
        }
        link.next = None;
        link.schedule(self.now);
        self.carried[rail.index()] += piece;
        (ask.chunk, piece)
    }

    /// The reader looks once in so much time, and what comes in between waits for that. Says how
    /// many bytes came in `ns`, or until all has ended.
    pub fn looks_every(&mut self, gap_ns: u64, ns: u64) -> u64 {
        let (begin, before) = (self.now, self.carried.iter().sum::<u64>());
        while self.now < begin + ns && !self.stripes.is_idle() {
            let (looked, look) = (self.now, self.now + gap_ns);
            let mut here = Vec::new();
            loop {
                let due = |at: &usize| self.links[*at].next.is_some_and(|when| when <= look);
                let due = (0..self.links.len()).filter(due);
                let Some(at) = due.min_by_key(|&at| self.links[at].next) else { break };
                self.now = self.links[at].next.expect("it is due");
                let rail = RailId(at as u8);
                here.push((rail, self.bring(rail)));
            }
            self.now = look;
            self.stripes.note_gap(Nanos(looked));
            for (rail, (chunk, bytes)) in here {
                self.land(rail, chunk, bytes);
                // As in the world: what is asked for goes at the end of the look.
                self.ask();
            }
            self.stripes.look(Nanos(self.now));
            self.next_look = self.now + LOOK_NS;
            self.ask();
        }
        self.carried.iter().sum::<u64>() - before
    }

    pub fn land(&mut self, rail: RailId, chunk: ChunkId, bytes: u64) {
        match self.stripes.landing(rail, chunk) {
            Landing::Nowhere => {
                self.dropped += bytes;
                // The rail speaks all the same.
                let ended = self.stripes.arrived(Nanos(self.now), rail, chunk, bytes);
                assert_eq!(ended, None);
            }
            Landing::Into { read, offset, len } => {
                assert!(bytes <= len, "no more than was asked for");
                let (_, got) = self.reads.iter_mut().find(|(id, _)| *id == read).unwrap();
                if !got.is_empty() {
                    let come = &mut got[offset as usize..(offset + bytes) as usize];
                    assert!(come.iter().all(|&byte| !byte), "every byte once");
                    come.fill(true);
                }
                if let Some(id) = self.stripes.arrived(Nanos(self.now), rail, chunk, bytes) {
                    let (_, got) = self.reads.iter().find(|(one, _)| *one == id).unwrap();
                    assert!(got.iter().all(|&byte| byte), "all bytes, when it ends");
                    self.ended.push((id, self.now));
                }
            }
        }
    }

    pub fn run(&mut self) {
        while self.step() {}
        assert_eq!(self.ended.len(), self.reads.len(), "all have ended");
    }

    /// Reads of `len` bytes, one after the other; the efficiency of the last ones in
    /// percent of the sum of the rails.
    pub fn efficiency_pct(&mut self, len: u64, count: u64, of_last: u64) -> f64 {
        let mut begin = 0;
        for id in 0..count {
            if id == count - of_last {
                begin = self.now;
            }
            self.begin(id, len);
            while !self.stripes.is_idle() && self.step() {}
        }
        let sum: u64 = self.links.iter().map(|link| link.bytes_per_s).sum();
        let ns = (self.now - begin) as f64;
        100.0 * (len * of_last) as f64 / (sum as f64 * ns / 1e9)
    }
}

impl Link {
    pub fn schedule(&mut self, now: u64) {
        if self.next.is_some() || self.is_silent {
            return;
        }
        if let Some(&(ask, sent, ready)) = self.queue.front() {
            let piece = self.piece_bytes.min(ask.len - sent);
            let ns_for = |bytes: u64| bytes * 1_000_000_000 / self.bytes_per_s;
            let begin = now.max(ready);
            if self.burst_bytes == 0 {
                self.next = Some(begin + ns_for(piece));
                return;
            }
            // Its tokens are those of the time until the bucket is full, from the whole.
            self.full_at = self.full_at.max(begin) + ns_for(piece);
            let has_tokens_at = self.full_at.saturating_sub(ns_for(self.burst_bytes));
            self.next = Some(has_tokens_at.max(begin + piece * 1_000_000_000 / MEMORY_BYTES_PER_S));
        }
    }
}

pub fn pull(gbits: &[u64]) -> World {
    World::new(Striping::default(), gbits, 60_000)
}
