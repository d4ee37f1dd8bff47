//! Searching the unexpected headers (Portals 4, sections 3.11 and 3.12), and
//! appending where some wait.

use crate::pair::net::Mode;
use crate::pair::{PT, Pair, Side, entry, open, pattern};
use sluice_portals::{
    CtEvent, Event, EventKind, List, MeOptions, MeSpec, NiFail, PtlError, SearchOp,
};
use sluice_wire::{AckKind, PeerId, PtIndex, Region};

use EventKind::{AutoFree, AutoUnlink, Get, GetOverflow, Link, Put, PutOverflow, Search};

const NO_MATCH: Result<(), NiFail> = Err(NiFail::NoMatch);

/// Puts of these match bits and lengths have arrived in an overflow entry.
fn with_unexpected(puts: &[(u64, usize)]) -> (Pair, Region) {
    let mut pair = Pair::of_program(Mode::default());
    let memory = pair.alloc(1, &[0; 4000]);
    let managed = MeOptions { manage_local: true, ..open() };
    let spec = MeSpec { ignore_bits: !0, ..entry(memory, 0, managed, 1) };
    pair.append(List::Overflow, spec);
    for &(bits, len) in puts {
        pair.issue_put(0, bits, &pattern(len, bits as usize), Some(AckKind::Full));
    }
    pair.settle();
    pair.events(1);
    (pair, memory)
}

fn search(pair: &mut Pair, op: SearchOp, spec: &MeSpec) -> Vec<Event> {
    let Side { ni, port, .. } = &mut pair.sides[1];
    ni.me_search(port, PT, op, spec).unwrap();
    ni.check_invariants();
    pair.events(1)
}

fn once() -> MeOptions {
    MeOptions { use_once: true, ..open() }
}

fn kinds(events: &[Event]) -> Vec<(EventKind, u64, Result<(), NiFail>)> {
    events.iter().map(|event| (event.kind, event.mlength, event.outcome)).collect()
}

#[test]
fn a_look_finds_the_first_and_leaves_it() {
    let (mut pair, memory) = with_unexpected(&[(7, 5), (8, 6), (7, 300)]);
    for _ in 0..2 {
        let events = search(&mut pair, SearchOp::Only, &entry(Region::EMPTY, 7, once(), 2));
        assert_eq!(kinds(&events), [(Search, 5, Ok(()))]);
        let event = events[0];
        assert_eq!((event.user_ptr, event.rlength, event.hdr_data), (2, 5, 7));
        assert_eq!((event.match_bits.0, event.peer), (7, PeerId(0)));
        assert_eq!(event.start, memory.addr);
    }
    assert_eq!(pair.sides[1].ni.unexpected_now(), 3);
    let events = search(&mut pair, SearchOp::Only, &entry(Region::EMPTY, 9, once(), 2));
    assert_eq!(kinds(&events), [(Search, 0, NO_MATCH)]);
}

#[test]
fn a_persistent_look_finds_all() {
    let (mut pair, _) = with_unexpected(&[(7, 5), (8, 6), (7, 300)]);
    let events = search(&mut pair, SearchOp::Only, &entry(Region::EMPTY, 7, open(), 2));
    assert_eq!(kinds(&events), [(Search, 5, Ok(())), (Search, 300, Ok(()))]);
    let events = search(&mut pair, SearchOp::Only, &entry(Region::EMPTY, 9, open(), 2));
    assert_eq!(kinds(&events), [(Search, 0, NO_MATCH)]);
}

#[test]
fn a_search_that_takes_tells_as_an_append_would() {
    let (mut pair, memory) = with_unexpected(&[(7, 5), (8, 6), (7, 300)]);
    let take_one = entry(Region::EMPTY, 7, once(), 2);
    let events = search(&mut pair, SearchOp::Delete, &take_one);
    assert_eq!(kinds(&events), [(PutOverflow, 5, Ok(()))], "nothing was appended or unlinked");
    assert_eq!(events[0].start, memory.addr);
    assert_eq!(pair.bytes(1, Region { len: 5, ..memory }), pattern(5, 7));
    let all = MeSpec { ignore_bits: !0, ..entry(Region::EMPTY, 0, open(), 3) };
    let events = search(&mut pair, SearchOp::Delete, &all);
    assert_eq!(kinds(&events), [(PutOverflow, 6, Ok(())), (PutOverflow, 300, Ok(()))]);
    let events = search(&mut pair, SearchOp::Delete, &all);
    assert_eq!(kinds(&events), [(Search, 0, NO_MATCH)]);
    assert_eq!(pair.sides[1].ni.unexpected_now(), 0);
    pair.assert_quiet();
}

