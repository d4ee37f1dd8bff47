//! Peers that end and have never said anything.

use super::child::Child;
use super::{Recorder, open, poll_until, settle};
use sluice_link::{PeerError, Transport};

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

/// Who learns of a death by connecting tells nobody else by that.
#[test]
fn an_end_that_is_met_by_connecting_is_told() {
    let (mut shm, mut machine) = (open(), Recorder::default());
    let mut child = Child::run("silent", &shm, 0, None);
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
