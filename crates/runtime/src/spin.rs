//! Who looks again and again and finds nothing gives its core away now and then.
//!
//! A program may wait in a loop of its own around a call that never blocks
//! (`fi_cq_read`, `PtlCTGet`, a send that is to be tried again). Where there are
//! more processes than cores, the one that it waits for may need this core, and
//! nobody else takes it away before a whole time slice is over. So each place
//! that can be asked in vain counts how often in a row it was, and yields.
//!
//! How often follows the machine. How long a yield takes says whether anybody
//! else ran (`SHARED`). If nobody did, the next one comes after
//! [`LOOKS_ALONE`] looks, so that a program with a core of its own hardly ever
//! makes a system call; if somebody did, after [`LOOKS_SHARED`], until a yield
//! is short again.
//!
//! There is a count for each queue, endpoint or interface, not for each thread: a
//! thread's own would cost every look a call, as this is in libraries that
//! are loaded late. Threads that look at the same place count together, and
//! yield accordingly sooner; a thread that looks at several places yields at
//! each of them. Neither does harm. A count that two threads change at once may
//! lose a look.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Looks in vain between two yields on a core that nobody else wants.
pub const LOOKS_ALONE: u32 = 500;
/// The same on a core that somebody else wants.
pub const LOOKS_SHARED: u32 = 20;
/// A yield that takes so long has let somebody else run; one that has not is
/// several times faster, and another process runs for several times longer.
const SHARED: Duration = Duration::from_micros(2);

/// The looks in vain at one place.
#[derive(Debug)]
pub struct Spin {
    /// Looks in vain until the next yield; at least one.
    left: AtomicU32,
    /// What `left` begins with.
    patience: AtomicU32,
}

impl Default for Spin {
    fn default() -> Spin {
        Spin::new()
    }
}

impl Spin {
    /// Nobody has looked yet.
    #[must_use]
    pub const fn new() -> Spin {
        Spin { left: AtomicU32::new(LOOKS_ALONE), patience: AtomicU32::new(LOOKS_ALONE) }
    }

    /// A look has found something, or a call has done something.
    #[inline]
    pub fn found(&self) {
        self.left.store(self.patience.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// A look has found nothing. May yield, so no lock is held.
    #[inline]
    pub fn vain(&self) {
        if self.is_due() {
            self.give_way();
        }
    }

    /// Lets others run. Whether anybody did.
    #[cold]
    pub fn give_way(&self) -> bool {
        let began = Instant::now();
        std::thread::yield_now();
        self.judge(began.elapsed())
    }

    /// Whether somebody else wanted the core when one was last given away.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.patience.load(Ordering::Relaxed) == LOOKS_SHARED
    }

    /// Counts a look that has found nothing. Whether it is time to yield.
    #[inline]
    pub fn is_due(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        if left <= 1 {
            return true;
        }
        self.left.store(left - 1, Ordering::Relaxed);
        false
    }

    fn judge(&self, took: Duration) -> bool {
        let is_shared = took >= SHARED;
        let patience = if is_shared { LOOKS_SHARED } else { LOOKS_ALONE };
        self.patience.store(patience, Ordering::Relaxed);
        self.left.store(patience, Ordering::Relaxed);
        is_shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_nanos(300);
    const LONG: Duration = Duration::from_micros(40);

    /// How many looks in vain it takes until a yield is due.
    fn looks(spin: &Spin) -> u32 {
        (1..).find(|_| spin.is_due()).expect("some look is the last")
    }

    #[test]
    fn a_yield_is_due_after_so_many_looks_in_vain() {
        let spin = Spin::new();
        assert_eq!(looks(&spin), LOOKS_ALONE);
        assert!(!spin.judge(SHORT));
        assert_eq!(looks(&spin), LOOKS_ALONE);
    }

    #[test]
    fn a_look_that_finds_something_begins_the_count_anew() {
        let spin = Spin::new();
        for _ in 0..10 {
            assert!((1..LOOKS_ALONE).all(|_| !spin.is_due()));
            spin.found();
        }
        assert_eq!(looks(&spin), LOOKS_ALONE);
    }

    #[test]
    fn a_yield_in_which_somebody_ran_makes_the_next_ones_come_sooner() {
        let spin = Spin::new();
        assert!(!spin.is_shared());
        assert!(spin.judge(LONG) && spin.is_shared());
        assert_eq!(looks(&spin), LOOKS_SHARED);
        spin.found();
        assert_eq!(looks(&spin), LOOKS_SHARED, "finding something does not free a core");
        assert!(!spin.judge(SHORT) && !spin.is_shared());
        assert_eq!(looks(&spin), LOOKS_ALONE);
    }

    #[test]
    fn places_are_counted_apart() {
        let (one, other) = (Spin::new(), Spin::new());
        assert!((1..LOOKS_ALONE).all(|_| !one.is_due()));
        other.judge(LONG);
        assert!(one.is_due() && !one.is_shared());
    }

    #[test]
    fn a_yield_begins_the_count_anew() {
        let spin = Spin::new();
        (1..LOOKS_ALONE).for_each(|_| spin.vain());
        assert_eq!(spin.left.load(Ordering::Relaxed), 1);
        spin.vain();
        assert_ne!(spin.left.load(Ordering::Relaxed), 1);
    }
}
