//! Written: the bytes that a CTS asked for are there, or will not come.

use super::parts::{HeadBuf, Heading, Reader, zero};
use super::terms::Status;
use crate::error::WireError;
use crate::layout::{HEAD_BYTES, Head, KIND_WRITTEN, SLOT_BYTES};
use std::mem::size_of;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The bytes that a [`Cts`](super::Cts) without chunk claims asked for have been written,
/// or will not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The receiver's name for the transfer.
    pub op: u64,
    /// Bytes written.
    pub len: u64,
    /// How it went.
    pub status: Status,
}

/// Follows the head of a written.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct WrittenBody {
    pub op: U64,
    pub len: U64,
}

const _: () = {
    assert!(size_of::<WrittenBody>() == 16);
    assert!(HEAD_BYTES + size_of::<WrittenBody>() <= SLOT_BYTES);
};

impl Written {
    /// Bytes of the header behind the head.
    #[inline(always)]
    pub(super) fn body_bytes(&self) -> usize {
        size_of::<WrittenBody>()
    }

    #[inline(always)]
    pub(super) fn emit(&self, heading: &Heading) -> HeadBuf {
        assert!(heading.payload_len == 0, "a written has no payload");
        let mut buf = HeadBuf::new(heading.head(KIND_WRITTEN, 0, 0, 0, self.status.code()));
        buf.push::<2>(zerocopy::transmute!(WrittenBody {
            op: U64::new(self.op),
            len: U64::new(self.len),
        }));
        buf
    }

    #[inline]
    pub(super) fn parse(reader: &mut Reader<'_>, head: &Head) -> Result<Written, WireError> {
        zero(KIND_WRITTEN, head.pt_index | head.user)?;
        let body: WrittenBody = reader.take()?;
        Ok(Written {
            op: body.op.get(),
            len: body.len.get(),
            status: Status::from_code(head.kind_detail)?,
        })
    }
}
