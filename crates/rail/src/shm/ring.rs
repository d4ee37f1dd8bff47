//! The mailbox ring: 64-byte slots, one reader, many writers, any of which may
//! die at any instruction.
//!
//! A writer takes consecutive slots with one atomic add on the tail and
//! publishes a packet by storing the stamp of its first slot last
//! (`docs/decisions/0001-the-path-of-a-message.md`). It never checks for room:
//! credits guarantee it. Before and while it holds slots it says so in its
//! *intent*, a word that nobody else writes; a reader that is stuck before an
//! unpublished slot finds there whose it is.
//!
//! A packet's further slots hold its payload and nothing else, so that it lies in one
//! piece. What lies in a slot from before must never look published, whatever bytes it
//! was. So the reader, when it reads a packet, looks whether the first bytes of a
//! further slot are the stamp that this place will have in the next lap, and sets those
//! that are to zero ([`Reader::scrub`]). That is one load and comparison of a line that is
//! copied next, and nearly never a store. Until the reader has passed a slot nobody else
//! may write there, because its credit has not been returned.
//!
//! Invariants:
//! - A slot at or behind the head whose first four bytes are the stamp of its position's
//!   lap is the first slot of a published packet, and all of that packet is visible.
//! - No slot that the reader has passed begins with the stamp of its place's next lap,
//!   until a writer publishes there.
//! - A slot is abandoned only if it was reserved, is not published, and no
//!   living writer's intent may cover it.
//! - The reader writes only to set such a slot to zero, and the tail if somebody has
//!   overwritten it. What it reads is untrusted and is copied out before it is looked at.
//! - An idle writer's intent says where its last packet began. So the reader
//!   can tell a packet that is still to come from one that it will never see,
//!   because somebody moved the tail or destroyed a stamp.
//!
//! Memory order. The add on the tail is acquire and release: release, so that
//! a reader that sees the new tail sees the intent stored before it; acquire,
//! so that a writer that takes a slot anew is ordered behind everyone through
//! whom the credit for that slot came back. Intents are stored with release,
//! so that a reader that finds a writer idle, or busy elsewhere, sees what it
//! published before. On x86 all of these are plain stores.

use super::intent::{
    COUNT_MASK, COUNT_SHIFT, Intent, POSITION_MASK, POSITION_SHIFT, STATE_IDLE, STATE_MASK,
    STATE_RESERVING, STATE_WRITING, word_of,
};
use super::prefetch::prefetch;
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
use std::cell::Cell;
use std::ops::Range;
use std::ptr::NonNull;
use std::slice;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

/// 64-bit words of a slot. The model checker makes do with two.
pub(crate) const WORDS: usize = if cfg!(loom) { 2 } else { 8 };

/// One slot. The low half of the first word is the stamp.
#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(crate) words: [AtomicU64; WORDS],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Slot>() == sluice_wire::SLOT_BYTES);

const STAMP_MASK: u64 = 0xffff_ffff;

/// What makes stamps of laps: bytes that programs seldom send, so that the reader seldom
/// has to set a slot to zero.
const STAMP_OF_LAP: u32 = 0xb5c9_4ed3;

/// The stamp of the slot at `position` in a ring of `1 << shift` slots: its lap, counted
/// from one, mixed with a constant. Zero is no stamp; the lap that would have it takes that
/// of the lap farthest from it.
#[inline]
pub(crate) fn stamp(position: u64, shift: u32) -> u32 {
    let stamp = ((position >> shift) as u32).wrapping_add(1) ^ STAMP_OF_LAP;
    if stamp == 0 { 0x8000_0000 } else { stamp }
}

/// Consecutive slots: up to the ring's end, and from its beginning on.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a>(pub(crate) &'a [Slot], pub(crate) &'a [Slot]);

