//! Reads over rails of given rates, in virtual time.

mod links;

use links::{END_NS, GBIT, LOOK_NS, World, pull};
use proptest::prelude::*;
use sluice_multirail::{Ask, ChunkId, Landing, RailId, ReadId, Stripes, Striping};
use sluice_wire::Nanos;

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
