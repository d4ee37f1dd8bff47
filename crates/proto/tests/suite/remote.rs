//! Remote memory, told as it happens, and buffers for many messages.

use crate::world;
use crate::world::net::Mode;
use crate::world::{Process, World, recv_from, send_to};
use sluice_link::PeerError;
use sluice_proto::{
    Access, Completion, Config, Deed, Exposed, Failure, Kind, Part, Refused, RegionId, Rma,
};
use sluice_wire::{Addr, AtomicOp, Datatype, ITEM_BYTES_MAX, PeerId, Region};

const KEY: u64 = 77;
const BOTH: Access = Access { read: true, write: true };

/// What is done to memory of process 1 by process 0.
struct Bench {
    world: World,
}

impl Bench {
    fn new(mode: Mode) -> Bench {
        Bench { world: World::pair(mode) }
    }

    fn expose(&mut self, exposed: &Exposed) -> RegionId {
        let Process { endpoint, port, .. } = &mut self.world.processes[1];
        endpoint.expose(port, exposed).expect("room")
    }

    fn expose_all(&mut self, pieces: &[Region]) -> RegionId {
        self.expose(&Exposed { key: KEY, pieces, access: BOTH, addressed: false, told: None })
    }

    fn hide(&mut self, region: RegionId) {
        let Process { endpoint, port, .. } = &mut self.world.processes[1];
        endpoint.hide(port, region);
    }

    fn begin(&mut self, rma: &Rma) -> Result<(), Refused> {
        let now = self.world.now;
        let Process { endpoint, port, .. } = &mut self.world.processes[0];
        endpoint.rma(now, port, rma)
    }

    /// Does it, and says how it ended.
    fn end_of(&mut self, deed: Deed, part: Part) -> Completion {
        self.begin(&rma(deed, &[part])).expect("taken");
        self.world.run();
        self.world.only(0)
    }
}

fn rma(deed: Deed, parts: &[Part]) -> Rma<'_> {
    let (data, report, inject, fence) = (None, true, false, false);
    Rma { deed, peer: PeerId(1), parts, data, context: 5, report, inject, fence }
}

fn part(local: Region, offset: u64) -> Part {
    Part { local, key: KEY, offset, result: Addr(0), operand: [0; ITEM_BYTES_MAX] }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 256) as u8).collect()
}

#[test]
fn bytes_of_any_length_are_written_and_read_back() {
    for len in [0, 1, 8, 60, 4096, 4097, 100_000] {
        let mut bench = Bench::new(Mode::default());
        let there = bench.world.alloc_filled(1, len + 16, 0xee);
        bench.expose_all(&[there]);
        let bytes = pattern(len as usize);
        let from = bench.world.alloc(0, &bytes);
        let end = bench.end_of(Deed::Write, part(from, 8));
        assert_eq!((end.kind, end.context, end.len, end.outcome), (Kind::Write, 5, len, Ok(())));
        let all = bench.world.bytes(1, there);
        assert_eq!(&all[8..8 + len as usize], bytes);
        assert!(all[..8].iter().chain(&all[8 + len as usize..]).all(|byte| *byte == 0xee));

        let back = bench.world.alloc_filled(0, len, 0);
        let end = bench.end_of(Deed::Read, part(back, 8));
        assert_eq!((end.kind, end.outcome), (Kind::Read, Ok(())));
        assert_eq!(bench.world.bytes(0, back), bytes);
        assert_eq!(bench.world.pop(1), None, "the target is told nothing");
    }
}

