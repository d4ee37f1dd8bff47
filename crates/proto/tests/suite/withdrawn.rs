//! Sends that are cancelled.

use crate::world::net::{Event, Mode, layout};
use crate::world::{Process, World, pattern, recv_from, send_to};
use sluice_link::{Machine, PeerError};
use sluice_proto::{Cancelled, Config, Delivery, Failure, Pending, Send};
use sluice_wire::{Nanos, Region};

const CANCELLED: Result<(), Failure> = Err(Failure::Cancelled);

/// Two processes that grant each other `quota` data slots.
fn narrow(quota: u16) -> World {
    World::new(&[layout(2, quota, 8, 4, 64); 2], Mode::default(), Config::default(), 1)
}

/// Process 0 sends 1 a message of so many bytes with this tag, which is its context too.
fn send(world: &mut World, tag: u64, len: u64) -> Region {
    let bytes = world.alloc(0, &pattern(tag, len));
    world.send(0, &send_to(1, bytes, tag, tag)).unwrap();
    bytes
}

/// Receives the message of this tag, which must come whole.
fn receive(world: &mut World, tag: u64, len: u64) {
    let buf = world.alloc(1, &vec![0; len as usize]);
    world.recv(1, &recv_from(0, buf, tag, tag)).unwrap();
    world.run();
    let got = world.only(1);
    assert_eq!((got.context, got.tag, got.outcome), (tag, tag, Ok(())));
    assert_eq!(world.bytes(1, buf), pattern(tag, len));
}

fn nothing_is_left(world: &World) {
    for who in 0..2 {
        assert_eq!(world.pending(who), Pending::default(), "process {who}");
        assert_eq!(world.processes[who].port.net().lent(who), (0, 0), "process {who}");
        let stats = world.processes[who].endpoint.stats();
        assert_eq!((stats.stalled_now, stats.violations), (0, 0), "process {who}");
    }
}

#[test]
fn one_that_was_sent_is_not_waited_for_and_may_be_received() {
    let mut world = World::pair(Mode::default());
    let bytes = world.alloc(0, &pattern(7, 8));
    world.send(0, &Send { delivery: Some(Delivery::Arrived), ..send_to(1, bytes, 7, 7) }).unwrap();
    assert_eq!(world.cancel_send(0, 8), None, "there is no such send");
    assert_eq!(world.cancel_send(0, 7), Some(Cancelled::Sent));
    assert_eq!(world.ends(0), [(7, CANCELLED)]);
    assert_eq!(world.cancel_send(0, 7), None, "it has ended");
    world.processes[0].port.fill(bytes, 0);
    receive(&mut world, 7, 8);
    assert_eq!(world.ends(0), [], "of the acknowledgement nobody is told");
    nothing_is_left(&world);
}

#[test]
fn one_that_the_rail_still_reads_is_not_cancelled() {
    for delivery in [None, Some(Delivery::Matched)] {
        let mut world = World::pair(Mode { pending_percent: 100, ..Mode::default() });
        let bytes = world.alloc(0, &pattern(7, 8));
        world.send(0, &Send { delivery, ..send_to(1, bytes, 7, 7) }).unwrap();
        assert_eq!(world.cancel_send(0, 7), None);
        assert_eq!(world.ends(0), []);
        world.happen(Event::Write(0, 1));
        world.run();
        if delivery.is_some() {
            assert_eq!(world.cancel_send(0, 7), Some(Cancelled::Sent));
        }
        let outcome = if delivery.is_some() { CANCELLED } else { Ok(()) };
        assert_eq!(world.ends(0), [(7, outcome)]);
        receive(&mut world, 7, 8);
        nothing_is_left(&world);
    }
}

#[test]
fn those_that_wait_for_credits_are_never_received() {
    let mut world = narrow(1);
    for tag in 0..8 {
        send(&mut world, tag, 8);
    }
    world.run();
    assert_eq!(world.ends(0), [(0, Ok(()))]);
    // The oldest one, one in the middle, and the newest.
    for tag in [1, 4, 7] {
        assert_eq!(world.cancel_send(0, tag), Some(Cancelled::Withdrawn));
        assert_eq!(world.ends(0), [(tag, CANCELLED)]);
    }
    send(&mut world, 8, 8);
    // The last one is asked for, and found behind the gaps.
    for tag in [8, 0, 2, 3, 5, 6] {
        receive(&mut world, tag, 8);
    }
    let outcomes: Vec<_> = [2, 3, 5, 6, 8].map(|tag| (tag, Ok(()))).into();
    let mut ends = world.ends(0);
    ends.sort_by_key(|(context, _)| *context);
    assert_eq!(ends, outcomes);
    nothing_is_left(&world);
}

