//! RTR: announces a receive to its source.

use super::parts::{HeadBuf, Heading, Reader, zero};
use crate::error::WireError;
use crate::ids::{MatchBits, PacketSeq, PtIndex, RemoteKey};
use crate::layout::{HEAD_BYTES, Head, KIND_RTR, SLOT_BYTES};
use std::mem::size_of;
use std::num::NonZeroU32;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Announces a receive to the only process that can fill it (RTR).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtr {
    /// Portal table entry in which it waits.
    pub pt_index: PtIndex,
    /// Bits that it accepts.
    pub match_bits: MatchBits,
    /// Bits of these that do not matter.
    pub ignore_bits: u64,
    /// Names its buffer, exposed to the source for writing.
    pub into: RemoteKey,
    /// Length of the buffer in bytes.
    pub len: u64,
    /// The first packet of this pair that was not handled when the receive was
    /// posted: none before it matches the receive.
    pub seen: PacketSeq,
    /// The chunk claims in the receiver's memory that decide who uses the receive.
    pub claims: NonZeroU32,
}

/// Follows the head of an RTR.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RtrBody {
    pub match_bits: U64,
    pub ignore_bits: U64,
    pub into: U64,
    pub len: U64,
    pub seen: U32,
    pub claims: U32,
}

const _: () = {
    assert!(size_of::<RtrBody>() == 40);
    assert!(HEAD_BYTES + size_of::<RtrBody>() <= SLOT_BYTES);
};

impl Rtr {
    /// Bytes of the header behind the head.
    #[inline(always)]
    pub(super) fn body_bytes(&self) -> usize {
        size_of::<RtrBody>()
    }

    #[inline(always)]
    pub(super) fn emit(&self, heading: &Heading) -> HeadBuf {
        assert!(heading.payload_len == 0, "an RTR has no payload");
        let mut buf = HeadBuf::new(heading.head(KIND_RTR, 0, self.pt_index.0, 0, 0));
        buf.push::<5>(zerocopy::transmute!(RtrBody {
            match_bits: U64::new(self.match_bits.0),
            ignore_bits: U64::new(self.ignore_bits),
            into: U64::new(self.into.bits()),
            len: U64::new(self.len),
            seen: U32::new(self.seen.0),
            claims: U32::new(self.claims.get()),
        }));
        buf
    }

    #[inline]
    pub(super) fn parse(reader: &mut Reader<'_>, head: &Head) -> Result<Rtr, WireError> {
        zero(KIND_RTR, head.user | head.kind_detail)?;
        let body: RtrBody = reader.take()?;
        Ok(Rtr {
            pt_index: PtIndex(head.pt_index),
            match_bits: MatchBits(body.match_bits.get()),
            ignore_bits: body.ignore_bits.get(),
            into: RemoteKey::from_bits(body.into.get()),
            len: body.len.get(),
            seen: PacketSeq(body.seen.get()),
            claims: NonZeroU32::new(body.claims.get()).ok_or(WireError::NoClaims)?,
        })
    }
}
