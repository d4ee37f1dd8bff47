//! Operations that wait for a counter: which go when, in which order, and what
//! becomes of them otherwise.

use crate::pair;
use crate::pair::net::{Mode, roomy};
use crate::pair::{Pair, Side, entry, open, program_limits, target};
use sluice_portals::{
    Arithmetic, Command, Ct, CtEvent, EventKind, Handle, Limits, List, Local, MdOptions, MeOptions,
    MeSpec, PtlError,
};
use sluice_wire::{AckKind, Addr, AtomicOp, Datatype, Region};

use EventKind::{Put, Send};

fn by(success: u64) -> CtEvent {
    CtEvent { success, failure: 0 }
}

fn new_ct(pair: &mut Pair) -> Handle<Ct> {
    pair.sides[0].ni.ct_alloc().unwrap()
}

fn inc(pair: &mut Pair, ct: Handle<Ct>, success: u64) {
    pair.issue(0, &Command::CtInc { ct, by: by(success) }).unwrap();
}

fn trigger(
    pair: &mut Pair,
    command: Command,
    ct: Handle<Ct>,
    threshold: u64,
) -> Result<(), PtlError> {
    let Side { ni, port, .. } = &mut pair.sides[0];
    let triggered = ni.trigger(port, command, ct, threshold);
    ni.check_invariants();
    triggered
}

/// A put of one byte, which is also its user pointer.
fn put(pair: &Pair, number: u8) -> Command {
    let region = pair.alloc(0, &[number]);
    Command::Put {
        from: pair.local(0, region),
        ack: None,
        target: target(1, 7, 0),
        hdr_data: u64::from(number),
        user_ptr: u64::from(number),
    }
}

/// With an entry that takes everything.
fn ready() -> (Pair, Region) {
    ready_with(MdOptions::default(), program_limits())
}

fn ready_with(options: MdOptions, limits: Limits) -> (Pair, Region) {
    let mut pair = Pair::with_limits(&[roomy(); 2], Mode::default(), options, limits);
    let memory = pair.alloc(1, &[0; 64]);
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    (pair, memory)
}

/// Out-of-band data of what arrived, in order.
fn arrived(pair: &mut Pair) -> Vec<u64> {
    pair.settle();
    pair.events(1).into_iter().map(|event| event.hdr_data).collect()
}

#[test]
fn every_kind_of_operation_waits_for_its_counter() {
    let (mut pair, memory) = ready();
    let (ct, other) = (new_ct(&mut pair), new_ct(&mut pair));
    let values = pair.alloc(0, &5_u64.to_le_bytes());
    let landing = [0, 1].map(|_| pair.alloc(0, &[0; 8]));
    let arithmetic = Arithmetic { op: AtomicOp::Sum, datatype: Datatype::Uint64, operand: [0; 32] };
    let from = pair.local(0, values);
    let into = landing.map(|region| pair.local(0, region));
    let target = target(1, 7, 0);
    let (ack, hdr_data, user_ptr) = (Some(AckKind::Full), 0, 9);
    let commands = [
        Command::Put { from, ack, target, hdr_data, user_ptr },
        Command::Atomic { from, ack, target, hdr_data, user_ptr, arithmetic },
        Command::Fetch { into: into[0], from, target, hdr_data, user_ptr, arithmetic },
        Command::Get { into: into[1], target, user_ptr },
        Command::CtInc { ct: other, by: by(3) },
        Command::CtSet { ct: other, to: by(40) },
    ];
    for (at, command) in commands.into_iter().enumerate() {
        trigger(&mut pair, command, ct, 1 + at as u64).unwrap();
    }
    pair.settle();
    assert_eq!(pair.events(0), [], "nothing is due");
    for step in 1..=6 {
        inc(&mut pair, ct, 1);
        pair.settle();
        let kinds: Vec<_> = pair.happened(1).iter().map(|(kind, ..)| *kind).collect();
        let expected = match step {
            1 => vec![Put],
            2 => vec![EventKind::Atomic],
            3 => vec![EventKind::FetchAtomic],
            4 => vec![EventKind::Get],
            _ => vec![],
        };
        assert_eq!(kinds, expected);
    }
    assert_eq!(pair.bytes(1, memory)[..8], 15_u64.to_le_bytes());
    assert_eq!(pair.bytes(0, landing[0]), 10_u64.to_le_bytes());
    assert_eq!(pair.bytes(0, landing[1]), 15_u64.to_le_bytes());
    assert_eq!(pair.sides[0].ni.ct(other), Some(by(40)), "added to, then set");
    pair.assert_quiet();
}

