//! Connections that take time to be opened: what is asked for meanwhile waits, in order, and
//! ends if the connection never opens.

use crate::world::net::{Event, Mode, roomy};
use crate::world::{World, pattern, recv_from, send_to};
use sluice_link::PeerError;
use sluice_proto::{Config, Failure, Refused, Send};
use sluice_wire::Nanos;

const LEN: u64 = 500;

const CONFIG: Config = Config {
    looking_bytes_max: 0,
    eager_bytes_max: 64,
    network_eager_bytes_max: 64,
    patience: Nanos(20),
    regions_max: 1,
    requests_max: 1 << 10,
    inject_bytes_max: 1000,
    announce_bytes_min: 100,
    share_bytes_min: 100,
    pull_bytes_max: 1 << 20,
};

fn pair() -> World {
    let mode = Mode { chunk_claims: true, connecting_percent: 100, ..Mode::default() };
    World::new(&[roomy(); 2], mode, CONFIG, 1)
}

fn send(world: &mut World, context: u64, len: u64) {
    let bytes = world.alloc(0, &pattern(context, len));
    world.send(0, &send_to(1, bytes, 7, context)).unwrap();
}

#[test]
fn messages_wait_for_the_way_and_go_in_order() {
    let mut world = pair();
    let buffers: Vec<_> = (0..4).map(|_| world.alloc(1, &[0; LEN as usize])).collect();
    let lengths = [8, LEN, 0, 30];
    for (context, len) in (1..).zip(lengths) {
        send(&mut world, context, len);
    }
    assert_eq!(world.sent_packets(0, 1), [""; 0]);
    assert_eq!(world.ends(0), []);
    world.happen(Event::Connected(0, 1));
    assert_eq!(world.sent_packets(0, 1), ["put", "rts", "put", "put"]);
    for (context, buf) in (11..).zip(&buffers) {
        world.recv(1, &recv_from(0, *buf, 7, context)).unwrap();
    }
    world.run();
    assert_eq!(world.ends(1).into_iter().map(|(_, end)| end).collect::<Vec<_>>(), [Ok(()); 4]);
    for ((context, len), buf) in (1..).zip(lengths).zip(&buffers) {
        assert_eq!(world.bytes(1, buf.truncated(len)), pattern(context, len));
    }
}

#[test]
fn a_receive_that_was_posted_before_is_announced_when_the_way_opens() {
    let mut world = pair();
    let first = world.alloc(1, &[0; LEN as usize]);
    let second = world.alloc(1, &[0; LEN as usize]);
    world.recv(1, &recv_from(0, first, 7, 11)).unwrap();
    world.recv(1, &recv_from(0, second, 7, 12)).unwrap();
    assert_eq!(world.sent_packets(1, 0), [""; 0]);
    world.happen(Event::Connected(1, 0));
    assert_eq!(world.sent_packets(1, 0), ["rtr", "rtr"], "in the order they were posted in");
    world.deliver(1, 0);
    world.deliver(1, 0);
    send(&mut world, 1, LEN);
    send(&mut world, 2, LEN);
    world.run();
    assert_eq!(world.ends(1), [(11, Ok(())), (12, Ok(()))]);
    assert_eq!(world.bytes(1, first), pattern(1, LEN));
    assert_eq!(world.bytes(1, second), pattern(2, LEN));
    assert_eq!(world.processes[0].endpoint.stats().rtrs_used, 2);
}

#[test]
fn both_may_ask_for_the_way_at_once() {
    let mut world = pair();
    let bytes = [0, 1].map(|who| world.alloc(who, &pattern(9, 8)));
    let buffers = [0, 1].map(|who| world.alloc(who, &[0; 8]));
    for (who, region) in bytes.into_iter().enumerate() {
        world.send(who, &send_to(1 - who, region, 7, 1)).unwrap();
    }
    world.happen(Event::Connected(1, 0));
    assert_eq!(world.sent_packets(1, 0), ["put"]);
    // It is told that the connection is open before that packet is handed over.
    assert_eq!(world.processes[0].port.net().events(), [Event::Connected(0, 1)]);
    for (who, buf) in buffers.into_iter().enumerate() {
        world.recv(who, &recv_from(1 - who, buf, 7, 2)).unwrap();
    }
    world.run();
    for (who, buf) in buffers.into_iter().enumerate() {
        assert_eq!(world.ends(who).len(), 2);
        assert_eq!(world.bytes(who, buf), pattern(9, 8));
    }
}

#[test]
fn what_waits_for_a_way_that_never_opens_ends_with_its_peer() {
    let mut world = pair();
    let buf = world.alloc(0, &[0; LEN as usize]);
    send(&mut world, 1, 8);
    world.recv(0, &recv_from(1, buf, 7, 2)).unwrap();
    world.peer_gone(0, 1, PeerError::Unreachable);
    let gone = Failure::PeerGone { peer: sluice_wire::PeerId(1), why: PeerError::Unreachable };
    let mut ends = world.ends(0);
    ends.sort_by_key(|(context, _)| *context);
    assert_eq!(ends, [(1, Err(gone)), (2, Err(gone))]);
    world.run();
    assert_eq!(world.sent_packets(0, 1), [""; 0]);
}

#[test]
fn copies_of_injected_messages_are_bounded_while_the_way_opens() {
    let mut world = pair();
    let bytes = world.alloc(0, &pattern(1, 64));
    let inject = Send { inject: true, report: false, ..send_to(1, bytes, 7, 1) };
    let mut taken = 0;
    let refused = loop {
        match world.send(0, &inject) {
            Ok(()) => taken += 1,
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, Refused::Again);
    assert!(taken > 0);
    assert!(world.processes[0].endpoint.stats().injected_bytes_now <= CONFIG.inject_bytes_max);
    world.happen(Event::Connected(0, 1));
    assert_eq!(world.sent_packets(0, 1), vec!["put"; taken]);
}
