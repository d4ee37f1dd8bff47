//! Bounce buffers: the payload of a longer packet lies in its sender's memory, and its slot says
//! where.
//!
//! A reader that waits looks at the slot at its head again and again. Its core fetches the lines
//! around that slot too, because it has learned that they are read next. They are the lines that
//! the writer is just storing the payload into, and each of them has to be taken back. So payload
//! that lies far from the slots is moved in half the time
//! (`docs/decisions/0023-payload-apart-from-the-slots.md`).
//! A sender goes round through all of its memory (with short payloads through a part) before it uses
//! a piece again: by then neither
//! core has the lines in a cache of its own, from which they would have to be taken. Since lines are
//! fetched before they are written (`ahead`), a part does for messages that are read one by one. On Intel's
//! processors, where that was measured, the rest is then not touched.
//!
//! The core that reads a buffer fetches lines behind its end as well. They would be those of the
//! next one, which the sender is about to write. So a gap is left behind each
//! (`docs/decisions/0027-gaps-behind-buffers.md`). Not on Intel's processors, where it was not measured.
//! With gaps a short payload gains by a buffer, too: from 512 bytes on, between cores that are far from each
//! other. A small part of the memory does for those. The ring takes
//! what it has no room for: pages that are touched first, and many processes that go
//! through all of their memory, cost more than is gained.
//!
//! The longest are stored and read in portions (`portions`).
//!
//! A packet whose payload is in a buffer takes one slot of the ring, and as many credits as if
//! it took all of them: for the machines nothing has changed. (A chunk that is handed over,
//! `handover`, takes no credit.) Who finds no free buffer puts the
//! payload into the ring. So does who streams a payload in one piece, because the receiver is
//! far (`stores`): such stores take lines from nobody.
//! On Intel's processors a message of less than 3 KiB goes into the ring, too: it is as fast there.
//!
//! The receiver reads packets of one sender in their order, and copies what it wants of a payload
//! while it handles the packet. So one count for each pair says which buffers have been read:
//! the receiver adds one with each, in its entry of the sender's mailbox, where its intent
//! is, too. The sender looks at the count when it finds no free buffer.
//!
//! Invariants:
//! - A buffer is written only while no packet that names it waits to be read: it is free, or
//!   the count of its receiver has passed it. Portions of one are stored after its packet was
//!   published, by the call that took it: nobody takes it again before that is done, even if its
//!   receiver has dropped the packet by then.
//! - A sender uses a buffer only for a peer that has an entry in its mailbox: such a peer has
//!   mapped it.
//! - A payload that is not short gets a buffer only if those of its receiver, without gaps, have then at
//!   most half of a sender's memory. So a slow receiver leaves some to others.
//! - A count that no honest receiver has written ends the use of buffers for this receiver. Its
//!   buffers are not used again before its process has ended: it may read them still.
//! - Where a packet says that its buffer is is looked at before it is used.

use super::portions::{Named, Until};
use super::processor::is_intel;
use sluice_wire::{Nanos, PeerId};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// What buffers are made of. A page of memory is touched by few of them.
const UNIT_BYTES: usize = 1 << 10;
/// Most bytes of the memory in which the buffers of a process lie.
const BOUNCE_BYTES_MAX: usize = 2 << 20;
/// What is gone through on Intel's processors while a receiver keeps up.
const ROUND_BYTES_INTEL: usize = 256 << 10;
/// One that keeps up has no more than so many payloads to read when the next is sent.
const UNREAD_MAX: usize = 1;
/// Units of the gap behind a buffer, and behind one with a payload of [`LONG_BYTES_MIN`] and more. With
/// longer gaps so little memory is gone through that a core has the lines still.
const GAP_UNITS: usize = 2;
const GAP_UNITS_LONG: usize = 4;
const LONG_BYTES_MIN: usize = 12 << 10;
/// From here on a payload is not short.
const SHORT_BYTES_MAX: usize = 2 << 10;
/// One of so many parts of the memory is for shorter ones.
const SHORT_PART: usize = 16;
/// Units that one word of marks is for.
const WORD_UNITS: usize = u64::BITS as usize;
/// The longest payload that is sent by a buffer.
pub(super) const PAYLOAD_BYTES_MAX: usize = 256 << 10;
/// The shortest payload that is sent by one.
pub(super) const PAYLOAD_BYTES_MIN: usize = 512;
/// The shortest one of a message that is worth one on Intel's processors. In slots a shorter one is as
/// fast or faster there.
const WORTH_BYTES_MIN_INTEL: usize = 3 << 10;
/// The word of a slot that says where the buffer is, behind every header of a packet with
/// payload: zero, or what `portions` says.
pub(super) const BOUNCE_WORD: usize = 7;
/// Headers that leave room for it.
const HEAD_BYTES_MAX: usize = BOUNCE_WORD * size_of::<u64>();
/// A moment: who reads, and was written something in it, is still at it. In a stream of long messages one is
/// stored right behind the other.
const JUST: Nanos = Nanos(10_000);
/// Sends without a buffer between two looks at the counts of all receivers.
const LOOK_EVERY: u32 = 16;

