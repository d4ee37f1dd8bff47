//! Peers of which only the label is known.

use super::super::{Config, Name, Names, Shm, host_id};
use super::{Recorder, open, poll_until, put, send, settle};
use sluice_link::{PeerError, RemoteMemory, Transport};
use sluice_wire::PeerId;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

const KIND: u8 = 1;
const PID: u32 = 7;

/// A directory of names of its own for each test.
struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Home {
        let path = std::env::temp_dir().join(format!("sluice-named-{}-{name}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        Home(path)
    }

    fn names(&self) -> Names {
        Names::open(&self.0).unwrap()
    }

    /// A rail that finds others by their names.
    fn finder(&self) -> Shm {
        let mut shm = open();
        shm.use_names(self.names(), KIND);
        shm
    }

    /// A rail with a name.
    fn named(&self, pid: u32) -> (Name, Shm) {
        let shm = labelled(label(pid));
        (self.names().claim(pid, KIND, &shm.address()).unwrap(), shm)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn label(pid: u32) -> u64 {
    u64::from(host_id()) << 32 | u64::from(pid)
}

fn labelled(label: u64) -> Shm {
    Shm::open(Config { label, ..Config::default() }).unwrap()
}

/// Sends a packet there; it must arrive and be the only one. Says from whom.
fn speak(from: &mut Shm, to: PeerId, at: &mut Shm) -> PeerId {
    from.connect(to).unwrap();
    send(from, to, put(5, 0), b"hello");
    let mut machine = Recorder::default();
    poll_until(at, &mut machine, "a packet", |_, machine| !machine.packets.is_empty());
    assert_eq!(machine.packets.len(), 1);
    machine.packets[0].from
}

#[test]
fn who_is_spoken_to_before_it_exists_is_reached_once_it_does() {
    let home = Home::new("before");
    let mut finder = open();
    let peer = finder.peer_named(label(PID));
    assert_eq!(finder.connect(peer), Err(PeerError::Unreachable), "nobody to ask");
    finder.use_names(home.names(), KIND);
    assert_eq!(finder.connect(peer), Err(PeerError::Unreachable));
    assert_eq!((finder.peer_label(peer), finder.peer_address(peer)), (label(PID), None));
    assert_eq!(finder.describe(peer), format!("the process called {:#x}", label(PID)));
    let mut machine = Recorder::default();
    send(&mut finder, peer, put(1, 0), b"swallowed");
    settle(&mut finder, &mut machine);

    let (_name, mut named) = home.named(PID);
    assert_eq!(finder.peer_named(label(PID)), peer);
    speak(&mut finder, peer, &mut named);
    assert_eq!(finder.peer_address(peer), Some(named.address()));
    assert_eq!(finder.peer(&named.address()), Ok(peer), "the same id as by address");
    assert_eq!(machine.gone, []);
}

#[test]
fn another_kind_is_another_process() {
    let home = Home::new("kind");
    let (_name, _named) = home.named(PID);
    let mut finder = open();
    finder.use_names(home.names(), KIND + 1);
    let peer = finder.peer_named(label(PID));
    assert_eq!(finder.connect(peer), Err(PeerError::Unreachable));
}

#[test]
fn who_writes_first_with_an_awaited_label_gets_the_awaited_id() {
    // Without names: what it sends is all that is known of it.
    let (mut waiting, mut writer) = (open(), labelled(label(PID)));
    let awaited = waiting.peer_named(label(PID));
    let other = waiting.peer_named(label(PID + 1));
    assert_ne!(awaited, other);
    assert_eq!(waiting.connect(awaited), Err(PeerError::Unreachable));
    let to_waiting = writer.peer(&waiting.address()).unwrap();
    assert_eq!(speak(&mut writer, to_waiting, &mut waiting), awaited);
    assert_eq!(waiting.peer_address(awaited), Some(writer.address()));
    assert_eq!(speak(&mut waiting, awaited, &mut writer), to_waiting);
    assert_eq!(waiting.connect(other), Err(PeerError::Unreachable));
    // Who is known already is not another one by its label.
    assert_eq!(waiting.peer_named(label(PID)), awaited);
}

#[test]
fn both_ends_may_know_each_other_by_label_only() {
    let home = Home::new("both");
    let ((_one, mut a), (_two, mut b)) = (home.named(1), home.named(2));
    a.use_names(home.names(), KIND);
    b.use_names(home.names(), KIND);
    let (to_b, to_a) = (a.peer_named(label(2)), b.peer_named(label(1)));
    assert_eq!(speak(&mut a, to_b, &mut b), to_a);
    assert_eq!(speak(&mut b, to_a, &mut a), to_b);
}

#[test]
fn a_name_that_leads_to_another_label_is_refused() {
    let home = Home::new("mismatch");
    let impostor = labelled(label(PID + 1));
    let _name = home.names().claim(PID, KIND, &impostor.address()).unwrap();
    let mut finder = home.finder();
    let peer = finder.peer_named(label(PID));
    let known = finder.stats().peers_known;
    assert_eq!(finder.connect(peer), Err(PeerError::Unreachable));
    assert_eq!((finder.stats().peers_known, finder.peer_address(peer)), (known, None));
    // Of another host the name is of no use, though the number is the same.
    let (_name, _named) = home.named(PID + 2);
    let elsewhere = finder.peer_named(label(PID + 2) ^ 1 << 32);
    assert_eq!(finder.connect(elsewhere), Err(PeerError::Unreachable));
}

#[test]
fn a_rail_knows_itself_by_its_label() {
    let mut shm = labelled(label(PID));
    assert_eq!(shm.peer_named(label(PID)), shm.own_peer());
}

#[test]
fn zero_is_nobody_s_label() {
    let home = Home::new("zero");
    let unlabelled = open();
    let _name = home.names().claim(0, KIND, &unlabelled.address()).unwrap();
    let mut finder = home.finder();
    let known = finder.stats().peers_known;
    let peer = finder.peer_named(0);
    assert_eq!(finder.peer_named(0), peer);
    assert_eq!(finder.connect(peer), Err(PeerError::Unreachable));
    assert!(!finder.caps(peer).read);
    assert_eq!(finder.stats().peers_known, known);
}

/// The new one is reachable as another peer; the old one ends once. `back`:
/// whether the old one ever wrote to the one that is told.
fn remade(home: &Home, back: bool) {
    let mut finder = home.finder();
    let mut machine = Recorder::default();
    let (name, mut old) = home.named(PID);
    let to_old = finder.peer_named(label(PID));
    let to_finder = speak(&mut finder, to_old, &mut old);
    if back {
        assert_eq!(speak(&mut old, to_finder, &mut finder), to_old);
    }
    drop((name, old));
    let (_name, mut new) = home.named(PID);
    poll_until(&mut finder, &mut machine, "its end", |_, machine| !machine.gone.is_empty());
    assert_eq!(machine.gone, [(to_old, PeerError::Dead)]);
    let to_new = finder.peer_named(label(PID));
    assert_ne!(to_new, to_old);
    let to_finder = speak(&mut finder, to_new, &mut new);
    assert_eq!(finder.peer(&new.address()), Ok(to_new));
    assert_eq!(speak(&mut new, to_finder, &mut finder), to_new);
    settle(&mut finder, &mut machine);
    assert_eq!(machine.gone.len(), 1);
    assert_eq!(finder.connect(to_old), Err(PeerError::Dead));
}

#[test]
fn the_next_with_a_name_is_another_peer() {
    remade(&Home::new("remade"), true);
}

#[test]
fn the_next_with_a_name_is_found_though_the_last_one_never_answered() {
    remade(&Home::new("silent"), false);
}

#[test]
fn the_next_with_a_name_may_write_before_the_end_of_the_last_is_noticed() {
    let home = Home::new("overtaken");
    let mut finder = home.finder();
    let (name, mut old) = home.named(PID);
    let to_finder = old.peer(&finder.address()).unwrap();
    let from_old = speak(&mut old, to_finder, &mut finder);
    send(&mut old, to_finder, put(1, 0), b"last words");
    drop((name, old));
    let (_name, mut new) = home.named(PID);
    let to_finder = new.peer(&finder.address()).unwrap();
    new.connect(to_finder).unwrap();
    send(&mut new, to_finder, put(2, 0), b"first words");
    let mut machine = Recorder::default();
    settle(&mut finder, &mut machine);
    let [last, first] = &machine.packets[..] else { panic!("two packets") };
    assert_eq!((last.from, &last.payload[..]), (from_old, &b"last words"[..]));
    assert_eq!(&first.payload[..], b"first words");
    assert_ne!(first.from, from_old);
    assert_eq!(machine.gone, [(from_old, PeerError::Dead)]);
    assert_eq!(finder.peer_named(label(PID)), first.from);
}

/// As [`the_next_with_a_name_may_write_before_the_end_of_the_last_is_noticed`], by one that
/// makes no progress meanwhile.
#[test]
fn the_next_with_a_name_is_spoken_to_before_the_end_of_the_last_is_noticed() {
    let home = Home::new("followed");
    let mut finder = home.finder();
    for is_mapped in [true, false] {
        let (name, mut old) = home.named(PID);
        let to_finder = old.peer(&finder.address()).unwrap();
        let from_old = speak(&mut old, to_finder, &mut finder);
        if is_mapped {
            assert_eq!(finder.peer_named(label(PID)), from_old);
            finder.connect(from_old).unwrap();
        }
        drop((name, old));
        let (_name, mut new) = home.named(PID);
        let to_new = finder.peer_named(label(PID));
        assert_ne!(to_new, from_old);
        finder.connect(to_new).unwrap();
        send(&mut finder, to_new, put(1, 0), b"first words");
        let mut machine = Recorder::default();
        settle(&mut new, &mut machine);
        assert_eq!(&machine.packets[0].payload[..], b"first words");
        let mut machine = Recorder::default();
        poll_until(&mut finder, &mut machine, "both ends", |_, machine| !machine.gone.is_empty());
        assert_eq!(machine.gone, [(from_old, PeerError::Dead)], "is told as ever");
        assert_eq!(finder.peer_named(label(PID)), to_new);
    }
}

/// Known by address, and no more when it is spoken to: nobody reports that, but
/// the label does not lead there any more.
#[test]
fn a_label_does_not_stay_with_a_mailbox_that_is_no_more() {
    let home = Home::new("lost");
    let mut finder = home.finder();
    let (name, old) = home.named(PID);
    let to_old = finder.peer(&old.address()).unwrap();
    assert_eq!(finder.peer_label(to_old), 0, "nothing has been read of it");
    finder.watch(to_old);
    assert_eq!(finder.peer_named(label(PID)), to_old);
    drop((name, old));
    assert_eq!(finder.connect(to_old), Err(PeerError::Unreachable));
    let (_name, mut new) = home.named(PID);
    let to_new = finder.peer_named(label(PID));
    assert_ne!(to_new, to_old);
    speak(&mut finder, to_new, &mut new);
    assert_eq!(finder.peer_named(label(PID)), to_new);
}

#[test]
fn a_label_leads_back_to_the_older_one_if_that_outlives_the_newest() {
    let home = Home::new("older");
    let mut finder = home.finder();
    let (_name, mut older) = home.named(PID);
    let to_older = finder.peer_named(label(PID));
    speak(&mut finder, to_older, &mut older);
    let mut newer = labelled(label(PID));
    let to_finder = newer.peer(&finder.address()).unwrap();
    let from_newer = speak(&mut newer, to_finder, &mut finder);
    assert_ne!(from_newer, to_older);
    assert_eq!(finder.peer_named(label(PID)), from_newer);
    drop(newer);
    let mut machine = Recorder::default();
    settle(&mut finder, &mut machine);
    assert_eq!(machine.gone, [(from_newer, PeerError::Dead)]);
    assert_eq!(finder.peer_named(label(PID)), to_older);
    speak(&mut finder, to_older, &mut older);
}
