//! More messages to be copied by both sides than their receiver has control credits to invite
//! their sender by.

use crate::world::net::{Event, Mode, layout, roomy};
use crate::world::{World, pattern, recv_from, send_to};
use sluice_link::{Machine, PeerError};
use sluice_proto::{Config, Failure};
use sluice_wire::{PeerId, Region};

/// Longer than what is eager, and shared here.
const LEN: u64 = 500;
const MESSAGES: u64 = 6;

/// The messages have met their receives. The sender, 0, grants two control credits.
fn met() -> (World, Vec<Region>) {
    let layouts = [layout(3, 40, 2, 4, 8), roomy()];
    let mode = Mode { chunk_claims: true, ..Mode::default() };
    let config = Config {
        looking_bytes_max: 0,
        eager_bytes_max: 64,
        announce_bytes_min: 1 << 20,
        share_bytes_min: 100,
        ..Config::default()
    };
    let mut world = World::new(&layouts, mode, config, 1);
    for id in 0..MESSAGES {
        let bytes = world.alloc(0, &pattern(id, LEN));
        world.send(0, &send_to(1, bytes, id, id)).unwrap();
    }
    while world.on_their_way(0, 1) > 0 {
        world.deliver(0, 1);
    }
    let bufs: Vec<_> = (0..MESSAGES).map(|_| world.alloc(1, &[0; LEN as usize])).collect();
    for (id, buf) in (0..).zip(&bufs) {
        world.recv(1, &recv_from(0, *buf, id, 70 + id)).unwrap();
    }
    assert_eq!(world.sent_packets(1, 0), ["cts"; 2], "the others wait for a credit");
    assert!(world.processes[1].port.net().reads.is_empty());
    (world, bufs)
}

fn expect_all(world: &World, bufs: &[Region]) {
    for (id, buf) in (0..).zip(bufs) {
        assert_eq!(world.bytes(1, *buf), pattern(id, LEN));
    }
}

#[test]
fn messages_wait_for_credits_to_invite_by() {
    let (mut world, bufs) = met();
    let mut invited = 2;
    while invited < MESSAGES {
        while world.on_their_way(1, 0) > 0 {
            world.deliver(1, 0);
        }
        world.idle(0);
        world.deliver(0, 1);
        let more = world.sent_packets(1, 0);
        assert!(!more.is_empty() && more.iter().all(|sent| *sent == "cts"), "{more:?}");
        invited += more.len() as u64;
    }
    world.run();
    expect_all(&world, &bufs);
    assert_eq!((world.ends(0).len(), world.ends(1).len()), (6, 6));
}

#[test]
fn a_receiver_moves_by_itself_what_it_can_invite_nobody_to() {
    let (mut world, bufs) = met();
    // The sender is in no call.
    world.move_by(1);
    while !world.processes[1].port.net().reads.is_empty() {
        world.happen(Event::Read(0));
    }
    let mut ends = world.ends(1);
    ends.sort_by_key(|(context, _)| *context);
    assert_eq!(ends, (70..76).map(|context| (context, Ok(()))).collect::<Vec<_>>());
    expect_all(&world, &bufs);
    world.run();
    assert_eq!(world.ends(0).len(), 6);
}

#[test]
fn messages_that_wait_for_credits_end_with_their_sender() {
    let (mut world, _) = met();
    world.kill(0);
    world.run();
    let gone = Err(Failure::PeerGone { peer: PeerId(0), why: PeerError::Dead });
    assert_eq!(world.ends(1).into_iter().map(|(_, end)| end).collect::<Vec<_>>(), [gone; 6]);
}

#[test]
fn messages_wait_for_a_sender_without_its_core_for_a_while() {
    let (mut world, bufs) = met();
    // It has begun a chunk of each transfer that is under way, and does not go on.
    let port = world.processes[1].port.clone();
    assert_eq!(port.net().claims.shares.len(), 2);
    world.idle(1);
    assert!(port.net().reads.is_empty(), "a credit may come");
    let patience = world.processes[1].endpoint.deadline().expect("some wait");
    world.now = patience;
    world.idle(1);
    assert_eq!(port.net().reads.len(), 4, "patience has ended");
    assert_eq!(world.processes[1].endpoint.deadline(), None);
    world.run();
    expect_all(&world, &bufs);
    assert_eq!((world.ends(0).len(), world.ends(1).len()), (6, 6));
}
