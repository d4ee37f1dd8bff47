//! Rails that end while their process lives.

use super::super::lookup::find;
use super::super::segment::{Claim, Segment};
use super::super::{Config, Shm, Woken, segment_bytes};
use super::reads::reads_work;
use super::sleep::{FOREVER_NS, sleep_until, sleeper};
use super::{Noise, Recorder, addr_of, at, open, poll, poll_until, put, region_of, send, settle};
use sluice_link::{PeerError, RailError, RemoteMemory, Token, Transport};
use sluice_wire::{Credits, PacketSeq, PeerId, Region};
use std::sync::mpsc;

/// Two rails, each connected to the other, and what they call each other.
pub(super) fn pair() -> (Shm, PeerId, Shm, PeerId) {
    let (mut a, mut b) = (open(), open());
    let (to_b, to_a) = (a.peer(&b.address()).unwrap(), b.peer(&a.address()).unwrap());
    a.connect(to_b).unwrap();
    b.connect(to_a).unwrap();
    (a, to_b, b, to_a)
}

#[test]
fn all_that_was_published_is_delivered_before_the_end_is_told() {
    const PACKETS: u64 = 200;
    let (mut a, to_b, mut b, to_a) = pair();
    let mut noise = Noise(3);
    for n in 0..PACKETS {
        send(&mut a, to_b, put(n, 0), &noise.bytes((n % 4) as usize * 50));
    }
    drop(a);
    let mut machine = Recorder::default();
    // The end is known before the first packet is read. That none comes after
    // it, and that it is told once, the recorder sees.
    b.adopt_senders();
    settle(&mut b, &mut machine);
    let mut noise = Noise(3);
    assert_eq!(machine.packets.len() as u64, PACKETS);
    for (n, arrived) in (0..).zip(&machine.packets) {
        assert_eq!((arrived.from, arrived.put().match_bits.0), (to_a, n));
        assert_eq!(arrived.payload, noise.bytes((n % 4) as usize * 50));
    }
    assert_eq!(machine.gone, [(to_a, PeerError::Dead)]);
    let stats = b.stats();
    assert_eq!((stats.violations, stats.holes_skipped, stats.peers_attached), (0, 0, 0));
    assert!(!b.is_sender(to_a));
}

#[test]
fn what_is_sent_between_the_end_and_its_report_is_swallowed() {
    let (a, _, mut b, to_a) = pair();
    drop(a);
    send(&mut b, to_a, put(1, 0), &[1; 1000]);
    b.adopt_senders();
    assert!(b.connect(to_a).is_ok());
    send(&mut b, to_a, put(2, 0), &[1; 1000]);
    let mut machine = Recorder::default();
    settle(&mut b, &mut machine);
    assert_eq!(machine.gone, [(to_a, PeerError::Dead)]);
    send(&mut b, to_a, put(3, 0), b"x");
}

/// Whoever wrote to it is told, also if it never heard of them.
#[test]
fn who_was_only_written_to_ends_too() {
    let (mut a, b) = (open(), open());
    let to_b = a.peer(&b.address()).unwrap();
    a.connect(to_b).unwrap();
    send(&mut a, to_b, put(1, 0), b"unread");
    drop(b);
    let mut machine = Recorder::default();
    poll_until(&mut a, &mut machine, "its end", |_, machine| !machine.gone.is_empty());
    assert_eq!(machine.gone, [(to_b, PeerError::Dead)]);
    assert_eq!((a.connect(to_b), a.stats().peers_attached), (Err(PeerError::Dead), 0));
}

#[test]
fn closing_rings() {
    let (mut shm, mut writer) = (sleeper(), open());
    let to_shm = writer.peer(&shm.address()).unwrap();
    writer.connect(to_shm).unwrap();
    send(&mut writer, to_shm, put(1, 0), b"x");
    let mut machine = Recorder::default();
    settle(&mut shm, &mut machine);
    let doorbell = shm.doorbell();
    let armed = doorbell.arm();
    assert!(!shm.has_work());
    drop(writer);
    assert_eq!(armed.sleep(Some(FOREVER_NS)), Woken::Rang);
    // However short ago it looked: nobody rings a second time.
    assert!(shm.has_work());
    assert!(poll(&mut shm, &mut machine) > 0);
    assert_eq!(machine.gone.len(), 1);
}

#[test]
fn no_end_of_many_is_slept_through() {
    const ENDS: usize = 300;
    let mut shm = sleeper();
    let address = shm.address();
    let (told, is_told) = mpsc::sync_channel(1);
    let sleeps = std::thread::spawn(move || {
        for _ in 0..ENDS {
            let mut machine = Recorder::default();
            sleep_until(&mut shm, &mut machine, FOREVER_NS, |machine| !machine.gone.is_empty());
            assert_eq!(machine.packets.len(), 1);
            told.send(()).unwrap();
        }
    });
    for _ in 0..ENDS {
        let mut writer = open();
        let to_shm = writer.peer(&address).unwrap();
        writer.connect(to_shm).unwrap();
        send(&mut writer, to_shm, put(1, 0), b"x");
        drop(writer);
        is_told.recv_timeout(super::PATIENCE).unwrap();
    }
    sleeps.join().unwrap();
}

