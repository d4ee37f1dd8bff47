//! What is asked of remote memory.

use sluice_wire::{Addr, AtomicOp, Datatype, ITEM_BYTES_MAX, PeerId, Region};

/// What peers may do with a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// They may read it. To combine with it and be told the values from before they need both.
    pub read: bool,
    /// They may write it, and combine with it.
    pub write: bool,
}

/// A region of this process's memory for its peers.
#[derive(Clone, Debug)]
pub struct Exposed<'a> {
    /// What they name it by. No other region of this process has it.
    pub key: u64,
    /// Its memory, piece behind piece.
    pub pieces: &'a [Region],
    /// What they may do.
    pub access: Access,
    /// Offsets are addresses: that of the first byte is its offset. Of a region in one piece.
    pub addressed: bool,
    /// What peers do is told here, by a quiet completion of each operation with this context.
    pub told: Option<u64>,
}

/// A part of an operation: memory here and there.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The bytes that are written or combined, or the place for those that are read.
    pub local: Region,
    /// The key of the region there.
    pub key: u64,
    /// The offset in it, in bytes.
    pub offset: u64,
    /// Where the values from before go, of an operation that fetches them.
    pub result: Addr,
    /// The operand of an operation that compares or masks.
    pub operand: [u8; ITEM_BYTES_MAX],
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Bytes from here are written there.
    Write,
    /// Bytes from there are read.
    Read,
    /// Values from here are combined with those there.
    Combine(AtomicOp, Datatype),
    /// The same, and the values from before are fetched.
    Fetch(AtomicOp, Datatype),
}

/// An operation on a peer's memory.
#[derive(Clone, Copy, Debug)]
pub struct Rma<'a> {
    /// What it does.
    pub deed: Deed,
    /// With whose memory.
    pub peer: PeerId,
    /// Its parts.
    pub parts: &'a [Part],
    /// Out-of-band data that the peer is told when a write is done there. One without parts
    /// tells nothing.
    pub data: Option<u64>,
    /// Returned in the completion.
    pub context: u64,
    /// Whether a success is told, or only counted by a quiet completion.
    pub report: bool,
    /// The bytes may be reused as soon as the call returns.
    pub inject: bool,
    /// It begins when all earlier operations on this peer, and messages to it, have ended.
    pub fence: bool,
}
