//! Records: what follows the handshake with [`Security::Encrypt`](super::Security).
//!
//! A record is the length of what follows (2 bytes, little endian) and that many bytes:
//! at least one byte, sealed, and its tag. They are numbered without saying so, from the
//! first one behind the handshake, in each direction: one that is altered, left out,
//! repeated or moved does not open.

use snow::TransportState;
use std::fmt;

const LENGTH_BYTES: usize = 2;
const TAG_BYTES: usize = 16;
/// Most bytes that one record seals.
const PLAIN_BYTES_MAX: usize = u16::MAX as usize - TAG_BYTES;
/// Most bytes of one record: what must be there before it can be opened.
pub const RECORD_BYTES_MAX: usize = LENGTH_BYTES + u16::MAX as usize;

/// What seals records for one peer and opens its own.
pub struct Cipher {
    state: TransportState,
}

/// Why a record does not open. The connection is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// No record is so short.
    #[error("a record of {0} bytes seals nothing")]
    Short(usize),
    /// It is not the next one that the other end has sealed.
    #[error("a record is not the one that the other end sealed")]
    Altered,
}

impl Cipher {
    pub(super) fn new(state: TransportState) -> Cipher {
        Cipher { state }
    }

    /// Seals these bytes and appends the records to `out`: as few as hold them, none for
    /// no bytes.
    pub fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        for chunk in plain.chunks(PLAIN_BYTES_MAX) {
            let sealed = chunk.len() + TAG_BYTES;
            out.extend_from_slice(&(sealed as u16).to_le_bytes());
            let begin = out.len();
            out.resize(begin + sealed, 0);
            let written = self.state.write_message(chunk, &mut out[begin..]);
            assert_eq!(written.ok(), Some(sealed), "it fits, and is not the 2^64th");
        }
    }

    /// Opens the record that `sealed` begins with, and appends what it holds to `out`.
    /// How many bytes it took; `None` as long as not all of it is there.
    ///
    /// # Errors
    /// [`RecordError`], and `out` is as it was.
    pub fn open(&mut self, sealed: &[u8], out: &mut Vec<u8>) -> Result<Option<usize>, RecordError> {
        let Some((length, rest)) = sealed.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = usize::from(u16::from_le_bytes(*length));
        if length <= TAG_BYTES {
            return Err(RecordError::Short(length));
        }
        let Some(record) = rest.get(..length) else { return Ok(None) };
        let begin = out.len();
        out.resize(begin + length - TAG_BYTES, 0);
        if self.state.read_message(record, &mut out[begin..]).is_err() {
            out.truncate(begin);
            return Err(RecordError::Altered);
        }
        Ok(Some(LENGTH_BYTES + length))
    }
}

/// Nothing of its keys.
impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cipher")
    }
}
