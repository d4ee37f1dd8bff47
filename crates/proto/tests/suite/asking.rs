//! A receiver and a sender without credits, where their questions and answers cross.

use crate::world::net::{Mode, layout};
use crate::world::{World, pattern, recv_from, send_to};
use sluice_link::PeerError;
use sluice_proto::{Config, Delivery, Failure, Probe, ProbeAction, Recv, Send, Space};
use sluice_wire::{Credits, Found, MatchBits, Nanos, Packet, PeerId, PtIndex, Region, Waiting};

/// The number of the first message of a pair that waits.
const FIRST: u64 = 1 << 63;

/// Two processes that grant each other so many slots for messages and for words.
fn narrow(data: u16, control: u8) -> World {
    let mailbox = layout(2, data, control, 4, 64);
    World::new(&[mailbox; 2], Mode::default(), Config::default(), 1)
}

/// Process 0 sends message `id` with this tag.
fn send(world: &mut World, id: u64, tag: u64) {
    let bytes = world.alloc(0, &pattern(id, 8));
    world.send(0, &send_to(1, bytes, tag, id)).unwrap();
}

/// Process 1 posts a receive of this tag, which is its context.
fn post(world: &mut World, tag: u64) -> Region {
    let buf = world.alloc(1, &[0; 8]);
    world.recv(1, &recv_from(0, buf, tag, tag)).unwrap();
    buf
}

/// Process 1 receives message `id` of this tag, which must come.
fn receive(world: &mut World, id: u64, tag: u64) {
    let buf = post(world, tag);
    world.run();
    assert_eq!(world.ends(1), [(tag, Ok(()))]);
    assert_eq!(world.bytes(1, buf), pattern(id, 8));
}

/// Process 1 looks for a message of this tag.
fn probe(world: &mut World, tag: u64) {
    let source = Some(PeerId(0));
    let action = ProbeAction::Peek;
    world
        .probe(1, &Probe { space: Space::Tagged, source, tag, ignore: 0, context: 0, action })
        .unwrap();
}

/// A receive of tag 7 was searched for, and the sender watches for what comes after
/// message 2, the first that waits, which has this tag.
fn watched(waits: u64, control: u8) -> World {
    let mut world = narrow(1, control);
    send(&mut world, 1, 1);
    send(&mut world, 2, waits);
    world.run();
    post(&mut world, 7);
    world.run();
    world.ends(0);
    world.forget_packets();
    world
}

/// A watch tells of a message that a receive accepts which was not searched for yet:
/// an older message may be the one that it meets.
#[test]
fn a_watched_message_does_not_overtake_an_older_one() {
    let mut world = watched(9, 8);
    send(&mut world, 3, 9);
    assert_eq!(world.sent_packets(0, 1), ["waiting"]);
    let buf = post(&mut world, 9);
    assert_eq!(world.on_their_way(1, 0), 1, "the search crosses the answer");
    world.run();
    assert_eq!(world.ends(1), [(9, Ok(()))]);
    assert_eq!(world.bytes(1, buf), pattern(2, 8), "the older of two");
    receive(&mut world, 3, 9);
}

/// A search misses what a watch has told of since it was asked.
#[test]
fn a_search_that_a_watched_message_has_crossed_is_repeated() {
    let mut world = watched(2, 8);
    send(&mut world, 3, 9);
    let buf = post(&mut world, 9);
    world.run();
    assert_eq!(world.ends(1), [(9, Ok(()))]);
    assert_eq!(world.bytes(1, buf), pattern(3, 8));
    let asked = world.sent_packets(1, 0);
    assert_eq!(asked.iter().filter(|packet| **packet == "search").count(), 2, "{asked:?}");
}

/// While a watch is out, a search is about the messages up to what was seen.
#[test]
fn a_message_beyond_what_was_searched_breaks_the_protocol() {
    let mut world = watched(2, 8);
    post(&mut world, 9);
    let sent = world.processes[0].endpoint.links().next_seq(PeerId(1));
    let found = Found {
        pt_index: PtIndex(0),
        match_bits: MatchBits(9),
        hdr_data: 0,
        user: 0,
        total_len: 8,
        from: sluice_wire::RemoteKey::NONE,
    };
    let waiting = Waiting { watched: false, number: FIRST + 1, found: Some(found) };
    world.forge(0, 1, &Packet::Waiting(waiting), sent.0, Credits::default());
    assert_eq!(world.processes[1].endpoint.stats().violations, 1);
    let ends = world.ends(1);
    assert_eq!(ends.len(), 2);
    assert!(ends.iter().all(|(_, end)| matches!(end, Err(Failure::PeerGone { .. }))), "{ends:?}");
}

