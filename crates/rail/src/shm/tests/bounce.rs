//! Payload in the memory of its sender.

use super::super::Shm;
use super::super::looks::{self, TWO_PROCESSORS};
use super::{Noise, Recorder, open, poll, put, send, send_credit, settle};
use sluice_link::{PeerError, Transport};
use sluice_wire::{Nanos, PeerId};
use std::sync::atomic::{AtomicBool, Ordering};

const LEN: usize = 30_000;

/// Two rails, each of which has heard of the other, and what they call each other.
fn acquainted() -> (Shm, Shm, PeerId, PeerId) {
    let (mut a, mut b) = (open(), open());
    let to_b = a.peer(&b.address()).unwrap();
    a.connect(to_b).unwrap();
    let to_a = b.peer(&a.address()).unwrap();
    b.connect(to_a).unwrap();
    send(&mut b, to_a, put(1, 0), b"here I am");
    assert_eq!(poll(&mut a, &mut Recorder::default()), 1);
    (a, b, to_b, to_a)
}

/// The first slot of the packet at the head of a mailbox.
pub(super) fn head_offset(shm: &Shm) -> usize {
    let slots = u64::from(shm.layout().ring_slots);
    shm.segment.ring_offset() + (shm.reader.head() & (slots - 1)) as usize * 64
}

#[test]
fn only_who_has_mapped_a_sender_gets_its_buffers() {
    let (mut a, mut b) = (open(), open());
    let to_b = a.peer(&b.address()).unwrap();
    a.connect(to_b).unwrap();
    let payload = Noise(1).bytes(LEN);
    let mut machine = Recorder::default();
    send(&mut a, to_b, put(1, 0), &payload);
    assert_eq!(poll(&mut b, &mut machine), 1);
    assert_eq!(a.stats().bounces_out, 0);
    let to_a = machine.packets[0].from;
    b.connect(to_a).unwrap();
    send(&mut b, to_a, put(2, 0), b"here I am");
    assert_eq!(poll(&mut a, &mut Recorder::default()), 1);
    send(&mut a, to_b, put(3, 0), &payload);
    assert_eq!(poll(&mut b, &mut machine), 1);
    assert_eq!(a.stats().bounces_out, 1);
    assert!(machine.packets.iter().all(|packet| packet.payload == payload));
    assert_eq!(b.stats().violations, 0);
}

/// Who reads nothing has half of the memory; the rest of what it is sent is in its mailbox.
/// The order stays.
#[test]
fn what_finds_no_buffer_goes_through_the_ring() {
    const COUNT: usize = 100;
    let (mut a, mut b, to_b, _) = acquainted();
    let mut noise = Noise(2);
    for round in 0..3 {
        let sent: Vec<_> = (0..COUNT).map(|_| noise.bytes(LEN)).collect();
        for (n, payload) in (0..).zip(&sent) {
            send(&mut a, to_b, put(n, 0), payload);
        }
        let by_buffers = a.stats().bounces_out;
        assert!(by_buffers > round * 20 && by_buffers < (round + 1) * 40, "{by_buffers}");
        let mut machine = Recorder::default();
        while poll(&mut b, &mut machine) != 0 {}
        assert_eq!(machine.packets.len(), COUNT);
        for ((n, payload), packet) in (0..).zip(&sent).zip(&machine.packets) {
            assert_eq!(packet.put().match_bits.0, n);
            assert!(packet.payload == *payload, "packet {n} of round {round}");
        }
    }
}

#[test]
fn a_place_that_there_is_not_ends_the_peer_and_nothing_else() {
    let units = open().segment.bounces_len() as u64 >> 10;
    // Nor is one that is said to be stored in portions.
    for place in [u64::MAX, units, units - 2, 1 << 15, 1 << 15 | units] {
        let (mut a, mut b, to_b, to_a) = acquainted();
        send(&mut a, to_b, put(1, 0), &[7; LEN]);
        send(&mut a, to_b, put(2, 0), &[7; LEN]);
        let word = b.segment.word_at(head_offset(&b) + 56);
        assert_ne!(word.swap(place, Ordering::Relaxed), 0, "the first is in a buffer");
        let mut machine = Recorder::default();
        settle(&mut b, &mut machine);
        assert_eq!(machine.gone, [(to_a, PeerError::Protocol)]);
        assert!(machine.packets.is_empty(), "the second is not delivered either");
        assert!(b.stats().violations > 0);
    }
}

/// A payload of which more is to come than there is, or never comes, is cut.
#[test]
fn a_payload_that_is_never_stored_is_cut_and_ends_its_sender() {
    for behind in [1, 1 << 40] {
        let (mut a, mut b, to_b, to_a) = acquainted();
        // The first copies are timed, and whole.
        while a.own_bounces.portions == 0 {
            while poll(&mut b, &mut Recorder::default()) != 0 {}
            send(&mut a, to_b, put(1, 0), &[7; LEN]);
        }
        let told = b.segment.word_at(head_offset(&b) + 56);
        told.fetch_add(behind << 16, Ordering::Relaxed);
        let mut machine = Recorder::default();
        settle(&mut b, &mut machine);
        assert_eq!((machine.cut, machine.packets.len()), (1, 0));
        assert_eq!(machine.gone, [(to_a, PeerError::Damaged)]);
        assert_eq!(b.stats().violations, 1);
    }
}

