//! Threads that sleep until somebody writes.

use super::super::{Config, Doorbell, SLEEP_NS_MAX, Shm, Woken};
use super::child::Child;
use super::{PATIENCE, Recorder, open, poll, put, send};
use sluice_link::{RemoteMemory, Transport};
use std::sync::mpsc;
use std::time::Instant;

/// Longer than anything takes here: who sleeps so long was not woken.
pub(super) const FOREVER_NS: u64 = 60_000_000_000;

pub(super) fn sleeper() -> Shm {
    Shm::open(Config { sleeps: true, ..Config::default() }).unwrap()
}

/// Polls, and sleeps whenever there is nothing to do, until `done`. Says how
/// often it slept.
pub(super) fn sleep_until(
    shm: &mut Shm,
    machine: &mut Recorder,
    timeout_ns: u64,
    mut done: impl FnMut(&Recorder) -> bool,
) -> u64 {
    let doorbell = shm.doorbell();
    let begin = Instant::now();
    let mut sleeps = 0;
    while !done(machine) {
        assert!(begin.elapsed() < PATIENCE, "slept in vain; {:?}", shm.stats());
        if poll(shm, machine) != 0 {
            continue;
        }
        let armed = doorbell.arm();
        if shm.has_work() {
            armed.disarm();
            continue;
        }
        let woken = armed.sleep(Some(timeout_ns));
        assert!(woken != Woken::TimedOut || timeout_ns < FOREVER_NS, "a wake-up was lost");
        sleeps += 1;
    }
    sleeps
}

/// The writer waits for each answer, so the reader is about to sleep, or
/// sleeps, whenever a packet comes.
#[test]
fn no_packet_of_many_is_slept_through() {
    const PACKETS: u64 = 100_000;
    let (mut reader, mut writer) = (sleeper(), open());
    let to_reader = writer.peer(&reader.address()).unwrap();
    writer.connect(to_reader).unwrap();
    let (answer, answered) = mpsc::sync_channel(1);
    let reads = std::thread::spawn(move || {
        let mut machine = Recorder::default();
        let mut sleeps = 0;
        for n in 0..PACKETS {
            sleeps += sleep_until(&mut reader, &mut machine, FOREVER_NS, |machine| {
                !machine.packets.is_empty()
            });
            let arrived = machine.packets.pop().unwrap();
            assert_eq!(arrived.put().match_bits.0, n);
            assert!(machine.packets.is_empty());
            answer.send(arrived.payload.len()).unwrap();
        }
        sleeps
    });
    let payload = [3; 300];
    for n in 0..PACKETS {
        // One slot, and several.
        let len = (n % 3) as usize * 130;
        send(&mut writer, to_reader, put(n, 0), &payload[..len]);
        assert_eq!(answered.recv_timeout(PATIENCE), Ok(len));
    }
    assert!(reads.join().unwrap() > 0, "the reader slept at least once");
}

#[test]
fn another_process_wakes_and_its_end_is_noticed_in_sleep() {
    let mut shm = sleeper();
    let mut machine = Recorder::default();
    let mut child = Child::run("wait", &shm, 0, None);
    sleep_until(&mut shm, &mut machine, FOREVER_NS, |machine| !machine.packets.is_empty());
    child.kill();
    sleep_until(&mut shm, &mut machine, SLEEP_NS_MAX, |machine| !machine.gone.is_empty());
}

/// Several threads that sleep are all woken by one ring.
#[test]
fn own_threads_ring_too_and_wake_everybody() {
    let shm = sleeper();
    let (armed, is_armed) = mpsc::channel();
    let sleepers: Vec<_> = (0..3)
        .map(|_| {
            let (doorbell, armed) = (shm.doorbell(), armed.clone());
            std::thread::spawn(move || {
                let ticket = doorbell.arm();
                armed.send(()).unwrap();
                ticket.sleep(Some(FOREVER_NS))
            })
        })
        .collect();
    for _ in 0..3 {
        is_armed.recv_timeout(PATIENCE).unwrap();
    }
    shm.doorbell().ring();
    for sleeper in sleepers {
        assert_eq!(sleeper.join().unwrap(), Woken::Rang);
    }
}

#[test]
fn a_ring_between_arming_and_sleeping_counts_and_one_before_does_not() {
    let shm = sleeper();
    let doorbell = shm.doorbell();
    doorbell.ring();
    assert_eq!(doorbell.arm().sleep(Some(1)), Woken::TimedOut);
    let armed = doorbell.arm();
    doorbell.ring();
    // Another thread is armed by now; the ring was for the first one all the same.
    let other = doorbell.arm();
    assert_eq!(armed.sleep(Some(FOREVER_NS)), Woken::Rang);
    assert_eq!(other.sleep(Some(1)), Woken::TimedOut);
}

/// One thread that decides not to sleep leaves the bell armed for the other.
#[test]
fn a_sleeper_is_still_rung_for_when_another_one_leaves() {
    let (shm, mut writer) = (sleeper(), open());
    let to_shm = writer.peer(&shm.address()).unwrap();
    writer.connect(to_shm).unwrap();
    let doorbell = shm.doorbell();
    let (staying, leaving) = (doorbell.arm(), doorbell.arm());
    leaving.disarm();
    send(&mut writer, to_shm, put(1, 0), b"x");
    assert_eq!(staying.sleep(Some(FOREVER_NS)), Woken::Rang);
}

#[test]
fn who_never_sleeps_is_never_rung_for() {
    let (shm, mut writer) = (open(), open());
    let to_shm = writer.peer(&shm.address()).unwrap();
    writer.connect(to_shm).unwrap();
    let doorbell = shm.doorbell();
    let armed = doorbell.arm();
    send(&mut writer, to_shm, put(1, 0), b"x");
    assert_eq!(armed.sleep(Some(1)), Woken::TimedOut);
}

#[test]
fn work_is_what_a_poll_would_find() {
    let (mut shm, mut writer) = (sleeper(), open());
    let mut machine = Recorder::default();
    while poll(&mut shm, &mut machine) != 0 {}
    assert!(!shm.has_work());
    let to_shm = writer.peer(&shm.address()).unwrap();
    writer.connect(to_shm).unwrap();
    send(&mut writer, to_shm, put(1, 0), b"x");
    assert!(shm.has_work());
    poll(&mut writer, &mut machine);
    send(&mut writer, to_shm, put(2, 0), &[7; 100]);
    assert!(!writer.has_work() && !writer.is_busy(), "lines to be fetched are no work");
    assert_eq!(poll(&mut shm, &mut machine), 2);
    assert!(shm.has_work(), "the machine has not been idle since");
    poll(&mut shm, &mut machine);
    assert!(!shm.has_work());
    let own = shm.own_peer();
    shm.connect(own).unwrap();
    shm.read_remote(
        own,
        super::at(sluice_wire::Addr(16)),
        sluice_wire::Region::EMPTY,
        sluice_link::Token(1),
    );
    assert!(shm.has_work());
}

#[test]
fn a_doorbell_outlives_its_rail() {
    fn is_shared<T: Send + Sync + Clone>(_: &T) {}
    let shm = sleeper();
    let doorbell: Doorbell = shm.doorbell();
    is_shared(&doorbell);
    drop(shm);
    let armed = doorbell.arm();
    doorbell.ring();
    assert_eq!(armed.sleep(Some(FOREVER_NS)), Woken::Rang);
}
