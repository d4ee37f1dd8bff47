//! Get-done (FIN): no more is wanted of a get entry.

use super::parts::{HeadBuf, Heading, Reader, zero};
use super::terms::Status;
use crate::error::WireError;
use crate::ids::{MatchBits, PtIndex};
use crate::layout::{HEAD_BYTES, Head, KIND_GET_DONE, SLOT_BYTES};
use std::mem::size_of;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The initiator has fetched all it wants from a get entry (FIN).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetDone {
    /// Portal table entry of the get entry.
    pub pt_index: PtIndex,
    /// Match bits of the get entry.
    pub match_bits: MatchBits,
    /// Bytes fetched in all.
    pub length: u64,
    /// How it went.
    pub status: Status,
}

/// Follows the head of a get-done.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct GetDoneBody {
    pub match_bits: U64,
    pub length: U64,
}

const _: () = {
    assert!(size_of::<GetDoneBody>() == 16);
    assert!(HEAD_BYTES + size_of::<GetDoneBody>() <= SLOT_BYTES);
};

impl GetDone {
    /// Bytes of the header behind the head.
    #[inline(always)]
    pub(super) fn body_bytes(&self) -> usize {
        size_of::<GetDoneBody>()
    }

    #[inline(always)]
    pub(super) fn emit(&self, heading: &Heading) -> HeadBuf {
        assert!(heading.payload_len == 0, "a get-done has no payload");
        let mut buf =
            HeadBuf::new(heading.head(KIND_GET_DONE, 0, self.pt_index.0, 0, self.status.code()));
        buf.push::<2>(zerocopy::transmute!(GetDoneBody {
            match_bits: U64::new(self.match_bits.0),
            length: U64::new(self.length),
        }));
        buf
    }

    #[inline]
    pub(super) fn parse(reader: &mut Reader<'_>, head: &Head) -> Result<GetDone, WireError> {
        zero(KIND_GET_DONE, head.user)?;
        let body: GetDoneBody = reader.take()?;
        Ok(GetDone {
            pt_index: PtIndex(head.pt_index),
            match_bits: MatchBits(body.match_bits.get()),
            length: body.length.get(),
            status: Status::from_code(head.kind_detail)?,
        })
    }
}
