//! Puts and gets from both sides: acknowledgements, counters, replies,
//! violations, event queues.

use crate::pair;
use crate::pair::net::{Event as NetEvent, Mode, layout, roomy};
use crate::pair::{PT, Pair, Side, entry, open, pattern};
use sluice_link::{PeerError, RemoteMemory, Rights};
use sluice_portals::{
    Ct, Eq, EqTaken, EventKind, Handle, Limits, List, MdOptions, MeOptions, MeSpec, Ni, NiFail,
    PtOptions, PtlError, PutExtras, Target, Vector,
};
use sluice_wire::{AckKind, Addr, MatchBits, PeerId, PtIndex, Region};

use EventKind::{Ack, Get, GetDone, Put, Reply, Send};

/// Outcomes of the acknowledgements of side 0, with the length taken.
fn acks(pair: &mut Pair) -> Vec<(u64, Result<(), NiFail>)> {
    let events = pair.events(0).into_iter().filter(|event| event.kind == Ack);
    events.map(|event| (event.mlength, event.outcome)).collect()
}

#[test]
fn a_full_acknowledgement_says_how_much_was_taken_or_why_nothing() {
    let mut pair = Pair::new();
    let memory = pair.alloc(1, &[0; 3]);
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    let no_puts = MeOptions { op_get: true, ..MeOptions::default() };
    pair.append(List::Priority, entry(memory, 8, no_puts, 2));
    pair.put_with(7, b"four", 0, Some(AckKind::Full));
    assert_eq!(acks(&mut pair), [(3, Ok(()))]);
    pair.put_with(9, b"four", 0, Some(AckKind::Full));
    assert_eq!(acks(&mut pair), [(0, Err(NiFail::NoMatch))]);
    pair.put_with(8, b"four", 0, Some(AckKind::Full));
    assert_eq!(acks(&mut pair), [(0, Err(NiFail::OpViolation))]);
    let target = Target {
        peer: PeerId(1),
        pt_index: PtIndex(5),
        match_bits: MatchBits(7),
        remote_offset: 0,
    };
    let extras = PutExtras { ack: Some(AckKind::Full), ..PutExtras::default() };
    let Side { ni, port, md, .. } = &mut pair.sides[0];
    ni.put(port, *md, 0, 0, &target, &extras, 500).unwrap();
    pair.run();
    assert_eq!(acks(&mut pair), [(0, Err(NiFail::NoMatch))]);
    let status = pair.sides[1].ni.status();
    assert_eq!((status.dropped, status.operation_violations), (2, 1));
    assert_eq!(pair.sides[1].ni.links().slots_held(), 0);
}

#[test]
fn counting_acknowledgements_give_no_event() {
    let mut pair = Pair::with_md(MdOptions { ct_ack: true, ..MdOptions::default() });
    let memory = pair.alloc(1, &[0; 4]);
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    pair.put_with(7, b"four", 0, Some(AckKind::Count));
    pair.put_with(7, b"four", 0, Some(AckKind::Full));
    assert_eq!(pair.ct(0), (2, 0));
    pair.put_with(9, b"none", 0, Some(AckKind::Count));
    assert_eq!(pair.ct(0), (2, 1), "nothing matched");
    pair.put_with(9, b"none", 0, Some(AckKind::OperationCompleted));
    assert_eq!(pair.ct(0), (3, 1), "it was completed, also by being dropped");
    assert_eq!(acks(&mut pair), [(4, Ok(()))]);
}

#[test]
fn an_operation_is_not_completed_by_a_target_that_is_gone() {
    let mut pair = Pair::with_md(MdOptions { ct_ack: true, ..MdOptions::default() });
    pair.put_from(0, 7, b"lost", 0, Some(AckKind::OperationCompleted));
    pair.sides[0].port.net_mut().kill(1);
    let Side { ni, port, .. } = &mut pair.sides[0];
    ni.on_peer_gone(port, PeerId(1), PeerError::Dead);
    assert_eq!(pair.ct(0), (0, 1));
}

#[test]
fn descriptors_count_operations_or_bytes() {
    let each = MdOptions { ct_send: true, ct_ack: true, ct_reply: true, ..MdOptions::default() };
    for (options, sent, replied) in
        [(each, (2, 0), (3, 0)), (MdOptions { ct_bytes: true, ..each }, (8, 0), (10, 0))]
    {
        let mut pair = Pair::with_md(options);
        let memory = pair.alloc(1, b"xxxx");
        pair.append(List::Priority, entry(memory, 7, open(), 1));
        pair.put_with(7, b"four", 0, Some(AckKind::Full));
        assert_eq!(pair.ct(0), sent);
        pair.get(7, 0, 2).unwrap();
        assert_eq!(pair.ct(0), replied);
    }
}

