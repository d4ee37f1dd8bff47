//! Regions that peers move without their owner's call.

use super::child::Child;
use super::reads::reads_work;
use super::{Recorder, addr_of, open, poll_until, region_of};
use crate::shm::Shm;
use sluice_link::{RemoteMemory, Rights, Transport};
use sluice_wire::{PeerId, Region};
use std::time::{Duration, Instant};

const KEY: u64 = 77;
const BOTH: Rights = Rights { read: true, write: true };

/// A rail that is connected with `shm`, and how it calls that.
fn other(shm: &Shm) -> (Shm, PeerId) {
    let mut other = open();
    let peer = other.peer(&shm.address()).unwrap();
    other.connect(peer).unwrap();
    (other, peer)
}

fn region(bytes: &mut [u8]) -> Region {
    Region { addr: addr_of(bytes), len: bytes.len() as u64 }
}

#[test]
fn bytes_move_at_once_until_the_region_is_withdrawn() {
    if !reads_work() {
        return;
    }
    let mut shm = open();
    let (mut other, peer) = other(&shm);
    let mut there = vec![1; 10_000];
    let published = shm.publish(KEY, region(&mut there), 100, BOTH).expect("a place");
    assert_eq!(shm.publish(KEY, region(&mut there), 0, BOTH), None, "the key is taken");
    let bytes = [7; 50];
    assert_eq!(other.write_published(peer, KEY, 110, region_of(&bytes)), Some(Ok(())));
    let mut back = vec![0; 52];
    assert_eq!(other.read_published(peer, KEY, 109, region(&mut back)), Some(Ok(())));
    let back = std::hint::black_box(back);
    assert_eq!((back[0], &back[1..51], back[51]), (1, &bytes[..], 1));
    // Before it, past its end, another key: the owner says what is wrong.
    for (key, offset) in [(KEY, 99), (KEY, 10_051), (KEY, u64::MAX), (KEY + 1, 110)] {
        assert_eq!(other.write_published(peer, key, offset, region_of(&bytes)), None);
    }
    let unmapped = Region { addr: sluice_wire::Addr(16), len: 8 };
    assert_eq!(other.write_published(peer, KEY, 110, unmapped), None);
    shm.withdraw(published);
    assert_eq!(other.write_published(peer, KEY, 110, region_of(&bytes)), None);
    let read_only = shm.publish(KEY, region(&mut there), 0, Rights::READ).expect("its place");
    assert_eq!(other.write_published(peer, KEY, 0, region_of(&bytes)), None);
    shm.withdraw(read_only);
    let stats = other.stats();
    assert_eq!((stats.written_bytes, stats.read_bytes), (50, 52));
    assert_eq!((stats.writes_done, stats.reads_done), (1, 1));
    assert!(std::hint::black_box(there)[10..60].iter().all(|byte| *byte == 7));
}

/// It would go on writing, and who closes a region would not wait for it.
#[test]
fn who_was_refused_moves_nothing() {
    let mut shm = open();
    let (mut other, peer) = other(&shm);
    let mut there = [1; 100];
    let published = shm.publish(KEY, region(&mut there), 0, BOTH).expect("a place");
    let bytes = [2; 8];
    let may = other.write_published(peer, KEY, 0, region_of(&bytes)).is_some();
    assert_eq!(may, reads_work());
    shm.segment.refuse(0);
    assert_eq!(other.write_published(peer, KEY, 0, region_of(&bytes)), None);
    shm.segment.in_use(0).begin(published.0);
    assert!(shm.segment.card_of(0).is_ok_and(|card| card.pid == std::process::id()));
    shm.segment.in_use(0).end();
    shm.withdraw(published);
}

#[test]
fn nothing_moves_when_the_rail_is_closed() {
    let mut shm = open();
    let (mut other, peer) = other(&shm);
    let mut there = [1; 100];
    shm.publish(KEY, region(&mut there), 0, BOTH).expect("a place");
    drop(shm);
    assert_eq!(other.write_published(peer, KEY, 0, region_of(&[2; 8])), None);
    assert_eq!(std::hint::black_box(there)[0], 1);
}

/// It said that it uses the region when it was killed.
#[test]
fn who_has_ended_is_not_waited_for() {
    let mut shm = open();
    let mut machine = Recorder::default();
    let mut child = Child::run("wait", &shm, 0, None);
    poll_until(&mut shm, &mut machine, "a packet", |_, machine| !machine.packets.is_empty());
    let mut there = [1; 100];
    let published = shm.publish(KEY, region(&mut there), 0, BOTH).expect("a place");
    shm.segment.in_use(0).begin(published.0);
    child.kill();
    let begin = Instant::now();
    shm.withdraw(published);
    assert!(begin.elapsed() < Duration::from_secs(10), "not until patience ends");
}