#[test]
fn equal_thresholds_keep_the_order_and_lower_ones_go_first() {
    let (mut pair, _) = ready();
    let ct = new_ct(&mut pair);
    for (number, threshold) in [(1, 5), (2, 3), (3, 5), (4, 3), (5, 4), (6, 9)] {
        let command = put(&pair, number);
        trigger(&mut pair, command, ct, threshold).unwrap();
    }
    inc(&mut pair, ct, 5);
    assert_eq!(arrived(&mut pair), [2, 4, 5, 1, 3]);
    inc(&mut pair, ct, 4);
    assert_eq!(arrived(&mut pair), [6]);
}

#[test]
fn what_is_posted_late_goes_at_once() {
    let (mut pair, _) = ready();
    let ct = new_ct(&mut pair);
    inc(&mut pair, ct, 5);
    for (number, threshold) in [(1, 5), (2, 0), (3, 6)] {
        let command = put(&pair, number);
        trigger(&mut pair, command, ct, threshold).unwrap();
    }
    assert_eq!(arrived(&mut pair), [1, 2]);
}

#[test]
fn failures_count_toward_a_threshold() {
    let (mut pair, _) = ready();
    let ct = new_ct(&mut pair);
    let command = put(&pair, 1);
    trigger(&mut pair, command, ct, 2).unwrap();
    inc(&mut pair, ct, 1);
    let failure = CtEvent { success: 0, failure: 1 };
    pair.issue(0, &Command::CtInc { ct, by: failure }).unwrap();
    assert_eq!(arrived(&mut pair), [1]);
    let both = CtEvent { success: 1, failure: 1 };
    let refused = pair.issue(0, &Command::CtInc { ct, by: both });
    assert!(matches!(refused, Err(PtlError::ArgInvalid(_))));
}

#[test]
fn setting_a_counter_triggers_and_may_lower_it_again() {
    let (mut pair, _) = ready();
    let ct = new_ct(&mut pair);
    for (number, threshold) in [(1, 4), (2, 4)] {
        let command = put(&pair, number);
        trigger(&mut pair, command, ct, threshold).unwrap();
    }
    pair.issue(0, &Command::CtSet { ct, to: by(4) }).unwrap();
    assert_eq!(arrived(&mut pair), [1, 2]);
    pair.issue(0, &Command::CtSet { ct, to: by(0) }).unwrap();
    let command = put(&pair, 3);
    trigger(&mut pair, command, ct, 1).unwrap();
    assert_eq!(arrived(&mut pair), []);
}

#[test]
fn a_triggered_reset_of_its_own_counter_holds_back_what_comes_after() {
    let (mut pair, _) = ready();
    let ct = new_ct(&mut pair);
    trigger(&mut pair, Command::CtSet { ct, to: by(0) }, ct, 2).unwrap();
    let command = put(&pair, 1);
    trigger(&mut pair, command, ct, 2).unwrap();
    inc(&mut pair, ct, 2);
    assert_eq!(arrived(&mut pair), []);
    assert_eq!(pair.sides[0].ni.ct(ct), Some(by(0)));
    inc(&mut pair, ct, 2);
    assert_eq!(arrived(&mut pair), [1]);
}

/// One command takes a counter over a threshold, the next sets it back: what waited for
/// the threshold goes all the same, and before what the first counter sets off later.
#[test]
fn a_threshold_that_is_passed_and_set_back_at_once_counts() {
    let (mut pair, _) = ready();
    let (first, second) = (new_ct(&mut pair), new_ct(&mut pair));
    trigger(&mut pair, Command::CtInc { ct: second, by: by(5) }, first, 1).unwrap();
    trigger(&mut pair, Command::CtSet { ct: second, to: by(0) }, first, 1).unwrap();
    for (number, ct, threshold) in [(2, first, 1), (1, second, 5), (3, second, 6)] {
        let command = put(&pair, number);
        trigger(&mut pair, command, ct, threshold).unwrap();
    }
    inc(&mut pair, first, 1);
    assert_eq!(arrived(&mut pair), [1, 2]);
    assert_eq!(pair.sides[0].ni.ct(second), Some(by(0)));
}

