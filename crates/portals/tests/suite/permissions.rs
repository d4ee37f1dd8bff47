//! Who may do what to an entry, and what the registers and both sides are
//! told.

use crate::pair;
use crate::pair::net::Mode;
use crate::pair::{PT, Pair, Side, entry, open, pattern};
use sluice_portals::{EventKind, List, MdOptions, MeOptions, MeSpec, NiFail};
use sluice_wire::{AckKind, PeerId, Region};

use EventKind::{Ack, Put, Reply, Send};

fn status(pair: &Pair) -> (u64, u64, u64) {
    let status = pair.sides[1].ni.status();
    (status.dropped, status.permission_violations, status.operation_violations)
}

/// Outcomes of a put and of a get of `len` bytes, and all that side 1 is told.
fn attempt(pair: &mut Pair, len: usize) -> (Result<(), NiFail>, Result<(), NiFail>, usize) {
    pair.issue_put(0, 7, &pattern(len, 1), Some(AckKind::Full));
    pair.settle();
    let outcomes = pair.outcomes(0);
    assert_eq!(outcomes[0], (Send, len as u64, Ok(())), "the memory is free in any case");
    let (Ack, _, put) = outcomes[1] else { panic!("{outcomes:?}") };
    pair.issue_get(0, 7, 0, len as u64);
    pair.settle();
    let outcomes = pair.outcomes(0);
    let [(Reply, _, get)] = outcomes[..] else { panic!("{outcomes:?}") };
    pair.assert_quiet();
    (put, get, pair.events(1).len())
}

#[test]
fn an_entry_allows_what_its_options_say() {
    let violation = Err(NiFail::OpViolation);
    for len in [10, 500] {
        for list in [List::Priority, List::Overflow] {
            for (op_put, op_get) in [(true, true), (true, false), (false, true), (false, false)] {
                let mut pair = Pair::of_program(Mode::default());
                let memory = pair.alloc(1, &vec![0; 1000]);
                let options = MeOptions { op_put, op_get, ..MeOptions::default() };
                pair.append(list, entry(memory, 7, options, 1));
                let allowed = |allows| if allows { Ok(()) } else { violation };
                let told = usize::from(op_put) + usize::from(op_get);
                assert_eq!(attempt(&mut pair, len), (allowed(op_put), allowed(op_get), told));
                assert_eq!(status(&pair), (0, 0, 2 - told as u64));
                let written = pair.bytes(1, memory).iter().any(|&byte| byte != 0);
                assert_eq!(written, op_put);
            }
        }
    }
}

#[test]
fn a_refused_operation_uses_nothing_up() {
    let mut pair = Pair::of_program(Mode::default());
    let memory = pair.alloc(1, &[0; 100]);
    let options =
        MeOptions { op_get: true, use_once: true, manage_local: true, ..MeOptions::default() };
    pair.append(List::Priority, MeSpec { min_free: 100, ..entry(memory, 7, options, 1) });
    // The walk ends where it matches, though a later entry would allow it.
    pair.append(List::Priority, entry(memory, 7, open(), 2));
    pair.issue_put(0, 7, &[1; 50], Some(AckKind::Full));
    pair.settle();
    assert_eq!(pair.outcomes(0)[1], (Ack, 0, Err(NiFail::OpViolation)));
    assert_eq!(pair.events(1), []);
    let into = pair.issue_get(0, 7, 0, 100);
    pair.settle();
    assert_eq!(pair.bytes(0, into), [0; 100]);
    assert_eq!(pair.happened(1)[0], (EventKind::Get, 1, 100));
}

#[test]
fn an_entry_is_for_its_user() {
    for len in [10, 500] {
        let mut pair = Pair::of_program(Mode::default());
        let memory = pair.alloc(1, &[0; 1000]);
        // All processes of this network belong to user zero.
        pair.append(List::Priority, MeSpec { uid: Some(5), ..entry(memory, 7, open(), 1) });
        let violation = Err(NiFail::PermViolation);
        assert_eq!(attempt(&mut pair, len), (violation, violation, 0));
        assert_eq!(status(&pair), (0, 2, 0));
        assert_eq!(pair.bytes(1, memory), [0; 1000]);

        let mut pair = Pair::of_program(Mode::default());
        let memory = pair.alloc(1, &[0; 1000]);
        pair.append(List::Priority, MeSpec { uid: Some(0), ..entry(memory, 7, open(), 1) });
        assert_eq!(attempt(&mut pair, len), (Ok(()), Ok(()), 2));
        assert_eq!(status(&pair), (0, 0, 0));
    }
}