#[test]
fn a_search_compares_as_matching_does() {
    let (mut pair, _) = with_unexpected(&[(0x17, 5), (0x27, 60)]);
    let found = |pair: &mut Pair, spec: MeSpec| {
        let events = search(pair, SearchOp::Only, &spec);
        events.iter().filter(|event| event.outcome.is_ok()).count()
    };
    let region = Region { len: 10, ..Region::EMPTY };
    let any = MeSpec { ignore_bits: 0xF0, ..entry(region, 7, open(), 2) };
    assert_eq!(found(&mut pair, any), 2);
    assert_eq!(found(&mut pair, MeSpec { ignore_bits: 0x10, ..any }), 1);
    assert_eq!(found(&mut pair, MeSpec { ignore_bits: 0x40, ..any }), 0);
    assert_eq!(found(&mut pair, MeSpec { source: Some(PeerId(0)), ..any }), 2);
    assert_eq!(found(&mut pair, MeSpec { source: Some(PeerId(1)), ..any }), 0);
    let whole = MeOptions { no_truncate: true, ..open() };
    assert_eq!(found(&mut pair, MeSpec { options: whole, ..any }), 1, "60 bytes are too many");
}

#[test]
fn neither_permissions_nor_registers_matter_to_headers() {
    let (mut pair, _) = with_unexpected(&[(7, 5), (7, 6)]);
    let nothing = MeSpec { uid: Some(99), ..entry(Region::EMPTY, 7, MeOptions::default(), 2) };
    let found = search(&mut pair, SearchOp::Only, &nothing);
    assert_eq!(kinds(&found), [(Search, 5, Ok(())), (Search, 6, Ok(()))]);
    pair.append(List::Priority, nothing).expect("persistent");
    assert_eq!(pair.happened(1), [(PutOverflow, 2, 5), (PutOverflow, 2, 6)]);
    let status = pair.sides[1].ni.status();
    assert_eq!((status.permission_violations, status.operation_violations), (0, 0));
    assert_eq!(status.dropped, 0);
}

#[test]
fn a_search_counts_what_it_finds_and_where_it_ends() {
    let spec = |pair: &Pair, ct_bytes, options| MeSpec {
        ct: Some(pair.sides[1].ct),
        ..entry(Region::EMPTY, 7, MeOptions { ct_overflow: true, ct_bytes, ..options }, 2)
    };
    for op in [SearchOp::Only, SearchOp::Delete] {
        for (ct_bytes, options, expected) in [
            (false, once(), (1, 0)),
            (true, once(), (5, 0)),
            (false, open(), (2, 1)),
            (true, open(), (305, 1)),
        ] {
            let (mut pair, _) = with_unexpected(&[(7, 5), (7, 300)]);
            let wanted = spec(&pair, ct_bytes, options);
            search(&mut pair, op, &wanted);
            assert_eq!(pair.ct(1), expected, "{op:?}");
        }
        let (mut pair, _) = with_unexpected(&[]);
        let wanted = spec(&pair, true, once());
        search(&mut pair, op, &wanted);
        assert_eq!(pair.ct(1), (0, 1));
    }
}

#[test]
fn a_counting_search_may_be_silent() {
    let (mut pair, _) = with_unexpected(&[(7, 5)]);
    let options = MeOptions {
        ct_overflow: true,
        event_comm_disable: true,
        event_over_disable: true,
        ..once()
    };
    let ct = Some(pair.sides[1].ct);
    let spec = MeSpec { ct, ..entry(Region::EMPTY, 7, options, 2) };
    assert_eq!(search(&mut pair, SearchOp::Only, &spec), []);
    assert_eq!(search(&mut pair, SearchOp::Delete, &spec), []);
    assert_eq!(search(&mut pair, SearchOp::Only, &spec), []);
    assert_eq!(pair.sides[1].ni.ct(pair.sides[1].ct), Some(CtEvent { success: 2, failure: 1 }));
    pair.assert_quiet();
}

#[test]
fn a_search_of_what_is_not_allocated_is_refused() {
    let mut pair = Pair::new();
    let Side { ni, port, .. } = &mut pair.sides[1];
    let spec = entry(Region::EMPTY, 7, open(), 1);
    let refused = ni.me_search(port, PtIndex(9), SearchOp::Only, &spec);
    assert!(matches!(refused, Err(PtlError::ArgInvalid(_))));
}

#[test]
fn unexpected_gets_have_headers_too() {
    let mut pair = Pair::of_program(Mode::default());
    let memory = pair.alloc(1, &pattern(1000, 1));
    pair.append(List::Overflow, entry(memory, 7, open(), 1));
    pair.issue_get(0, 7, 10, 20);
    pair.issue_get(0, 7, 10, 500);
    pair.settle();
    let happened = pair.happened(1);
    assert_eq!(happened, [(Get, 1, 20), (Get, 1, 500)]);
    let found = search(&mut pair, SearchOp::Delete, &entry(Region::EMPTY, 7, open(), 2));
    assert_eq!(kinds(&found), [(GetOverflow, 20, Ok(())), (GetOverflow, 500, Ok(()))]);
    assert_eq!(found[0].start, memory.addr.offset(10));
    pair.assert_quiet();
}

