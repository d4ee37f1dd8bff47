//! Records: what follows the handshake with [`Security::Encrypt`](super::Security).
//!
//! A record is the length of what follows (2 bytes, little endian) and that many bytes:
//! at least one byte, sealed by AES-256-GCM, and its tag. The length is sealed with it.
//! Records are numbered without saying so, from the first one behind the handshake, in each
//! direction: one that is altered, left out, repeated or moved does not open.
//!
//! Invariant: no number is used twice with one key. The keys of a direction are made of
//! what the handshake of this very connection has left, so a connection that takes the
//! place of another one has others; and each key seals [`RECORDS_PER_KEY`] records at most.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, Tag, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk, Salt};
use std::fmt;

const LENGTH_BYTES: usize = 2;
const TAG_BYTES: usize = 16;
/// Most bytes that one record seals. A longer one would have to come whole before its
/// first byte is of use; a shorter one costs more for its beginning and end.
pub const PLAIN_BYTES_MAX: usize = 32 << 10;
/// Most bytes of one record: what must be there before it can be opened.
pub const RECORD_BYTES_MAX: usize = LENGTH_BYTES + PLAIN_BYTES_MAX + TAG_BYTES;
/// Records that one key seals. With as many of full length, 128 GiB, what somebody gains
/// who wants to tell them from noise is still below 2^-57.
const RECORDS_PER_KEY: u64 = 1 << 22;
/// What keys are made for, so that nothing else that is made of the same is the same.
const KEY_LABEL: &[u8] = b"Sluice records 1";

/// What seals records for one peer and opens its own.
#[derive(Debug)]
pub struct Cipher {
    /// What goes out.
    pub sealer: Sealer,
    /// What comes in.
    pub opener: Opener,
}

/// Seals what goes out.
pub struct Sealer(Keys);

/// Opens what comes in.
pub struct Opener(Keys);

/// Why a record does not open. The connection is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// No record has this length.
    #[error("no record has {0} bytes")]
    Length(usize),
    /// It is not the next one that the other end has sealed.
    #[error("a record is not the one that the other end sealed")]
    Altered,
}

/// A record that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenedRecord {
    /// Bytes that it took.
    pub used: usize,
    /// Bytes that it held.
    pub plain: usize,
}

/// The keys of one direction, one after the other.
struct Keys {
    source: Prk,
    key: LessSafeKey,
    generation: u32,
    /// Records of this key.
    count: u64,
}

impl Cipher {
    /// The cipher of a connection whose handshake has left these secrets, the first for what
    /// the initiator sends, and this hash of all that was said.
    pub(super) fn new(secrets: &[[u8; 32]; 2], hash: &[u8], is_initiator: bool) -> Cipher {
        let [first, second] = secrets.each_ref().map(|secret| Keys::new(secret, hash));
        let (out, into) = if is_initiator { (first, second) } else { (second, first) };
        Cipher { sealer: Sealer(out), opener: Opener(into) }
    }

    /// One of no connection.
    #[cfg(test)]
    pub(in crate::net) fn example() -> Cipher {
        Cipher::new(&[[1; 32], [2; 32]], b"said", true)
    }
}

impl Sealer {
    /// Seals these bytes and appends the records to `out`: as few as hold them, none for
    /// no bytes.
    pub fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        for chunk in plain.chunks(PLAIN_BYTES_MAX) {
            let begin = Sealer::begin(out);
            out.extend_from_slice(chunk);
            self.end(out, begin);
        }
    }

    /// Begins a record at the end of `out`: up to [`PLAIN_BYTES_MAX`] bytes are to be
    /// appended, then it is to be ended with what this says.
    #[must_use]
    pub fn begin(out: &mut Vec<u8>) -> usize {
        out.extend_from_slice(&[0; LENGTH_BYTES]);
        out.len()
    }

    /// Seals the record that was begun.
    ///
    /// # Panics
    /// If it has no bytes, or too many.
    pub fn end(&mut self, out: &mut Vec<u8>, begin: usize) {
        let plain = out.len() - begin;
        assert!((1..=PLAIN_BYTES_MAX).contains(&plain), "a record of {plain} bytes");
        let length = length_of(plain);
        out[begin - LENGTH_BYTES..begin].copy_from_slice(&length);
        let (key, nonce) = self.0.next();
        let tag = key.seal_in_place_separate_tag(nonce, Aad::from(length), &mut out[begin..]);
        out.extend_from_slice(tag.expect("a record is short enough").as_ref());
    }
}