/// Bytes of the memory in which the buffers of a process lie whose ring has so many: twice as
/// many, as far as that is of use. So who makes the mailbox small makes this small, too.
pub(super) fn bounce_bytes(ring_bytes: usize) -> usize {
    let words = ring_bytes.saturating_mul(2).min(BOUNCE_BYTES_MAX) / (WORD_UNITS * UNIT_BYTES);
    words * WORD_UNITS * UNIT_BYTES
}

/// Whether a packet with a header and a payload of so many bytes may go by a buffer.
#[inline(always)]
pub(super) fn may_bounce(header_bytes: usize, payload_bytes: u64) -> bool {
    (PAYLOAD_BYTES_MIN as u64..=PAYLOAD_BYTES_MAX as u64).contains(&payload_bytes)
        && header_bytes <= HEAD_BYTES_MAX
}

/// The shortest payload of a message that goes by a buffer.
#[inline]
pub(super) fn worth_bytes_min() -> u64 {
    (if is_intel() { WORTH_BYTES_MIN_INTEL } else { PAYLOAD_BYTES_MIN }) as u64
}

/// What a packet of several slots, with a header of so many bytes, says in its first slot of
/// the place of its buffer. `None` if its payload is in the ring.
#[inline(always)]
pub(super) fn named(first: &[u64], header_bytes: u32) -> Option<Named> {
    let word = if header_bytes as usize <= HEAD_BYTES_MAX { *first.last()? } else { 0 };
    Named::of(word)
}

/// Where in the memory of a sender, of so many `bytes`, a buffer with so much payload begins,
/// if there can be one that is said to be at `unit`.
#[inline(always)]
pub(super) fn place(unit: u64, payload_bytes: u32, bytes: usize) -> Option<u32> {
    let at = unit.checked_mul(UNIT_BYTES as u64)?;
    let end = at.checked_add(payload_bytes.into())?;
    if end <= bytes as u64 { Some(at as u32) } else { None }
}

/// Units in a row, with the gap behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Buffer {
    unit: u16,
    count: u16,
    /// Those of the gap.
    gap: u16,
    /// Its packet has a slot that no credit pays for (`handover`).
    is_handed: bool,
}

impl Buffer {
    /// What a packet says of it that is stored until then.
    pub(super) fn named(self, until: Option<Until>) -> u64 {
        Named { unit: self.unit.into(), until }.word()
    }

    /// Where it begins.
    pub(super) fn at(self) -> usize {
        usize::from(self.unit) * UNIT_BYTES
    }

    #[inline]
    fn payload_units(self) -> usize {
        usize::from(self.count - self.gap)
    }
}

/// How a processor goes through the units.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// So many are gone through while a receiver keeps up.
    round_units: usize,
    leaves_gaps: bool,
}

impl Way {
    const INTEL: Way = Way { round_units: ROUND_BYTES_INTEL / UNIT_BYTES, leaves_gaps: false };
    const OTHERS: Way = Way { round_units: usize::MAX, leaves_gaps: true };

