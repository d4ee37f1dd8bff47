//! Waiting: answers a search or a watch.

use super::parts::{HeadBuf, Heading, NumberBody, Reader, zero};
use crate::error::WireError;
use crate::ids::{MatchBits, PtIndex, RemoteKey};
use crate::layout::{FLAG_FOUND, FLAG_WATCHED, HEAD_BYTES, Head, KIND_WAITING, SLOT_BYTES};
use std::mem::size_of;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A message that waits for credits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Portal table entry that it is for.
    pub pt_index: PtIndex,
    /// Its match bits.
    pub match_bits: MatchBits,
    /// Out-of-band data.
    pub hdr_data: u64,
    /// The byte for the layer above.
    pub user: u8,
    /// Its length in bytes.
    pub total_len: u64,
    /// Names its bytes, exposed to the receiver for reading.
    pub from: RemoteKey,
}

/// Answers a [`Search`](super::Search) or a [`Watch`](super::Watch). The message stays where it is until it is
/// got or declined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Whether it answers a watch.
    pub watched: bool,
    /// The message's number, which is also the match bits of its get entry; of
    /// a search that found nothing, the newest number given to any message.
    pub number: u64,
    /// The message. A watch is answered only when there is one.
    pub found: Option<Found>,
}

/// Follows the body of a waiting that tells of a message.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FoundPart {
    pub match_bits: U64,
    pub hdr_data: U64,
    pub total_len: U64,
    pub from: U64,
}

const _: () = {
    assert!(size_of::<FoundPart>() == 32);
    assert!(HEAD_BYTES + size_of::<NumberBody>() + size_of::<FoundPart>() <= SLOT_BYTES);
};

impl Waiting {
    /// Bytes of the header behind the head.
    #[inline(always)]
    pub(super) fn body_bytes(&self) -> usize {
        let found = if self.found.is_some() { size_of::<FoundPart>() } else { 0 };
        size_of::<NumberBody>() + found
    }

    #[inline(always)]
    pub(super) fn emit(&self, heading: &Heading) -> HeadBuf {
        assert!(heading.payload_len == 0, "a waiting has no payload");
        assert!(
            self.found.is_some() || !self.watched,
            "a watch is answered when there is a message"
        );
        let mut flags = if self.watched { FLAG_WATCHED } else { 0 };
        let Some(found) = self.found else {
            return HeadBuf::numbered(heading.head(KIND_WAITING, flags, 0, 0, 0), self.number);
        };
        flags |= FLAG_FOUND;
        let head = heading.head(KIND_WAITING, flags, found.pt_index.0, found.user, 0);
        let mut buf = HeadBuf::numbered(head, self.number);
        buf.push::<4>(zerocopy::transmute!(FoundPart {
            match_bits: U64::new(found.match_bits.0),
            hdr_data: U64::new(found.hdr_data),
            total_len: U64::new(found.total_len),
            from: U64::new(found.from.bits()),
        }));
        buf
    }

    #[inline]
    pub(super) fn parse(reader: &mut Reader<'_>, head: &Head) -> Result<Waiting, WireError> {
        zero(KIND_WAITING, head.kind_detail)?;
        let watched = head.flags & FLAG_WATCHED != 0;
        let body: NumberBody = reader.take()?;
        let number = body.number.get();
        if head.flags & FLAG_FOUND == 0 {
            zero(KIND_WAITING, head.pt_index | head.user)?;
            return Ok(Waiting { watched, number, found: None });
        }
        let part: FoundPart = reader.take()?;
        let found = Found {
            pt_index: PtIndex(head.pt_index),
            match_bits: MatchBits(part.match_bits.get()),
            hdr_data: part.hdr_data.get(),
            user: head.user,
            total_len: part.total_len.get(),
            from: RemoteKey::from_bits(part.from.get()),
        };
        Ok(Waiting { watched, number, found: Some(found) })
    }
}
