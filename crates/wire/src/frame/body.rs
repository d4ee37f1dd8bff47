//! The bodies of frames that have a layout of their own.

use super::{FrameError, FrameKind};
use crate::ids::RemoteKey;
use std::mem::size_of;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Asks for bytes of memory that the peer has exposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Names the memory.
    pub key: RemoteKey,
    /// Where in it the bytes begin.
    pub offset: u64,
    /// How many, at least one.
    pub len: u32,
}

/// Where memory that was sought is read by the device itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The provider's key.
    pub key: u64,
    /// Where the first byte of what is exposed is, as the provider has it.
    pub base: u64,
}

/// Asks the peer to fetch bytes of this process into memory that it has exposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteWrite {
    /// Comes back with the [`WriteDone`].
    pub token: u64,
    /// Names the memory that is written.
    pub to: RemoteKey,
    /// Where in it the first byte goes.
    pub offset: u64,
    /// How many bytes.
    pub len: u64,
    /// Names the memory that is read, of whoever sends this.
    pub from: RemoteKey,
}

/// A [`RemoteWrite`] has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteDone {
    /// Of which.
    pub token: u64,
    /// Whether the bytes are there; else the key does not reach them.
    pub is_done: bool,
}

/// Why nothing more comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The process ends its part.
    Ended = 1,
    /// It has given the peer up, for a reason of its own.
    Refused = 2,
    /// The peer broke the protocol.
    Protocol = 3,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct AskBody {
    key: U64,
    offset: U64,
    len: U64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct WriteBody {
    token: U64,
    to: U64,
    offset: U64,
    len: U64,
    from: U64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct WrittenBody {
    token: U64,
    outcome: U64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FoundBody {
    key: U64,
    base: U64,
}

const DONE: u64 = 0;
const FAULT: u64 = 1;

impl Ask {
    /// Length of the body.
    pub const BYTES: usize = size_of::<AskBody>();

    /// Its bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; Ask::BYTES] {
        zerocopy::transmute!(AskBody {
            key: U64::new(self.key.bits()),
            offset: U64::new(self.offset),
            len: U64::new(u64::from(self.len)),
        })
    }

    /// Reads them.
    ///
    /// # Errors
    /// [`FrameError`] if nothing is asked for, or more than a frame has.
    pub fn parse(bytes: &[u8]) -> Result<Ask, FrameError> {
        let body: AskBody = take(FrameKind::Ask, bytes)?;
        let len = u32::try_from(body.len.get()).ok().filter(|&len| len > 0);
        Ok(Ask {
            key: RemoteKey::from_bits(body.key.get()),
            offset: body.offset.get(),
            len: len.ok_or(FrameError::Body(FrameKind::Ask))?,
        })
    }
}

impl Found {
    /// Length of the body.
    pub const BYTES: usize = size_of::<FoundBody>();

    /// Its bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; Found::BYTES] {
        zerocopy::transmute!(FoundBody { key: U64::new(self.key), base: U64::new(self.base) })
    }

    /// Reads them.
    ///
    /// # Errors
    /// [`FrameError`] if they are not as many.
    pub fn parse(bytes: &[u8]) -> Result<Found, FrameError> {
        let body: FoundBody = take(FrameKind::Found, bytes)?;
        Ok(Found { key: body.key.get(), base: body.base.get() })
    }
}

impl RemoteWrite {
    /// Length of the body.
    pub const BYTES: usize = size_of::<WriteBody>();

    /// Its bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; RemoteWrite::BYTES] {
        zerocopy::transmute!(WriteBody {
            token: U64::new(self.token),
            to: U64::new(self.to.bits()),
            offset: U64::new(self.offset),
            len: U64::new(self.len),
            from: U64::new(self.from.bits()),
        })
    }

    /// Reads them.
    ///
    /// # Errors
    /// [`FrameError`] if they are not as many.
    pub fn parse(bytes: &[u8]) -> Result<RemoteWrite, FrameError> {
        let body: WriteBody = take(FrameKind::Write, bytes)?;
        Ok(RemoteWrite {
            token: body.token.get(),
            to: RemoteKey::from_bits(body.to.get()),
            offset: body.offset.get(),
            len: body.len.get(),
            from: RemoteKey::from_bits(body.from.get()),
        })
    }
}

