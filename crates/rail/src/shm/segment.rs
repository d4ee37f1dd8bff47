//! The shared memory of one mailbox: header, table of writers, ring.
//!
//! | at | what |
//! |---|---|
//! | 0 | header: sixteen words that its owner stores once |
//! | 128 | count of claims of entries, so that the owner notices new writers |
//! | 192 | not zero once the owner reads no more |
//! | 256 | tail of the ring, alone in its line and the one fetched with it |
//! | 384 | the bell that wakes a sleeping owner, alone likewise |
//! | 512 | how many portions its owner has stored in bounce buffers, alone likewise |
//! | 640 | the owner's look (`looks`), alone likewise |
//! | 4096 | [`CHUNK_CLAIMS_MAX`] lines of chunk claims, for transfers that others help to copy |
//! | 20480 | [`PUBLISHED_MAX`] lines of regions that peers move without the owner's call |
//! | 28672 | one [`ENTRY_BYTES`] entry per writer: claim, card, the line that it uses, intent, how many of the owner's buffers it has read, which of the owner's messages it wants announced |
//! | next page | the ring |
//! | next page | the owner's bounce buffers, [`bounce_bytes`] |
//!
//! Invariants: the owner never relies on anything that it could read back from
//! here, but for the counts of bounce buffers that were read, which are checked (`bounce`), and for hints;
//! whoever attaches copies the header and checks it against the size of what was mapped before it
//! touches anything else.

use super::bell::Bell;
use super::bounce::{Pair, bounce_bytes};
use super::card::{CARD_BYTES, Card};
use super::claims_line::Line;
use super::error::CardError;
use super::guard::MappedFile;
use super::handover::Tried;
use super::mapping::Mapping;
use super::processor::is_intel;
use super::published::{self, InUse, PUBLISHED_MAX};
use super::ring::{self, Slot};
use super::stores::Stores;
use super::ways::Ways;
use crate::faults;
use rustix::fd::AsFd;
use sluice_link::{Grant, Layout};
use sluice_wire::{Nanos, SLOT_BYTES};
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of one writer's entry: two lines for claim and card, which are
/// read, and two for the intent, which is written with every packet.
pub(super) const ENTRY_BYTES: usize = 256;
/// Most transfers at a time that a process and its peers copy together. More are
/// copied by one side.
pub(super) const CHUNK_CLAIMS_MAX: u16 = 256;
const PAGE_BYTES: usize = 4096;
const MAGIC: u64 = u64::from_le_bytes(*b"SLUICEsg");
const VERSION: u64 = 17;
const HEADER_WORDS: usize = 16;
const ENTRY_CLAIMS_AT: usize = 128;
const CLOSED_AT: usize = 192;
const TAIL_AT: usize = 256;
const BELL_AT: usize = 384;
const PORTIONS_AT: usize = 512;
const LOOK_AT: usize = 640;
const CHUNK_CLAIMS_AT: usize = PAGE_BYTES;
const PUBLISHED_AT: usize = CHUNK_CLAIMS_AT + CHUNK_CLAIMS_MAX as usize * size_of::<Line>();
const ENTRIES_AT: usize = PUBLISHED_AT + PUBLISHED_MAX as usize * size_of::<published::Line>();
pub(super) const ENTRY_CARD_AT: usize = 8;
const ENTRY_IN_USE_AT: usize = 96;
const ENTRY_INTENT_AT: usize = 128;
/// Beside the intent: whoever writes one soon writes the other.
const ENTRY_BOUNCES_READ_AT: usize = ENTRY_INTENT_AT + 8;
/// And this seldom: it is read beside the count.
const ENTRY_WANTED_AT: usize = ENTRY_INTENT_AT + 16;

const _: () = {
    assert!(HEADER_WORDS * 8 <= ENTRY_CLAIMS_AT);
    assert!(ENTRY_CLAIMS_AT + 64 <= CLOSED_AT);
    assert!(CLOSED_AT + 64 <= TAIL_AT);
    assert!(TAIL_AT + 128 <= BELL_AT);
    assert!(BELL_AT + 128 <= PORTIONS_AT);
    assert!(PORTIONS_AT + 128 <= LOOK_AT);
    assert!(LOOK_AT + 128 <= CHUNK_CLAIMS_AT);
    // Pages of their own, and what the table above says.
    assert!(PUBLISHED_AT.is_multiple_of(PAGE_BYTES) && PUBLISHED_AT == 20480);
    assert!(ENTRIES_AT.is_multiple_of(PAGE_BYTES) && ENTRIES_AT == 28672);
    assert!(CARD_BYTES.is_multiple_of(8) && ENTRY_CARD_AT + CARD_BYTES <= ENTRY_IN_USE_AT);
    assert!(ENTRY_IN_USE_AT + 8 <= ENTRY_INTENT_AT);
    assert!(ENTRY_INTENT_AT + 128 <= ENTRY_BYTES);
    assert!(PAGE_BYTES.is_multiple_of(SLOT_BYTES));
};

