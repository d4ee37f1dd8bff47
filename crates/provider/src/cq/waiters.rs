//! Threads of the program that sleep until something is in a queue, here or by its
//! descriptor.
//!
//! Only where an endpoint has a thread of its own, which then finds what
//! arrives and wakes them; elsewhere whoever waits has to look itself.
//!
//! A waiter is counted, then looks, then sleeps unless it was woken since it was
//! counted. Who has put something there looks at the count afterwards. Both have
//! the endpoint's lock when they look, so one of them sees the other.

use crate::wait::Descriptor;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Those who wait at one queue.
#[derive(Debug, Default)]
pub struct Waiters {
    count: AtomicU32,
    /// Grows with each waking.
    wakings: Mutex<u64>,
    woken: Condvar,
    descriptor: Option<Descriptor>,
    /// Who waits by the descriptor is one of the waiters.
    is_armed: AtomicBool,
}

/// One of them.
#[derive(Debug)]
pub struct Waiter<'a> {
    waiters: &'a Waiters,
    wakings: u64,
}

impl Waiters {
    /// Nobody yet, and what they may wait by.
    pub fn new(descriptor: Option<Descriptor>) -> Waiters {
        Waiters { descriptor, ..Waiters::default() }
    }

    /// What they may wait by.
    pub fn descriptor(&self) -> Option<&Descriptor> {
        self.descriptor.as_ref()
    }

    /// From now on the descriptor is raised once. To be followed by a look.
    pub fn arm(&self, descriptor: &Descriptor) {
        descriptor.lower();
        if !self.is_armed.swap(true, Ordering::SeqCst) {
            self.count.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Whether there are any.
    #[inline]
    pub fn are_there(&self) -> bool {
        self.count.load(Ordering::SeqCst) != 0
    }

    /// Wakes all.
    pub fn wake(&self) {
        let mut wakings = self.wakings.lock().unwrap_or_else(PoisonError::into_inner);
        *wakings += 1;
        self.woken.notify_all();
        drop(wakings);
        if let Some(descriptor) = &self.descriptor
            && self.is_armed.swap(false, Ordering::SeqCst)
        {
            descriptor.raise();
            self.count.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// From now on the caller is woken. To be followed by a look.
    pub fn enter(&self) -> Waiter<'_> {
        self.count.fetch_add(1, Ordering::SeqCst);
        let wakings = *self.wakings.lock().unwrap_or_else(PoisonError::into_inner);
        Waiter { waiters: self, wakings }
    }
}

impl Waiter<'_> {
    /// Sleeps until somebody wakes, or has woken since it was entered.
    pub fn sleep(self, most: Duration) {
        let waiters = self.waiters;
        let wakings = waiters.wakings.lock().unwrap_or_else(PoisonError::into_inner);
        let still = |wakings: &mut u64| *wakings == self.wakings;
        // What the lock guards is a number that any panic leaves whole.
        drop(waiters.woken.wait_timeout_while(wakings, most, still));
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.waiters.count.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const FOREVER: Duration = Duration::from_secs(60);

    #[test]
    fn a_waking_before_the_sleep_is_not_missed() {
        let waiters = Waiters::default();
        assert!(!waiters.are_there());
        let begin = Instant::now();
        let waiter = waiters.enter();
        assert!(waiters.are_there());
        waiters.wake();
        waiter.sleep(FOREVER);
        assert!(!waiters.are_there());
        assert!(begin.elapsed() < FOREVER);
    }

    #[test]
    fn all_who_sleep_are_woken() {
        let (waiters, entered) = (Waiters::default(), AtomicU32::new(0));
        let begin = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let waiter = waiters.enter();
                    entered.fetch_add(1, Ordering::SeqCst);
                    waiter.sleep(FOREVER);
                });
            }
            while entered.load(Ordering::SeqCst) != 3 {
                std::thread::yield_now();
            }
            waiters.wake();
        });
        assert!(begin.elapsed() < FOREVER);
    }

    #[test]
    fn nobody_sleeps_longer_than_it_wants() {
        let waiters = Waiters::default();
        waiters.enter().sleep(Duration::from_millis(1));
        assert!(!waiters.are_there());
    }
}