/// A search arrives while the only control credit is spent on the answer to a watch.
#[test]
fn an_answer_without_a_control_credit_is_given_when_one_comes() {
    let mut world = watched(9, 1);
    send(&mut world, 3, 5);
    assert_eq!(world.sent_packets(0, 1), ["waiting"], "which takes the credit");
    let buf = post(&mut world, 9);
    world.deliver(1, 0);
    // It is tried in vain, and not forgotten.
    world.idle(0);
    world.idle(0);
    assert!(!world.sent_packets(0, 1).contains(&"waiting"));
    world.run();
    assert_eq!(world.ends(1), [(9, Ok(()))]);
    assert_eq!(world.bytes(1, buf), pattern(2, 8));
}

/// An answer leads to two words, a decline and the next search, and there is one
/// control credit.
#[test]
fn a_question_without_a_control_credit_is_asked_when_one_comes() {
    let mut world = narrow(1, 1);
    send(&mut world, 1, 1);
    send(&mut world, 2, 9);
    world.run();
    world.forget_packets();
    post(&mut world, 9);
    assert!(world.cancel(1, 9), "while the search is on its way");
    let buf = post(&mut world, 7);
    world.run();
    assert_eq!(world.ends(1), [(9, Err(Failure::Cancelled))]);
    send(&mut world, 3, 7);
    world.run();
    assert_eq!(world.ends(1), [(7, Ok(()))]);
    assert_eq!(world.bytes(1, buf), pattern(3, 8));
}

/// Whether a probe that finds nothing is answered without a question to the sender.
fn knows_at_once(world: &mut World) {
    world.run();
    world.ends(0);
    world.ends(1);
    world.forget_packets();
    probe(world, 99);
    assert_eq!(world.ends(1), [(0, Err(Failure::NoMessage))], "it waits for an answer");
    assert_eq!(world.sent_packets(1, 0), [""; 0]);
}

#[test]
fn a_sender_that_has_credits_again_is_not_asked() {
    let mut world = narrow(2, 8);
    for id in 1..4 {
        send(&mut world, id, id);
    }
    world.run();
    for id in 1..4 {
        receive(&mut world, id, id);
    }
    knows_at_once(&mut world);
}

#[test]
fn a_sender_whose_taken_messages_have_ended_is_not_asked() {
    let mut world = narrow(1, 8);
    send(&mut world, 1, 1);
    send(&mut world, 2, 2);
    world.run();
    receive(&mut world, 2, 2);
    assert_eq!(world.processes[1].endpoint.stats().asked_for, 1);
    receive(&mut world, 1, 1);
    knows_at_once(&mut world);
}

/// What was asked of it is forgotten by then.
#[test]
fn a_claimed_message_of_a_sender_that_has_died_is_dropped() {
    let mut world = narrow(1, 8);
    send(&mut world, 1, 1);
    send(&mut world, 2, 2);
    world.run();
    let probe = Probe {
        space: Space::Tagged,
        source: Some(PeerId(0)),
        tag: 2,
        ignore: 0,
        context: 9,
        action: ProbeAction::Claim,
    };
    world.probe(1, &probe).unwrap();
    world.run();
    assert_eq!(world.ends(1), [(9, Ok(()))]);
    world.kill(0);
    world.peer_gone(1, 0, PeerError::Dead);
    let process = &mut world.processes[1];
    process.endpoint.discard_claimed(Nanos(0), &mut process.port, 9, true).unwrap();
    world.run();
    assert_eq!(world.pending(1).claimed, 0);
}

/// Two processes, and the buffer of the second one: the first has written all of a message that the
/// second one has asked for.
fn taken_and_written(delivery: Option<Delivery>) -> (World, Region) {
    let config = Config { share_bytes_min: 100, ..Config::default() };
    let mode = Mode { chunk_claims: true, ..Mode::default() };
    let mut world = World::new(&[layout(2, 1, 8, 4, 64); 2], mode, config, 1);
    send(&mut world, 1, 1);
    world.run();
    let bytes = world.alloc(0, &pattern(2, 500));
    world.send(0, &Send { delivery, ..send_to(1, bytes, 2, 2) }).unwrap();
    world.forget_packets();
    let buf = world.alloc(1, &[0; 500]);
    world.recv(1, &recv_from(0, buf, 2, 2)).unwrap();
    for (from, to) in [(1, 0), (0, 1), (1, 0)] {
        world.deliver(from, to);
    }
    world.move_by(0);
    (world, buf)
}

/// It is done when it has written the last chunk, and no word tells it so.
#[test]
fn a_sender_that_wrote_a_taken_message_alone_is_not_asked() {
    let (mut world, buf) = taken_and_written(None);
    assert_eq!(world.pending(0).sends, 0, "it has written all of it");
    world.run();
    assert_eq!(world.ends(1), [(2, Ok(()))]);
    assert_eq!(world.bytes(1, buf), pattern(2, 500));
    assert_eq!(world.sent_packets(1, 0), ["search", "cts"]);
    assert_eq!(world.processes[1].endpoint.stats().asked_for, 1);
    receive(&mut world, 1, 1);
    knows_at_once(&mut world);
}

