//! Where a rail matches messages: what is refused there, and receives that it has no room for.

use crate::world::net::Mode;
use crate::world::{World, pattern, recv_from, send_to};
use sluice_link::{PeerError, TaggedMessage};
use sluice_proto::{Failure, Probe, ProbeAction, Refused, Send, Space};
use sluice_wire::{Credits, MatchBits, Packet, PeerId, PtIndex, Put, RemoteKey, Rts};

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
        by_control: false,
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

const LIST: PtIndex = PtIndex(0);

/// The first process has receives for tags 3 and 4 that its interface has no room for.
fn crowded() -> World {
    let mut world = World::pair(Mode { matches: true, can_read: true, ..Mode::default() });
    for tag in [3, 4] {
        let buf = world.alloc(0, &[0; 8]);
        assert_eq!(world.recv(0, &recv_from(1, buf, tag, tag)), Ok(()));
    }
    assert!(is_crowded(&world));
    world
}

fn is_crowded(world: &World) -> bool {
    world.processes[0].port.net().crowded.contains(&(0, LIST))
}

/// A message for the first process is at its interface.
fn comes(world: &World, tag: u64, rts: Option<Rts>) {
    let match_bits = MatchBits(tag);
    let message = TaggedMessage { list: LIST, match_bits, hdr_data: 0, user: 0, len: 8, rts };
    world.processes[0].port.net_mut().unmet[0].push((PeerId(1), message));
}

#[test]
fn a_list_is_crowded_while_a_receive_waits_for_room_and_no_longer() {
    let mut world = crowded();
    assert!(world.cancel(0, 4) && is_crowded(&world), "one waits still");
    assert!(world.cancel(0, 3) && !is_crowded(&world), "the last one was cancelled");
    let mut world = crowded();
    [3, 4].iter().for_each(|&tag| comes(&world, tag, None));
    world.idle(0);
    assert_eq!(world.ends(0), [(3, Ok(())), (4, Ok(()))]);
    assert!(!is_crowded(&world), "what they waited for has come");
}

/// Whatever call finds a message for a receive that waits: that is all it takes, for an
/// announced message too.
#[test]
fn each_call_that_looks_at_those_that_wait_gives_them_what_has_come() {
    const GONE: usize = 4;
    let calls: [fn(&mut World); GONE + 1] = [
        |world| {
            let buf = world.alloc(0, &[0; 8]);
            world.recv(0, &recv_from(1, buf, 9, 9)).expect("there is room for it");
        },
        |world| assert!(!world.cancel(0, 9), "there is no such receive"),
        |world| {
            let (space, action) = (Space::Tagged, ProbeAction::Peek);
            let source = Some(PeerId(1));
            let probe = Probe { space, source, tag: 9, ignore: 0, action, context: 9 };
            world.probe(0, &probe).expect("there is room for it");
        },
        |world| world.idle(0),
        |world| world.peer_gone(0, 1, PeerError::Dead),
    ];
    for (at, call) in calls.iter().enumerate() {
        let mut world = crowded();
        let from = RemoteKey::NONE;
        comes(&world, 4, None);
        comes(&world, 3, Some(Rts { total_len: 0, from, key: MatchBits(1), claims: None }));
        call(&mut world);
        let mut ends = world.ends(0);
        ends.retain(|(context, _)| *context != 9);
        // Nobody is left to ask for the bytes of an announced one.
        let gone = Failure::PeerGone { peer: PeerId(1), why: PeerError::Dead };
        let announced = if at == GONE { Err(gone) } else { Ok(()) };
        assert_eq!(ends, [(4, Ok(())), (3, announced)], "call {at}");
        assert!(world.processes[0].port.net().unmet[0].is_empty());
    }
}
