//! CTS: where the data of an announced put is wanted.

use super::parts::{HeadBuf, Heading, Reader, zero};
use crate::error::WireError;
use crate::ids::{MatchBits, RemoteKey};
use crate::layout::{HEAD_BYTES, Head, KIND_CTS, SLOT_BYTES};
use std::mem::size_of;
use std::num::NonZeroU32;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Says where the data of an announced put is to be written (CTS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cts {
    /// Match bits of the sender's get entry.
    pub key: MatchBits,
    /// Names where the bytes go, exposed to the sender for writing.
    pub into: RemoteKey,
    /// How many, from the first one on.
    pub len: u64,
    /// The receiver's name for the transfer, to be said in [`Written`](super::Written).
    pub op: u64,
    /// The chunk claims in the receiver's memory by which both sides take chunks. `None`:
    /// the sender writes all of them, and answers with a [`Written`](super::Written).
    pub claims: Option<NonZeroU32>,
}

/// Follows the head of a CTS.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct CtsBody {
    pub key: U64,
    pub into: U64,
    pub len: U64,
    pub op: U64,
    pub claims: U32,
    pub reserved: U32,
}

const _: () = {
    assert!(size_of::<CtsBody>() == 40);
    assert!(HEAD_BYTES + size_of::<CtsBody>() <= SLOT_BYTES);
};

impl Cts {
    /// Bytes of the header behind the head.
    #[inline(always)]
    pub(super) fn body_bytes(&self) -> usize {
        size_of::<CtsBody>()
    }

    #[inline(always)]
    pub(super) fn emit(&self, heading: &Heading) -> HeadBuf {
        assert!(heading.payload_len == 0, "a CTS has no payload");
        let mut buf = HeadBuf::new(heading.head(KIND_CTS, 0, 0, 0, 0));
        buf.push::<5>(zerocopy::transmute!(CtsBody {
            key: U64::new(self.key.0),
            into: U64::new(self.into.bits()),
            len: U64::new(self.len),
            op: U64::new(self.op),
            claims: U32::new(self.claims.map_or(0, NonZeroU32::get)),
            reserved: U32::ZERO,
        }));
        buf
    }

    #[inline]
    pub(super) fn parse(reader: &mut Reader<'_>, head: &Head) -> Result<Cts, WireError> {
        zero(KIND_CTS, head.pt_index | head.user | head.kind_detail)?;
        let body: CtsBody = reader.take()?;
        if body.reserved.get() != 0 {
            return Err(WireError::Reserved(KIND_CTS));
        }
        Ok(Cts {
            key: MatchBits(body.key.get()),
            into: RemoteKey::from_bits(body.into.get()),
            len: body.len.get(),
            op: body.op.get(),
            claims: NonZeroU32::new(body.claims.get()),
        })
    }
}