#[test]
fn what_was_not_exposed_for_it_is_refused_and_stays_as_it_was() {
    let mut bench = Bench::new(Mode::default());
    let there = bench.world.alloc_filled(1, 64, 1);
    let read_only = Access { read: true, write: false };
    let exposed =
        Exposed { key: KEY, pieces: &[there], access: read_only, addressed: false, told: None };
    let region = bench.expose(&exposed);
    let here = bench.world.alloc_filled(0, 64, 2);
    let peer = PeerId(1);
    let no_right = Err(Failure::NoRight { peer });
    let no_region = Err(Failure::NoRegion { peer });
    assert_eq!(bench.end_of(Deed::Write, part(here, 0)).outcome, no_right);
    let add = Deed::Fetch(AtomicOp::Sum, Datatype::Uint64);
    let one = Region { len: 8, ..here };
    assert_eq!(bench.end_of(add, Part { result: here.addr, ..part(one, 0) }).outcome, no_right);
    // Beyond its end, by a byte and by all.
    assert_eq!(bench.end_of(Deed::Read, part(here, 1)).outcome, no_region);
    assert_eq!(bench.end_of(Deed::Read, part(here, u64::MAX)).outcome, no_region);
    assert_eq!(bench.end_of(Deed::Read, Part { key: KEY + 1, ..part(here, 0) }).outcome, no_region);
    assert_eq!(bench.end_of(Deed::Read, part(here, 0)).outcome, Ok(()));
    bench.hide(region);
    assert_eq!(bench.end_of(Deed::Read, part(here, 0)).outcome, no_region);
    assert_eq!(bench.world.bytes(1, there), [1; 64]);
}

#[test]
fn offsets_may_be_addresses_and_none_before_the_region_counts() {
    let mut bench = Bench::new(Mode::default());
    let there = bench.world.alloc_filled(1, 64, 1);
    bench.expose(&Exposed {
        key: KEY,
        pieces: &[Region { addr: there.addr.offset(16), len: 32 }],
        access: BOTH,
        addressed: true,
        told: None,
    });
    let here = bench.world.alloc_filled(0, 8, 9);
    let at = there.addr.0;
    let refused = Err(Failure::NoRegion { peer: PeerId(1) });
    for (offset, outcome) in
        [(at + 16, Ok(())), (at + 40, Ok(())), (at + 41, refused), (at + 15, refused), (0, refused)]
    {
        assert_eq!(bench.end_of(Deed::Write, part(here, offset)).outcome, outcome);
    }
    let bytes = bench.world.bytes(1, there);
    assert_eq!((bytes[15], bytes[16], bytes[23], bytes[24]), (1, 9, 9, 1));
    assert_eq!((bytes[39], bytes[40], bytes[47], bytes[48]), (1, 9, 9, 1));
}

#[test]
fn values_are_combined_and_those_from_before_come_back() {
    let mut bench = Bench::new(Mode::default());
    let there = bench.world.alloc(1, &40_u64.to_le_bytes());
    bench.expose_all(&[there]);
    let two = bench.world.alloc(0, &2_u64.to_le_bytes());
    let was = bench.world.alloc_filled(0, 8, 0);
    let sum = bench.end_of(Deed::Combine(AtomicOp::Sum, Datatype::Uint64), part(two, 0));
    assert_eq!((sum.kind, sum.outcome), (Kind::Combine, Ok(())));
    let fetch = Deed::Fetch(AtomicOp::Prod, Datatype::Uint64);
    let end = bench.end_of(fetch, Part { result: was.addr, ..part(two, 0) });
    assert_eq!((end.kind, end.outcome), (Kind::Fetch, Ok(())));
    assert_eq!(bench.world.bytes(0, was), 42_u64.to_le_bytes());
    let mut swap = Part { result: was.addr, ..part(two, 0) };
    swap.operand[..8].copy_from_slice(&84_u64.to_le_bytes());
    bench.end_of(Deed::Fetch(AtomicOp::Cswap, Datatype::Uint64), swap);
    assert_eq!(bench.world.bytes(0, was), 84_u64.to_le_bytes());
    assert_eq!(bench.world.bytes(1, there), 2_u64.to_le_bytes());
    let long = bench.world.alloc_filled(0, 4104, 0);
    let refused =
        bench.begin(&rma(Deed::Combine(AtomicOp::Sum, Datatype::Uint64), &[part(long, 0)]));
    assert_eq!(refused, Err(Refused::TooLong { len: 4104, max: 960 }));
}

