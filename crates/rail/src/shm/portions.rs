//! Portions: the payload of a long packet is read while its sender still stores it.
//!
//! Who stores all of a payload, tells of it, and has it copied out then, takes as long as both
//! copies. So a packet whose payload lies in a bounce buffer is published when the first
//! portion is stored, and its reader copies each further portion as soon as it is there.
//!
//! One count of each process says how far it is: how many portions it has stored, ever. It is in
//! the process's own segment. A packet says what the count will be when its last portion
//! is stored. A process stores one payload at a time, so what it told of before is there too.
//!
//! A reader waits in the middle of a packet, as it waits at a slot that is reserved and not
//! published. The wait ends when the portion is there, or when its sender has ended. One that was
//! stopped is waited for, however long; since a sender may lie, one that runs for
//! [`ROUNDS_MAX`]. Then the payload is *cut*: the packet has arrived, and its bytes have not.
//!
//! Invariants: the count is stored by its owner alone, with release, after the portion that it
//! counts; the first portion of a payload is counted with the second, for the packet itself tells
//! of it. So the count is no more than a packet's number of portions away from what the packet
//! says; of one that says otherwise nothing is used.

use super::processor::is_intel;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The shortest portion.
pub(super) const PORTION_BYTES: usize = 4 << 10;
/// The longest payload that is stored in one piece. Where it is demoted then (`ahead`), a longer one is
/// there sooner so than in portions.
const WHOLE_BYTES_MAX: usize = PORTION_BYTES;
const WHOLE_BYTES_MAX_DEMOTED: usize = 8 << 10;
/// Values that a machine reads out of a packet itself are in the first one.
const _: () = assert!(PORTION_BYTES >= 4 << 10);
/// A portion of a payload of [`LONG_BYTES_MIN`] and more.
pub(super) const LONG_PORTION_BYTES: usize = 16 << 10;
const LONG_BYTES_MIN: usize = 64 << 10;
/// The same on Intel's processors, where four pages are copied side by side (`shared_bytes`). Both sides compute
/// it, so the version of a mailbox says which processor it is of.
const LONG_BYTES_MIN_INTEL: usize = 32 << 10;
/// In the word that names a buffer: it is stored in portions.
const IN_PORTIONS: u64 = 1 << 15;
/// Above it is the count, as far as there is room.
const COUNT_SHIFT: u32 = 16;
/// Looks at the count before the core is left to others, one of which may be the sender.
const LOOKS: u32 = 200;
/// Between two looks at what the sender does.
const ROUND: Duration = Duration::from_millis(1);
/// How many such looks may find that it runs: a minute. A reader that is stopped makes none.
const ROUNDS_MAX: u32 = if cfg!(test) { 300 } else { 60_000 };

/// What a sender does whose portion is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    Runs,
    /// It was stopped, and may go on.
    Stopped,
    Ended,
}

/// The longest payload that is stored in one piece on this processor.
#[inline]
pub(super) fn whole_bytes_max() -> usize {
    if is_intel() { WHOLE_BYTES_MAX_DEMOTED } else { WHOLE_BYTES_MAX }
}

/// What is stored of a payload between two steps of the count. The core that reads a portion fetches
/// lines behind it, too, which are being stored. So a long payload has longer portions; in a short one
/// the two copies would hardly run at once.
#[inline]
pub(super) fn portion_bytes(payload_bytes: usize) -> usize {
    portion_bytes_by(if is_intel() { LONG_BYTES_MIN_INTEL } else { LONG_BYTES_MIN }, payload_bytes)
}

#[inline]
fn portion_bytes_by(long_bytes_min: usize, payload_bytes: usize) -> usize {
    if payload_bytes < long_bytes_min { PORTION_BYTES } else { LONG_PORTION_BYTES }
}

/// How many portions a payload has.
#[inline]
fn portions(payload_bytes: usize) -> u64 {
    payload_bytes.div_ceil(portion_bytes(payload_bytes)) as u64
}

