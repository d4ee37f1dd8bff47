//! Portal table entries that run out of something: with flow control they
//! disable themselves and say so once; without, they drop.

use crate::pair;
use crate::pair::net::{Event as NetEvent, Mode, roomy};
use crate::pair::{Pair, Side, entry, open, pattern, program_limits};
use sluice_portals::{
    EqTaken, Event, EventKind, Limits, List, MdOptions, MeOptions, NiFail, PtOptions, PtlError,
    SearchOp,
};
use sluice_wire::{AckKind, Packet, PtIndex, Region};

use EventKind::{Ack, AutoUnlink, PtDisabled, Put, PutOverflow, Reply, Send};

const DISABLED: Result<(), NiFail> = Err(NiFail::PtDisabled);

/// Side 1 has flow control, and a queue for so many events.
fn controlled(limits: Limits, events_max: usize) -> Pair {
    let layouts = [roomy(); 2];
    let mut pair = Pair::with_limits(&layouts, Mode::default(), MdOptions::default(), limits);
    let Side { ni, eq, .. } = &mut pair.sides[1];
    ni.pt_free(pair::PT).unwrap();
    *eq = ni.eq_alloc(events_max).unwrap();
    let flow = PtOptions { flow_control: true, ..PtOptions::default() };
    ni.pt_alloc(pair::PT, flow, Some(*eq)).unwrap();
    pair
}

fn outcomes_of(pair: &mut Pair, kind: EventKind) -> Vec<Result<(), NiFail>> {
    let events = pair.events(0).into_iter().filter(|event| event.kind == kind);
    events.map(|event| event.outcome).collect()
}

fn puts(pair: &mut Pair, count: usize) {
    for _ in 0..count {
        pair.issue_put(0, 7, b"four", Some(AckKind::Full));
        pair.settle();
    }
}

fn enable(pair: &mut Pair) {
    let Side { ni, port, .. } = &mut pair.sides[1];
    ni.pt_enable(port, pair::PT).unwrap();
}

#[test]
fn flow_control_needs_a_queue() {
    let mut pair = Pair::new();
    let flow = PtOptions { flow_control: true, ..PtOptions::default() };
    let ni = &mut pair.sides[1].ni;
    assert_eq!(ni.pt_alloc(PtIndex(9), flow, None), Err(PtlError::PtEqNeeded));
}

#[test]
fn what_matches_nothing_disables_once_until_enabled() {
    let mut pair = controlled(program_limits(), 100);
    puts(&mut pair, 3);
    assert_eq!(outcomes_of(&mut pair, Ack), [DISABLED; 3]);
    let events = pair.events(1);
    assert_eq!(events.len(), 1, "one event says so");
    let Event { kind, pt_index, outcome, .. } = events[0];
    assert_eq!((kind, pt_index, outcome), (PtDisabled, pair::PT, DISABLED));
    let memory = pair.alloc(1, &[0; 10]);
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    puts(&mut pair, 1);
    assert_eq!(outcomes_of(&mut pair, Ack), [DISABLED], "whatever would match now");
    enable(&mut pair);
    puts(&mut pair, 1);
    assert_eq!(outcomes_of(&mut pair, Ack), [Ok(())]);
    assert_eq!(pair.happened(1), [(Put, 1, 4)]);
    assert_eq!(pair.sides[1].ni.status().dropped, 4);
    pair.assert_quiet();
}

#[test]
fn every_kind_of_operation_is_told_that_the_entry_is_disabled() {
    for len in [4, 1000] {
        let mut pair = controlled(program_limits(), 100);
        let memory = pair.alloc(1, &[0; 10]);
        pair.append(List::Priority, entry(memory, 7, open(), 1));
        pair.sides[1].ni.pt_disable(pair::PT).unwrap();
        pair.issue_put(0, 7, &pattern(len, 1), Some(AckKind::Full));
        pair.issue_get(0, 7, 0, len as u64);
        pair.settle();
        let kinds = pair.outcomes(0);
        assert_eq!(kinds.len(), 3);
        assert!(kinds.contains(&(Send, len as u64, Ok(()))));
        assert!(kinds.contains(&(Ack, 0, DISABLED)));
        assert!(kinds.contains(&(Reply, 0, DISABLED)));
        assert_eq!(pair.events(1), [], "who disables it himself is told nothing");
        pair.assert_quiet();
    }
}