#[test]
fn an_operation_of_several_parts_ends_once_and_an_injected_one_is_copied() {
    let mut bench = Bench::new(Mode::default());
    let pieces = [bench.world.alloc_filled(1, 10, 0), bench.world.alloc_filled(1, 10, 0)];
    bench.expose_all(&pieces);
    let (one, two) = (bench.world.alloc(0, b"eight by"), bench.world.alloc(0, b"tes more"));
    let parts = [part(one, 0), part(two, 8)];
    bench.begin(&Rma { inject: true, ..rma(Deed::Write, &parts) }).unwrap();
    bench.world.processes[0].port.fill(one, b'x');
    bench.world.run();
    assert_eq!(bench.world.only(0).len, 16);
    assert_eq!(bench.world.bytes(1, pieces[0]), b"eight byte");
    assert_eq!(&bench.world.bytes(1, pieces[1])[..6], b"s more");
    assert_eq!(bench.world.processes[0].port.net().lent(0), (0, 0));
}

#[test]
fn data_is_told_when_the_write_is_in_its_place_and_a_counted_region_tells_all() {
    let mut bench = Bench::new(Mode::default());
    let there = bench.world.alloc_filled(1, 8192, 0);
    let exposed =
        Exposed { key: KEY, pieces: &[there], access: BOTH, addressed: false, told: Some(3) };
    bench.expose(&exposed);
    let bytes = pattern(8192);
    let from = bench.world.alloc(0, &bytes);
    let parts = [part(from, 0)];
    bench.begin(&Rma { data: Some(99), report: false, ..rma(Deed::Write, &parts) }).unwrap();
    bench.world.run();
    let told = bench.world.only(1);
    assert_eq!((told.kind, told.data, told.quiet), (Kind::PeerWrite, Some(99), false));
    assert_eq!((told.len, told.context, told.peer), (8192, 3, Some(PeerId(0))));
    assert_eq!(bench.world.bytes(1, there), bytes);
    assert!(bench.world.only(0).quiet, "it is to be counted alone");
    bench.end_of(Deed::Read, part(Region { len: 8, ..from }, 0));
    let told = bench.world.only(1);
    assert_eq!((told.kind, told.quiet), (Kind::PeerRead, true));
}

#[test]
fn what_goes_to_a_peer_that_is_gone_ends_with_it() {
    let mut bench = Bench::new(Mode::default());
    let there = bench.world.alloc_filled(1, 100_000, 0);
    bench.expose_all(&[there]);
    let here = bench.world.alloc_filled(0, 100_000, 1);
    for deed in [Deed::Write, Deed::Read] {
        bench.begin(&rma(deed, &[part(here, 0)])).unwrap();
        bench.begin(&rma(deed, &[part(Region { len: 8, ..here }, 0)])).unwrap();
    }
    bench.world.kill(1);
    assert!(bench.world.tell_death(0, 1), "who waits for an answer is told");
    bench.world.run();
    let gone = Err(Failure::PeerGone { peer: PeerId(1), why: PeerError::Dead });
    assert_eq!(bench.world.ends(0), [(5, gone); 4]);
    assert_eq!(bench.end_of(Deed::Write, part(here, 0)).outcome, gone);
    // Also what has no parts at all.
    bench.begin(&rma(Deed::Write, &[])).unwrap();
    assert_eq!(bench.world.ends(0), [(5, gone)]);
}

#[test]
fn no_more_regions_than_may_be() {
    let mut world = World::new(
        &[world::net::roomy(); 2],
        Mode::default(),
        Config { regions_max: 2, ..Config::default() },
        1,
    );
    let there = world.alloc_filled(1, 8, 0);
    let Process { endpoint, port, .. } = &mut world.processes[1];
    let mut expose = |key| {
        let pieces = &[there];
        endpoint.expose(port, &Exposed { key, pieces, access: BOTH, addressed: false, told: None })
    };
    let first = expose(1).expect("room");
    assert!(expose(2).is_ok());
    assert_eq!(expose(3), Err(Refused::Again));
    endpoint.hide(port, first);
    let Process { endpoint, port, .. } = &mut world.processes[1];
    let exposed = Exposed { key: 3, pieces: &[there], access: BOTH, addressed: false, told: None };
    assert!(endpoint.expose(port, &exposed).is_ok());
}

