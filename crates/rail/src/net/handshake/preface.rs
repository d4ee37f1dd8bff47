//! What precedes each message of the handshake, in clear, and how a message is gathered
//! from a stream.
//!
//! 10 bytes, little endian: magic (4), version (1), mode (1), kind (1), zero (1), length
//! of the body (2). Magic and version keep their places in all versions to come.

use super::{HandshakeError, Security};
use std::ops::RangeInclusive;

/// The version of the handshake.
pub const VERSION: u8 = 2;
/// Length of a preface in bytes.
pub const PREFACE_BYTES: usize = 10;
const MAGIC: [u8; 4] = *b"SLhs";

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ask = 1,
    Answer = 2,
    Proof = 3,
    /// In place of an answer, with nothing behind: these two do not belong together.
    Parting = 4,
}

/// A message without its body, which has `length` bytes.
pub(super) fn preface(mode: Security, kind: Kind, length: usize) -> [u8; PREFACE_BYTES] {
    let mut bytes = [0; PREFACE_BYTES];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4] = VERSION;
    bytes[5] = mode_code(mode);
    bytes[6] = kind as u8;
    let length = u16::try_from(length).expect("bodies are short");
    bytes[8..].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// One message on its way in. Of a message that can be none, no more is kept than the
/// preface.
#[derive(Debug)]
pub(super) struct Incoming {
    mode: Security,
    kind: Kind,
    lengths: RangeInclusive<usize>,
    bytes: Vec<u8>,
}

impl Incoming {
    pub(super) fn new(mode: Security, kind: Kind, lengths: RangeInclusive<usize>) -> Incoming {
        Incoming { mode, kind, lengths, bytes: Vec::new() }
    }

    /// Takes what has come: how many of these bytes belong to the message, if it is
    /// whole now; if not, all do.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Option<usize>, HandshakeError> {
        let mut used = 0;
        loop {
            let length = self.check()?;
            let whole = PREFACE_BYTES + length.unwrap_or(0);
            let lacks = whole - self.bytes.len();
            if lacks == 0 {
                return Ok(Some(used));
            }
            let more = lacks.min(bytes.len() - used);
            if more == 0 {
                return Ok(None);
            }
            self.bytes.extend_from_slice(&bytes[used..used + more]);
            used += more;
        }
    }

    pub(super) fn preface(&self) -> &[u8] {
        &self.bytes[..PREFACE_BYTES]
    }

    pub(super) fn body(&self) -> &[u8] {
        &self.bytes[PREFACE_BYTES..]
    }

    pub(super) fn mode(&self) -> Security {
        self.mode
    }

    /// That the stream ended here.
    pub(super) fn ended(&self) -> HandshakeError {
        HandshakeError::Ended { got: self.bytes.len() }
    }

    /// Checks what there is of the preface, from the front, so that the first wrong byte
    /// is told of when it comes. The length of the body once it is known.
    fn check(&self) -> Result<Option<usize>, HandshakeError> {
        let bytes = &self.bytes[..];
        let there = bytes.len().min(MAGIC.len());
        if bytes[..there] != MAGIC[..there] {
            return Err(HandshakeError::NotSluice);
        }
        let Some(&theirs) = bytes.get(4) else { return Ok(None) };
        if theirs != VERSION {
            return Err(HandshakeError::Version { theirs });
        }
        let Some(&mode) = bytes.get(5) else { return Ok(None) };
        let theirs = mode_of(mode).ok_or(HandshakeError::Malformed("unknown mode"))?;
        if theirs != self.mode {
            return Err(HandshakeError::Mode { theirs, ours: self.mode });
        }
        let Some(&kind) = bytes.get(6) else { return Ok(None) };
        let is_parting = kind == Kind::Parting as u8 && self.kind == Kind::Answer;
        if kind != self.kind as u8 && !is_parting {
            return Err(HandshakeError::Malformed("not the kind that comes next"));
        }
        let Some(length) = bytes.get(7..PREFACE_BYTES) else { return Ok(None) };
        if length[0] != 0 {
            return Err(HandshakeError::Malformed("reserved bytes are not zero"));
        }
        let length = usize::from(u16::from_le_bytes([length[1], length[2]]));
        match (is_parting, length) {
            (true, 0) => Err(HandshakeError::NotThePeer),
            (false, _) if self.lengths.contains(&length) => Ok(Some(length)),
            _ => Err(HandshakeError::Malformed("impossible length")),
        }
    }
}

fn mode_code(mode: Security) -> u8 {
    match mode {
        Security::None => 1,
        Security::Auth => 2,
        Security::Encrypt => 3,
    }
}

fn mode_of(code: u8) -> Option<Security> {
    [Security::None, Security::Auth, Security::Encrypt]
        .into_iter()
        .find(|&mode| mode_code(mode) == code)
}
