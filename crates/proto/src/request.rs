//! Pending requests: what the endpoint keeps of a send, a receive and a probe until
//! its completion is pushed, and what each of them waits for.
//!
//! A state names what ends the wait, and no more than what is needed then; how one
//! follows the other is told by the files of sends, receives and `rendezvous`.

use crate::api::{Probe, Recv, Send};
use crate::multi::MultiOp;
use crate::recvs::Pieces;
use crate::rendezvous::pull::Pull;
use sluice_link::{ClaimsId, Token};
use sluice_portals::{Event, Handle, Me, NiFail};
use sluice_wire::{Addr, PeerId, Region, RemoteKey};

/// A pending send.
#[derive(Debug)]
pub(crate) struct SendOp {
    pub send: Send,
    pub state: SendState,
    pub sender_copy: SenderCopy,
    /// Lent memory that holds the bytes of an injected message: the caller's
    /// own may have changed since.
    pub copy: Option<Addr>,
}

impl SendOp {
    /// Where its bytes are.
    pub fn bytes(&self) -> Region {
        Region { addr: self.copy.unwrap_or(self.send.buf.addr), len: self.send.buf.len }
    }
}

/// Where a receiver fetches a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exposed {
    /// The get entry.
    pub entry: Handle<Me>,
    /// Names its bytes, for a rail that reads them.
    pub key: RemoteKey,
}

/// What a pending send waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendState {
    /// Credits.
    Queued,
    /// The rail to have read its memory.
    Transmitting,
    /// The target's acknowledgement. Its memory is `read`, or may still be by the rail.
    Acking { read: bool },
    /// Word of the rail that the message has met its receive.
    AtRail,
    /// The receiver to fetch it from here.
    Announced(Exposed),
    /// Credits, and the receiver that was told of it, under this number, to fetch
    /// it from here or to decline it.
    Offered(Exposed, u64),
    /// The rail to write no more from its memory. Its end is known.
    Leaving(Result<(), NiFail>),
}

/// What this process does to move the bytes of a send that was announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SenderCopy {
    /// Nothing: it was not asked to.
    None,
    /// It copies the chunks that it takes by these claims of the receiver's.
    Sharing(ClaimsId),
    /// It writes all that the receiver asked for under this name.
    Putting { op: u64, len: u64 },
    /// Nothing any more.
    Done,
}

/// How far a send got when it was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Started {
    /// It is done.
    Done,
    /// It waits for something.
    Waits(SendState, SenderCopy),
}

/// A pending receive.
#[derive(Debug)]
pub(crate) struct RecvOp {
    pub recv: Recv,
    /// Order of posting, for cancel.
    pub serial: u64,
    pub state: RecvState,
    /// While it waits for a message and its source was told so: the chunk claims that
    /// decide who uses it.
    pub announced: Option<ClaimsId>,
    pub shape: Shape,
}

/// What the buffer of a receive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One region, for one message.
    Whole,
    /// What is left of a buffer for many messages.
    Part(Handle<MultiOp>),
    /// Several regions, one behind the other. What the receive says of its buffer is their
    /// length alone.
    Pieces(Handle<Pieces>),
}

impl RecvOp {
    /// The buffer for many messages that it is a part of.
    pub fn multi(&self) -> Option<Handle<MultiOp>> {
        match self.shape {
            Shape::Part(multi) => Some(multi),
            Shape::Whole | Shape::Pieces(_) => None,
        }
    }

    /// Whether its buffer is several regions.
    pub fn is_in_pieces(&self) -> bool {
        matches!(self.shape, Shape::Pieces(_))
    }

    /// Whether it waits for a message.
    pub fn is_posted(&self) -> bool {
        matches!(self.state, RecvState::Posted(Some(_)))
    }
}

/// What a pending receive waits for.
#[derive(Debug)]
pub(crate) enum RecvState {
    /// A message. `None` only until the one that was there already is told.
    Posted(Option<Handle<Me>>),
    /// A message that the rail matches, or word that it has.
    AtRail,
    /// The bytes of an announced message.
    Pulling(Box<Pull>),
}

/// A probe that waits for the answers of stalled senders.
#[derive(Debug)]
pub(crate) struct ProbeOp {
    pub probe: Probe,
    /// Its place among the receives.
    pub serial: u64,
    /// Who has not answered yet.
    pub pending: Vec<PeerId>,
}

/// A message taken out of the matching by a probe.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub context: u64,
    pub event: Event,
    /// It was taken from the queue of a stalled sender.
    pub taken: bool,
    /// The rail has matched it, and has its bytes under this name.
    pub at_rail: Option<Token>,
}