#[test]
fn a_fence_waits_for_what_was_begun_before() {
    let mut bench = Bench::new(Mode::default());
    let there = bench.world.alloc_filled(1, 8, 0);
    bench.expose_all(&[there]);
    let here = bench.world.alloc_filled(0, 8, 1);
    let parts = [part(here, 0)];
    let fenced = Rma { fence: true, ..rma(Deed::Read, &parts) };
    bench.begin(&rma(Deed::Write, &parts)).unwrap();
    assert_eq!(bench.begin(&fenced), Err(Refused::Again));
    bench.world.run();
    assert_eq!(bench.begin(&fenced), Ok(()));
}

#[test]
fn a_buffer_for_many_takes_messages_until_little_is_left() {
    let mut world = World::pair(Mode::default());
    let early = world.alloc(0, b"early");
    world
        .send(
            0,
            &sluice_proto::Send { space: sluice_proto::Space::Untagged, ..send_to(1, early, 0, 1) },
        )
        .unwrap();
    world.run();
    let buf = world.alloc_filled(1, 20_030, 0);
    let now = world.now;
    let recv = sluice_proto::Recv {
        space: sluice_proto::Space::Untagged,
        source: None,
        ..recv_from(0, buf, 0, 70)
    };
    let Process { endpoint, port, .. } = &mut world.processes[1];
    endpoint.recv_many(now, port, &recv, 20).unwrap();
    let long = pattern(20_000);
    for bytes in [&b"then"[..], &long, b"more", b"after"] {
        let from = world.alloc(0, bytes);
        let send = send_to(1, from, 0, 1);
        world
            .send(0, &sluice_proto::Send { space: sluice_proto::Space::Untagged, ..send })
            .unwrap();
    }
    world.run();
    let ends: Vec<_> = std::iter::from_fn(|| world.pop(1)).collect();
    assert!(ends.iter().all(|end| end.context == 70 && end.outcome == Ok(())));
    let (last, messages) = ends.split_last().unwrap();
    assert_eq!(last.kind, Kind::Consumed);
    let mut said: Vec<_> =
        messages.iter().map(|end| (end.kind, end.buf.0 - buf.addr.0, end.len)).collect();
    said.sort_unstable_by_key(|(_, at, _)| *at);
    let recv = Kind::Recv;
    assert_eq!(said, [(recv, 0, 5), (recv, 5, 4), (recv, 9, 20_000), (recv, 20_009, 4)]);
    let bytes = world.bytes(1, buf);
    assert_eq!(&bytes[..9], b"earlythen");
    assert_eq!(&bytes[9..20_009], long);
    assert_eq!(&bytes[20_009..20_013], b"more");
    // The last one waits for another buffer.
    assert_eq!(world.processes[1].endpoint.stats().unexpected_now, 1);
    world
        .recv(1, &sluice_proto::Recv { buf: Region { len: 5, ..buf }, ..recv_untagged(buf) })
        .unwrap();
    assert_eq!(world.only(1).len, 5);
}

