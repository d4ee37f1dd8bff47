//! Put: carries a message, announces one, or has its data fetched.

use super::parts::{HeadBuf, Heading, Reader};
use super::terms::AckKind;
use crate::error::WireError;
use crate::ids::{MatchBits, PtIndex, RemoteKey};
use crate::layout::{
    FLAG_BULK, FLAG_CONTROL, FLAG_OFFSET, FLAG_RTS, HEAD_BYTES, Head, KIND_PUT, SLOT_BYTES,
};
use std::mem::size_of;
use std::num::NonZeroU32;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A put that announces its data: the receiver fetches it when it wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rts {
    /// Length of the whole message in bytes.
    pub total_len: u64,
    /// Names the data, exposed to the receiver for reading.
    pub from: RemoteKey,
    /// Match bits of the sender's get entry.
    pub key: MatchBits,
    /// The chunk claims of the [`Rtr`](super::Rtr) that this message uses: its data is being
    /// written to where that wanted it.
    pub claims: Option<NonZeroU32>,
}

/// Data of a put that the target fetches as soon as the put has matched. An
/// [`Rts`] instead leaves that to the layer above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bulk {
    /// Length in bytes.
    pub len: u32,
    /// Names the data, exposed to the target for reading. [`RemoteKey::NONE`]: only
    /// [`Pull`](super::Pull) reaches it.
    pub from: RemoteKey,
}

/// A put, with its payload behind the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Put {
    /// Portal table entry aimed at.
    pub pt_index: PtIndex,
    /// Bits that select the match list entry.
    pub match_bits: MatchBits,
    /// Out-of-band data, delivered with the event.
    pub hdr_data: u64,
    /// A byte for the layer above, delivered with the event.
    pub user: u8,
    /// Offset in the target entry in bytes.
    pub remote_offset: u64,
    /// The acknowledgement asked for, and the initiator's name for it.
    pub ack: Option<(AckKind, u64)>,
    /// Present if the data is announced, not carried. Excludes an offset, an
    /// acknowledgement and a payload.
    pub rts: Option<Rts>,
    /// Present if the data is to be fetched. Needs an acknowledgement, and
    /// excludes an announcement and a payload.
    pub bulk: Option<Bulk>,
    /// Its slots are those of the control region, until it is acknowledged. Needs an
    /// acknowledgement, and excludes an announcement.
    pub by_control: bool,
}

/// Follows the head of a put.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PutBody {
    pub match_bits: U64,
    pub hdr_data: U64,
}

/// Follows the body of a put whose target offset is not zero.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PutOffset {
    pub remote_offset: U64,
}

/// Follows the body of a put that asks for an acknowledgement.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PutAck {
    pub op: U64,
}

/// Follows the body of a put that announces data instead of carrying it.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PutRts {
    pub total_len: U64,
    pub from: U64,
    pub key: U64,
}

/// Follows the body of a put whose data is to be fetched.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PutBulk {
    pub from: U64,
}

/// Bytes behind the head of a put without options.
pub(super) const PLAIN_BODY_BYTES: usize = size_of::<PutBody>();

const _: () = {
    assert!(size_of::<PutBody>() == 16);
    assert!(size_of::<PutOffset>() == 8);
    assert!(size_of::<PutAck>() == 8);
    assert!(size_of::<PutRts>() == 24);
    assert!(size_of::<PutBulk>() == 8);
    // Every header fits into the first slot, so one read of it is enough.
    assert!(HEAD_BYTES + size_of::<PutBody>() + size_of::<PutRts>() <= SLOT_BYTES);
    let put = HEAD_BYTES + size_of::<PutBody>() + size_of::<PutOffset>();
    assert!(put + size_of::<PutAck>() + size_of::<PutBulk>() <= SLOT_BYTES);
};

impl Put {
    /// Bytes of the header behind the head.
    #[inline(always)]
    pub(super) fn body_bytes(&self) -> usize {
        let mut len = size_of::<PutBody>();
        if self.remote_offset != 0 {
            len += size_of::<PutOffset>();
        }
        if self.ack.is_some() {
            len += size_of::<PutAck>();
        }
        if self.rts.is_some() {
            len += size_of::<PutRts>();
        }
        if self.bulk.is_some() {
            len += size_of::<PutBulk>();
        }
        len
    }

