//! A process killed at every step of a write stops nobody else.

use super::super::ring::Step;
use super::child::{Child, LAST_SLOTS, PORTIONED_BYTES, WHOLE_PACKETS, put_slots, stream_packet};
use super::stress::check_stream;
use super::{Recorder, code_of, open, poll_until, put, send, send_credit};
use sluice_link::{PeerError, Transport};

const LIVE_PACKETS: u64 = 2000;

fn kill_at(step: Step) {
    let mut shm = open();
    let mut machine = Recorder::default();
    let live = Child::run("stream", &shm, LIVE_PACKETS as i64, None);
    let dying = Child::run("die", &shm, i64::from(code_of(step)), None);
    let (mut from_live, mut from_dying) = (0, 0);
    poll_until(&mut shm, &mut machine, "both to end", |shm, machine| {
        for arrived in std::mem::take(&mut machine.packets) {
            if shm.peers.get(arrived.from).unwrap().card.as_ref().unwrap().pid == live.pid() {
                shm.connect(arrived.from).unwrap();
                assert_eq!(arrived.put().match_bits.0, from_live);
                assert_eq!(arrived.payload, stream_packet(from_live).0);
                from_live += 1;
                send_credit(shm, arrived.from, put_slots(arrived.payload.len()) as u16);
            } else {
                assert_eq!(arrived.put().match_bits.0, from_dying);
                from_dying += 1;
            }
        }
        machine.gone.len() == 2
    });
    assert_eq!(from_live, LIVE_PACKETS);
    let published = u64::from(step == Step::Published);
    assert_eq!(from_dying, WHOLE_PACKETS + published, "{step:?}");
    let hole = if matches!(step, Step::Intent | Step::Published) { 0 } else { LAST_SLOTS };
    assert_eq!(shm.stats().holes_skipped, hole, "{step:?}");
    assert_eq!(shm.stats().violations, 0);
    assert!(machine.gone.iter().all(|&(_, why)| why == PeerError::Dead));
    let gone: Vec<String> = machine.gone.iter().map(|&(peer, _)| shm.describe(peer)).collect();
    assert!(gone.contains(&format!("pid {}", dying.pid())));
    assert_eq!(shm.stats().peers_attached, 0, "what was mapped is unmapped");
    assert!(!shm.is_sender(machine.gone[0].0), "its entry is free again");
}

#[test]
fn killed_before_reserving() {
    kill_at(Step::Intent);
}

#[test]
fn killed_with_slots_that_nobody_knows_of() {
    kill_at(Step::Reserved);
}

#[test]
fn killed_before_the_first_slot_is_written() {
    kill_at(Step::Positioned);
}

#[test]
fn killed_within_its_payload() {
    for slots in [1, LAST_SLOTS as u32 - 1] {
        kill_at(Step::Filled(slots));
    }
}

#[test]
fn killed_before_the_stamp() {
    kill_at(Step::Unstamped);
}

#[test]
fn killed_after_publishing() {
    kill_at(Step::Published);
}

/// What it had told of arrives: whole, or not at all.
#[test]
fn killed_between_two_portions() {
    for portions in 1..=5 {
        kill_between_portions("die in portions", portions);
    }
}

/// Also where somebody has written that more portions are stored than ever were.
#[test]
fn killed_between_two_portions_whose_count_was_written_over() {
    kill_between_portions("die in miscounted portions", 1);
}

fn kill_between_portions(role: &str, portions: u32) {
    let mut shm = open();
    let mut machine = Recorder::default();
    let code = code_of(Step::Portion(portions));
    let _child = Child::run(role, &shm, i64::from(code), None);
    poll_until(&mut shm, &mut machine, "a packet", |_, machine| !machine.packets.is_empty());
    let peer = machine.packets.pop().unwrap().from;
    shm.connect(peer).unwrap();
    send(&mut shm, peer, put(0, 0), b"go on");
    poll_until(&mut shm, &mut machine, "its end", |_, machine| !machine.gone.is_empty());
    let is_whole = portions == 5;
    assert_eq!(machine.packets.len(), 1 + usize::from(is_whole), "{role} {portions}");
    assert_eq!(machine.packets[0].payload, [7; PORTIONED_BYTES]);
    assert!(machine.packets[1..].iter().all(|last| last.payload == [9; PORTIONED_BYTES]));
    assert_eq!(machine.cut, u64::from(!is_whole));
    assert_eq!(machine.gone, [(peer, PeerError::Dead)]);
    assert_eq!(shm.stats().violations, 0);
}

/// Entries of dead writers are used again, more often than there are any.
#[test]
fn entries_of_the_dead_are_used_again() {
    let config = super::Config { senders_max: 2, ..super::Config::default() };
    let mut shm = super::Shm::open(config).unwrap();
    for _ in 0..5 {
        let mut machine = Recorder::default();
        let _child = Child::run("die", &shm, i64::from(code_of(Step::Unstamped)), None);
        poll_until(&mut shm, &mut machine, "its end", |_, machine| !machine.gone.is_empty());
        assert_eq!(machine.packets.len() as u64, WHOLE_PACKETS);
    }
    assert_eq!(shm.stats().holes_skipped, 5 * LAST_SLOTS);
}

/// A normal end is one too: everything sent before it arrives before it.
#[test]
fn a_process_that_ends_in_peace_is_reported_after_its_last_packet() {
    let mut shm = open();
    let mut machine = Recorder::default();
    let child = Child::run("stream", &shm, 500, None);
    check_stream(&mut shm, &mut machine, &[&child], 500);
    poll_until(&mut shm, &mut machine, "its end", |_, machine| !machine.gone.is_empty());
}
