//! The endpoint of one process. (Under construction.)

use crate::api::{Completion, Config, Probe, Recv, Refused, Send, Stats};
use sluice_link::{Layout, Machine, PeerError, Port, RailError, Token};
use sluice_wire::{Nanos, Parsed, PeerId, Region};

/// One process's endpoint: a [`Machine`] over all its peers.
#[derive(Debug)]
pub struct Endpoint {}

impl Endpoint {
    /// An endpoint whose own mailbox is divided as `mailbox` says.
    #[must_use]
    pub fn new(_config: Config, _mailbox: Layout) -> Endpoint {
        Endpoint {}
    }

    /// Takes a message to send.
    ///
    /// # Errors
    /// [`Refused`]; the request leaves no trace then.
    pub fn send<P: Port>(&mut self, _now: Nanos, _port: &mut P, _send: &Send) -> Result<(), Refused> {
        unreachable!()
    }

    /// Takes a receive.
    ///
    /// # Errors
    /// [`Refused`]; the request leaves no trace then.
    pub fn recv<P: Port>(&mut self, _now: Nanos, _port: &mut P, _recv: &Recv) -> Result<(), Refused> {
        unreachable!()
    }

    /// Looks for an unexpected message; the answer is a completion, pushed
    /// before this returns.
    ///
    /// # Errors
    /// [`Refused::Again`] if too much is pending.
    pub fn probe<P: Port>(&mut self, _now: Nanos, _port: &mut P, _probe: &Probe) -> Result<(), Refused> {
        unreachable!()
    }

    /// Receives the message claimed by the probe with this `context`.
    ///
    /// # Errors
    /// [`Refused::NotClaimed`] if there is none.
    pub fn recv_claimed<P: Port>(
        &mut self,
        _now: Nanos,
        _port: &mut P,
        _context: u64,
        _buf: Region,
        _report: bool,
    ) -> Result<(), Refused> {
        unreachable!()
    }

    /// Drops the message claimed by the probe with this `context`; completes
    /// like a receive of no bytes.
    ///
    /// # Errors
    /// [`Refused::NotClaimed`] if there is none.
    pub fn discard_claimed<P: Port>(
        &mut self,
        _now: Nanos,
        _port: &mut P,
        _context: u64,
        _report: bool,
    ) -> Result<(), Refused> {
        unreachable!()
    }

    /// Cancels the oldest pending receive with this `context`. True if one was
    /// found unmatched: its completion says [`crate::Failure::Cancelled`].
    pub fn cancel<P: Port>(&mut self, _now: Nanos, _port: &mut P, _context: u64) -> bool {
        unreachable!()
    }

    /// The next ended request.
    pub fn pop(&mut self) -> Option<Completion> {
        unreachable!()
    }

    /// Counts.
    #[must_use]
    pub fn stats(&self) -> Stats {
        unreachable!()
    }
}

impl Machine for Endpoint {
    fn on_packet<P: Port>(&mut self, _: Nanos, _: &mut P, _: PeerId, _: &Parsed) {}
    fn on_transmitted<P: Port>(&mut self, _: Nanos, _: &mut P, _: Token) {}
    fn on_read_done<P: Port>(&mut self, _: Nanos, _: &mut P, _: Token, _: Result<(), RailError>) {}
    fn on_peer_gone<P: Port>(&mut self, _: Nanos, _: &mut P, _: PeerId, _: PeerError) {}
    fn on_idle<P: Port>(&mut self, _: Nanos, _: &mut P) {}
    fn deadline(&self) -> Option<Nanos> {
        None
    }
}