impl<'a> Run<'a> {
    /// The `count` slots from `position` on of a ring that begins at `slots`.
    ///
    /// # Safety
    /// All `mask + 1` slots of the ring are valid for shared access during `'a`; `count` is
    /// at most as many.
    #[inline]
    unsafe fn new(slots: NonNull<Slot>, mask: u64, position: u64, count: usize) -> Run<'a> {
        let at = (position & mask) as usize;
        let before = count.min(mask as usize + 1 - at);
        // SAFETY: the slots from `at` to the ring's end, or fewer, and as many of its
        // beginning as are left of `count`, by the caller's word.
        unsafe {
            Run(
                slice::from_raw_parts(slots.add(at).as_ptr(), before),
                slice::from_raw_parts(slots.as_ptr(), count - before),
            )
        }
    }

    /// The first `count` slots, and the others.
    #[inline]
    pub(crate) fn split_at(self, count: usize) -> (Run<'a>, Run<'a>) {
        let Run(before, after) = self;
        if count <= before.len() {
            let (first, rest) = before.split_at(count);
            return (Run(first, &[]), Run(rest, after));
        }
        let (first, rest) = after.split_at(count - before.len());
        (Run(before, first), Run(rest, &[]))
    }

    #[inline]
    pub(crate) fn len(self) -> usize {
        self.0.len() + self.1.len()
    }
}

/// A point in the writing of a packet, for tests that end a writer there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The intent says *reserving*.
    Intent,
    /// The slots are taken.
    Reserved,
    /// The intent says which.
    Positioned,
    /// This many further slots are written: the first of them, or all. A packet is
    /// written in two pieces only where a test can end it in between.
    Filled(u32),
    /// All is written but the stamp.
    Unstamped,
    /// The packet is published, the intent not yet idle.
    Published,
    /// Behind the intent: this many portions of its payload are stored, if it goes by a buffer.
    Portion(u32),
}

/// The writing end: one process's hold on another one's mailbox. `K` keeps the
/// memory.
#[derive(Debug)]
pub(crate) struct Writer<K> {
    tail: NonNull<AtomicU64>,
    slots: NonNull<Slot>,
    intent: NonNull<AtomicU64>,
    mask: u64,
    shift: u32,
    index: u16,
    /// What the intent is between two packets.
    idle: Cell<u64>,
    _keep: K,
}

impl<K> Writer<K> {
    /// The writing end with entry `index` of a ring of `1 << shift` slots.
    ///
    /// # Safety
    /// The three pointers are valid for shared access, `slots` for all slots
    /// of the ring, as long as `keep` is not dropped.
    pub(crate) unsafe fn new(
        tail: NonNull<AtomicU64>,
        slots: NonNull<Slot>,
        intent: NonNull<AtomicU64>,
        shift: u32,
        index: u16,
        keep: K,
    ) -> Writer<K> {
        let mask = (1 << shift) - 1;
        Writer { tail, slots, intent, mask, shift, index, idle: Cell::new(0), _keep: keep }
    }

