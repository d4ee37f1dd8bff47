//! Reads of the other process's memory past all protocol, and the machine that hears of
//! their ends.

use sluice_link::{Machine, Opened, PeerError, Port, RailError, Token};
use sluice_proto::Endpoint;
use sluice_wire::{Nanos, Parsed, PeerId, PlainParsed, Region};

/// Most reads past all protocol at once. Their tokens are the last ones, which no operation
/// of an endpoint has: those name entries of tables with a limit.
pub const READS_MAX: u64 = 256;

const FIRST: u64 = u64::MAX - READS_MAX;

/// The token of a read by its number.
pub fn token(read: u64) -> Token {
    debug_assert!(read < READS_MAX, "so many reads have no tokens");
    Token(FIRST + read)
}

/// An endpoint, and beside it reads past all protocol.
#[derive(Debug)]
pub struct Reader {
    pub endpoint: Endpoint,
    /// The reads that have ended and have not been asked for, and how.
    pub ended: Vec<(u64, Result<(), RailError>)>,
}

impl Reader {
    pub fn new(endpoint: Endpoint) -> Reader {
        Reader { endpoint, ended: Vec::new() }
    }
}

impl Machine for Reader {
    #[inline]
    fn on_packet<P: Port>(&mut self, now: Nanos, port: &mut P, from: PeerId, packet: &Parsed) {
        self.endpoint.on_packet(now, port, from, packet);
    }

    #[inline]
    fn on_plain<P: Port>(&mut self, now: Nanos, port: &mut P, from: PeerId, packet: &PlainParsed) {
        self.endpoint.on_plain(now, port, from, packet);
    }

    #[inline]
    fn placement(&self, from: PeerId, packet: &Parsed) -> Option<Region> {
        self.endpoint.placement(from, packet)
    }

    fn on_connected<P: Port>(&mut self, now: Nanos, port: &mut P, peer: PeerId, opened: Opened) {
        self.endpoint.on_connected(now, port, peer, opened);
    }

    #[inline]
    fn on_transmitted<P: Port>(&mut self, now: Nanos, port: &mut P, token: Token) {
        self.endpoint.on_transmitted(now, port, token);
    }

    #[inline]
    fn on_moved<P: Port>(
        &mut self,
        now: Nanos,
        port: &mut P,
        token: Token,
        outcome: Result<(), RailError>,
    ) {
        match token.0.checked_sub(FIRST) {
            Some(read) => self.ended.push((read, outcome)),
            None => self.endpoint.on_moved(now, port, token, outcome),
        }
    }

    fn on_peer_gone<P: Port>(&mut self, now: Nanos, port: &mut P, peer: PeerId, why: PeerError) {
        self.endpoint.on_peer_gone(now, port, peer, why);
    }

    #[inline]
    fn on_idle<P: Port>(&mut self, now: Nanos, port: &mut P) {
        self.endpoint.on_idle(now, port);
    }

    #[inline]
    fn deadline(&self) -> Option<Nanos> {
        self.endpoint.deadline()
    }
}
