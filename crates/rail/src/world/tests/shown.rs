//! What a process shows to those who watch it.

use super::*;
use crate::observer::{Observed, Request, Tally};
use crate::shm::Watcher;
use crate::shm::tests::advance_clock;
use sluice_wire::{MatchBits, PtIndex, Put};
use std::fs;
use std::path::Path;

fn open(dir: &Path) -> World {
    World::open(Config { shm_dir: dir.into(), ..Config::default() }).unwrap()
}

/// The files of the user's directory, but for the card.
fn files(dir: &Path) -> Vec<String> {
    let user = fs::read_dir(dir).unwrap().next().unwrap().unwrap().path();
    let names = fs::read_dir(user).unwrap().map(|file| file.unwrap().file_name());
    names
        .map(|name| name.into_string().unwrap())
        .filter(|name| !name.starts_with("card-"))
        .collect()
}

fn poll_while(world: &mut World, what: &str, mut goes_on: impl FnMut() -> bool) {
    let begin = Instant::now();
    while goes_on() {
        world.poll(world.now(), &mut Inputs::default(), 16);
        assert!(begin.elapsed() < PATIENCE, "waited in vain: {what}");
    }
}

#[test]
fn who_watches_sees_and_nothing_is_left_afterwards() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = open(dir.path());
    assert_eq!(files(dir.path()), Vec::<String>::new(), "nobody watches");
    let watcher = Watcher::begin(dir.path()).unwrap();
    let endpoints = watcher.endpoints();
    let [endpoint] = &endpoints[..] else { panic!("one is open: {endpoints:?}") };
    assert_eq!((endpoint.pid, endpoint.is_elsewhere), (std::process::id(), false));
    assert_eq!(watcher.read(endpoint), None);
    world.count_sent(7);
    poll_while(&mut world, "a snapshot", || {
        watcher.go_on();
        watcher.read(endpoint).is_none()
    });
    let (shown, _) = watcher.read(endpoint).unwrap();
    let shown = String::from_utf8(shown).unwrap();
    assert!(
        shown.starts_with(r#"{"sluice_stats":1,"host":"#) && shown.contains(r#""bytes":7}"#),
        "{shown}"
    );
    drop(watcher);
    poll_while(&mut world, "the end of the snapshot", || !files(dir.path()).is_empty());
}

#[test]
fn packets_are_counted_while_somebody_watches_and_not_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let (mut world, mut asked) =
        (open(dir.path()), World::open(observed(dir.path(), None)).unwrap());
    let watcher = Watcher::begin(dir.path()).unwrap();
    poll_until_counted(&mut world, || watcher.go_on());
    let since = world.counted_since();
    drop(watcher);
    look(&mut [&mut world]);
    assert_eq!(world.counted_since(), since, "somebody else may ask in a moment");
    let watcher = Watcher::begin(dir.path()).unwrap();
    look(&mut [&mut world]);
    drop(watcher);
    advance_clock(Nanos(11_000_000_000));
    look(&mut [&mut world, &mut asked]);
    assert_eq!(world.counted_since(), None, "nobody has for so long");
    assert!(asked.counted_since().is_some(), "this process counts for itself");
    // Who comes later finds a count that begins then.
    let watcher = Watcher::begin(dir.path()).unwrap();
    poll_until_counted(&mut world, || watcher.go_on());
    assert!(world.counted_since() > since);
}

/// Each of them has its slow look.
fn look(worlds: &mut [&mut World]) {
    advance_clock(Nanos(200_000_000));
    for world in worlds {
        // It looks at the clock once in some polls.
        for _ in 0..10_000 {
            world.poll(world.now(), &mut Inputs::default(), 16);
        }
    }
}

fn poll_until_counted(world: &mut World, mut then: impl FnMut()) {
    let begin = Instant::now();
    while world.counted_since().is_none() {
        world.poll(world.now(), &mut Inputs::default(), 16);
        then();
        assert!(begin.elapsed() < PATIENCE, "waited in vain for a count");
    }
}

