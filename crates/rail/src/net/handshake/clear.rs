//! The bodies of messages without cryptography: what they say, and a checksum of preface
//! and content behind it.

use super::HandshakeError;
use super::preface::Incoming;
use crate::hash::check_of;

/// Length of the checksum.
pub(super) const CHECK_BYTES: usize = 4;

/// Ends a message.
pub(super) fn close(message: &mut Vec<u8>) {
    let check = check_of(message);
    message.extend(check.to_le_bytes());
}

/// What the body of a message says, if it arrived as it was sent.
pub(super) fn content(message: &Incoming) -> Result<&[u8], HandshakeError> {
    let (content, check) = message
        .body()
        .split_last_chunk::<CHECK_BYTES>()
        .ok_or(HandshakeError::Malformed("too short"))?;
    if u32::from_le_bytes(*check) != check_of(&[message.preface(), content].concat()) {
        return Err(HandshakeError::Malformed("wrong checksum"));
    }
    Ok(content)
}
