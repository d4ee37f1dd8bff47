//! What a process shows to those who watch it.

use super::*;
use crate::shm::Watcher;
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