#[test]
fn a_writer_that_closed_before_it_was_ever_seen_is_heard_and_ends() {
    for known_first in [false, true] {
        let (mut owner, mut writer) = (open(), open());
        let to_owner = writer.peer(&owner.address()).unwrap();
        writer.connect(to_owner).unwrap();
        send(&mut writer, to_owner, put(1, 0), &[4; 300]);
        let address = writer.address();
        drop(writer);
        let mut machine = Recorder::default();
        if known_first {
            owner.adopt_senders();
        }
        settle(&mut owner, &mut machine);
        let [arrived] = &machine.packets[..] else { panic!("one packet") };
        assert_eq!((arrived.payload.len(), machine.gone.len()), (300, 1));
        assert_eq!(machine.gone, [(arrived.from, PeerError::Dead)]);
        assert_eq!(owner.peer_address(arrived.from), Some(address));
    }
}

#[test]
fn a_writer_that_came_and_went_without_a_word_is_not_told_of() {
    let config = Config { senders_max: 1, ..Config::default() };
    let mut owner = Shm::open(config).unwrap();
    let mut machine = Recorder::default();
    for _ in 0..3 {
        let mut writer = open();
        let to_owner = writer.peer(&owner.address()).unwrap();
        writer.connect(to_owner).unwrap();
        drop(writer);
        settle(&mut owner, &mut machine);
        assert_eq!(owner.segment.claim_of(0), Claim::Free);
    }
    assert_eq!((machine.gone, machine.packets), (vec![], vec![]));
}

#[test]
fn entries_of_the_closed_are_used_again() {
    const RAILS: u64 = 1000;
    let config = Config { senders_max: 4, ..Config::default() };
    let mut owner = Shm::open(config).unwrap();
    let mut machine = Recorder::default();
    for n in 0..RAILS {
        let config = Config { senders_max: 4, slots_max: 4096, ..Config::default() };
        let mut writer = Shm::open(config).unwrap();
        let to_owner = writer.peer(&owner.address()).unwrap();
        // Four go unnoticed; then the owner has to look.
        if n >= 4 && n.is_multiple_of(4) {
            assert_eq!(writer.connect(to_owner), Err(PeerError::Full));
            settle(&mut owner, &mut machine);
        }
        writer.connect(to_owner).unwrap();
        send(&mut writer, to_owner, put(n, 0), &[n as u8; 100]);
    }
    settle(&mut owner, &mut machine);
    assert_eq!(machine.gone.len() as u64, RAILS);
    let order: Vec<u64> = machine.packets.iter().map(|one| one.put().match_bits.0).collect();
    assert_eq!(order, (0..RAILS).collect::<Vec<_>>());
    let stats = owner.stats();
    assert_eq!((stats.violations, stats.holes_skipped, stats.peers_attached), (0, 0, 0));
    for entry in 0..4 {
        assert_eq!(owner.segment.claim_of(entry), Claim::Free);
    }
}

/// Maps a mailbox as a process would that does not keep to the rules.
pub(super) fn attach(owner: &Shm) -> Segment {
    let bytes = segment_bytes(&owner.layout()) as u64;
    Segment::attach(owner.backing.fd(), owner.backing.is_file(), bytes, owner.card.mark()).unwrap()
}

#[test]
fn the_entry_of_a_closed_writer_with_an_unusable_card_is_free_again() {
    let mut owner = open();
    let segment = attach(&owner);
    let mut elsewhere = owner.card;
    elsewhere.host += 1;
    elsewhere.key[0] ^= 1;
    let mut machine = Recorder::default();
    for closed_first in [false, true] {
        let entry = segment.claim(&elsewhere).unwrap();
        if !closed_first {
            settle(&mut owner, &mut machine);
            assert_eq!(owner.segment.claim_of(entry.index), Claim::Ready);
        }
        segment.close(entry, &elsewhere);
        settle(&mut owner, &mut machine);
        assert_eq!(owner.segment.claim_of(entry.index), Claim::Free);
    }
    // The one that was refused before it closed said who it is once more.
    assert_eq!((owner.stats().violations, machine.gone), (3, vec![]));
}

#[test]
fn who_closes_late_does_not_close_the_entry_of_the_next() {
    let owner = open();
    let segment = attach(&owner);
    let first = segment.claim(&owner.card).unwrap();
    owner.segment.free(first.index);
    let second = segment.claim(&owner.card).unwrap();
    assert_eq!(second.index, first.index);
    segment.close(first, &owner.card);
    assert_eq!(owner.segment.claim_of(second.index), Claim::Ready);
    segment.close(second, &owner.card);
    assert_eq!(owner.segment.claim_of(second.index), Claim::Closed);
    let claims = owner.segment.claims();
    segment.close(second, &owner.card);
    assert_eq!(owner.segment.claims(), claims, "closed once");
}

