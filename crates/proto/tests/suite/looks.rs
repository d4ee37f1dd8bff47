//! Long messages to a receiver that takes in what it is sent, or does not, at that moment; and
//! messages whose sender ends while it writes them.

use crate::world::net::{Mode, dynamic_layout, roomy};
use crate::world::{World, pattern, recv_from, send_to};
use sluice_link::{Grant, Layout, PeerError};
use sluice_proto::{Config, Failure};
use sluice_wire::PeerId;

/// Longer than what is eager to a receiver that does not look.
const LEN: u64 = 500;
const LOOKING_MAX: u32 = 1000;

fn pair() -> World {
    pair_with(roomy())
}

/// Two processes whose mailboxes are divided like this.
fn pair_with(layout: Layout) -> World {
    let config = Config {
        eager_bytes_max: 64,
        looking_bytes_max: LOOKING_MAX,
        announce_bytes_min: 100,
        share_bytes_min: 100,
        ..Config::default()
    };
    let mode = Mode { chunk_claims: true, ..Mode::default() };
    let mut world = World::new(&[layout; 2], mode, config, 1);
    // What a peer grants is known from the first message on.
    exchange(&mut world, 99, 8);
    world
}

/// Whether process 1 looks from now on.
fn look(world: &mut World, looks: bool) {
    world.processes[1].port.net_mut().mode.looking_percent = if looks { 100 } else { 0 };
}

/// A message to a receive that is there; its bytes arrive.
fn exchange(world: &mut World, id: u64, len: u64) {
    let to = world.alloc(1, &vec![0; len as usize]);
    world.recv(1, &recv_from(0, to, 7, 70)).unwrap();
    world.run();
    let from = world.alloc(0, &pattern(id, len));
    world.send(0, &send_to(1, from, 7, id)).unwrap();
    world.run();
    assert_eq!(world.bytes(1, to), pattern(id, len));
    assert_eq!(world.only(1).outcome, Ok(()));
    assert_eq!(world.only(0).outcome, Ok(()));
}

#[test]
fn a_receiver_that_looks_gets_a_long_message_in_one_packet() {
    for (looks, len, eager) in [
        (true, LEN, 1),
        (true, LOOKING_MAX.into(), 1),
        (true, u64::from(LOOKING_MAX) + 1, 0),
        (false, LEN, 0),
        (false, 64, 1),
    ] {
        let mut world = pair();
        look(&mut world, looks);
        exchange(&mut world, 1, len);
        let sent = world.processes[0].endpoint.stats().eager_sent;
        assert_eq!(sent, 1 + eager, "{looks}, {len}");
    }
}

/// A stream that its receiver reads goes eagerly, also where it waits for credits; once that gives none
/// for a while it is announced.
#[test]
fn a_stream_waits_for_the_credits_of_a_receiver_that_reads() {
    const COUNT: u64 = 400;
    for reads in [true, false] {
        let mut world = pair();
        look(&mut world, true);
        let to: Vec<_> = (0..COUNT).map(|_| world.alloc(1, &[0; LEN as usize])).collect();
        for (id, to) in (0..).zip(&to).filter(|_| reads) {
            world.recv(1, &recv_from(0, *to, id, id)).unwrap();
        }
        for id in 0..COUNT {
            let from = world.alloc(0, &pattern(id, LEN));
            world.send(0, &send_to(1, from, id, id)).unwrap();
        }
        assert!(world.processes[0].endpoint.stats().stalled_now > 0, "fewer credits than messages");
        world.run();
        for (id, to) in (0..).zip(&to).filter(|_| !reads) {
            world.recv(1, &recv_from(0, *to, id, id)).unwrap();
        }
        world.run();
        for (id, to) in (0..).zip(&to) {
            assert_eq!(world.bytes(1, *to), pattern(id, LEN), "{id}");
        }
        let sent = world.processes[0].endpoint.stats();
        if reads {
            assert_eq!((sent.eager_sent, sent.rendezvous_sent), (1 + COUNT, 0));
        } else {
            assert!(sent.rendezvous_sent > 0, "{sent:?}");
        }
    }
}

/// Nobody waits for more credits than the receiver has ever given.
#[test]
fn a_message_that_was_never_given_its_credits_is_announced_at_once() {
    // A static share of 6 slots, and many that nobody has yet.
    let grant = Grant { data_slots: 6, control_slots: 2, credit_slots: 2 };
    let mut world = pair_with(dynamic_layout(2, grant, 2000, 64));
    look(&mut world, true);
    let to = world.alloc(1, &[0; LEN as usize]);
    world.recv(1, &recv_from(0, to, 7, 70)).unwrap();
    let from = world.alloc(0, &pattern(1, LEN));
    world.send(0, &send_to(1, from, 7, 1)).unwrap();
    let sent = world.processes[0].endpoint.stats();
    assert_eq!((sent.stalled_now, sent.rendezvous_sent), (0, 1), "{sent:?}");
    world.run();
    assert_eq!(world.bytes(1, to), pattern(1, LEN));
}

