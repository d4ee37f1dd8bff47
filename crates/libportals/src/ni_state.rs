//! What a lock on an interface leads to: its engine, its rails, and who its
//! peers are.

use crate::book::Entry;
use crate::own::Own;
use crate::peers::Peers;
use crate::phys::Phys;
use sluice_link::{Machine, Opened, PeerError, Port, RailError, Token, Told};
use sluice_portals::{Ni, Taken};
use sluice_rail::shm::Name;
use sluice_rail::{Address, World};
use sluice_runtime::Context;
use sluice_wire::{Nanos, Parsed, PeerId, Region};

/// The engine of an interface, as the rails drive it.
#[derive(Debug)]
pub(crate) struct Engine {
    pub ni: Ni,
    pub peers: Peers,
    /// When operations that nobody acknowledges are asked about at the latest, which they
    /// are after some idle moments. A thread that would sleep has none.
    ask_by: Option<Nanos>,
}

/// For how long an operation that nobody acknowledges may wait to be asked about.
const ASK_AFTER: Nanos = Nanos(1_000_000);

/// All of an interface that its lock protects.
#[derive(Debug)]
pub(crate) struct NiState {
    /// The engine and its rails.
    pub context: Context<Engine>,
    pub own: Own,
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
}

impl NiState {
    /// The engine, and the port that it is driven with.
    #[inline]
    pub fn parts(&mut self) -> (&mut Engine, &mut World) {
        let (_, engine, world) = self.context.parts();
        (engine, world)
    }

    /// Does what somebody waited for whom the program has just given it: a place in a
    /// queue, an entry.
    #[inline]
    pub fn attend(&mut self) {
        if self.ni().wants_attention() {
            let (engine, port) = self.parts();
            engine.ni.on_idle(port);
        }
    }

    /// The engine's objects.
    #[inline]
    pub fn ni(&self) -> &Ni {
        &self.context.machine().ni
    }

    /// As [`NiState::ni`].
    #[inline]
    pub fn ni_mut(&mut self) -> &mut Ni {
        &mut self.context.machine_mut().ni
    }

    /// Who is who.
    #[inline]
    pub fn peers(&self) -> &Peers {
        &self.context.machine().peers
    }

    /// As [`NiState::peers`].
    #[inline]
    pub fn peers_mut(&mut self) -> &mut Peers {
        &mut self.context.machine_mut().peers
    }

    /// What other hosts are to be told of this interface, if they reach it by that.
    pub fn entry(&self, kind: u8) -> Option<Entry> {
        let address = self.world().address();
        let is_told = self.own.key.is_none() && address.host().is_some();
        is_told.then_some(Entry { kind, phys: self.own.phys, address })
    }

    /// Where a process is, as the job has told.
    pub fn introduce(&mut self, phys: Phys, address: Address) {
        if self.world().net().is_some() {
            self.peers_mut().introduce(phys, address);
        }
    }

    /// The rails.
    #[inline]
    pub fn world(&self) -> &World {
        self.context.world()
    }
}

impl Machine for Engine {
    #[inline]
    fn on_packet<P: Port>(&mut self, _: Nanos, port: &mut P, from: PeerId, packet: &Parsed) {
        if self.ni.on_packet(port, from, packet) == Taken::Violation {
            self.refuse(port, from, PeerError::Protocol);
        }
    }

    fn placement(&self, from: PeerId, packet: &Parsed) -> Option<Region> {
        self.ni.placement(from, packet)
    }

    fn on_connected<P: Port>(&mut self, _: Nanos, port: &mut P, peer: PeerId, opened: Opened) {
        if let Err(why) = self.ni.on_connected(port, peer, opened) {
            self.refuse(port, peer, why);
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
    fn on_idle<P: Port>(&mut self, now: Nanos, port: &mut P) {
        self.ni.on_idle(port);
        if self.ni.has_to_ask() {
            self.ask_in_time(now, port);
        } else {
            self.ask_by = None;
        }
    }

    fn deadline(&self) -> Option<Nanos> {
        self.ni.has_to_ask().then_some(self.ask_by.unwrap_or(Nanos(0)))
    }

    fn told(&self) -> Told {
        let (status, unexpected) = (self.ni.status(), self.ni.unexpected_bytes());
        Told {
            unexpected: status.unexpected,
            unexpected_now: self.ni.unexpected_now(),
            unexpected_bytes_now: unexpected.now,
            unexpected_bytes_peak: unexpected.peak,
            violations: status.protocol_violations,
            peers: self.ni.links().told(),
            ..Told::default()
        }
    }
}

impl Engine {
    pub fn new(ni: Ni, peers: Peers) -> Engine {
        Engine { ni, peers, ask_by: None }
    }

    #[cold]
    fn ask_in_time<P: Port>(&mut self, now: Nanos, port: &mut P) {
        match self.ask_by {
            Some(ask_by) if now >= ask_by => {
                self.ask_by = None;
                self.ni.ask_unsettled(port);
            }
            Some(_) => {}
            None => self.ask_by = Some(Nanos(now.0 + ASK_AFTER.0)),
        }
    }

    /// Gives a peer up, which the rail learns; its report of the end follows.
    #[cold]
    fn refuse<P: Port>(&mut self, port: &mut P, peer: PeerId, why: PeerError) {
        self.ni.on_peer_gone(port, peer, why);
        port.refuse(peer);
    }
}
