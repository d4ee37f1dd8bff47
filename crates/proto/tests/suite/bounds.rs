//! Memory for messages that nobody receives yet, at both ends.

use crate::world::net::random::Random;
use crate::world::net::{Mode, dynamic_layout, layout};
use crate::world::{World, pattern, recv_from, send_to};
use sluice_link::{Grant, Layout, Machine, PeerError};
use sluice_portals::UnexpectedBytes;
use sluice_proto::{Config, Endpoint, Refused, Send};
use sluice_wire::{Nanos, Region};

/// Everybody floods one process with messages of one size, or of any.
fn flood(mailbox: Layout, len: Option<u64>) -> (u64, u64) {
    let senders = usize::from(mailbox.senders_max);
    let config = Config { patience: Nanos(20), ..Config::default() };
    let mut world = World::new(&vec![mailbox; senders], Mode::default(), config, 1);
    world.checks = false;
    let mut random = Random::new(7);
    for tag in 0..2 * u64::from(mailbox.grant.data_slots) + 10 {
        for from in 0..senders {
            let len = len.unwrap_or_else(|| random.draw() % 6000);
            let bytes = world.alloc(from, &vec![1; len as usize]);
            let inject = tag % 3 == 0 && len <= 4096;
            let sent = world.send(from, &Send { inject, ..send_to(0, bytes, tag, tag) });
            assert!(sent.is_ok() || inject && sent == Err(Refused::Again));
        }
    }
    world.checks = true;
    world.run();
    let stats = world.processes[0].endpoint.stats();
    assert_eq!(stats.unexpected_bytes_now, stats.unexpected_bytes_peak);
    (stats.unexpected_bytes_peak, Endpoint::unexpected_bytes_max(&mailbox))
}

/// A slot holds at most what is said, whatever comes in it; and messages of one
/// slot do hold that.
#[test]
fn a_flood_of_any_sizes_stays_within_the_bound() {
    for mailbox in [layout(3, 5, 4, 4, 16), layout(2, 170, 8, 4, 64), layout(2, 300, 8, 4, 64)] {
        let small = flood(mailbox, Some(1));
        assert_eq!(small.0, small.1, "the bound is reached");
        for len in [0, 8, 24, 25, 84, 85, 150, 1000, 2049, 4096, 5000] {
            let (peak, most) = flood(mailbox, Some(len));
            assert!(peak <= most, "{len} bytes each: {peak} of {most}");
        }
        let (peak, most) = flood(mailbox, None);
        assert!(peak <= most, "{peak} of {most}");
    }
}

#[test]
fn the_bound_of_a_mailbox_is_that_of_its_slots() {
    let mailbox = Layout::divide(64, 65_536).unwrap();
    let slots = 64 * u64::from(mailbox.grant.data_slots);
    assert_eq!(Endpoint::unexpected_bytes_max(&mailbox), slots * UnexpectedBytes::SLOT_MAX);
    const { assert!(UnexpectedBytes::SLOT_MAX <= 384) };
}

/// Three processes; the mailbox of each has two static slots a sender, and two more.
fn three() -> World {
    let grant = Grant { data_slots: 2, control_slots: 8, credit_slots: 4 };
    let mailbox = dynamic_layout(3, grant, 2, 16);
    World::new(&[mailbox; 3], Mode::default(), Config::default(), 1)
}

/// One message of a byte after the other from `from` to the first process.
fn send_some(world: &mut World, from: usize, tags: std::ops::Range<u64>) {
    for tag in tags {
        let byte = world.alloc(from, &[tag as u8]);
        world.send(from, &Send { inject: true, ..send_to(0, byte, tag, tag) }).unwrap();
    }
    world.run();
}

/// As many receives of them.
fn receive_some(world: &mut World, from: usize, tags: std::ops::Range<u64>) {
    for tag in tags {
        let byte = world.alloc(0, &[0]);
        world.recv(0, &recv_from(from, byte, tag, tag)).unwrap();
    }
    world.run();
}

/// `from` sends and is received from until it has more than its static slots.
fn enrich(world: &mut World, from: usize) {
    for _ in 0..100 {
        if world.data_credits(from, 0) >= 4 {
            return;
        }
        send_some(world, from, 0..2);
        receive_some(world, from, 0..2);
    }
    panic!("{from} has {} credits after all that", world.data_credits(from, 0));
}