/// In the header's flags: the owner may sleep and wants to be rung.
const FLAG_SLEEPS: u64 = 1;

/// State of an entry, in the low two bits of its claim; then 30 bits of
/// generation, then the claimer's pid.
const CLAIM_FREE: u64 = 0;
const CLAIM_TAKEN: u64 = 1;
const CLAIM_READY: u64 = 2;
const CLAIM_CLOSED: u64 = 3;
const CLAIM_STATE: u64 = 3;
const CLAIM_GENERATION_STEP: u64 = 4;
const CLAIM_GENERATION: u64 = 0xffff_fffc;

/// What an entry's claim says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// Nobody's.
    Free,
    /// Somebody is about to write its card.
    Taken {
        /// By which pid, so that a claimer that died half way can be undone.
        pid: u32,
    },
    /// In use.
    Ready,
    /// Its writer has written its last.
    Closed,
}

impl Claim {
    pub(super) fn from_word(word: u64) -> Claim {
        match word & CLAIM_STATE {
            CLAIM_TAKEN => Claim::Taken { pid: (word >> 32) as u32 },
            CLAIM_READY => Claim::Ready,
            CLAIM_CLOSED => Claim::Closed,
            _ => Claim::Free,
        }
    }
}

/// Whether a claim that was seen as `seen` is still the same writer's, which may
/// have written its last by now.
pub(super) fn is_same_claim(seen: u64, now: u64) -> bool {
    (seen ^ now) & !CLAIM_STATE == 0
        && matches!(Claim::from_word(now), Claim::Ready | Claim::Closed)
}

/// What the owner stores over a claim, so that its writer learns that nothing
/// of it is delivered any more: the claim of nobody, in use.
fn refused(claim: u64) -> u64 {
    (claim & CLAIM_GENERATION) | CLAIM_READY
}

/// The claim of a writer that has written its last.
fn closed(claim: u64) -> u64 {
    (claim & !CLAIM_STATE) | CLAIM_CLOSED
}

/// What a mapped mailbox is to this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It takes what this process writes.
    Fine,
    /// Its owner has given this process up.
    Refused,
    /// Somebody else has written over it.
    Overwritten,
}

/// An entry of a peer's mailbox that this process has claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) index: u16,
    /// What its claim says as long as it is this process's.
    ready: u64,
}

/// Bytes of a segment with this layout.
pub(super) fn segment_bytes(layout: &Layout) -> usize {
    bounces_at(layout) + bounces_len(layout)
}

/// Bytes of the owner's bounce buffers.
fn bounces_len(layout: &Layout) -> usize {
    bounce_bytes(layout.ring_slots as usize * SLOT_BYTES)
}

fn bounces_at(layout: &Layout) -> usize {
    let ring_end = ring_at(layout) + layout.ring_slots as usize * SLOT_BYTES;
    ring_end.next_multiple_of(PAGE_BYTES)
}

fn ring_at(layout: &Layout) -> usize {
    ENTRIES_AT + (usize::from(layout.senders_max) * ENTRY_BYTES).next_multiple_of(PAGE_BYTES)
}

/// The reading end of a mapped ring, which it keeps mapped.
pub(super) type Reader = ring::Reader<Arc<Mapping>>;
/// The writing end, likewise.
pub(super) type Writer = ring::Writer<Arc<Mapping>>;

/// The bell of a mapped mailbox, which it keeps mapped.
#[derive(Clone, Debug)]
pub(super) struct SharedBell {
    mapping: Arc<Mapping>,
}

impl SharedBell {
    #[inline]
    pub(super) fn bell(&self) -> &Bell {
        // SAFETY: aligned, and inside the first page, which every segment has
        // (`Segment::create`, `Segment::attach`); the bell is one atomic word; the
        // borrow of `self` keeps it mapped.
        unsafe { self.mapping.base.add(BELL_AT).cast().as_ref() }
    }
}

