//! Get: asks for bytes of an entry.

use super::parts::{HeadBuf, Heading, Reader, zero};
use crate::error::WireError;
use crate::ids::{MatchBits, PtIndex, RemoteKey};
use crate::layout::{FLAG_KEY, HEAD_BYTES, Head, KIND_GET, SLOT_BYTES};
use std::mem::size_of;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Asks for bytes of an entry; answered by one [`Reply`](super::Reply) or one [`Offer`](super::Offer).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get {
    /// Portal table entry aimed at.
    pub pt_index: PtIndex,
    /// Bits that select the match list entry.
    pub match_bits: MatchBits,
    /// The initiator's name for the get.
    pub op: u64,
    /// Offset in the target entry in bytes.
    pub remote_offset: u64,
    /// Bytes wanted.
    pub length: u64,
    /// Names where they are wanted, exposed to the target for writing.
    /// [`RemoteKey::NONE`]: a reply is to carry them. [`RemoteKey::OFFER`]: they are to
    /// be offered.
    pub into: RemoteKey,
}

/// Follows the head of a get.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct GetBody {
    pub match_bits: U64,
    pub op: U64,
    pub remote_offset: U64,
    pub length: U64,
}

/// Follows the body of a get that says where its bytes are wanted.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct GetInto {
    pub into: U64,
}

const _: () = {
    assert!(size_of::<GetBody>() == 32);
    assert!(size_of::<GetInto>() == 8);
    assert!(HEAD_BYTES + size_of::<GetBody>() + size_of::<GetInto>() <= SLOT_BYTES);
};

impl Get {
    /// Bytes of the header behind the head.
    #[inline(always)]
    pub(super) fn body_bytes(&self) -> usize {
        let into = if self.into == RemoteKey::NONE { 0 } else { size_of::<GetInto>() };
        size_of::<GetBody>() + into
    }

    #[inline(always)]
    pub(super) fn emit(&self, heading: &Heading) -> HeadBuf {
        assert!(heading.payload_len == 0, "a get has no payload");
        let flags = if self.into == RemoteKey::NONE { 0 } else { FLAG_KEY };
        let mut buf = HeadBuf::new(heading.head(KIND_GET, flags, self.pt_index.0, 0, 0));
        buf.push::<4>(zerocopy::transmute!(GetBody {
            match_bits: U64::new(self.match_bits.0),
            op: U64::new(self.op),
            remote_offset: U64::new(self.remote_offset),
            length: U64::new(self.length),
        }));
        if self.into != RemoteKey::NONE {
            buf.push::<1>(zerocopy::transmute!(GetInto { into: U64::new(self.into.bits()) }));
        }
        buf
    }

    #[inline]
    pub(super) fn parse(reader: &mut Reader<'_>, head: &Head) -> Result<Get, WireError> {
        zero(KIND_GET, head.user | head.kind_detail)?;
        let body: GetBody = reader.take()?;
        let into = if head.flags == 0 {
            RemoteKey::NONE
        } else {
            let part: GetInto = reader.take()?;
            // Zero is written by leaving the part out.
            if part.into.get() == 0 {
                return Err(WireError::Flags { kind: KIND_GET, flags: head.flags });
            }
            RemoteKey::from_bits(part.into.get())
        };
        Ok(Get {
            pt_index: PtIndex(head.pt_index),
            match_bits: MatchBits(body.match_bits.get()),
            op: body.op.get(),
            remote_offset: body.remote_offset.get(),
            length: body.length.get(),
            into,
        })
    }
}
