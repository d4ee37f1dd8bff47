//! Offer: answers a get without carrying its bytes.

use super::parts::{HeadBuf, Heading, Reader, zero};
use super::terms::List;
use crate::error::WireError;
use crate::layout::{HEAD_BYTES, Head, KIND_OFFER, SLOT_BYTES};
use std::mem::size_of;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Answers a get without carrying its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The initiator's name for the get.
    pub op: u64,
    /// Bytes that the target's entry gave.
    pub mlength: u64,
    /// Where in the target's entry the operation was done, in bytes.
    pub offset: u64,
    /// The list that this entry was in.
    pub list: List,
    /// The target's name for them, to be pulled by; zero if they have been
    /// written where the get wanted them.
    pub source: u64,
}

/// Follows the head of an offer.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct OfferBody {
    pub op: U64,
    pub mlength: U64,
    pub offset: U64,
    pub source: U64,
}

const _: () = {
    assert!(size_of::<OfferBody>() == 32);
    assert!(HEAD_BYTES + size_of::<OfferBody>() <= SLOT_BYTES);
};

impl Offer {
    /// Bytes of the header behind the head.
    #[inline(always)]
    pub(super) fn body_bytes(&self) -> usize {
        size_of::<OfferBody>()
    }

    #[inline(always)]
    pub(super) fn emit(&self, heading: &Heading) -> HeadBuf {
        assert!(heading.payload_len == 0, "an offer has no payload");
        let mut buf = HeadBuf::new(heading.head(KIND_OFFER, self.list.flag(), 0, 0, 0));
        buf.push::<4>(zerocopy::transmute!(OfferBody {
            op: U64::new(self.op),
            mlength: U64::new(self.mlength),
            offset: U64::new(self.offset),
            source: U64::new(self.source),
        }));
        buf
    }

    #[inline]
    pub(super) fn parse(reader: &mut Reader<'_>, head: &Head) -> Result<Offer, WireError> {
        zero(KIND_OFFER, head.pt_index | head.user | head.kind_detail)?;
        let body: OfferBody = reader.take()?;
        Ok(Offer {
            op: body.op.get(),
            mlength: body.mlength.get(),
            offset: body.offset.get(),
            list: List::from_flags(head.flags),
            source: body.source.get(),
        })
    }
}