#[test]
fn too_many_headers_disable() {
    let limits = Limits { unexpected_headers_max: 2, ..program_limits() };
    let mut pair = controlled(limits, 100);
    let memory = pair.alloc(1, &[0; 100]);
    let managed = MeOptions { manage_local: true, ..open() };
    pair.append(List::Overflow, entry(memory, 7, managed, 1));
    puts(&mut pair, 4);
    assert_eq!(outcomes_of(&mut pair, Ack), [Ok(()), Ok(()), DISABLED, DISABLED]);
    assert_eq!(pair.happened(1), [(Put, 1, 4), (Put, 1, 4), (PtDisabled, 0, 0)]);
    // Priority entries need no header.
    let wanted = pair.alloc(1, &[0; 10]);
    pair.append(List::Priority, entry(wanted, 7, open(), 2));
    assert_eq!(pair.happened(1), [(PutOverflow, 2, 4), (PutOverflow, 2, 4)]);
    enable(&mut pair);
    puts(&mut pair, 3);
    assert_eq!(outcomes_of(&mut pair, Ack), [Ok(()); 3]);
    pair.assert_quiet();
}

#[test]
fn without_flow_control_too_many_headers_are_dropped() {
    let limits = Limits { unexpected_headers_max: 2, ..program_limits() };
    let layouts = [roomy(); 2];
    let mut pair = Pair::with_limits(&layouts, Mode::default(), MdOptions::default(), limits);
    let memory = pair.alloc(1, &[0; 100]);
    pair.append(List::Overflow, entry(memory, 7, open(), 1));
    puts(&mut pair, 4);
    let outcomes = outcomes_of(&mut pair, Ack);
    assert_eq!(outcomes[..2], [Ok(()); 2]);
    assert!(outcomes[2].is_err() && outcomes[3].is_err());
    assert_eq!(pair.happened(1), [(Put, 1, 4), (Put, 1, 4)]);
    assert_eq!(pair.sides[1].ni.status().dropped, 2);
    pair.assert_quiet();
}

#[test]
fn a_full_queue_disables_before_an_event_is_lost() {
    for events_max in 1..6 {
        let mut pair = controlled(program_limits(), events_max);
        let memory = pair.alloc(1, &[0; 10]);
        pair.append(List::Priority, entry(memory, 7, open(), 1));
        puts(&mut pair, 8);
        let taken = outcomes_of(&mut pair, Ack).iter().filter(|outcome| outcome.is_ok()).count();
        assert_eq!(taken, events_max);
        let mut kinds = vec![(Put, 1, 4); events_max];
        kinds.push((PtDisabled, 0, 0));
        assert_eq!(pair.happened(1), kinds, "the event that says so has a place of its own");
        enable(&mut pair);
        puts(&mut pair, 1);
        assert_eq!(pair.happened(1), [(Put, 1, 4)]);
        pair.assert_quiet();
    }
}

#[test]
fn places_are_counted_for_all_events_of_an_operation() {
    // The put and the unlinking need two.
    for (events_max, expected) in
        [(1, vec![(PtDisabled, 0, 0)]), (2, vec![(Put, 1, 4), (AutoUnlink, 1, 0)])]
    {
        let mut pair = controlled(program_limits(), events_max);
        let memory = pair.alloc(1, &[0; 10]);
        let once = MeOptions { use_once: true, ..open() };
        pair.append(List::Priority, entry(memory, 7, once, 1));
        puts(&mut pair, 1);
        assert_eq!(pair.happened(1), expected);
    }
    // Entries that tell nothing need none.
    let mut pair = controlled(program_limits(), 0);
    let memory = pair.alloc(1, &[0; 10]);
    let silent = MeOptions { event_comm_disable: true, ..open() };
    pair.append(List::Priority, entry(memory, 7, silent, 1));
    puts(&mut pair, 3);
    assert_eq!(outcomes_of(&mut pair, Ack), [Ok(()); 3]);
}

#[test]
fn without_flow_control_a_full_queue_loses_events_and_says_so() {
    let mut pair = controlled(program_limits(), 100);
    let Side { ni, eq, .. } = &mut pair.sides[1];
    ni.pt_free(pair::PT).unwrap();
    *eq = ni.eq_alloc(2).unwrap();
    ni.pt_alloc(pair::PT, PtOptions::default(), Some(*eq)).unwrap();
    let memory = pair.alloc(1, &[0; 10]);
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    puts(&mut pair, 4);
    assert_eq!(outcomes_of(&mut pair, Ack), [Ok(()); 4], "the data is there");
    let Side { ni, eq, .. } = &mut pair.sides[1];
    assert!(matches!(ni.eq_take(*eq), EqTaken::EventAfterDrop(_)));
    assert!(matches!(ni.eq_take(*eq), EqTaken::Event(_)));
    assert_eq!(ni.eq_take(*eq), EqTaken::Empty);
}

