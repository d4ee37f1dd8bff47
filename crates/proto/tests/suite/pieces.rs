//! Receives into several pieces of memory: who moves the bytes, and what is refused. That each
//! byte comes to its place, whatever the protocol, the random programs of `matching` compare.

use crate::world::net::{Mode, roomy};
use crate::world::{World, pattern, recv_from, send_to};
use sluice_link::TaggedMessage;
use sluice_proto::{Completion, Config, Failure, Recv, Refused};
use sluice_wire::{Addr, MatchBits, PeerId, PtIndex, Region, RemoteKey, Rts};

const LEN: u64 = 500;

fn config() -> Config {
    Config {
        eager_bytes_max: 64,
        network_eager_bytes_max: 64,
        announce_bytes_min: 100,
        share_bytes_min: 100,
        ..Config::default()
    }
}

fn pair(mode: Mode) -> World {
    World::new(&[roomy(); 2], mode, config(), 1)
}

/// Three pieces of process 1, of which the second is empty.
fn pieces(world: &World, len: u64) -> [Region; 3] {
    let [second, first] = [len - len / 3, len / 3].map(|len| world.alloc_filled(1, len, 0));
    [first, Region { addr: second.addr, len: 0 }, second]
}

/// A receive of process 1 from process 0 without a buffer.
fn recv(tag: u64, context: u64) -> Recv {
    recv_from(0, Region::EMPTY, tag, context)
}

fn bytes(world: &World, pieces: &[Region]) -> Vec<u8> {
    pieces.iter().flat_map(|piece| world.bytes(1, *piece)).collect()
}

fn send(world: &mut World, len: u64, tag: u64) {
    let buf = world.alloc(0, &pattern(1, len));
    world.send(0, &send_to(1, buf, tag, 1)).expect("there is room for it");
}

#[test]
fn no_sender_is_told_where_the_pieces_are() {
    for connecting_percent in [0, 100] {
        let mut world = pair(Mode { chunk_claims: true, connecting_percent, ..Mode::default() });
        let pieces = pieces(&world, LEN);
        world.recv_pieces(1, &recv(7, 2), &pieces).unwrap();
        // What would have it opened, and announce all that is posted.
        let other = world.alloc_filled(1, 8, 0);
        world.send(1, &send_to(0, other, 9, 3)).unwrap();
        world.run();
        send(&mut world, LEN, 7);
        world.run();
        let end = world.ends(1);
        assert_eq!(end, [(3, Ok(())), (2, Ok(()))]);
        assert_eq!(bytes(&world, &pieces), pattern(1, LEN));
        let said = world.sent_packets(1, 0);
        assert!(!said.contains(&"rtr") && !said.contains(&"cts"), "{said:?}");
    }
}

#[test]
fn a_younger_receive_is_not_announced_before_pieces_that_want_the_same() {
    let mut world = pair(Mode { chunk_claims: true, ..Mode::default() });
    let first = pieces(&world, LEN);
    world.recv_pieces(1, &recv(7, 2), &first).unwrap();
    let second = world.alloc_filled(1, LEN, 0);
    world.recv(1, &recv_from(0, second, 7, 3)).unwrap();
    world.run();
    assert!(!world.sent_packets(1, 0).contains(&"rtr"));
    send(&mut world, LEN, 7);
    world.run();
    assert_eq!(world.ends(1), [(2, Ok(()))]);
    assert_eq!(bytes(&world, &first), pattern(1, LEN));
}

#[test]
fn what_is_read_directly_is_read_once_for_each_piece() {
    let mut world = pair(Mode::default());
    let pieces = pieces(&world, LEN);
    world.recv_pieces(1, &recv(7, 2), &pieces).unwrap();
    send(&mut world, LEN, 7);
    world.run();
    assert_eq!(world.sent_packets(1, 0), ["fin"], "no chunk was asked for");
    assert_eq!(bytes(&world, &pieces), pattern(1, LEN));
}

#[test]
fn the_end_of_a_receive_into_pieces_names_no_buffer() {
    for len in [40, LEN] {
        let mut world = pair(Mode::default());
        let pieces = pieces(&world, len - 5);
        world.recv_pieces(1, &recv(7, 2), &pieces).unwrap();
        send(&mut world, len, 7);
        world.run();
        let Completion { buf, len: got, outcome, .. } = world.only(1);
        assert_eq!((buf, got), (Addr(0), len - 5));
        assert_eq!(outcome, Err(Failure::Truncated { excess: 5 }));
        assert_eq!(bytes(&world, &pieces), pattern(1, len)[..len as usize - 5]);
    }
}

#[test]
fn a_receive_that_is_cancelled_leaves_nothing() {
    let mut world = pair(Mode::default());
    let pieces = pieces(&world, LEN);
    world.recv_pieces(1, &recv(7, 2), &pieces).unwrap();
    assert!(world.cancel(1, 2));
    assert_eq!(world.ends(1), [(2, Err(Failure::Cancelled))]);
    send(&mut world, LEN, 7);
    world.run();
    assert_eq!((world.pop(1), world.pending(1).recvs), (None, 0));
    assert_eq!(bytes(&world, &pieces), [0; LEN as usize]);
}

#[test]
fn pieces_longer_than_all_memory_are_refused() {
    let mut world = pair(Mode::default());
    let whole = Region::new(Addr(1), u64::MAX - 1).unwrap();
    let refused = world.recv_pieces(1, &recv(7, 2), &[whole, whole]);
    assert!(matches!(refused, Err(Refused::TooLong { .. })), "{refused:?}");
}

/// Where a rail matches: it has the bytes of a message in memory that is lent, and no more of
/// it than may be.
fn at_rail(inject_bytes_max: u64) -> World {
    let config = Config { inject_bytes_max, ..config() };
    World::new(&[roomy(); 2], Mode { matches: true, ..Mode::default() }, config, 1)
}

fn lent(world: &World) -> u64 {
    let (by_packets, other) = world.processes[1].port.net().lent(1);
    by_packets + other
}

#[test]
fn at_a_rail_that_matches_pieces_are_lent_memory_until_they_have_met_a_message() {
    let mut world = at_rail(200);
    let pieces = pieces(&world, LEN);
    for context in [2, 3, 4] {
        world.recv_pieces(1, &recv(context, context), &pieces).unwrap();
    }
    // As much as a message with its bytes may have.
    assert_eq!(lent(&world), 3 * 64);
    let refused = world.recv_pieces(1, &recv(5, 5), &pieces);
    assert_eq!((refused, world.pending(1).recvs), (Err(Refused::Again), 3));
    assert!(world.cancel(1, 3));
    let announced = Rts { total_len: 0, from: RemoteKey::NONE, key: MatchBits(1), claims: None };
    for (tag, rts) in [(2, None), (4, Some(announced))] {
        let (list, match_bits) = (PtIndex(0), MatchBits(tag));
        let message = TaggedMessage { list, match_bits, hdr_data: 0, user: 0, len: 8, rts };
        world.processes[1].port.net_mut().unmet[1].push((PeerId(0), message));
    }
    world.idle(1);
    let ends = [(3, Err(Failure::Cancelled)), (2, Ok(())), (4, Ok(()))];
    assert_eq!(world.ends(1), ends);
    assert_eq!(lent(&world), 0);
}

#[test]
fn at_a_rail_that_matches_pieces_for_which_no_memory_may_be_lent_are_refused() {
    let mut world = at_rail(63);
    let pieces = pieces(&world, LEN);
    let refused = world.recv_pieces(1, &recv(7, 2), &pieces);
    assert_eq!(refused, Err(Refused::TooLong { len: 64, max: 63 }));
}
