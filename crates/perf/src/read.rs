//! A read of the other process's memory past all protocol, and the machine that
//! hears of its end.

use sluice_link::{Machine, Opened, PeerError, Port, RailError, Token};
use sluice_proto::Endpoint;
use sluice_wire::{Nanos, Parsed, PeerId, Region};

/// The token of reads past all protocol, which no operation of an endpoint has: those
/// name entries of tables with a limit.
pub const READ_TOKEN: Token = Token(u64::MAX);

/// An endpoint, and beside it the one read past all protocol.
pub struct WithRead<'a> {
    pub endpoint: &'a mut Endpoint,
    pub outcome: Option<Result<(), RailError>>,
}

impl Machine for WithRead<'_> {
    fn on_packet<P: Port>(&mut self, now: Nanos, port: &mut P, from: PeerId, packet: &Parsed) {
        self.endpoint.on_packet(now, port, from, packet);
    }

    fn placement(&self, from: PeerId, packet: &Parsed) -> Option<Region> {
        self.endpoint.placement(from, packet)
    }

    fn on_connected<P: Port>(&mut self, now: Nanos, port: &mut P, peer: PeerId, opened: Opened) {
        self.endpoint.on_connected(now, port, peer, opened);
    }

    fn on_transmitted<P: Port>(&mut self, now: Nanos, port: &mut P, token: Token) {
        self.endpoint.on_transmitted(now, port, token);
    }

    fn on_moved<P: Port>(
        &mut self,
        now: Nanos,
        port: &mut P,
        token: Token,
        outcome: Result<(), RailError>,
    ) {
        if token == READ_TOKEN {
            self.outcome = Some(outcome);
        } else {
            self.endpoint.on_moved(now, port, token, outcome);
        }
    }

    fn on_peer_gone<P: Port>(&mut self, now: Nanos, port: &mut P, peer: PeerId, why: PeerError) {
        self.endpoint.on_peer_gone(now, port, peer, why);
    }

    fn on_idle<P: Port>(&mut self, now: Nanos, port: &mut P) {
        self.endpoint.on_idle(now, port);
    }

    fn deadline(&self) -> Option<Nanos> {
        self.endpoint.deadline()
    }
}
