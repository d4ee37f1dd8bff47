//! Puts and gets whose data does not travel with their headers: who moves it,
//! how much, and when its end is told.

use crate::pair;
use crate::pair::net::{Event as NetEvent, Mode, layout, roomy};
use crate::pair::{PT, Pair, Side, entry, open, pattern, program_limits};
use sluice_portals::{
    EventKind, Limits, List, MdOptions, MeOptions, MeSpec, NiFail, PtlError, SearchOp,
};
use sluice_wire::{AckKind, Addr, Packet, Region};

use EventKind::{Ack, AutoFree, AutoUnlink, Get, GetOverflow, Put, PutOverflow, Reply, Send};

fn unreachable() -> Mode {
    Mode { can_read: false, ..Mode::default() }
}

fn is_pull(packet: &Packet) -> bool {
    matches!(packet, Packet::Pull(_))
}

/// Bytes that pulls have asked for.
fn pulled(pair: &Pair) -> u64 {
    let net = pair.sides[0].port.net();
    let asked = net.log.iter().map(|(.., packet, _)| match packet {
        Packet::Pull(pull) => pull.length,
        _ => 0,
    });
    asked.sum()
}

/// Delivers packets until a read or a write of remote memory is all that can
/// happen.
fn run_to_move(pair: &mut Pair) {
    loop {
        let events = pair.sides[0].port.net().events();
        match events.iter().find(|event| !matches!(event, NetEvent::Read(_))) {
            Some(&event) => pair.happen(event),
            None => return,
        }
    }
}

#[test]
fn a_long_put_is_read_by_its_target() {
    for (mode, by_pulls) in [(Mode::default(), false), (unreachable(), true)] {
        let mut pair = Pair::of_program(mode);
        let memory = pair.alloc(1, &[0; 100_000]);
        pair.append(List::Priority, entry(memory, 7, open(), 1));
        let bytes = pattern(90_000, 1);
        pair.issue_put(0, 7, &bytes, Some(AckKind::Full));
        assert_eq!(pair.happened(0), [], "the memory is still in use");
        pair.settle();
        assert_eq!(pair.bytes(1, memory)[..90_000], bytes);
        assert_eq!(pair.happened(0), [(Send, 500, 90_000), (Ack, 500, 90_000)]);
        assert_eq!(pair.happened(1), [(Put, 1, 90_000)]);
        assert_eq!(pair.packets(1, is_pull) > 0, by_pulls);
        pair.assert_quiet();
    }
}

#[test]
fn a_long_get_is_written_by_its_target() {
    for (mode, by_pulls) in [(Mode::default(), false), (unreachable(), true)] {
        let mut pair = Pair::of_program(mode);
        let bytes = pattern(100_000, 1);
        let memory = pair.alloc(1, &bytes);
        pair.append(List::Priority, entry(memory, 7, open(), 1));
        let into = pair.issue_get(0, 7, 5, 90_000);
        pair.settle();
        assert_eq!(pair.bytes(0, into), bytes[5..90_005]);
        assert_eq!(pair.happened(0), [(Reply, 600, 90_000)]);
        assert_eq!(pair.happened(1), [(Get, 1, 90_000)]);
        assert_eq!(pair.packets(0, is_pull) > 0, by_pulls);
        pair.assert_quiet();
    }
}

#[test]
fn a_long_put_without_acknowledgement_still_tells_when_its_memory_is_free() {
    for (mode, bits, taken) in
        [(Mode::default(), 7, true), (unreachable(), 7, true), (Mode::default(), 8, false)]
    {
        let mut pair = Pair::of_program(mode);
        let memory = pair.alloc(1, &[0; 1000]);
        pair.append(List::Priority, entry(memory, 7, open(), 1));
        pair.issue_put(0, bits, &pattern(1000, 1), None);
        pair.settle();
        assert_eq!(pair.outcomes(0), [(Send, 1000, Ok(()))]);
        assert_eq!(pair.happened(1).len(), usize::from(taken));
        pair.assert_quiet();
    }
}