    /// Writes a packet of `count` slots. `first` is its first slot, whose
    /// stamp and writer index are put in here; `fill` stores what is in some of the
    /// further slots, beginning with slot `i` of them, counted from zero. A test ends the
    /// writer by letting `step` answer false.
    #[inline]
    pub(crate) fn write(
        &self,
        count: u16,
        first: &[u64; WORDS],
        mut fill: impl FnMut(usize, Run<'_>),
        mut step: impl FnMut(Step) -> bool,
    ) {
        // SAFETY: valid as long as the writer, by `new`'s contract.
        let (tail, intent) = unsafe { (self.tail.as_ref(), self.intent.as_ref()) };
        intent.store(STATE_RESERVING, Ordering::Release);
        if !step(Step::Intent) {
            return;
        }
        let position = tail.fetch_add(u64::from(count), Ordering::AcqRel);
        if !step(Step::Reserved) {
            return;
        }
        let idle = word_of(STATE_IDLE, position, count);
        intent.store(idle | STATE_WRITING, Ordering::Release);
        if !step(Step::Positioned) {
            return;
        }
        if count > 1 {
            // SAFETY: the ring is valid as long as the writer, by `new`'s contract; no
            // quota is longer than it.
            let further = unsafe {
                let at = position.wrapping_add(1);
                Run::new(self.slots, self.mask, at, usize::from(count - 1))
            };
            let (piece, rest) = further.split_at(usize::from(cfg!(test) && count > 2));
            if piece.len() != 0 {
                fill(0, piece);
                if !step(Step::Filled(1)) {
                    return;
                }
            }
            fill(piece.len(), rest);
            if !step(Step::Filled(u32::from(count - 1))) {
                return;
            }
        }
        let slot = self.slot(position);
        for (word, value) in slot.words.iter().zip(first).skip(1) {
            word.store(*value, Ordering::Relaxed);
        }
        if !step(Step::Unstamped) {
            return;
        }
        let prefix = u64::from(stamp(position, self.shift)) | u64::from(self.index) << 32;
        let rest = first[0] & !0xffff_ffff_ffff;
        slot.words[0].store(prefix | rest, Ordering::Release);
        if !step(Step::Published) {
            return;
        }
        intent.store(idle, Ordering::Release);
        self.idle.set(idle);
    }

    /// Puts the intent right if somebody else has written there. To be called
    /// between packets, now and then: an intent that says that its living writer
    /// holds slots stops the reader.
    pub(crate) fn renew_intent(&self) {
        // SAFETY: valid as long as the writer, by `new`'s contract.
        let intent = unsafe { self.intent.as_ref() };
        if intent.load(Ordering::Relaxed) != self.idle.get() {
            intent.store(self.idle.get(), Ordering::Release);
        }
    }

    /// The addresses of the slots of the packet that was written last, up to the ring's end.
    #[inline(always)]
    pub(crate) fn last_packet(&self) -> Range<usize> {
        let idle = self.idle.get();
        let count = (idle >> COUNT_SHIFT & COUNT_MASK) as usize;
        let at = (idle >> POSITION_SHIFT & self.mask) as usize;
        self.address(at)..self.address((at + count).min(self.mask as usize + 1))
    }

    /// These addresses, up to the ring's end.
    #[inline]
    pub(crate) fn in_ring(&self, bytes: Range<usize>) -> Range<usize> {
        bytes.start..bytes.end.min(self.address(self.mask as usize + 1))
    }

    #[inline(always)]
    fn address(&self, slot: usize) -> usize {
        self.slots.addr().get() + slot * size_of::<Slot>()
    }

    #[inline]
    fn slot(&self, position: u64) -> &Slot {
        // SAFETY: the mask keeps the index inside the ring, all of which is
        // valid as long as `self`, by `new`'s contract.
        unsafe { self.slots.add((position & self.mask) as usize).as_ref() }
    }
}

/// What stands between the reader and the next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stuck {
    /// Nothing: the next slot is published or not even reserved.
    No,
    /// A living writer holds the slot, or may hold it.
    Held,
    /// So many slots are abandoned; [`Reader::skip`] leaves them behind.
    Abandoned(u32),
    /// The tail is where no sum of credits can have moved it: it was
    /// overwritten.
    Overwritten,
}

/// The reading end of a process's own mailbox.
/// `K` keeps the memory.
#[derive(Debug)]
pub(crate) struct Reader<K> {
    tail: NonNull<AtomicU64>,
    slots: NonNull<Slot>,
    mask: u64,
    shift: u32,
    head: u64,
    /// The stamp that the slot at the head will have when it is published.
    expected: u32,
    /// Where the head is behind a packet of several slots, and how many the next is likely to have.
    alike: (u64, u32),
    _keep: K,
}

/// The writer index in a copy that [`Reader::peek`] made.
#[inline]
pub(crate) fn writer_of(copy: &[u64; WORDS]) -> u16 {
    (copy[0] >> 32) as u16
}

/// Most slots of a packet that are fetched again and again before it is there.
const ALIKE_SLOTS_MAX: u32 = 8;

/// How far ahead of the head a slot is fetched while the packet at the head is handled.
const SLOTS_AHEAD: u64 = 2;

