//! Match lists of a target: which entry takes what, and what becomes of it.

use crate::pair::{PT, Pair, entry, open};
use sluice_portals::{EventKind, List, MeOptions, MeSpec, NiFail, PtlError, SearchOp};
use sluice_wire::{AckKind, PeerId, Region};

use EventKind::{AutoFree, AutoUnlink, Link, Put, PutOverflow};

/// An overflow entry as a client of Portals appends it.
fn overflow() -> MeOptions {
    MeOptions { op_put: true, manage_local: true, event_comm_disable: true, ..MeOptions::default() }
}

#[test]
fn the_first_entry_of_the_priority_list_that_matches_takes_the_put() {
    let mut pair = Pair::new();
    let memory: Vec<Region> = (0..3).map(|_| pair.alloc(1, &[0; 4])).collect();
    pair.append(List::Overflow, entry(memory[0], 7, open(), 1));
    pair.append(List::Priority, entry(memory[1], 8, open(), 2));
    pair.append(List::Priority, entry(memory[2], 7, open(), 3));
    pair.put(7, b"here");
    assert_eq!(pair.happened(1), [(Put, 3, 4)]);
    assert_eq!(pair.bytes(1, memory[2]), b"here");
}

#[test]
fn ignored_bits_do_not_matter_and_others_do() {
    let mut pair = Pair::new();
    let memory = pair.alloc(1, &[0; 4]);
    let spec = MeSpec { ignore_bits: 0xFF, ..entry(memory, 0x1200, open(), 1) };
    pair.append(List::Priority, spec);
    pair.put(0x1234, b"yes");
    pair.put(0x1134, b"no");
    assert_eq!(pair.happened(1), [(Put, 1, 3)]);
    assert_eq!(pair.sides[1].ni.status().dropped, 1);
}

#[test]
fn an_entry_with_a_source_takes_only_what_comes_from_there() {
    let mut pair = Pair::new();
    let memory = pair.alloc(1, &[0; 4]);
    let other = MeSpec { source: Some(PeerId(1)), ..entry(memory, 7, open(), 1) };
    let right = MeSpec { source: Some(PeerId(0)), ..entry(memory, 7, open(), 2) };
    pair.append(List::Priority, other);
    pair.append(List::Priority, right);
    pair.put(7, b"zero");
    assert_eq!(pair.happened(1), [(Put, 2, 4)]);
}

#[test]
fn a_use_once_entry_is_used_once() {
    let mut pair = Pair::new();
    let memory = pair.alloc(1, &[0; 4]);
    let once = MeOptions { use_once: true, ..open() };
    let handle = pair.append(List::Priority, entry(memory, 7, once, 1)).unwrap();
    pair.put(7, b"one");
    pair.put(7, b"two");
    assert_eq!(pair.happened(1), [(Put, 1, 3), (AutoUnlink, 1, 0)]);
    assert_eq!(pair.bytes(1, memory), b"one\0");
    let unlinked = pair.sides[1].ni.me_unlink(handle).map(|_| ());
    assert_eq!(unlinked, Err(PtlError::ArgInvalid("entry is not linked")));
}

#[test]
fn an_entry_that_manages_its_offset_fills_up_and_unlinks_below_min_free() {
    let mut pair = Pair::new();
    let memory = pair.alloc(1, &[0; 10]);
    let options = MeOptions { manage_local: true, ..open() };
    pair.append(List::Priority, MeSpec { min_free: 4, ..entry(memory, 7, options, 1) });
    pair.put_with(7, b"abc", 9, None);
    pair.put(7, b"def");
    assert_eq!(pair.happened(1), [(Put, 1, 3), (Put, 1, 3)], "four are left: enough");
    pair.put(7, b"g");
    assert_eq!(pair.happened(1), [(Put, 1, 1), (AutoUnlink, 1, 0)]);
    assert_eq!(pair.bytes(1, memory), b"abcdefg\0\0\0", "the initiator's offset is ignored");
}