/// Where a buffer begins, and the count that is reached when its last portion is stored; `None`
/// if all was stored before the packet was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Named {
    /// The first unit of the buffer.
    pub(super) unit: u64,
    pub(super) until: Option<Until>,
}

/// A count to be reached, with the bits that a packet has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Until(u64);

impl Named {
    /// What a packet says of it.
    pub(super) fn word(self) -> u64 {
        let until = self.until.map_or(0, |until| until.0 << COUNT_SHIFT | IN_PORTIONS);
        until | (self.unit + 1)
    }

    /// What a packet says, if it names a buffer.
    #[inline(always)]
    pub(super) fn of(word: u64) -> Option<Named> {
        if word & IN_PORTIONS == 0 {
            return Some(Named { unit: word.checked_sub(1)?, until: None });
        }
        // One that is none has no place.
        let unit = (word & (IN_PORTIONS - 1)).wrapping_sub(1);
        Some(Named { unit, until: Some(Until(word >> COUNT_SHIFT)) })
    }
}

impl Until {
    /// The count after all portions of a payload, which begins at `count`.
    pub(super) fn after(count: u64, payload_bytes: usize) -> Until {
        Until(count.wrapping_add(portions(payload_bytes)))
    }

    /// How many portions are missing until then; below zero if there are more.
    #[inline]
    fn missing(self, count: u64) -> i64 {
        (self.0.wrapping_sub(count) << COUNT_SHIFT).cast_signed() >> COUNT_SHIFT
    }

    /// How many bytes of the payload are stored: the first portion, if nothing else. `None` if the
    /// packet cannot have been published at this count.
    #[inline]
    pub(super) fn stored(self, count: &AtomicU64, payload_bytes: usize) -> Option<usize> {
        let missing = self.missing(count.load(Ordering::Acquire)).max(0) as u64;
        let there = portions(payload_bytes).checked_sub(missing)?.max(1) as usize;
        Some((there * portion_bytes(payload_bytes)).min(payload_bytes))
    }

    /// Waits until more than `bytes` of the payload are stored, and says how many. `None` if it is
    /// cut: its `sender` has ended before, has run for very long, or it never can come.
    #[inline]
    pub(super) fn await_more(
        self,
        count: &AtomicU64,
        payload_bytes: usize,
        bytes: usize,
        sender: impl Fn() -> Sender,
    ) -> Option<usize> {
        let stored = || self.stored(count, payload_bytes);
        for _ in 0..LOOKS {
            match stored() {
                Some(stored) if stored <= bytes => spin_loop(),
                is_over => return is_over,
            }
        }
        await_long(bytes, stored, sender)
    }
}