/// Nobody waits where the one before has to be read first.
#[test]
fn a_message_that_never_fits_beside_another_one_is_announced_at_once() {
    // Each takes nine slots.
    for (data_slots, together) in [(12, 1), (29, 2)] {
        let grant = Grant { data_slots, control_slots: 2, credit_slots: 2 };
        let mut world = pair_with(dynamic_layout(2, grant, 0, 64));
        look(&mut world, true);
        exchange(&mut world, 0, LEN);
        let before = world.processes[0].endpoint.stats();
        let to: Vec<_> = (0..3).map(|_| world.alloc(1, &[0; LEN as usize])).collect();
        for (id, to) in (0..).zip(&to) {
            world.recv(1, &recv_from(0, *to, id, id)).unwrap();
            let from = world.alloc(0, &pattern(id, LEN));
            world.send(0, &send_to(1, from, id, id)).unwrap();
        }
        let sent = world.processes[0].endpoint.stats();
        assert_eq!(sent.eager_sent - before.eager_sent, together, "{data_slots}");
        let (announced, waiting) = if together == 1 { (2, 0) } else { (0, 1) };
        assert_eq!((sent.rendezvous_sent, sent.stalled_now), (announced, waiting), "{data_slots}");
        world.run();
        for (id, to) in (0..).zip(&to) {
            assert_eq!(world.bytes(1, *to), pattern(id, LEN), "{id}");
        }
    }
}

/// Nor behind one that waits for credits.
#[test]
fn a_message_that_never_fits_beside_another_one_is_announced_from_the_queue() {
    const SHORTER: u64 = 150;
    for (data_slots, announced) in [(14, 1), (29, 0)] {
        let grant = Grant { data_slots, control_slots: 2, credit_slots: 2 };
        let mut world = pair_with(dynamic_layout(2, grant, 0, 64));
        look(&mut world, true);
        exchange(&mut world, 0, LEN);
        let mut to = Vec::new();
        let mut exchange_later = |world: &mut World, len: u64| {
            let (id, into) = (to.len() as u64, world.alloc(1, &vec![0; len as usize]));
            world.recv(1, &recv_from(0, into, id, id)).unwrap();
            let from = world.alloc(0, &pattern(id, len));
            world.send(0, &send_to(1, from, id, id)).unwrap();
            to.push((into, pattern(id, len)));
            world.processes[0].endpoint.stats().stalled_now
        };
        while exchange_later(&mut world, SHORTER) == 0 {}
        assert_eq!(exchange_later(&mut world, LEN), 2, "{data_slots}");
        world.run();
        let sent = world.processes[0].endpoint.stats();
        assert_eq!(sent.rendezvous_sent, announced, "{data_slots}");
        for (into, bytes) in to {
            assert_eq!(world.bytes(1, into), bytes);
        }
    }
}

/// What waits behind others is not sent eagerly to a receiver that has stopped to look: only who
/// gives credits is taken for one that reads.
#[test]
fn a_message_that_waited_without_credits_looks_again() {
    let mut world = pair();
    look(&mut world, true);
    for id in 0..400 {
        let from = world.alloc(0, &pattern(id, LEN));
        world.send(0, &send_to(1, from, id, id)).unwrap();
    }
    let eager = world.processes[0].endpoint.stats().eager_sent;
    assert!(world.processes[0].endpoint.stats().stalled_now > 0);
    look(&mut world, false);
    // Patience ends; nobody receives.
    world.run();
    let sent = world.processes[0].endpoint.stats();
    assert_eq!(sent.eager_sent, eager, "{sent:?}");
    assert!(sent.rendezvous_sent > 0, "{sent:?}");
}

/// Receives go on to be announced, for the one that finds its receiver at work.
#[test]
fn what_came_because_its_receiver_looked_does_not_end_announcements() {
    let mut world = pair();
    look(&mut world, true);
    for id in 0..20 {
        exchange(&mut world, id, LEN);
    }
    assert_eq!(world.processes[1].endpoint.stats().announced, 20);
    look(&mut world, false);
    exchange(&mut world, 20, LEN);
    assert_eq!(world.processes[0].endpoint.stats().rtrs_used, 1);
}

#[test]
fn a_receive_whose_message_is_cut_ends_with_an_error_and_the_next_one_does_not() {
    let mut world = pair();
    let to = world.alloc(1, &[0; 60]);
    world.recv(1, &recv_from(0, to, 7, 70)).unwrap();
    let from = world.alloc(0, &pattern(1, 60));
    world.processes[1].port.net_mut().cut(1, true);
    world.send(0, &send_to(1, from, 7, 1)).unwrap();
    world.run();
    let ended = world.only(1);
    assert_eq!(
        (ended.context, ended.outcome),
        (70, Err(Failure::PeerGone { peer: PeerId(0), why: PeerError::Dead }))
    );
    world.only(0);
    world.processes[1].port.net_mut().cut(1, false);
    exchange(&mut world, 2, 60);
}
