//! Progress without the program's calls: a thread per interface.
//!
//! The thread is there for a program that is not: one that computes, or blocks
//! elsewhere. While the program calls (it is *attentive*) every call takes in
//! what has arrived, and the thread only looks now and then whether that is
//! still so; a thread that polled beside a polling program would take its core.
//! When no call has come for a tick the thread takes over: it takes in what
//! arrives and sleeps by the doorbell in between, so that a message to an
//! absent program costs one wake.

use crate::interface::Interface;
use sluice_rail::shm::SLEEP_NS_MAX;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a program may be silent before the thread takes over.
const TICK: Duration = Duration::from_micros(500);
/// How long a thread with nothing to do looks on before it sleeps: about what
/// falling asleep and being woken costs.
const LINGER: Duration = Duration::from_micros(10);

/// Whether the program calls.
#[derive(Debug)]
pub(crate) struct Attention {
    calls: AtomicU32,
    /// The thread waits here while the program is attentive. Set: it shall not.
    hurried: Mutex<bool>,
    hurry: Condvar,
}

impl Attention {
    pub const fn new() -> Attention {
        Attention { calls: AtomicU32::new(0), hurried: Mutex::new(false), hurry: Condvar::new() }
    }

    /// A call that has taken in what had arrived.
    #[inline]
    pub fn noted(&self) {
        // Not atomically added: it need only change.
        let calls = self.calls.load(Ordering::Relaxed);
        self.calls.store(calls.wrapping_add(1), Ordering::Relaxed);
    }

    /// The program goes away and knows it: the thread takes over at once.
    pub fn hand_over(&self) {
        *self.hurried.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.hurry.notify_all();
    }

    /// Nobody has called yet.
    pub fn reset(&self) {
        self.calls.store(0, Ordering::Relaxed);
    }

    /// Waits for a tick, or until somebody hands over, or has done so since the
    /// last tick.
    fn tick(&self, tick: Duration) {
        let hurried = self.hurried.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.hurry.wait_timeout_while(hurried, tick, |hurried| !*hurried);
        let (mut hurried, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *hurried = false;
    }
}

/// Starts the thread of an interface that was opened with this life.
///
/// # Errors
/// The system's, if it has no thread to give.
pub(crate) fn start(shell: &'static Interface, life: u32) -> std::io::Result<()> {
    let thread = thread::Builder::new()
        .name("portals".into())
        .stack_size(256 << 10)
        .spawn(move || run(shell, life))?;
    *shell.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
    Ok(())
}

fn run(shell: &'static Interface, life: u32) {
    let mut calls_seen = shell.attention.calls.load(Ordering::Relaxed);
    while shell.life() == life {
        let calls = shell.attention.calls.load(Ordering::Relaxed);
        let asleep = shell.sleepers.load(Ordering::SeqCst) != 0;
        if calls != calls_seen || asleep {
            // Who sleeps in the library is woken by what arrives, and takes it
            // in; nobody needs this thread meanwhile.
            calls_seen = calls;
            let tick = if asleep { Duration::from_nanos(SLEEP_NS_MAX) } else { TICK };
            shell.attention.tick(tick);
            continue;
        }
        attend(shell, life, calls_seen);
    }
}

/// Takes in what arrives until the program is back or nothing comes.
fn attend(shell: &'static Interface, life: u32, calls_seen: u32) {
    let mut idle_since: Option<Instant> = None;
    let is_away = || {
        shell.attention.calls.load(Ordering::Relaxed) == calls_seen
            && shell.sleepers.load(Ordering::SeqCst) == 0
    };
    while is_away()
        && let Ok(taken) = shell.with(life, crate::face::Face::poll)
    {
        if taken > 0 {
            shell.wake_sleepers();
            idle_since = None;
            continue;
        }
        let since = *idle_since.get_or_insert_with(Instant::now);
        if since.elapsed() < LINGER {
            std::hint::spin_loop();
            continue;
        }
        let Some(doorbell) = shell.bell() else { return };
        let armed = doorbell.arm();
        match shell.with(life, crate::face::Face::has_work) {
            Ok(false) => {
                let _ = armed.sleep(Some(SLEEP_NS_MAX));
            }
            Ok(true) => armed.disarm(),
            Err(_) => return,
        }
        return;
    }
}
