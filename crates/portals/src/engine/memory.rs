//! Memory of the client as descriptors and entries name it: one region, or an
//! I/O vector read as if it were one (Portals 4, section 3.10).

use crate::engine::ni::Ni;
use crate::table::Handle;
use sluice_link::Port;
use sluice_wire::{Addr, Region};

/// The pieces of an I/O vector, in order.
#[derive(Debug)]
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

    /// The rest of the piece that has the byte at `offset`.
    fn piece_at(&self, offset: u64) -> Region {
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

    /// The region, if it is one.
    #[inline]
    pub fn flat(self) -> Option<Region> {
        match self.vector {
            None => Some(Region { addr: self.addr, len: self.len }),
            Some(_) => None,
        }
    }

    /// `len` bytes of it from `offset` on, both inside of it.
    pub fn part(self, offset: u64, len: u64) -> Span {
        debug_assert!(offset.checked_add(len).is_some_and(|end| end <= self.len));
        Span { addr: self.addr.offset(offset), offset: self.offset + offset, len, ..self }
    }
}

impl Ni {
    /// Keeps an I/O vector for descriptors and entries to name.
    ///
    /// # Errors
    /// [`crate::PtlError::NoSpace`].
    pub fn vector_bind(&mut self, vector: Vector) -> Result<Handle<Vector>, crate::PtlError> {
        self.vectors.insert(vector).map_err(|_| crate::PtlError::NoSpace("I/O vectors"))
    }

    /// Forgets it. False if it is stale.
    pub fn vector_release(&mut self, vector: Handle<Vector>) -> bool {
        self.vectors.discard(vector)
    }

    /// The first contiguous piece of a span that is not empty.
    pub(crate) fn first_piece(&self, span: Span) -> Region {
        match span.vector {
            None => Region { addr: span.addr, len: span.len },
            Some(vector) => {
                let piece = self.vectors.get(vector).map(|vector| vector.piece_at(span.offset));
                piece.unwrap_or(Region::EMPTY).truncated(span.len)
            }
        }
    }

    /// Where a span begins, for events.
    pub(crate) fn start_of(&self, span: Span) -> Addr {
        match span.vector {
            None => span.addr,
            Some(_) if span.len == 0 => Addr(0),
            Some(_) => self.first_piece(span).addr,
        }
    }

    /// The contiguous pieces of a span, in order. Ends early only if the
    /// vector is gone.
    pub(crate) fn pieces(&self, span: Span) -> impl Iterator<Item = Region> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            if at == span.len {
                return None;
            }
            let piece = self.first_piece(span.part(at, span.len - at));
            at += piece.len;
            (piece.len > 0).then_some(piece)
        })
    }

    pub(crate) fn is_readable<P: Port>(&self, port: &P, span: Span) -> bool {
        self.pieces(span).all(|piece| port.readable(piece))
    }

    pub(crate) fn is_writable<P: Port>(&self, port: &P, span: Span) -> bool {
        self.pieces(span).all(|piece| port.writable(piece))
    }

    /// Copies the payload of the packet being handled, from `offset` in it, to
    /// a writable span.
    pub(crate) fn scatter<P: Port>(&self, port: &mut P, mut offset: u32, to: Span) {
        for piece in self.pieces(to) {
            port.copy_payload(offset, piece.addr, piece.len as u32);
            offset += piece.len as u32;
        }
    }

    /// Copies a readable span to memory that the port lends.
    pub(crate) fn gather<P: Port>(&self, port: &mut P, from: Span) -> Region {
        let staged = Region { addr: port.lend(from.len as u32), len: from.len };
        let mut at = staged.addr;
        for piece in self.pieces(from) {
            port.copy(piece.addr, at, piece.len);
            at = at.offset(piece.len);
        }
        staged
    }

    /// Copies the bytes of a readable span into `into`, from its `skip`th.
    pub(crate) fn load_span<P: Port>(&self, port: &P, from: Span, into: &mut [u8]) {
        let mut at = 0;
        for piece in self.pieces(from) {
            let len = piece.len as usize;
            port.load(piece.addr, &mut into[at..at + len]);
            at += len;
        }
    }

    /// Copies bytes to a writable span of the same length.
    pub(crate) fn store_span<P: Port>(&self, port: &mut P, to: Span, bytes: &[u8]) {
        let mut at = 0;
        for piece in self.pieces(to) {
            let len = piece.len as usize;
            port.store(piece.addr, &bytes[at..at + len]);
            at += len;
        }
    }
}
