//! Senders without credits, and receivers that ask them; told as it happens.

use crate::world::net::{Mode, layout};
use crate::world::{World, pattern, recv_from, send_to};
use sluice_link::PeerError;
use sluice_proto::{
    Config, Delivery, Failure, Kind, Pending, Probe, ProbeAction, Recv, Refused, Send, Space,
};
use sluice_wire::{
    Credits, Decline, Found, MatchBits, Nanos, Packet, PeerId, PtIndex, Region, RemoteKey, Search,
    Waiting, Watch,
};

/// The number of the first message of a pair that waits.
const FIRST: u64 = 1 << 63;

/// Processes that grant each other `quota` data slots.
fn narrow(processes: usize, quota: u16) -> World {
    let mailbox = layout(processes as u16, quota, 8, 4, 64);
    World::new(&vec![mailbox; processes], Mode::default(), Config::default(), 1)
}

fn send(world: &mut World, from: usize, to: usize, tag: u64) {
    let bytes = world.alloc(from, &pattern(tag, 8));
    world.send(from, &send_to(to, bytes, tag, tag)).unwrap();
}

/// Posts a receive of `tag`; its context is the tag.
fn post(world: &mut World, who: usize, from: Option<usize>, tag: u64) -> Region {
    let buf = world.alloc(who, &[0; 8]);
    let source = from.map(|from| PeerId(from as u32));
    world.recv(who, &Recv { source, ..recv_from(0, buf, tag, tag) }).unwrap();
    buf
}

/// Receives the message of this tag, which must come.
fn receive(world: &mut World, who: usize, from: usize, tag: u64) {
    let buf = post(world, who, Some(from), tag);
    world.run();
    let mut ends = vec![];
    while let Some(end) = world.pop(who) {
        if end.kind == Kind::Recv {
            ends.push((end.context, end.tag, end.outcome));
        }
    }
    assert_eq!(ends, [(tag, tag, Ok(()))]);
    assert_eq!(world.bytes(who, buf), pattern(tag, 8));
}

fn contexts(world: &mut World, who: usize) -> Vec<u64> {
    world
        .ends(who)
        .into_iter()
        .map(|(context, outcome)| outcome.map(|()| context).unwrap())
        .collect()
}

fn probe(action: ProbeAction, source: Option<usize>, tag: u64) -> Probe {
    let source = source.map(|source| PeerId(source as u32));
    Probe { space: Space::Tagged, source, tag, ignore: 0, context: 1000 + tag, action }
}

fn nothing_is_left(world: &World) {
    for who in 0..world.processes.len() {
        assert_eq!(world.pending(who), Pending::default(), "process {who}");
        assert_eq!(world.processes[who].port.net().lent(who), (0, 0), "process {who}");
        let stats = world.processes[who].endpoint.stats();
        assert_eq!((stats.stalled_now, stats.violations, stats.injected_bytes_now), (0, 0, 0));
    }
}

#[test]
fn the_last_tag_first_with_a_quota_of_one() {
    let mut world = narrow(2, 1);
    for tag in 0..50 {
        send(&mut world, 0, 1, tag);
    }
    world.run();
    for tag in (0..50).rev() {
        receive(&mut world, 1, 0, tag);
    }
    assert_eq!(world.processes[1].endpoint.stats().asked_for, 49);
    nothing_is_left(&world);
}

/// More than a quota of messages that nobody receives, then one that somebody
/// waits for.
#[test]
fn a_message_behind_a_whole_quota_of_unmatched_ones_is_received() {
    let mut world = narrow(2, 20);
    for tag in 0..100 {
        send(&mut world, 0, 1, tag);
    }
    receive(&mut world, 1, 0, 99);
    for tag in 0..99 {
        receive(&mut world, 1, 0, tag);
    }
    nothing_is_left(&world);
}

#[test]
fn a_receive_posted_before_the_credits_ran_out_is_asked_for() {
    let mut world = narrow(2, 3);
    let buf = post(&mut world, 1, Some(0), 7);
    for tag in [1, 2, 3, 4, 7] {
        send(&mut world, 0, 1, tag);
    }
    world.run();
    assert_eq!(contexts(&mut world, 1), [7]);
    assert_eq!(world.bytes(1, buf), pattern(7, 8));
}