#[test]
fn entries_count_operations_or_bytes() {
    for (ct_bytes, counted) in [(false, 2), (true, 6)] {
        let mut pair = Pair::new();
        let memory = pair.alloc(1, &[0; 4]);
        let options = MeOptions { ct_comm: true, ct_bytes, ..open() };
        let ct = Some(pair.sides[1].ct);
        pair.append(List::Priority, MeSpec { ct, ..entry(memory, 7, options, 1) });
        pair.put(7, b"too long");
        pair.get(7, 2, 2).unwrap();
        assert_eq!(pair.ct(1), (counted, 0));
    }
}

#[test]
fn a_get_is_answered_with_what_the_entry_has() {
    let mut pair = Pair::new();
    let memory = pair.alloc(1, b"0123456789");
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    let into = pair.get(7, 2, 4).unwrap();
    assert_eq!(pair.bytes(0, into), b"2345");
    assert_eq!(pair.happened(0), [(Reply, 600, 4)]);
    assert_eq!(pair.happened(1), [(Get, 1, 4)]);

    let beyond = pair.get(7, 8, 4).unwrap();
    assert_eq!(pair.bytes(0, beyond), b"89\0\0");
    assert_eq!(pair.happened(0), [(Reply, 600, 2)]);
    let far = pair.get(7, u64::MAX, 4).unwrap();
    assert_eq!(pair.bytes(0, far), [0; 4]);
    assert_eq!(pair.happened(0), [(Reply, 600, 0)]);
    assert_eq!(pair.sides[0].ni.links().reply_slots_reserved(), 0);
}

/// Whoever is told of a get may use the memory for something else: the rail has read it.
#[test]
fn the_target_of_a_get_is_told_when_its_memory_was_read() {
    let mode = Mode { pending_percent: 100, ..Mode::default() };
    let mut pair = Pair::with(&[roomy(); 2], mode, MdOptions::default());
    let memory = pair.alloc(1, &pattern(16, 2));
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    let into = pair.issue_get(0, 7, 0, 16);
    for event in [NetEvent::Deliver(0, 1), NetEvent::Write(1, 0)] {
        pair.happen(event);
        assert_eq!(pair.happened(1), []);
    }
    let events = pair.sides[0].port.net().events();
    let is_report = |event: &NetEvent| matches!(event, NetEvent::Transmitted(1, _));
    pair.happen(events.into_iter().find(is_report).expect("the rail reports"));
    assert_eq!(pair.happened(1), [(EventKind::Get, 1, 16)]);
    pair.settle();
    assert_eq!(pair.bytes(0, into), pattern(16, 2));
    pair.assert_quiet();
}

#[test]
fn a_get_that_is_not_allowed_or_matches_nothing_brings_nothing() {
    let mut pair = Pair::new();
    let memory = pair.alloc(1, b"0123456789");
    let no_gets = MeOptions { op_put: true, use_once: true, ..MeOptions::default() };
    pair.append(List::Priority, entry(memory, 7, no_gets, 1));
    pair.append(List::Priority, entry(memory, 7, open(), 2));
    for (bits, why) in [(7, NiFail::OpViolation), (8, NiFail::NoMatch)] {
        let into = pair.get(bits, 0, 4).unwrap();
        assert_eq!(pair.bytes(0, into), [0; 4]);
        let events = pair.events(0);
        assert_eq!((events[0].kind, events[0].mlength, events[0].outcome), (Reply, 0, Err(why)));
    }
    assert_eq!(pair.sides[1].ni.status().operation_violations, 1);
    pair.put(7, b"it is still linked");
    assert_eq!(pair.happened(1)[0], (Put, 1, 10));
}

#[test]
fn a_get_longer_than_its_reply_may_be_is_refused() {
    let layouts = [layout(2, 20, 4, 4, 4), roomy()];
    let mut pair = Pair::with(&layouts, Mode::default(), MdOptions::default());
    let memory = pair.alloc(1, &[1; 500]);
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    // Half of four slots: one for the header, one for the data.
    assert_eq!(pair.sides[0].ni.get_bytes_max(), 64);
    let refused = pair.get(7, 0, 65).unwrap_err();
    assert_eq!(refused, PtlError::ArgInvalid("a get's reply must fit the reply region"));
    assert_eq!(pair.sides[0].ni.links().reply_slots_reserved(), 0);
    pair.get(7, 0, 64).unwrap();
    assert_eq!(pair.happened(0), [(Reply, 600, 64)]);
}

