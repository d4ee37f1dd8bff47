//! What travels on a connection between two processes, and what a process keeps of it.

use crate::flight::Flight;
use crate::memory::Memory;
use sluice_link::{Exposures, RailError, Remote};
use sluice_multirail::{ChunkId, Number};
use sluice_wire::{PeerId, Region};

/// Bytes of a frame without its body, as on a TCP rail.
const HEADER_BYTES: u64 = 24;

/// What belongs to the world around rails.
pub(crate) struct Cx<'a> {
    pub now: u64,
    pub memories: &'a mut [Memory],
    /// What each process has exposed.
    pub exposures: &'a mut [Exposures],
}

impl Cx<'_> {
    /// Where a process has `len` bytes that a peer wants to read, or to write.
    pub fn resolve(
        &self,
        owner: usize,
        peer: usize,
        remote: Remote,
        len: u64,
        is_write: bool,
    ) -> Result<Region, RailError> {
        let found = self.exposures[owner].resolve(PeerId(peer as u32), remote, len, is_write);
        Ok(Region { addr: found?, len })
    }
}

/// What the stream of a peer is made of: kept until it is acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) enum Message {
    /// A packet, and the slots that it takes.
    Packet(Flight, u32),
    /// "Read this from me into that": its name, what to read, and where to.
    Write { id: u64, from: Remote, into: Remote, len: u64 },
    /// How that ended.
    Written { id: u64, outcome: Result<(), RailError> },
}

impl Message {
    fn bytes(&self) -> u64 {
        match self {
            Message::Packet(_, slots) => 64 * u64::from(*slots),
            Message::Write { .. } => 40,
            Message::Written { .. } => 9,
        }
    }
}

#[derive(Debug)]
pub(super) enum Body {
    /// A connection is asked for, and granted. It is there when the first frame of
    /// another kind has come from whoever asked.
    Hello,
    Welcome,
    /// It is no more, or never was.
    Reset,
    Stream(Number, Message),
    Ask {
        chunk: ChunkId,
        from: Remote,
        len: u64,
    },
    Data {
        chunk: ChunkId,
        bytes: Vec<u8>,
    },
    /// The key of a chunk does not reach.
    Fault(ChunkId),
    Probe,
    Answer,
}

impl Body {
    pub fn bytes(&self) -> u64 {
        HEADER_BYTES
            + match self {
                Body::Stream(_, message) => message.bytes(),
                Body::Ask { .. } => 24,
                Body::Data { bytes, .. } => bytes.len() as u64,
                _ => 0,
            }
    }

    /// Whether nobody waits for it who does anything.
    pub fn is_idle(&self) -> bool {
        matches!(self, Body::Probe | Body::Answer)
    }
}

#[derive(Debug)]
pub(super) struct Frame {
    /// All packets of the stream before this one have come.
    pub acknowledged: Number,
    pub body: Body,
}