#[test]
fn a_full_entry_truncates_or_does_not_match() {
    let mut pair = Pair::new();
    let short = pair.alloc(1, &[0; 4]);
    let long = pair.alloc(1, &[0; 8]);
    let strict = MeOptions { no_truncate: true, ..open() };
    pair.append(List::Priority, entry(short, 7, strict, 1));
    pair.append(List::Priority, entry(long, 7, open(), 2));
    pair.put(7, b"four");
    pair.put(7, b"five.");
    pair.put(7, b"123456789");
    pair.put_with(7, b"ab", 3, None);
    pair.put_with(7, b"beyond", 100, None);
    let events = pair.events(1);
    let taken: Vec<_> = events.iter().map(|e| (e.user_ptr, e.rlength, e.mlength)).collect();
    assert_eq!(taken, [(1, 4, 4), (2, 5, 5), (2, 9, 8), (2, 2, 2), (2, 6, 0)]);
    assert_eq!(pair.bytes(1, long), b"123ab678");
}

#[test]
fn overflow_events_come_in_the_order_of_arrival_and_free_the_entry_in_the_end() {
    let mut pair = Pair::new();
    let memory = pair.alloc(1, &[0; 10]);
    let spec = MeSpec { min_free: 8, ignore_bits: u64::MAX, ..entry(memory, 0, overflow(), 1) };
    pair.append(List::Overflow, spec);
    pair.put(7, b"ab");
    pair.put(8, b"cd");
    assert_eq!(pair.happened(1), [(AutoUnlink, 1, 0)], "nothing else until it is matched");
    assert_eq!(pair.sides[1].ni.unexpected_now(), 2);

    let once = MeOptions { use_once: true, ..open() };
    assert!(pair.append(List::Priority, entry(Region::EMPTY, 8, once, 2)).is_none());
    let events = pair.events(1);
    assert_eq!((events[0].kind, events[0].start), (PutOverflow, memory.addr.offset(2)));
    assert_eq!((events[0].hdr_data, events[0].mlength, events[0].hold), (1008, 2, None));
    assert_eq!((events[1].kind, events.len()), (AutoUnlink, 2));

    assert!(pair.append(List::Priority, entry(Region::EMPTY, 7, once, 3)).is_none());
    let kinds: Vec<_> = pair.happened(1).into_iter().map(|(kind, who, _)| (kind, who)).collect();
    assert_eq!(kinds, [(PutOverflow, 3), (AutoUnlink, 3), (AutoFree, 1)]);
}

/// The client waits for it before it uses the memory again.
#[test]
fn an_overflow_entry_without_headers_is_free_as_soon_as_it_is_unlinked() {
    let mut pair = Pair::new();
    let memory = pair.alloc(1, &[0; 4]);
    let options = MeOptions { unexpected_hdr_disable: true, use_once: true, ..overflow() };
    pair.append(List::Overflow, entry(memory, 7, options, 1));
    pair.put(7, b"gone");
    assert_eq!(pair.happened(1), [(AutoUnlink, 1, 0), (AutoFree, 1, 0)]);
    assert_eq!(pair.sides[1].ni.unexpected_now(), 0);
    assert_eq!(pair.sides[1].ni.links().slots_held(), 0);
}

#[test]
fn a_persistent_entry_takes_all_unexpected_headers_that_match_and_stays() {
    let mut pair = Pair::new();
    let memory = pair.alloc(1, &[0; 16]);
    let catch_all = MeSpec { ignore_bits: u64::MAX, ..entry(memory, 0, overflow(), 1) };
    pair.append(List::Overflow, catch_all);
    for (bits, bytes) in [(7, b"a"), (8, b"b"), (7, b"c")] {
        pair.put(bits, bytes);
    }
    let direct = pair.alloc(1, &[0; 4]);
    assert!(pair.append(List::Priority, entry(direct, 7, open(), 2)).is_some());
    assert_eq!(pair.happened(1), [(PutOverflow, 2, 1), (PutOverflow, 2, 1)]);
    assert_eq!(pair.sides[1].ni.unexpected_now(), 1);
    pair.put(7, b"d");
    assert_eq!(pair.happened(1), [(Put, 2, 1)]);
}