#[test]
fn what_does_not_fit_does_not_move() {
    let mut pair = Pair::of_program(unreachable());
    let memory = pair.alloc(1, &[0; 700]);
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    pair.issue_put(0, 7, &pattern(50_000, 1), Some(AckKind::Full));
    pair.settle();
    assert_eq!(pulled(&pair), 700);
    assert_eq!(pair.happened(0), [(Send, 500, 50_000), (Ack, 500, 700)]);
    let into = pair.issue_get(0, 7, 100, 50_000);
    pair.settle();
    assert_eq!(pulled(&pair), 700 + 600);
    assert_eq!(pair.happened(0), [(Reply, 600, 600)]);
    assert_eq!(pair.bytes(0, into)[..600], pattern(50_000, 1)[100..700]);
    assert!(pair.bytes(0, into)[600..].iter().all(|&byte| byte == 0));
    pair.assert_quiet();

    // By address, one move of as much.
    let mut pair = Pair::of_program(Mode::default());
    let memory = pair.alloc(1, &[0; 700]);
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    let source = pair.issue_put(0, 7, &pattern(50_000, 1), None);
    let beyond = Region { addr: source.addr.offset(700), len: source.len - 700 };
    // Would be a fault if it were read.
    pair.sides[0].port.unmap(beyond);
    pair.settle();
    assert_eq!(pair.outcomes(1), [(Put, 700, Ok(()))]);
    pair.assert_quiet();
}

#[test]
fn nothing_moves_into_an_entry_without_room() {
    let mut pair = Pair::of_program(Mode::default());
    pair.append(List::Priority, entry(Region::EMPTY, 7, open(), 1));
    pair.issue_put(0, 7, &pattern(500, 1), Some(AckKind::Full));
    pair.issue_get(0, 7, 0, 500);
    pair.settle();
    assert_eq!(pair.happened(1), [(Put, 1, 0), (Get, 1, 0)]);
    assert_eq!(pair.happened(0), [(Send, 500, 500), (Ack, 500, 0), (Reply, 600, 0)]);
    pair.assert_quiet();
}

#[test]
fn a_rail_that_stops_reaching_memory_midway_is_replaced_by_pulls() {
    // Every read ends with a refusal; the pieces before it are kept.
    let mode = Mode { forbidden_percent: 100, ..Mode::default() };
    let mut pair = Pair::of_program(mode);
    let memory = pair.alloc(1, &[0; 5000]);
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    pair.issue_put(0, 7, &pattern(5000, 1), Some(AckKind::Full));
    pair.settle();
    assert_eq!(pulled(&pair), 5000);
    assert_eq!(pair.bytes(1, memory), pattern(5000, 1));
    // Side 1 can still not write, and offers at once what it is asked for.
    let into = pair.issue_get(0, 7, 0, 5000);
    pair.settle();
    assert_eq!(pulled(&pair), 10_000);
    assert_eq!(pair.bytes(0, into), pattern(5000, 1));
    pair.assert_quiet();
}

#[test]
fn pieces_that_were_read_before_the_refusal_are_not_asked_for_again() {
    for is_get in [false, true] {
        let mut pair = Pair::of_program(Mode::default());
        let bytes = pattern(3000, 1);
        let pieces = [0, 1].map(|part| pair.alloc(1, &vec![0; [1000, 2000][part]]));
        let spec = pair.vector_entry(&pieces, 7, open(), 1);
        pair.append(List::Priority, spec);
        let into = if is_get {
            pair.sides[1].port.fill(pieces[0], 5);
            pair.sides[1].port.fill(pieces[1], 6);
            pair.issue_get(0, 7, 0, 3000)
        } else {
            pair.issue_put(0, 7, &bytes, Some(AckKind::Full))
        };
        run_to_move(&mut pair);
        pair.happen(NetEvent::Read(0));
        pair.sides[0].port.net_mut().forbid(1, 0);
        pair.settle();
        if is_get {
            assert_eq!(pair.bytes(0, into), [vec![5; 1000], vec![6; 2000]].concat());
        } else {
            assert_eq!(pair.gathered(1, &pieces), bytes);
            assert_eq!(pulled(&pair), 2000, "the first piece was there");
        }
        pair.assert_quiet();
    }
}

