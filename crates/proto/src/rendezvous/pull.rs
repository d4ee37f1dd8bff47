//! An announced message whose bytes are on their way here.

use super::rtr_list::AnnouncedRecv;
use super::window::Window;
use crate::api::Failure;
use sluice_link::ClaimsId;
use sluice_portals::Event;
use sluice_wire::{MatchBits, RemoteKey, Rts};

/// See the module.
#[derive(Debug)]
pub(crate) struct Pull {
    /// The event that matched it.
    pub event: Event,
    /// It was taken from the queue of a stalled sender.
    pub taken: bool,
    /// The sender's get entry.
    pub key: MatchBits,
    /// Names the bytes in the sender's memory.
    pub from: RemoteKey,
    /// Names the buffer, once the sender was told where to write.
    pub into: RemoteKey,
    /// Bytes wanted: what fits of what there is.
    pub want: u64,
    /// Bytes asked for.
    pub asked: u64,
    /// Bytes arrived.
    pub got: u64,
    /// What is out: gets, or one shared transfer, or one put.
    pub in_flight: u32,
    /// Of the gets of chunks.
    pub window: Window,
    /// Whether it waits for its turn to ask for a chunk.
    pub awaits_turn: bool,
    pub method: BulkMethod,
    /// Whether the rail may be asked to read directly.
    pub direct: bool,
    /// The sender knows already that it is done.
    pub sender_knows: bool,
    /// What went wrong; the pull ends once nothing is in flight.
    pub failure: Option<Failure>,
}

/// How the bytes of an announced message come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BulkMethod {
    /// This process asks for them.
    Asked,
    /// Both sides take chunks by these claims.
    Shared(ClaimsId),
    /// The sender writes them and says so.
    Written,
}

/// An announcement that has met its receive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Announced {
    /// The event that says so.
    pub event: Event,
    pub rts: Rts,
    /// It was taken from the queue of a stalled sender.
    pub taken: bool,
    /// Where its sender writes already: the receive, if that was announced.
    pub recv: Option<AnnouncedRecv>,
}
