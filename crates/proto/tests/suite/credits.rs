//! How credits are spent, run out, and come back; told as it happens.

use crate::world;
use crate::world::net::{Mode, dynamic_layout, layout, roomy};
use crate::world::{World, pattern, recv_from, send_to};
use sluice_link::{Grant, Machine};
use sluice_proto::{Config, Delivery, Send};
use sluice_wire::{Nanos, PeerId, Region};

/// One process with roomy mailbox; the other grants 20 data slots, and both
/// have two places for credit packets of each region: a threshold of 7.
fn narrow() -> World {
    let config = Config { patience: Nanos(1000), ..Config::default() };
    World::new(&[layout(2, 20, 8, 4, 16); 2], Mode::default(), config, 1)
}

fn post(world: &mut World, count: u64) {
    for context in 0..count {
        world.recv(1, &recv_from(0, Region::EMPTY, 7, context)).unwrap();
    }
}

fn send_empty(world: &mut World, count: u64) {
    for context in 0..count {
        world.send(0, &send_to(1, Region::EMPTY, 7, context)).unwrap();
    }
}

#[test]
fn the_seventh_freed_slot_of_twenty_sends_a_credit_packet() {
    let mut world = narrow();
    post(&mut world, 7);
    send_empty(&mut world, 7);
    for _ in 0..6 {
        world.deliver(0, 1);
    }
    assert_eq!(world.on_their_way(1, 0), 0);
    world.deliver(0, 1);
    assert_eq!(world.sent_packets(1, 0), ["credit"]);
    assert_eq!(world.data_credits(0, 1), 13);
    world.deliver(1, 0);
    assert_eq!(world.data_credits(0, 1), 20);
}

#[test]
fn credits_ride_on_what_goes_anyway() {
    let mut world = narrow();
    post(&mut world, 3);
    send_empty(&mut world, 3);
    world.deliver_all();
    world.send(1, &send_to(0, Region::EMPTY, 7, 10)).unwrap();
    assert_eq!(world.sent_packets(1, 0), ["put"]);
    world.deliver(1, 0);
    assert_eq!(world.data_credits(0, 1), 20);
}

#[test]
fn an_idle_receiver_returns_few_credits_only_to_one_that_is_short_of_them() {
    let mut world = narrow();
    post(&mut world, 3);
    send_empty(&mut world, 3);
    world.run();
    assert_eq!(world.sent_packets(1, 0), [""; 0], "17 of 20 are enough");

    // Eight more stay unmatched: nine are left, less than half.
    send_empty(&mut world, 8);
    world.deliver_all();
    assert_eq!(world.data_credits(0, 1), 9);
    world.idle(1);
    assert_eq!(world.sent_packets(1, 0), ["credit"]);
    world.deliver(1, 0);
    assert_eq!(world.data_credits(0, 1), 12);
}

/// What is owed may become important only when more arrives that is not
/// matched: nothing is freed then, and the owed credits must still go.
#[test]
fn credits_owed_since_long_go_when_the_last_ones_are_spent() {
    let mut world = narrow();
    post(&mut world, 3);
    send_empty(&mut world, 3);
    world.run();
    send_empty(&mut world, 17);
    world.run();
    assert_eq!(world.data_credits(0, 1), 3);
}

/// One credit is in the first place for credit packets, and the rest of half of the quota in the
/// last; then no more can go until the sender spends. It must not wait for more than it has.
#[test]
fn a_message_that_wants_more_than_what_trickled_in_goes_as_an_announcement() {
    for inject in [false, true] {
        let mut world = narrow();
        send_empty(&mut world, 20);
        world.run();
        for context in 0..20 {
            world.recv(1, &recv_from(0, Region::EMPTY, 7, context)).unwrap();
            world.run();
        }
        assert_eq!(world.data_credits(0, 1), 10, "one credit, then half of the quota");
        world.ends(0);
        world.ends(1);

        let bytes = world.alloc(0, &pattern(1, 700));
        let buf = world.alloc(1, &[0; 700]);
        world.recv(1, &recv_from(0, buf, 8, 80)).unwrap();
        world.send(0, &Send { inject, ..send_to(1, bytes, 8, 30) }).unwrap();
        if inject {
            world.processes[0].port.fill(bytes, 0);
        }
        world.forget_packets();
        world.run();
        assert_eq!(world.ends(1), [(80, Ok(()))]);
        assert_eq!(world.ends(0), [(30, Ok(()))]);
        assert_eq!(world.bytes(1, buf), pattern(1, 700));
        assert_eq!(world.sent_packets(0, 1)[0], "rts");
        assert_eq!(world.processes[0].port.net().lent(0), (0, 0));
        assert!(world.data_credits(0, 1) >= 10);
    }
}