/// What nobody has received of a process that has ended is kept, so its slots are nobody
/// else's: neither those of the region that all share, nor any of the others.
#[test]
fn what_the_dead_have_left_behind_keeps_its_slots_until_it_is_received() {
    let mut world = three();
    let bound = Endpoint::unexpected_bytes_max(&world.processes[0].port.net().layouts[0]);
    enrich(&mut world, 2);
    send_some(&mut world, 2, 10..14);
    world.kill(2);
    world.peer_gone(0, 2, PeerError::Dead);
    for round in 0..20 {
        send_some(&mut world, 1, 0..2);
        receive_some(&mut world, 1, 0..2);
        assert!(world.data_credits(1, 0) <= 2, "round {round}: the dead's slots are given away");
    }
    for from in [0, 1] {
        send_some(&mut world, from, 20..30);
    }
    let kept = world.processes[0].endpoint.stats().unexpected_bytes_now;
    assert_eq!(kept, bound, "all slots are held, and no more");
    receive_some(&mut world, 2, 10..14);
    for from in [0, 1] {
        receive_some(&mut world, from, 20..30);
    }
    let links = world.processes[0].endpoint.links();
    assert_eq!((links.slots_held(), links.slots_departed(), links.slots_overdrawn()), (0, 0, 0));
    enrich(&mut world, 1);
}

/// If others have the shared slots already, the next that they free are not given out.
#[test]
fn what_the_dead_have_left_behind_is_paid_by_what_is_freed_next() {
    let mut world = three();
    enrich(&mut world, 1);
    send_some(&mut world, 2, 10..12);
    world.kill(2);
    world.peer_gone(0, 2, PeerError::Dead);
    let overdrawn = |world: &World| world.processes[0].endpoint.links().slots_overdrawn();
    assert_eq!((world.data_credits(1, 0), overdrawn(&world)), (4, 2));
    send_some(&mut world, 1, 0..2);
    receive_some(&mut world, 1, 0..2);
    send_some(&mut world, 1, 0..2);
    receive_some(&mut world, 1, 0..2);
    assert_eq!((world.data_credits(1, 0), overdrawn(&world)), (2, 0));
    receive_some(&mut world, 2, 10..12);
    enrich(&mut world, 1);
}

/// What a sender keeps for each message that waits.
#[test]
fn a_pending_send_takes_what_it_is_said_to_take() {
    const { assert!(Endpoint::PENDING_SEND_BYTES <= 160) };
    let mut world = World::new(&[layout(2, 1, 8, 4, 64); 2], Mode::default(), Config::default(), 1);
    for tag in 0..11 {
        let bytes = world.alloc(0, &pattern(tag, 100));
        world.send(0, &Send { inject: true, ..send_to(1, bytes, tag, tag) }).unwrap();
    }
    // The first message has found no credit for its two slots either.
    let each = Endpoint::PENDING_SEND_BYTES as u64 + 128;
    assert_eq!(world.processes[0].endpoint.stats().injected_bytes_now, 11 * each);
    assert_eq!(world.send(0, &send_to(1, Region::EMPTY, 1, 1)), Ok(()));
    assert_eq!(world.processes[0].endpoint.stats().injected_bytes_now, 11 * each);
    assert!(world.processes[0].endpoint.deadline().is_some());
}

/// Ends that nobody reads are memory too: eager messages end at once, so nothing else would stop
/// a program that only sends.
#[test]
fn who_reads_no_ends_gets_no_further_request() {
    let config = Config { requests_max: 4, ..Config::default() };
    let mut world = World::new(&[layout(2, 64, 8, 4, 64); 2], Mode::default(), config, 1);
    let bytes = world.alloc(0, &pattern(1, 8));
    for context in 0..4 {
        assert_eq!(world.send(0, &send_to(1, bytes, 1, context)), Ok(()));
    }
    assert_eq!(world.send(0, &send_to(1, bytes, 1, 4)), Err(Refused::Again));
    assert_eq!(world.recv(0, &recv_from(1, bytes, 1, 5)), Err(Refused::Again));
    assert_eq!(world.pop(0).map(|end| end.context), Some(0));
    assert_eq!(world.recv(0, &recv_from(1, bytes, 1, 5)), Ok(()));
    assert_eq!(world.send(0, &send_to(1, bytes, 1, 4)), Ok(()));
    assert_eq!(world.send(0, &send_to(1, bytes, 1, 6)), Err(Refused::Again));
    world.run();
    assert_eq!(world.ends(0).len(), 4, "nothing was lost");
}
