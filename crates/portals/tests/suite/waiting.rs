//! Commands that cannot go yet: they wait in order, for credits, for reply
//! slots, for room; and end with their target.

use crate::pair;
use crate::pair::net::{Event as NetEvent, Mode, layout, roomy};
use crate::pair::{Pair, Side, entry, open, pattern, program_limits, target};
use sluice_portals::{
    Arithmetic, Command, EventKind, Limits, List, MdOptions, MeOptions, NiFail, PtlError,
};
use sluice_wire::{AckKind, AtomicOp, Datatype, Region};

use EventKind::{Ack, Put, Reply, Send};

/// Few credits and few reply slots.
fn narrow(mode: Mode, options: MdOptions, limits: Limits) -> Pair {
    let narrow = layout(3, 6, 2, 4, 6);
    let mut pair = Pair::with_limits(&[narrow; 3], mode, options, limits);
    let memory = pair.alloc(1, &pattern(4000, 9));
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    pair
}

fn narrow_pair() -> Pair {
    narrow(Mode::default(), MdOptions::default(), program_limits())
}

fn put(pair: &mut Pair, to: usize, number: u64, bytes: &[u8]) -> Region {
    let region = pair.alloc(0, bytes);
    let from = pair.local(0, region);
    let target = target(to, 7, 0);
    let command = Command::Put { from, ack: None, target, hdr_data: number, user_ptr: number };
    pair.issue(0, &command).unwrap();
    region
}

/// Out-of-band data of what arrived at side 1, in order.
fn arrived(pair: &mut Pair) -> Vec<u64> {
    pair.events(1).into_iter().map(|event| event.hdr_data).collect()
}

#[test]
fn without_credits_commands_wait_and_keep_their_order() {
    let mut pair = narrow_pair();
    for number in 0..50 {
        // Of different lengths: a short one may not overtake a long one.
        put(&mut pair, 1, number, &vec![1; (number * 13 % 65) as usize]);
    }
    assert!(pair.sides[0].ni.waiting_now() > 30);
    let sent = pair.happened(0).len();
    assert!((1..20).contains(&sent), "what waits is not told as sent");
    pair.settle();
    assert_eq!(arrived(&mut pair), (0..50).collect::<Vec<_>>());
    assert_eq!(pair.happened(0).len() + sent, 50);
    pair.assert_quiet();
}

#[test]
fn one_target_does_not_hold_up_another() {
    let mut pair = narrow_pair();
    for number in 0..20 {
        put(&mut pair, 1, number, &[1; 60]);
    }
    let waiting = pair.sides[0].ni.waiting_now();
    put(&mut pair, 2, 99, b"through");
    assert_eq!(pair.sides[0].ni.waiting_now(), waiting);
    assert_eq!(pair.sides[0].port.net().flights(0, 2).count(), 1);
    pair.settle();
    pair.assert_quiet();
}

#[test]
fn all_kinds_of_commands_keep_their_order() {
    let mut pair = narrow_pair();
    let arithmetic = Arithmetic { op: AtomicOp::Sum, datatype: Datatype::Uint64, operand: [0; 32] };
    let mut expected = Vec::new();
    for number in 0..40 {
        let region = pair.alloc(0, &[1; 48]);
        let into = pair.alloc(0, &[0; 200]);
        let (from, into) = (pair.local(0, region), pair.local(0, into));
        let whole = sluice_portals::Local { length: from.length, ..into };
        let (target, hdr_data, user_ptr) = (target(1, 7, 0), number, number);
        let (kind, command) = match number % 5 {
            0 => (Put, Command::Put { from, ack: None, target, hdr_data, user_ptr }),
            1 => (EventKind::Get, Command::Get { into: whole, target, user_ptr }),
            2 => (
                EventKind::Atomic,
                Command::Atomic { from, ack: None, target, hdr_data, user_ptr, arithmetic },
            ),
            3 => (
                EventKind::FetchAtomic,
                Command::Fetch { into: whole, from, target, hdr_data, user_ptr, arithmetic },
            ),
            // Longer than a packet: it arrives in order, and moves later.
            _ => (EventKind::Get, Command::Get { into, target, user_ptr }),
        };
        expected.push((kind, command));
    }
    for (_, command) in &expected {
        pair.issue(0, command).unwrap();
    }
    pair.settle();
    let short = |(at, (kind, _)): (usize, &(EventKind, Command))| (at % 5 != 4).then_some(*kind);
    let kinds: Vec<_> = expected.iter().enumerate().filter_map(short).collect();
    let events = pair.events(1);
    let seen: Vec<_> =
        events.iter().filter(|event| event.mlength != 200).map(|event| event.kind).collect();
    assert_eq!(seen, kinds);
    assert_eq!(events.len(), 40);
    pair.assert_quiet();
}