    /// Units of the gap behind a buffer for so much payload.
    #[inline]
    fn gap(self, payload_bytes: usize) -> usize {
        match self.leaves_gaps {
            true if payload_bytes >= LONG_BYTES_MIN => GAP_UNITS_LONG,
            true => GAP_UNITS,
            false => 0,
        }
    }

    /// The units of one for so much payload, with its gap.
    #[inline]
    fn units(self, payload_bytes: usize) -> usize {
        payload_bytes.div_ceil(UNIT_BYTES) + self.gap(payload_bytes)
    }
}

/// The units of this process: which are in use.
#[derive(Debug)]
pub(super) struct OwnBounces {
    /// A bit for each unit.
    used: Box<[u64]>,
    /// From here on free units are looked for.
    next: usize,
    /// The same for short payloads.
    next_short: usize,
    way: Way,
    /// So many were taken since the last one began, or the last packet of a stream.
    gone_units: usize,
    /// Those that are kept back until a process has ended.
    kept: Vec<(PeerId, Buffer)>,
    /// Sends that found no buffer since all counts were looked at.
    misses: u32,
    /// Portions that were stored in them, ever.
    pub(super) portions: u64,
}

impl OwnBounces {
    /// All units of so many bytes ([`bounce_bytes`]), free.
    pub(super) fn new(bytes: usize) -> OwnBounces {
        OwnBounces::with(bytes, if is_intel() { Way::INTEL } else { Way::OTHERS })
    }

    fn with(bytes: usize, way: Way) -> OwnBounces {
        let used = vec![0; bytes / UNIT_BYTES / WORD_UNITS].into();
        let mut own = OwnBounces {
            used,
            next: 0,
            next_short: 0,
            way,
            gone_units: 0,
            kept: Vec::new(),
            misses: 0,
            portions: 0,
        };
        own.next = own.short_units();
        own
    }

    fn units(&self) -> usize {
        self.used.len() * WORD_UNITS
    }

    /// Takes a buffer for a payload to a receiver, whose count is `word`.
    #[inline]
    pub(super) fn take(
        &mut self,
        pair: &mut Pair,
        word: &AtomicU64,
        payload_bytes: usize,
    ) -> Option<Buffer> {
        if self.is_short(payload_bytes) {
            return self.take_short(pair, word, payload_bytes);
        }
        let mut found = self.find_for(pair, payload_bytes);
        if found.is_none() && self.take_back(pair, word) {
            found = self.find_for(pair, payload_bytes);
        }
        let Some(unit) = found else {
            self.misses += 1;
            return None;
        };
        let buffer = self.give(pair, unit, payload_bytes);
        self.next = unit + usize::from(buffer.count);
        self.gone_units += usize::from(buffer.count);
        Some(buffer)
    }

    /// The same for a short payload. Not looked for: the ring does as well.
    fn take_short(&mut self, pair: &mut Pair, word: &AtomicU64, bytes: usize) -> Option<Buffer> {
        let count = self.way.units(bytes);
        let unit = self.next_short_place(count)?;
        // It is passed over if it is not free: who has it may be slow.
        self.next_short = unit + count;
        let comes_back = |own: &mut Self, pair: &mut Pair| {
            !pair.busy.is_empty() && own.take_back(pair, word) && own.are_free(unit, count)
        };
        if !self.are_free(unit, count) && !comes_back(self, pair) {
            self.misses += 1;
            return None;
        }
        Some(self.give(pair, unit, bytes))
    }

    /// Where a short payload with so many units goes next.
    #[inline]
    fn next_short_place(&self, count: usize) -> Option<usize> {
        let places = [self.next_short, 0];
        places.into_iter().find(|unit| unit + count <= self.short_units())
    }

    #[inline]
    fn give(&mut self, pair: &mut Pair, unit: usize, payload_bytes: usize) -> Buffer {
        let (count, gap) = (self.way.units(payload_bytes), self.way.gap(payload_bytes));
        let (unit, count, gap) = (unit as u16, count as u16, gap as u16);
        let buffer = Buffer { unit, count, gap, is_handed: false };
        self.mark(buffer, true);
        pair.units += buffer.payload_units();
        pair.busy.push_back(buffer);
        buffer
    }

