//! What the initiator is told of the entry that took its operation: the list
//! that it was in, and where in it.

use crate::pair::net::Mode;
use crate::pair::{Pair, entry, open, pattern, target};
use sluice_portals::{Arithmetic, Command, EventKind, List, Local};
use sluice_wire::{AckKind, AtomicOp, Datatype, ITEM_BYTES_MAX};

const LISTS: [List; 2] = [List::Priority, List::Overflow];
const USER_PTR: u64 = 9;
/// A multiple of the items', so that atomic operations do not tear them.
const OFFSET: u64 = 16;
/// More than travels with a header here.
const LONG_LEN: usize = 9000;

/// How data moves, and how packets leave.
fn modes() -> [Mode; 4] {
    [
        Mode::default(),
        Mode { can_read: false, ..Mode::default() },
        Mode { forbidden_percent: 100, ..Mode::default() },
        // The acknowledgement may come before the rail has said that the memory
        // was read.
        Mode { pending_percent: 100, ..Mode::default() },
    ]
}

/// Each kind of operation with an answer that has an event: short and long puts,
/// short and long gets, an atomic, a fetching one, swaps.
fn operations(pair: &Pair) -> Vec<(&'static str, EventKind, Command)> {
    let part = |len: usize| pair.local(0, pair.alloc(0, &pattern(len, 3)));
    let (target, hdr_data, user_ptr) = (target(1, 7, OFFSET), 0, USER_PTR);
    let put = |len| {
        let (from, ack) = (part(len), Some(AckKind::Full));
        Command::Put { from, ack, target, hdr_data, user_ptr }
    };
    let get = |len| Command::Get { into: part(len), target, user_ptr };
    let arithmetic =
        |op| Arithmetic { op, datatype: Datatype::Uint64, operand: [0; ITEM_BYTES_MAX] };
    let fetch = |op| {
        let (into, from): (Local, Local) = (part(8), part(8));
        let arithmetic = arithmetic(op);
        Command::Fetch { into, from, target, hdr_data, user_ptr, arithmetic }
    };
    let (from, ack) = (part(8), Some(AckKind::Full));
    let arithmetic = arithmetic(AtomicOp::Sum);
    let atomic = Command::Atomic { from, ack, target, hdr_data, user_ptr, arithmetic };
    vec![
        ("empty put", EventKind::Ack, put(0)),
        ("short put", EventKind::Ack, put(8)),
        ("long put", EventKind::Ack, put(LONG_LEN)),
        ("empty get", EventKind::Reply, get(0)),
        ("short get", EventKind::Reply, get(8)),
        ("long get", EventKind::Reply, get(LONG_LEN)),
        ("atomic", EventKind::Ack, atomic),
        ("fetching atomic", EventKind::Reply, fetch(AtomicOp::Sum)),
        ("swap", EventKind::Reply, fetch(AtomicOp::Swap)),
        ("conditional swap", EventKind::Reply, fetch(AtomicOp::Cswap)),
    ]
}

#[test]
fn every_answer_says_which_list_took_the_operation() {
    for mode in modes() {
        for list in LISTS {
            let mut pair = Pair::of_program(mode);
            let memory = pair.alloc(1, &[0; 2 * LONG_LEN]);
            pair.append(list, entry(memory, 7, open(), 1));
            for (name, kind, command) in operations(&pair) {
                pair.issue(0, &command).unwrap();
                pair.settle();
                let events = pair.events(0);
                let answers: Vec<_> = events.iter().filter(|event| event.kind == kind).collect();
                let [answer] = answers[..] else { panic!("{name}: {events:?}") };
                assert_eq!(answer.outcome, Ok(()), "{name}");
                assert_eq!(answer.list, list, "{name}, {mode:?}");
                assert_eq!(answer.remote_offset, OFFSET, "{name}");
            }
        }
    }
}

/// The side that took the message may give it up later; what took it is known.
#[test]
fn a_failing_answer_says_which_list_took_the_operation() {
    for mode in modes() {
        for list in LISTS {
            let mut pair = Pair::of_program(mode);
            let memory = pair.alloc(1, &[0; 2 * LONG_LEN]);
            pair.append(list, entry(memory, 7, open(), 1));
            pair.sides[1].port.unmap(memory);
            for (name, kind, command) in operations(&pair) {
                pair.issue(0, &command).unwrap();
                pair.settle();
                let events = pair.events(0);
                let answer = events.iter().find(|event| event.kind == kind).expect(name);
                assert_eq!(answer.list, list, "{name}, {mode:?}");
            }
        }
    }
}

/// An entry of lent memory is in the overflow list, whoever takes the message
/// later: it is acknowledged then.
#[test]
fn a_put_in_lent_memory_was_taken_by_the_overflow_list() {
    let mut pair = Pair::new();
    let lent = sluice_portals::MeOptions { lent: true, ..open() };
    pair.append(List::Overflow, entry(sluice_wire::Region::EMPTY, 7, lent, 1));
    pair.put_with(7, &pattern(20, 1), 0, Some(AckKind::Full));
    let memory = pair.alloc(1, &[0; 20]);
    let used = sluice_portals::MeOptions { use_once: true, ..open() };
    assert_eq!(pair.append(List::Priority, entry(memory, 7, used, 2)), None);
    let hold = pair.events(1).iter().find_map(|event| event.hold).expect("it lies in lent memory");
    let side = &mut pair.sides[1];
    side.ni.end_hold(&mut side.port, hold);
    pair.settle();
    let events = pair.events(0);
    let ack = events.iter().find(|event| event.kind == EventKind::Ack).expect("it is asked for");
    assert_eq!((ack.list, ack.outcome), (List::Overflow, Ok(())));
}