#[test]
fn several_long_operations_share_few_reply_slots() {
    let layouts = [layout(2, 24, 3, 4, 8); 2];
    let limits = program_limits();
    let mut pair = Pair::with_limits(&layouts, unreachable(), MdOptions::default(), limits);
    let memory = pair.alloc(1, &[0; 3000]);
    for bits in 0..3 {
        let part = Region { addr: memory.addr.offset(1000 * bits), len: 1000 };
        pair.append(List::Priority, entry(part, bits, open(), bits));
    }
    for bits in 0..3 {
        pair.issue_put(0, bits, &pattern(1000, bits as usize), Some(AckKind::Full));
    }
    pair.settle();
    for bits in 0..3 {
        let part = Region { addr: memory.addr.offset(1000 * bits), len: 1000 };
        assert_eq!(pair.bytes(1, part), pattern(1000, bits as usize));
    }
    let gets: Vec<Region> = (0..3).map(|bits| pair.issue_get(0, bits, 0, 1000)).collect();
    pair.settle();
    for (bits, &into) in gets.iter().enumerate() {
        assert_eq!(pair.bytes(0, into), pattern(1000, bits));
    }
    assert_eq!(pair.happened(0).len(), 3 * 3);
    pair.assert_quiet();
}

#[test]
fn an_unexpected_put_can_be_claimed_while_it_arrives() {
    let mut pair = Pair::of_program(Mode::default());
    let overflow = pair.alloc(1, &[0; 1000]);
    pair.append(List::Overflow, entry(overflow, 7, open(), 1));
    pair.issue_put(0, 7, &pattern(800, 1), Some(AckKind::Full));
    run_to_move(&mut pair);
    let once = MeOptions { use_once: true, ..open() };
    assert_eq!(pair.append(List::Priority, entry(Region::EMPTY, 7, once, 2)), None);
    assert_eq!(pair.happened(1), [], "its bytes are not there yet");
    pair.settle();
    assert_eq!(pair.happened(1), [(Put, 1, 800), (PutOverflow, 2, 800), (AutoUnlink, 2, 0)]);
    assert_eq!(pair.bytes(1, overflow)[..800], pattern(800, 1));
    pair.assert_quiet();
}

#[test]
fn an_unexpected_get_can_be_claimed_while_its_bytes_leave() {
    let mut pair = Pair::of_program(Mode::default());
    let overflow = pair.alloc(1, &pattern(1000, 3));
    pair.append(List::Overflow, entry(overflow, 7, open(), 1));
    let into = pair.issue_get(0, 7, 0, 1000);
    run_to_move(&mut pair);
    let side = &mut pair.sides[1];
    let all = entry(Region::EMPTY, 7, open(), 2);
    side.ni.me_search(&mut side.port, PT, SearchOp::Delete, &all).unwrap();
    assert_eq!(pair.happened(1), []);
    pair.settle();
    assert_eq!(pair.happened(1), [(Get, 1, 1000), (GetOverflow, 2, 1000)]);
    assert_eq!(pair.bytes(0, into), pattern(1000, 3));
    pair.assert_quiet();
}

