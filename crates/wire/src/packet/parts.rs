//! What the headers of packets are made of: the head, the buffer that they are written
//! to, and the reader that they are read with.

use super::terms::Credits;
use crate::error::WireError;
use crate::ids::PacketSeq;
use crate::layout::{HEAD_BYTES, Head, SLOT_BYTES, VERSION};
use std::mem::size_of;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Eight-byte words of a slot.
pub const SLOT_WORDS: usize = SLOT_BYTES / size_of::<u64>();

/// The header of a packet, ready to be written; its payload goes right behind.
///
/// It is kept in words, as they lie in memory: every part of a header is a
/// whole number of them, and what is built and copied in one width never waits
/// for the processor's store buffer.
#[derive(Clone, Copy, Debug)]
pub struct HeadBuf {
    words: [u64; SLOT_WORDS],
    len_words: u8,
}

impl HeadBuf {
    /// The header's bytes. The rail's prefix in front is zero.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.slot()[..self.len()]
    }

    /// The whole slot: header, then zeroes up to 64 bytes.
    #[must_use]
    #[inline]
    pub fn slot(&self) -> &[u8; SLOT_BYTES] {
        zerocopy::transmute_ref!(&self.words)
    }

    /// The whole slot in words, as they lie in memory.
    #[must_use]
    #[inline]
    pub fn words(&self) -> &[u64; SLOT_WORDS] {
        &self.words
    }

    /// Length of the header in bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.len_words) * size_of::<u64>()
    }

    /// Never: a header has at least a head.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    #[inline(always)]
    pub(super) fn new(head: Head) -> HeadBuf {
        let head: [u64; size_of::<Head>() / 8] = zerocopy::transmute!(head);
        let mut buf = HeadBuf { words: [0; SLOT_WORDS], len_words: 0 };
        buf.push(head);
        buf
    }

    /// A header of these words, as they lie in memory.
    #[inline(always)]
    pub(super) fn of_words<const N: usize>(header: [u64; N]) -> HeadBuf {
        let mut words = [0; SLOT_WORDS];
        words[..N].copy_from_slice(&header);
        HeadBuf { words, len_words: N as u8 }
    }

    /// A header whose body is a number.
    pub(super) fn numbered(head: Head, number: u64) -> HeadBuf {
        let mut buf = HeadBuf::new(head);
        buf.push::<1>(zerocopy::transmute!(NumberBody { number: U64::new(number) }));
        buf
    }

    #[inline(always)]
    pub(super) fn push<const N: usize>(&mut self, part: [u64; N]) {
        let at = usize::from(self.len_words);
        self.words[at..at + N].copy_from_slice(&part);
        self.len_words += N as u8;
    }
}

/// What the heads of all kinds of packet say, besides what their kind says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heading {
    pub seq: PacketSeq,
    pub credits: Credits,
    pub payload_len: u32,
}

impl Heading {
    #[inline(always)]
    pub fn head(&self, kind: u8, flags: u8, pt_index: u8, user: u8, detail: u8) -> Head {
        Head {
            stamp: U32::ZERO,
            writer: U16::ZERO,
            version: VERSION,
            kind,
            seq: U32::new(self.seq.0),
            credits: U16::new(self.credits.data),
            control_credits: self.credits.control,
            flags,
            payload_len: U32::new(self.payload_len),
            pt_index,
            user,
            kind_detail: detail,
            datatype: 0,
        }
    }
}

/// Follows the head of a watch, a waiting, a decline.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct NumberBody {
    pub number: U64,
}

const _: () = assert!(size_of::<NumberBody>() == 8);
const _: () = assert!(HEAD_BYTES + size_of::<NumberBody>() <= SLOT_BYTES);

#[inline]
pub(super) fn zero(kind: u8, fields: u8) -> Result<(), WireError> {
    if fields == 0 { Ok(()) } else { Err(WireError::Reserved(kind)) }
}

/// Reads the parts of a header one behind the other.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    pub at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    #[inline]
    pub fn take<T: FromBytes + Immutable + KnownLayout + Unaligned + Copy>(
        &mut self,
    ) -> Result<T, WireError> {
        let need = self.at + size_of::<T>();
        let truncated = WireError::Truncated { need, have: self.bytes.len() };
        let part = self.bytes.get(self.at..need).ok_or(truncated)?;
        let value = T::read_from_bytes(part).map_err(|_| truncated)?;
        self.at = need;
        Ok(value)
    }
}
