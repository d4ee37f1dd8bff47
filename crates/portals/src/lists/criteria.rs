//! What an entry accepts, and what a look-up goes by.

use super::slab::Record;
use sluice_link::mutants::{self, Mutant};
use sluice_wire::{MatchBits, PeerId};

/// What an entry accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Criteria {
    /// Bits that an operation must have.
    pub bits: MatchBits,
    /// Bits that do not matter.
    pub ignore: u64,
    /// The initiator that it accepts; `None` accepts any.
    pub source: Option<PeerId>,
}

impl Criteria {
    /// Whether they accept an operation with these bits from this source.
    #[must_use]
    #[inline]
    pub fn accept(&self, bits: MatchBits, source: PeerId) -> bool {
        let overlooked = u64::from(mutants::is(Mutant::OverlooksATagBit));
        let is_any_source = mutants::is(Mutant::MatchesAnySource);
        self.bits.accepts(self.ignore | overlooked, bits)
            && self.source.is_none_or(|only| only == source || is_any_source)
    }
}

/// What of a header a criterion looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shape {
    pub(super) ignore: u64,
    pub(super) any_source: bool,
}

impl Shape {
    #[inline]
    pub(super) fn of(criteria: &Criteria) -> Shape {
        Shape { ignore: criteria.ignore, any_source: criteria.source.is_none() }
    }

    /// What elements that this shape cannot tell apart have in common.
    #[inline]
    pub(super) fn key(self, bits: MatchBits, source: PeerId) -> (u64, u32) {
        (bits.0 & !self.ignore, if self.any_source { 0 } else { source.0 })
    }
}

/// A record that waits for messages.
pub trait Waiting: Record {
    /// What it waits for.
    fn criteria(&self) -> Criteria;
    /// The list's own note on it. Without an index it says nothing.
    fn mark(&self) -> u8;
    /// Changes the note.
    fn set_mark(&mut self, mark: u8);
}
