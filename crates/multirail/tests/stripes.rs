//! Reads over rails of given rates, in virtual time.

use proptest::prelude::*;
use sluice_multirail::{Ask, ChunkId, Landing, RailId, ReadId, Stripes, Striping};
use sluice_wire::Nanos;
use std::collections::VecDeque;

const GBIT: u64 = 125_000_000;
/// What a socket brings in one go.
const PIECE_BYTES: u64 = 16 << 10;
/// Longest read whose bytes are told apart.
const COVERED_BYTES_MAX: u64 = 16 << 20;
/// How fast a token bucket gives what it has saved.
const MEMORY_BYTES_PER_S: u64 = 4_000_000_000;
/// How late at most a host is that has little time.
const LATE_NS: u64 = 400_000;
/// Between two looks at chunks that are late.
const LOOK_NS: u64 = 1_000_000;

/// By then everything has ended.
const END_NS: u64 = 1_000_000_000_000;

/// A link that brings one chunk after the other.
#[derive(Debug)]
struct Link {
    bytes_per_s: u64,
    /// From asking to when the first byte can come.
    latency_ns: u64,
    is_silent: bool,
    /// What it brings at most in one go.
    piece_bytes: u64,
    /// What it brings at the speed of memory when it has rested: a token bucket.
    burst_bytes: u64,
    /// When its bucket is full.
    full_at: u64,
    queue: VecDeque<(Ask, u64, u64)>,
    /// When its next piece comes.
    next: Option<u64>,
}

/// A reader, its rails, and the bytes that it has got.
struct World {
    stripes: Stripes,
    links: Vec<Link>,
    now: u64,
    next_look: u64,
    /// Of each read, which bytes have come: every byte once. Of long ones that is not
    /// kept ([`COVERED_BYTES_MAX`]).
    reads: Vec<(ReadId, Vec<bool>)>,
    ended: Vec<(ReadId, u64)>,
    dropped: u64,
    carried: Vec<u64>,
    /// For how late links with buckets are.
    chance: u64,
}

