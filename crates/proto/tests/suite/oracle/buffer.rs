//! Buffers of receives: one region, or several pieces, in memory whose every other byte stays
//! as it is.

use crate::world::World;
use crate::world::net::random::Random;
use sluice_wire::{Addr, Region};

/// Most bytes before each piece, and all that are behind a buffer, that nothing may touch.
const GUARD: u64 = 16;
const UNTOUCHED: u8 = 0xAA;
/// Most pieces of a buffer.
const PIECES_MAX: u64 = 8;

/// See the module.
#[derive(Debug)]
pub struct Buffer {
    pub who: usize,
    pub len: u64,
    /// In the order in which they are filled; some may be empty.
    pub pieces: Vec<Region>,
    /// All of its memory.
    around: Region,
    /// Whether it is told of as pieces.
    pub is_cut: bool,
}

impl Buffer {
    /// One region.
    pub fn whole(world: &World, who: usize, len: u64) -> Buffer {
        let around = world.alloc_filled(who, len + GUARD, UNTOUCHED);
        Buffer { who, len, pieces: vec![around.truncated(len)], around, is_cut: false }
    }

    /// Pieces that are drawn, and lie in memory in another order.
    pub fn cut(world: &World, who: usize, len: u64, draw: &mut Random) -> Buffer {
        let count = draw.between(1, PIECES_MAX) as usize;
        let mut cuts: Vec<u64> = (1..count).map(|_| draw.between(0, len)).collect();
        cuts.extend([0, len]);
        cuts.sort_unstable();
        let around = world.alloc_filled(who, len + GUARD * (1 + count as u64), UNTOUCHED);
        let mut at = around.addr;
        let mut pieces = vec![Region::EMPTY; count];
        let mut unplaced: Vec<usize> = (0..count).collect();
        while !unplaced.is_empty() {
            let nth = unplaced.swap_remove(draw.below(unplaced.len() as u64) as usize);
            at = at.offset(draw.below(GUARD));
            pieces[nth] = Region { addr: at, len: cuts[nth + 1] - cuts[nth] };
            at = at.offset(pieces[nth].len);
        }
        Buffer { who, len, pieces, around, is_cut: true }
    }

    /// What a receive and its end say of it.
    pub fn told(&self) -> Region {
        if self.is_cut { Region { addr: Addr(0), len: self.len } } else { self.pieces[0] }
    }

    /// Whether it holds these bytes, as far as they fit.
    pub fn has(&self, world: &World, bytes: &[u8]) -> bool {
        let mut left = bytes;
        self.pieces.iter().all(|piece| {
            let (here, rest) = left.split_at((piece.len as usize).min(left.len()));
            left = rest;
            world.view(self.who, piece.truncated(here.len() as u64))[..] == *here
        })
    }

    /// Whether nothing was written but so many bytes from its beginning.
    pub fn is_untouched_beyond(&self, world: &World, len: u64) -> bool {
        let mut left = len;
        let mut written: Vec<(u64, u64)> = Vec::new();
        for piece in &self.pieces {
            let here = piece.len.min(left);
            left -= here;
            written.push((piece.addr.0, piece.addr.0 + here));
        }
        written.sort_unstable();
        let end = self.around.addr.0 + self.around.len;
        let mut from = self.around.addr.0;
        written.into_iter().chain([(end, end)]).all(|(begin, behind)| {
            let gap = Region { addr: Addr(from), len: begin - from };
            from = behind;
            is_untouched(&world.view(self.who, gap))
        })
    }
}

/// Whether nothing was written. Slices compare faster than bytes one by one.
fn is_untouched(bytes: &[u8]) -> bool {
    const WHOLE: [u8; 4096] = [UNTOUCHED; 4096];
    bytes.chunks(WHOLE.len()).all(|chunk| chunk == &WHOLE[..chunk.len()])
}
