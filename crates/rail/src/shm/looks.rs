//! Whether the owner of a mailbox looks at it now.
//!
//! One word of the mailbox changes with each look, and says of an owner that is copying a
//! payload, or a chunk of a long message, that it is at work. To take in a packet of other than the most
//! usual kind, or to post a long receive, is to look, too. So a sender that sees it change, or sees that, knows that what it writes is read while it
//! is written. It watches for half a microsecond: an owner that looks at
//! all does so ten times in that time, and one that computes, or sleeps, not at all. One that answers is
//! watched for longer: it may be on its way from what it has sent to what it receives.
//!
//! The answer is a hint. It decides how a message goes, and nothing about whether it arrives;
//! whoever forges the word makes others choose badly for himself.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};

/// Set while the owner copies.
const AT_WORK: u64 = 1 << 63;
/// How often a sender reads the word: for about half a microsecond.
const READS: u32 = 16;
/// The same of an owner that has sent a long payload since the last one, for about two microseconds: it
/// has to come back from there through its MPI.
const ANSWER_READS: u32 = 64;

/// The owner looks, or has copied.
#[inline(always)]
pub(super) fn note(word: &AtomicU64) {
    // Nobody else stores there.
    word.store(word.load(Ordering::Relaxed).wrapping_add(1) & !AT_WORK, Ordering::Relaxed);
}

/// It copies.
#[inline]
pub(super) fn note_work(word: &AtomicU64) {
    word.store(word.load(Ordering::Relaxed) | AT_WORK, Ordering::Relaxed);
}

/// Whether the owner looks now, or soon: it is watched for longer if it `answers`.
pub(super) fn is_looking(word: &AtomicU64, answers: bool) -> bool {
    let first = word.load(Ordering::Relaxed);
    let reads = if answers { ANSWER_READS } else { READS };
    (first & AT_WORK != 0)
        || (0..reads).any(|_| {
            spin_loop();
            word.load(Ordering::Relaxed) != first
        })
}

/// Held by tests that need two processors at the same time. Two of them could share two processors for ever so
/// that neither has both.
#[cfg(test)]
pub(super) static TWO_PROCESSORS: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn who_copies_looks_and_who_does_nothing_does_not() {
        let word = AtomicU64::new(0);
        note(&word);
        assert!(!is_looking(&word, false));
        note_work(&word);
        assert!(is_looking(&word, false));
        note(&word);
        assert!(!is_looking(&word, false));
    }

    #[test]
    fn who_looks_is_seen() {
        let _alone = TWO_PROCESSORS.lock();
        let (word, ends) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    note(&word);
                }
            });
            // One of the two may not run for a while.
            while !is_looking(&word, false) {
                std::thread::yield_now();
            }
            ends.store(true, Ordering::Relaxed);
        });
    }
}
