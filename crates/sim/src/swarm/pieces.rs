//! Receives into several pieces of memory. The pieces lie one behind the other, so the judge
//! looks for the message where it would be without them.

use super::draw::Draw;
use super::judge::Judge;
use super::program::Program;
use sluice_wire::{Addr, Region};
use std::collections::BTreeSet;

/// Most pieces of a buffer.
const PIECES_MAX: u64 = 8;

/// See the module.
#[derive(Debug)]
pub struct Pieces {
    draw: Draw,
    /// How many of a hundred receives are into pieces.
    percent: u64,
    /// Those receives.
    all: BTreeSet<u64>,
    /// Whether their messages come to lent memory first: an interface matches them.
    are_lent: bool,
    /// A message has come into pieces.
    pub were_filled: bool,
}

impl Pieces {
    pub fn new(seed: u64) -> Pieces {
        let mut draw = Draw::stream(seed, 63);
        let percent = draw.pick(&[0, 10, 20, 50]);
        Pieces { draw, percent, all: BTreeSet::new(), are_lent: false, were_filled: false }
    }
}

impl Program<'_> {
    /// The pieces of a buffer that is about to be posted or to take a claimed message, if it is
    /// to have some.
    pub(super) fn cut(&mut self, context: u64, buf: Region) -> Option<Vec<Region>> {
        let Pieces { draw, percent, all, are_lent, .. } = &mut self.judge.pieces;
        *are_lent = self.setup.nics.is_some();
        if !draw.percent(*percent) {
            return None;
        }
        all.insert(context);
        let count = draw.between(1, PIECES_MAX);
        let mut cuts: Vec<u64> = (1..count).map(|_| draw.between(0, buf.len)).collect();
        cuts.extend([0, buf.len]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2);
        let pieces =
            pieces.map(|cut| Region { addr: buf.addr.offset(cut[0]), len: cut[1] - cut[0] });
        Some(pieces.collect())
    }

    /// Whether a receive of so many bytes may be into pieces. Where an interface matches, it is
    /// lent memory then.
    pub(super) fn may_be_cut(&self, who: usize, len: u64) -> bool {
        self.setup.nics.is_none_or(|bounds| {
            let staged = self.world.endpoint(who).stats().staged_bytes_now;
            staged + len.min(bounds.bytes_max) <= self.setup.endpoint.inject_bytes_max
        })
    }
}

impl Judge {
    /// Whether the message that a receive has met may be in memory that was lent for it: it is
    /// the receiver's, and will be in its pieces when that is told.
    pub fn may_be_lent(&self, context: u64) -> bool {
        self.pieces.are_lent && self.pieces.all.contains(&context)
    }

    /// The address that the end of a receive tells, whose buffer begins there.
    pub fn told_address(&mut self, context: u64, addr: Addr) -> Addr {
        if !self.pieces.all.contains(&context) {
            return addr;
        }
        self.pieces.were_filled = true;
        Addr(0)
    }
}
