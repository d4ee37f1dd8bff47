//! What travels between two processes: identifiers, units and every packet
//! header, with its parse and its emit. `docs/wire.md` is the normative text,
//! byte by byte; this crate is its code and holds no state.
//!
//! Invariants: every layout is asserted at compile time; everything is little
//! endian; [`Packet::parse`] accepts exactly what [`Packet::emit`] can produce
//! and refuses the rest with a typed error, whatever bytes it is given.

#![forbid(unsafe_code)]

mod atomic;
mod error;
pub mod frame;
mod ids;
mod layout;
mod packet;
mod units;

pub use atomic::{AtomicOp, Datatype, ITEM_BYTES_MAX};
pub use error::WireError;
pub use ids::{MatchBits, PacketSeq, PeerId, PtIndex, RemoteKey};
pub use layout::{HEAD_BYTES, SLOT_BYTES, SLOT_PREFIX_BYTES, VERSION};
pub use packet::{
    Ack, AckKind, Answer, Atomic, Bulk, Credits, Cts, Decline, Found, Get, GetDone, HeadBuf, List,
    Offer, PUT_INLINE_BYTES_MAX, Packet, Parsed, Pull, Put, REPLY_HEADER_BYTES, Recovery, Reply,
    ReturnResponse, Rtr, Rts, SLOT_WORDS, Search, Status, Waiting, Watch, Word, Written,
};
pub use units::{Addr, Nanos, Region};

/// Bytes of a packet that the first slot of a mailbox holds.
pub const FIRST_SLOT_BYTES: u64 = SLOT_BYTES as u64;
/// Bytes of a packet that each further slot holds: a slot less its stamp.
pub const NEXT_SLOT_BYTES: u64 = SLOT_BYTES as u64 - 4;

/// How many slots a packet of `bytes` (header and payload together) takes.
///
/// The first slot carries 64 bytes, the rail's prefix among them; each further
/// one carries 60 behind its own stamp (`docs/wire.md`, "Slots").
#[must_use]
#[inline]
pub fn slots_for(bytes: u64) -> u32 {
    let slots = if bytes <= FIRST_SLOT_BYTES {
        1
    } else {
        1 + (bytes - FIRST_SLOT_BYTES).div_ceil(NEXT_SLOT_BYTES)
    };
    // A packet is at most u32::MAX bytes of payload, hence this fits.
    u32::try_from(slots).unwrap_or(u32::MAX)
}
