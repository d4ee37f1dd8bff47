//! Atomic: combines values with those of an entry.

use super::parts::{HeadBuf, Heading, Reader};
use super::terms::AckKind;
use crate::atomic::{AtomicOp, Datatype};
use crate::error::WireError;
use crate::ids::{MatchBits, PtIndex};
use crate::layout::{DETAIL_FETCH, FLAG_CONTROL, HEAD_BYTES, Head, KIND_ATOMIC, SLOT_BYTES};
use std::mem::size_of;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What the initiator of an atomic operation wants back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing.
    No,
    /// An acknowledgement; and the initiator's name for it.
    Ack(AckKind, u64),
    /// The values from before, in a [`Reply`](super::Reply) to this name.
    Fetch(u64),
}

/// An atomic operation. Its payload is the operand, if the operation has one,
/// then the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atomic {
    /// Portal table entry aimed at.
    pub pt_index: PtIndex,
    /// Bits that select the match list entry.
    pub match_bits: MatchBits,
    /// Out-of-band data, delivered with the event.
    pub hdr_data: u64,
    /// Offset in the target entry in bytes.
    pub remote_offset: u64,
    /// What is done.
    pub op: AtomicOp,
    /// With what.
    pub datatype: Datatype,
    /// What is wanted back.
    pub answer: Answer,
    /// Its slots are those of the control region, until it is answered. Needs an answer.
    pub by_control: bool,
}

/// Follows the head of an atomic operation; its payload follows it.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct AtomicBody {
    pub match_bits: U64,
    pub hdr_data: U64,
    pub remote_offset: U64,
    pub op: U64,
}

const _: () = {
    assert!(size_of::<AtomicBody>() == 32);
    assert!(HEAD_BYTES + size_of::<AtomicBody>() <= SLOT_BYTES);
};

impl Atomic {
    /// Bytes of the header behind the head.
    #[inline(always)]
    pub(super) fn body_bytes(&self) -> usize {
        size_of::<AtomicBody>()
    }

    #[inline(always)]
    pub(super) fn emit(&self, heading: &Heading) -> HeadBuf {
        let (detail, op) = match self.answer {
            Answer::No => (0, 0),
            Answer::Ack(kind, op) => (kind.code(), op),
            Answer::Fetch(op) => (DETAIL_FETCH, op),
        };
        assert!(
            !matches!(self.answer, Answer::Ack(AckKind::Silent | AckKind::Matched, _)),
            "an atomic operation carries its data, and is never kept"
        );
        assert!(
            !self.by_control || self.answer != Answer::No,
            "an atomic operation in the control region is answered"
        );
        let flags = if self.by_control { FLAG_CONTROL } else { 0 };
        let (pt, what) = (self.pt_index.0, self.op.code());
        let mut head = heading.head(KIND_ATOMIC, flags, pt, what, detail);
        head.datatype = self.datatype.code();
        let mut buf = HeadBuf::new(head);
        buf.push::<4>(zerocopy::transmute!(AtomicBody {
            match_bits: U64::new(self.match_bits.0),
            hdr_data: U64::new(self.hdr_data),
            remote_offset: U64::new(self.remote_offset),
            op: U64::new(op),
        }));
        buf
    }

    #[inline]
    pub(super) fn parse(reader: &mut Reader<'_>, head: &Head) -> Result<Atomic, WireError> {
        let op = AtomicOp::from_code(head.user)?;
        let datatype = Datatype::from_code(head.datatype)?;
        let body: AtomicBody = reader.take()?;
        let name = body.op.get();
        let answer = match head.kind_detail {
            0 if name == 0 => Answer::No,
            0 => return Err(WireError::Reserved(KIND_ATOMIC)),
            DETAIL_FETCH => Answer::Fetch(name),
            code => match AckKind::from_code(code)? {
                Some(AckKind::Silent) | None => return Err(WireError::AckKind(code)),
                Some(kind) => Answer::Ack(kind, name),
            },
        };
        let by_control = head.flags & FLAG_CONTROL != 0;
        if by_control && answer == Answer::No {
            return Err(WireError::Flags { kind: KIND_ATOMIC, flags: head.flags });
        }
        Ok(Atomic {
            pt_index: PtIndex(head.pt_index),
            match_bits: MatchBits(body.match_bits.get()),
            hdr_data: body.hdr_data.get(),
            remote_offset: body.remote_offset.get(),
            op,
            datatype,
            answer,
            by_control,
        })
    }
}