#[test]
fn a_stalled_send_keeps_its_place_and_goes_when_credits_come() {
    let mut world = narrow();
    send_empty(&mut world, 21);
    send_empty(&mut world, 1);
    assert_eq!(world.processes[0].endpoint.stats().stalled_now, 2);
    world.run();
    assert_eq!(world.processes[0].endpoint.stats().stalled_now, 2, "nothing is matched");
    assert_eq!(world.processes[0].endpoint.deadline(), None);
    post(&mut world, 22);
    world.run();
    assert_eq!(world.processes[0].endpoint.stats().stalled_now, 0);
    let contexts: Vec<u64> = world.ends(0).into_iter().map(|(context, _)| context).collect();
    assert_eq!(contexts[20..], [20, 0], "in order");
}

#[test]
fn who_waits_for_whom_is_told() {
    let mut world = narrow();
    send_empty(&mut world, 20);
    world.run();
    let told = world.processes[0].endpoint.told();
    let [peer] = told.peers[..] else { panic!("one peer: {told:?}") };
    assert_eq!((told.eager, peer.packets_out, peer.credits_max), (20, 20, 20));
    assert_eq!((peer.ledger.data_credits, peer.waiting, peer.waits_since), (0, 0, None));
    send_empty(&mut world, 2);
    let since = world.processes[0].endpoint.told().peers[0].waits_since;
    assert!(since.is_some());
    world.run();
    let peer = world.processes[0].endpoint.told().peers[0];
    assert_eq!((peer.waiting, peer.waits_since), (2, since), "the oldest waits since then");
    let told = world.processes[1].endpoint.told();
    assert_eq!(
        (told.unexpected, told.unexpected_now, told.peers[0].ledger.data_held),
        (20, 20, 20)
    );
    assert_eq!((peer.stalls, told.peers[0].unexpected_slots_max), (2, 20));
    post(&mut world, 22);
    world.run();
    let peer = world.processes[0].endpoint.told().peers[0];
    assert_eq!((peer.waiting, peer.waits_since), (0, None));
    assert!(peer.stalls == 2 && peer.stalled > Nanos(0), "{peer:?}");
    world.run();
    let later = world.processes[0].endpoint.told();
    assert_eq!(later.peers[0].stalled, peer.stalled, "nothing waits any more");
    let told = world.processes[1].endpoint.told();
    assert_eq!((told.peers[0].ledger.data_held, told.peers[0].unexpected_slots_max), (0, 20));
}

#[test]
fn patience_turns_a_long_message_into_an_announcement() {
    let mut world = narrow();
    send_empty(&mut world, 15);
    // 1,000 bytes take 17 slots; five are left.
    let bytes = world.alloc(0, &pattern(1, 1000));
    world.send(0, &send_to(1, bytes, 8, 30)).unwrap();
    world.forget_packets();
    world.now = Nanos(world.now.0 + 999);
    world.idle(0);
    assert_eq!(world.sent_packets(0, 1), [""; 0]);
    world.now = Nanos(world.now.0 + 1);
    world.idle(0);
    assert_eq!(world.sent_packets(0, 1), ["rts"]);
    assert_eq!(world.data_credits(0, 1), 4);
    let buf = world.alloc(1, &[0; 1000]);
    world.recv(1, &recv_from(0, buf, 8, 80)).unwrap();
    world.run();
    assert_eq!(world.ends(1), [(80, Ok(()))]);
    assert_eq!(world.bytes(1, buf), pattern(1, 1000));
}

/// With the acknowledgement's name in its header a message of 33 bytes takes
/// two slots: it too can be announced in one.
#[test]
fn a_message_that_is_long_by_its_acknowledgement_can_be_announced() {
    let config = Config { patience: Nanos(1000), ..Config::default() };
    let mut world = World::new(&[layout(2, 1, 8, 4, 16); 2], Mode::default(), config, 1);
    let bytes = world.alloc(0, &pattern(1, 33));
    let buf = world.alloc(1, &[0; 33]);
    world.recv(1, &recv_from(0, buf, 8, 80)).unwrap();
    world.send(0, &Send { delivery: Some(Delivery::Arrived), ..send_to(1, bytes, 8, 30) }).unwrap();
    world.run();
    assert_eq!(world.ends(0), [(30, Ok(()))]);
}

