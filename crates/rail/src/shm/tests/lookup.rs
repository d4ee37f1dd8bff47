//! Cards in a directory of each test's own.

use super::super::card::{Card, Place};
use super::super::error::CardError;
use super::super::lookup::{PREFIX, SWEEP_FILES_MAX, find, path_of};
use super::super::watch::Watch;
use super::super::{Address, Config, SegmentKind, Shm, Warn};
use super::child::Child;
use super::files::Dir;
use super::{PATIENCE, Recorder, advance_clock, poll, put, send, settle};
use rustix::fs::{FlockOperation, flock};
use sluice_link::{PeerError, Transport};
use sluice_wire::Nanos;
use std::cell::RefCell;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Instant;

thread_local! {
    static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn open(dir: &Dir, segment: SegmentKind) -> Shm {
    let warn = Warn(|line| LINES.with_borrow_mut(|lines| lines.push(line.to_owned())));
    Shm::open(Config { segment, shm_dir: dir.0.clone(), warn, ..Config::default() }).unwrap()
}

fn open_file(dir: &Dir) -> Shm {
    open(dir, SegmentKind::File)
}

fn path(dir: &Dir, address: &Address) -> PathBuf {
    path_of(address, &dir.0, rustix::process::geteuid().as_raw())
}

/// Puts a file where a card has to lie, held as if by a living process.
fn forge(path: &Path, bytes: &[u8]) -> File {
    let _ = fs::remove_file(path);
    fs::write(path, bytes).unwrap();
    let file = File::open(path).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    file
}

/// What lies in a file that holds `card`.
fn file_bytes(card: &Card) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(card.start_time.to_le_bytes());
    bytes.extend(card.pid_ns.to_le_bytes());
    bytes.extend(card.pid.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(card.to_bytes());
    bytes
}

#[test]
fn a_card_lies_under_the_mark_of_its_key_while_its_rail_is_open() {
    let dir = Dir::new("card");
    for kind in [SegmentKind::File, SegmentKind::Memfd] {
        let shm = open(&dir, kind);
        let path = path(&dir, &shm.address());
        let name = format!("card-{:016x}", crate::hash::fnv1a(&shm.card.key));
        assert_eq!(path.file_name().unwrap().to_str(), Some(&name[..]));
        assert_eq!(fs::read(&path).unwrap(), file_bytes(&shm.card));
        assert_eq!(find(&shm.address(), &shm.identity, &dir.0).unwrap().card, shm.card);
        let (address, identity) = (shm.address(), shm.identity);
        drop(shm);
        assert!(!path.exists());
        assert!(matches!(find(&address, &identity, &dir.0), Err(CardError::Missing)));
    }
}

/// As systemd does when the last session of a user ends.
#[test]
fn a_card_that_somebody_removes_is_put_back() {
    let dir = Dir::new("removed");
    let (mut shm, mut other) = (open(&dir, SegmentKind::Memfd), open(&dir, SegmentKind::Memfd));
    let path = path(&dir, &shm.address());
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
    let begin = Instant::now();
    while !path.exists() {
        advance_clock(Nanos(10_000_000));
        poll(&mut shm, &mut Recorder::default());
        assert!(begin.elapsed() < PATIENCE);
    }
    let peer = other.peer(&shm.address()).unwrap();
    assert!(other.connect(peer).is_ok());
    assert!(LINES.take().iter().any(|line| line.contains("RemoveIPC")));
    drop(shm);
    assert!(!path.exists());
}

#[test]
fn an_address_is_looked_up_when_it_is_used_and_not_before() {
    let dir = Dir::new("lazy");
    let (mut a, b) = (open_file(&dir), open_file(&dir));
    let hidden = dir.0.join("hidden");
    fs::rename(path(&dir, &b.address()), &hidden).unwrap();
    let peer = a.peer(&b.address()).unwrap();
    assert_eq!(a.peer(&b.address()), Ok(peer));
    assert!(a.peers.get(peer).unwrap().card.is_none());
    fs::rename(&hidden, path(&dir, &b.address())).unwrap();
    assert!(a.connect(peer).is_ok());
    assert_eq!(a.peers.get(peer).unwrap().card.as_deref(), Some(&b.card));
}

/// Files that no process of this version would have put there.
#[test]
fn what_is_no_card_of_its_process_is_refused_counted_and_told() {
    let dir = Dir::new("forged");
    let (b, other) = (open_file(&dir), open_file(&dir));
    let path = path(&dir, &b.address());
    let good = file_bytes(&b.card);
    let changed = |at: usize, bits: u8| {
        let mut bytes = good.clone();
        bytes[at] ^= bits;
        bytes
    };
    let uid = b.identity.uid;
    let foreign = Card { place: Place::File { uid: uid + 1 }, ..b.card };
    let mut lying = b.card;
    lying.pid = 1;
    let mut lying = file_bytes(&lying);
    lying[..24].copy_from_slice(&good[..24]);
    let files = [
        (good[..good.len() - 1].to_vec(), "wrong length"),
        ([&good[..], &[0]].concat(), "wrong length"),
        (good[..24].to_vec(), "wrong length"),
        (b"hello".to_vec(), "no holder"),
        (vec![0; 1 << 20], "card"),
        (changed(good.len() - 1, 1), "wrong checksum"),
        (changed(24, 1), "wrong magic"),
        (changed(24 + 4, 2), "of version 3"),
        (file_bytes(&other.card), "of another process"),
        (lying, "says pid 1"),
        (file_bytes(&foreign), "of user"),
    ];
    for (bytes, part) in files {
        let _held = forge(&path, &bytes);
        refused(&dir, &b.address(), part);
    }
    fs::remove_file(&path).unwrap();
    symlink(dir.user_dir().join("anything"), &path).unwrap();
    refused(&dir, &b.address(), "a symbolic link");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    refused(&dir, &b.address(), "not a file");
    fs::remove_dir(&path).unwrap();
}

fn refused(dir: &Dir, address: &Address, part: &str) {
    let mut a = open_file(dir);
    let mut machine = Recorder::default();
    let peer = a.peer(address).unwrap();
    a.watch(peer);
    assert_eq!(a.connect(peer), Err(PeerError::Unreachable), "{part}");
    settle(&mut a, &mut machine);
    assert_eq!(machine.gone, [(peer, PeerError::Unreachable)], "{part}");
    let lines = LINES.take();
    assert!(lines.len() == 1 && lines[0].contains(part), "{part} in {lines:?}");
    assert!(a.stats().violations > 0, "{part}");
}

#[test]
fn a_card_of_another_boot_is_of_another_machine() {
    let dir = Dir::new("boot");
    let b = open_file(&dir);
    // Its tag is the same.
    let card = Card { host: b.card.host ^ 0x0001_0001, ..b.card };
    let _held = forge(&path(&dir, &b.address()), &file_bytes(&card));
    let mut a = open_file(&dir);
    let peer = a.peer(&b.address()).unwrap();
    assert_eq!(a.connect(peer), Err(PeerError::Unreachable));
    let [line] = &LINES.take()[..] else { panic!("one line") };
    assert!(line.contains("another machine"), "{line}");
}

/// A container that shares the directory: a pid says nothing there, the lock does.
#[test]
fn a_card_of_another_pid_namespace_is_held_by_its_lock() {
    let dir = Dir::new("namespace");
    let b = open_file(&dir);
    let elsewhere = Card { pid_ns: b.card.pid_ns + 1, ..b.card };
    let held = forge(&path(&dir, &b.address()), &file_bytes(&elsewhere));
    let mut a = open_file(&dir);
    let peer = a.peer(&b.address()).unwrap();
    assert!(a.connect(peer).is_ok());
    assert!(matches!(a.peers.get(peer).unwrap().watch.as_deref(), Some(Watch::Lock(_))));
    assert_eq!(a.describe(peer), format!("pid {} of another pid namespace", b.card.pid));
    flock(&held, FlockOperation::Unlock).unwrap();
    let mut late = open_no_sweep(&dir, &held);
    let peer = late.peer(&b.address()).unwrap();
    flock(&held, FlockOperation::Unlock).unwrap();
    assert_eq!(late.connect(peer), Err(PeerError::Dead));

    // Anonymous memory is out of reach there.
    let memfd = open(&dir, SegmentKind::Memfd);
    let elsewhere = Card { pid_ns: memfd.card.pid_ns + 1, ..memfd.card };
    let _held = forge(&path(&dir, &memfd.address()), &file_bytes(&elsewhere));
    let peer = a.peer(&memfd.address()).unwrap();
    assert_eq!(a.connect(peer), Err(PeerError::Unreachable));
    let [line] = &LINES.take()[..] else { panic!("one line") };
    assert!(line.contains("another pid namespace") && line.contains("file"), "{line}");
}

/// Opens a rail that does not take the file for a stale one.
fn open_no_sweep(dir: &Dir, held: &File) -> Shm {
    flock(held, FlockOperation::LockExclusive).unwrap();
    open_file(dir)
}

#[test]
fn a_killed_process_is_dead_until_the_next_start_removes_its_card() {
    let dir = Dir::new("killed");
    let (mut a, mut b) = (open_file(&dir), open_file(&dir));
    let mut child = Child::run("silent", &a, 0, Some(&dir.0));
    let address = child.wait_ready();
    child.kill();
    assert_eq!(dir.files(), (3, 3), "a killed process leaves its files");
    let pid = child.pid();
    let mut machine = Recorder::default();
    let peer = a.peer(&address).unwrap();
    assert_eq!(a.connect(peer), Err(PeerError::Dead));
    settle(&mut a, &mut machine);
    assert_eq!(machine.gone, [(peer, PeerError::Dead)]);
    assert_eq!(LINES.take(), [""; 0], "nothing is wrong with this");
    assert_eq!(a.describe(peer), format!("pid {pid}"), "the dead are named");

    assert_eq!(dir.files(), (2, 3), "by its card others learn of its end");
    let next = open_file(&dir);
    assert_eq!(dir.files(), (3, 3), "what was left is gone");
    assert!(!path(&dir, &address).exists());
    let peer = b.peer(&address).unwrap();
    assert_eq!(b.connect(peer), Err(PeerError::Unreachable));
    drop((a, b, next));
    assert!(!dir.user_dir().exists());
}

#[test]
fn who_has_spoken_is_reached_without_the_file_of_its_card() {
    let dir = Dir::new("spoken");
    let (mut a, mut b) = (open_file(&dir), open_file(&dir));
    let (to_b, to_a) = (a.peer(&b.address()).unwrap(), b.peer(&a.address()).unwrap());
    b.connect(to_a).unwrap();
    fs::remove_file(path(&dir, &b.address())).unwrap();
    assert!(a.connect(to_b).is_ok());
    assert_eq!(LINES.take(), [""; 0]);
}

/// Somebody removed the card of a living process by hand. What that one sends later
/// is not delivered, and it learns of it instead of waiting.
#[test]
fn who_was_given_up_before_its_first_word_learns_of_it() {
    let dir = Dir::new("first-word");
    let (mut a, mut b) = (open_file(&dir), open_file(&dir));
    let (to_b, to_a) = (a.peer(&b.address()).unwrap(), b.peer(&a.address()).unwrap());
    fs::remove_file(path(&dir, &b.address())).unwrap();
    let (mut at_a, mut at_b) = (Recorder::default(), Recorder::default());
    assert_eq!(a.connect(to_b), Err(PeerError::Unreachable));
    settle(&mut a, &mut at_a);
    assert_eq!(at_a.gone, [(to_b, PeerError::Unreachable)]);
    b.connect(to_a).unwrap();
    send(&mut b, to_a, put(1, 0), b"hello");
    let begin = Instant::now();
    while at_b.gone.is_empty() {
        advance_clock(Nanos(10_000_000));
        poll(&mut a, &mut at_a);
        poll(&mut b, &mut at_b);
        assert!(begin.elapsed() < PATIENCE);
    }
    assert_eq!(at_b.gone, [(to_a, PeerError::Refused)]);
    assert_eq!(at_a.packets, []);
}

#[test]
fn only_so_many_files_are_looked_at_and_others_are_left_alone() {
    let dir = Dir::new("sweep");
    let shm = open_file(&dir);
    let bytes = file_bytes(&Card { start_time: 1, ..shm.card });
    for n in 0..SWEEP_FILES_MAX + 20 {
        fs::write(dir.user_dir().join(format!("{PREFIX}{n}")), &bytes).unwrap();
    }
    fs::write(dir.user_dir().join("portals-1"), &bytes).unwrap();
    fs::write(dir.user_dir().join("other"), b"").unwrap();
    let left = || fs::read_dir(dir.user_dir()).unwrap().count() - 4;
    let second = open_file(&dir);
    drop(second);
    assert!((20..=21).contains(&left()), "{} are left", left());
    drop(open_file(&dir));
    assert_eq!(left(), 0);
}
