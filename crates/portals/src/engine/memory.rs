//! Memory of the client as the engine uses it: looked at, copied from and to, piece by
//! piece.

use crate::engine::ni::Ni;
use crate::objects::vector::Span;
use sluice_link::Port;
use sluice_wire::{Addr, Region};

impl Ni {
    /// The first contiguous piece of a span that is not empty.
    pub(crate) fn first_piece(&self, span: Span) -> Region {
        span.first_piece(&self.vectors)
    }

    /// Where a span begins, for events.
    pub(crate) fn start_of(&self, span: Span) -> Addr {
        span.start(&self.vectors)
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
    /// a writable span. False if the payload is cut.
    pub(crate) fn scatter<P: Port>(&self, port: &mut P, mut offset: u32, to: Span) -> bool {
        self.pieces(to).all(|piece| {
            let at = offset;
            offset += piece.len as u32;
            port.copy_payload(at, piece.addr, piece.len as u32)
        })
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