/// What a rail has handed over is still to be placed.
#[test]
fn a_sender_that_waits_for_delivery_is_told_though_it_wrote_all_of_it() {
    let (mut world, buf) = taken_and_written(Some(Delivery::Arrived));
    assert_eq!(world.pending(0).sends, 1, "it has written all of it, and waits");
    world.run();
    assert_eq!(world.ends(1), [(2, Ok(()))]);
    assert_eq!(world.bytes(1, buf), pattern(2, 500));
    assert_eq!(world.sent_packets(1, 0), ["search", "cts", "fin"]);
    assert_eq!(world.pending(0).sends, 0);
}

/// What waits may be asked for out of order, so who meets an announced receive is
/// not known from then on.
#[test]
fn messages_that_wait_block_the_receives_that_were_announced_before() {
    for waits in [false, true] {
        let config = Config {
            eager_bytes_max: 64,
            network_eager_bytes_max: 64,
            announce_bytes_min: 100,
            share_bytes_min: 100,
            ..Config::default()
        };
        let mode = Mode { chunk_claims: true, ..Mode::default() };
        let mut world = World::new(&[layout(2, 1, 8, 4, 64); 2], mode, config, 1);
        let buf = world.alloc(1, &[0; 500]);
        for tag in [1, 2] {
            post(&mut world, tag);
        }
        world.recv(1, &recv_from(0, buf, 7, 7)).unwrap();
        assert_eq!(world.sent_packets(1, 0), ["rtr"]);
        world.run();
        send(&mut world, 1, 1);
        if !waits {
            world.run();
        }
        send(&mut world, 2, 2);
        if !waits {
            world.run();
        }
        assert_eq!(world.processes[0].endpoint.stats().stalled_now, u64::from(waits));
        let bytes = world.alloc(0, &pattern(7, 500));
        world.send(0, &send_to(1, bytes, 7, 7)).unwrap();
        world.run();
        assert_eq!(world.processes[0].endpoint.stats().rtrs_used, u64::from(!waits));
        assert_eq!(world.bytes(1, buf), pattern(7, 500));
        assert_eq!(world.ends(1).len(), 3);
    }
}

/// The patience with a message begins when the one before it has gone.
#[test]
fn each_long_message_that_waits_has_the_whole_patience() {
    use sluice_link::Machine;
    let config = Config { patience: Nanos(1000), ..Config::default() };
    let mut world = World::new(&[layout(2, 4, 8, 4, 64); 2], Mode::default(), config, 1);
    for id in 0..3 {
        // Four slots each.
        let bytes = world.alloc(0, &pattern(id, 190));
        world.send(0, &send_to(1, bytes, id, id)).unwrap();
        if id == 0 {
            // Its slots come back but for one, which an unmatched message takes.
            let buf = world.alloc(1, &[0; 190]);
            world.recv(1, &Recv { context: 70, ..recv_from(0, buf, 0, 0) }).unwrap();
            world.run();
            send(&mut world, 60, 60);
            world.run();
        }
    }
    assert_eq!(world.processes[0].endpoint.stats().stalled_now, 2);
    let since = world.now;
    world.now = Nanos(since.0 + 999);
    world.idle(0);
    assert_eq!(world.processes[0].endpoint.stats().stalled_now, 2, "not yet");
    world.now = Nanos(since.0 + 1000);
    world.idle(0);
    assert_eq!(world.processes[0].endpoint.stats().stalled_now, 1, "the first goes");
    assert_eq!(world.processes[0].endpoint.deadline(), Some(Nanos(since.0 + 2000)));
    world.idle(0);
    assert_eq!(world.processes[0].endpoint.stats().stalled_now, 1, "the second has just begun");
}

/// So it does when credits made that one go.
#[test]
fn patience_begins_anew_when_credits_let_a_message_go() {
    use sluice_link::Machine;
    let config = Config { patience: Nanos(1000), ..Config::default() };
    let mut world = World::new(&[layout(2, 7, 8, 4, 64); 2], Mode::default(), config, 1);
    for id in 1..5 {
        send(&mut world, id, id);
    }
    world.run();
    // Three slots are left; these take four and seven.
    for (id, len) in [(5, 190), (6, 350)] {
        let bytes = world.alloc(0, &pattern(id, len));
        world.send(0, &send_to(1, bytes, id, id)).unwrap();
    }
    assert_eq!(world.processes[0].endpoint.stats().stalled_now, 2);
    let since = world.now;
    assert_eq!(world.processes[0].endpoint.deadline(), Some(Nanos(since.0 + 1000)));
    world.now = Nanos(since.0 + 500);
    for tag in 1..5 {
        post(&mut world, tag);
    }
    world.deliver_all();
    world.idle(1);
    world.deliver_all();
    assert_eq!(world.processes[0].endpoint.stats().stalled_now, 1, "the first has gone");
    assert!(world.data_credits(0, 1) > 0);
    world.idle(0);
    let now = world.now;
    assert_eq!(world.processes[0].endpoint.deadline(), Some(Nanos(now.0 + 1000)));
}