/// Its slots will never be free together, so it does not wait for them.
#[test]
fn a_message_longer_than_the_quota_is_announced_at_once() {
    let mut world = narrow();
    let bytes = world.alloc(0, &pattern(1, 2000));
    send_empty(&mut world, 1);
    world.forget_packets();
    world.send(0, &send_to(1, bytes, 8, 30)).unwrap();
    assert_eq!(world.sent_packets(0, 1), ["rts"]);
    // An injected one has to be copied first, and waits for no time either.
    world.send(0, &Send { inject: true, ..send_to(1, bytes, 9, 31) }).unwrap();
    world.processes[0].port.fill(bytes, 0);
    world.idle(0);
    assert_eq!(world.sent_packets(0, 1), ["rts"]);
    let buf = world.alloc(1, &[0; 2000]);
    world.recv(1, &recv_from(0, buf, 9, 80)).unwrap();
    world.run();
    assert_eq!(world.bytes(1, buf), pattern(1, 2000));
}

#[test]
fn time_is_not_asked_for_where_only_credits_help() {
    let mut world = narrow();
    send_empty(&mut world, 20);
    let bytes = world.alloc(0, &pattern(1, 1000));
    world.send(0, &send_to(1, bytes, 8, 30)).unwrap();
    assert_eq!(world.processes[0].endpoint.deadline(), None);
}

#[test]
fn acknowledgements_without_a_control_credit_wait_and_then_go() {
    // Process 0 grants two control credits.
    let layouts = [layout(2, 20, 2, 4, 16), roomy()];
    let mut world = World::new(&layouts, Mode::default(), Config::default(), 1);
    post(&mut world, 5);
    for context in 0..5 {
        let send =
            Send { delivery: Some(Delivery::Arrived), ..send_to(1, Region::EMPTY, 7, context) };
        world.send(0, &send).unwrap();
    }
    for _ in 0..5 {
        world.deliver(0, 1);
    }
    assert_eq!(world.on_their_way(1, 0), 2);
    assert_eq!(world.pending(1).answers, 3);
    // What waits keeps its credits: a sender cannot make it wait for more.
    assert_eq!(world.processes[1].endpoint.links().ledger(PeerId(0)).unwrap().data_held, 3);
    world.run();
    assert_eq!(world.ends(0).len(), 5);
    assert_eq!(world.pending(1).answers, 0);
}

#[test]
fn messages_that_are_kept_are_told_of_once_control_credits_allow() {
    let layouts = [layout(2, 20, 2, 4, 16), roomy()];
    let mut world = World::new(&layouts, Mode::default(), Config::default(), 1);
    for tag in 0..6 {
        let send =
            Send { delivery: Some(Delivery::Arrived), ..send_to(1, Region::EMPTY, tag, tag) };
        world.send(0, &send).unwrap();
    }
    for _ in 0..6 {
        world.deliver(0, 1);
    }
    assert_eq!(world.on_their_way(1, 0), 2);
    assert_eq!(world.pending(1).answers, 4);
    // Of these one was told of; the others keep their credits until they are.
    for tag in [1, 3, 4] {
        world.recv(1, &recv_from(0, Region::EMPTY, tag, tag)).unwrap();
    }
    assert_eq!(world.ends(1), [1, 3, 4].map(|tag| (tag, Ok(()))));
    assert_eq!(world.processes[1].endpoint.links().ledger(PeerId(0)).unwrap().data_held, 5);
    world.run();
    let mut ends = world.ends(0);
    ends.sort_by_key(|(context, _)| *context);
    let each: Vec<_> = (0..6).map(|tag| (tag, Ok(()))).collect();
    assert_eq!(ends, each, "each is told once");
    assert_eq!(world.pending(1).answers, 0);
    assert_eq!(world.processes[1].endpoint.stats().unexpected_now, 3);
}

#[test]
fn get_dones_without_a_control_credit_wait_and_then_go() {
    let layouts = [layout(2, 20, 1, 4, 16), roomy()];
    let mut world = World::new(&layouts, Mode::default(), Config::default(), 1);
    for context in 0..4 {
        let bytes = world.alloc(0, &pattern(context, 50_000));
        let buf = world.alloc(1, &vec![0; 50_000]);
        world.recv(1, &recv_from(0, buf, 7, context)).unwrap();
        world.send(0, &send_to(1, bytes, 7, context)).unwrap();
    }
    for _ in 0..4 {
        world.deliver(0, 1);
        world.happen(world::net::Event::Read(0));
    }
    assert_eq!(world.ends(1).len(), 4, "the receiver has its messages");
    assert_eq!(world.pending(1).answers, 3);
    world.run();
    assert_eq!(world.ends(0).len(), 4);
}

