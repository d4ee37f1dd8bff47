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
    Offer, PUT_INLINE_BYTES_MAX, Packet, Parsed, Plain, PlainParsed, Pull, Put, REPLY_HEADER_BYTES,
    Recovery, Reply, ReturnResponse, Rtr, Rts, SLOT_WORDS, Search, Status, Waiting, Watch, Word,
    Written,
};
pub use units::{Addr, Nanos, Region};

/// How many slots a packet with a header of `header_bytes`, which fits one slot, and
/// `payload_bytes` behind it takes.
///
/// A packet that fits one slot takes one. The payload of any other one begins with the
/// second slot, so that it lies in one piece (`docs/wire.md`, "Packets and slots").
#[must_use]
#[inline]
pub fn slots_for(header_bytes: u64, payload_bytes: u64) -> u32 {
    if header_bytes.saturating_add(payload_bytes) <= SLOT_BYTES as u64 {
        return 1;
    }
    // A packet is at most u32::MAX bytes of payload, hence this fits.
    u32::try_from(1 + payload_bytes.div_ceil(SLOT_BYTES as u64)).unwrap_or(u32::MAX)
}

/// Most bytes of payload in a packet of `slots` slots, two or more.
#[must_use]
pub const fn payload_bytes_max(slots: u64) -> u64 {
    debug_assert!(slots >= 2);
    (slots - 1) * SLOT_BYTES as u64
}
