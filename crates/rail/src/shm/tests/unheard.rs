//! Peers that end and have never said anything.

use super::child::Child;
use super::environment::over_files;
use super::files::Dir;
use super::{Recorder, Shm, advance_clock, open, poll, poll_until, put, send, settle};
use sluice_link::{PeerError, Transport};
use sluice_wire::{Nanos, PeerId};

#[test]
fn a_peer_that_somebody_waits_for_is_watched_though_it_never_spoke() {
    let (mut shm, mut machine) = (open(), Recorder::default());
    let mut child = Child::run("silent", &shm, 0, None);
    let peer = shm.peer(&child.wait_ready()).unwrap();
    shm.watch(peer);
    child.kill();
    poll_until(&mut shm, &mut machine, "its end", |_, machine| !machine.gone.is_empty());
    assert_eq!(machine.gone, [(peer, PeerError::Dead)]);
}

/// Who learns of a death by connecting tells nobody else by that. In a directory of its own,
/// or others might remove what is left of the child first.
#[test]
fn an_end_that_is_met_by_connecting_is_told() {
    let dir = Dir::new("met");
    let (mut shm, mut machine) = (over_files(&dir.0), Recorder::default());
    let mut child = Child::run("silent", &shm, 0, Some(&dir.0));
    let peer = shm.peer(&child.wait_ready()).unwrap();
    child.kill();
    assert_eq!(shm.connect(peer), Err(PeerError::Dead));
    assert!(shm.is_busy(), "somebody is to be told");
    settle(&mut shm, &mut machine);
    assert_eq!(machine.gone, [(peer, PeerError::Dead)]);
    assert_eq!(shm.connect(peer), Err(PeerError::Dead));
    settle(&mut shm, &mut machine);
    assert_eq!(machine.gone.len(), 1, "once");
}

#[test]
fn an_end_that_nobody_was_to_know_of_is_told_to_who_asks_later() {
    let (mut shm, mut writer, mut machine) = (open(), open(), Recorder::default());
    let to_shm = writer.peer(&shm.address()).unwrap();
    writer.connect(to_shm).unwrap();
    let address = writer.address();
    drop(writer);
    settle(&mut shm, &mut machine);
    assert_eq!(machine.gone, [], "nobody has heard of it");
    let peer = shm.peer(&address).unwrap();
    settle(&mut shm, &mut machine);
    assert_eq!(machine.gone, [(peer, PeerError::Dead)]);
    assert_eq!(shm.connect(peer), Err(PeerError::Dead));
}

/// It lives, so its end is none that the system tells of.
#[test]
fn a_peer_that_closes_its_mailbox_before_a_word_is_noticed() {
    let (mut shm, silent, other) = (open(), open(), open());
    let mut machine = Recorder::default();
    let (peer, alive) = (shm.peer(&silent.address()).unwrap(), shm.peer(&other.address()).unwrap());
    shm.watch(peer);
    shm.watch(alive);
    drop(silent);
    poll_until(&mut shm, &mut machine, "its end", |_, machine| !machine.gone.is_empty());
    assert_eq!(machine.gone, [(peer, PeerError::Dead)]);
    settle(&mut shm, &mut machine);
    assert_eq!(machine.gone.len(), 1, "the other one has its mailbox");
}

/// A program that closes all its descriptors has no mailbox any more, and no credit gets to
/// it. It lives, and writes with its entry still, so nobody else may have that.
#[test]
fn a_writer_whose_mailbox_is_gone_is_given_up_and_keeps_its_entry() {
    let dir = Dir::new("bare");
    let (mut owner, mut writer) = (over_files(&dir.0), over_files(&dir.0));
    let (mut machine, mut at_writer) = (Recorder::default(), Recorder::default());
    let (to_owner, peer) = introduce(&mut owner, &mut writer);
    writer.connect(to_owner).unwrap();
    send(&mut writer, to_owner, put(1, 0), b"before");
    settle(&mut owner, &mut machine);
    std::fs::remove_file(writer.card.path(&dir.0)).unwrap();
    look_often(&mut owner, &mut machine);
    let mut other = over_files(&dir.0);
    let other_to_owner = other.peer(&owner.address()).unwrap();
    other.connect(other_to_owner).unwrap();
    send(&mut writer, to_owner, put(2, 0), b"after");
    settle(&mut owner, &mut machine);
    let heard: Vec<_> = machine.packets.iter().map(|packet| packet.from).collect();
    assert_eq!((heard, &machine.gone[..]), (vec![peer], &[(peer, PeerError::Unreachable)][..]));
    look_often(&mut writer, &mut at_writer);
    assert_eq!(at_writer.gone, [(to_owner, PeerError::Refused)]);
}

/// The same, and it writes its first word after that was taken for its end.
#[test]
fn a_writer_that_was_taken_for_ended_learns_that_it_is_refused() {
    let dir = Dir::new("late");
    let (mut owner, mut writer) = (over_files(&dir.0), over_files(&dir.0));
    let (mut machine, mut at_writer) = (Recorder::default(), Recorder::default());
    let (to_owner, peer) = introduce(&mut owner, &mut writer);
    std::fs::remove_file(writer.card.path(&dir.0)).unwrap();
    look_often(&mut owner, &mut machine);
    assert_eq!(machine.gone, [(peer, PeerError::Dead)]);
    writer.connect(to_owner).unwrap();
    send(&mut writer, to_owner, put(1, 0), b"hello");
    look_often(&mut owner, &mut machine);
    look_often(&mut writer, &mut at_writer);
    assert_eq!((machine.packets.len(), machine.gone.len()), (0, 1));
    assert_eq!(at_writer.gone, [(to_owner, PeerError::Refused)]);
    look_often(&mut owner, &mut machine);
    assert!(!owner.is_sender(peer), "its entry is free again");
}

/// What `owner` is called by `writer`, and what it calls that one, which it watches.
fn introduce(owner: &mut Shm, writer: &mut Shm) -> (PeerId, PeerId) {
    let peer = owner.peer(&writer.address()).unwrap();
    owner.watch(peer);
    (writer.peer(&owner.address()).unwrap(), peer)
}

/// Has a rail look after everything that it looks after now and then.
fn look_often(shm: &mut Shm, machine: &mut Recorder) {
    for _ in 0..200 {
        advance_clock(Nanos(10_000_000));
        poll(shm, machine);
    }
}
