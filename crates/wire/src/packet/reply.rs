//! Reply: the bytes that were asked for.

use super::parts::{HeadBuf, Heading, Reader, zero};
use super::terms::{List, Status};
use crate::error::WireError;
use crate::layout::{HEAD_BYTES, Head, KIND_REPLY, SLOT_BYTES};
use std::mem::size_of;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The bytes that a get asked for, as payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The initiator's name for the get.
    pub op: u64,
    /// Where in the target's entry the operation was done, in bytes.
    pub offset: u64,
    /// The list that this entry was in.
    pub list: List,
    /// How it went.
    pub status: Status,
}

/// Follows the head of a reply; its payload follows it.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ReplyBody {
    pub op: U64,
    pub offset: U64,
}

/// Bytes behind its head.
pub(super) const BODY_BYTES: usize = size_of::<ReplyBody>();

const _: () = {
    assert!(size_of::<ReplyBody>() == 16);
    assert!(HEAD_BYTES + size_of::<ReplyBody>() <= SLOT_BYTES);
};

impl Reply {
    /// Bytes of the header behind the head.
    #[inline(always)]
    pub(super) fn body_bytes(&self) -> usize {
        size_of::<ReplyBody>()
    }

    #[inline(always)]
    pub(super) fn emit(&self, heading: &Heading) -> HeadBuf {
        let mut buf =
            HeadBuf::new(heading.head(KIND_REPLY, self.list.flag(), 0, 0, self.status.code()));
        buf.push::<2>(zerocopy::transmute!(ReplyBody {
            op: U64::new(self.op),
            offset: U64::new(self.offset),
        }));
        buf
    }

    #[inline]
    pub(super) fn parse(reader: &mut Reader<'_>, head: &Head) -> Result<Reply, WireError> {
        zero(KIND_REPLY, head.pt_index | head.user)?;
        let body: ReplyBody = reader.take()?;
        Ok(Reply {
            op: body.op.get(),
            offset: body.offset.get(),
            list: List::from_flags(head.flags),
            status: Status::from_code(head.kind_detail)?,
        })
    }
}