/// What a mailbox says of how it is used. How long portions are depends on the processor (`portions`), which
/// some process may see otherwise, run by an emulator.
fn version() -> u64 {
    u64::from(is_intel()) << 32 | VERSION
}

/// A mapped mailbox, one's own or a peer's.
#[derive(Debug)]
pub(super) struct Segment {
    mapping: Arc<Mapping>,
    layout: Layout,
    /// Whether its owner may sleep and wants to be rung.
    sleeps: bool,
    /// The entry that this process has there, if it is a peer's.
    pub(super) entry: Option<Entry>,
    /// How this process stores the payload of packets for that one.
    pub(super) stores: Stores,
    /// Buffers that carry payload between the two.
    pub(super) bounces: Pair,
    /// Whether it is worth handing chunks over to it.
    pub(super) handed_over: Tried,
    /// When it has handed one over last.
    pub(super) came: Nanos,
    /// How long transfers from there take.
    pub(super) ways: Ways,
}

impl Segment {
    /// Makes the mailbox of this process in fresh, zeroed memory.
    pub(super) fn create(
        fd: impl AsFd,
        is_file: bool,
        layout: Layout,
        mark: u64,
        sleeps: bool,
    ) -> io::Result<Segment> {
        let bytes = segment_bytes(&layout);
        let mapping = Mapping::new(fd, bytes, is_file)?;
        let grant = layout.grant;
        let words = [
            0,
            version(),
            mark,
            bytes as u64,
            u64::from(grant.data_slots)
                | u64::from(grant.control_slots) << 16
                | u64::from(grant.credit_slots) << 24
                | u64::from(layout.senders_max) << 32
                | u64::from(layout.reply_slots) << 48,
            u64::from(layout.ring_slots) | u64::from(layout.dynamic_slots) << 32,
            if sleeps { FLAG_SLEEPS } else { 0 },
        ];
        for (i, value) in words.into_iter().enumerate() {
            mapping.word(i * 8).store(value, Ordering::Relaxed);
        }
        // The magic last: a header that has it is complete.
        mapping.word(0).store(MAGIC, Ordering::Release);
        Ok(Segment {
            mapping: Arc::new(mapping),
            layout,
            sleeps,
            entry: None,
            stores: Stores::default(),
            bounces: Pair::default(),
            handed_over: Tried::default(),
            came: Nanos(0),
            ways: Ways::default(),
        })
    }

    /// Maps the mailbox of a peer, `bytes` long as the system says, and checks
    /// that it is the one of the process with this `mark`.
    pub(super) fn attach(
        fd: impl AsFd,
        is_file: bool,
        bytes: u64,
        mark: u64,
    ) -> io::Result<Segment> {
        let foreign = |what| io::Error::new(io::ErrorKind::InvalidData, what);
        let unusable = io::Error::other::<&str>;
        let len = usize::try_from(bytes).map_err(|_| foreign("segment too long"))?;
        if len < PAGE_BYTES {
            return Err(foreign("segment too short"));
        }
        faults::segment::on_map()?;
        let mapping = Mapping::new(fd, len, is_file)?;
        let mut words = [0; HEADER_WORDS];
        words[0] = mapping.word(0).load(Ordering::Acquire);
        for (i, word) in words.iter_mut().enumerate().skip(1) {
            *word = mapping.word(i * 8).load(Ordering::Relaxed);
        }
        if words[0] != MAGIC {
            return Err(foreign("not a mailbox"));
        }
        if words[1] != version() {
            return Err(unusable("not a mailbox of this version"));
        }
        if words[2] != mark {
            return Err(foreign("the mailbox of somebody else"));
        }
        let layout = Layout {
            grant: Grant {
                data_slots: words[4] as u16,
                control_slots: (words[4] >> 16) as u8,
                credit_slots: (words[4] >> 24) as u8,
            },
            senders_max: (words[4] >> 32) as u16,
            reply_slots: (words[4] >> 48) as u16,
            ring_slots: words[5] as u32,
            dynamic_slots: (words[5] >> 32) as u32,
        };
        layout.check().map_err(|_| unusable("impossible mailbox layout"))?;
        if words[3] != bytes || segment_bytes(&layout) as u64 != bytes {
            return Err(unusable("mailbox layout and size disagree"));
        }
        if words[6] & !FLAG_SLEEPS != 0 {
            return Err(unusable("unknown mailbox flags"));
        }
        let sleeps = words[6] & FLAG_SLEEPS != 0;
        Ok(Segment {
            mapping: Arc::new(mapping),
            layout,
            sleeps,
            entry: None,
            stores: Stores::default(),
            bounces: Pair::default(),
            handed_over: Tried::default(),
            came: Nanos(0),
            ways: Ways::default(),
        })
    }