#[test]
fn an_entry_is_in_use_while_data_moves_and_afterwards_not() {
    for is_get in [false, true] {
        let mut pair = Pair::of_program(Mode::default());
        let memory = pair.alloc(1, &[0; 1000]);
        let handle = pair.append(List::Priority, entry(memory, 7, open(), 1)).unwrap();
        if is_get {
            pair.issue_get(0, 7, 0, 1000);
        } else {
            pair.issue_put(0, 7, &[1; 1000], None);
        }
        run_to_move(&mut pair);
        let ni = &mut pair.sides[1].ni;
        assert_eq!(ni.me_unlink(handle).map(|_| ()), Err(PtlError::InUse));
        assert!(ni.pt_is_active(PT));
        assert_eq!(ni.pt_free(PT), Err(PtlError::InUse));
        let md = pair.sides[0].md;
        // What is under way on it goes on.
        pair.sides[0].ni.md_release(md).unwrap();
        pair.settle();
        let Side { ni, .. } = &mut pair.sides[1];
        ni.me_unlink(handle).expect("all events are there");
        assert!(!ni.pt_is_active(PT));
        ni.pt_free(PT).expect("it is empty");
        assert!(pair.sides[0].ni.md_release(md).is_err(), "it was released once");
    }
}

#[test]
fn unlinking_is_told_after_the_last_data() {
    let mut pair = Pair::of_program(Mode::default());
    let memory = pair.alloc(1, &[0; 2000]);
    let filling = MeOptions { manage_local: true, ..open() };
    let spec = MeSpec { min_free: 600, ..entry(memory, 7, filling, 1) };
    let handle = pair.append(List::Priority, spec).unwrap();
    pair.issue_put(0, 7, &pattern(800, 1), None);
    pair.issue_put(0, 7, &pattern(700, 2), None);
    run_to_move(&mut pair);
    // The second fills it; the first may be the last to arrive.
    pair.happen(NetEvent::Read(1));
    assert_eq!(pair.happened(1), [(Put, 1, 700)]);
    let unlinked = pair.sides[1].ni.me_unlink(handle);
    assert!(matches!(unlinked, Err(PtlError::ArgInvalid(_))), "it is unlinked already");
    pair.settle();
    assert_eq!(pair.happened(1), [(Put, 1, 800), (AutoUnlink, 1, 0)]);
    let whole = [pattern(800, 1), pattern(700, 2)].concat();
    assert_eq!(pair.bytes(1, memory)[..1500], whole);
    pair.assert_quiet();
}

#[test]
fn an_overflow_entry_is_free_after_the_last_data_and_the_last_header() {
    for claim_early in [false, true] {
        let mut pair = Pair::of_program(Mode::default());
        let memory = pair.alloc(1, &[0; 1000]);
        let once = MeOptions { use_once: true, ..open() };
        pair.append(List::Overflow, entry(memory, 7, once, 1));
        pair.issue_put(0, 7, &pattern(800, 1), None);
        run_to_move(&mut pair);
        assert_eq!(pair.happened(1), []);
        if !claim_early {
            pair.settle();
            assert_eq!(pair.happened(1), [(Put, 1, 800), (AutoUnlink, 1, 0)]);
        }
        let claimer = entry(Region::EMPTY, 7, open(), 2);
        assert!(pair.append(List::Priority, claimer).is_some(), "it is persistent");
        pair.settle();
        let happened = pair.happened(1);
        if claim_early {
            assert_eq!(happened.len(), 4);
            assert_eq!(happened[..2], [(Put, 1, 800), (PutOverflow, 2, 800)]);
            assert_eq!(happened[2..], [(AutoUnlink, 1, 0), (AutoFree, 1, 0)]);
        } else {
            assert_eq!(happened, [(PutOverflow, 2, 800), (AutoFree, 1, 0)]);
        }
        pair.assert_quiet();
    }
}

