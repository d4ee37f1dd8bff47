//! The target is told of an operation on its memory once, when all of it is done there.

use crate::world::net::{Mode, roomy};
use crate::world::{Process, World};
use sluice_link::PeerError;
use sluice_proto::{Access, Completion, Config, Deed, Exposed, Failure, Kind, Part, RegionId, Rma};
use sluice_wire::{Addr, AtomicOp, Datatype, ITEM_BYTES_MAX, PeerId, Region};

const BOTH: Access = Access { read: true, write: true };
const ADD: Deed = Deed::Combine(AtomicOp::Sum, Datatype::Uint64);
const FETCH: Deed = Deed::Fetch(AtomicOp::Sum, Datatype::Uint64);
/// A part of which no byte comes with its header.
const LONG: u64 = 5000;

/// Of each part its key and its length.
type Lens<'t> = &'t [(u64, u64)];

/// What a rail can do: read and write memory, neither, or late.
fn modes() -> [Mode; 3] {
    let copies = Mode { can_read: false, ..Mode::default() };
    [Mode::default(), copies, Mode { pending_percent: 30, ..Mode::default() }]
}

fn world(mode: Mode, seed: u64) -> World {
    World::new(&[roomy(); 2], mode, Config::default(), seed)
}

/// Memory of process 1, of which it is told with the key for a context.
fn expose(world: &mut World, key: u64, len: u64) -> (Region, RegionId) {
    let there = world.alloc_filled(1, len, 1);
    let Process { endpoint, port, .. } = &mut world.processes[1];
    let (pieces, told) = (&[there], Some(key));
    let exposed = Exposed { key, pieces, access: BOTH, addressed: false, told };
    (there, endpoint.expose(port, &exposed).expect("room"))
}

/// Parts one behind the other, each with its key, and memory here that is all `byte`.
fn parts(world: &World, byte: u8, of: Lens<'_>) -> Vec<Part> {
    let mut ends = [0; 4];
    let mut part = |&(key, len): &(u64, u64)| {
        let end = &mut ends[key as usize];
        let offset = *end;
        *end += len;
        let local = world.alloc_filled(0, len, byte);
        let result = world.alloc_filled(0, len, 0).addr;
        Part { local, key, offset, result, operand: [0; ITEM_BYTES_MAX] }
    };
    of.iter().map(&mut part).collect()
}

fn rma(deed: Deed, parts: &[Part]) -> Rma<'_> {
    let (data, report, inject, fence) = (None, true, false, false);
    Rma { deed, peer: PeerId(1), parts, data, context: 5, report, inject, fence }
}

fn begin(world: &mut World, rma: &Rma) {
    let now = world.now;
    let Process { endpoint, port, .. } = &mut world.processes[0];
    endpoint.rma(now, port, rma).expect("taken");
}

/// What process 1 is told, and for which region.
fn told(world: &mut World) -> Vec<(Kind, u64)> {
    std::iter::from_fn(|| world.pop(1)).map(|end: Completion| (end.kind, end.context)).collect()
}

#[test]
fn an_operation_of_any_number_of_parts_is_told_once() {
    for (mode, count) in modes().into_iter().flat_map(|mode| [1, 2, 5].map(|count| (mode, count))) {
        for (deed, kind, lens) in [
            (Deed::Write, Kind::PeerWrite, &[0, 8, 960, 961, LONG, 100_000][..]),
            (Deed::Read, Kind::PeerRead, &[0, 8, 960, 961, LONG, 100_000]),
            (ADD, Kind::PeerWrite, &[8, 960]),
            (FETCH, Kind::PeerWrite, &[8, 960]),
        ] {
            for &len in lens {
                let mut world = world(mode, count);
                // Values on their way back lie in lent memory, which no slots are held for.
                world.checks = deed != FETCH;
                let (there, _) = expose(&mut world, 1, count * len);
                let all = parts(&world, 2, &vec![(1, len); count as usize]);
                begin(&mut world, &rma(deed, &all));
                world.run();
                assert_eq!(world.only(0).outcome, Ok(()));
                let what = format!("{count} parts of {len} bytes, {deed:?}");
                assert_eq!(told(&mut world), [(kind, 1)], "{what}");
                let byte = match deed {
                    Deed::Write => 2,
                    Deed::Read => 1,
                    _ => 3,
                };
                let bytes = world.bytes(1, there);
                assert!(bytes.iter().all(|found| *found == byte), "{what}");
                assert_eq!(world.pending(0), sluice_proto::Pending::default());
            }
        }
    }
}