/// What is left of a buffer waits in its place: receives that were posted after it, and the next
/// buffer, meet what it has no room for.
#[test]
fn a_buffer_for_many_is_filled_before_what_was_posted_after_it() {
    let mut world = World::pair(Mode::default());
    let bufs = [30, 30, 10].map(|len| world.alloc_filled(1, len, 0));
    let now = world.now;
    let Process { endpoint, port, .. } = &mut world.processes[1];
    for (buf, context) in bufs.into_iter().zip(71..) {
        let recv = sluice_proto::Recv { context, ..recv_untagged(buf) };
        match context {
            73 => endpoint.recv(now, port, &recv).unwrap(),
            _ => endpoint.recv_many(now, port, &recv, 10).unwrap(),
        }
    }
    send_tens(&mut world, 1..=7);
    world.run();
    let ends: Vec<_> = std::iter::from_fn(|| world.pop(1)).map(|end| end.context).collect();
    assert_eq!(ends, [71, 71, 71, 71, 72, 72, 72, 72, 73]);
    let all: Vec<u8> = bufs.into_iter().flat_map(|buf| world.bytes(1, buf)).collect();
    let expected: Vec<u8> = (1..=7).flat_map(|number| [number; 10]).collect();
    assert_eq!(all, expected);
}

/// For each number a message of ten such bytes, without a tag.
fn send_tens(world: &mut World, numbers: impl Iterator<Item = u8>) {
    for number in numbers {
        let bytes = world.alloc(0, &[number; 10]);
        let send = send_to(1, bytes, 0, 1);
        let space = sluice_proto::Space::Untagged;
        world.send(0, &sluice_proto::Send { space, ..send }).unwrap();
    }
}

fn recv_untagged(buf: Region) -> sluice_proto::Recv {
    sluice_proto::Recv { space: sluice_proto::Space::Untagged, ..recv_from(0, buf, 0, 71) }
}

/// The sender has credits for few messages, so that the others are asked for.
#[test]
fn a_buffer_for_many_takes_what_waits_at_a_sender_without_credits() {
    for quota in [1, 2, 5] {
        let mailbox = world::net::layout(2, quota, 8, 4, 64);
        let mut world = World::new(&[mailbox; 2], Mode::default(), Config::default(), 1);
        send_tens(&mut world, 0..12);
        world.run();
        let buf = world.alloc_filled(1, 120, 99);
        let now = world.now;
        let Process { endpoint, port, .. } = &mut world.processes[1];
        endpoint.recv_many(now, port, &recv_untagged(buf), 5).unwrap();
        world.run();
        let ends: Vec<_> = std::iter::from_fn(|| world.pop(1)).collect();
        assert_eq!(ends.len(), 13, "quota {quota}");
        assert_eq!(ends.last().map(|end| end.kind), Some(Kind::Consumed));
        let all: Vec<u8> = (0..12).flat_map(|number| [number; 10]).collect();
        assert_eq!(world.bytes(1, buf), all);
    }
}

/// What is left of a buffer is asked for in its place, too.
#[test]
fn what_waits_at_a_sender_without_credits_fills_buffers_in_the_order_of_their_posts() {
    for quota in [1, 2, 3, 5] {
        let mailbox = world::net::layout(2, quota, 8, 4, 64);
        let mut world = World::new(&[mailbox; 2], Mode::default(), Config::default(), 1);
        let bufs = [50, 10, 60].map(|len| world.alloc_filled(1, len, 99));
        let now = world.now;
        for (buf, context) in bufs.into_iter().zip(71..) {
            let Process { endpoint, port, .. } = &mut world.processes[1];
            let recv = sluice_proto::Recv { context, ..recv_untagged(buf) };
            match context {
                72 => endpoint.recv(now, port, &recv).unwrap(),
                _ => endpoint.recv_many(now, port, &recv, 5).unwrap(),
            }
        }
        send_tens(&mut world, 0..12);
        world.run();
        for peer in [0, 1] {
            let (one, other) = (&world.processes[peer], &world.processes[1 - peer]);
            let (peer, own) = (PeerId(1 - peer as u32), PeerId(peer as u32));
            one.endpoint.check_stall_cursor(peer, &other.endpoint, own);
        }
        let got: Vec<u8> = bufs.into_iter().flat_map(|buf| world.bytes(1, buf)).collect();
        let all: Vec<u8> = (0..12).flat_map(|number| [number; 10]).collect();
        assert_eq!(got, all, "quota {quota}");
    }
}