impl Opener {
    /// Opens the record that begins at `at` in `bytes`, and puts what it holds at `to`,
    /// which is not behind `at`. `None` as long as not all of it is there.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn open(
        &mut self,
        bytes: &mut [u8],
        at: usize,
        to: usize,
    ) -> Result<Option<OpenedRecord>, RecordError> {
        let Some(length) = bytes[at..].first_chunk::<LENGTH_BYTES>().copied() else {
            return Ok(None);
        };
        let sealed = usize::from(u16::from_le_bytes(length));
        let plain = sealed.checked_sub(TAG_BYTES).filter(|&plain| plain > 0);
        let plain = plain.filter(|&plain| plain <= PLAIN_BYTES_MAX);
        let plain = plain.ok_or(RecordError::Length(sealed))?;
        let begin = at + LENGTH_BYTES;
        let Some(tag) = bytes.get(begin + plain..begin + sealed) else { return Ok(None) };
        let tag = Tag::try_from(tag).expect("as many bytes as a tag has");
        let (key, nonce) = self.0.next();
        let place = &mut bytes[to..begin + plain];
        key.open_in_place_separate_tag(nonce, Aad::from(length), tag, place, begin - to..)
            .map_err(|_| RecordError::Altered)?;
        Ok(Some(OpenedRecord { used: LENGTH_BYTES + sealed, plain }))
    }
}

impl Keys {
    fn new(secret: &[u8; 32], hash: &[u8]) -> Keys {
        let source = Salt::new(HKDF_SHA256, hash).extract(secret);
        let key = key_of(&source, 0);
        Keys { source, key, generation: 0, count: 0 }
    }

    /// The key and the number of the next record.
    fn next(&mut self) -> (&LessSafeKey, Nonce) {
        if self.count == RECORDS_PER_KEY {
            self.generation = self.generation.checked_add(1).expect("not in a lifetime");
            (self.key, self.count) = (key_of(&self.source, self.generation), 0);
        }
        let mut nonce = [0; NONCE_LEN];
        nonce[NONCE_LEN - 8..].copy_from_slice(&self.count.to_be_bytes());
        self.count += 1;
        (&self.key, Nonce::assume_unique_for_key(nonce))
    }
}

fn key_of(source: &Prk, generation: u32) -> LessSafeKey {
    let generation = generation.to_be_bytes();
    let info = [KEY_LABEL, &generation];
    let made = source.expand(&info, &AES_256_GCM).expect("a key is short");
    LessSafeKey::new(UnboundKey::from(made))
}

fn length_of(plain: usize) -> [u8; LENGTH_BYTES] {
    let sealed = u16::try_from(plain + TAG_BYTES).expect("a record is short enough");
    sealed.to_le_bytes()
}

/// Nothing of its keys.
impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer")
    }
}

/// Nothing of its keys.
impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opener")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_followed_by_another_one_and_no_number_comes_twice_with_one() {
        let secrets = [[1; 32], [2; 32]];
        let mut here = Cipher::new(&secrets, b"said", true).sealer;
        let mut there = Cipher::new(&secrets, b"said", false).opener;
        (here.0.count, there.0.count) = (RECORDS_PER_KEY - 2, RECORDS_PER_KEY - 2);
        let mut sealed = std::collections::BTreeSet::new();
        for _ in 0..5 {
            let mut record = Vec::new();
            here.seal(b"the same", &mut record);
            assert!(sealed.insert(record.clone()), "nothing is sealed alike");
            let opened = there.open(&mut record, 0, 0).unwrap().unwrap();
            assert_eq!(record[..opened.plain], b"the same"[..]);
        }
        assert_eq!((here.0.generation, here.0.count), (1, 3));
        // The number that began with the first key, with the second.
        let first = key_of(&here.0.source, 0);
        let second = key_of(&here.0.source, 1);
        let seal = |key: &LessSafeKey| {
            let mut bytes = [0; 16];
            let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
            let tag = key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut bytes).unwrap();
            (bytes, tag.as_ref().to_vec())
        };
        assert_ne!(seal(&first), seal(&second));
    }

    #[test]
    fn other_secrets_another_hash_and_the_other_direction_open_nothing() {
        let secrets = [[1; 32], [2; 32]];
        let mut record = Vec::new();
        Cipher::new(&secrets, b"said", true).sealer.seal(b"bytes", &mut record);
        let others = [
            Cipher::new(&[[1; 32], [3; 32]], b"said", true).opener,
            Cipher::new(&[[3; 32], [2; 32]], b"said", false).opener,
            Cipher::new(&secrets, b"else", false).opener,
            Cipher::new(&secrets, b"said", true).opener,
        ];
        for mut other in others {
            assert_eq!(other.open(&mut record.clone(), 0, 0), Err(RecordError::Altered));
        }
        let mut right = Cipher::new(&secrets, b"said", false).opener;
        assert!(right.open(&mut record, 0, 0).unwrap().is_some());
    }
}
