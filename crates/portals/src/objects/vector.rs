//! Memory of the client as descriptors and entries name it: one region, or an
//! I/O vector read as if it were one (Portals 4, section 3.10).

use crate::table::{Handle, Table};
use sluice_wire::{Addr, Region};

/// The pieces of an I/O vector, in order.
#[derive(Clone, Debug)]
pub struct Vector {
    pieces: Box<[Region]>,
    /// Where each piece ends in the whole, so that one is found by its place.
    ends: Box<[u64]>,
}

impl Vector {
    /// A vector of these pieces. `None` if their lengths overflow.
    #[must_use]
    pub fn new(pieces: Vec<Region>) -> Option<Vector> {
        let mut ends = Vec::with_capacity(pieces.len());
        let mut end = 0_u64;
        for piece in &pieces {
            end = end.checked_add(piece.len)?;
            ends.push(end);
        }
        Some(Vector { pieces: pieces.into(), ends: ends.into() })
    }

    /// Bytes of all pieces.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// How many pieces there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The rest of the piece that has the byte at `offset`; empty beyond the end.
    #[must_use]
    pub fn piece_at(&self, offset: u64) -> Region {
        let at = self.ends.partition_point(|&end| end <= offset);
        let Some(piece) = self.pieces.get(at) else { return Region::EMPTY };
        let left = self.ends[at] - offset;
        Region { addr: piece.addr.offset(piece.len - left), len: left }
    }
}

/// A part of a descriptor's or an entry's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Without a vector: where it begins.
    addr: Addr,
    /// With a vector: where it begins in that.
    offset: u64,
    pub len: u64,
    vector: Option<Handle<Vector>>,
}

impl Span {
    pub const EMPTY: Span = Span { addr: Addr(0), offset: 0, len: 0, vector: None };

    /// `len` bytes from `offset` of what `region` and `vector` name.
    #[inline]
    pub fn new(region: Region, vector: Option<Handle<Vector>>, offset: u64, len: u64) -> Span {
        Span { addr: region.addr.offset(offset), offset, len, vector }
    }

    /// The whole of a region.
    pub fn whole(region: Region) -> Span {
        Span::new(region, None, 0, region.len)
    }

    /// The region, if it is one.
    #[inline]
    pub fn flat(self) -> Option<Region> {
        match self.vector {
            None => Some(Region { addr: self.addr, len: self.len }),
            Some(_) => None,
        }
    }

    /// Its first contiguous piece, if it is not empty and its vector is among these.
    #[inline]
    pub fn first_piece(self, vectors: &Table<Vector>) -> Region {
        match self.vector {
            None => Region { addr: self.addr, len: self.len },
            Some(vector) => {
                let piece = vectors.get(vector).map(|vector| vector.piece_at(self.offset));
                piece.unwrap_or(Region::EMPTY).truncated(self.len)
            }
        }
    }

    /// Where it begins, for events.
    #[inline]
    pub fn start(self, vectors: &Table<Vector>) -> Addr {
        match self.vector {
            None => self.addr,
            Some(_) if self.len == 0 => Addr(0),
            Some(_) => self.first_piece(vectors).addr,
        }
    }

    /// `len` bytes of it from `offset` on, both inside of it.
    pub fn part(self, offset: u64, len: u64) -> Span {
        debug_assert!(offset.checked_add(len).is_some_and(|end| end <= self.len));
        Span { addr: self.addr.offset(offset), offset: self.offset + offset, len, ..self }
    }
}