    #[inline(always)]
    pub(super) fn emit(&self, heading: &Heading) -> HeadBuf {
        let mut flags = 0;
        if self.remote_offset != 0 {
            flags |= FLAG_OFFSET;
        }
        if self.rts.is_some() {
            assert!(
                self.remote_offset == 0 && self.ack.is_none() && heading.payload_len == 0,
                "an announced put has no offset, acknowledgement or payload"
            );
            flags |= FLAG_RTS;
        }
        if self.by_control {
            assert!(
                self.rts.is_none() && self.ack.is_some(),
                "a put in the control region is acknowledged"
            );
            flags |= FLAG_CONTROL;
        }
        let mut payload_len = heading.payload_len;
        if let Some(Rts { claims: Some(claims), .. }) = self.rts {
            payload_len = claims.get();
        }
        if let Some(bulk) = self.bulk {
            assert!(
                self.rts.is_none() && self.ack.is_some() && payload_len == 0,
                "a put whose data is fetched has a name and no payload"
            );
            assert!(
                !matches!(self.ack, Some((AckKind::Matched, _))),
                "the data of a put is fetched once it has met an entry"
            );
            flags |= FLAG_BULK;
            payload_len = bulk.len;
        } else {
            assert!(
                !matches!(self.ack, Some((AckKind::Silent, _))),
                "only a put whose data is fetched is acknowledged silently"
            );
        }
        let detail = self.ack.map_or(0, |(kind, _)| kind.code());
        let mut head = heading.head(KIND_PUT, flags, self.pt_index.0, self.user, detail);
        head.payload_len = U32::new(payload_len);
        let mut buf = HeadBuf::new(head);
        buf.push::<2>(zerocopy::transmute!(PutBody {
            match_bits: U64::new(self.match_bits.0),
            hdr_data: U64::new(self.hdr_data),
        }));
        if self.remote_offset != 0 {
            buf.push::<1>(zerocopy::transmute!(PutOffset {
                remote_offset: U64::new(self.remote_offset)
            }));
        }
        if let Some((_, op)) = self.ack {
            buf.push::<1>(zerocopy::transmute!(PutAck { op: U64::new(op) }));
        }
        if let Some(rts) = self.rts {
            buf.push::<3>(zerocopy::transmute!(PutRts {
                total_len: U64::new(rts.total_len),
                from: U64::new(rts.from.bits()),
                key: U64::new(rts.key.0),
            }));
        }
        if let Some(bulk) = self.bulk {
            buf.push::<1>(zerocopy::transmute!(PutBulk { from: U64::new(bulk.from.bits()) }));
        }
        buf
    }

    // Nearly every packet is a put, so this is the path of nearly every packet.
    #[inline(always)]
    pub(super) fn parse(reader: &mut Reader<'_>, head: &Head) -> Result<Put, WireError> {
        let flags = head.flags;
        let bad_flags = WireError::Flags { kind: KIND_PUT, flags };
        if flags & !(FLAG_OFFSET | FLAG_RTS | FLAG_BULK | FLAG_CONTROL) != 0 {
            return Err(bad_flags);
        }
        let ack = AckKind::from_code(head.kind_detail)?;
        let body: PutBody = reader.take()?;
        let remote_offset = if flags & FLAG_OFFSET == 0 {
            0
        } else {
            let part: PutOffset = reader.take()?;
            // Zero is written by leaving the part out: one form for each meaning.
            if part.remote_offset.get() == 0 {
                return Err(bad_flags);
            }
            part.remote_offset.get()
        };
        let ack = match ack {
            None => None,
            Some(kind) => {
                let part: PutAck = reader.take()?;
                Some((kind, part.op.get()))
            }
        };
        let rts = if flags & FLAG_RTS == 0 {
            None
        } else {
            if flags & (FLAG_OFFSET | FLAG_BULK | FLAG_CONTROL) != 0 || ack.is_some() {
                return Err(bad_flags);
            }
            let part: PutRts = reader.take()?;
            Some(Rts {
                total_len: part.total_len.get(),
                from: RemoteKey::from_bits(part.from.get()),
                key: MatchBits(part.key.get()),
                claims: NonZeroU32::new(head.payload_len.get()),
            })
        };
        let by_control = flags & FLAG_CONTROL != 0;
        if by_control && ack.is_none() {
            return Err(bad_flags);
        }
        let bulk = if flags & FLAG_BULK == 0 {
            // Only who must be told when data has been fetched asks for that.
            if ack.is_some_and(|(kind, _)| kind == AckKind::Silent) {
                return Err(WireError::AckKind(head.kind_detail));
            }
            None
        } else {
            match ack {
                None => return Err(bad_flags),
                Some((AckKind::Matched, _)) => return Err(WireError::AckKind(head.kind_detail)),
                Some(_) => {}
            }
            let part: PutBulk = reader.take()?;
            let from = RemoteKey::from_bits(part.from.get());
            Some(Bulk { len: head.payload_len.get(), from })
        };
        Ok(Put {
            pt_index: PtIndex(head.pt_index),
            match_bits: MatchBits(body.match_bits.get()),
            hdr_data: body.hdr_data.get(),
            user: head.user,
            remote_offset,
            ack,
            rts,
            bulk,
            by_control,
        })
    }
}