#[test]
fn moves_under_way_to_a_closed_rail_end_before_its_end_is_told() {
    if !reads_work() {
        return;
    }
    const LEN: usize = 16 << 20;
    let (mut a, to_b, b, _) = pair();
    let mut machine = Recorder::default();
    settle(&mut a, &mut machine);
    assert!(a.caps(to_b).read && a.caps(to_b).write);
    let theirs = Noise(1).bytes(LEN);
    let (mut ours, mut target) = (vec![0; LEN], vec![0; LEN]);
    let to = Region { addr: addr_of(&mut ours), len: LEN as u64 };
    a.read_remote(to_b, at(region_of(&theirs).addr), to, Token(1));
    a.write_remote(to_b, region_of(&theirs), at(addr_of(&mut target)), Token(2));
    poll(&mut a, &mut machine);
    assert_eq!(machine.reads, []);
    drop(b);
    // Asked for when it had ended and nobody knew.
    a.read_remote(to_b, at(region_of(&theirs).addr), to, Token(3));
    a.adopt_senders();
    a.write_remote(to_b, region_of(&theirs), at(addr_of(&mut target)), Token(4));
    for _ in 0..100 {
        assert!(machine.gone.is_empty() || machine.reads.len() == 4);
        poll(&mut a, &mut machine);
    }
    machine.reads.sort_by_key(|&(token, _)| token.0);
    let ended = |token| (Token(token), Err(RailError::PeerGone));
    assert_eq!(machine.reads, [ended(1), ended(2), ended(3), ended(4)]);
    assert_eq!(machine.gone, [(to_b, PeerError::Dead)]);
    let stats = a.stats();
    assert!(stats.read_bytes < LEN as u64 && stats.written_bytes < LEN as u64);
    std::hint::black_box((ours, target));
}

/// Who gives a peer up tells it so: what that waits for does not come.
#[test]
fn who_is_given_up_is_told() {
    let (mut a, to_b, mut b, to_a) = pair();
    let head = put(2, 0).emit(PacketSeq(0), Credits::default(), u32::MAX);
    a.transmit(to_b, &head, Region::EMPTY, Token(0));
    let (mut at_a, mut at_b) = (Recorder::default(), Recorder::default());
    settle(&mut b, &mut at_b);
    assert_eq!(at_b.gone, [(to_a, PeerError::Protocol)]);
    settle(&mut a, &mut at_a);
    assert_eq!(at_a.gone, [(to_b, PeerError::Refused)]);
    // Which frees the entry of the one that was given up.
    settle(&mut b, &mut at_b);
    assert!(!a.is_sender(to_b) && !b.is_sender(to_a));
    assert_eq!(at_b.gone.len(), 1);
    drop(a);
    settle(&mut b, &mut at_b);
    assert_eq!(at_b.gone.len(), 1);
}

#[test]
fn a_fork_that_drops_its_copy_closes_nothing() {
    let (mut a, to_b, mut b, to_a) = pair();
    let mut machine = Recorder::default();
    // SAFETY: the child of the fork only lets go of its copies and ends at
    // once; the parent's `a` is not touched by that.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            drop(std::ptr::read(&raw const a));
            libc::_exit(0);
        }
        assert!(child > 0);
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        assert_eq!(status, 0);
    }
    settle(&mut b, &mut machine);
    assert_eq!(machine.gone, []);
    assert!(!a.segment.is_closed());
    assert_eq!(find(&a.address(), &b.identity, &b.shm_dir).unwrap().card, a.card);
    send(&mut a, to_b, put(1, 0), b"still here");
    settle(&mut b, &mut machine);
    assert_eq!(machine.packets[0].from, to_a);
}

#[test]
fn a_rail_that_is_connected_to_itself_closes() {
    let mut shm = open();
    let own = shm.own_peer();
    shm.connect(own).unwrap();
    send(&mut shm, own, put(1, 0), b"x");
    drop(shm);
    let (a, _, b, _) = pair();
    drop(b);
    drop(a);
}

/// Of three one closes; the two others go on.
#[test]
fn the_others_do_not_notice() {
    let (mut a, to_b, mut b, to_a) = pair();
    let mut third = open();
    for to in [a.address(), b.address()] {
        let peer = third.peer(&to).unwrap();
        third.connect(peer).unwrap();
        send(&mut third, peer, put(9, 0), b"x");
    }
    drop(third);
    let (mut at_a, mut at_b) = (Recorder::default(), Recorder::default());
    for n in 0..100 {
        send(&mut a, to_b, put(n, 0), b"from a");
        send(&mut b, to_a, put(n, 0), b"from b");
        settle(&mut a, &mut at_a);
        settle(&mut b, &mut at_b);
    }
    for (machine, peer) in [(at_a, to_b), (at_b, to_a)] {
        assert_eq!((machine.packets.len(), machine.gone.len()), (101, 1));
        assert_ne!(machine.gone[0].0, peer);
    }
}