    /// Whether the owner of the mailbox behind `fd`, which must have this `mark`, reads no
    /// more. It is not mapped for that.
    pub(super) fn is_closed_behind(fd: impl AsFd, mark: u64) -> io::Result<bool> {
        let mut words = [[0; 8]; CLOSED_AT / 8 + 1];
        let read = rustix::io::pread(fd, words.as_flattened_mut(), 0)?;
        let word = |at: usize| u64::from_ne_bytes(words[at / 8]);
        if read < CLOSED_AT + 8 || [word(0), word(8), word(16)] != [MAGIC, version(), mark] {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "another file by now"));
        }
        Ok(word(CLOSED_AT) != 0)
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// Whether its file was shortened, so that the memory is not shared any more.
    pub(super) fn is_lost(&self) -> bool {
        self.mapping.file.as_ref().is_some_and(MappedFile::is_lost)
    }

    /// The bell by which the owner sleeps.
    pub(super) fn bell(&self) -> SharedBell {
        SharedBell { mapping: Arc::clone(&self.mapping) }
    }

    /// Whether a writer has to ring it after each packet.
    pub(super) fn sleeps(&self) -> bool {
        self.sleeps
    }

    /// The reading end. Only the owner makes it, once, before anybody writes.
    pub(super) fn reader(&self) -> Reader {
        let shift = self.layout.ring_slots.ilog2();
        // SAFETY: the pointers are inside the mapping, which the reader keeps.
        unsafe { Reader::new(self.tail(), self.ring(), shift, Arc::clone(&self.mapping)) }
    }

    /// Bytes of the owner's bounce buffers.
    #[inline]
    pub(super) fn bounces_len(&self) -> usize {
        bounces_len(&self.layout)
    }

    /// `len` bytes of the owner's bounce buffers, from `at` on.
    #[inline]
    pub(super) fn bounce(&self, at: usize, len: usize) -> NonNull<u8> {
        assert!(at.checked_add(len).is_some_and(|end| end <= self.bounces_len()));
        self.mapping.at(bounces_at(&self.layout) + at, len)
    }

    /// What tells whether the owner looks.
    #[inline]
    pub(super) fn look(&self) -> &AtomicU64 {
        self.mapping.word(LOOK_AT)
    }

    /// How many portions the owner has stored in them.
    #[inline]
    pub(super) fn portions(&self) -> &AtomicU64 {
        self.mapping.word(PORTIONS_AT)
    }

    /// How many of the owner's buffers the writer with entry `index` has read.
    #[inline]
    pub(super) fn bounces_read(&self, index: u16) -> &AtomicU64 {
        self.entry_word(index, ENTRY_BOUNCES_READ_AT)
    }

    /// Which messages of the owner's the writer with entry `index` had better have announced, as
    /// [`Ways::wanted`] says. A hint.
    #[inline]
    pub(super) fn wanted(&self, index: u16) -> &AtomicU64 {
        self.entry_word(index, ENTRY_WANTED_AT)
    }

    /// This process has read one more of them.
    #[inline]
    pub(super) fn note_bounce_read(&mut self) {
        let Some(own) = self.entry else { return };
        let at = ENTRIES_AT + usize::from(own.index) * ENTRY_BYTES + ENTRY_BOUNCES_READ_AT;
        self.bounces.note_read(self.mapping.word(at));
    }

    /// A long message of the owner's has come, and the owner learns how the next ones had better come.
    pub(super) fn say_wanted(&self) {
        let Some(own) = self.entry else { return };
        let (word, wanted) = (self.wanted(own.index), self.ways.wanted());
        if word.load(Ordering::Relaxed) != wanted {
            word.store(wanted, Ordering::Relaxed);
        }
    }

    /// The writing end with entry `index`, which the caller has claimed.
    pub(super) fn writer(&self, index: u16) -> Writer {
        let intent = NonNull::from(self.intent(index));
        let shift = self.layout.ring_slots.ilog2();
        let keep = Arc::clone(&self.mapping);
        // SAFETY: the pointers are inside the mapping, which the writer keeps.
        unsafe { Writer::new(self.tail(), self.ring(), intent, shift, index, keep) }
    }

    /// Claims a free entry and writes `own` there. `None` if all are taken.
    pub(super) fn claim(&self, own: &Card) -> Option<Entry> {
        let claims = self.mapping.word(ENTRY_CLAIMS_AT);
        for index in 0..self.layout.senders_max {
            let word = self.entry_word(index, 0);
            let seen = word.load(Ordering::Relaxed);
            if seen & CLAIM_STATE != CLAIM_FREE {
                continue;
            }
            let ours = (seen & CLAIM_GENERATION) | u64::from(own.pid) << 32;
            let taken = ours | CLAIM_TAKEN;
            if word.compare_exchange(seen, taken, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                continue;
            }
            for (i, chunk) in own.to_bytes().chunks_exact(8).enumerate() {
                let value = chunk.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
                self.entry_word(index, ENTRY_CARD_AT + i * 8).store(value, Ordering::Relaxed);
            }
            let ready = ours | CLAIM_READY;
            let kept = word.compare_exchange(taken, ready, Ordering::Release, Ordering::Relaxed);
            if kept.is_err() {
                // The owner took this process for dead half way.
                continue;
            }
            claims.fetch_add(1, Ordering::Release);
            return Some(Entry { index, ready });
        }
        None
    }

    /// How often entries were claimed, so far.
    pub(super) fn claims(&self) -> u64 {
        self.mapping.word(ENTRY_CLAIMS_AT).load(Ordering::Acquire)
    }

    /// What the claim of entry `index` says.
    pub(super) fn claim_of(&self, index: u16) -> Claim {
        Claim::from_word(self.claim_word(index))
    }

    /// The claim of entry `index` as it is, to find out whether it changes.
    pub(super) fn claim_word(&self, index: u16) -> u64 {
        self.entry_word(index, 0).load(Ordering::Acquire)
    }

    /// Who writes with entry `index`, by its own account, whatever its claim says.
    pub(super) fn card_of(&self, index: u16) -> Result<Card, CardError> {
        let mut bytes = [0; CARD_BYTES];
        for (i, chunk) in bytes.chunks_exact_mut(8).enumerate() {
            let word = self.entry_word(index, ENTRY_CARD_AT + i * 8).load(Ordering::Relaxed);
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        Card::from_bytes(&bytes)
    }

    /// The chunk claims at `place`, which is below [`CHUNK_CLAIMS_MAX`].
    pub(super) fn claims_line(&self, place: u16) -> &Line {
        assert!(place < CHUNK_CLAIMS_MAX);
        let at = CHUNK_CLAIMS_AT + usize::from(place) * size_of::<Line>();
        // SAFETY: inside the table by the assertion, which is inside every
        // segment, and aligned; a line is of atomic words; the borrow of `self`
        // keeps it mapped.
        unsafe { self.mapping.at(at, size_of::<Line>()).cast().as_ref() }
    }

    /// The published region at `place`, which is below [`PUBLISHED_MAX`].
    pub(super) fn published(&self, place: u16) -> &published::Line {
        assert!(place < PUBLISHED_MAX);
        let at = PUBLISHED_AT + usize::from(place) * size_of::<published::Line>();
        // SAFETY: inside the table by the assertion, which is inside every segment, and
        // aligned; a line is of atomic words; the borrow of `self` keeps it mapped.
        unsafe { self.mapping.at(at, size_of::<published::Line>()).cast().as_ref() }
    }

    /// Which published region the writer with entry `index` uses.
    pub(super) fn in_use(&self, index: u16) -> InUse<'_> {
        InUse(self.entry_word(index, ENTRY_IN_USE_AT))
    }

    /// Makes entry `index` free for another writer, in the next generation, so
    /// that a claimer which was interrupted between looking and claiming fails.
    /// The caller knows that its writer is dead.
    pub(super) fn free(&self, index: u16) {
        self.intent(index).store(0, Ordering::Relaxed);
        self.bounces_read(index).store(0, Ordering::Relaxed);
        self.wanted(index).store(0, Ordering::Relaxed);
        self.in_use(index).end();
        let word = self.entry_word(index, 0);
        let generation = word.load(Ordering::Relaxed).wrapping_add(CLAIM_GENERATION_STEP);
        word.store((generation & CLAIM_GENERATION) | CLAIM_FREE, Ordering::Release);
    }

    /// Says, as the owner, that nothing of the writer with entry `index` is
    /// delivered any more. The entry stays taken until its writer has ended.
    /// One that has said that it has is left alone.
    pub(super) fn refuse(&self, index: u16) {
        let seen = self.claim_word(index);
        if Claim::from_word(seen) != Claim::Closed {
            // Whatever came in between: the writer's last word is kept.
            let word = self.entry_word(index, 0);
            let _ = word.compare_exchange(seen, refused(seen), Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// The same, whatever the claim says, which is known to be nobody's word.
    pub(super) fn take_back(&self, index: u16) {
        let word = self.entry_word(index, 0);
        word.store(refused(word.load(Ordering::Relaxed)), Ordering::Release);
    }

    /// Whether the owner still knows this process by this entry.
    pub(super) fn standing(&self, entry: Entry) -> Standing {
        match self.claim_word(entry.index) {
            word if word == entry.ready => Standing::Fine,
            word if word == refused(entry.ready) => Standing::Refused,
            _ => Standing::Overwritten,
        }
    }

    /// Says that the writer with this entry, which is `own`, has written its last.
    pub(super) fn close(&self, entry: Entry, own: &Card) {
        let is_closed = self.claim_word(entry.index) == closed(entry.ready);
        if is_closed || self.close_claim(entry.index, entry.ready) {
            return;
        }
        // The owner has refused it, or somebody else has written there. A fresh
        // entry says whose end this is; an owner that knows it frees the entry.
        self.close_claim(entry.index, refused(entry.ready));
        if let Some(fresh) = self.claim(own) {
            self.close_claim(fresh.index, fresh.ready);
        }
    }

    fn close_claim(&self, index: u16, from: u64) -> bool {
        let word = self.entry_word(index, 0);
        let tried = word.compare_exchange(from, closed(from), Ordering::AcqRel, Ordering::Relaxed);
        let done = tried.is_ok();
        if done {
            self.mapping.word(ENTRY_CLAIMS_AT).fetch_add(1, Ordering::Release);
        }
        done
    }

    /// Says, as the owner, that nobody reads this mailbox any more.
    pub(super) fn close_own(&self) {
        self.mapping.word(CLOSED_AT).store(1, Ordering::Release);
    }

    /// Whether its owner has said so.
    pub(super) fn is_closed(&self) -> bool {
        self.mapping.word(CLOSED_AT).load(Ordering::Acquire) != 0
    }

    /// The intent of the writer with entry `index`.
    pub(super) fn intent(&self, index: u16) -> &AtomicU64 {
        self.entry_word(index, ENTRY_INTENT_AT)
    }

    /// The intents of all writers.
    pub(super) fn intents(&self) -> impl Iterator<Item = &AtomicU64> {
        (0..self.layout.senders_max).map(|index| self.intent(index))
    }

    fn entry_word(&self, index: u16, offset: usize) -> &AtomicU64 {
        assert!(index < self.layout.senders_max);
        self.mapping.word(ENTRIES_AT + usize::from(index) * ENTRY_BYTES + offset)
    }

    fn tail(&self) -> NonNull<AtomicU64> {
        NonNull::from(self.mapping.word(TAIL_AT))
    }

    fn ring(&self) -> NonNull<Slot> {
        let at = ring_at(&self.layout);
        self.mapping.at(at, self.layout.ring_slots as usize * SLOT_BYTES).cast()
    }

    /// All of the mapped memory as words, for tests that scribble over it.
    #[cfg(test)]
    pub(super) fn word_at(&self, offset: usize) -> &AtomicU64 {
        self.mapping.word(offset)
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.mapping.len
    }

    #[cfg(test)]
    pub(super) fn ring_offset(&self) -> usize {
        ring_at(&self.layout)
    }

    #[cfg(test)]
    pub(super) fn tail_offset() -> usize {
        TAIL_AT
    }

    #[cfg(test)]
    pub(super) fn entry_offset(index: usize) -> usize {
        ENTRIES_AT + index * ENTRY_BYTES
    }

    #[cfg(test)]
    pub(super) fn claims_line_offset(place: u16) -> usize {
        CHUNK_CLAIMS_AT + usize::from(place) * size_of::<Line>()
    }
}