#[test]
fn who_does_not_match_has_not_asked() {
    let mut pair = Pair::of_program(Mode::default());
    let memory = pair.alloc(1, &[0; 100]);
    let other = MeSpec { source: Some(PeerId(1)), ..entry(memory, 7, MeOptions::default(), 1) };
    pair.append(List::Priority, other);
    assert_eq!(attempt(&mut pair, 10), (Err(NiFail::NoMatch), Err(NiFail::NoMatch), 0));
    assert_eq!(status(&pair), (2, 0, 0), "dropped, not refused");
}

#[test]
fn violations_count_as_failures_at_the_initiator_and_not_at_the_target() {
    let options =
        MdOptions { ct_ack: true, ct_reply: true, ct_bytes: true, ..MdOptions::default() };
    let limits = pair::program_limits();
    let layouts = [pair::net::roomy(); 2];
    let mut pair = Pair::with_limits(&layouts, Mode::default(), options, limits);
    let counting = MeOptions { ct_comm: true, ..MeOptions::default() };
    let ct = Some(pair.sides[1].ct);
    pair.append(List::Priority, MeSpec { ct, ..entry(Region::EMPTY, 7, counting, 1) });
    assert_eq!(attempt(&mut pair, 10).2, 0);
    assert_eq!(pair.ct(0), (0, 2));
    assert_eq!(pair.ct(1), (0, 0));
    pair.issue_put(0, 7, b"dropped", Some(AckKind::OperationCompleted));
    pair.settle();
    assert_eq!(pair.ct(0), (0, 2), "completed, with no bytes");
}

#[test]
fn a_message_that_would_be_cut_passes_an_entry_that_takes_only_whole_ones() {
    for len in [10, 500] {
        let mut pair = Pair::of_program(Mode::default());
        let memory = [0, 1].map(|_| pair.alloc(1, &vec![0; len]));
        let short = Region { len: memory[0].len - 1, ..memory[0] };
        let whole = MeOptions { no_truncate: true, ..open() };
        pair.append(List::Priority, entry(short, 7, whole, 1));
        pair.append(List::Priority, entry(memory[1], 7, whole, 2));
        assert_eq!(attempt(&mut pair, len), (Ok(()), Ok(()), 2));
        assert_eq!(pair.bytes(1, memory[1]), pattern(len, 1));
        pair.issue_put(0, 7, &vec![1; len + 1], Some(AckKind::Full));
        pair.settle();
        assert_eq!(pair.outcomes(0)[1], (Ack, 0, Err(NiFail::NoMatch)));
        assert_eq!(pair.events(1), []);
    }
}

#[test]
fn a_process_may_aim_at_itself() {
    for len in [10, 500] {
        let mut pair = Pair::of_program(Mode::default());
        let Side { ni, port, .. } = &mut pair.sides[1];
        let memory = port.alloc(&vec![0; len]);
        ni.me_append(port, PT, List::Priority, entry(memory, 7, open(), 1)).unwrap();
        pair.issue_put(1, 7, &pattern(len, 2), Some(AckKind::Full));
        pair.settle();
        assert_eq!(pair.bytes(1, memory), pattern(len, 2));
        let mut kinds: Vec<_> = pair.happened(1).iter().map(|(kind, ..)| *kind).collect();
        kinds.retain(|kind| *kind != Send);
        assert_eq!(kinds, [Put, Ack]);
        let into = pair.issue_get(1, 7, 0, len as u64);
        pair.settle();
        assert_eq!(pair.bytes(1, into), pattern(len, 2));
        pair.assert_quiet();
    }
}
