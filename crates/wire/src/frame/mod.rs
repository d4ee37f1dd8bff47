//! Frames: what travels on a connection between two hosts.
//!
//! A frame is a header of 24 bytes and a body. The header says how long the body is, up
//! to which number its sender has got the stream of its peer, and what the body is about.
//! A check over the header finds a stream of bytes that is not one of frames any more,
//! before anything is done with it (`docs/wire.md`, "Frames").

mod body;

pub use body::{Ask, CloseReason, Found, RemoteWrite, WriteDone};

use std::mem::size_of;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length of the header of a frame in bytes.
pub const FRAME_HEAD_BYTES: usize = size_of::<RawHead>();

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// A packet of the stream. The id is the low half of its number.
    Packet,
    /// [`RemoteWrite`], of the stream too.
    Write,
    /// [`WriteDone`], of the stream too.
    Written,
    /// [`Ask`]. The id names the chunk, for whoever asks.
    Ask,
    /// Bytes of the chunk that the id names.
    Data,
    /// The bytes that were asked for cannot be had: the key does not reach them.
    Fault,
    /// Wants an answer, or any other frame.
    Probe,
    /// Says that its sender lives, and what it acknowledges.
    Answer,
    /// Nothing more comes: [`CloseReason`] is the id.
    Close,
    /// An [`Ask`] of one who can read the memory by itself: answered by [`Found`], or as
    /// any other.
    Seek,
    /// [`Found`], of the chunk that the id names.
    Found,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// What it is.
    pub kind: FrameKind,
    /// Length of its body in bytes.
    pub len: u32,
    /// What it is about.
    pub id: u32,
    /// All packets of the peer's stream before this number have come.
    pub acknowledged: u64,
}

/// Bytes that are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The check does not fit the header.
    #[error("the check of a frame's header is wrong")]
    Check,
    /// A kind that does not exist.
    #[error("unknown frame kind {0}")]
    Kind(u8),
    /// A field that must be zero is not.
    #[error("a reserved field of a frame is not zero")]
    Reserved,
    /// A body that is not as long as its kind has it.
    #[error("the body of a frame of kind {kind:?} has {len} bytes")]
    Len {
        /// The kind.
        kind: FrameKind,
        /// The length.
        len: u32,
    },
    /// A body that says what cannot be.
    #[error("the body of a frame of kind {0:?} makes no sense")]
    Body(FrameKind),
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHead {
    check: U32,
    kind: u8,
    flags: u8,
    zero: U16,
    len: U32,
    id: U32,
    acknowledged: U64,
}

const _: () = assert!(FRAME_HEAD_BYTES == 24);
const CHECK_BYTES: usize = size_of::<U32>();
/// Bytes of a header that its check is over: all but the check.
pub const CHECKED_BYTES: usize = FRAME_HEAD_BYTES - CHECK_BYTES;

/// The check over what a header says: its CRC-32C.
#[must_use]
#[inline]
pub fn check_of(said: &[u8; CHECKED_BYTES]) -> u32 {
    crc32c::crc32c(said)
}

impl FrameKind {
    const ALL: [FrameKind; 11] = [
        FrameKind::Packet,
        FrameKind::Write,
        FrameKind::Written,
        FrameKind::Ask,
        FrameKind::Data,
        FrameKind::Fault,
        FrameKind::Probe,
        FrameKind::Answer,
        FrameKind::Close,
        FrameKind::Seek,
        FrameKind::Found,
    ];

    /// Whether it is numbered, kept until it is acknowledged, and sent again.
    #[must_use]
    #[inline]
    pub fn is_of_stream(self) -> bool {
        matches!(self, FrameKind::Packet | FrameKind::Write | FrameKind::Written)
    }

    /// The length of its body, if all have the same.
    #[must_use]
    #[inline]
    pub fn body_bytes(self) -> Option<u32> {
        match self {
            FrameKind::Packet | FrameKind::Data => None,
            FrameKind::Write => Some(RemoteWrite::BYTES as u32),
            FrameKind::Written => Some(WriteDone::BYTES as u32),
            FrameKind::Ask | FrameKind::Seek => Some(Ask::BYTES as u32),
            FrameKind::Found => Some(Found::BYTES as u32),
            FrameKind::Fault | FrameKind::Probe | FrameKind::Answer | FrameKind::Close => Some(0),
        }
    }

    fn from_code(code: u8) -> Option<FrameKind> {
        FrameKind::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }

    fn code(self) -> u8 {
        self as u8 + 1
    }
}

impl FrameHead {
    /// Its bytes.
    #[must_use]
    #[inline]
    pub fn emit(&self) -> [u8; FRAME_HEAD_BYTES] {
        self.emit_by(check_of)
    }

