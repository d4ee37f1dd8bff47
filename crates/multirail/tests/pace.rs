//! What is asked for ahead of a rail, and how long its chunks are, by its pace and by the gaps
//! between looks.

mod links;

use links::{GBIT, PIECE_BYTES, World, pull};
use sluice_multirail::{RailId, ReadId, Striping};
use sluice_wire::Nanos;

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