/// A search is answered from the queue, the message fetched by its number.
#[test]
fn a_search_that_finds() {
    let mut world = narrow(2, 1);
    send(&mut world, 0, 1, 1);
    send(&mut world, 0, 1, 2);
    send(&mut world, 0, 1, 3);
    world.run();
    world.forget_packets();
    let buf = post(&mut world, 1, Some(0), 3);
    let search =
        Search { pt_index: PtIndex(0), match_bits: MatchBits(3), ignore_bits: 0, newest: u64::MAX };
    assert_eq!(last_packet(&world), (1, 0, Packet::Search(search)));
    world.deliver(1, 0);
    let (from, to, Packet::Waiting(waiting)) = last_packet(&world) else { panic!() };
    assert_eq!((from, to), (0, 1));
    // The second of those that waited.
    assert_eq!((waiting.watched, waiting.number), (false, FIRST + 1));
    let found = waiting.found.unwrap();
    assert_eq!((found.match_bits, found.total_len), (MatchBits(3), 8));
    world.deliver(0, 1);
    world.run();
    assert_eq!(world.sent_packets(1, 0), ["search", "fin"]);
    assert_eq!(world.sent_packets(0, 1), [""; 0], "read directly");
    assert_eq!(contexts(&mut world, 1), [3]);
    assert_eq!(contexts(&mut world, 0), [1, 3]);
    assert_eq!(world.bytes(1, buf), pattern(3, 8));
}

/// Once all is searched, the sender says what joins its queue.
#[test]
fn a_search_that_misses_then_a_watch() {
    let mut world = narrow(2, 1);
    send(&mut world, 0, 1, 1);
    send(&mut world, 0, 1, 2);
    world.run();
    world.forget_packets();
    post(&mut world, 1, Some(0), 7);
    world.deliver(1, 0);
    let missed = Waiting { watched: false, number: FIRST, found: None };
    assert_eq!(last_packet(&world), (0, 1, Packet::Waiting(missed)));
    world.deliver(0, 1);
    assert_eq!(last_packet(&world), (1, 0, Packet::Watch(Watch { after: FIRST })));
    world.run();
    assert_eq!(world.sent_packets(0, 1), ["waiting"], "there is nothing new");

    // One that nobody wants is declined; then the one that somebody wants.
    send(&mut world, 0, 1, 3);
    world.run();
    let log: Vec<_> = packets(&world);
    let declined = (1, 0, Packet::Decline(Decline { number: FIRST + 1 }));
    assert!(log.contains(&declined), "{log:?}");
    assert_eq!(last_packet(&world), (1, 0, Packet::Watch(Watch { after: FIRST + 1 })));
    send(&mut world, 0, 1, 7);
    world.run();
    assert_eq!(contexts(&mut world, 1), [7]);
    // Nothing is posted any more, so nothing is asked.
    assert!(!matches!(last_packet(&world).2, Packet::Watch(_)));
    for tag in [3, 2, 1] {
        receive(&mut world, 1, 0, tag);
    }
    nothing_is_left(&world);
}

fn packets(world: &World) -> Vec<(usize, usize, Packet)> {
    let net = world.processes[0].port.net();
    net.log.iter().map(|(from, to, packet, _)| (*from, *to, *packet)).collect()
}

fn last_packet(world: &World) -> (usize, usize, Packet) {
    *packets(world).last().expect("something was sent")
}

#[test]
fn a_wildcard_receive_that_is_older_gets_the_message() {
    for exact_first in [false, true] {
        let mut world = narrow(2, 2);
        send(&mut world, 0, 1, 0);
        send(&mut world, 0, 1, 0);
        send(&mut world, 0, 1, 5);
        send(&mut world, 0, 1, 6);
        send(&mut world, 0, 1, 5);
        world.run();
        let buf = world.alloc(1, &[0; 8]);
        // Accepts the tags 4 to 7 of anybody.
        let any = Recv { source: None, ignore: 3, ..recv_from(0, buf, 4, 40) };
        if exact_first {
            post(&mut world, 1, Some(0), 5);
            world.recv(1, &any).unwrap();
        } else {
            world.recv(1, &any).unwrap();
            post(&mut world, 1, Some(0), 5);
        }
        world.run();
        let mut got: Vec<(u64, u64)> = vec![];
        while let Some(end) = world.pop(1) {
            got.push((end.context, end.tag));
        }
        got.sort_unstable();
        let wildcard_gets = if exact_first { 6 } else { 5 };
        assert_eq!(got, [(5, 5), (40, wildcard_gets)]);
    }
}