#[test]
fn a_direct_get_asks_the_target_for_nothing() {
    let mut pair = Pair::new();
    let memory = pair.alloc(1, b"0123456789");
    let into = pair.alloc(0, &[0; 4]);
    let target =
        Target { peer: PeerId(1), pt_index: PT, match_bits: MatchBits(7), remote_offset: 3 };
    let key = pair.sides[1].port.expose(PeerId(0), memory, Rights::READ);
    let Side { ni, port, md, .. } = &mut pair.sides[0];
    ni.get(port, *md, into.addr.0, 4, &target, Some(key), 600).unwrap();
    let (read, outcome) = port.net_mut().end_read(0);
    ni.on_moved(port, read.token, outcome);
    pair.sides[1].port.revoke(PeerId(0), key);
    assert_eq!(pair.bytes(0, into), b"3456");
    assert_eq!(pair.happened(0), [(Reply, 600, 4)]);
    assert_eq!(pair.sides[0].port.net().log.len(), 0);
}

#[test]
fn a_get_done_unlinks_the_entry_of_its_reader_only() {
    let mut pair = Pair::new();
    let memory = pair.alloc(1, b"0123456789");
    let done = MeOptions { get_done: true, ..open() };
    let other = MeSpec { source: Some(PeerId(1)), ..entry(memory, 7, done, 1) };
    let right = MeSpec { source: Some(PeerId(0)), ..entry(memory, 7, done, 2) };
    let puts = MeOptions { op_put: true, ..MeOptions::default() };
    pair.append(List::Priority, entry(memory, 8, puts, 3));
    pair.append(List::Priority, other);
    pair.append(List::Priority, right);
    for bits in [8, 7, 7] {
        let target =
            Target { peer: PeerId(1), pt_index: PT, match_bits: MatchBits(bits), remote_offset: 0 };
        let Side { ni, port, .. } = &mut pair.sides[0];
        ni.get_done(port, &target, 10, sluice_wire::Status::Ok).unwrap();
        pair.run();
    }
    assert_eq!(pair.happened(1), [(GetDone, 2, 10)]);
}

#[test]
fn sends_are_reported_when_the_memory_is_free() {
    for percent in [0, 100] {
        let mode = Mode { pending_percent: percent, ..Mode::default() };
        let mut pair = Pair::with(&[roomy(); 2], mode, MdOptions::default());
        let memory = pair.alloc(1, &[0; 4]);
        pair.append(List::Priority, entry(memory, 7, open(), 1));
        pair.put_from(0, 7, b"four", 0, Some(AckKind::Full));
        assert_eq!(pair.happened(0).len(), usize::from(percent == 0));
        pair.run();
        let last = pair.happened(0);
        assert_eq!(last.last(), Some(&(Ack, 500, 4)));
        assert_eq!(last.len(), 1 + usize::from(percent == 100));
        assert!(percent == 0 || last[0] == (Send, 500, 4));
    }
}

#[test]
fn acknowledgements_that_wait_keep_the_credits_of_their_puts() {
    let layouts = [layout(2, 20, 1, 4, 4), roomy()];
    let mut pair = Pair::with(&layouts, Mode::default(), MdOptions::default());
    let memory = pair.alloc(1, &[0; 4]);
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    for _ in 0..4 {
        pair.put_from(0, 7, b"four", 0, Some(AckKind::Full));
        pair.happen(pair::net::Event::Deliver(0, 1));
    }
    assert_eq!(pair.sides[1].ni.owed_now(), 3);
    assert_eq!(pair.sides[1].ni.links().slots_held(), 3);
    for _ in 0..8 {
        pair.run();
        for side in &mut pair.sides {
            side.ni.on_idle(&mut side.port);
        }
    }
    assert_eq!(acks(&mut pair).len(), 4);
    assert_eq!(pair.sides[1].ni.links().slots_held(), 0);
}

#[test]
fn an_event_queue_drops_what_does_not_fit_and_says_so() {
    let mut pair = Pair::new();
    let eq = pair.sides[1].ni.eq_alloc(2).unwrap();
    let index = PtIndex(9);
    pair.sides[1].ni.pt_alloc(index, PtOptions::default(), Some(eq)).unwrap();
    let spec = MeSpec { options: open(), ..entry(Region::EMPTY, 0, open(), 1) };
    for user_ptr in 1..=3 {
        let side = &mut pair.sides[1];
        let spec = MeSpec { user_ptr, ..spec };
        side.ni.me_append(&mut side.port, index, List::Priority, spec).unwrap();
    }
    let mut take = || match pair.sides[1].ni.eq_take(eq) {
        EqTaken::Empty => (0, false),
        EqTaken::Event(event) => (event.user_ptr, false),
        EqTaken::EventAfterDrop(event) => (event.user_ptr, true),
    };
    // The mark comes with the next event taken, as PTL_EQ_DROPPED does.
    assert_eq!([take(), take(), take()], [(1, true), (2, false), (0, false)]);
}

