//! Pull: asks for a piece of data that the other side has named.

use super::parts::{HeadBuf, Heading, Reader, zero};
use crate::error::WireError;
use crate::layout::{HEAD_BYTES, Head, KIND_PULL, SLOT_BYTES};
use std::mem::size_of;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Asks for a piece of data that the other side has named; answered by one
/// [`Reply`](super::Reply).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pull {
    /// The name: of an announced put ([`Put::ack`](super::Put::ack)) or an offer
    /// ([`Offer::source`](super::Offer::source)).
    pub source: u64,
    /// The asker's name for this piece.
    pub op: u64,
    /// Where the piece begins, in bytes.
    pub offset: u64,
    /// Bytes wanted.
    pub length: u64,
}

/// Follows the head of a pull.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PullBody {
    pub source: U64,
    pub op: U64,
    pub offset: U64,
    pub length: U64,
}

const _: () = {
    assert!(size_of::<PullBody>() == 32);
    assert!(HEAD_BYTES + size_of::<PullBody>() <= SLOT_BYTES);
};

impl Pull {
    /// Bytes of the header behind the head.
    #[inline(always)]
    pub(super) fn body_bytes(&self) -> usize {
        size_of::<PullBody>()
    }

    #[inline(always)]
    pub(super) fn emit(&self, heading: &Heading) -> HeadBuf {
        assert!(heading.payload_len == 0, "a pull has no payload");
        let mut buf = HeadBuf::new(heading.head(KIND_PULL, 0, 0, 0, 0));
        buf.push::<4>(zerocopy::transmute!(PullBody {
            source: U64::new(self.source),
            op: U64::new(self.op),
            offset: U64::new(self.offset),
            length: U64::new(self.length),
        }));
        buf
    }

    #[inline]
    pub(super) fn parse(reader: &mut Reader<'_>, head: &Head) -> Result<Pull, WireError> {
        zero(KIND_PULL, head.pt_index | head.user | head.kind_detail)?;
        let body: PullBody = reader.take()?;
        Ok(Pull {
            source: body.source.get(),
            op: body.op.get(),
            offset: body.offset.get(),
            length: body.length.get(),
        })
    }
}