/// What comes with credits meanwhile is older than what a search finds.
#[test]
fn credits_that_return_while_a_search_is_on_its_way() {
    let mut world = narrow(2, 1);
    send(&mut world, 0, 1, 1);
    send(&mut world, 0, 1, 7);
    send(&mut world, 0, 1, 7);
    world.run();
    let first = post(&mut world, 1, Some(0), 7);
    assert_eq!(world.on_their_way(1, 0), 1, "the search");
    // The unmatched message is received: its credit goes at once.
    post(&mut world, 1, Some(0), 1);
    assert_eq!(contexts(&mut world, 1), [1]);
    world.run();
    assert_eq!(contexts(&mut world, 1), [7]);
    assert_eq!(world.bytes(1, first), pattern(7, 8));
    receive(&mut world, 1, 0, 7);
    nothing_is_left(&world);
}

/// The search finds the second; before its answer comes, the receive is met by
/// an ordinary message of another sender.
#[test]
fn two_stalled_senders_and_one_receive_from_anybody() {
    for order in [[0, 1], [1, 0]] {
        let mut world = narrow(3, 1);
        for from in [0, 1] {
            send(&mut world, from, 2, 1);
            send(&mut world, from, 2, 7);
            send(&mut world, from, 2, 8);
        }
        world.run();
        world.forget_packets();
        post(&mut world, 2, None, 7);
        for from in order {
            world.deliver(2, from);
        }
        for from in order {
            world.deliver(from, 2);
        }
        assert_eq!(world.sent_packets(2, order[1]), ["search", "decline"]);
        world.run();
        assert_eq!(contexts(&mut world, 2), [7]);
        // Both are there as if nothing had been asked.
        for (from, tag) in [(order[1], 7), (0, 8), (1, 8), (0, 1), (1, 1)] {
            receive(&mut world, 2, from, tag);
        }
        nothing_is_left(&world);
    }
}

#[test]
fn a_declined_message_is_sent_in_its_place() {
    let mut world = narrow(2, 1);
    for tag in 1..6 {
        send(&mut world, 0, 1, tag);
    }
    world.run();
    post(&mut world, 1, Some(0), 4);
    world.deliver(1, 0);
    assert!(world.cancel(1, 4));
    assert_eq!(world.ends(1), [(4, Err(Failure::Cancelled))]);
    world.deliver(0, 1);
    assert_eq!(packets(&world).last().unwrap().2, Packet::Decline(Decline { number: FIRST + 2 }));
    // Receives of any tag get all of them in the order they were sent in.
    let buf = world.alloc(1, &[0; 8]);
    for context in 0..5 {
        let any = Recv { ignore: u64::MAX, ..recv_from(0, buf, 0, context) };
        world.recv(1, &any).unwrap();
        world.run();
        assert_eq!(world.only(1).tag, context + 1);
    }
    assert_eq!(contexts(&mut world, 0), [1, 2, 3, 4, 5]);
    nothing_is_left(&world);
}

#[test]
fn a_probe_finds_what_waits_and_a_receive_gets_it() {
    for action in [ProbeAction::Peek, ProbeAction::Claim, ProbeAction::Discard] {
        let mut world = narrow(2, 1);
        for tag in 1..4 {
            send(&mut world, 0, 1, tag);
        }
        world.run();
        world.probe(1, &probe(action, None, 3)).unwrap();
        assert_eq!((world.pop(1), world.pending(1).probes), (None, 1));
        world.run();
        let found = world.only(1);
        assert_eq!((found.kind, found.context, found.outcome), (Kind::Probe, 1003, Ok(())));
        assert_eq!((found.tag, found.len, found.peer), (3, 8, Some(PeerId(0))));
        match action {
            ProbeAction::Peek => receive(&mut world, 1, 0, 3),
            ProbeAction::Claim => {
                // It is out of the matching; others come past it meanwhile.
                receive(&mut world, 1, 0, 2);
                receive(&mut world, 1, 0, 1);
                send(&mut world, 0, 1, 9);
                receive(&mut world, 1, 0, 9);
                let buf = world.alloc(1, &[0; 8]);
                let (now, process) = (world.now, &mut world.processes[1]);
                process.endpoint.recv_claimed(now, &mut process.port, 1003, buf, true).unwrap();
                world.run();
                assert_eq!(world.only(1).outcome, Ok(()));
                assert_eq!(world.bytes(1, buf), pattern(3, 8));
            }
            ProbeAction::Discard => {}
        }
        if action != ProbeAction::Claim {
            for tag in [1, 2] {
                receive(&mut world, 1, 0, tag);
            }
        }
        nothing_is_left(&world);
    }
}

