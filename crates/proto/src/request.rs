//! Pending requests: what the endpoint keeps of a send and of a receive until its
//! completion is pushed, and what each of them waits for.
//!
//! A state names what ends the wait, and no more than what is needed then; how one
//! follows the other is told by the files of `send`, `recv` and `rendezvous`.

use crate::api::{Recv, Send};
use crate::rendezvous::Pull;
use sluice_link::Tally;
use sluice_portals::{Handle, Me, NiFail};
use sluice_wire::{Addr, Region};

/// A pending send.
#[derive(Debug)]
pub(crate) struct SendOp {
    pub send: Send,
    pub state: SendState,
    pub part: Part,
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

/// What a pending send waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendState {
    /// Credits.
    Queued,
    /// The rail to have read its memory.
    Transmitting,
    /// The target's acknowledgement.
    Acking,
    /// The receiver to fetch it from this get entry.
    Announced(Handle<Me>),
    /// Credits, and the receiver that was told of it, under this number, to fetch
    /// it from this get entry or to decline it.
    Offered(Handle<Me>, u64),
    /// The rail to write no more from its memory. Its end is known.
    Leaving(Result<(), NiFail>),
}

/// What this process does to move the bytes of a send that was announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Nothing: it was not asked to.
    None,
    /// It copies the chunks that it takes from this tally of the receiver.
    Sharing(Tally),
    /// It writes all that the receiver asked for under this name.
    Putting { op: u64, len: u64 },
    /// Nothing any more.
    Done,
}

/// A pending receive.
#[derive(Debug)]
pub(crate) struct RecvOp {
    pub recv: Recv,
    /// Order of posting, for cancel.
    pub serial: u64,
    pub state: RecvState,
    /// While it waits for a message and its source was told so: the tally that
    /// decides who uses it.
    pub announced: Option<Tally>,
}

/// What a pending receive waits for.
#[derive(Debug)]
pub(crate) enum RecvState {
    /// A message. `None` only until the one that was there already is told.
    Posted(Option<Handle<Me>>),
    /// The bytes of an announced message.
    Pulling(Box<Pull>),
}
