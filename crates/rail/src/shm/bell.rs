//! The word by which a writer learns that the owner of a mailbox sleeps.
//!
//! The owner *arms* the bell, then looks whether there is work, then sleeps as
//! long as the word is what it armed. A writer publishes, then looks at the
//! word, and rings if it is armed. Between the two steps of each stands a full
//! fence, so one of them sees what the other did: the owner the packet, or the
//! writer the armed word.
//!
//! An odd word is armed. Ringing makes it the next even number, so each time
//! of being armed has a number of its own: who was armed before a ring can not
//! fall asleep on the word that another thread has armed since.
//!
//! The word is shared memory and any writer may store anything there. Then the
//! owner sleeps as long as it said at most, or not at all.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering, fence};

const ARMED: u32 = 1;

/// The word. Zeroed memory is one that is not armed.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Bell {
    pub(crate) word: AtomicU32,
}

impl Bell {
    /// From now on whoever publishes rings. Says which value of the word to
    /// sleep on.
    pub(crate) fn arm(&self) -> u32 {
        let armed = self.word.fetch_or(ARMED, Ordering::AcqRel) | ARMED;
        fence(Ordering::SeqCst);
        armed
    }

    /// Whether a sleeper has to be woken after something was published. Says
    /// so to one of those that ask at the same time.
    #[inline]
    pub(crate) fn ring(&self) -> bool {
        fence(Ordering::SeqCst);
        if self.word.load(Ordering::Relaxed) & ARMED == 0 {
            return false;
        }
        self.disarm()
    }

    /// From now on nobody rings. Whether the bell was armed.
    pub(crate) fn disarm(&self) -> bool {
        let mut seen = self.word.load(Ordering::Relaxed);
        while seen & ARMED != 0 {
            let next = seen.wrapping_add(1);
            match self.word.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(other) => seen = other,
            }
        }
        false
    }
}

/// How many threads of the owner are armed. Not shared with other processes.
#[derive(Debug)]
pub(crate) struct Sleepers {
    pub(crate) armed: AtomicU32,
}

impl Sleepers {
    /// One more thread is armed. Says which value of the word to sleep on.
    pub(crate) fn enter(&self, bell: &Bell) -> u32 {
        self.armed.fetch_add(1, Ordering::AcqRel);
        bell.arm()
    }

    /// One thread less is armed; after the last one nobody rings any more. Says
    /// whether sleepers have to be woken: one that was armed just now may have
    /// been disarmed by this.
    pub(crate) fn leave(&self, bell: &Bell) -> bool {
        // Who arms the word is counted before, so whoever disarms it sees that.
        self.armed.fetch_sub(1, Ordering::AcqRel) == 1
            && bell.disarm()
            && self.armed.load(Ordering::Acquire) != 0
    }
}

#[cfg(all(test, loom))]
#[path = "bell_loom.rs"]
mod tests;