/// One report makes two counters due, and what the first sets off sets the second back: what
/// waits there goes all the same.
#[test]
fn what_is_due_goes_before_another_counter_sets_it_back() {
    let (mut pair, _) = ready();
    let [first, second, third] = [(); 3].map(|()| new_ct(&mut pair));
    trigger(&mut pair, Command::CtSet { ct: second, to: by(0) }, first, 1).unwrap();
    trigger(&mut pair, Command::CtInc { ct: third, by: by(1) }, second, 1).unwrap();
    for ct in [first, second] {
        let region = pair.alloc(0, &[0; 4]);
        let counted = MdOptions { ct_reply: true, ..MdOptions::default() };
        let whole = Region { addr: Addr(0), len: u64::MAX };
        let md = pair.sides[0].ni.md_bind(whole, None, None, Some(ct), counted).unwrap();
        let into = Local { md, offset: region.addr.0, length: region.len };
        pair.issue(0, &Command::Get { into, target: target(1, 7, 0), user_ptr: 0 }).unwrap();
    }
    // Both gets fail at once.
    pair.kill(1);
    let counts = [first, second, third].map(|ct| pair.sides[0].ni.ct(ct));
    assert_eq!(counts, [CtEvent { success: 0, failure: 1 }, by(0), by(1)].map(Some));
}

/// A counter in a chain is set back by the end of it: what comes after waits.
#[test]
fn a_chain_that_sets_its_beginning_back_holds_back_what_comes_after() {
    let (mut pair, _) = ready();
    let (first, second) = (new_ct(&mut pair), new_ct(&mut pair));
    trigger(&mut pair, Command::CtInc { ct: second, by: by(5) }, first, 1).unwrap();
    trigger(&mut pair, Command::CtSet { ct: first, to: by(0) }, second, 5).unwrap();
    let command = put(&pair, 1);
    trigger(&mut pair, command, first, 1).unwrap();
    inc(&mut pair, first, 1);
    assert_eq!(arrived(&mut pair), []);
    inc(&mut pair, first, 1);
    assert_eq!(arrived(&mut pair), [1]);
}

#[test]
fn a_chain_of_counters_runs_to_its_end() {
    let (mut pair, _) = ready();
    let cts: Vec<_> = (0..50).map(|_| new_ct(&mut pair)).collect();
    for pair_of in cts.windows(2) {
        let command = Command::CtInc { ct: pair_of[1], by: by(1) };
        trigger(&mut pair, command, pair_of[0], 1).unwrap();
    }
    let command = put(&pair, 1);
    trigger(&mut pair, command, cts[49], 1).unwrap();
    inc(&mut pair, cts[0], 1);
    assert_eq!(arrived(&mut pair), [1]);
}

#[test]
fn the_ends_of_operations_trigger_others() {
    // Each put goes when the one before is acknowledged.
    let options = MdOptions { ct_ack: true, ..MdOptions::default() };
    let (mut pair, _) = ready_with(options, program_limits());
    let ct = pair.sides[0].ct;
    for number in 1..=4 {
        let Command::Put { from, target, hdr_data, user_ptr, .. } = put(&pair, number) else {
            unreachable!()
        };
        let ack = Some(AckKind::Count);
        let command = Command::Put { from, ack, target, hdr_data, user_ptr };
        trigger(&mut pair, command, ct, u64::from(number) - 1).unwrap();
        assert_eq!(pair.sides[0].port.net().flights(0, 1).count(), 1, "only the first goes");
    }
    assert_eq!(arrived(&mut pair), [1, 2, 3, 4]);
    pair.assert_quiet();
}

#[test]
fn what_arrives_triggers_an_answer() {
    let (mut pair, _) = ready();
    let memory = pair.alloc(1, b"answer");
    let ct = pair.sides[1].ct;
    let counting = MeOptions { ct_comm: true, ct_bytes: true, ..open() };
    let landing = pair.alloc(1, &[0; 64]);
    pair.append(List::Priority, MeSpec { ct: Some(ct), ..entry(landing, 8, counting, 2) });
    let Side { ni, port, eq, .. } = &mut pair.sides[0];
    let home = port.alloc(&[0; 6]);
    ni.me_append(port, pair::PT, List::Priority, entry(home, 9, open(), 3)).unwrap();
    let _ = eq;
    let command = Command::Put {
        from: pair.local(1, memory),
        ack: None,
        target: target(0, 9, 0),
        hdr_data: 0,
        user_ptr: 4,
    };
    let Side { ni, port, .. } = &mut pair.sides[1];
    // The idiom of a rendezvous: more bytes than one message of the limit.
    ni.trigger(port, command, ct, 65).unwrap();
    pair.issue_put(0, 8, &[1; 64], None);
    pair.settle();
    assert_eq!(pair.bytes(0, home), [0; 6]);
    pair.issue_put(0, 8, &[1; 1], None);
    pair.settle();
    assert_eq!(pair.bytes(0, home), b"answer");
    pair.assert_quiet();
}