/// How many laps a reader leaves out when it begins anew: so many that writers who
/// were misled by an overwritten tail have not stamped them, and few of those
/// that positions can tell apart.
const FRESH_LAPS: u64 = 1 << 20;

/// How often a *reserving* intent is read again before the reader gives up for
/// now: a few times as long as a living writer stays in that state.
const RESERVING_SPINS_MAX: u32 = if cfg!(loom) { 1 } else { 200 };

impl<K> Reader<K> {
    /// The reading end of an empty ring of `1 << shift` slots.
    ///
    /// # Safety
    /// As for [`Writer::new`].
    pub(crate) unsafe fn new(
        tail: NonNull<AtomicU64>,
        slots: NonNull<Slot>,
        shift: u32,
        keep: K,
    ) -> Reader<K> {
        let expected = stamp(0, shift);
        Reader {
            tail,
            slots,
            mask: (1 << shift) - 1,
            shift,
            head: 0,
            expected,
            alike: (u64::MAX, 0),
            _keep: keep,
        }
    }

    /// A private copy of the slot at the head, if a packet begins there.
    #[inline]
    pub(crate) fn peek(&self) -> Option<[u64; WORDS]> {
        let slot = self.slot(self.head);
        let prefix = slot.words[0].load(Ordering::Acquire);
        if prefix & STAMP_MASK != u64::from(self.expected) {
            return None;
        }
        prefetch(self.slot(self.head.wrapping_add(SLOTS_AHEAD)));
        let mut copy = [prefix; WORDS];
        for (to, from) in copy.iter_mut().zip(&slot.words).skip(1) {
            *to = from.load(Ordering::Relaxed);
        }
        Some(copy)
    }

    /// Who has written the packet behind the one at the head, which takes one slot, if there is
    /// one.
    #[inline]
    pub(crate) fn writer_behind(&self) -> Option<u16> {
        let position = self.head.wrapping_add(1);
        let prefix = self.slot(position).words[0].load(Ordering::Acquire);
        let is_published = prefix & STAMP_MASK == u64::from(stamp(position, self.shift));
        is_published.then_some((prefix >> 32) as u16)
    }

    /// Goes on to the slot `count` further.
    #[inline]
    pub(crate) fn advance(&mut self, count: u32) {
        self.head = self.head.wrapping_add(u64::from(count));
        self.expected = stamp(self.head, self.shift);
    }

    /// Position of the slot at the head.
    #[inline]
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// The packet at the head takes `count` slots, and so may the next one.
    #[inline]
    pub(crate) fn expect_alike(&mut self, count: u32) {
        self.alike = (self.head.wrapping_add(u64::from(count)), count.min(ALIKE_SLOTS_MAX));
    }

    /// Begins to fetch the slots that the packet may have behind its first one which is waited
    /// for. False if one has come since that makes it unlikely.
    pub(crate) fn fetch_alike(&self) -> bool {
        let (head, count) = self.alike;
        if head != self.head {
            return false;
        }
        for behind in 1..u64::from(count) {
            prefetch(self.slot(head.wrapping_add(behind)));
        }
        true
    }

