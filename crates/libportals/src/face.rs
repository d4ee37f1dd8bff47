//! What a lock on an interface leads to: its engine, its rail, and who its
//! peers are.

use crate::handle::Kind;
use crate::object::Parts;
use crate::peers::{Peers, Phys};
use sluice_link::{Machine, Opened, PeerError, Port, RailError, Token};
use sluice_portals::{Ni, Taken};
use sluice_rail::shm::{Name, PidClaim, Shm};
use sluice_wire::{Nanos, Parsed, PeerId};

/// Packets taken in one go: enough to be cheap, few enough that a caller who
/// waits for one of them does not wait for all.
const PACKETS_PER_POLL: usize = 64;

/// The engine of an interface, as the rail drives it.
#[derive(Debug)]
pub(crate) struct Engine {
    pub ni: Ni,
    pub peers: Peers,
}

/// All of an interface that its lock protects.
#[derive(Debug)]
pub(crate) struct Face {
    pub engine: Engine,
    pub shm: Shm,
    pub own: Phys,
    pub is_logical: bool,
    pub is_matching: bool,
    /// `PtlNIInit` calls that `PtlNIFini` has not undone.
    pub references: u32,
    pub uid: u32,
    pub features: u32,
    /// `PtlStartBundle` calls that `PtlEndBundle` has not undone.
    pub bundles: u32,
    /// Where the next look at several queues or counters begins, so that none
    /// is neglected.
    pub poll_from: usize,
    pub _name: Name,
    pub _pid: PidClaim,
}

impl Face {
    /// Takes in what has arrived. Says how much there was.
    #[inline]
    pub fn poll(&mut self) -> usize {
        let now = self.shm.now();
        self.shm.poll(now, &mut self.engine, PACKETS_PER_POLL)
    }

    /// Whether the object that a handle names is there.
    pub fn has(&self, parts: &Parts) -> bool {
        let ni = &self.engine.ni;
        match parts.kind() {
            Kind::Ni => true,
            Kind::Eq => ni.has_eq(parts.table()),
            Kind::Ct => ni.ct(parts.table()).is_some(),
            Kind::Md => ni.has_md(parts.table()),
            Kind::Le | Kind::Me => ni.has_me(parts.table()),
        }
    }

    /// Whether somebody who sleeps would miss something.
    pub fn has_work(&mut self) -> bool {
        self.shm.has_work()
    }
}

impl Machine for Engine {
    #[inline]
    fn on_packet<P: Port>(&mut self, _: Nanos, port: &mut P, from: PeerId, packet: &Parsed) {
        if self.ni.on_packet(port, from, packet) == Taken::Violation {
            self.ni.on_peer_gone(port, from, PeerError::Protocol);
        }
    }

    fn on_connected<P: Port>(&mut self, _: Nanos, port: &mut P, peer: PeerId, opened: Opened) {
        if let Err(why) = self.ni.on_connected(port, peer, opened) {
            self.ni.on_peer_gone(port, peer, why);
            self.peers.forget(peer);
        }
    }

    fn on_transmitted<P: Port>(&mut self, _: Nanos, port: &mut P, token: Token) {
        self.ni.on_transmitted(port, token);
    }

    fn on_moved<P: Port>(
        &mut self,
        _: Nanos,
        port: &mut P,
        token: Token,
        outcome: Result<(), RailError>,
    ) {
        self.ni.on_moved(port, token, outcome);
    }

    fn on_peer_gone<P: Port>(&mut self, _: Nanos, port: &mut P, peer: PeerId, why: PeerError) {
        self.ni.on_peer_gone(port, peer, why);
        self.peers.forget(peer);
    }

    #[inline]
    fn on_idle<P: Port>(&mut self, _: Nanos, port: &mut P) {
        self.ni.on_idle(port);
    }

    fn deadline(&self) -> Option<Nanos> {
        None
    }
}