    #[inline]
    fn is_short(&self, payload_bytes: usize) -> bool {
        payload_bytes < SHORT_BYTES_MAX && self.way.leaves_gaps
    }

    /// Units for short payloads, the first ones.
    #[inline]
    fn short_units(&self) -> usize {
        if self.way.leaves_gaps { self.units() / SHORT_PART } else { 0 }
    }

    /// Whether a part of the memory was gone through since a round began, by packets of no stream.
    #[inline]
    pub(super) fn is_round_over(&self) -> bool {
        self.gone_units >= self.way.round_units
    }

    /// The buffer that was taken last is for a packet of a stream: for that all memory is gone through.
    #[inline]
    pub(super) fn note_stream(&mut self) {
        self.gone_units = 0;
    }

    /// A packet that is of no stream is sent next. If its receiver keeps up, the first part of the memory
    /// is used again. All receivers were asked what they have read.
    pub(super) fn begin_round(&mut self, pair: &Pair) {
        self.gone_units = 0;
        if pair.busy.len() <= UNREAD_MAX {
            self.next = self.short_units();
        }
    }

    /// Where the next buffer for so much payload begins, if it is where one is looked for first.
    #[inline]
    pub(super) fn next_at(&self, payload_bytes: usize) -> Option<usize> {
        let count = self.way.units(payload_bytes);
        let is_there = |unit: &usize| self.are_free(*unit, count);
        let unit = if self.is_short(payload_bytes) {
            self.next_short_place(count).filter(is_there)
        } else {
            [self.next, self.short_units()].into_iter().find(is_there)
        };
        unit.map(|unit| unit * UNIT_BYTES)
    }

    /// Whether it is time to look at the counts of all receivers, because one that is sent
    /// nothing any more may have read what it was sent.
    #[inline]
    pub(super) fn is_look_due(&mut self) -> bool {
        let is_due = self.misses >= LOOK_EVERY;
        if is_due {
            self.misses = 0;
        }
        is_due
    }

    /// Takes back what a receiver has read. Says whether that is anything.
    #[inline(never)]
    pub(super) fn take_back(&mut self, pair: &mut Pair, word: &AtomicU64) -> bool {
        // Before the buffers are written again: what was read of them was read before.
        let count = word.load(Ordering::Acquire);
        let read = count.wrapping_sub(pair.counted);
        if read > pair.busy.len() as u64 {
            pair.entry = None;
            return false;
        }
        pair.counted = count;
        for _ in 0..read {
            let Some(buffer) = pair.busy.pop_front() else { break };
            pair.units -= buffer.payload_units();
            pair.handed -= u32::from(buffer.is_handed);
            self.mark(buffer, false);
        }
        read != 0
    }

    /// How many chunks that were handed over to a receiver, whose count is `word`, wait there.
    pub(super) fn handed_to(&mut self, pair: &mut Pair, word: &AtomicU64) -> u32 {
        if pair.handed != 0 {
            self.take_back(pair, word);
        }
        pair.handed
    }

    /// Nothing is sent to a receiver any more. What it has not read stays until it ends.
    pub(super) fn keep(&mut self, peer: PeerId, pair: &mut Pair) {
        pair.entry = None;
        (pair.units, pair.handed) = (0, 0);
        self.kept.extend(pair.busy.drain(..).map(|buffer| (peer, buffer)));
    }

    /// Frees what was kept back because of `peer`, which has ended.
    pub(super) fn release(&mut self, peer: PeerId) {
        let kept = std::mem::take(&mut self.kept);
        for (other, buffer) in kept {
            if other == peer {
                self.mark(buffer, false);
            } else {
                self.kept.push((other, buffer));
            }
        }
    }

    /// The same for a receiver, if it may have so many more.
    #[inline]
    fn find_for(&self, pair: &Pair, payload_bytes: usize) -> Option<usize> {
        let units = pair.units + payload_bytes.div_ceil(UNIT_BYTES);
        if units > self.units() / 2 { None } else { self.find(self.way.units(payload_bytes)) }
    }

