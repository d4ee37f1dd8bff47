//! Mailboxes that are files.

use super::super::watch::Watch;
use super::super::{Config, OpenError, SegmentKind, Shm};
use super::child::Child;
use super::{Recorder, poll_until, put, send};
use sluice_link::Transport;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A directory of its own for each test.
pub(super) struct Dir(pub(super) PathBuf);

impl Dir {
    pub(super) fn new(name: &str) -> Dir {
        let path = std::env::temp_dir().join(format!("sluice-test-{}-{name}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        Dir(path)
    }

    pub(super) fn open(&self) -> Result<Shm, OpenError> {
        Shm::open(Config {
            segment: SegmentKind::File,
            shm_dir: self.0.clone(),
            ..Config::default()
        })
    }

    /// With anonymous memory, and its card here.
    pub(super) fn open_memfd(&self) -> Shm {
        let config = Config { segment: SegmentKind::Memfd, ..Config::default() };
        Shm::open(Config { shm_dir: self.0.clone(), ..config }).unwrap()
    }

    pub(super) fn user_dir(&self) -> PathBuf {
        super::super::dirs::user_dir(&self.0, rustix::process::geteuid().as_raw())
    }

    /// How many mailbox files there are, and how many cards.
    pub(super) fn files(&self) -> (usize, usize) {
        let Ok(entries) = fs::read_dir(self.user_dir()) else { return (0, 0) };
        let names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        let mailboxes = names.iter().filter(|name| name.ends_with(".seg")).count();
        let cards = names.iter().filter(|name| name.starts_with("card-")).count();
        assert_eq!(mailboxes + cards, names.len(), "and nothing else: {names:?}");
        (mailboxes, cards)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn files_are_private_and_vanish_with_their_owner() {
    let dir = Dir::new("private");
    let shm = dir.open().unwrap();
    assert!(shm.notices().is_empty());
    assert_eq!((mode(&dir.user_dir()), dir.files()), (0o700, (1, 1)));
    for file in fs::read_dir(dir.user_dir()).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
    let second = dir.open().unwrap();
    assert!(second.notices().is_empty(), "a live mailbox is not stale");
    assert_eq!(dir.files(), (2, 2));
    drop(shm);
    assert_eq!(dir.files(), (1, 1));
    drop(second);
    assert!(!dir.user_dir().exists());
}

#[test]
fn rails_over_files_talk() {
    let dir = Dir::new("talk");
    let (mut a, mut b) = (dir.open().unwrap(), dir.open().unwrap());
    let to_b = a.peer(&b.address()).unwrap();
    a.connect(to_b).unwrap();
    send(&mut a, to_b, put(1, 0), &[4; 1000]);
    let mut machine = Recorder::default();
    poll_until(&mut b, &mut machine, "a packet", |_, machine| !machine.packets.is_empty());
    assert_eq!(machine.packets[0].payload, [4; 1000]);
}

#[test]
fn what_a_killed_process_left_is_reclaimed_by_the_next() {
    let dir = Dir::new("reclaim");
    let target = dir.open_memfd();
    let mut child = Child::run("wait", &target, 0, Some(&dir.0));
    child.wait_ready();
    assert_eq!(dir.files(), (1, 2));
    child.kill();
    assert_eq!(dir.files(), (1, 2), "a killed process leaves its files");
    let shm = dir.open().unwrap();
    assert_eq!(shm.notices().len(), 1);
    let notice = &shm.notices()[0];
    let begin = format!("reclaimed shared memory left by pid {}: ", child.pid());
    assert!(notice.starts_with(&begin) && notice.ends_with(" bytes"), "{notice}");
    assert_eq!(dir.files(), (1, 2), "the target's and the new one's");
}

#[test]
fn what_a_killed_peer_left_is_removed_when_its_end_is_told() {
    let dir = Dir::new("peer");
    let mut shm = dir.open().unwrap();
    let mut machine = Recorder::default();
    let mut child = Child::run("wait", &shm, 0, Some(&dir.0));
    poll_until(&mut shm, &mut machine, "a packet", |_, machine| !machine.packets.is_empty());
    assert_eq!(dir.files(), (2, 2));
    child.kill();
    poll_until(&mut shm, &mut machine, "its end", |_, machine| !machine.gone.is_empty());
    assert_eq!(dir.files(), (1, 2), "by its card others learn that it has ended");
}

/// Across pid namespaces a pid says nothing; the lock on the file does.
#[test]
fn a_peer_of_another_pid_namespace_is_watched_by_its_lock() {
    let dir = Dir::new("lock");
    let (a, b) = (dir.open().unwrap(), dir.open().unwrap());
    let mut elsewhere = a.card;
    elsewhere.pid_ns += 1;
    let card = b.card;
    let watch = Watch::new(&card, &elsewhere, a.identity.uid, &dir.0).unwrap().unwrap();
    assert!(matches!(watch, Watch::Lock(_)));
    assert!(!watch.has_ended(&card));
    drop(b);
    assert!(watch.has_ended(&card));
}
