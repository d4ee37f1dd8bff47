//! One connection: a rail to one peer that is open.

use super::bursts::Burst;
use super::drain::Drain;
use super::lane::Lane;
use super::listing::Listing;
use super::outbound::Outbound;
use super::sealed::Unsealing;
use super::{BUFFER_BYTES, TAIL_BYTES};
use sluice_multirail::{ChunkId, RailId};
use sluice_wire::frame::{FrameHead, FrameKind};
use sluice_wire::{Nanos, PeerId};

/// Polls in vain after which a connection is left to the system's list of those that
/// have something.
const COLD_POLLS: u32 = 4096;

/// A chunk of so many bytes is worth a system call of its own, so that it is received into
/// its place: to copy it takes longer.
const CHUNK_BYTES_DIRECT: u64 = 8 << 10;

/// See the module.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) lane: Lane,
    pub(super) peer: PeerId,
    pub(super) rail: RailId,
    pub(super) origin: Origin,
    /// The own device that it goes by.
    pub(super) device: u8,
    pub(super) out: Outbound,
    /// The beginning of a frame whose rest has not come.
    pub(super) partial: Vec<u8>,
    /// What opens what comes, where it is sealed.
    pub(super) unsealing: Option<Box<Unsealing>>,
    /// A chunk that is coming.
    pub(super) data: Option<DataIn>,
    /// What comes next is a chunk, most likely.
    pub(super) expects_chunk: bool,
    /// The socket takes nothing for now.
    pub(super) is_blocked: bool,
    /// It has had enough chunks, and nothing else is to go before then.
    pub(super) rests_until: Option<Nanos>,
    /// It is in the list of those that have something to send.
    pub(super) is_dirty: bool,
    pub(super) listing: Listing,
    /// It is among those that are looked at in this poll.
    pub(super) is_in_turn: bool,
    /// Nothing has come in so many polls in a row.
    pub(super) polls_in_vain: u32,
    /// Something has come since a thread slept last.
    pub(super) has_come: bool,
    /// So many bytes wake a thread that sleeps.
    wake_bytes: u32,
    pub(super) probes: Probes,
    pub(super) drain: Drain,
    /// The last frame was said.
    pub(super) has_said_close: bool,
    /// Frames of the stream that wait for others.
    pub(super) burst: Burst,
}

/// Which of the two has asked for a connection, and the number of what the peer then said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) by_me: bool,
    pub(super) attempt: u32,
}

impl Origin {
    /// Whether this one, which `own_first` says goes before the peer's, stays when another one
    /// of the same rail is open: both had asked at once, and the peer had asked for the other
    /// one before it answered for this one. A peer that has asked later has lost this one.
    pub(super) fn stays(self, other: Origin, own_first: bool) -> bool {
        let is_before = (other.attempt.wrapping_sub(self.attempt) as i32) < 0;
        own_first && self.by_me && !other.by_me && is_before
    }
}

/// A frame of data, part of which has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataIn {
    pub(super) chunk: ChunkId,
    /// Bytes that have not come.
    pub(super) left: u32,
}

/// When a silent peer was asked whether its host lives.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probes {
    pub(super) count: u32,
    pub(super) next: Nanos,
}

impl Conn {
    pub(super) fn new(lane: Lane, peer: PeerId, rail: RailId, device: u8, origin: Origin) -> Conn {
        Conn {
            lane,
            peer,
            rail,
            origin,
            device,
            out: Outbound::default(),
            partial: Vec::new(),
            unsealing: None,
            data: None,
            expects_chunk: false,
            is_blocked: false,
            rests_until: None,
            is_dirty: false,
            listing: Listing::default(),
            is_in_turn: false,
            polls_in_vain: 0,
            has_come: false,
            wake_bytes: 1,
            probes: Probes::default(),
            drain: Drain::default(),
            has_said_close: false,
            burst: Burst::default(),
        }
    }

    /// A frame without a body that belongs to the connection.
    pub(super) fn push_bare(&mut self, kind: FrameKind, id: u32, acknowledged: u64) {
        let head = FrameHead { kind, len: 0, id, acknowledged };
        self.out.push(&[&head.emit()]);
    }

    /// A chunk of so many bytes is coming, or was asked for.
    pub(super) fn expect_chunk(&mut self, bytes: u64) {
        self.expects_chunk = bytes >= CHUNK_BYTES_DIRECT;
    }

    /// How much is taken from the socket between two frames: where a chunk is expected its
    /// header, and little of what is then received into its place.
    pub(super) fn ahead_bytes(&self) -> usize {
        if self.expects_chunk { TAIL_BYTES } else { BUFFER_BYTES }
    }

    /// Something has come.
    pub(super) fn note_heard(&mut self) {
        self.polls_in_vain = 0;
        self.has_come = true;
        self.probes = Probes::default();
    }

    /// So many bytes, at least one, are to wake a thread that sleeps. Says whether it takes
    /// more than one.
    pub(super) fn wake_from(&mut self, bytes: u32) -> bool {
        if self.wake_bytes != bytes && self.lane.wake_from(bytes) {
            self.wake_bytes = bytes;
        }
        self.gathers()
    }

    /// Whether it takes more than one byte to wake a thread that sleeps.
    pub(super) fn gathers(&self) -> bool {
        self.wake_bytes > 1
    }

    /// Nothing has come. Says whether it is to be left to the system's list.
    pub(super) fn note_vain(&mut self) -> bool {
        self.polls_in_vain += 1;
        self.polls_in_vain >= COLD_POLLS
    }
}
