//! Chunk claims in shared memory, alone in their cache line. What the words mean is
//! [`sluice_link::chunk_claims`].

#[cfg(not(loom))]
use super::prefetch::prefetch;
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
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
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Line>() == 64);

impl Line {
    fn new(word: u64) -> Line {
        let shared = |word| SharedWord(AtomicU64::new(word));
        Line { claims: ChunkClaims::new(shared(word), shared(0)) }
    }

    /// One that no transfer has.
    #[cfg(not(loom))]
    pub(crate) fn unused() -> Line {
        Line::new(ChunkClaims::<SharedWord>::UNUSED)
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
