//! Memory that is not mapped, or may not be written, on either side: a fault
//! is an event, never a crash, and the interface goes on.

use crate::pair;
use crate::pair::net::Mode;
use crate::pair::{Pair, entry, open, pattern, program_limits, target};
use sluice_portals::{Arithmetic, Command, EventKind, List, MdOptions, MeOptions, NiFail};
use sluice_wire::{AckKind, AtomicOp, Datatype, Region};

use EventKind::{Ack, AutoUnlink, Get, Put, PutOverflow, Reply, Send};

const SEGV: Result<(), NiFail> = Err(NiFail::Segv);

fn modes() -> [Mode; 3] {
    let mode = Mode::default();
    [mode, Mode { can_read: false, ..mode }, Mode { forbidden_percent: 50, ..mode }]
}

fn at(region: Region, offset: u64, len: u64) -> Region {
    Region { addr: region.addr.offset(offset), len }
}

/// After a fault an ordinary put and get work.
fn still_works(pair: &mut Pair) {
    let memory = pair.alloc(1, &[0; 300]);
    pair.append(List::Priority, entry(memory, 99, open(), 99));
    for len in [20, 300] {
        pair.issue_put(0, 99, &pattern(len, 3), Some(AckKind::Full));
        pair.settle();
        let into = pair.issue_get(0, 99, 0, len as u64);
        pair.settle();
        assert_eq!(pair.bytes(0, into), pattern(len, 3));
    }
    let failed = |outcomes: Vec<(EventKind, u64, Result<(), NiFail>)>| {
        outcomes.iter().filter(|(.., outcome)| outcome.is_err()).count()
    };
    assert_eq!(failed(pair.outcomes(0)) + failed(pair.outcomes(1)), 0);
    pair.assert_quiet();
}

#[test]
fn a_short_put_from_nowhere_is_not_sent() {
    let mut pair = Pair::of_program(Mode::default());
    let memory = pair.alloc(1, &[0; 100]);
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    let source = pair.alloc(0, &[1; 60]);
    pair.sides[0].port.unmap(at(source, 40, 8));
    let from = pair.local(0, source);
    let (ack, target) = (Some(AckKind::Full), target(1, 7, 0));
    let command = Command::Put { from, ack, target, hdr_data: 0, user_ptr: 1 };
    pair.issue(0, &command).unwrap();
    assert_eq!(pair.outcomes(0), [(Send, 60, SEGV), (Ack, 0, SEGV)]);
    pair.settle();
    assert_eq!(pair.events(1), [], "the target hears nothing of it");
    still_works(&mut pair);
}

#[test]
fn a_long_put_from_nowhere_faults_where_it_is_read() {
    for mode in modes() {
        let mut pair = Pair::of_program(mode);
        let memory = pair.alloc(1, &[0; 9000]);
        let once = MeOptions { use_once: true, ..open() };
        pair.append(List::Priority, entry(memory, 7, once, 1));
        let source = pair.issue_put(0, 7, &pattern(9000, 1), Some(AckKind::Full));
        pair.sides[0].port.unmap(at(source, 8000, 8));
        pair.settle();
        let outcomes = pair.outcomes(0);
        assert_eq!((outcomes[0].0, outcomes[1].0), (Send, Ack));
        assert_eq!((outcomes[0].2, outcomes[1].2), (SEGV, SEGV));
        let outcomes = pair.outcomes(1);
        assert_eq!((outcomes[0].0, outcomes[0].2), (Put, SEGV));
        assert_eq!(outcomes[1].0, AutoUnlink);
        still_works(&mut pair);
    }
}

#[test]
fn a_put_to_nowhere_or_to_constants_faults() {
    for mode in modes() {
        for constant in [false, true] {
            for len in [60, 9000] {
                let mut pair = Pair::of_program(mode);
                let memory = pair.alloc(1, &vec![0; len]);
                pair.append(List::Priority, entry(memory, 7, open(), 1));
                let part = at(memory, len as u64 - 8, 8);
                match constant {
                    false => pair.sides[1].port.unmap(part),
                    true => pair.sides[1].port.protect(part),
                }
                pair.issue_put(0, 7, &pattern(len, 1), Some(AckKind::Full));
                pair.settle();
                let outcomes = pair.outcomes(0);
                assert_eq!((outcomes[0].2, outcomes[1].0, outcomes[1].2), (Ok(()), Ack, SEGV));
                let outcomes = pair.outcomes(1);
                assert_eq!((outcomes.len(), outcomes[0].0, outcomes[0].2), (1, Put, SEGV));
                // What fits before the hole is taken.
                pair.issue_put(0, 7, &pattern(len - 8, 1), Some(AckKind::Full));
                pair.settle();
                assert_eq!(pair.outcomes(1), [(Put, len as u64 - 8, Ok(()))]);
                pair.events(0);
                still_works(&mut pair);
            }
        }
    }
}