#[test]
fn a_probe_that_finds_nothing_anywhere_says_so_when_all_have_answered() {
    let mut world = narrow(3, 1);
    for from in [0, 1] {
        send(&mut world, from, 2, 1);
        send(&mut world, from, 2, 2);
    }
    world.run();
    world.probe(2, &probe(ProbeAction::Peek, None, 7)).unwrap();
    world.deliver(2, 0);
    world.deliver(0, 2);
    assert_eq!(world.pop(2), None, "the other has not answered");
    world.run();
    assert_eq!(world.only(2).outcome, Err(Failure::NoMessage));
    // Of a sender with credits it is known at once.
    world.probe(2, &probe(ProbeAction::Peek, Some(2), 7)).unwrap();
    assert_eq!(world.only(2).outcome, Err(Failure::NoMessage));
}

/// Who can be heard and not spoken to cannot be asked, and keeps no probe.
#[test]
fn a_probe_does_without_a_sender_that_cannot_be_asked() {
    let mut world = narrow(2, 1);
    send(&mut world, 0, 1, 1);
    send(&mut world, 0, 1, 2);
    world.run();
    world.processes[0].port.net_mut().refuse_connect = Some(PeerError::Full);
    world.probe(1, &probe(ProbeAction::Peek, None, 2)).unwrap();
    assert_eq!(world.only(1).outcome, Err(Failure::NoMessage));
    world.probe(1, &probe(ProbeAction::Peek, Some(0), 2)).unwrap();
    let full = Failure::PeerGone { peer: PeerId(0), why: PeerError::Full };
    assert_eq!(world.only(1).outcome, Err(full));
    world.probe(1, &probe(ProbeAction::Peek, Some(0), 1)).unwrap();
    assert_eq!(world.only(1).outcome, Ok(()));
}

#[test]
fn a_synchronous_send_that_waits_ends_when_it_is_received() {
    let mut world = narrow(2, 1);
    send(&mut world, 0, 1, 1);
    let bytes = world.alloc(0, &pattern(2, 8));
    world.send(0, &Send { delivery: Some(Delivery::Arrived), ..send_to(1, bytes, 2, 2) }).unwrap();
    world.run();
    assert_eq!(contexts(&mut world, 0), [1]);
    receive(&mut world, 1, 0, 2);
    assert_eq!(contexts(&mut world, 0), [2]);
    receive(&mut world, 1, 0, 1);
    nothing_is_left(&world);
}

/// How many messages a test of many takes: what the unoptimised checks of a
/// test build can do in a few seconds, or what the issue asks for.
fn many() -> u64 {
    if cfg!(debug_assertions) { 20_000 } else { 1_000_000 }
}

#[test]
fn both_send_very_many_before_either_receives() {
    let mut world = narrow(2, 100);
    world.checks = false;
    let count = many();
    let bytes = [0, 1].map(|who| world.alloc(who, &pattern(1, 8)));
    for context in 0..count {
        for who in [0, 1] {
            world.send(who, &send_to(1 - who, bytes[who], context, context)).unwrap();
        }
    }
    // The last first, from the middle on in order, then the rest.
    let half = count / 2;
    let tags = (half..count).rev().chain(0..half);
    for tag in tags {
        for who in [0, 1] {
            let buf = Region { len: 8, ..bytes[who] };
            world.recv(who, &recv_from(1 - who, buf, tag, tag)).unwrap();
        }
        while world.step() {}
        world.forget_packets();
        world.journal.clear();
        for who in [0, 1] {
            while let Some(end) = world.pop(who) {
                assert_eq!(end.outcome, Ok(()));
                assert!(end.kind == Kind::Send || end.tag == tag);
            }
        }
    }
    world.run();
    for who in [0, 1] {
        world.ends(who);
    }
    nothing_is_left(&world);
}