impl World {
    fn new(striping: Striping, gbits: &[u64], latency_ns: u64) -> World {
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

    fn begin(&mut self, id: u64, len: u64) {
        let covered = if len <= COVERED_BYTES_MAX { len as usize } else { 0 };
        self.reads.push((ReadId(id), vec![false; covered]));
        self.stripes.begin(ReadId(id), len);
        self.ask();
    }

    fn ask(&mut self) {
        while let Some(ask) = self.stripes.next_ask(Nanos(self.now)) {
            let link = &mut self.links[ask.rail.index()];
            self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let late_ns = if link.burst_bytes > 0 { (self.chance >> 33) % LATE_NS } else { 0 };
            link.queue.push_back((ask, 0, self.now + link.latency_ns + late_ns));
            link.schedule(self.now);
        }
    }

    /// One event. False if none is left.
    fn step(&mut self) -> bool {
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

    fn arrive(&mut self, rail: RailId) {
        let (chunk, bytes) = self.bring(rail);
        self.land(rail, chunk, bytes);
    }

    /// A link brings its next piece.
    fn bring(&mut self, rail: RailId) -> (ChunkId, u64) {
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
    fn looks_every(&mut self, gap_ns: u64, ns: u64) -> u64 {
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

    fn land(&mut self, rail: RailId, chunk: ChunkId, bytes: u64) {
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

    fn run(&mut self) {
        while self.step() {}
        assert_eq!(self.ended.len(), self.reads.len(), "all have ended");
    }

    /// Reads of `len` bytes, one after the other; the efficiency of the last ones in
    /// percent of the sum of the rails.
    fn efficiency_pct(&mut self, len: u64, count: u64, of_last: u64) -> f64 {
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
    fn schedule(&mut self, now: u64) {
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

fn pull(gbits: &[u64]) -> World {
    World::new(Striping::default(), gbits, 60_000)
}

/// With nothing told about the rails. Wanted of shaped links are 99, 98, 95, 95, 90 and
/// 75 percent; without a socket in between it is a little more.
#[test]
fn large_reads_use_all_that_the_rails_have() {
    for (gbits, len, wanted_pct) in [
        (&[1, 1, 1, 1][..], 64 << 20, 99.5),
        (&[1, 2, 4], 64 << 20, 99.5),
        (&[1, 1, 1, 1], 4 << 20, 98.5),
        (&[1, 2, 4], 4 << 20, 98.0),
        (&[1, 1, 1, 1], 1 << 20, 96.0),
        (&[1, 2, 4], 1 << 20, 90.0),
        (&[1, 1, 1], 64 << 20, 99.0),
        (&[4, 4, 4, 4], 64 << 20, 99.0),
        (&[10, 1], 64 << 20, 98.0),
    ] {
        let pct = pull(gbits).efficiency_pct(len, 12, 6);
        println!("{gbits:?} {len}: {pct:.1} %");
        assert!(pct >= wanted_pct, "{gbits:?}, {len} bytes: {pct:.1} %");
    }
}

/// Links that are shaped by token buckets bring what they have saved at once, in segments of
/// 64 KiB. What they do then is not their rate.
#[test]
fn bursts_of_shaped_links_do_not_make_one_of_them_the_slowest() {
    for (gbits, len, wanted_pct) in [
        (&[1, 1, 1, 1][..], 64 << 20, 99.0),
        (&[1, 1, 1, 1], 4 << 20, 99.0),
        (&[1, 1, 1, 1], 1 << 20, 95.0),
        (&[1, 2, 4], 64 << 20, 99.0),
        (&[1, 2, 4], 4 << 20, 98.0),
        (&[1, 2, 4], 1 << 20, 92.0),
    ] {
        let mut world = pull(gbits);
        for link in &mut world.links {
            (link.piece_bytes, link.burst_bytes) = (64 << 10, 256 << 10);
        }
        let count = (400 << 20) / len;
        let pct = world.efficiency_pct(len, count, count - 10.min(count / 2));
        println!("{gbits:?} {len}: {pct:.1} %");
        assert!(pct >= wanted_pct, "{gbits:?}, {len} bytes: {pct:.1} %");
    }
}

/// What is asked for ahead of a rail at most, and its longest chunk, in bytes, in the middle
/// of a long read; while packets come by it or not.
fn asked_ahead(gbit: u64, with_packets: bool) -> (u64, u64) {
    let mut world = pull(&[gbit]);
    world.begin(0, 64 << 20);
    let (mut ahead, mut chunk) = (0, 0);
    for step in 0..600 {
        if with_packets {
            world.stripes.note_packet(RailId(0), Nanos(world.now));
        }
        world.step();
        if step >= 300 {
            ahead = ahead.max(world.stripes.under_way(RailId(0)));
            let lens = world.links[0].queue.iter().map(|(ask, ..)| ask.len);
            chunk = chunk.max(lens.max().unwrap_or(0));
        }
    }
    world.run();
    (ahead, chunk)
}

#[test]
fn chunks_and_what_is_asked_for_ahead_go_by_the_pace_of_the_rail() {
    let (ahead, chunk) = asked_ahead(1, false);
    assert!((100_000..=126_000).contains(&ahead) && chunk <= 126_000, "{ahead} {chunk}");
    let (ahead, chunk) = asked_ahead(100, false);
    assert!((1 << 20..=3 << 20).contains(&ahead) && chunk == 1 << 20, "{ahead} {chunk}");
}

/// One that was slow for a while, because its process was, is as fast as before soon.
#[test]
fn a_rail_that_was_slow_for_a_while_is_as_fast_as_before() {
    let mut world = pull(&[40]);
    let run = |world: &mut World, until: u64| {
        while world.now < until && !world.stripes.is_idle() {
            world.stripes.note_packet(RailId(0), Nanos(world.now));
            world.step();
        }
        world.carried[0]
    };
    world.begin(0, 4 << 30);
    run(&mut world, 20_000_000);
    (world.links[0].latency_ns, world.links[0].bytes_per_s) = (2_000_000, GBIT / 4);
    let before = run(&mut world, 100_000_000);
    (world.links[0].latency_ns, world.links[0].bytes_per_s) = (60_000, 40 * GBIT);
    let soon = run(&mut world, 110_000_000);
    let later = run(&mut world, 130_000_000);
    println!("{} bytes in 10 ms, then {} in 20 ms", soon - before, later - soon);
    assert!(later - soon >= 20 * 40 * GBIT / 1000 * 9 / 10, "{}", later - soon);
}

/// Between two looks a rail has something to bring, and its pace is what it is, not that of the
/// looks. If nobody tells of gaps it brings 2 % at 10 Gb/s.
#[test]
fn who_looks_seldom_keeps_a_rail_busy() {
    for (gbit, gap_ns) in [(10, 1_000_000), (1, 1_000_000), (1, 3_000_000), (1, 10_000_000)] {
        let mut world = pull(&[gbit]);
        world.begin(0, 4 << 30);
        world.looks_every(gap_ns, 300_000_000);
        let bytes = world.looks_every(gap_ns, 200_000_000);
        let pct = bytes * 100 / (gbit * GBIT / 5);
        println!("{gbit} Gb/s, looks of {gap_ns} ns: {pct} %");
        assert!(pct >= 95, "{gbit} Gb/s, looks of {gap_ns} ns: {pct} %");
        let pace = world.stripes.pace(RailId(0)).bytes_per_s();
        assert!(pace.abs_diff(gbit * GBIT) < gbit * GBIT / 10, "{pace} bytes a second");
        // It is asked for no more than before when looks are frequent again.
        world.looks_every(2_000, 100_000_000);
        let ahead = world.stripes.under_way(RailId(0));
        assert!(ahead <= (gbit * GBIT / 1000).max(PIECE_BYTES) * 11 / 10, "{ahead}");
    }
}

/// Packets among the chunks make no difference: they wait for looks longer than for chunks.
#[test]
fn who_looks_seldom_keeps_a_rail_busy_while_packets_come() {
    let mut world = pull(&[10]);
    world.begin(0, 4 << 30);
    let mut bytes = 0;
    for look in 0..500 {
        world.stripes.note_packet(RailId(0), Nanos(world.now));
        let came = world.looks_every(1_000_000, 1);
        bytes += if look < 300 { 0 } else { came };
    }
    assert!(bytes >= 10 * GBIT / 5 * 95 / 100, "{bytes}");
    for _ in 0..50_000 {
        world.stripes.note_packet(RailId(0), Nanos(world.now));
        world.looks_every(2_000, 1);
    }
    let ahead_ns = world.stripes.under_way(RailId(0)) * 1_000_000_000 / (10 * GBIT);
    assert!(ahead_ns <= 250_000, "{ahead_ns} ns");
}

/// Chunks are longer, and shares are as good as ever.
#[test]
fn who_looks_seldom_uses_all_that_unequal_rails_have() {
    for (len, wanted_pct) in [(64 << 20, 95), (16 << 20, 85)] {
        let mut world = pull(&[1, 2, 4]);
        let (mut begin, mut came) = (0, 0);
        for id in 0..12 {
            if id == 6 {
                (begin, came) = (world.now, 0);
            }
            world.begin(id, len);
            came += world.looks_every(1_000_000, u64::MAX / 2);
        }
        let pct = came * 100 / (7 * GBIT * ((world.now - begin) / 1_000_000) / 1000);
        println!("{len}: {pct} %");
        assert!(pct >= wanted_pct, "{len} bytes: {pct} %");
    }
}

/// Behind a stream at 1 Gb/s a packet waits less than 0.3 ms.
#[test]
fn little_is_asked_for_ahead_while_packets_come() {
    let (ahead, _) = asked_ahead(1, true);
    assert!(ahead * 1_000_000_000 / GBIT < 300_000, "{ahead}");
}

/// The rest of a read may come before anybody looks, but not all that is under way while
/// there is more to ask for.
#[test]
fn what_may_come_before_somebody_looks() {
    let rail = RailId(0);
    let mut world = pull(&[1]);
    assert_eq!(world.stripes.may_gather(rail), 0);
    world.stripes.begin(ReadId(1), 8 << 20);
    while world.stripes.next_ask(Nanos(0)).is_some() {}
    let under_way = world.stripes.under_way(rail);
    assert!(under_way > 0 && under_way < 8 << 20);
    assert_eq!(world.stripes.may_gather(rail), under_way / 4 * 3);
    world.stripes.cancel(ReadId(1));
    world.stripes.begin(ReadId(2), 1000);
    while world.stripes.next_ask(Nanos(0)).is_some() {}
    assert_eq!(world.stripes.may_gather(rail), 1000);
}

/// A slow rail has chunks of the least length, however little it brings in a millisecond.
#[test]
fn no_chunk_is_shorter_than_the_least() {
    let striping = Striping::Pull { chunk_bytes_max: 10_000, chunk_bytes_min: 20_000, window: 2 };
    let mut world = World::new(striping, &[1, 1], 60_000);
    world.links[0].bytes_per_s = 1_000;
    world.begin(0, 1 << 20);
    world.run();
    assert_eq!(world.ended.len(), 1);
}

/// What the paper does: equal fragments, in turn. Three rails are no faster than two where
/// the message has four fragments, and unequal rails are as fast as the slowest.
#[test]
fn equal_fragments_wait_for_the_slowest() {
    let fragments = |gbits: &[u64]| {
        let mut world = World::new(Striping::Fragments { bytes: 1 << 20 }, gbits, 60_000);
        world.begin(0, 4 << 20);
        world.run();
        world.now
    };
    let (two, three, four) = (fragments(&[1, 1]), fragments(&[1, 1, 1]), fragments(&[1; 4]));
    assert!(three.abs_diff(two) * 100 < two, "{two} {three}");
    assert!(four * 100 < two * 52, "{two} {four}");
    let mut unequal = World::new(Striping::Fragments { bytes: 1 << 20 }, &[1, 2, 4], 60_000);
    let pct = unequal.efficiency_pct(64 << 20, 4, 2);
    assert!((40.0..46.0).contains(&pct), "{pct:.1} %");
}

/// Only what the rail no longer carries is lost.
#[test]
fn a_rail_that_falls_to_a_tenth_in_mid_run_costs_no_more_than_that() {
    let mut world = pull(&[1, 1, 1, 1]);
    world.efficiency_pct(64 << 20, 2, 1);
    world.links[2].bytes_per_s /= 10;
    let (begin, len) = (world.now, 64 << 20);
    world.begin(9, len);
    world.run();
    let sum: u64 = world.links.iter().map(|link| link.bytes_per_s).sum();
    let pct = 100.0 * len as f64 / (sum as f64 * (world.now - begin) as f64 / 1e9);
    println!("after the fall: {pct:.1} %");
    assert!(pct >= 97.0, "{pct:.1} %");
}

/// Nobody says that it is silent; its chunks are asked for elsewhere, and what it owes is
/// dropped when it comes.
#[test]
fn a_rail_that_falls_silent_does_not_hold_up_a_read() {
    let mut world = pull(&[1, 1, 1, 1]);
    world.efficiency_pct(16 << 20, 4, 1);
    world.begin(9, 16 << 20);
    for _ in 0..100 {
        world.step();
    }
    world.links[1].is_silent = true;
    world.links[1].next = None;
    while !world.stripes.is_idle() && world.step() {}
    assert_eq!(world.ended.last().map(|&(id, _)| id), Some(ReadId(9)));
    let expected_ns = 16_u64 * (1 << 20) * 1_000_000_000 / (3 * GBIT);
    let took_ns = world.now - world.ended[3].1;
    assert!(took_ns < expected_ns * 11 / 10, "{took_ns} ns of {expected_ns}");
    world.links[1].is_silent = false;
    world.links[1].schedule(world.now);
    world.run();
    assert!(world.dropped > 0);
}

#[test]
fn what_a_rail_owed_that_is_gone_comes_by_the_others() {
    let mut world = pull(&[1, 2, 4]);
    world.begin(0, 8 << 20);
    for _ in 0..150 {
        world.step();
    }
    world.stripes.set_usable(RailId(2), false);
    world.links[2].queue.clear();
    world.links[2].next = None;
    world.ask();
    world.run();
    let before = world.carried[2];
    world.stripes.set_usable(RailId(2), true);
    world.begin(1, 8 << 20);
    world.run();
    assert!(world.carried[2] > before, "it carries again when it has returned");
}

/// Reads have their turns in the order in which they began, over all rails.
#[test]
fn a_read_that_is_cancelled_leaves_the_others_alone() {
    let mut world = pull(&[1, 1]);
    for id in 0..3 {
        world.begin(id, 1 << 20);
    }
    for _ in 0..20 {
        world.step();
    }
    world.stripes.cancel(ReadId(0));
    world.stripes.cancel(ReadId(0));
    world.reads.retain(|&(id, _)| id != ReadId(0));
    world.run();
    assert!(world.dropped > 0, "what was under way lands nowhere");
    let ended: Vec<_> = world.ended.iter().map(|&(id, _)| id).collect();
    assert_eq!(ended, [ReadId(1), ReadId(2)]);
}

/// The time after a read that was cancelled was none of its rails'.
#[test]
fn a_rail_is_as_fast_as_before_after_a_cancelled_read() {
    let mut world = pull(&[1]);
    world.efficiency_pct(1 << 20, 3, 1);
    world.begin(7, 1 << 20);
    world.stripes.cancel(ReadId(7));
    world.links[0].queue.clear();
    world.links[0].next = None;
    world.now += 1_000_000_000;
    world.next_look = world.now + LOOK_NS;
    world.begin(8, 64 << 10);
    while !world.stripes.is_idle() && world.step() {}
    let pace = world.stripes.pace(RailId(0)).bytes_per_s();
    assert!(pace > GBIT * 9 / 10, "{pace} bytes a second");
}

/// The owner of the memory says that its key does not reach.
#[test]
fn a_read_of_what_may_not_be_read_ends_and_leaves_the_others_alone() {
    let mut stripes = Stripes::new(Striping::default());
    let rail = stripes.add_rail(GBIT, 10_000);
    stripes.begin(ReadId(0), 300_000);
    stripes.begin(ReadId(1), 10);
    let asks: Vec<Ask> = std::iter::from_fn(|| stripes.next_ask(Nanos(0))).collect();
    assert!(asks[..2].iter().all(|ask| ask.read == ReadId(0)), "{asks:?}");
    assert_eq!(stripes.fail(rail, asks[0].chunk), Some(ReadId(0)));
    stripes.check_invariants();
    assert_eq!(stripes.fail(rail, asks[1].chunk), None, "it has ended");
    assert_eq!(stripes.landing(rail, asks[1].chunk), Landing::Nowhere);
    let mut left = asks.iter().filter(|ask| ask.read == ReadId(1)).copied();
    let left = left.next().or_else(|| stripes.next_ask(Nanos(0))).expect("the other goes on");
    assert_eq!(stripes.arrived(Nanos(1), rail, left.chunk, 10), Some(ReadId(1)));
    assert!(stripes.is_idle());
}

/// Each of two rails brings the first byte after 30 ms, and says 10 us.
#[test]
fn a_chunk_does_not_go_to_and_fro_between_rails_that_are_all_slower_than_they_say() {
    let mut world = World::new(Striping::default(), &[1, 1], 10_000);
    world.links.iter_mut().for_each(|link| link.latency_ns = 30_000_000);
    world.begin(0, 100);
    while world.step() {}
    let (id, ended) = world.ended[0];
    assert_eq!(id, ReadId(0));
    assert!(ended <= 100_000_000, "{ended} ns");
}

/// All that a rail is asked for is under way at once there.
/// What is thought slow gets nothing to do, and so could never show that it is not.
#[test]
fn a_rail_that_was_slow_long_ago_is_tried_again() {
    let mut world = pull(&[4, 4]);
    world.begin(1, 16 << 20);
    world.run();
    // It becomes a hundred times slower, and fast again while it has nothing to do.
    world.links[1].bytes_per_s /= 100;
    world.begin(2, 16 << 20);
    world.run();
    world.links[1].bytes_per_s *= 100;
    world.now += 2_000_000_000;
    let before = world.carried[1];
    world.begin(3, 1 << 20);
    world.run();
    let carried = world.carried[1] - before;
    assert!(carried > 128 << 10, "it carried {carried} bytes");
}

#[test]
fn hundreds_of_fragments_on_one_rail_are_counted() {
    let mut stripes = Stripes::new(Striping::Fragments { bytes: 10 });
    stripes.add_rail(GBIT, 10_000);
    stripes.begin(ReadId(0), 10_000);
    let asks = std::iter::from_fn(|| stripes.next_ask(Nanos(0))).count();
    assert_eq!(asks, 256);
    stripes.check_invariants();
}

#[test]
fn names_of_no_chunk_lead_nowhere() {
    let mut world = pull(&[1, 1]);
    world.begin(0, 100);
    let (ask, ..) = world.links.iter().find_map(|link| link.queue.front().copied()).unwrap();
    let other = RailId(1 - ask.rail.0);
    assert_eq!(world.stripes.landing(other, ask.chunk), Landing::Nowhere, "of another rail");
    for bits in [0, u32::MAX, ask.chunk.bits() ^ 1, ask.chunk.bits() + 256] {
        let chunk = ChunkId::from_bits(bits);
        assert_eq!(world.stripes.landing(ask.rail, chunk), Landing::Nowhere);
        assert_eq!(world.stripes.arrived(Nanos(1), ask.rail, chunk, 50), None);
    }
    let into = Landing::Into { read: ReadId(0), offset: 0, len: 100 };
    assert_eq!(world.stripes.landing(ask.rail, ChunkId::from_bits(ask.chunk.bits())), into);
    world.run();
    assert_eq!(world.stripes.landing(ask.rail, ask.chunk), Landing::Nowhere, "it has ended");
}

/// What happens to reads and rails.
#[derive(Clone, Copy, Debug)]
enum Event {
    Begin(u64),
    Cancel(u64),
    /// Pieces come, as time passes.
    Run(u8),
    /// So long ago was the last look at what comes from now on.
    Gap(u64),
    /// A rail is as fast as this from now on, in hundredths of a gigabit.
    Rate(usize, u64),
    Silent(usize, bool),
    /// A rail is gone: what is on it never comes.
    Gone(usize),
    Back(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (1..600_000_u64).prop_map(Event::Begin),
        1 => (0..20_u64).prop_map(Event::Cancel),
        8 => any::<u8>().prop_map(Event::Run),
        1 => any::<u64>().prop_map(Event::Gap),
        1 => (0..3_usize, 1..2000_u64).prop_map(|(rail, rate)| Event::Rate(rail, rate)),
        1 => (0..3_usize, any::<bool>()).prop_map(|(rail, on)| Event::Silent(rail, on)),
        1 => (0..3_usize).prop_map(Event::Gone),
        2 => (0..3_usize).prop_map(Event::Back),
    ]
}

impl World {
    fn happen(&mut self, event: Event, begun: &mut u64) {
        match event {
            Event::Begin(len) => {
                self.begin(*begun, len);
                *begun += 1;
            }
            Event::Cancel(id) => {
                let has_ended = |one: &(ReadId, u64)| one.0 == ReadId(id);
                if !self.ended.iter().any(has_ended) {
                    self.reads.retain(|&(one, _)| one != ReadId(id));
                }
                self.stripes.cancel(ReadId(id));
            }
            Event::Run(steps) => {
                for _ in 0..steps {
                    self.step();
                }
            }
            Event::Gap(ns) => self.stripes.note_gap(Nanos(self.now.saturating_sub(ns % END_NS))),
            Event::Rate(rail, rate) => self.links[rail].bytes_per_s = rate * GBIT / 100,
            Event::Silent(rail, is_silent) => {
                self.links[rail].is_silent = is_silent;
                if is_silent {
                    self.links[rail].next = None;
                }
                self.links[rail].schedule(self.now);
            }
            Event::Gone(rail) => {
                self.stripes.set_usable(RailId(rail as u8), false);
                self.links[rail].queue.clear();
                self.links[rail].next = None;
            }
            Event::Back(rail) => self.stripes.set_usable(RailId(rail as u8), true),
        }
        self.stripes.check_invariants();
        self.ask();
        self.stripes.check_invariants();
    }
}

proptest! {
    /// Whatever rails do, every byte of a read comes once, and every read ends once a rail
    /// speaks.
    #[test]
    fn every_read_ends_and_every_byte_comes_once(
        events in prop::collection::vec(event(), 1..60)
    ) {
        let mut world = pull(&[1, 2, 4]);
        let mut begun = 0;
        for event in events {
            world.happen(event, &mut begun);
        }
        for rail in 0..3 {
            world.happen(Event::Silent(rail, false), &mut begun);
            world.happen(Event::Back(rail), &mut begun);
        }
        world.run();
        world.stripes.check_invariants();
    }
}