#[test]
fn volatile_memory_is_copied_when_a_command_waits() {
    let options = MdOptions { volatile: true, ..MdOptions::default() };
    let mut pair = narrow(Mode::default(), options, program_limits());
    let arithmetic = Arithmetic { op: AtomicOp::Swap, datatype: Datatype::Uint8, operand: [0; 32] };
    for number in 0..20_u8 {
        let region = put(&mut pair, 1, number.into(), &[number; 64]);
        pair.sides[0].port.fill(region, 0xAB);
    }
    let mut answers = Vec::new();
    for number in 0..20_u8 {
        let region = pair.alloc(0, &[number; 8]);
        let into = pair.alloc(0, &[0; 8]);
        let command = Command::Fetch {
            into: pair.local(0, into),
            from: pair.local(0, region),
            target: target(1, 7, 0),
            hdr_data: 0,
            user_ptr: 9,
            arithmetic,
        };
        pair.issue(0, &command).unwrap();
        pair.sides[0].port.fill(region, 0xAB);
        answers.push(into);
    }
    assert!(pair.sides[0].port.net().lent(0).1 > 0);
    pair.settle();
    let before: Vec<_> = answers.into_iter().map(|into| pair.bytes(0, into)[0]).collect();
    assert_eq!(before, [&[19], &(0..19).collect::<Vec<u8>>()[..]].concat());
    pair.assert_quiet();
}

#[test]
fn other_memory_is_read_when_the_command_goes() {
    let mut pair = narrow_pair();
    let regions: Vec<_> = (0..20).map(|number| put(&mut pair, 1, number, &[0; 64])).collect();
    assert_eq!(pair.sides[0].port.net().lent(0), (0, 0), "nothing is copied");
    pair.sides[0].port.fill(regions[19], 5);
    pair.settle();
    let start = pair.events(1).last().unwrap().start;
    assert_eq!(pair.bytes(1, Region { addr: start, len: 64 }), [5; 64]);
}

#[test]
fn a_released_descriptor_stays_for_the_commands_that_wait() {
    let mut pair = narrow_pair();
    for number in 0..20 {
        put(&mut pair, 1, number, &[1; 64]);
    }
    let md = pair.sides[0].md;
    pair.sides[0].ni.md_release(md).unwrap();
    let gone = Err(PtlError::ArgInvalid("memory descriptor"));
    assert_eq!(pair.sides[0].ni.md_release(md), gone);
    assert!(!pair.sides[0].ni.has_md(md));
    pair.settle();
    assert_eq!(pair.sides[0].ni.waiting_now(), 0);
    assert_eq!(pair.events(0).iter().filter(|event| event.kind == EventKind::Send).count(), 20);
}

#[test]
fn gets_wait_for_reply_slots() {
    for mode in [Mode::default(), Mode { can_read: false, ..Mode::default() }] {
        let mut pair = narrow(mode, MdOptions::default(), program_limits());
        let lens = [64, 20, 3000, 64, 150, 0, 64, 1000];
        let gets = lens.map(|len| pair.issue_get(0, 7, 3, len));
        assert!(pair.sides[0].ni.waiting_now() > 0);
        pair.settle();
        for (into, len) in gets.into_iter().zip(lens) {
            assert_eq!(pair.bytes(0, into), pattern(4000, 9)[3..3 + len as usize]);
        }
        let replies = pair.happened(0);
        assert!(replies.len() == 8 && replies.iter().all(|(kind, ..)| *kind == Reply));
        pair.assert_quiet();
    }
}

