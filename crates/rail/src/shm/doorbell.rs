//! Sleeping until somebody writes into this process's mailbox.
//!
//! A thread arms the doorbell, looks whether there is work
//! ([`Shm::has_work`](super::Shm::has_work)), and sleeps if there is none. It
//! needs the rail only to look, so it holds no lock on the rail while it
//! sleeps. `bell` says why no packet is slept through.
//!
//! What does not ring: the end of a peer, and a peer that died between
//! publishing and ringing. So nobody sleeps longer than [`SLEEP_NS_MAX`] at a
//! time; a sleeper learns of an end within twice that.

use super::bell::{Bell, Sleepers};
use super::segment::SharedBell;
use crate::waker::Waker;
use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::Timespec;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// The longest that a thread should sleep at a time, in nanoseconds, so that it
/// learns soon enough of the end of a peer.
pub const SLEEP_NS_MAX: u64 = 100_000_000;

/// What threads of a process sleep by until somebody writes into its mailbox.
/// It may outlive the rail; then only [`Doorbell::ring`] wakes.
#[derive(Clone, Debug)]
pub struct Doorbell {
    shared: SharedBell,
    sleepers: Arc<Sleepers>,
}

/// Why a thread does not sleep any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Somebody rang since it was armed, or it was woken for nothing.
    Rang,
    /// The time has passed.
    TimedOut,
    /// A signal was handled.
    Interrupted,
}

/// A thread that is about to sleep: from its making on every packet rings.
/// Dropping it without sleeping is how a thread decides otherwise.
#[derive(Debug)]
#[must_use = "a thread is armed to look for work and sleep"]
pub struct Armed<'a> {
    doorbell: &'a Doorbell,
    word: u32,
}

impl Doorbell {
    pub(super) fn new(shared: SharedBell) -> Doorbell {
        Doorbell { shared, sleepers: Arc::new(Sleepers { armed: AtomicU32::new(0) }) }
    }

    /// From now on writers ring. To be followed by a look for work.
    pub fn arm(&self) -> Armed<'_> {
        Armed { doorbell: self, word: self.sleepers.enter(self.shared.bell()) }
    }

    /// Wakes all threads that sleep by this doorbell or are about to.
    pub fn ring(&self) {
        ring(self.shared.bell());
    }
}

impl Waker for Doorbell {
    fn sleep(&self, rest_ns: impl FnOnce() -> u64) {
        let armed = self.arm();
        let rest_ns = rest_ns();
        if rest_ns > 0 {
            let _ = armed.sleep(Some(rest_ns.min(SLEEP_NS_MAX)));
        }
    }

    fn wake(&self) {
        self.ring();
    }
}

impl Armed<'_> {
    /// Sleeps until somebody rings, or has rung since this was armed; at most
    /// `timeout_ns` nanoseconds, which should not exceed [`SLEEP_NS_MAX`].
    #[must_use]
    pub fn sleep(self, timeout_ns: Option<u64>) -> Woken {
        let timeout = timeout_ns.map(|ns| Timespec {
            tv_sec: (ns / 1_000_000_000).cast_signed(),
            tv_nsec: (ns % 1_000_000_000).cast_signed(),
        });
        let word = &self.doorbell.shared.bell().word;
        // Other processes ring, so the futex is not a private one.
        match futex::wait(word, futex::Flags::empty(), self.word, timeout.as_ref()) {
            Err(Errno::TIMEDOUT) => Woken::TimedOut,
            Err(Errno::INTR) => Woken::Interrupted,
            // Woken, or the word has changed before the thread could sleep.
            _ => Woken::Rang,
        }
    }

    /// Does not sleep after all.
    pub fn disarm(self) {}
}

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        let bell = self.doorbell.shared.bell();
        if self.doorbell.sleepers.leave(bell) {
            wake(bell);
        }
    }
}

/// Wakes whoever sleeps by a bell, of which ever process.
#[inline(always)]
pub(super) fn ring(bell: &Bell) {
    if bell.ring() {
        wake(bell);
    }
}

/// Wakes all: several threads may sleep by one bell, each for something else,
/// and with the bell disarmed nobody would ring for those not woken.
#[cold]
#[inline(never)]
fn wake(bell: &Bell) {
    // Nothing is lost if it fails: the word has changed.
    let _ = futex::wake(&bell.word, futex::Flags::empty(), i32::MAX.unsigned_abs());
}
