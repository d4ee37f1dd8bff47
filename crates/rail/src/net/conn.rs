//! One connection: a rail to one peer that is open.

use super::outbound::Outbound;
use rustix::fd::OwnedFd;
use sluice_multirail::{ChunkId, RailId};
use sluice_wire::frame::{FrameHead, FrameKind};
use sluice_wire::{Nanos, PeerId};

/// Frames and bytes that may wait for the next poll while more follow at once.
const HELD_FRAMES_MAX: u32 = 16;
const HELD_BYTES_MAX: u64 = 16 << 10;
/// For how long after a system call packets that follow at once wait for each other:
/// about what two such calls take.
const BURST_NS: u64 = 10_000;
/// Polls in vain after which a connection is left to the system's list of those that
/// have something.
const COLD_POLLS: u32 = 4096;

/// See the module.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) socket: OwnedFd,
    pub(super) peer: PeerId,
    pub(super) rail: RailId,
    pub(super) out: Outbound,
    /// The beginning of a frame whose rest has not come.
    pub(super) partial: Vec<u8>,
    /// A chunk that is coming.
    pub(super) data: Option<DataIn>,
    /// The socket takes nothing for now.
    pub(super) is_blocked: bool,
    /// It is in the list of those that have something to send.
    pub(super) is_dirty: bool,
    /// Nothing has come in so many polls in a row.
    pub(super) polls_in_vain: u32,
    pub(super) probes: Probes,
    /// When the socket was given something last, and in which poll.
    given: Nanos,
    given_epoch: u64,
    held_frames: u32,
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
    pub(super) fn new(socket: OwnedFd, peer: PeerId, rail: RailId) -> Conn {
        Conn {
            socket,
            peer,
            rail,
            out: Outbound::default(),
            partial: Vec::new(),
            data: None,
            is_blocked: false,
            is_dirty: false,
            polls_in_vain: 0,
            probes: Probes::default(),
            given: Nanos(0),
            given_epoch: 0,
            held_frames: 0,
        }
    }

    /// A frame without a body that belongs to the connection.
    pub(super) fn push_bare(&mut self, kind: FrameKind, id: u32, acknowledged: u64) {
        let head = FrameHead { kind, len: 0, id, acknowledged };
        self.out.push(&[&head.emit()]);
    }

    /// Whether a packet that was just put into the stream is to be given to the socket
    /// now, where `held` bytes of the stream wait. One that stands alone is; of several
    /// in a row those after the first wait for each other, which costs one system call
    /// instead of many.
    pub(super) fn is_due(&mut self, now: Nanos, epoch: u64, held: u64) -> bool {
        if self.is_blocked {
            return false;
        }
        self.held_frames += 1;
        self.given_epoch != epoch
            || now.since(self.given).0 >= BURST_NS
            || self.held_frames >= HELD_FRAMES_MAX
            || held >= HELD_BYTES_MAX
    }

    /// The socket has been given what there was.
    pub(super) fn note_given(&mut self, now: Nanos, epoch: u64) {
        (self.given, self.given_epoch, self.held_frames) = (now, epoch, 0);
    }

    /// Something has come.
    pub(super) fn note_heard(&mut self) {
        self.polls_in_vain = 0;
        self.probes = Probes::default();
    }

    /// Nothing has come. Says whether it is to be left to the system's list.
    pub(super) fn note_vain(&mut self) -> bool {
        self.polls_in_vain += 1;
        self.polls_in_vain >= COLD_POLLS
    }
}
