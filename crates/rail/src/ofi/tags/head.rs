//! What precedes the bytes of a message that a provider matches, and the words between two
//! processes about such messages. Little endian.
//!
//! A message, 72 bytes: who sends it (16), tag (8), out-of-band data (8), length (8), name of
//! the word that its end is to be told by (8; 0: none), remote key (8) and match bits (8) of
//! an announcement, byte of the layer above (1), list (1), kind (1; 1: announced), zero (5).
//! A word, 32 bytes: who says it (16), kind (1), zero (7), number (8).

use sluice_link::TaggedMessage;
use sluice_wire::{MatchBits, PtIndex, RemoteKey, Rts};

pub(super) const HEAD_BYTES: usize = 72;
pub(super) const WORD_BYTES: usize = 32;
/// By which a process is told from others: drawn, 16 bytes.
pub(crate) const ID_BYTES: usize = 16;
/// See [`ID_BYTES`].
pub(crate) type Id = [u8; ID_BYTES];

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) from: Id,
    pub(super) message: TaggedMessage,
    pub(super) ack: u64,
}

/// What one process says to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Its receives from the other one are posted: messages may come. It may say that it
    /// wants to hear the same.
    Ready { is_asking: bool },
    /// A message has met its receive.
    Met(u64),
}

impl Head {
    pub(super) fn emit(&self) -> [u8; HEAD_BYTES] {
        let TaggedMessage { list, match_bits, hdr_data, user, len, rts } = self.message;
        let (key, bits) = rts.map_or((0, 0), |rts| (rts.from.bits(), rts.key.0));
        let mut bytes = [0; HEAD_BYTES];
        bytes[..ID_BYTES].copy_from_slice(&self.from);
        let numbers = [match_bits.0, hdr_data, len, self.ack, key, bits];
        for (field, number) in bytes[ID_BYTES..].chunks_exact_mut(8).zip(numbers) {
            field.copy_from_slice(&number.to_le_bytes());
        }
        bytes[64..67].copy_from_slice(&[user, list.0, u8::from(rts.is_some())]);
        bytes
    }

    /// Reads a message, which is a head and, unless it is an announcement, as many bytes as
    /// that says.
    pub(super) fn parse(message: &[u8]) -> Option<(Head, &[u8])> {
        let (head, body) = message.split_first_chunk::<HEAD_BYTES>()?;
        let (from, rest) = head.split_first_chunk::<ID_BYTES>()?;
        let mut numbers = rest.chunks_exact(8).map_while(|field| field.try_into().ok());
        let mut next = || numbers.next().map(u64::from_le_bytes);
        let (tag, hdr_data, len, ack) = (next()?, next()?, next()?, next()?);
        let (key, bits) = (next()?, next()?);
        let &[user, list, kind, ref zero @ ..] = &head[64..] else { return None };
        let rts = match kind {
            0 if (key, bits) == (0, 0) && body.len() as u64 == len => None,
            1 if body.is_empty() => Some(Rts {
                total_len: len,
                from: RemoteKey::from_bits(key),
                key: MatchBits(bits),
                claims: None,
            }),
            _ => return None,
        };
        if zero.iter().any(|&byte| byte != 0) {
            return None;
        }
        let (list, match_bits) = (PtIndex(list), MatchBits(tag));
        let message = TaggedMessage { list, match_bits, hdr_data, user, len, rts };
        Some((Head { from: *from, message, ack }, body))
    }
}

impl Word {
    pub(super) fn emit(self, from: &Id) -> [u8; WORD_BYTES] {
        let (kind, number) = match self {
            Word::Ready { is_asking } => (1, u64::from(is_asking)),
            Word::Met(ack) => (2, ack),
        };
        let mut bytes = [0; WORD_BYTES];
        bytes[..ID_BYTES].copy_from_slice(from);
        bytes[ID_BYTES] = kind;
        bytes[24..].copy_from_slice(&u64::to_le_bytes(number));
        bytes
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<(Id, Word)> {
        let bytes: &[u8; WORD_BYTES] = bytes.try_into().ok()?;
        let (from, rest) = bytes.split_first_chunk::<ID_BYTES>()?;
        let (head, number) = rest.split_first_chunk::<8>()?;
        let number = u64::from_le_bytes(number.try_into().ok()?);
        let word = match (head, number) {
            ([1, 0, 0, 0, 0, 0, 0, 0], 0 | 1) => Word::Ready { is_asking: number == 1 },
            ([2, 0, 0, 0, 0, 0, 0, 0], ack) => Word::Met(ack),
            _ => return None,
        };
        Some((*from, word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let announced = Rts {
            total_len: 1 << 40,
            from: RemoteKey::from_bits(7),
            key: MatchBits(u64::MAX),
            claims: None,
        };
        for (rts, body) in [(None, &b"abc"[..]), (Some(announced), b"")] {
            let len = rts.map_or(3, |rts: Rts| rts.total_len);
            let (list, match_bits) = (PtIndex(1), MatchBits(0x0123_4567_89ab_cdef));
            let message = TaggedMessage { list, match_bits, hdr_data: 5, user: 9, len, rts };
            let head = Head { from: [3; 16], message, ack: 77 };
            let bytes = [&head.emit()[..], body].concat();
            assert_eq!(Head::parse(&bytes), Some((head, body)));
            assert_eq!(Head::parse(&[&bytes[..], b"x"].concat()), None, "a byte too many");
        }
        for word in [Word::Ready { is_asking: true }, Word::Met(8)] {
            assert_eq!(Word::parse(&word.emit(&[4; 16])), Some(([4; 16], word)));
        }
    }

    proptest! {
        /// Whatever comes is read or refused.
        #[test]
        fn anything_may_come(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (Head::parse(&bytes), Word::parse(&bytes));
        }
    }
}
