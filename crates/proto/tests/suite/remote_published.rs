//! Remote memory that peers move without a call of the process whose it is.

use crate::world::net::{Mode, roomy};
use crate::world::{Process, World};
use sluice_proto::{Access, Config, Deed, Exposed, Failure, Kind, Part, RegionId, Rma};
use sluice_wire::{Addr, AtomicOp, Datatype, ITEM_BYTES_MAX, PeerId, Region};

const KEY: u64 = 5;
const BOTH: Access = Access { read: true, write: true };

fn world() -> World {
    let mode = Mode { publishes: true, ..Mode::default() };
    World::new(&[roomy(); 2], mode, Config::default(), 1)
}

fn expose(world: &mut World, key: u64, there: Region, access: Access) -> RegionId {
    let Process { endpoint, port, .. } = &mut world.processes[1];
    let pieces = &[there];
    endpoint
        .expose(port, &Exposed { key, pieces, access, addressed: false, told: None })
        .expect("room")
}

fn hide(world: &mut World, region: RegionId) {
    let Process { endpoint, port, .. } = &mut world.processes[1];
    endpoint.hide(port, region);
}

fn part(local: Region, offset: u64) -> Part {
    Part { local, key: KEY, offset, result: Addr(0), operand: [0; ITEM_BYTES_MAX] }
}

fn begin(world: &mut World, deed: Deed, parts: &[Part], inject: bool) {
    let (peer, data, report, fence) = (PeerId(1), None, true, false);
    let rma = Rma { deed, peer, parts, data, context: 5, report, inject, fence };
    let now = world.now;
    let Process { endpoint, port, .. } = &mut world.processes[0];
    endpoint.rma(now, port, &rma).expect("taken");
}

/// Nothing of the world moves: neither the other process nor a packet.
#[test]
fn bytes_move_while_the_other_process_does_nothing() {
    let mut world = world();
    let there = world.alloc_filled(1, 100_000, 1);
    expose(&mut world, KEY, there, BOTH);
    for (len, inject) in [(0, false), (1, true), (4096, false), (100_000, false)] {
        let here = world.alloc_filled(0, len, 9);
        begin(&mut world, Deed::Write, &[part(here, 0)], inject);
        let end = world.only(0);
        assert_eq!((end.kind, end.len, end.outcome), (Kind::Write, len, Ok(())));
        assert!(world.bytes(1, Region { len, ..there }).iter().all(|byte| *byte == 9));
        let back = world.alloc_filled(0, len, 0);
        begin(&mut world, Deed::Read, &[part(back, 0)], false);
        assert_eq!(world.only(0).kind, Kind::Read);
        assert_eq!(world.bytes(0, back), world.bytes(0, here));
    }
    assert_eq!(world.on_their_way(0, 1), 0);
    let (one, two) = (world.alloc(0, b"a"), world.alloc(0, b"bc"));
    begin(&mut world, Deed::Write, &[part(one, 10), part(two, 20)], false);
    assert_eq!(world.only(0).len, 3);
    let bytes = world.bytes(1, there);
    assert_eq!((bytes[10], &bytes[20..22]), (b'a', &b"bc"[..]));
}

/// The process whose memory it is says so itself, as ever.
#[test]
fn what_is_not_allowed_is_refused_by_its_owner() {
    let mut world = world();
    let there = world.alloc_filled(1, 64, 1);
    let region = expose(&mut world, KEY, there, Access { read: true, write: false });
    let here = world.alloc_filled(0, 64, 2);
    let peer = PeerId(1);
    let no_region = Failure::NoRegion { peer };
    for (deed, offset, why) in [
        (Deed::Write, 0, Failure::NoRight { peer }),
        (Deed::Read, 1, no_region),
        (Deed::Read, u64::MAX, no_region),
    ] {
        begin(&mut world, deed, &[part(here, offset)], false);
        assert_eq!(world.pop(0), None, "it is asked");
        world.run();
        assert_eq!(world.only(0).outcome, Err(why));
    }
    hide(&mut world, region);
    begin(&mut world, Deed::Read, &[part(here, 0)], false);
    world.run();
    assert_eq!(world.only(0).outcome, Err(no_region));
    assert_eq!(world.bytes(1, there), [1; 64]);
}

#[test]
fn who_wants_to_be_told_is_asked_and_atomic_operations_are_too() {
    let mut world = world();
    let there = world.alloc_filled(1, 8, 1);
    let Process { endpoint, port, .. } = &mut world.processes[1];
    let pieces = &[there];
    let told = Exposed { key: KEY, pieces, access: BOTH, addressed: false, told: Some(3) };
    let region = endpoint.expose(port, &told).expect("room");
    let here = world.alloc_filled(0, 8, 2);
    begin(&mut world, Deed::Write, &[part(here, 0)], false);
    assert_eq!(world.pop(0), None);
    world.run();
    assert_eq!((world.only(0).outcome, world.only(1).context), (Ok(()), 3));
    hide(&mut world, region);
    expose(&mut world, KEY, there, BOTH);
    let add = Deed::Combine(AtomicOp::Sum, Datatype::Uint64);
    begin(&mut world, add, &[part(here, 0)], false);
    assert_eq!(world.pop(0), None);
    world.run();
    assert_eq!(world.only(0).outcome, Ok(()));
    assert_eq!(world.bytes(1, there), [4; 8]);
}

/// The first part has moved when the second one is asked for, and does not move again.
#[test]
fn of_several_parts_those_are_asked_for_that_have_to_be() {
    let mut world = world();
    let (one, two) = (world.alloc_filled(1, 8, 1), world.alloc_filled(1, 8, 1));
    expose(&mut world, KEY, one, BOTH);
    let Process { endpoint, port, .. } = &mut world.processes[1];
    let pieces = &[two];
    let told = Exposed { key: 6, pieces, access: BOTH, addressed: false, told: Some(3) };
    endpoint.expose(port, &told).expect("room");
    let here = world.alloc_filled(0, 8, 2);
    begin(&mut world, Deed::Write, &[part(here, 0), Part { key: 6, ..part(here, 0) }], false);
    assert_eq!((world.pop(0), world.bytes(1, one)), (None, vec![2; 8]));
    // Whoever has seen the first part has changed it since.
    world.processes[1].port.fill(one, 9);
    world.run();
    let end = world.only(0);
    assert_eq!((end.len, end.outcome), (16, Ok(())));
    assert_eq!((world.bytes(1, one), world.bytes(1, two)), (vec![9; 8], vec![2; 8]));
}

/// There are four places: the fifth region is asked for.
#[test]
fn regions_without_a_place_are_reached_through_the_engine() {
    let mut world = world();
    let regions: Vec<_> = (0..5)
        .map(|nth| {
            let there = world.alloc_filled(1, 8, 0);
            (expose(&mut world, KEY + nth, there, BOTH), there)
        })
        .collect();
    let here = world.alloc_filled(0, 8, 7);
    let last = [Part { key: KEY + 4, ..part(here, 0) }];
    begin(&mut world, Deed::Write, &last, false);
    assert_eq!(world.pop(0), None);
    world.run();
    assert_eq!((world.only(0).outcome, world.bytes(1, regions[4].1)), (Ok(()), vec![7; 8]));
    for (region, _) in regions {
        hide(&mut world, region);
    }
}
