//! A plain put: one without offset, acknowledgement, announcement or bulk data, as nearly
//! every message is. Its first slot is the same five words each time, so it is recognised
//! by one comparison and written without looking at options that it has not. The bytes are
//! those of [`Packet::emit`]; a test compares them.

use super::parts::{HeadBuf, SLOT_WORDS};
use super::put::{PLAIN_BODY_BYTES, Put};
use super::terms::Credits;
use super::{Packet, Parsed};
use crate::ids::{MatchBits, PacketSeq, PtIndex};
use crate::layout::{HEAD_BYTES, KIND_PUT, VERSION};

/// What a plain put says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain {
    /// Portal table entry aimed at.
    pub pt_index: PtIndex,
    /// Bits that select the match list entry.
    pub match_bits: MatchBits,
    /// Out-of-band data, delivered with the event.
    pub hdr_data: u64,
    /// A byte for the layer above, delivered with the event.
    pub user: u8,
}

/// A plain put as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainParsed {
    /// Its position in the stream of its pair.
    pub seq: PacketSeq,
    /// The credits that it brings.
    pub credits: Credits,
    /// What it says.
    pub plain: Plain,
    /// Length of its payload in bytes.
    pub payload_len: u32,
}

/// Words of the header.
const WORDS: usize = (HEAD_BYTES + PLAIN_BODY_BYTES) / size_of::<u64>();
/// The first word of every plain put, but for the rail's prefix.
const FIRST: u64 = (KIND_PUT as u64) << 56 | (VERSION as u64) << 48;
const FIRST_MASK: u64 = 0xffff << 48;
/// Flags, in the second word, and acknowledgement kind and datatype, in the third.
const FLAGS_MASK: u64 = 0xff << 56;
const DETAIL_MASK: u64 = 0xffff << 48;

const _: () = assert!(WORDS == 5);

impl Plain {
    /// Length of the header in bytes.
    pub const HEADER_BYTES: u32 = (HEAD_BYTES + PLAIN_BODY_BYTES) as u32;

    /// The header of the packet.
    #[must_use]
    #[inline(always)]
    pub fn emit(&self, seq: PacketSeq, credits: Credits, payload_len: u32) -> HeadBuf {
        let second =
            u64::from(seq.0) | u64::from(credits.data) << 32 | u64::from(credits.control) << 48;
        let third =
            u64::from(payload_len) | u64::from(self.pt_index.0) << 32 | u64::from(self.user) << 40;
        let words = [FIRST, second, third, self.match_bits.0, self.hdr_data];
        HeadBuf::of_words(words.map(u64::to_le))
    }

    /// The same as a put like any other.
    #[must_use]
    #[inline]
    pub fn put(&self) -> Put {
        let Plain { pt_index, match_bits, hdr_data, user } = *self;
        Put {
            pt_index,
            match_bits,
            hdr_data,
            user,
            remote_offset: 0,
            ack: None,
            rts: None,
            bulk: None,
            by_control: false,
        }
    }
}

impl PlainParsed {
    /// Reads the first slot of a packet. `None` if it is not a plain put, or no packet at all:
    /// that is for [`Packet::parse`].
    #[must_use]
    #[inline(always)]
    pub fn read(slot: &[u64; SLOT_WORDS]) -> Option<PlainParsed> {
        let [first, second, third, match_bits, hdr_data, ..] = slot.map(u64::from_le);
        let options = (first ^ FIRST) & FIRST_MASK | second & FLAGS_MASK | third & DETAIL_MASK;
        if options != 0 {
            return None;
        }
        Some(PlainParsed {
            seq: PacketSeq(second as u32),
            credits: Credits { data: (second >> 32) as u16, control: (second >> 48) as u8 },
            plain: Plain {
                pt_index: PtIndex((third >> 32) as u8),
                match_bits: MatchBits(match_bits),
                hdr_data,
                user: (third >> 40) as u8,
            },
            payload_len: third as u32,
        })
    }

    /// The same packet, if it is a plain put.
    #[must_use]
    #[inline]
    pub fn of(parsed: &Parsed) -> Option<PlainParsed> {
        let Packet::Put(put) = &parsed.packet else { return None };
        let Put { pt_index, match_bits, hdr_data, user, .. } = *put;
        let plain = Plain { pt_index, match_bits, hdr_data, user };
        let Parsed { seq, credits, payload_len, .. } = *parsed;
        (plain.put() == *put).then_some(PlainParsed { seq, credits, plain, payload_len })
    }

    /// As a packet like any other.
    #[must_use]
    #[inline]
    pub fn parsed(&self) -> Parsed {
        Parsed {
            seq: self.seq,
            credits: self.credits,
            packet: Packet::Put(self.plain.put()),
            payload_offset: Plain::HEADER_BYTES,
            payload_len: self.payload_len,
        }
    }

    /// How many slots it takes.
    #[must_use]
    #[inline(always)]
    pub fn slots(&self) -> u32 {
        crate::slots_for(Plain::HEADER_BYTES.into(), self.payload_len.into())
    }
}
