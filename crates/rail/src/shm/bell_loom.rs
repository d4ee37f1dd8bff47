//! The bell under the model checker: an owner that sleeps and writers that
//! publish, in every interleaving.

use super::*;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

/// A mailbox of one flag, and a futex: a word is looked at and slept on in one
/// step, which the lock makes so.
struct Room {
    bell: Bell,
    sleepers: Sleepers,
    published: [AtomicU32; 2],
    futex: Mutex<()>,
    woken: Condvar,
}

impl Room {
    fn new() -> Arc<Room> {
        Arc::new(Room {
            bell: Bell { word: AtomicU32::new(0) },
            sleepers: Sleepers { armed: AtomicU32::new(0) },
            published: [AtomicU32::new(0), AtomicU32::new(0)],
            futex: Mutex::new(()),
            woken: Condvar::new(),
        })
    }

    fn has_work(&self, flag: usize) -> bool {
        self.published[flag].load(Ordering::Acquire) != 0
    }

    fn publish(&self, flag: usize) {
        self.published[flag].store(1, Ordering::Release);
        if self.bell.ring() {
            self.wake();
        }
    }

    fn wake(&self) {
        let _held = self.futex.lock().unwrap();
        self.woken.notify_all();
    }

    /// Sleeps once, or not at all, if the word is not `armed` any more. A lost
    /// wake-up is a deadlock, which the model checker reports.
    fn sleep(&self, armed: u32) {
        let held = self.futex.lock().unwrap();
        if self.bell.word.load(Ordering::Relaxed) == armed {
            drop(self.woken.wait(held).unwrap());
        }
    }

    fn leave(&self) {
        if self.sleepers.leave(&self.bell) {
            self.wake();
        }
    }

    fn await_work(&self, flag: usize) {
        while !self.has_work(flag) {
            let armed = self.sleepers.enter(&self.bell);
            if !self.has_work(flag) {
                self.sleep(armed);
            }
            self.leave();
        }
    }
}

#[test]
fn bell_no_packet_is_slept_through() {
    loom::model(|| {
        let room = Room::new();
        let other = room.clone();
        let writer = thread::spawn(move || other.publish(0));
        room.await_work(0);
        writer.join().unwrap();
    });
}

#[test]
fn bell_two_writers_wake_the_owner_for_each_packet() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let room = Room::new();
        let writers = [0, 1].map(|flag| {
            let room = room.clone();
            thread::spawn(move || room.publish(flag))
        });
        room.await_work(0);
        room.await_work(1);
        for writer in writers {
            writer.join().unwrap();
        }
    });
}

/// Of two sleepers neither loses its ring because the other one is armed anew
/// or goes away.
#[test]
fn bell_two_sleepers_are_both_woken() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let room = Room::new();
        let (first, second) = (room.clone(), room.clone());
        let sleeper = thread::spawn(move || first.await_work(1));
        let writer = thread::spawn(move || {
            second.publish(0);
            second.publish(1);
        });
        room.await_work(0);
        writer.join().unwrap();
        sleeper.join().unwrap();
        assert_eq!(room.sleepers.armed.load(Ordering::Relaxed), 0);
    });
}
