//! Acknowledgement: what became of a put or an atomic operation.

use super::parts::{HeadBuf, Heading, Reader, zero};
use super::terms::{List, Status};
use crate::error::WireError;
use crate::layout::{HEAD_BYTES, Head, KIND_ACK, SLOT_BYTES};
use std::mem::size_of;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What became of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The initiator's name for the put.
    pub op: u64,
    /// Bytes that the target took.
    pub mlength: u64,
    /// Where in the target's entry the operation was done, in bytes.
    pub offset: u64,
    /// The list that this entry was in.
    pub list: List,
    /// How it went.
    pub status: Status,
}

/// Follows the head of an acknowledgement.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct AckBody {
    pub op: U64,
    pub mlength: U64,
    pub offset: U64,
}

const _: () = {
    assert!(size_of::<AckBody>() == 24);
    assert!(HEAD_BYTES + size_of::<AckBody>() <= SLOT_BYTES);
};

impl Ack {
    /// Bytes of the header behind the head.
    #[inline(always)]
    pub(super) fn body_bytes(&self) -> usize {
        size_of::<AckBody>()
    }

    #[inline(always)]
    pub(super) fn emit(&self, heading: &Heading) -> HeadBuf {
        assert!(heading.payload_len == 0, "an acknowledgement has no payload");
        let mut buf =
            HeadBuf::new(heading.head(KIND_ACK, self.list.flag(), 0, 0, self.status.code()));
        buf.push::<3>(zerocopy::transmute!(AckBody {
            op: U64::new(self.op),
            mlength: U64::new(self.mlength),
            offset: U64::new(self.offset),
        }));
        buf
    }

    #[inline]
    pub(super) fn parse(reader: &mut Reader<'_>, head: &Head) -> Result<Ack, WireError> {
        zero(KIND_ACK, head.pt_index | head.user)?;
        let body: AckBody = reader.take()?;
        Ok(Ack {
            op: body.op.get(),
            mlength: body.mlength.get(),
            offset: body.offset.get(),
            list: List::from_flags(head.flags),
            status: Status::from_code(head.kind_detail)?,
        })
    }
}