#[test]
fn a_buffer_for_many_ends_after_its_messages_also_by_failure() {
    let mut world = World::pair(Mode::default());
    let long = world.alloc(0, &pattern(50_000));
    let send = send_to(1, long, 0, 1);
    let buf = world.alloc_filled(1, 60_000, 0);
    let now = world.now;
    let Process { endpoint, port, .. } = &mut world.processes[1];
    endpoint.recv_many(now, port, &recv_untagged(buf), 20).unwrap();
    world.send(0, &sluice_proto::Send { space: sluice_proto::Space::Untagged, ..send }).unwrap();
    world.deliver(0, 1);
    assert!(world.cancel(1, 71), "the rest waits");
    assert_eq!(world.pop(1), None, "its message is on its way");
    world.run();
    assert_eq!(world.ends(1), [(71, Ok(())), (71, Err(Failure::Cancelled))]);
    assert_eq!(&world.bytes(1, buf)[..50_000], pattern(50_000));
}

#[test]
fn a_region_that_is_hidden_while_bytes_move_takes_no_more() {
    let mut bench = Bench::new(Mode::default());
    let there = bench.world.alloc_filled(1, 50_000, 3);
    let region = bench.expose_all(&[there]);
    let here = bench.world.alloc_filled(0, 50_000, 4);
    let parts = [part(here, 0)];
    bench.begin(&rma(Deed::Write, &parts)).unwrap();
    bench.world.deliver(0, 1);
    bench.hide(region);
    let short = [part(Region { len: 8, ..here }, 0)];
    bench.begin(&rma(Deed::Read, &short)).unwrap();
    bench.world.run();
    let mut ends = bench.world.ends(0);
    ends.sort_by_key(|(_, end)| end.is_err());
    assert_eq!(ends, [(5, Ok(())), (5, Err(Failure::NoRegion { peer: PeerId(1) }))]);
    // The key is free, and means the new region.
    let other = bench.world.alloc(1, b"the new!");
    bench.expose_all(&[other]);
    let back = bench.world.alloc_filled(0, 8, 0);
    let read = Rma { inject: true, ..rma(Deed::Read, &[]) };
    let parts = [part(back, 0)];
    bench.begin(&Rma { parts: &parts, ..read }).unwrap();
    bench.world.run();
    assert_eq!(bench.world.bytes(0, back), b"the new!");
}

#[test]
fn a_buffer_for_many_that_is_cancelled_says_so_once() {
    let mut world = World::pair(Mode::default());
    let buf = world.alloc_filled(1, 100, 0);
    let now = world.now;
    let Process { endpoint, port, .. } = &mut world.processes[1];
    endpoint.recv_many(now, port, &recv_untagged(buf), 20).unwrap();
    assert!(world.cancel(1, 71));
    assert_eq!(world.ends(1), [(71, Err(Failure::Cancelled))]);
    assert!(!world.cancel(1, 71));
}

#[test]
fn a_message_in_pieces_is_sent_as_one() {
    for len in [8, 20_000] {
        let mut world = World::pair(Mode::default());
        let bytes = pattern(2 * len);
        let pieces = [world.alloc(0, &bytes[..len]), world.alloc(0, &bytes[len..])];
        let now = world.now;
        let Process { endpoint, port, .. } = &mut world.processes[0];
        endpoint.send_pieces(now, port, &send_to(1, Region::EMPTY, 7, 10), &pieces).unwrap();
        for piece in pieces {
            world.processes[0].port.fill(piece, 0);
        }
        let buf = world.alloc_filled(1, 2 * len as u64, 0);
        world.recv(1, &recv_from(0, buf, 7, 70)).unwrap();
        world.run();
        assert_eq!(world.only(0).outcome, Ok(()));
        assert_eq!(world.only(1).outcome, Ok(()));
        assert_eq!(world.bytes(1, buf), bytes);
        assert_eq!(world.processes[0].port.net().lent(0), (0, 0));
    }
}
