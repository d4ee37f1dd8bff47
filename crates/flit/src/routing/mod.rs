//! Which output port and which virtual channels a packet takes next.
//!
//! A routing is a pure function of where the packet is, what it remembers
//! ([`Route`]) and what the router sees ([`Senses`]). The engine answers the
//! questions of `Senses` from its queues and its random numbers; the checker
//! of channel dependencies ([`dependency`]) answers them in every possible
//! way, so that what is proved free of cycles is what runs.

mod cube;
pub mod dependency;
mod dragonfly;
mod fat_tree;
mod hyperx;

use crate::config::Divert;
use crate::topology::Topology;
use crate::{ConfigError, config};

/// What a packet's routing remembers. It travels with the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// Where it comes from.
    pub source: u32,
    /// Where it goes.
    pub destination: u32,
    /// By way of what: a node, or whatever the routing takes it for.
    pub via: u32,
    /// How far it is; 0 at the start.
    pub stage: u8,
}

impl Route {
    /// A packet that has not yet entered the network.
    pub fn new(source: u32, destination: u32) -> Route {
        Route { source, destination, via: u32::MAX, stage: 0 }
    }
}

/// What a packet asks for next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The output port.
    pub port: u8,
    /// The set of its virtual channels that the packet may take, bit by bit.
    pub vcs: u16,
}

/// Where a packet stands when it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The router.
    pub router: u32,
    /// The port that it came in by.
    pub port: u8,
    /// The virtual channel that it came in by.
    pub vc: u8,
}

/// What a router sees and draws while it routes.
pub trait Senses {
    /// A random number below `count`.
    fn below(&mut self, count: u32) -> u32;

    /// Whether a packet leaves the `minimal` way for the `detour`, by the
    /// lengths of the two outputs' queues.
    fn diverts(&mut self, rule: &Divert, minimal: Hop, detour: Hop) -> bool;
}

/// A routing made for a topology.
#[derive(Clone, Debug)]
pub enum Routing {
    /// Dragonfly.
    Dragonfly(dragonfly::Routing),
    /// Torus or mesh.
    Cube(cube::Routing),
    /// Fat tree.
    FatTree(fat_tree::Routing),
    /// HyperX or flattened butterfly.
    Hyperx(hyperx::Routing),
}

impl Routing {
    /// A routing for a topology. `vcs` is what `router.vcs` asks for.
    ///
    /// # Errors
    /// Names the key that this topology or these channels do not allow.
    pub fn new(
        topology: &Topology,
        config: &config::Routing,
        vcs: Option<u8>,
    ) -> Result<Routing, ConfigError> {
        Ok(match topology {
            Topology::Dragonfly(topology) => {
                Routing::Dragonfly(dragonfly::Routing::new(topology.clone(), config, vcs)?)
            }
            Topology::Cube(topology) => {
                Routing::Cube(cube::Routing::new(topology.clone(), config, vcs)?)
            }
            Topology::FatTree(topology) => {
                Routing::FatTree(fat_tree::Routing::new(topology.clone(), config, vcs)?)
            }
            Topology::Hyperx(topology) => {
                Routing::Hyperx(hyperx::Routing::new(topology.clone(), config, vcs)?)
            }
        })
    }

    /// Virtual channels of every port.
    pub fn vcs(&self) -> u8 {
        match self {
            Routing::Dragonfly(routing) => routing.vcs(),
            Routing::Cube(routing) => routing.vcs(),
            Routing::FatTree(routing) => routing.vcs(),
            Routing::Hyperx(routing) => routing.vcs(),
        }
    }

    /// Whether all packets of a flow (one source, one destination) take the
    /// same way.
    pub fn single_path(&self) -> bool {
        match self {
            Routing::Dragonfly(routing) => routing.single_path(),
            Routing::Cube(routing) => routing.single_path(),
            Routing::FatTree(routing) => routing.single_path(),
            Routing::Hyperx(routing) => routing.single_path(),
        }
    }

    /// The virtual channels by which a packet may enter its first router.
    #[inline]
    pub fn entry(&self, route: &mut Route, senses: &mut impl Senses) -> u16 {
        match self {
            Routing::Dragonfly(routing) => routing.entry(route, senses),
            Routing::Cube(routing) => routing.entry(route, senses),
            Routing::FatTree(routing) => routing.entry(route, senses),
            Routing::Hyperx(routing) => routing.entry(route, senses),
        }
    }

    /// Where a packet goes from here.
    #[inline]
    pub fn hop(&self, at: At, route: &mut Route, senses: &mut impl Senses) -> Hop {
        match self {
            Routing::Dragonfly(routing) => routing.hop(at, route, senses),
            Routing::Cube(routing) => routing.hop(at, route, senses),
            Routing::FatTree(routing) => routing.hop(at, route, senses),
            Routing::Hyperx(routing) => routing.hop(at, route, senses),
        }
    }
}