#[test]
fn stale_and_wrong_arguments_are_refused() {
    let mut pair = Pair::new();
    let ni = &mut pair.sides[1].ni;
    assert_eq!(ni.pt_alloc(PT, PtOptions::default(), None), Err(PtlError::PtInUse));
    let beyond = Err(PtlError::ArgInvalid("portal table index beyond the limit"));
    assert_eq!(ni.pt_alloc(PtIndex(64), PtOptions::default(), None), beyond);
    let stale: Handle<Eq> = Handle::from_u64(77);
    assert_eq!(
        ni.pt_alloc(PtIndex(9), PtOptions::default(), Some(stale)),
        Err(PtlError::ArgInvalid("event queue"))
    );
    assert_eq!(ni.eq_take(stale), EqTaken::Empty);
    let ct: Handle<Ct> = Handle::from_u64(77);
    assert!(!ni.ct_free(ct) && ni.ct(ct).is_none());

    let small = Region { addr: Addr(16), len: 8 };
    let md = pair.sides[0].ni.md_bind(small, None, None, None, MdOptions::default()).unwrap();
    let target =
        Target { peer: PeerId(1), pt_index: PT, match_bits: MatchBits(7), remote_offset: 0 };
    let Side { ni, port, .. } = &mut pair.sides[0];
    for (offset, len) in [(0, 9), (9, 0), (u64::MAX, 2)] {
        let put = ni.put(port, md, offset, len, &target, &PutExtras::default(), 0);
        assert_eq!(put, Err(PtlError::ArgInvalid("beyond the memory descriptor")));
    }
    assert_eq!(ni.md_release(md), Ok(()));
    let put = ni.put(port, md, 0, 1, &target, &PutExtras::default(), 0);
    assert_eq!(put, Err(PtlError::ArgInvalid("memory descriptor")));
}

#[test]
fn limits_are_limits() {
    let limits = Limits {
        entries_max: 1,
        eqs_max: 1,
        cts_max: 1,
        mds_max: 1,
        vectors_max: 1,
        ..Limits::default()
    };
    let mut ni = Ni::new(limits, roomy());
    let mut port = Pair::new().sides[0].port.clone();
    ni.pt_alloc(PT, PtOptions::default(), None).unwrap();
    let spec = entry(Region::EMPTY, 7, open(), 1);
    ni.me_append(&mut port, PT, List::Priority, spec).unwrap();
    let full = ni.me_append(&mut port, PT, List::Priority, spec).map(|_| ());
    assert_eq!(full, Err(PtlError::NoSpace("match list entries")));
    ni.eq_alloc(1).unwrap();
    assert_eq!(ni.eq_alloc(1).map(|_| ()), Err(PtlError::NoSpace("event queues")));
    ni.ct_alloc().unwrap();
    assert_eq!(ni.ct_alloc().map(|_| ()), Err(PtlError::NoSpace("counters")));
    let bind = |ni: &mut Ni| ni.md_bind(Region::EMPTY, None, None, None, MdOptions::default());
    let md = bind(&mut ni).unwrap();
    assert_eq!(bind(&mut ni).map(|_| ()), Err(PtlError::NoSpace("memory descriptors")));
    ni.md_release(md).unwrap();
    bind(&mut ni).unwrap();
    let vector = |ni: &mut Ni| ni.vector_bind(Vector::new(vec![Region::EMPTY]).unwrap());
    vector(&mut ni).unwrap();
    assert_eq!(vector(&mut ni).map(|_| ()), Err(PtlError::NoSpace("I/O vectors")));
    let limits = Limits { list_size_max: 1, ..Limits::default() };
    let mut ni = Ni::new(limits, roomy());
    ni.pt_alloc(PT, PtOptions::default(), None).unwrap();
    ni.me_append(&mut port, PT, List::Priority, spec).unwrap();
    let long = ni.me_append(&mut port, PT, List::Priority, spec).map(|_| ());
    assert_eq!(long, Err(PtlError::ListTooLong));
    ni.me_append(&mut port, PT, List::Overflow, spec).unwrap();
}