#[test]
fn an_append_tells_of_headers_or_of_linking() {
    let (mut pair, _) = with_unexpected(&[(7, 5), (7, 6)]);
    let linked = |options| MeSpec { options, ..entry(Region::EMPTY, 7, options, 2) };
    assert_eq!(pair.append(List::Priority, linked(once())), None);
    assert_eq!(pair.happened(1), [(PutOverflow, 2, 5), (AutoUnlink, 2, 0)]);
    // Not silenced: what is persistent is linked after the last header.
    assert!(pair.append(List::Priority, linked(open())).is_some());
    assert_eq!(pair.happened(1), [(PutOverflow, 2, 6), (Link, 2, 0)]);
    // The overflow list is never searched for.
    let (mut pair, _) = with_unexpected(&[(7, 5)]);
    assert!(pair.append(List::Overflow, linked(once())).is_some());
    assert_eq!(pair.happened(1), [(Link, 2, 0)]);
}

#[test]
fn headers_move_the_managed_offset_by_what_was_asked_for_if_that_is_wanted() {
    let managed = MeOptions { manage_local: true, ..open() };
    let moving = MeOptions { inc_by_rlength: true, ..managed };
    for (options, min_free, expected) in
        [(managed, 0, Some(0)), (moving, 0, Some(90)), (moving, 20, None)]
    {
        let (mut pair, _) = with_unexpected(&[(7, 40), (7, 50)]);
        let memory = pair.alloc(1, &[0; 100]);
        let spec = MeSpec { min_free, ..entry(memory, 7, options, 2) };
        let appended = pair.append(List::Priority, spec);
        let mut told = vec![(PutOverflow, 2, 40), (PutOverflow, 2, 50)];
        if expected.is_none() {
            told.push((AutoUnlink, 2, 0));
        }
        assert_eq!(pair.happened(1), told);
        assert_eq!(appended.is_some(), expected.is_some());
        if let Some(offset) = expected {
            pair.issue_put(0, 7, b"next", None);
            pair.settle();
            assert_eq!(pair.events(1)[0].start, memory.addr.offset(offset));
        }
    }
}

#[test]
fn an_overflow_entry_that_keeps_no_headers_is_free_when_unlinked() {
    let mut pair = Pair::of_program(Mode::default());
    let memory = pair.alloc(1, &[0; 1000]);
    let options = MeOptions { unexpected_hdr_disable: true, ..once() };
    for len in [10, 500] {
        pair.append(List::Overflow, entry(memory, 7, options, 1));
        pair.issue_put(0, 7, &pattern(len, 1), None);
        pair.settle();
        let told = [(Put, 1, len as u64), (AutoUnlink, 1, 0), (AutoFree, 1, 0)];
        assert_eq!(pair.happened(1), told);
    }
    let found = search(&mut pair, SearchOp::Only, &entry(Region::EMPTY, 7, once(), 2));
    assert_eq!(kinds(&found), [(Search, 0, NO_MATCH)]);
    pair.assert_quiet();
}

#[test]
fn an_overflow_entry_is_in_use_until_its_headers_are_taken() {
    let mut pair = Pair::of_program(Mode::default());
    let memory = pair.alloc(1, &[0; 1000]);
    let handle = pair.append(List::Overflow, entry(memory, 7, open(), 1)).unwrap();
    pair.issue_put(0, 7, b"early", None);
    pair.settle();
    let ni = &mut pair.sides[1].ni;
    assert_eq!(ni.me_unlink(handle).map(|_| ()), Err(PtlError::InUse));
    search(&mut pair, SearchOp::Delete, &entry(Region::EMPTY, 7, open(), 2));
    pair.sides[1].ni.me_unlink(handle).unwrap();
    assert_eq!(pair.events(1), [], "the program knows that it is free");
}

/// A message of no bytes loses none, so an entry that refuses truncation takes it
/// wherever it aims: when it arrives, and when an entry is appended after it.
#[test]
fn a_message_of_no_bytes_beyond_a_strict_entry_is_judged_alike_early_and_late() {
    let strict = MeOptions { no_truncate: true, use_once: true, ..open() };
    for (len, offset, fits) in [(0, 100, true), (0, 10, true), (1, 10, false), (1, 100, false)] {
        let bytes = vec![5; len];
        // The entry is there first.
        let mut pair = Pair::of_program(Mode::default());
        let memory = pair.alloc(1, &[0; 10]);
        pair.append(List::Priority, entry(memory, 7, strict, 1));
        pair.put_with(7, &bytes, offset, None);
        let came = pair.events(1).iter().any(|event| event.kind == Put);
        assert_eq!(came, fits, "{len} bytes at {offset} arrive");
        // The message is there first.
        let mut pair = Pair::of_program(Mode::default());
        let room = pair.alloc(1, &[0; 200]);
        pair.append(List::Overflow, entry(room, 7, open(), 1));
        pair.put_with(7, &bytes, offset, None);
        let memory = pair.alloc(1, &[0; 10]);
        let linked = pair.append(List::Priority, entry(memory, 7, strict, 2));
        assert_eq!(linked.is_none(), fits, "{len} bytes at {offset} wait");
    }
}