/// The places for credit packets are the other side's to give.
#[test]
fn a_mailbox_with_few_places_for_credit_packets_is_respected() {
    // Process 0 has one place for each region, process 1 four.
    let layouts = [layout(2, 20, 8, 2, 16), layout(2, 40, 8, 8, 16)];
    let mut world = World::new(&layouts, Mode::default(), Config::default(), 1);
    for _ in 0..4 {
        post(&mut world, 10);
        send_empty(&mut world, 10);
        // Process 0 reads nothing; its mailbox is watched by the world.
        while world.on_their_way(0, 1) > 0 {
            world.deliver(0, 1);
        }
    }
    world.run();
    assert_eq!(world.processes[1].endpoint.links().slots_held(), 0);
}

/// A message longer than the slots that its sender owns goes whole once the region
/// has been given to it: only what can never fit is announced at once.
#[test]
fn a_dynamic_region_carries_messages_longer_than_the_static_slots() {
    let grant = Grant { data_slots: 4, control_slots: 8, credit_slots: 4 };
    let mailbox = dynamic_layout(2, grant, 60, 16);
    let mut world = World::new(&[mailbox; 2], Mode::default(), Config::default(), 1);
    // Small messages bring the sender over its first thresholds.
    post(&mut world, 8);
    send_empty(&mut world, 8);
    world.run();
    assert!(world.data_credits(0, 1) > 30, "{}", world.data_credits(0, 1));
    world.forget_packets();
    let bytes = world.alloc(0, &pattern(1, 1000));
    let buf = world.alloc(1, &[0; 1000]);
    world.recv(1, &recv_from(0, buf, 7, 1)).unwrap();
    world.send(0, &send_to(1, bytes, 7, 1)).unwrap();
    assert_eq!(world.sent_packets(0, 1), ["put"]);
    world.run();
    assert_eq!(world.bytes(1, buf), pattern(1, 1000));
    // More than the whole region: there is nothing to wait for.
    world.forget_packets();
    let bytes = world.alloc(0, &pattern(2, 4100));
    world.send(0, &send_to(1, bytes, 8, 2)).unwrap();
    assert_eq!(world.sent_packets(0, 1), ["rts"]);
}

/// A sender without credits is asked to give some back. The next credit that it
/// gets goes into the answer, so it has none for the message in its queue; and what
/// was freed of it is not owed to it any more. The receiver has to ask.
#[test]
fn a_last_credit_that_goes_into_a_credit_return_makes_the_receiver_ask() {
    // Process 1 sends to process 0, and so does process 2, which will take what
    // process 1 has of the dynamic region.
    let grant = Grant { data_slots: 1, control_slots: 8, credit_slots: 2 };
    let mailbox = dynamic_layout(3, grant, 2, 16);
    let mut world = World::new(&[mailbox; 3], Mode::default(), Config::default(), 1);
    let mut context = 0;
    let mut exchange = |world: &mut World, from: usize| {
        context += 1;
        assert!(context < 50, "the dynamic slots stay where they are");
        world.recv(0, &recv_from(from, Region::EMPTY, 7, context)).unwrap();
        world.send(from, &send_to(0, Region::EMPTY, 7, context)).unwrap();
        world.deliver(from, 0);
        world.idle(0);
    };
    while world.data_credits(1, 0) < 2 {
        exchange(&mut world, 1);
        world.deliver_all();
    }
    // Process 2 is busy until process 1 is asked; that is on its way.
    world.forget_packets();
    while !world.sent_packets(0, 1).contains(&"return request") {
        exchange(&mut world, 2);
        while world.on_their_way(0, 2) > 0 {
            world.deliver(0, 2);
        }
    }
    // It has spent its credits meanwhile, and one more message waits.
    let credits = world.data_credits(1, 0);
    for context in 0..u64::from(credits) {
        world.send(1, &send_to(0, Region::EMPTY, 8, 100 + context)).unwrap();
    }
    world.send(1, &send_to(0, Region::EMPTY, 9, 200)).unwrap();
    world.deliver_all();
    assert_eq!(world.processes[1].endpoint.stats().stalled_now, 1);
    // One of its messages is taken: the answer gets the credit.
    world.recv(0, &recv_from(1, Region::EMPTY, 8, 300)).unwrap();
    world.idle(0);
    world.recv(0, &recv_from(1, Region::EMPTY, 9, 301)).unwrap();
    world.forget_packets();
    while world.on_their_way(0, 1) > 0 {
        world.deliver(0, 1);
    }
    assert_eq!(world.sent_packets(1, 0), ["return response"]);
    world.run();
    assert_eq!(world.ends(0).last(), Some(&(301, Ok(()))), "nobody asks for what waits");
    assert_eq!(world.sent_packets(0, 1).first(), Some(&"search"));
}