/// Whoever forges the count of a receiver ends the use of buffers, and no message is lost.
#[test]
fn a_forged_count_sends_payload_through_the_ring() {
    let (mut a, mut b, to_b, _) = acquainted();
    let mut machine = Recorder::default();
    let mut round = |a: &mut Shm, b: &mut Shm| {
        for n in 0..50 {
            send(a, to_b, put(n, 0), &[n as u8; LEN]);
            assert_eq!(poll(b, &mut machine), 1);
            assert_eq!(machine.packets.pop().unwrap().payload, [n as u8; LEN]);
        }
    };
    round(&mut a, &mut b);
    let entry = a.peers.get(to_b).unwrap().segment.as_ref().unwrap().bounces.entry.unwrap();
    a.segment.bounces_read(entry).store(1 << 40, Ordering::Relaxed);
    // Nobody reads meanwhile, so the sender looks at what was forged.
    for n in 0..100 {
        send(&mut a, to_b, put(n, 0), &[n as u8; LEN]);
    }
    let used = a.stats().bounces_out;
    let mut machine = Recorder::default();
    while poll(&mut b, &mut machine) != 0 {}
    assert!(machine.packets.iter().all(|packet| packet.payload.len() == LEN));
    assert_eq!(machine.packets.len(), 100);
    send(&mut a, to_b, put(9, 0), &[9; LEN]);
    assert_eq!(poll(&mut b, &mut machine), 1);
    assert_eq!(a.stats().bounces_out, used);
}

#[test]
fn what_a_receiver_leaves_unread_is_free_when_it_is_gone() {
    let (mut a, b, to_b, _) = acquainted();
    let all = a.own_bounces.free();
    send(&mut a, to_b, put(1, 0), &[1; LEN]);
    assert!(a.own_bounces.free() < all);
    drop(b);
    let mut machine = Recorder::default();
    settle(&mut a, &mut machine);
    assert_eq!(machine.gone, [(to_b, PeerError::Dead)]);
    assert_eq!(a.own_bounces.free(), all);
}

/// Who has read what it was just sent looks, though nobody sees it do so.
#[test]
fn a_peer_that_has_just_read_looks() {
    let (mut a, mut b, to_b, _) = acquainted();
    let long = vec![1; 64 << 10];
    assert!(!a.is_looking(to_b, long.len() as u64));
    send(&mut a, to_b, put(1, 0), &long);
    assert!(!a.is_looking(to_b, long.len() as u64), "it has read nothing");
    settle(&mut b, &mut Recorder::default());
    // As if no time had passed since.
    let now = a.refresh_now();
    let (_, segment) = a.peers.mailbox_and_segment(to_b).unwrap();
    segment.bounces.written_at = now.saturating_add(Nanos(1_000_000_000));
    assert!(a.is_looking(to_b, long.len() as u64));
    assert!(!a.is_looking(to_b, long.len() as u64), "nothing since");
}

/// What a reader wants announced by length, as its times say or as somebody else has written, is not sent with
/// its packet, though it looks. An end of the writer ends what was wanted of it.
#[test]
fn what_its_reader_wants_announced_does_not_go_eagerly() {
    let (mut a, mut b, to_b, to_a) = acquainted();
    // As one that copies something just now.
    looks::note_work(b.segment.look());
    let goes = |a: &mut Shm| [32, 64, 127, 128, 256, 512].map(|kib| a.is_looking(to_b, kib << 10));
    assert_eq!(goes(&mut a), [true; 6]);
    for at in (1..300).map(|at| at * 100_000) {
        b.note_arrival(to_a, |ways, _| ways.note_eager(64 << 10, Nanos(at), Nanos(at + 4000)));
    }
    assert_eq!(goes(&mut a), [true, false, false, true, true, true]);
    let entry = a.peers.segment(to_b).unwrap().bounces.entry.unwrap();
    a.segment.wanted(entry).store(u64::MAX, Ordering::Relaxed);
    assert_eq!(goes(&mut a), [true, false, false, false, false, true]);
    a.segment.free(entry);
    assert_eq!(goes(&mut a), [true; 6]);
}

/// Also within a poll that takes in several packets, which are not of the most usual kind.
#[test]
fn who_takes_in_many_packets_looks_at_each() {
    const COUNT: u64 = 10;
    let (mut a, mut b, to_b, _) = acquainted();
    for _ in 0..COUNT {
        send_credit(&mut a, to_b, 0);
    }
    let count = |shm: &Shm| shm.segment.look().load(Ordering::Relaxed);
    let before = count(&b);
    assert_eq!(b.poll(Nanos(0), &mut Recorder::default(), 100), COUNT as usize);
    assert!(count(&b) > before + COUNT);
}

/// A process that polls is seen to look, and one that does not is not.
#[test]
fn a_peer_sees_who_looks() {
    let _alone = TWO_PROCESSORS.lock();
    let (mut a, mut b, to_b, _) = acquainted();
    assert!(!a.is_looking(to_b, 4096));
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                poll(&mut b, &mut Recorder::default());
            }
        });
        // One of the two may not run for a while.
        while !a.is_looking(to_b, 4096) {
            std::thread::yield_now();
        }
        ends.store(true, Ordering::Relaxed);
    });
    assert!(!a.is_looking(to_b, 4096));
}