#[test]
fn cancelled_operations_leave_nothing_and_the_counter_goes_on() {
    let (mut pair, _) = ready();
    let ct = new_ct(&mut pair);
    for number in 1..4 {
        let command = put(&pair, number);
        trigger(&mut pair, command, ct, 1).unwrap();
    }
    pair.sides[0].ni.ct_cancel_triggered(ct).unwrap();
    inc(&mut pair, ct, 1);
    assert_eq!(arrived(&mut pair), []);
    assert_eq!(pair.events(0), []);
    let command = put(&pair, 9);
    trigger(&mut pair, command, ct, 2).unwrap();
    inc(&mut pair, ct, 1);
    assert_eq!(arrived(&mut pair), [9]);

    let command = put(&pair, 10);
    trigger(&mut pair, command, ct, 10).unwrap();
    assert!(pair.sides[0].ni.ct_free(ct), "with what waits for it");
    pair.sides[0].ni.check_invariants();
    let stale = Err(PtlError::ArgInvalid("counter"));
    assert_eq!(pair.sides[0].ni.ct_cancel_triggered(ct), stale);
    let command = put(&pair, 10);
    assert_eq!(trigger(&mut pair, command, ct, 0), stale);
}

#[test]
fn beyond_the_limit_there_is_no_space_and_nothing_changes() {
    let limits = Limits { triggered_ops_max: 2, ..program_limits() };
    let (mut pair, _) = ready_with(MdOptions::default(), limits);
    let ct = new_ct(&mut pair);
    let commands = [1, 2, 3].map(|number| put(&pair, number));
    trigger(&mut pair, commands[0], ct, 1).unwrap();
    trigger(&mut pair, commands[1], ct, 2).unwrap();
    let no_space = Err(PtlError::NoSpace("triggered operations"));
    assert_eq!(trigger(&mut pair, commands[2], ct, 3), no_space);
    inc(&mut pair, ct, 1);
    trigger(&mut pair, commands[2], ct, 3).unwrap();
    inc(&mut pair, ct, 2);
    assert_eq!(arrived(&mut pair), [1, 2, 3]);
    let command = put(&pair, 4);
    trigger(&mut pair, command, ct, 9).unwrap();
    trigger(&mut pair, command, ct, 9).unwrap();
    pair.sides[0].ni.ct_cancel_triggered(ct).unwrap();
    trigger(&mut pair, command, ct, 0).unwrap();
    assert_eq!(arrived(&mut pair), [4]);
}

#[test]
fn an_operation_whose_descriptor_was_released_is_void() {
    let (mut pair, _) = ready();
    let ct = new_ct(&mut pair);
    let region = pair.alloc(0, b"gone");
    let from = pair.vector_md(0, &[region], MdOptions::default());
    let (ack, target) = (Some(AckKind::Full), target(1, 7, 0));
    let command = Command::Put { from, ack, target, hdr_data: 1, user_ptr: 1 };
    trigger(&mut pair, command, ct, 1).unwrap();
    pair.sides[0].ni.md_release(from.md).expect("a triggered operation holds nothing");
    let command = put(&pair, 2);
    trigger(&mut pair, command, ct, 1).unwrap();
    inc(&mut pair, ct, 1);
    assert_eq!(arrived(&mut pair), [2]);
    assert_eq!(pair.happened(0), [(Send, 2, 1)]);
    pair.assert_quiet();
}

/// Triggered operations asked for no room among the operations, and found the
/// table full.
#[test]
fn more_triggered_operations_than_may_be_under_way_wait() {
    let limits = Limits { operations_max: 2, ..program_limits() };
    let mut pair = Pair::with_limits(&[roomy(); 2], Mode::default(), MdOptions::default(), limits);
    let memory = pair.alloc(1, &[0; 64]);
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    let ct = new_ct(&mut pair);
    for number in 1..=6 {
        let Command::Put { from, target, hdr_data, user_ptr, .. } = put(&pair, number) else {
            unreachable!()
        };
        let ack = Some(AckKind::Full);
        trigger(&mut pair, Command::Put { from, ack, target, hdr_data, user_ptr }, ct, 1).unwrap();
    }
    inc(&mut pair, ct, 1);
    assert_eq!(pair.sides[0].ni.waiting_now(), 4);
    assert_eq!(arrived(&mut pair), [1, 2, 3, 4, 5, 6]);
    assert_eq!(pair.happened(0).len(), 12);
    pair.assert_quiet();
}