    /// Its bytes, by one who has a faster [`check_of`].
    #[must_use]
    #[inline(always)]
    pub fn emit_by(
        &self,
        check_of: impl FnOnce(&[u8; CHECKED_BYTES]) -> u32,
    ) -> [u8; FRAME_HEAD_BYTES] {
        let raw = RawHead {
            check: U32::ZERO,
            kind: self.kind.code(),
            flags: 0,
            zero: U16::ZERO,
            len: U32::new(self.len),
            id: U32::new(self.id),
            acknowledged: U64::new(self.acknowledged),
        };
        let mut bytes: [u8; FRAME_HEAD_BYTES] = zerocopy::transmute!(raw);
        let (check, said) = bytes.split_first_chunk_mut::<CHECK_BYTES>().expect("it is longer");
        *check = check_of(said.first_chunk().expect("all the rest")).to_le_bytes();
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    /// A [`FrameError`] for bytes that [`FrameHead::emit`] cannot have made of a frame
    /// with a body of the right length.
    #[inline]
    pub fn parse(bytes: &[u8; FRAME_HEAD_BYTES]) -> Result<FrameHead, FrameError> {
        FrameHead::parse_by(bytes, check_of)
    }

    /// As [`FrameHead::parse`], by one who has a faster [`check_of`].
    ///
    /// # Errors
    /// As [`FrameHead::parse`].
    #[inline(always)]
    pub fn parse_by(
        bytes: &[u8; FRAME_HEAD_BYTES],
        check_of: impl FnOnce(&[u8; CHECKED_BYTES]) -> u32,
    ) -> Result<FrameHead, FrameError> {
        let raw: RawHead = zerocopy::transmute!(*bytes);
        let said = bytes.last_chunk().expect("it is longer");
        if check_of(said) != raw.check.get() {
            return Err(FrameError::Check);
        }
        let kind = FrameKind::from_code(raw.kind).ok_or(FrameError::Kind(raw.kind))?;
        if raw.flags != 0 || raw.zero.get() != 0 {
            return Err(FrameError::Reserved);
        }
        let len = raw.len.get();
        if kind.body_bytes().is_some_and(|wanted| wanted != len) {
            return Err(FrameError::Len { kind, len });
        }
        Ok(FrameHead { kind, len, id: raw.id.get(), acknowledged: raw.acknowledged.get() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(kind: FrameKind) -> FrameHead {
        FrameHead {
            kind,
            len: kind.body_bytes().unwrap_or(0x0102_0304),
            id: 0x0506_0708,
            acknowledged: 0x1112_1314_1516_1718,
        }
    }

    #[test]
    fn every_field_has_its_place() {
        let bytes = example(FrameKind::Packet).emit();
        let wanted =
            [1, 0, 0, 0, 4, 3, 2, 1, 8, 7, 6, 5, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11];
        assert_eq!(bytes[4..], wanted);
        // CRC-32C (Castagnoli), as of the bytes behind it.
        assert_eq!(bytes[..4], 0xc89d_1bd0_u32.to_le_bytes());
    }

    #[test]
    fn what_is_written_is_read() {
        for kind in FrameKind::ALL {
            assert_eq!(FrameHead::parse(&example(kind).emit()), Ok(example(kind)));
        }
    }

    #[test]
    fn every_flipped_bit_is_found() {
        for kind in FrameKind::ALL {
            let bytes = example(kind).emit();
            for bit in 0..FRAME_HEAD_BYTES * 8 {
                let mut bad = bytes;
                bad[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(FrameHead::parse(&bad), Err(FrameError::Check), "bit {bit}");
            }
        }
    }

    #[test]
    fn what_no_sender_writes_is_refused() {
        let with = |at: usize, value: u8| {
            let mut bytes = example(FrameKind::Probe).emit();
            bytes[at] = value;
            let check = crc32c::crc32c(&bytes[CHECK_BYTES..]);
            bytes[..CHECK_BYTES].copy_from_slice(&check.to_le_bytes());
            FrameHead::parse(&bytes)
        };
        for kind in [0, 12, 255] {
            assert_eq!(with(4, kind), Err(FrameError::Kind(kind)));
        }
        for at in 5..8 {
            assert_eq!(with(at, 1), Err(FrameError::Reserved));
        }
        assert_eq!(with(8, 1), Err(FrameError::Len { kind: FrameKind::Probe, len: 1 }));
        assert_eq!(with(4, 4), Err(FrameError::Len { kind: FrameKind::Ask, len: 0 }));
        assert_eq!(with(4, 11), Err(FrameError::Len { kind: FrameKind::Found, len: 0 }));
    }
}
