//! What stands between a program and its mailbox: the part of a process that
//! differs between the layers. A process does one thing at a time, and pays
//! for it before it is done; so a library is asked what comes next and what it
//! costs, and then told to do it.

use crate::flight::{Flight, Store};
use crate::port::SimPort;
use crate::program::Op;
use sluice_link::{Links, RailError, Token};
use sluice_wire::{Nanos, Parsed, PeerId};

/// A message that goes to a process of the same node through its memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local {
    pub to: u32,
    pub bytes: u32,
}

/// What must have ended for an operation to be over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// Nothing that can wait.
    Begun,
    /// What it is about itself.
    Own,
    /// So many receives from a rank.
    Received(u32, u32),
    /// All that was begun or announced.
    All,
}

impl Until {
    pub fn of(op: Op) -> Until {
        match op {
            Op::Post { .. }
            | Op::PostSend { .. }
            | Op::PostRecv { .. }
            | Op::Stream { .. }
            | Op::Away { .. }
            | Op::Rest { .. } => Until::Begun,
            Op::Await { from, number } => Until::Received(from, number),
            Op::Settle => Until::All,
            Op::Send { .. } | Op::Recv { .. } | Op::Both { .. } => Until::Own,
        }
    }
}

/// See the module.
pub(crate) trait Library {
    /// Whether a send was paid for before it is made; if not, each packet that
    /// goes is charged afterwards.
    const SENDS_ARE_PREPAID: bool;
    /// Whether a process reads itself that bytes were moved, when it looks; if
    /// not, the interface sees to what follows.
    const ENDS_ARE_READ: bool;

    /// Whether it exposes the memory that others move; if not, its transfers take time
    /// and move nothing.
    const EXPOSES: bool;

    /// Begins an operation. What it costs, and the message that does not go
    /// through the network at all.
    fn start(&mut self, now: Nanos, port: &mut SimPort<'_>, op: Op) -> (u64, Option<Local>);
    /// Whether what has arrived is taken in before this operation.
    fn should_poll_first(&self, op: Op) -> bool;
    /// Whether the operation is over.
    fn is_done(&self) -> bool;
    /// Whether a packet can go now; what that costs.
    fn next_send(&mut self) -> Option<u64>;
    /// Sends it.
    fn send(&mut self, port: &mut SimPort<'_>);
    /// Whether something is to be sent and nothing may be.
    fn is_blocked(&self) -> bool;
    /// What it costs to take this packet out of the mailbox.
    fn receive_cost(&self, flight: Flight, store: &Store) -> u64;
    /// Takes it out. What it costs besides.
    fn receive(&mut self, now: Nanos, port: &mut SimPort<'_>, from: PeerId, packet: &Parsed)
    -> u64;
    /// A message through the memory of the node has come.
    fn receive_local(&mut self, from: u32);
    /// Bytes have been moved. Whom to tell, if the library does not itself, and
    /// what it costs.
    fn moved(
        &mut self,
        now: Nanos,
        port: &mut SimPort<'_>,
        token: Token,
        outcome: Result<(), RailError>,
    ) -> (Option<u32>, u64);
    /// Somebody has fetched what was announced to it.
    fn fetched(&mut self);
    /// The mailbox is empty and nothing can be sent. When to look again.
    fn idle(&mut self, now: Nanos, port: &mut SimPort<'_>) -> Option<Nanos>;
    /// Messages begun, and those of them that had to wait for credits.
    fn messages(&self) -> (u64, u64);
    /// Whether something is pending. If not, nothing may be exposed.
    fn has_pending(&self) -> bool;
    /// The links, to be looked at.
    fn links(&self) -> &Links;
    /// Data credits that it has toward a process.
    fn credits_toward(&self, process: u32) -> u32;
    /// Panics unless the books are in order.
    fn check_invariants(&self);
}