impl WriteDone {
    /// Length of the body.
    pub const BYTES: usize = size_of::<WrittenBody>();

    /// Its bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; WriteDone::BYTES] {
        zerocopy::transmute!(WrittenBody {
            token: U64::new(self.token),
            outcome: U64::new(if self.is_done { DONE } else { FAULT }),
        })
    }

    /// Reads them.
    ///
    /// # Errors
    /// [`FrameError`] if there is no such outcome.
    pub fn parse(bytes: &[u8]) -> Result<WriteDone, FrameError> {
        let body: WrittenBody = take(FrameKind::Written, bytes)?;
        let is_done = match body.outcome.get() {
            DONE => true,
            FAULT => false,
            _ => return Err(FrameError::Body(FrameKind::Written)),
        };
        Ok(WriteDone { token: body.token.get(), is_done })
    }
}

impl CloseReason {
    /// The id of the frame.
    #[must_use]
    pub fn id(self) -> u32 {
        self as u32
    }

    /// Back from the id.
    ///
    /// # Errors
    /// [`FrameError`] if there is no such reason.
    pub fn from_id(id: u32) -> Result<CloseReason, FrameError> {
        let all = [CloseReason::Ended, CloseReason::Refused, CloseReason::Protocol];
        all.into_iter().find(|reason| reason.id() == id).ok_or(FrameError::Body(FrameKind::Close))
    }
}

fn take<T: FromBytes>(kind: FrameKind, bytes: &[u8]) -> Result<T, FrameError> {
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    T::read_from_bytes(bytes).map_err(|_| FrameError::Len { kind, len })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(bits: u64) -> RemoteKey {
        RemoteKey::from_bits(bits)
    }

    #[test]
    fn every_field_has_its_place() {
        let ask = Ask { key: key(0x0807_0605_0403_0201), offset: 0x11, len: 0x21 };
        let wanted = [1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0, 0, 0, 0, 0, 0, 0, 0x21, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(ask.emit(), wanted);
        assert_eq!(Ask::parse(&wanted), Ok(ask));

        let found = Found { key: 0x11, base: 0x21 };
        assert_eq!(found.emit(), [0x11, 0, 0, 0, 0, 0, 0, 0, 0x21, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Found::parse(&found.emit()), Ok(found));

        let write = RemoteWrite { token: 1, to: key(2), offset: 3, len: 4, from: key(5) };
        let bytes = write.emit();
        for (at, value) in (0..RemoteWrite::BYTES).step_by(8).zip(1..) {
            assert_eq!(bytes[at..at + 8], [value, 0, 0, 0, 0, 0, 0, 0]);
        }
        assert_eq!(RemoteWrite::parse(&bytes), Ok(write));

        for (is_done, code) in [(true, 0), (false, 1)] {
            let done = WriteDone { token: 9, is_done };
            let bytes = done.emit();
            assert_eq!(bytes, [9, 0, 0, 0, 0, 0, 0, 0, code, 0, 0, 0, 0, 0, 0, 0]);
            assert_eq!(WriteDone::parse(&bytes), Ok(done));
        }
    }

    #[test]
    fn what_no_sender_writes_is_refused() {
        let mut ask = Ask { key: key(1), offset: 0, len: 1 }.emit();
        ask[16] = 0;
        assert_eq!(Ask::parse(&ask), Err(FrameError::Body(FrameKind::Ask)), "nothing");
        ask[20] = 1;
        assert_eq!(Ask::parse(&ask), Err(FrameError::Body(FrameKind::Ask)), "too much");
        let mut done = WriteDone { token: 1, is_done: true }.emit();
        done[8] = 2;
        assert_eq!(WriteDone::parse(&done), Err(FrameError::Body(FrameKind::Written)));
        for len in 0..RemoteWrite::BYTES {
            let bytes = [0; RemoteWrite::BYTES];
            let wanted = FrameError::Len { kind: FrameKind::Write, len: len as u32 };
            assert_eq!(RemoteWrite::parse(&bytes[..len]), Err(wanted));
        }
        for id in [0, 4, u32::MAX] {
            assert_eq!(CloseReason::from_id(id), Err(FrameError::Body(FrameKind::Close)));
        }
        for reason in [CloseReason::Ended, CloseReason::Refused, CloseReason::Protocol] {
            assert_eq!(CloseReason::from_id(reason.id()), Ok(reason));
        }
    }
}