#[test]
fn a_get_from_nowhere_faults_and_from_constants_does_not() {
    for mode in modes() {
        for constant in [false, true] {
            for len in [60, 9000] {
                let mut pair = Pair::of_program(mode);
                let memory = pair.alloc(1, &pattern(len, 1));
                pair.append(List::Priority, entry(memory, 7, open(), 1));
                let part = at(memory, len as u64 / 2, 8);
                match constant {
                    false => pair.sides[1].port.unmap(part),
                    true => pair.sides[1].port.protect(part),
                }
                let into = pair.issue_get(0, 7, 0, len as u64);
                pair.settle();
                let expected = if constant { Ok(()) } else { SEGV };
                let outcomes = pair.outcomes(0);
                assert_eq!((outcomes.len(), outcomes[0].0, outcomes[0].2), (1, Reply, expected));
                let outcomes = pair.outcomes(1);
                assert_eq!((outcomes.len(), outcomes[0].0, outcomes[0].2), (1, Get, expected));
                if constant {
                    assert_eq!(pair.bytes(0, into), pattern(len, 1));
                }
                still_works(&mut pair);
            }
        }
    }
}

#[test]
fn a_get_into_nowhere_or_constants_faults() {
    for mode in modes() {
        for constant in [false, true] {
            for len in [60, 9000] {
                let mut pair = Pair::of_program(mode);
                let memory = pair.alloc(1, &pattern(len, 1));
                let once = MeOptions { use_once: true, ..open() };
                pair.append(List::Priority, entry(memory, 7, once, 1));
                let into = pair.issue_get(0, 7, 0, len as u64);
                let part = at(into, len as u64 / 2, 8);
                match constant {
                    false => pair.sides[0].port.unmap(part),
                    true => pair.sides[0].port.protect(part),
                }
                pair.settle();
                let outcomes = pair.outcomes(0);
                assert_eq!((outcomes.len(), outcomes[0].0, outcomes[0].2), (1, Reply, SEGV));
                let kinds: Vec<_> = pair.outcomes(1).iter().map(|(kind, ..)| *kind).collect();
                assert_eq!(kinds, [Get, AutoUnlink]);
                still_works(&mut pair);
            }
        }
    }
}

#[test]
fn what_would_not_move_may_be_unmapped() {
    for mode in modes() {
        let mut pair = Pair::of_program(mode);
        let memory = pair.alloc(1, &vec![0; 1000]);
        pair.append(List::Priority, entry(at(memory, 0, 600), 7, open(), 1));
        pair.sides[1].port.unmap(at(memory, 600, 400));
        let source = pair.issue_put(0, 7, &pattern(1000, 1), Some(AckKind::Full));
        pair.sides[0].port.unmap(at(source, 600, 400));
        pair.settle();
        assert_eq!(pair.outcomes(0)[1], (Ack, 600, Ok(())));
        let into = pair.issue_get(0, 7, 0, 1000);
        pair.sides[0].port.unmap(at(into, 600, 400));
        pair.settle();
        assert_eq!(pair.outcomes(0), [(Reply, 600, Ok(()))]);
        assert_eq!(pair.bytes(0, at(into, 0, 600)), pattern(1000, 1)[..600]);
        still_works(&mut pair);
    }
}

#[test]
fn operations_of_no_bytes_touch_nothing() {
    let mut pair = Pair::of_program(Mode::default());
    let memory = pair.alloc(1, &[0; 8]);
    pair.sides[1].port.unmap(memory);
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    let source = pair.alloc(0, &[0; 8]);
    pair.sides[0].port.unmap(source);
    let nothing = pair.local(0, at(source, 0, 0));
    let (ack, target) = (Some(AckKind::Full), target(1, 7, 0));
    pair.issue(0, &Command::Put { from: nothing, ack, target, hdr_data: 0, user_ptr: 1 }).unwrap();
    pair.issue(0, &Command::Get { into: nothing, target, user_ptr: 1 }).unwrap();
    pair.settle();
    assert_eq!(pair.outcomes(0), [(Send, 0, Ok(())), (Ack, 0, Ok(())), (Reply, 0, Ok(()))]);
    assert_eq!(pair.outcomes(1), [(Put, 0, Ok(())), (Get, 0, Ok(()))]);
    pair.assert_quiet();
}