#[test]
fn reply_slots_freed_by_one_target_serve_another() {
    let mut pair = narrow_pair();
    let Side { ni, port, .. } = &mut pair.sides[2];
    let memory = port.alloc(&pattern(100, 4));
    ni.me_append(port, pair::PT, List::Priority, entry(memory, 7, open(), 1)).unwrap();
    for _ in 0..3 {
        pair.issue_get(0, 7, 0, 64);
    }
    let into = pair.alloc(0, &[0; 64]);
    let command = Command::Get { into: pair.local(0, into), target: target(2, 7, 0), user_ptr: 9 };
    pair.issue(0, &command).unwrap();
    assert!(pair.sides[0].ni.waiting_now() > 0);
    pair.settle();
    assert_eq!(pair.bytes(0, into), pattern(100, 4)[..64]);
    pair.assert_quiet();
}

#[test]
fn unexpected_messages_hold_credits_only_if_the_limits_say_so() {
    for until_matched in [false, true] {
        let limits = Limits { credits_until_matched: until_matched, ..program_limits() };
        let layouts = [layout(3, 6, 2, 4, 6); 3];
        let mut pair = Pair::with_limits(&layouts, Mode::default(), MdOptions::default(), limits);
        let memory = pair.alloc(1, &[0; 4000]);
        let managed = MeOptions { manage_local: true, ..open() };
        pair.append(List::Overflow, entry(memory, 7, managed, 1));
        for number in 0..20 {
            put(&mut pair, 1, number, &[1; 64]);
        }
        pair.settle();
        assert_eq!(pair.sides[0].ni.waiting_now() > 0, until_matched);
        assert_eq!(pair.sides[1].ni.links().slots_held() > 0, until_matched);
        while pair.sides[1].ni.unexpected_now() > 0 {
            pair.append(
                List::Priority,
                entry(Region::EMPTY, 7, MeOptions { use_once: true, ..open() }, 2),
            );
            pair.settle();
        }
        pair.assert_quiet();
        let puts = pair.happened(1).iter().filter(|(kind, ..)| *kind == Put).count();
        assert_eq!(puts, 20);
    }
}

#[test]
fn everything_ends_with_the_target() {
    for pending_percent in [0, 100] {
        for delivered in 0..12 {
            let mode = Mode { pending_percent, ..Mode::default() };
            let mut pair = narrow(mode, MdOptions::default(), program_limits());
            let arithmetic =
                Arithmetic { op: AtomicOp::Sum, datatype: Datatype::Uint64, operand: [0; 32] };
            let memory = pair.alloc(0, &[1; 1000]);
            let whole = pair.local(0, memory);
            let short = sluice_portals::Local { length: 64, ..whole };
            let (ack, target) = (Some(AckKind::Full), target(1, 7, 0));
            for number in 0..4 {
                let (hdr_data, user_ptr) = (0, number);
                for command in [
                    Command::Put { from: short, ack, target, hdr_data, user_ptr },
                    Command::Put { from: whole, ack, target, hdr_data, user_ptr },
                    Command::Get { into: short, target, user_ptr },
                    Command::Get { into: whole, target, user_ptr },
                    Command::Atomic { from: short, ack, target, hdr_data, user_ptr, arithmetic },
                    Command::Fetch {
                        into: short,
                        from: short,
                        target,
                        hdr_data,
                        user_ptr,
                        arithmetic,
                    },
                ] {
                    pair.issue(0, &command).unwrap();
                }
            }
            for _ in 0..delivered {
                let next = pair.sides[0].port.net().events().first().copied();
                next.into_iter().for_each(|event: NetEvent| pair.happen(event));
            }
            pair.kill(1);
            pair.settle();
            pair.assert_quiet();
            let events = pair.events(0);
            let count = |kind| events.iter().filter(|event| event.kind == kind).count();
            assert_eq!([count(Send), count(Ack), count(Reply)], [16, 12, 12]);
            // Each acknowledgement comes after its operation's send event.
            let of_puts = events.iter().filter(|event| event.kind != Reply);
            let mut sent = 0;
            for event in of_puts {
                sent += if event.kind == Send { 1 } else { -1 };
                assert!(sent >= 0);
            }
            // And what is asked for from now on.
            put(&mut pair, 1, 500, b"late");
            let late = pair.outcomes(0);
            assert!(matches!(late[..], [(Send, _, Err(NiFail::Undeliverable(_)))]));
            pair.assert_quiet();
        }
    }
}