#[test]
fn a_peer_that_dies_ends_what_moves() {
    for mode in [Mode::default(), unreachable()] {
        for dead in [0, 1] {
            let mut pair = Pair::of_program(mode);
            let memory = pair.alloc(1, &[0; 100_000]);
            let handle = pair.append(List::Priority, entry(memory, 7, open(), 1)).unwrap();
            pair.issue_put(0, 7, &[1; 100_000], Some(AckKind::Full));
            pair.issue_get(0, 7, 0, 100_000);
            for _ in 0..4 {
                let packets = |event: &&NetEvent| matches!(event, NetEvent::Deliver(..));
                let next = pair.sides[0].port.net().events().iter().find(packets).copied();
                next.into_iter().for_each(|event| pair.happen(event));
            }
            pair.kill(dead);
            pair.settle();
            pair.assert_quiet();
            let outcomes = pair.outcomes(1 - dead);
            let failed =
                |outcome: &Result<(), NiFail>| matches!(outcome, Err(NiFail::Undeliverable(_)));
            assert!(outcomes.iter().all(|(.., outcome)| failed(outcome)), "{outcomes:?}");
            if dead == 1 {
                let kinds: Vec<_> = outcomes.iter().map(|(kind, ..)| *kind).collect();
                assert_eq!(kinds, [Send, Ack, Reply]);
            } else {
                pair.sides[1].ni.me_unlink(handle).expect("nothing moves any more");
            }
        }
    }
}

/// A get into address zero asked for its bytes in one reply, for which no
/// slots were set aside.
#[test]
fn address_zero_is_no_place_for_the_bytes_of_a_get() {
    let mut pair = Pair::with_limits(
        &[layout(2, 24, 3, 4, 8), roomy()],
        Mode::default(),
        MdOptions::default(),
        Limits { ..program_limits() },
    );
    let memory = pair.alloc(1, &pattern(2000, 1));
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    pair.sides[0].port.unmap(Region { addr: Addr(0), len: 64 });
    let into = pair.local(0, Region { addr: Addr(0), len: 2000 });
    let get = sluice_portals::Command::Get { into, target: pair::target(1, 7, 0), user_ptr: 600 };
    pair.issue(0, &get).unwrap();
    pair.settle();
    assert_eq!(pair.outcomes(0).last().map(|last| last.2), Some(Err(NiFail::Segv)));
    pair.assert_quiet();
}

/// A region is exposed from when its operation goes out, until that has ended.
#[test]
fn memory_is_exposed_until_its_operation_ends() {
    let exposed = |pair: &Pair| pair.sides[0].port.net().exposures[0].len();
    for mode in [Mode::default(), unreachable(), Mode { forbidden_percent: 100, ..Mode::default() }]
    {
        let mut pair = Pair::of_program(mode);
        let memory = pair.alloc(1, &pattern(5000, 1));
        pair.append(List::Priority, entry(memory, 7, open(), 1));
        pair.issue_put(0, 7, &pattern(3000, 2), Some(AckKind::Full));
        pair.issue_put(0, 7, &pattern(3000, 2), None);
        pair.issue_get(0, 7, 0, 4000);
        assert_eq!(exposed(&pair), 3);
        pair.settle();
        assert_eq!(exposed(&pair), 0);
        // What fits a packet, or lies in pieces, is not exposed.
        pair.issue_put(0, 7, &pattern(30, 2), None);
        pair.issue_get(0, 7, 0, 30);
        let pieces = [pair.alloc(0, &pattern(2000, 3)), pair.alloc(0, &pattern(2000, 4))];
        let from = pair.vector_md(0, &pieces, MdOptions::default());
        let target = pair::target(1, 7, 0);
        let put =
            sluice_portals::Command::Put { from, ack: None, target, hdr_data: 0, user_ptr: 1 };
        pair.issue(0, &put).unwrap();
        let get = sluice_portals::Command::Get { into: from, target, user_ptr: 2 };
        pair.issue(0, &get).unwrap();
        assert_eq!(exposed(&pair), 0);
        pair.settle();
        pair.assert_quiet();
        pair.issue_put(0, 7, &pattern(3000, 2), Some(AckKind::Full));
        pair.issue_get(0, 7, 0, 4000);
        assert_eq!(exposed(&pair), 2);
        pair.kill(1);
        assert_eq!(exposed(&pair), 0, "also when the peer is gone");
        pair.assert_quiet();
    }
}