    /// So many free units in a row, the first from `next` on, and then from the beginning.
    #[inline]
    fn find(&self, count: usize) -> Option<usize> {
        // Nearly always they are where the last ones ended.
        if self.are_free(self.next, count) {
            return Some(self.next);
        }
        let first = self.short_units();
        self.find_from(self.next, count).or_else(|| self.find_from(first, count))
    }

    /// Whether so many units from `unit` on are there, and free.
    #[inline]
    fn are_free(&self, unit: usize, count: usize) -> bool {
        marks(unit, count)
            .all(|(word, marks)| self.used.get(word).is_some_and(|used| used & marks == 0))
    }

    #[inline(never)]
    fn find_from(&self, mut at: usize, count: usize) -> Option<usize> {
        let mut run = 0;
        while at < self.units() {
            let word = self.used[at / WORD_UNITS];
            if at.is_multiple_of(WORD_UNITS) && word == u64::MAX {
                (at, run) = (at + WORD_UNITS, 0);
                continue;
            }
            run = if word >> (at % WORD_UNITS) & 1 == 0 { run + 1 } else { 0 };
            at += 1;
            if run == count {
                return Some(at - count);
            }
        }
        None
    }

    fn mark(&mut self, buffer: Buffer, used: bool) {
        for (word, marks) in marks(buffer.unit.into(), buffer.count.into()) {
            let word = &mut self.used[word];
            debug_assert_eq!(*word & marks, if used { 0 } else { marks }, "a unit is used once");
            *word ^= marks;
        }
    }

    /// How many units are free.
    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.units() - self.used.iter().map(|word| word.count_ones() as usize).sum::<usize>()
    }
}

/// The marks of so many units from `unit` on: words, and which of their bits.
#[inline]
fn marks(unit: usize, count: usize) -> impl Iterator<Item = (usize, u64)> {
    let end = unit + count;
    (unit / WORD_UNITS..end.div_ceil(WORD_UNITS)).map(move |word| {
        let (first, last) = (unit.max(word * WORD_UNITS), end.min((word + 1) * WORD_UNITS));
        (word, u64::MAX >> (WORD_UNITS - (last - first)) << (first % WORD_UNITS))
    })
}

/// The buffers between this process and one peer.
#[derive(Debug, Default)]
pub(super) struct Pair {
    /// The peer's entry in the own mailbox, where its count is; `None` if there is none, or
    /// its count was overwritten.
    pub(super) entry: Option<u16>,
    /// Those that carry a packet to the peer, the oldest first.
    busy: VecDeque<Buffer>,
    /// Their units.
    units: usize,
    /// How many of them were handed over.
    handed: u32,
    /// The peer's count, when it was looked at last.
    counted: u64,
    /// Buffers of the peer's that were read here, and how many when that was asked for last.
    read: u64,
    read_before: u64,
    /// The peer's count when it was asked for last.
    seen: u64,
    /// When a long payload was stored for the peer.
    pub(super) written_at: Nanos,
}

impl Pair {
    /// The buffer that was taken last is handed over.
    pub(super) fn hand_over(&mut self) {
        if let Some(last) = self.busy.back_mut() {
            last.is_handed = true;
            self.handed += 1;
        }
    }

    /// Whether the peer, whose count is this now, has read something since the last call, and was
    /// written a long payload a moment ago.
    pub(super) fn has_just_read(&mut self, count: u64, now: Nanos) -> bool {
        let before = std::mem::replace(&mut self.seen, count);
        count != before && now.since(self.written_at) < JUST
    }

    /// Whether a buffer of the peer's was read since the last call: the two send to each other in turn.
    pub(super) fn has_answered(&mut self) -> bool {
        std::mem::replace(&mut self.read_before, self.read) != self.read
    }

    /// One more buffer of the peer's was read. `word` is the own count there.
    #[inline(always)]
    pub(super) fn note_read(&mut self, word: &AtomicU64) {
        self.read += 1;
        // What was read before is not read any more when this is seen.
        word.store(self.read, Ordering::Release);
    }
}

#[cfg(test)]
#[path = "bounce_tests.rs"]
mod tests;
