//! Lines that this process is likely to write next, and fetches for that before it does.
//!
//! The core that read a line last has it still. A store has to take it from there, and since stores are
//! seen in their order, each waits for its own. Lines that were fetched for writing (`prefetchw`) are
//! there when they are stored to, and many are fetched at once.
//!
//! What comes next is guessed: as much as the last packet had, right behind it. A sender that has not
//! polled since its last packet sends a stream; it fetches a part at once. Another one fetches in
//! polls that find nothing, so that one that computes after it has sent has not paid for it.
//!
//! A packet that answers is waited for, and its reader has it sooner if the lines are on
//! their way to it already: they are demoted to the cache that cores share (`cldemote`). In a stream
//! that would take more time than it saves.
//!
//! Both are hints: they change no bytes, and never fault.

use super::prefetch::{LINE_BYTES, demote, prefetch_lines_to_write, prefetch_to_write};
use super::processor::is_intel;
use sluice_wire::SLOT_BYTES;
use std::ops::Range;

/// Most bytes that are fetched at once in a stream, and in all.
const STREAM_BYTES_MAX: usize = 16 << 10;
const BYTES_MAX: usize = 64 << 10;
/// Bytes of one poll: as many lines as a core fetches at once.
const POLL_BYTES: usize = 16 * LINE_BYTES;
/// In a stream the slot is fetched that is so many behind the next one. The reader looks at the next.
const SLOTS_AHEAD: usize = 2;

/// What a process will write next.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Addresses that are not fetched yet.
    left: Range<usize>,
    /// How many polls there were when a packet was written last.
    polls: u32,
    /// How many packets had arrived when one of several slots was written last.
    packets_in: u64,
}

impl Ahead {
    /// A packet is written, after so many polls. Says whether it follows another one in a stream.
    #[inline(always)]
    pub(super) fn note_packet(&mut self, polls: u32) -> bool {
        std::mem::replace(&mut self.polls, polls) == polls
    }

    /// The bytes of a packet of several slots were written, after so many packets have arrived. They
    /// are handed on if it answers one of them.
    #[inline]
    pub(super) fn hand_on(&mut self, bytes: Range<usize>, packets_in: u64) {
        if self.note_answer(packets_in) && is_intel() {
            lines(bytes).for_each(demote);
        }
    }

    fn note_answer(&mut self, packets_in: u64) -> bool {
        std::mem::replace(&mut self.packets_in, packets_in) != packets_in
    }

    /// The next packet is likely to have these `bytes`. Says whether any are left to be fetched in
    /// polls.
    #[inline]
    pub(super) fn expect(&mut self, bytes: Range<usize>, is_stream: bool) -> bool {
        let end = bytes.end.min(bytes.start.saturating_add(BYTES_MAX));
        self.left = bytes.start..end;
        if is_stream {
            self.fetch(STREAM_BYTES_MAX);
            self.left = 0..0;
        }
        !self.left.is_empty()
    }

    /// A poll has found nothing. Says whether any bytes are left for the next one.
    #[inline(never)]
    pub(super) fn fetch_some(&mut self) -> bool {
        self.fetch(POLL_BYTES);
        !self.left.is_empty()
    }

    fn fetch(&mut self, bytes_max: usize) {
        let Range { start, end } = self.left;
        let end = end.min(start.saturating_add(bytes_max));
        prefetch_lines_to_write(start, end.saturating_sub(start).div_ceil(LINE_BYTES));
        self.left.start = end;
    }
}

/// A packet of one slot, which ends here, was written in a stream.
#[inline(always)]
pub(super) fn fetch_slot_behind(end: usize) {
    prefetch_to_write(end.wrapping_add(SLOTS_AHEAD * SLOT_BYTES));
}

/// An address in each line of these bytes, if they begin with a line.
#[inline(always)]
fn lines(bytes: Range<usize>) -> impl Iterator<Item = usize> {
    bytes.step_by(LINE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_poll_has_come_between_is_a_stream() {
        let mut ahead = Ahead::default();
        let is_stream = [7, 7, 7, 8, 10, 10].map(|polls| ahead.note_packet(polls));
        assert_eq!(is_stream, [false, true, true, false, false, true]);
        let answers = [0, 1, 1, 5].map(|packets| ahead.note_answer(packets));
        assert_eq!(answers, [false, true, false, true]);
    }

    #[test]
    fn a_stream_leaves_nothing_to_polls_and_who_waits_leaves_all() {
        let mut ahead = Ahead::default();
        assert!(!ahead.expect(1000..1000 + (8 << 10), true));
        assert!(!ahead.expect(1000..1000, false));
        assert!(ahead.expect(1 << 20..3 << 20, false));
        let mut polls = 1;
        while ahead.fetch_some() {
            polls += 1;
        }
        assert_eq!(polls, BYTES_MAX / POLL_BYTES);
        assert!(ahead.expect(64..64 + POLL_BYTES + 1, false));
        assert!(ahead.fetch_some());
        assert!(!ahead.fetch_some());
        assert!(!ahead.fetch_some());
    }
}
