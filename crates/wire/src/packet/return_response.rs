//! Return response: data credits given back.

use super::parts::{HeadBuf, Heading, Reader, zero};
use crate::error::WireError;
use crate::layout::{HEAD_BYTES, Head, KIND_RETURN_RESPONSE, SLOT_BYTES};
use std::mem::size_of;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Answers a compulsory credit return request: data credits given back (EXTOLL
/// paper, section 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReturnResponse {
    /// How many, in slots. The one that this packet takes is not among them.
    pub slots: u64,
}

/// Follows the head of a return response.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ReturnBody {
    pub slots: U64,
}

const _: () = {
    assert!(size_of::<ReturnBody>() == 8);
    assert!(HEAD_BYTES + size_of::<ReturnBody>() <= SLOT_BYTES);
};

impl ReturnResponse {
    /// Bytes of the header behind the head.
    #[inline(always)]
    pub(super) fn body_bytes(&self) -> usize {
        size_of::<ReturnBody>()
    }

    #[inline(always)]
    pub(super) fn emit(&self, heading: &Heading) -> HeadBuf {
        assert!(heading.payload_len == 0, "a return response has no payload");
        let mut buf = HeadBuf::new(heading.head(KIND_RETURN_RESPONSE, 0, 0, 0, 0));
        let slots = U64::new(self.slots);
        buf.push::<1>(zerocopy::transmute!(ReturnBody { slots }));
        buf
    }

    #[inline]
    pub(super) fn parse(reader: &mut Reader<'_>, head: &Head) -> Result<ReturnResponse, WireError> {
        zero(KIND_RETURN_RESPONSE, head.pt_index | head.user | head.kind_detail)?;
        let body: ReturnBody = reader.take()?;
        Ok(ReturnResponse { slots: body.slots.get() })
    }
}