#[test]
fn search_looks_or_takes() {
    let mut pair = Pair::new();
    let memory = pair.alloc(1, &[0; 16]);
    pair.append(List::Overflow, entry(memory, 7, overflow(), 1));
    pair.put(7, b"a");
    let wanted = entry(Region::EMPTY, 7, open(), 9);
    let search = |pair: &mut Pair, op, bits| {
        let side = &mut pair.sides[1];
        let spec = entry(Region::EMPTY, bits, wanted.options, 9);
        side.ni.me_search(&mut side.port, PT, op, &spec).unwrap();
        let events = pair.events(1);
        assert_eq!(events.len(), 1);
        (events[0].kind, events[0].mlength, events[0].outcome)
    };
    assert_eq!(search(&mut pair, SearchOp::Only, 7), (EventKind::Search, 1, Ok(())));
    let nothing = (EventKind::Search, 0, Err(NiFail::NoMatch));
    assert_eq!(search(&mut pair, SearchOp::Delete, 8), nothing);
    assert_eq!(search(&mut pair, SearchOp::Delete, 7), (PutOverflow, 1, Ok(())));
    assert_eq!(search(&mut pair, SearchOp::Only, 7), nothing);
    assert_eq!(pair.sides[1].ni.links().slots_held(), 0);
}

#[test]
fn an_entry_that_headers_point_into_is_in_use() {
    let mut pair = Pair::new();
    let memory = pair.alloc(1, &[0; 16]);
    let handle = pair.append(List::Overflow, entry(memory, 7, overflow(), 1)).unwrap();
    pair.put(7, b"a");
    let unlink = |pair: &mut Pair| pair.sides[1].ni.me_unlink(handle);
    assert_eq!(unlink(&mut pair), Err(PtlError::InUse));
    assert_eq!(pair.sides[1].ni.pt_free(PT), Err(PtlError::InUse));
    let once = MeOptions { use_once: true, ..open() };
    pair.append(List::Priority, entry(Region::EMPTY, 7, once, 2));
    assert_eq!(unlink(&mut pair), Ok(()));
    assert_eq!(pair.sides[1].ni.pt_free(PT), Ok(()));
    assert_eq!(pair.sides[1].ni.pt_free(PT), Err(PtlError::ArgInvalid("portal table index")));
}

#[test]
fn lent_memory_is_held_until_the_client_ends_it() {
    for kind in [AckKind::Full, AckKind::Matched] {
        lent_memory_is_held(kind);
    }
}

/// A put there is acknowledged when it is kept, or when it has met its entry.
fn lent_memory_is_held(kind: AckKind) {
    let mut pair = Pair::new();
    let lent = MeOptions { lent: true, ..open() };
    pair.append(List::Overflow, entry(Region::EMPTY, 7, lent, 1));
    pair.put_with(7, b"kept", 0, Some(kind));
    let (sent, ack) = ((EventKind::Send, 500, 4), (EventKind::Ack, 500, 4));
    if kind == AckKind::Full {
        assert_eq!(pair.happened(0), [sent, ack]);
    }
    let once = MeOptions { use_once: true, ..open() };
    pair.append(List::Priority, entry(Region::EMPTY, 7, once, 2));
    let events = pair.events(1);
    let hold = events[0].hold.expect("its bytes are lent");
    let start = Region { addr: events[0].start, len: 4 };
    assert_eq!(pair.bytes(1, start), b"kept");
    assert_eq!(pair.sides[1].ni.links().slots_held(), 1);
    assert_eq!(pair.sides[1].port.net().lent(1), (4, 0));
    pair.run();
    let so_far = if kind == AckKind::Full { vec![] } else { vec![sent] };
    assert_eq!(pair.happened(0), so_far);

    for _ in 0..2 {
        let side = &mut pair.sides[1];
        side.ni.end_hold(&mut side.port, hold);
    }
    assert_eq!(pair.sides[1].port.net().lent(1), (0, 0));
    assert_eq!(pair.sides[1].ni.links().slots_held(), 0);
    pair.run();
    let left = if kind == AckKind::Full { vec![] } else { vec![ack] };
    assert_eq!(pair.happened(0), left, "it is told once");
}

#[test]
fn events_are_reported_unless_they_are_not_wanted() {
    let mut pair = Pair::new();
    let memory = pair.alloc(1, &[0; 4]);
    let silent = MeOptions {
        use_once: true,
        event_comm_disable: true,
        event_unlink_disable: true,
        ..open()
    };
    pair.append(List::Priority, entry(memory, 7, silent, 1));
    let loud = MeSpec { options: open(), ..entry(memory, 7, open(), 2) };
    pair.append(List::Priority, loud);
    assert_eq!(pair.happened(1), [(Link, 2, 0)]);
    pair.put(7, b"a");
    assert_eq!(pair.happened(1), []);
    assert_eq!(pair.bytes(1, memory), b"a\0\0\0");
}