#[test]
fn atomic_operations_fault_too() {
    let arithmetic = Arithmetic { op: AtomicOp::Sum, datatype: Datatype::Uint64, operand: [0; 32] };
    // Which of the source, the target and the answer's place is a hole.
    for hole in 0..3 {
        let mut pair = Pair::of_program(Mode::default());
        let memory = pair.alloc(1, &[0; 16]);
        pair.append(List::Priority, entry(memory, 7, open(), 1));
        let regions = [0, 1].map(|_| pair.alloc(0, &[1; 16]));
        match hole {
            0 => pair.sides[0].port.unmap(at(regions[0], 8, 8)),
            1 => pair.sides[1].port.protect(at(memory, 8, 8)),
            _ => pair.sides[0].port.protect(at(regions[1], 8, 8)),
        }
        let [from, into] = regions.map(|region| pair.local(0, region));
        let (ack, target) = (Some(AckKind::Full), target(1, 7, 0));
        let (hdr_data, user_ptr) = (0, 1);
        let fetch = Command::Fetch { into, from, target, hdr_data, user_ptr, arithmetic };
        pair.issue(0, &fetch).unwrap();
        pair.settle();
        let sent = if hole == 0 { SEGV } else { Ok(()) };
        let outcomes: Vec<_> =
            pair.outcomes(0).iter().map(|(kind, _, how)| (*kind, *how)).collect();
        assert_eq!(outcomes, [(Send, sent), (Reply, SEGV)]);
        let done = if hole == 2 { 1 } else { 0 };
        assert_eq!(pair.bytes(1, memory), [done; 16], "all of it or nothing");
        if hole < 2 {
            let atomic = Command::Atomic { from, ack, target, hdr_data, user_ptr, arithmetic };
            pair.issue(0, &atomic).unwrap();
            pair.settle();
            let outcomes: Vec<_> =
                pair.outcomes(0).iter().map(|(kind, _, how)| (*kind, *how)).collect();
            assert_eq!(outcomes, [(Send, sent), (Ack, SEGV)]);
        }
        pair.events(1);
        still_works(&mut pair);
    }
}

#[test]
fn faults_are_counted_as_failures() {
    let options = MdOptions { ct_send: true, ct_ack: true, ct_reply: true, ..MdOptions::default() };
    let layouts = [pair::net::roomy(); 2];
    let mut pair = Pair::with_limits(&layouts, Mode::default(), options, program_limits());
    let memory = pair.alloc(1, &[0; 500]);
    pair.sides[1].port.unmap(memory);
    let counting = MeOptions { ct_comm: true, ct_bytes: true, ..open() };
    let ct = Some(pair.sides[1].ct);
    pair.append(List::Priority, sluice_portals::MeSpec { ct, ..entry(memory, 7, counting, 1) });
    for len in [50, 500] {
        pair.issue_put(0, 7, &pattern(len, 1), Some(AckKind::Full));
        pair.issue_get(0, 7, 0, len as u64);
    }
    pair.settle();
    assert_eq!(pair.ct(0), (2, 4), "sent twice; acknowledged and answered with faults");
    assert_eq!(pair.ct(1), (0, 4));
    pair.assert_quiet();
}

#[test]
fn a_header_of_what_faulted_says_so() {
    for len in [50, 500] {
        let mut pair = Pair::of_program(Mode::default());
        let memory = pair.alloc(1, &[0; 500]);
        pair.sides[1].port.unmap(memory);
        pair.append(List::Overflow, entry(memory, 7, open(), 1));
        pair.issue_put(0, 7, &pattern(len, 1), None);
        pair.settle();
        pair.append(List::Priority, entry(Region::EMPTY, 7, open(), 2));
        let len = len as u64;
        assert_eq!(pair.outcomes(1), [(Put, len, SEGV), (PutOverflow, len, SEGV)]);
        pair.assert_quiet();
    }
}
