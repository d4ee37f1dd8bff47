//! Chunk claims in shared memory, alone in their cache line. What the words mean is
//! [`sluice_link::chunk_claims`].

#[cfg(not(loom))]
use super::prefetch::prefetch;
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use sluice_link::chunk_claims::Side;
use sluice_link::chunk_claims::{ChunkClaims, ClaimsWord};
use std::ops::Deref;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

/// A word that several processes change.
#[derive(Debug)]
pub(crate) struct SharedWord(AtomicU64);

impl ClaimsWord for SharedWord {
    #[cfg(loom)]
    const TRIES_MAX: u32 = 4;

    #[inline]
    fn load(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Does not wait for the line, which others may still hold.
    #[inline]
    fn store(&self, word: u64) {
        #[cfg(not(loom))]
        self.0.store(word, Ordering::Release);
        // The model checker lets a store come before a step that has already read
        // what it replaces.
        #[cfg(loom)]
        self.swap(word);
    }

    #[inline]
    fn swap(&self, word: u64) {
        self.0.swap(word, Ordering::AcqRel);
    }

    #[inline]
    fn compare_exchange(&self, old: u64, new: u64) -> Result<(), u64> {
        self.0.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire).map(drop)
    }
}

/// Chunk claims, alone in their cache line.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Line {
    claims: ChunkClaims<SharedWord>,
    /// Whether the owner takes in what is handed over (`handover`), and whether its peer hands over.
    takes_in: SharedWord,
    hands_over: SharedWord,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Line>() == 64);

impl Line {
    fn new(word: u64) -> Line {
        let shared = |word| SharedWord(AtomicU64::new(word));
        Line {
            claims: ChunkClaims::new(shared(word), shared(0)),
            takes_in: shared(0),
            hands_over: shared(0),
        }
    }

    /// One that no transfer has.
    #[cfg(not(loom))]
    pub(crate) fn unused() -> Line {
        Line::new(ChunkClaims::<SharedWord>::UNUSED)
    }

    /// Says, as one side, whether it hands over, or takes in, chunks of this generation. A hint: what
    /// is handed over is taken in, whatever was said.
    #[cfg(not(loom))]
    pub(crate) fn say(&self, side: Side, generation: u32, will: bool) {
        self.will(side).store(u64::from(generation) << 1 | u64::from(will));
    }

    /// What a side has said last of this generation.
    #[cfg(not(loom))]
    pub(crate) fn said(&self, side: Side, generation: u32) -> Option<bool> {
        let word = self.will(side).load();
        (word >> 1 == u64::from(generation)).then_some(word & 1 != 0)
    }

    /// Nobody has said anything of the next generation.
    #[cfg(not(loom))]
    pub(crate) fn unsay(&self) {
        self.takes_in.store(0);
        self.hands_over.store(0);
    }

    #[cfg(not(loom))]
    fn will(&self, side: Side) -> &SharedWord {
        match side {
            Side::Owner => &self.takes_in,
            Side::Peer => &self.hands_over,
        }
    }

    /// Begins to fetch the line, which will be needed.
    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn fetch(&self) {
        prefetch(&raw const self.claims);
        // A load whose value nobody waits for.
        #[cfg(not(target_arch = "x86_64"))]
        std::hint::black_box(self.claims.word().load());
    }
}

impl Deref for Line {
    type Target = ChunkClaims<SharedWord>;

    #[inline]
    fn deref(&self) -> &ChunkClaims<SharedWord> {
        &self.claims
    }
}

#[cfg(all(test, loom))]
#[path = "chunk_claims_loom.rs"]
mod tests;