/// Long parts are fetched and may take longer than short ones that come later.
#[test]
fn it_is_told_when_all_its_bytes_are_there() {
    for (mode, seed) in modes().into_iter().flat_map(|mode| (0..20).map(move |seed| (mode, seed))) {
        for lens in [&[LONG, 8][..], &[8, LONG, 8, 8], &[LONG, LONG, 0], &[100_000, 961, 960]] {
            let mut world = world(mode, seed);
            let (there, _) = expose(&mut world, 1, lens.iter().sum());
            let of: Vec<_> = lens.iter().map(|len| (1, *len)).collect();
            let all = parts(&world, 9, &of);
            begin(
                &mut world,
                &Rma { data: (seed % 2 == 0).then_some(7), ..rma(Deed::Write, &all) },
            );
            let end = loop {
                if let Some(end) = world.pop(1) {
                    break end;
                }
                assert!(world.step(), "it is told");
            };
            assert!(world.bytes(1, there).iter().all(|byte| *byte == 9), "{lens:?}");
            assert_eq!((end.kind, end.data), (Kind::PeerWrite, (seed % 2 == 0).then_some(7)));
            world.run();
            assert_eq!((told(&mut world), world.only(0).outcome), (vec![], Ok(())));
        }
    }
}

#[test]
fn each_region_is_told_once_and_one_of_them_of_the_whole() {
    let cases: [(Lens<'_>, &[(Kind, u64)]); 5] = [
        (&[(1, 8), (2, 8)], &[(Kind::RegionWrite, 1), (Kind::PeerWrite, 2)]),
        (&[(1, 8), (2, 8), (1, 8)], &[(Kind::RegionWrite, 2), (Kind::PeerWrite, 1)]),
        (&[(1, LONG), (2, LONG), (1, 8), (2, 8)], &[(Kind::RegionWrite, 1), (Kind::PeerWrite, 2)]),
        (&[(1, LONG), (1, LONG), (2, LONG)], &[(Kind::RegionWrite, 1), (Kind::PeerWrite, 2)]),
        (
            &[(1, LONG), (2, LONG), (3, LONG)],
            &[(Kind::RegionWrite, 1), (Kind::RegionWrite, 2), (Kind::PeerWrite, 3)],
        ),
    ];
    for mode in modes() {
        for (of, expected) in cases {
            let mut world = world(mode, 3);
            let regions = [1, 2, 3].map(|key| expose(&mut world, key, 2 * LONG).0);
            let all = parts(&world, 9, of);
            begin(&mut world, &rma(Deed::Write, &all));
            world.run();
            assert_eq!(world.only(0).outcome, Ok(()));
            assert_eq!(told(&mut world), expected, "{of:?}");
            for (region, key) in regions.into_iter().zip(1..) {
                let of_it = of.iter().filter(|(of, _)| *of == key);
                let len = of_it.map(|(_, len)| len).sum();
                assert!(world.bytes(1, Region { len, ..region }).iter().all(|byte| *byte == 9));
            }
            begin(&mut world, &rma(Deed::Read, &all[..2]));
            world.run();
            world.only(0);
            let kinds: Vec<_> = told(&mut world).into_iter().map(|(kind, _)| kind).collect();
            let is_one = all[0].key == all[1].key;
            let both = [Kind::RegionRead, Kind::PeerRead];
            assert_eq!(kinds, if is_one { &both[1..] } else { &both[..] });
        }
    }
}

/// What was held back then is never sent, and the interface has nothing left of it.
#[test]
fn what_fails_in_the_middle_is_not_told_where_its_last_part_waits() {
    let no_region = Err(Failure::NoRegion { peer: PeerId(1) });
    for mode in modes() {
        let mut world = world(mode, 4);
        let (there, _) = expose(&mut world, 1, 3 * LONG);
        let all = parts(&world, 9, &[(2, 8), (1, LONG), (1, 8)]);
        begin(&mut world, &rma(Deed::Write, &all));
        world.run();
        assert_eq!((world.only(0).outcome, told(&mut world)), (no_region, vec![]));
        let bytes = world.bytes(1, there);
        assert_eq!((bytes[4999], bytes[5000]), (9, 1), "the last part was not sent");
        // Data is told of no write that fails, however short its parts are.
        let all = parts(&world, 9, &[(2, 8), (1, 8)]);
        begin(&mut world, &Rma { data: Some(7), inject: true, ..rma(Deed::Write, &all) });
        world.run();
        assert_eq!((world.only(0).outcome, told(&mut world)), (no_region, vec![]));
        // Short parts do not wait, so the operation may be counted once all the same.
        let all = parts(&world, 9, &[(1, 8), (2, 8), (1, 8)]);
        begin(&mut world, &rma(Deed::Write, &all));
        world.run();
        assert_eq!(world.only(0).outcome, no_region);
        assert_eq!(told(&mut world), [(Kind::PeerWrite, 1)]);
        assert_eq!(world.processes[0].port.net().lent(0), (0, 0));
        assert_eq!(world.pending(0), sluice_proto::Pending::default());
    }
}

#[test]
fn an_injected_one_keeps_its_copy_until_its_last_part_has_been_sent() {
    for mode in modes() {
        let mut world = world(mode, 5);
        let (there, _) = expose(&mut world, 1, 2 * LONG + 8);
        let all = parts(&world, 9, &[(1, LONG), (1, LONG), (1, 8)]);
        begin(&mut world, &Rma { inject: true, ..rma(Deed::Write, &all) });
        for part in &all {
            world.processes[0].port.fill(part.local, 3);
        }
        world.run();
        assert_eq!((world.only(0).outcome, told(&mut world)), (Ok(()), vec![(Kind::PeerWrite, 1)]));
        assert!(world.bytes(1, there).iter().all(|byte| *byte == 9));
        assert_eq!(world.processes[0].port.net().lent(0), (0, 0));
    }
}

#[test]
fn one_whose_last_part_waits_ends_with_its_target_and_where_its_region_is_hidden() {
    let mut world = world(Mode::default(), 6);
    let (_, region) = expose(&mut world, 1, LONG + 8);
    let all = parts(&world, 9, &[(1, LONG), (1, 8)]);
    begin(&mut world, &rma(Deed::Write, &all));
    world.deliver(0, 1);
    let Process { endpoint, port, .. } = &mut world.processes[1];
    endpoint.hide(port, region);
    world.run();
    let no_region = Err(Failure::NoRegion { peer: PeerId(1) });
    assert_eq!((world.only(0).outcome, told(&mut world)), (no_region, vec![]));

    expose(&mut world, 1, LONG + 8);
    begin(&mut world, &rma(Deed::Write, &all));
    world.kill(1);
    assert!(world.tell_death(0, 1));
    world.run();
    let gone = Err(Failure::PeerGone { peer: PeerId(1), why: PeerError::Dead });
    assert_eq!(world.ends(0), [(5, gone)]);
    assert_eq!(world.pending(0), sluice_proto::Pending::default());
}

/// What the initiator moves itself is told of with what it asks for.
#[test]
fn parts_that_move_without_the_target_are_told_with_the_others() {
    let mut world = world(Mode { publishes: true, ..Mode::default() }, 7);
    let open = world.alloc_filled(1, 8, 1);
    let Process { endpoint, port, .. } = &mut world.processes[1];
    let exposed = Exposed { key: 3, pieces: &[open], access: BOTH, addressed: false, told: None };
    endpoint.expose(port, &exposed).expect("room");
    let (there, _) = expose(&mut world, 1, LONG + 8);
    let all = parts(&world, 9, &[(3, 8), (1, LONG), (1, 8)]);
    begin(&mut world, &rma(Deed::Write, &all));
    assert_eq!(world.bytes(1, open), [9; 8], "it was moved at once");
    world.run();
    assert_eq!((world.only(0).outcome, told(&mut world)), (Ok(()), vec![(Kind::PeerWrite, 1)]));
    assert!(world.bytes(1, there).iter().all(|byte| *byte == 9));
}

/// Two processes of which one has many operations of several parts under way.
#[test]
fn many_at_once_are_told_each() {
    for mode in modes() {
        let mut world = world(mode, 8);
        let (there, _) = expose(&mut world, 1, 50 * (LONG + 16));
        let mut all = parts(&world, 9, &[(1, LONG), (1, 8), (1, 8)].repeat(50));
        for (nth, parts) in all.chunks_mut(3).enumerate() {
            begin(
                &mut world,
                &Rma { data: (nth % 5 == 0).then_some(1), ..rma(Deed::Write, parts) },
            );
        }
        world.run();
        let ends = world.ends(0);
        assert!(ends.len() == 50 && ends.iter().all(|end| *end == (5, Ok(()))));
        assert_eq!(told(&mut world), [(Kind::PeerWrite, 1); 50]);
        assert!(world.bytes(1, there).iter().all(|byte| *byte == 9));
    }
}

/// A part of more bytes than a command takes is several, and told once with its data.
#[test]
fn a_part_of_more_than_two_gib_is_told_once() {
    let mut world = world(Mode { payloads: false, ..Mode::default() }, 9);
    let len = (1 << 32) + 5;
    let whole = Region { addr: Addr(0), len: u64::MAX };
    let Process { endpoint, port, .. } = &mut world.processes[1];
    let exposed =
        Exposed { key: 1, pieces: &[whole], access: BOTH, addressed: false, told: Some(1) };
    endpoint.expose(port, &exposed).expect("room");
    let local = Region { addr: Addr(64), len };
    let (result, operand) = (Addr(0), [0; ITEM_BYTES_MAX]);
    let all = [Part { local, key: 1, offset: 64, result, operand }];
    begin(&mut world, &Rma { data: Some(7), ..rma(Deed::Write, &all) });
    world.run();
    let end = world.only(0);
    assert_eq!((end.len, end.outcome), (len, Ok(())));
    assert_eq!((world.only(1).data, world.pop(1)), (Some(7), None));
}
