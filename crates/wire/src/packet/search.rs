//! Search: asks a stalled sender for a message that matches.

use super::parts::{HeadBuf, Heading, Reader, zero};
use crate::error::WireError;
use crate::ids::{MatchBits, PtIndex};
use crate::layout::{HEAD_BYTES, Head, KIND_SEARCH, SLOT_BYTES};
use std::mem::size_of;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Asks a stalled sender for the oldest message that waits there for credits and
/// matches; answered by one [`Waiting`](super::Waiting).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// Portal table entry that the message is for.
    pub pt_index: PtIndex,
    /// Bits that it must have.
    pub match_bits: MatchBits,
    /// Bits of these that do not matter.
    pub ignore_bits: u64,
    /// Greatest number of a message that counts; all ones: every one.
    pub newest: u64,
}

/// Follows the head of a search.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct SearchBody {
    pub match_bits: U64,
    pub ignore_bits: U64,
    pub newest: U64,
}

const _: () = {
    assert!(size_of::<SearchBody>() == 24);
    assert!(HEAD_BYTES + size_of::<SearchBody>() <= SLOT_BYTES);
};

impl Search {
    /// Bytes of the header behind the head.
    #[inline(always)]
    pub(super) fn body_bytes(&self) -> usize {
        size_of::<SearchBody>()
    }

    #[inline(always)]
    pub(super) fn emit(&self, heading: &Heading) -> HeadBuf {
        assert!(heading.payload_len == 0, "a search has no payload");
        let mut buf = HeadBuf::new(heading.head(KIND_SEARCH, 0, self.pt_index.0, 0, 0));
        buf.push::<3>(zerocopy::transmute!(SearchBody {
            match_bits: U64::new(self.match_bits.0),
            ignore_bits: U64::new(self.ignore_bits),
            newest: U64::new(self.newest),
        }));
        buf
    }

    #[inline]
    pub(super) fn parse(reader: &mut Reader<'_>, head: &Head) -> Result<Search, WireError> {
        zero(KIND_SEARCH, head.user | head.kind_detail)?;
        let body: SearchBody = reader.take()?;
        Ok(Search {
            pt_index: PtIndex(head.pt_index),
            match_bits: MatchBits(body.match_bits.get()),
            ignore_bits: body.ignore_bits.get(),
            newest: body.newest.get(),
        })
    }
}