/// Goes on with [`Until::await_more`] by rounds, between which the core is left to others.
#[cold]
#[inline(never)]
fn await_long(
    bytes: usize,
    stored: impl Fn() -> Option<usize>,
    sender: impl Fn() -> Sender,
) -> Option<usize> {
    let mut rounds = 0;
    while rounds < ROUNDS_MAX {
        let begin = Instant::now();
        while begin.elapsed() < ROUND {
            match stored() {
                Some(stored) if stored <= bytes => std::thread::yield_now(),
                is_over => return is_over,
            }
        }
        match sender() {
            // What it stored before its end is there.
            Sender::Ended => return stored().filter(|stored| *stored > bytes),
            Sender::Stopped => {}
            Sender::Runs => rounds += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const LEN: usize = 2 * PORTION_BYTES + 5;
    const LONG: usize = 5 * LONG_PORTION_BYTES + 1;

    #[test]
    fn a_word_says_where_a_buffer_is_and_until_when_it_is_stored() {
        assert_eq!(Named::of(0), None);
        for unit in [0, 1, 2047] {
            for until in [None, Some(Until(0)), Some(Until(3)), Some(Until((1 << 48) - 1))] {
                let named = Named { unit, until };
                assert_eq!(Named::of(named.word()), Some(named));
            }
        }
        // Whatever else is there has no place in memory.
        for word in [IN_PORTIONS, 1 << 40, !IN_PORTIONS] {
            assert!(Named::of(word).is_some_and(|named| named.unit > 1 << 14), "{word:x}");
        }
    }

    #[test]
    fn longer_payloads_have_longer_portions() {
        for (payload, others, intel) in [
            (1, 4 << 10, 4 << 10),
            ((32 << 10) - 1, 4 << 10, 4 << 10),
            (32 << 10, 4 << 10, 16 << 10),
            ((64 << 10) - 1, 4 << 10, 16 << 10),
            (64 << 10, 16 << 10, 16 << 10),
            (256 << 10, 16 << 10, 16 << 10),
        ] {
            let by =
                [LONG_BYTES_MIN, LONG_BYTES_MIN_INTEL].map(|min| portion_bytes_by(min, payload));
            assert_eq!(by, [others, intel], "{payload}");
            assert_eq!(portion_bytes(payload), if is_intel() { intel } else { others });
            assert_eq!(portions(payload), payload.div_ceil(portion_bytes(payload)) as u64);
        }
        assert_eq!([1, 4 << 10, 64 << 10, 256 << 10].map(portions), [1, 1, 4, 16]);
    }

    #[test]
    fn bytes_are_stored_by_portions() {
        for base in [0, 1, (1 << 48) - 2, (1 << 48) - 1, u64::MAX - 1] {
            let word = Named { unit: 0, until: Some(Until::after(base, LEN)) }.word();
            let until = Named::of(word).and_then(|named| named.until).unwrap();
            let at = |stored: u64| {
                let count = AtomicU64::new(base.wrapping_add(stored));
                (
                    until.stored(&count, LEN),
                    until.await_more(&count, LEN, LEN - 1, || Sender::Ended),
                )
            };
            assert_eq!(at(u64::MAX), (None, None), "nobody can have told of it then");
            assert_eq!(at(0), (Some(PORTION_BYTES), None));
            assert_eq!(at(2), (Some(2 * PORTION_BYTES), None));
            assert_eq!(at(3), (Some(LEN), Some(LEN)));
            assert_eq!(at(1000), (Some(LEN), Some(LEN)), "it has stored others since");
            let long = Until::after(base, LONG);
            let at = |stored: u64| long.stored(&AtomicU64::new(base.wrapping_add(stored)), LONG);
            assert_eq!(at(0), Some(LONG_PORTION_BYTES));
            assert_eq!(at(4), Some(4 * LONG_PORTION_BYTES));
            assert_eq!(at(6), Some(LONG));
        }
    }

    #[test]
    fn who_waits_for_the_dead_ends_with_what_is_there() {
        let count = AtomicU64::new(1);
        let until = Until::after(0, LEN);
        assert_eq!(until.await_more(&count, LEN, PORTION_BYTES, || Sender::Ended), None);
        let ends = || {
            count.store(2, Ordering::Relaxed);
            Sender::Ended
        };
        let stored = until.await_more(&count, LEN, PORTION_BYTES, ends);
        assert_eq!(stored, Some(2 * PORTION_BYTES));
    }

    #[test]
    fn who_was_stopped_is_waited_for() {
        let (count, looks) = (AtomicU64::new(1), Cell::new(0));
        let stopped = || {
            looks.set(looks.get() + 1);
            count.store(if looks.get() > ROUNDS_MAX + 10 { 3 } else { 1 }, Ordering::Relaxed);
            Sender::Stopped
        };
        let until = Until::after(0, LEN);
        assert_eq!(until.await_more(&count, LEN, PORTION_BYTES, stopped), Some(LEN));
    }

    #[test]
    fn who_waits_for_a_liar_ends() {
        let (count, looks) = (AtomicU64::new(1), Cell::new(0));
        let lives = || {
            looks.set(looks.get() + 1);
            Sender::Runs
        };
        assert_eq!(Until::after(0, LEN).await_more(&count, LEN, PORTION_BYTES, lives), None);
        assert_eq!(looks.get(), ROUNDS_MAX);
    }
}