#[test]
fn an_endpoint_that_closes_shows_nothing_more() {
    let dir = tempfile::tempdir().unwrap();
    let (mut world, _other) = (open(dir.path()), open(dir.path()));
    let watcher = Watcher::begin(dir.path()).unwrap();
    let of_world = |file: &String| file.starts_with("stats-");
    poll_while(&mut world, "a snapshot", || {
        watcher.go_on();
        !files(dir.path()).iter().any(of_world)
    });
    assert_eq!(watcher.endpoints().len(), 2);
    drop(world);
    assert_eq!(watcher.endpoints().len(), 1);
    assert!(!files(dir.path()).iter().any(of_world));
}

#[test]
fn what_an_ended_process_has_left_is_removed_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    let _world = open(dir.path());
    let user = fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
    let pid_ns = fs::metadata("/proc/self/ns/pid").unwrap();
    let pid_ns = std::os::unix::fs::MetadataExt::ino(&pid_ns) as u32;
    // This pid did not start then; of another namespace nothing is known.
    let pid = std::process::id();
    let ended = format!("stats-{pid_ns:x}-{pid}-1-0123456789abcdef");
    let (draft, foreign) = (format!("{ended}.new"), ended.replace("stats-", "stats-f"));
    for name in [&ended, &draft, &foreign] {
        fs::write(user.join(name), "{").unwrap();
    }
    let _other = open(dir.path());
    assert_eq!(files(dir.path()), [foreign]);
}

fn observed(dir: &Path, trace_dir: Option<&Path>) -> Config {
    let observed = Observed { peers: true, trace_dir: trace_dir.map(Into::into) };
    Config { shm_dir: dir.into(), observed, ..Config::default() }
}

#[test]
fn packets_are_counted_by_peer_where_that_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let (mut a, mut b) = (open(dir.path()), World::open(observed(dir.path(), None)).unwrap());
    let to_b = a.peer(&b.address()).unwrap();
    a.connect(to_b).unwrap();
    let head = plain_put().emit(PacketSeq(0), Credits::default(), 7);
    a.transmit(to_b, &head, region(b"payload"), Token(0));
    poll_until(&mut b, &mut Inputs::default(), "packet");
    let from_a = b.peer(&a.address()).unwrap();
    let tally = b.tally(from_a);
    assert_eq!((tally.messages_in, tally.bytes_in, tally.messages_out), (1, 7, 0));
    assert!(b.counted_since().is_some());
    assert_eq!((a.counted_since(), a.tally(to_b)), (None, Tally::default()), "nobody asked");
}

#[test]
fn a_trace_is_written_when_all_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let traces = dir.path().join("of/this run");
    let mut a = World::open(observed(dir.path(), Some(&traces))).unwrap();
    let b = open(dir.path());
    let to_b = a.peer(&b.address()).unwrap();
    a.connect(to_b).unwrap();
    a.note_request(Some(to_b), Request::Send { len: 7, tag: 1 });
    let head = plain_put().emit(PacketSeq(0), Credits::default(), 7);
    a.transmit(to_b, &head, region(b"payload"), Token(0));
    assert!(!traces.exists(), "nothing is written before");
    let (name_of_a, name_of_b) = (a.address().to_string(), b.address().to_string());
    drop(a);
    let files: Vec<_> = fs::read_dir(&traces).unwrap().map(|file| file.unwrap().path()).collect();
    let [file] = &files[..] else { panic!("one file: {files:?}") };
    assert!(file.to_str().unwrap().ends_with(&format!("-{name_of_a}.trace")), "{file:?}");
    let text = fs::read_to_string(file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let [head, send, out] = lines[..] else { panic!("{text}") };
    assert!(head.ends_with(&format!(r#","name":"{name_of_a}","events":2,"lost":0}}"#)), "{head}");
    let to = format!(r#","peer":"{name_of_b}","event":"#);
    assert!(send.contains(&(to.clone() + r#""send","len":7,"tag":1}"#)), "{send}");
    assert!(out.contains(&(to + r#""out","number":0,"#)), "{out}");
}

/// Of 7 bytes, as in the tests of worlds.
fn plain_put() -> Packet {
    Packet::Put(Put {
        pt_index: PtIndex(0),
        match_bits: MatchBits(1),
        hdr_data: 0,
        user: 0,
        remote_offset: 0,
        ack: None,
        rts: None,
        bulk: None,
        by_control: false,
    })
}