#[test]
fn what_stood_behind_a_long_one_goes_when_that_is_withdrawn() {
    let mut world = narrow(20);
    for tag in 0..12 {
        send(&mut world, tag, 8);
    }
    // Of many slots: it waits for more credits than there are, and the next one behind it.
    send(&mut world, 12, 800);
    send(&mut world, 13, 8);
    assert_eq!(world.ends(0).len(), 12);
    assert_eq!(world.cancel_send(0, 12), Some(Cancelled::Withdrawn));
    assert_eq!(world.ends(0), [(12, CANCELLED), (13, Ok(()))]);
    for tag in (0..12).chain([13]) {
        receive(&mut world, tag, 8);
    }
    nothing_is_left(&world);
}

/// Of those that wait for credits and would go as announcements.
#[test]
fn patience_with_the_next_begins_when_the_oldest_is_withdrawn() {
    let mut world = narrow(20);
    for tag in 0..12 {
        send(&mut world, tag, 8);
    }
    for tag in [12, 13] {
        send(&mut world, tag, 800);
    }
    let patience = Config::default().patience;
    let began = world.now;
    assert_eq!(world.processes[0].endpoint.deadline(), Some(began.saturating_add(patience)));
    world.now = world.now.saturating_add(Nanos(7));
    assert_eq!(world.cancel_send(0, 12), Some(Cancelled::Withdrawn));
    let later = world.now.saturating_add(patience);
    assert_eq!(world.processes[0].endpoint.deadline(), Some(later));
    world.run();
    for tag in (0..12).chain([13]) {
        receive(&mut world, tag, if tag == 13 { 800 } else { 8 });
    }
    nothing_is_left(&world);
}

#[test]
fn all_of_a_queue_may_be_withdrawn() {
    let mut world = narrow(1);
    for tag in 0..50 {
        send(&mut world, tag, 8);
    }
    for tag in (1..50).rev() {
        assert_eq!(world.cancel_send(0, tag), Some(Cancelled::Withdrawn));
    }
    let stats = world.processes[0].endpoint.stats();
    assert_eq!((stats.stalled_now, world.pending(0)), (0, Pending::default()));
    receive(&mut world, 0, 8);
    send(&mut world, 50, 8);
    receive(&mut world, 50, 8);
    nothing_is_left(&world);
}

/// One in several pieces waits as a copy, which is given back.
#[test]
fn the_copy_of_one_in_pieces_is_given_back() {
    let mut world = narrow(1);
    send(&mut world, 0, 8);
    let piece = world.alloc(0, &pattern(1, 4));
    let now = world.now;
    let Process { endpoint, port, .. } = &mut world.processes[0];
    let empty = send_to(1, Region::EMPTY, 1, 1);
    endpoint.send_pieces(now, port, &empty, &[piece, piece]).unwrap();
    assert_ne!(world.processes[0].port.net().lent(0), (0, 0));
    assert_eq!(world.cancel_send(0, 1), Some(Cancelled::Withdrawn));
    receive(&mut world, 0, 8);
    assert_eq!(world.ends(0), [(0, Ok(())), (1, CANCELLED)]);
    nothing_is_left(&world);
}

/// Its receiver may be fetching it.
#[test]
fn one_that_its_receiver_was_told_of_is_not_cancelled() {
    const LEN: u64 = 50_000;
    let mut world = World::pair(Mode::default());
    send(&mut world, 7, LEN);
    assert_eq!(world.cancel_send(0, 7), None, "it was announced");
    receive(&mut world, 7, LEN);
    assert_eq!(world.ends(0), [(7, Ok(()))]);

    let mut world = narrow(1);
    send(&mut world, 0, 8);
    send(&mut world, 1, 8);
    world.run();
    let buf = world.alloc(1, &[0; 8]);
    world.recv(1, &recv_from(0, buf, 1, 1)).unwrap();
    world.deliver(1, 0);
    assert_eq!(world.cancel_send(0, 1), None, "it is offered");
    world.run();
    assert_eq!(world.ends(1), [(1, Ok(()))]);
    receive(&mut world, 0, 8);
    nothing_is_left(&world);
}

/// One that was injected may have ended for its sender, and is promised.
#[test]
fn an_injected_one_goes_all_the_same() {
    let mut world = narrow(1);
    send(&mut world, 0, 8);
    let bytes = world.alloc(0, &pattern(1, 8));
    let (report, inject) = (false, true);
    world.send(0, &Send { report, inject, ..send_to(1, bytes, 1, 1) }).unwrap();
    assert_eq!(world.cancel_send(0, 1), None);
    for tag in [0, 1] {
        receive(&mut world, tag, 8);
    }
    nothing_is_left(&world);
}

#[test]
fn the_end_of_the_peer_ends_a_cancelled_send_no_second_time() {
    let mut world = World::pair(Mode::default());
    let bytes = world.alloc(0, &pattern(7, 8));
    world.send(0, &Send { delivery: Some(Delivery::Arrived), ..send_to(1, bytes, 7, 7) }).unwrap();
    assert_eq!(world.cancel_send(0, 7), Some(Cancelled::Sent));
    world.kill(1);
    world.peer_gone(0, 1, PeerError::Dead);
    assert_eq!(world.ends(0), [(7, CANCELLED)]);
}
