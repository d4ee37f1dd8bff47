//! Who may connect: three messages over a stream of bytes, before its first frame.
//!
//! The one that connects ([`Initiator`]) asks, the one that listens ([`Responder`])
//! answers, the first one proves. Each message is a preface in clear (`preface`) and a
//! body; ask and answer carry what both tell each other ([`Hello`]). With
//! [`Security::Auth`] and [`Security::Encrypt`] the bodies are those of a Noise
//! handshake (`noise`): whoever asks has the address of the other one, with its secret,
//! and both have the keys of the addresses that they show. `docs/wire.md` has the bytes.
//!
//! No socket and no clock: bytes are given and taken, in pieces of any size. Randomness
//! comes from the system, by way of `snow`.
//!
//! Invariants:
//! - What arrives is refused with an error or understood; it causes no panic, and at most
//!   [`MESSAGE_BYTES_MAX`] bytes of it are kept. How long to wait for it, and how many
//!   connections may be at it, is the caller's to bound.
//! - A responder has an [`Established`] only once the initiator has proved to have its
//!   key, in all modes that have keys. An ask that somebody has recorded and sends
//!   again is answered, and comes no further.
//! - Neither a private key nor a secret is in any text.
//! - What seals frames (`cipher`) has keys that no other connection has.

mod cipher;
mod clear;
mod error;
mod hello;
mod identity;
mod initiator;
mod job_key;
mod noise;
mod preface;
mod responder;
#[cfg(test)]
mod tests;

pub use cipher::{
    Cipher, OpenedRecord, Opener, PLAIN_BYTES_MAX, RECORD_BYTES_MAX, RecordError, Sealer,
};
pub use error::{HandshakeError, Refusal};
pub use hello::{
    Device, FABRICS_MAX, FabricHello, FabricName, Hello, PROVIDER_BYTES_MAX, TagsName,
};
pub use identity::Identity;
pub use initiator::{Answered, Initiator};
pub use job_key::{JobKey, Member};
pub use preface::{PREFACE_BYTES, VERSION};
pub use responder::{Accepted, Asked, Responder};

use crate::address::{Address, KEY_BYTES};
use clear::CHECK_BYTES;
use hello::{HELLO_BYTES_MAX, HELLO_BYTES_MIN};
use noise::{ANSWER_OVERHEAD_BYTES, ASK_OVERHEAD_BYTES, PROOF_BYTES};
use std::fmt;
use std::ops::RangeInclusive;

/// Most bytes of one message of the handshake: what is kept of a peer that has not
/// proved anything.
pub const MESSAGE_BYTES_MAX: usize = PREFACE_BYTES + ASK_OVERHEAD_BYTES + HELLO_BYTES_MAX;

/// How a connection is protected. Both ends must have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Security {
    /// Not at all: the handshake is in clear, and tells only mistakes apart.
    None,
    /// Both ends prove who they are; the frames behind are in clear.
    #[default]
    Auth,
    /// As [`Security::Auth`], and all that follows is sealed ([`Cipher`]).
    Encrypt,
}

/// As the setting calls it.
impl fmt::Display for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Security::None => "none",
            Security::Auth => "auth",
            Security::Encrypt => "encrypt",
        })
    }
}

/// A peer that may be spoken to.
#[derive(Debug)]
pub struct Established {
    /// Who it is.
    pub peer: Address,
    /// What it tells.
    pub hello: Hello,
    /// What seals and opens all that follows; with [`Security::Encrypt`] only.
    pub cipher: Option<Cipher>,
}

/// Length of what precedes the hello in an ask without cryptography: the key that it is
/// for.
const WANTED_BYTES: usize = KEY_BYTES;
/// Length of what precedes the hello in an answer: that it is one, or why it is none.
const OUTCOME_BYTES: usize = 1;

/// Lengths of the body of an ask.
fn ask_bytes(mode: Security) -> RangeInclusive<usize> {
    let overhead = match mode {
        Security::None => WANTED_BYTES + CHECK_BYTES,
        Security::Auth | Security::Encrypt => ASK_OVERHEAD_BYTES,
    };
    overhead + HELLO_BYTES_MIN..=overhead + HELLO_BYTES_MAX
}

/// How an ask with the shortest body begins, and the length of that body. For tests of other
/// programs, which connect as strangers and are to speak the present version.
#[must_use]
pub fn shortest_ask(mode: Security) -> ([u8; PREFACE_BYTES], usize) {
    let length = *ask_bytes(mode).start();
    (preface::preface(mode, preface::Kind::Ask, length), length)
}

/// Lengths of the body of an answer.
fn answer_bytes(mode: Security) -> RangeInclusive<usize> {
    let overhead = match mode {
        Security::None => CHECK_BYTES,
        Security::Auth | Security::Encrypt => ANSWER_OVERHEAD_BYTES,
    };
    overhead + OUTCOME_BYTES..=overhead + OUTCOME_BYTES + HELLO_BYTES_MAX
}

/// Length of the body of a proof.
fn proof_bytes(mode: Security) -> RangeInclusive<usize> {
    let bytes = match mode {
        Security::None => 0,
        Security::Auth | Security::Encrypt => PROOF_BYTES,
    };
    bytes..=bytes
}

const _: () = assert!(WANTED_BYTES + CHECK_BYTES <= ASK_OVERHEAD_BYTES);
const _: () = assert!(ANSWER_OVERHEAD_BYTES + OUTCOME_BYTES <= ASK_OVERHEAD_BYTES);