/// A put of eight bytes to the other side, which is acknowledged.
fn put_of_eight(pair: &mut Pair) -> Command {
    let region = pair.alloc(0, &[1; 8]);
    Command::Put {
        from: pair.local(0, region),
        ack: Some(AckKind::Full),
        target: target(1, 7, 0),
        hdr_data: 0,
        user_ptr: 1,
    }
}

#[test]
fn too_many_operations_are_refused_and_leave_nothing() {
    let limits = Limits { operations_max: 4, ..program_limits() };
    let mut pair = narrow(Mode::default(), MdOptions::default(), limits);
    let command = put_of_eight(&mut pair);
    for _ in 0..4 {
        pair.issue(0, &command).unwrap();
    }
    assert_eq!(pair.issue(0, &command), Err(PtlError::NoSpace("operations")));
    pair.settle();
    assert_eq!(pair.happened(0).len(), 8);
    pair.issue(0, &command).unwrap();
    pair.settle();
    assert_eq!(pair.happened(0).len(), 2);
    pair.assert_quiet();
}

#[test]
fn room_that_is_kept_is_there_for_commands_that_follow_later() {
    let limits = Limits { operations_max: 4, ..program_limits() };
    let mut pair = narrow(Mode::default(), MdOptions::default(), limits);
    let command = put_of_eight(&mut pair);
    pair.sides[0].ni.keep_operations_room(3);
    assert_eq!(pair.sides[0].ni.operations_room(), 1);
    pair.issue(0, &command).unwrap();
    assert_eq!(pair.issue(0, &command), Err(PtlError::NoSpace("operations")));
    pair.sides[0].ni.give_operations_room(3);
    for _ in 0..3 {
        pair.issue(0, &command).unwrap();
    }
    assert_eq!(pair.issue(0, &command), Err(PtlError::NoSpace("operations")));
    pair.settle();
    assert_eq!(pair.happened(0).len(), 8);
    pair.assert_quiet();
}

/// What arrives needs room among the operations too; a command that had waited
/// found none left.
#[test]
fn commands_wait_while_what_arrives_has_all_the_room() {
    let limits = Limits { operations_max: 3, ..program_limits() };
    let layouts = [roomy(), roomy()];
    let mut pair = Pair::with_limits(&layouts, Mode::default(), MdOptions::default(), limits);
    let memory = pair.alloc(1, &[0; 1000]);
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    let Side { ni, port, .. } = &mut pair.sides[0];
    let home = port.alloc(&[0; 1000]);
    ni.me_append(port, pair::PT, List::Priority, entry(home, 7, open(), 1)).unwrap();
    // Side 1 puts twice, and side 0 reads both.
    let source = pair.alloc(1, &pattern(800, 1));
    for _ in 0..2 {
        let from = pair.local(1, source);
        let target = target(0, 7, 0);
        let command = Command::Put { from, ack: None, target, hdr_data: 0, user_ptr: 1 };
        pair.issue(1, &command).unwrap();
        pair.happen(NetEvent::Deliver(1, 0));
    }
    assert_eq!(pair.sides[0].ni.operations_now(), 2);
    let arithmetic = Arithmetic { op: AtomicOp::Sum, datatype: Datatype::Uint64, operand: [0; 32] };
    let values = pair.alloc(0, &[1; 8]);
    let values = pair.local(0, values);
    let fetch = Command::Fetch {
        into: values,
        from: values,
        target: target(1, 7, 0),
        hdr_data: 0,
        user_ptr: 2,
        arithmetic,
    };
    pair.issue(0, &fetch).unwrap();
    assert_eq!(pair.sides[0].ni.waiting_now(), 1);
    pair.settle();
    assert_eq!(pair.bytes(0, home)[..800], pattern(800, 1));
    pair.assert_quiet();
}