#[test]
fn data_on_its_way_has_its_places_and_delays_the_event() {
    let mut pair = controlled(program_limits(), 3);
    let memory = pair.alloc(1, &[0; 1000]);
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    pair.issue_put(0, 7, &pattern(800, 1), Some(AckKind::Full));
    // Announced, and being read.
    pair.happen(NetEvent::Deliver(0, 1));
    pair.issue_put(0, 8, b"nobody wants this", Some(AckKind::Full));
    pair.happen(NetEvent::Deliver(0, 1));
    assert!(pair.sides[1].ni.pt_is_active(pair::PT));
    assert_eq!(pair.events(1), [], "not while data moves");
    pair.settle();
    assert_eq!(pair.happened(1), [(Put, 1, 800), (PtDisabled, 0, 0)]);
    assert_eq!(pair.bytes(1, memory)[..800], pattern(800, 1));
    let acks = outcomes_of(&mut pair, Ack);
    assert!(acks.len() == 2 && acks.contains(&Ok(())) && acks.contains(&DISABLED));
    pair.assert_quiet();
}

#[test]
fn an_entry_enabled_before_the_event_is_due_tells_nothing() {
    let mut pair = controlled(program_limits(), 100);
    let memory = pair.alloc(1, &[0; 1000]);
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    pair.issue_put(0, 7, &pattern(800, 1), None);
    pair.happen(NetEvent::Deliver(0, 1));
    pair.issue_put(0, 8, b"nobody wants this", None);
    pair.happen(NetEvent::Deliver(0, 1));
    enable(&mut pair);
    pair.settle();
    assert_eq!(pair.happened(1), [(Put, 1, 800)]);
}

/// Three places were kept for each transfer whatever it could cause, so a
/// short queue looked full.
#[test]
fn a_transfer_keeps_no_more_places_than_it_needs() {
    let mut pair = controlled(program_limits(), 2);
    let memory = pair.alloc(1, &[0; 1000]);
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    pair.issue_put(0, 7, &pattern(800, 1), Some(AckKind::Full));
    pair.happen(NetEvent::Deliver(0, 1));
    pair.issue_put(0, 7, b"four", Some(AckKind::Full));
    pair.happen(NetEvent::Deliver(0, 1));
    pair.settle();
    assert_eq!(outcomes_of(&mut pair, Ack), [Ok(()); 2]);
    assert_eq!(pair.happened(1), [(Put, 1, 4), (Put, 1, 800)]);
}

#[test]
fn an_entry_may_keep_quiet_about_it() {
    let limits = Limits { unexpected_headers_max: 1, ..program_limits() };
    let mut pair = controlled(limits, 100);
    let memory = pair.alloc(1, &[0; 100]);
    let quiet = MeOptions { event_flowctrl_disable: true, ..open() };
    pair.append(List::Overflow, entry(memory, 7, quiet, 1));
    puts(&mut pair, 2);
    assert_eq!(outcomes_of(&mut pair, Ack), [Ok(()), DISABLED]);
    assert_eq!(pair.happened(1), [(Put, 1, 4)]);
}

#[test]
fn a_disabled_entry_is_appended_to_searched_and_answers_what_it_asked_for() {
    let mut pair = controlled(program_limits(), 100);
    let memory = pair.alloc(1, &[0; 100]);
    pair.append(List::Overflow, entry(memory, 7, open(), 1));
    puts(&mut pair, 1);
    pair.events(1);
    pair.sides[1].ni.pt_disable(pair::PT).unwrap();
    let Side { ni, port, .. } = &mut pair.sides[1];
    let wanted = entry(Region::EMPTY, 7, open(), 2);
    ni.me_search(port, pair::PT, SearchOp::Only, &wanted).unwrap();
    ni.me_append(port, pair::PT, List::Priority, wanted).unwrap();
    assert_eq!(pair.happened(1), [(EventKind::Search, 2, 4), (PutOverflow, 2, 4)]);
}

#[test]
fn an_entry_allocated_disabled_takes_nothing_before_it_is_enabled() {
    let mut pair = controlled(program_limits(), 100);
    let Side { ni, eq, .. } = &mut pair.sides[1];
    ni.pt_free(pair::PT).unwrap();
    let options = PtOptions { disabled: true, ..PtOptions::default() };
    ni.pt_alloc(pair::PT, options, Some(*eq)).unwrap();
    let memory = pair.alloc(1, &[0; 10]);
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    puts(&mut pair, 1);
    enable(&mut pair);
    puts(&mut pair, 1);
    assert_eq!(outcomes_of(&mut pair, Ack), [DISABLED, Ok(())]);
    let pulls = pair.packets(1, |packet| matches!(packet, Packet::Pull(_)));
    assert_eq!((pulls, pair.happened(1)), (0, vec![(Put, 1, 4)]));
}