    /// The slots behind the first one of the packet of `count` slots at the head.
    #[inline]
    pub(crate) fn further(&self, count: u32) -> Run<'_> {
        self.run(self.head.wrapping_add(1), count - 1)
    }

    /// Where the `len` bytes from byte `skip` on of what is in the slots behind the head are, if
    /// the end of the ring is not between them.
    #[inline(always)]
    pub(crate) fn further_in_one_piece(&self, skip: usize, len: usize) -> Option<*const u8> {
        let at = (self.head.wrapping_add(1) & self.mask) as usize;
        let bytes = (self.mask as usize + 1 - at) * size_of::<Slot>();
        let is_whole = skip.checked_add(len).is_some_and(|end| end <= bytes);
        // SAFETY: the mask keeps the index inside the ring, all of which is valid as long as
        // `self`, by `new`'s contract, and `skip` is not behind its end.
        is_whole.then(|| unsafe { self.slots.add(at).as_ptr().cast::<u8>().add(skip).cast_const() })
    }

    /// Whether one of the `count` slots at the head would look published in the next lap. The
    /// first one does not: it has the stamp of this lap.
    #[inline]
    pub(crate) fn is_scrub_due(&self, count: u32) -> bool {
        let (this, next) = self.next_stamps(self.head.wrapping_add(1));
        let Run(before, after) = self.further(count);
        let is = |slot: &Slot, stamp| slot.words[0].load(Ordering::Relaxed) & STAMP_MASK == stamp;
        // Most packets of several slots have two.
        if let ([slot], []) = (before, after) {
            return is(slot, this);
        }
        let mut found = false;
        // Without a branch in the loop: loads of many lines are under way at once.
        for slot in before {
            found |= is(slot, this);
        }
        for slot in after {
            found |= is(slot, next);
        }
        found
    }

    /// Sets those of the `count` slots at the head to zero that would look published in
    /// the next lap. Nobody has got their credits back yet.
    #[cold]
    pub(crate) fn scrub(&self, count: u32) {
        let (this, next) = self.next_stamps(self.head);
        let Run(before, after) = self.run(self.head, count);
        for (slots, stamp) in [(before, this), (after, next)] {
            for slot in slots {
                if slot.words[0].load(Ordering::Relaxed) & STAMP_MASK == stamp {
                    slot.words[0].store(0, Ordering::Relaxed);
                }
            }
        }
    }

    /// Leaves `count` slots behind that hold no packet, or one that is refused.
    #[cold]
    pub(crate) fn skip(&mut self, count: u32) {
        self.scrub(count);
        self.advance(count);
    }

    /// How many slots the published packet at the head takes by what its writer says; one
    /// if it says nothing of it.
    #[cold]
    pub(crate) fn slots_by(&self, intent: &AtomicU64) -> u32 {
        let word = intent.load(Ordering::Acquire);
        let is_of_head = word >> POSITION_SHIFT == self.head & POSITION_MASK
            && matches!(word & STATE_MASK, STATE_IDLE | STATE_WRITING);
        let count = if is_of_head { word >> COUNT_SHIFT & COUNT_MASK } else { 1 };
        count.min(self.backlog()).clamp(1, self.mask + 1) as u32
    }

    /// Everything before this position has been reserved. Never more than one
    /// ring ahead of the head, whatever the shared memory says.
    pub(crate) fn reserved_until(&self) -> u64 {
        self.head.wrapping_add(self.backlog().min(self.mask + 1))
    }

    /// Whether a slot is reserved that has not been read.
    pub(crate) fn is_behind(&self) -> bool {
        self.backlog() != 0
    }

    /// Finds out what the reader waits for. `intents` are those of all
    /// writers; `is_alive` is asked only about writers whose intent may cover
    /// the slot at the head.
    pub(crate) fn stuck<'a>(
        &self,
        intents: impl Iterator<Item = &'a AtomicU64>,
        mut is_alive: impl FnMut(usize) -> bool,
    ) -> Stuck {
        let backlog = self.backlog();
        if backlog == 0 || self.is_published() {
            return Stuck::No;
        }
        if backlog > self.mask + 1 {
            return Stuck::Overwritten;
        }
        // The tail was read first, so whoever reserved the slot at the head
        // had stored its intent before what is read here.
        let mut slots = 1;
        for (index, intent) in intents.enumerate() {
            let settled = self.settled(intent);
            if !settled.may_cover(self.head) {
                continue;
            }
            if is_alive(index) {
                return if self.is_published() { Stuck::No } else { Stuck::Held };
            }
            // What its writer has put into the further slots may be any bytes, so they
            // are not looked at for a packet. Its last word is read now that it stores no
            // more: since it was last looked at, it may have begun to write. One that has
            // not said which slots it holds has written none.
            let last = Intent::from_word(intent.load(Ordering::Acquire));
            if let Intent::Writing { position, count } = last
                && last.may_cover(self.head)
            {
                let gone = self.head.wrapping_sub(position) & POSITION_MASK;
                slots = slots.max((u64::from(count) - gone).min(backlog));
            }
        }
        // A writer that was idle just now may have published just before.
        if self.is_published() { Stuck::No } else { Stuck::Abandoned(slots as u32) }
    }

    /// Whether the packet that a writer has published last will never be read:
    /// it is not between head and tail, and it is not the one that began at
    /// `read` (low bits), the last that was read of this writer.
    pub(crate) fn has_missed(&self, intent: &AtomicU64, read: u32) -> bool {
        let Intent::Idle { last: Some(last) } = Intent::from_word(intent.load(Ordering::Acquire))
        else {
            return false;
        };
        // The writer moved the tail before it stored what was read first.
        let ahead = last.wrapping_sub(self.head) & POSITION_MASK;
        let to_come = ahead < self.backlog().min(self.mask + 1);
        !to_come && last as u32 != read
    }

    /// Begins anew after [`Stuck::Overwritten`], with head and tail where no stamp
    /// of any slot is a valid one: from before the overwritten tail nothing may be
    /// read again. What is lost by that [`Reader::has_missed`] tells. Who still writes
    /// there writes a stamp of old laps, and other bytes that are one of the new laps by
    /// chance at most.
    pub(crate) fn restart(&mut self) {
        for slot in self.run(0, self.mask as u32 + 1).0 {
            slot.words[0].store(0, Ordering::Relaxed);
        }
        let fresh = ((self.head >> self.shift) + FRESH_LAPS) << self.shift;
        self.tail().store(fresh, Ordering::Release);
        self.head = fresh;
        self.expected = stamp(fresh, self.shift);
    }

    /// The intent, read again for a moment while it is *reserving*: a living
    /// writer soon knows more.
    fn settled(&self, intent: &AtomicU64) -> Intent {
        let mut spins = 0;
        loop {
            let now = Intent::from_word(intent.load(Ordering::Acquire));
            if now != Intent::Reserving || spins == RESERVING_SPINS_MAX {
                return now;
            }
            spins += 1;
            std::hint::spin_loop();
        }
    }

    /// Whether a packet begins at the head.
    pub(crate) fn is_published(&self) -> bool {
        let prefix = self.slot(self.head).words[0].load(Ordering::Acquire);
        prefix & STAMP_MASK == u64::from(self.expected)
    }

    /// The stamps of the next lap of the slots from `position` on: of those up to the ring's end,
    /// and of those from its beginning on.
    #[inline]
    fn next_stamps(&self, position: u64) -> (u64, u64) {
        let of =
            |laps: u64| u64::from(stamp(position.wrapping_add(laps << self.shift), self.shift));
        (of(1), of(2))
    }

    #[inline]
    fn run(&self, position: u64, count: u32) -> Run<'_> {
        // SAFETY: the ring is valid as long as `self`, by `new`'s contract. A run longer
        // than it would only be asked for by a bug.
        unsafe {
            Run::new(self.slots, self.mask, position, (count as usize).min(self.mask as usize + 1))
        }
    }

    fn backlog(&self) -> u64 {
        self.tail().load(Ordering::Acquire).wrapping_sub(self.head)
    }

    fn tail(&self) -> &AtomicU64 {
        // SAFETY: valid as long as the reader, by `new`'s contract.
        unsafe { self.tail.as_ref() }
    }

    #[inline]
    fn slot(&self, position: u64) -> &Slot {
        // SAFETY: the mask keeps the index inside the ring, all of which is
        // valid as long as `self`, by `new`'s contract.
        unsafe { self.slots.add((position & self.mask) as usize).as_ref() }
    }
}

#[cfg(test)]
#[cfg_attr(loom, path = "ring_loom.rs")]
#[cfg_attr(not(loom), path = "ring_tests.rs")]
mod tests;
