//! The header of a message: 40 bytes, little endian.
//!
//! Token (16), number (8), taken (8), length of the body (4), zero (4). The number counts
//! the messages of the lane that have a body. `taken` says how many of the other side's
//! have been read. A message without a body only says that; its number is zero.

use sluice_fabric::BUFFER_BYTES;

/// Length of a token.
pub(crate) const TOKEN_BYTES: usize = 16;
/// Length of the header.
pub(super) const HEAD_BYTES: usize = 40;
/// Longest body.
pub(super) const BODY_BYTES_MAX: usize = BUFFER_BYTES - HEAD_BYTES;

/// What a message of a lane carries, to be known by.
pub(crate) type Token = [u8; TOKEN_BYTES];

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) token: Token,
    pub(super) number: u64,
    pub(super) taken: u64,
    pub(super) len: u32,
}

impl Head {
    pub(super) fn emit(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..16].copy_from_slice(&self.token);
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.taken.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    /// The header of a message and its body; `None` if it is none.
    pub(super) fn parse(message: &[u8]) -> Option<(Head, &[u8])> {
        let (head, body) = message.split_first_chunk::<HEAD_BYTES>()?;
        let field = |at: usize| head[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        let parsed = Head {
            token: head[..16].try_into().ok()?,
            number: field(16)?,
            taken: field(24)?,
            len: field(32)?.try_into().ok()?,
        };
        let is_whole = body.len() == parsed.len as usize && (parsed.len > 0 || parsed.number == 0);
        is_whole.then_some((parsed, body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_field_has_its_place() {
        let head = Head { token: [7; 16], number: 0x0102, taken: 0x0304, len: 3 };
        let message = [&head.emit()[..], b"abc"].concat();
        assert_eq!(message[16..18], [2, 1]);
        assert_eq!(message[24..26], [4, 3]);
        assert_eq!(message[32..36], [3, 0, 0, 0]);
        assert_eq!(Head::parse(&message), Some((head, &b"abc"[..])));
        assert_eq!(Head::parse(&message[..42]), None, "cut");
        assert_eq!(Head::parse(&message[..39]), None, "no header");
    }

    proptest! {
        #[test]
        fn whatever_comes_is_refused_or_whole(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some((head, body)) = Head::parse(&bytes) {
                prop_assert_eq!([&head.emit()[..], body].concat(), bytes);
            }
        }
    }
}