#[test]
fn both_inject_until_they_may_not_and_receiving_makes_room() {
    let mailbox = layout(2, 10, 8, 4, 64);
    let config = Config { inject_bytes_max: 50_000, ..Config::default() };
    let mut world = World::new(&[mailbox; 2], Mode::default(), config, 1);
    world.checks = false;
    let bytes = [0, 1].map(|who| world.alloc(who, &pattern(1, 8)));
    let mut sent = [0_u64; 2];
    let mut received = [0_u64; 2];
    let count = many() / 10;
    let mut refusals = 0;
    while received[0] < count || received[1] < count {
        for who in [0, 1] {
            while sent[who] < count {
                let tag = sent[who];
                let inject =
                    Send { inject: true, report: false, ..send_to(1 - who, bytes[who], tag, tag) };
                match world.send(who, &inject) {
                    Ok(()) => sent[who] += 1,
                    Err(Refused::Again) => {
                        refusals += 1;
                        let kept = world.processes[who].endpoint.stats().injected_bytes_now;
                        assert!(kept <= 50_000 && kept > 49_000);
                        break;
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        }
        for who in [0, 1] {
            // The newest that was taken on, then the oldest.
            let newest = sent[1 - who] - 1;
            let oldest = received[who];
            if oldest <= newest {
                let buf = world.alloc(who, &[0; 8]);
                world.recv(who, &recv_from(1 - who, buf, oldest, oldest)).unwrap();
                world.run();
                received[who] += 1;
                assert_eq!(world.only(who).tag, oldest);
                assert_eq!(world.bytes(who, buf), pattern(1, 8));
            }
        }
        world.forget_packets();
        world.journal.clear();
    }
    assert!(refusals > 0);
    world.run();
    nothing_is_left(&world);
}

/// The bytes of the caller change as soon as the call returns.
#[test]
fn injected_messages_keep_their_place_and_their_bytes() {
    let mut world = narrow(2, 1);
    for tag in 0..5 {
        let bytes = world.alloc(0, &pattern(tag, 8));
        let inject = tag % 2 == 0;
        world.send(0, &Send { inject, ..send_to(1, bytes, tag, tag) }).unwrap();
        if inject {
            world.processes[0].port.fill(bytes, 0xEE);
        }
    }
    // One of no bytes takes a record all the same.
    let before = world.processes[0].endpoint.stats().injected_bytes_now;
    let empty = Send { inject: true, ..send_to(1, Region::EMPTY, 5, 5) };
    world.send(0, &empty).unwrap();
    assert!(world.processes[0].endpoint.stats().injected_bytes_now > before);
    for tag in [3, 2, 4, 0, 1] {
        receive(&mut world, 1, 0, tag);
    }
    world.recv(1, &recv_from(0, Region::EMPTY, 5, 5)).unwrap();
    world.run();
    nothing_is_left(&world);
}

#[test]
fn a_peer_dies_while_a_message_is_offered_or_asked_for() {
    // The receiver dies with a message offered to it.
    let mut world = narrow(2, 1);
    send(&mut world, 0, 1, 1);
    send(&mut world, 0, 1, 2);
    send(&mut world, 0, 1, 3);
    world.run();
    world.ends(0);
    post(&mut world, 1, Some(0), 2);
    world.deliver(1, 0);
    world.kill(1);
    world.peer_gone(0, 1, PeerError::Dead);
    let gone = Err(Failure::PeerGone { peer: PeerId(1), why: PeerError::Dead });
    assert_eq!(world.ends(0), [(2, gone), (3, gone)]);
    assert_eq!(world.pending(0), Pending::default());

    // The sender dies while it is asked, by a receive and by probes.
    let mut world = narrow(3, 1);
    for from in [0, 1] {
        send(&mut world, from, 2, 1);
        send(&mut world, from, 2, 2);
    }
    world.run();
    post(&mut world, 2, Some(0), 7);
    world.probe(2, &probe(ProbeAction::Claim, Some(0), 8)).unwrap();
    world.probe(2, &probe(ProbeAction::Peek, None, 9)).unwrap();
    world.kill(0);
    world.peer_gone(2, 0, PeerError::Dead);
    let gone = Err(Failure::PeerGone { peer: PeerId(0), why: PeerError::Dead });
    assert_eq!(world.ends(2), [(7, gone), (1008, gone)]);
    world.run();
    assert_eq!(world.ends(2), [(1009, Err(Failure::NoMessage))]);
}

/// A claimed message whose sender dies is lost, and that is said.
#[test]
fn a_claimed_message_of_the_dead_cannot_be_received() {
    let mut world = narrow(2, 1);
    send(&mut world, 0, 1, 1);
    send(&mut world, 0, 1, 2);
    world.run();
    world.probe(1, &probe(ProbeAction::Claim, None, 2)).unwrap();
    world.run();
    assert_eq!(world.only(1).outcome, Ok(()));
    world.kill(0);
    world.peer_gone(1, 0, PeerError::Dead);
    let buf = world.alloc(1, &[0; 8]);
    let (now, process) = (world.now, &mut world.processes[1]);
    process.endpoint.recv_claimed(now, &mut process.port, 1002, buf, true).unwrap();
    let gone = Err(Failure::PeerGone { peer: PeerId(0), why: PeerError::Dead });
    assert_eq!(world.only(1).outcome, gone);
    assert_eq!(world.pending(1), Pending::default());
}

const FOUND: Found = Found {
    pt_index: PtIndex(0),
    match_bits: MatchBits(7),
    hdr_data: 0,
    user: 0,
    total_len: 8,
    from: RemoteKey::NONE,
};

/// A process that has asked another for the tag 7, in a search or, if it was
/// answered, in a watch.
fn asked(answered: bool) -> World {
    let mut world = narrow(2, 1);
    send(&mut world, 0, 1, 1);
    send(&mut world, 0, 1, 2);
    world.run();
    post(&mut world, 1, Some(0), 7);
    if answered {
        world.run();
    }
    world
}

/// What `from` says next in the numbering of the pair.
fn say(world: &mut World, from: usize, to: usize, packet: Packet) {
    let sent = packets(world).iter().filter(|(f, t, _)| (*f, *t) == (from, to)).count();
    world.forge(from, to, &packet, sent as u32, Credits::default());
}

#[test]
fn answers_to_nothing_that_was_asked_break_the_protocol() {
    let waiting = |watched, number, found| Packet::Waiting(Waiting { watched, number, found });
    let wrong_tag = Found { match_bits: MatchBits(8), ..FOUND };
    let wrong_entry = Found { pt_index: PtIndex(2), ..FOUND };
    let cases = [
        // A watch is answered, and a search was asked.
        (false, waiting(true, FIRST, Some(FOUND))),
        (false, waiting(false, FIRST, Some(wrong_tag))),
        (false, waiting(false, FIRST, Some(wrong_entry))),
        (false, waiting(false, 5, Some(FOUND))),
        // A search is answered, and a watch was asked.
        (true, waiting(false, FIRST, Some(FOUND))),
        (true, waiting(false, FIRST, None)),
        (true, waiting(true, FIRST, Some(FOUND))),
        (true, waiting(true, FIRST + 9, Some(wrong_entry))),
    ];
    for (answered, packet) in cases {
        let mut world = asked(answered);
        say(&mut world, 0, 1, packet);
        let stats = world.processes[1].endpoint.stats();
        assert_eq!(stats.violations, 1, "{packet:?}");
        let gone = Err(Failure::PeerGone { peer: PeerId(0), why: PeerError::Protocol });
        assert_eq!(world.ends(1), [(7, gone)], "{packet:?}");
    }
}

#[test]
fn questions_that_nobody_asks_break_the_protocol() {
    let search =
        Search { pt_index: PtIndex(2), match_bits: MatchBits(7), ignore_bits: 0, newest: u64::MAX };
    let cases = [
        // The watch that is out is not answered yet.
        Packet::Watch(Watch { after: FIRST }),
        // No message is in that portal table entry.
        Packet::Search(search),
        // It was not told of.
        Packet::Decline(Decline { number: FIRST }),
        Packet::ReturnRequest,
    ];
    for packet in cases {
        let mut world = asked(true);
        say(&mut world, 1, 0, packet);
        assert_eq!(world.processes[0].endpoint.stats().violations, 1, "{packet:?}");
        let gone = Err(Failure::PeerGone { peer: PeerId(1), why: PeerError::Protocol });
        assert_eq!(world.ends(0), [(1, Ok(())), (2, gone)], "{packet:?}");
    }
}

/// Time does not help with a message that was told of, so none is asked for.
#[test]
fn nobody_waits_for_time_while_a_message_is_offered() {
    use sluice_link::Machine;
    let mut world = narrow(2, 2);
    let bytes = world.alloc(0, &pattern(1, 300));
    send(&mut world, 0, 1, 1);
    send(&mut world, 0, 1, 2);
    world.send(0, &send_to(1, bytes, 3, 3)).unwrap();
    world.run();
    world.probe(1, &probe(ProbeAction::Claim, None, 3)).unwrap();
    world.run();
    receive(&mut world, 1, 0, 1);
    receive(&mut world, 1, 0, 2);
    assert!(world.data_credits(0, 1) > 0);
    assert_eq!(world.processes[0].endpoint.deadline(), None);
    world.now = Nanos(1 << 40);
    world.idle(0);
    assert_eq!(world.processes[0].endpoint.stats().stalled_now, 1);
}
