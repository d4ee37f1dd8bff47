//! Where a rail matches messages: what is refused there.

mod world;

use sluice_link::PeerError;
use sluice_proto::{Failure, Refused, Send};
use sluice_wire::{Credits, MatchBits, Packet, PtIndex, Put};
use world::net::Mode;
use world::{World, pattern, recv_from, send_to};

fn put(pt_index: u8) -> Packet {
    Packet::Put(Put {
        pt_index: PtIndex(pt_index),
        match_bits: MatchBits(7),
        hdr_data: 0,
        user: 0,
        remote_offset: 0,
        ack: None,
        rts: None,
        bulk: None,
    })
}

/// Whether process 1 gives up process 0, which has sent it this packet.
fn is_refused(matches: bool, packet: &Packet) -> bool {
    let mut world = World::pair(Mode { matches, ..Mode::default() });
    world.forge(0, 1, packet, 0, Credits::default());
    let net = world.processes[1].port.net();
    let is_refused = net.has_refused(1, 0);
    let violations = world.processes[1].endpoint.stats().violations;
    assert_eq!(violations, u64::from(is_refused));
    is_refused
}

#[test]
fn a_message_that_comes_past_the_rail_ends_its_sender() {
    for list in [0, 1] {
        assert!(!is_refused(false, &put(list)), "without such a rail it waits for its receive");
        assert!(is_refused(true, &put(list)));
    }
    // What is for no list of messages is no message, and is dropped as ever.
    assert!(!is_refused(true, &put(9)) && !is_refused(true, &Packet::Credit));
}

#[test]
fn whose_message_came_past_the_rail_is_told_gone() {
    let mut world = World::pair(Mode { matches: true, ..Mode::default() });
    world.forge(0, 1, &put(0), 0, Credits::default());
    let buf = world.alloc(1, &pattern(1, 8));
    let injected = Send { inject: true, ..send_to(0, buf, 7, 1) };
    let gone = world.send(1, &injected).unwrap_err();
    assert!(matches!(gone, Refused::PeerGone { why: PeerError::Protocol, .. }), "{gone}");
}

#[test]
fn what_the_rail_has_no_room_for_is_tried_again_and_leaves_no_trace() {
    let mut world = World::pair(Mode { matches: true, ..Mode::default() });
    let short = world.alloc(0, &pattern(1, 8));
    let long = world.alloc(0, &pattern(2, 65));
    assert_eq!(world.send(0, &send_to(1, short, 7, 1)), Err(Refused::Again));
    assert_eq!(world.send(0, &send_to(1, long, 7, 2)), Err(Refused::Again));
    let injected = Send { inject: true, ..send_to(1, long, 7, 4) };
    assert_eq!(world.send(0, &injected), Err(Refused::TooLong { len: 65, max: 64 }));
    let pending = world.pending(0);
    assert_eq!((pending.sends, pending.recvs, world.pop(0)), (0, 0, None));
}

#[test]
fn a_receive_that_the_rail_has_no_room_for_waits_and_can_be_cancelled() {
    let mut world = World::pair(Mode { matches: true, ..Mode::default() });
    let buf = world.alloc(0, &pattern(1, 8));
    for context in [3, 4] {
        assert_eq!(world.recv(0, &recv_from(1, buf, 7, context)), Ok(()));
    }
    assert_eq!((world.pending(0).recvs, world.pop(0)), (2, None));
    assert!(world.cancel(0, 4) && !world.cancel(0, 4));
    let end = world.pop(0).expect("it was cancelled");
    assert_eq!((end.context, end.outcome), (4, Err(Failure::Cancelled)));
    assert_eq!((world.pending(0).recvs, world.pop(0)), (1, None));
}
