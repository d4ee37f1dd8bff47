//! Routers, nodes and the links between them.
//!
//! A [`Fabric`] is the wiring alone. The file of each topology, and the routing made
//! for it, know what the coordinates mean. Every link runs both
//! ways between the same two ports, so that credits return on the port whose
//! flits they are for.

mod cube;
mod dragonfly;
mod fat_tree;
mod hyperx;

pub use cube::Cube;
pub use dragonfly::Dragonfly;
pub use fat_tree::FatTree;
pub use hyperx::Hyperx;

use crate::ConfigError;
use crate::config;

/// Most ports of a router: a set of ports is one word.
pub const PORTS_MAX: u32 = 64;
/// Most virtual channels of a port.
pub const VCS_MAX: u8 = 16;

/// Where a port leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// To a port of another router.
    Router {
        /// That router.
        router: u32,
        /// Its port, whose link leads back here.
        port: u8,
    },
    /// To a node.
    Node(u32),
    /// Nowhere: this router has fewer ports than others.
    None,
}

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Where it leads.
    pub to: End,
    /// Cycles that a flit is on it, at least 1.
    pub latency_cycles: u16,
}

/// The wiring of a network.
#[derive(Clone, Debug)]
pub struct Fabric {
    routers: u32,
    ports: u8,
    links: Vec<Link>,
    homes: Vec<(u32, u8)>,
}

impl Fabric {
    /// Wires `routers` routers of `ports` ports as `link(router, port)` says,
    /// for `nodes` nodes.
    ///
    /// # Panics
    /// When a link does not lead back, a node has no port or two, or a latency
    /// is 0: the topology's file is wrong.
    pub(crate) fn wire(
        routers: u32,
        ports: u8,
        nodes: u32,
        link: impl Fn(u32, u8) -> Link,
    ) -> Fabric {
        assert!(u32::from(ports) <= PORTS_MAX);
        let links: Vec<Link> = (0..routers)
            .flat_map(|router| (0..ports).map(move |port| (router, port)))
            .map(|(r, p)| link(r, p))
            .collect();
        let mut homes = vec![(u32::MAX, 0); nodes as usize];
        let fabric = Fabric { routers, ports, links, homes: Vec::new() };
        for router in 0..routers {
            for port in 0..ports {
                let here = fabric.link(router, port);
                match here.to {
                    End::Router { router: to, port: back } => {
                        assert!(here.latency_cycles > 0);
                        let other = fabric.link(to, back);
                        assert_eq!(other.to, End::Router { router, port }, "a link must lead back");
                        assert_eq!(other.latency_cycles, here.latency_cycles);
                    }
                    End::Node(node) => {
                        assert!(here.latency_cycles > 0);
                        assert_eq!(homes[node as usize].0, u32::MAX, "a node has one port");
                        homes[node as usize] = (router, port);
                    }
                    End::None => {}
                }
            }
        }
        assert!(homes.iter().all(|home| home.0 != u32::MAX), "every node has a port");
        Fabric { homes, ..fabric }
    }

    /// How many routers there are.
    pub fn routers(&self) -> u32 {
        self.routers
    }

    /// Most ports of a router.
    pub fn ports(&self) -> u8 {
        self.ports
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u32 {
        self.homes.len() as u32
    }

    /// The link that leaves a router by a port.
    #[inline]
    pub fn link(&self, router: u32, port: u8) -> Link {
        self.links[router as usize * usize::from(self.ports) + usize::from(port)]
    }

    /// The router and port of a node.
    #[inline]
    pub fn home(&self, node: u32) -> (u32, u8) {
        self.homes[node as usize]
    }
}

/// A topology with its coordinates.
#[derive(Clone, Debug)]
pub enum Topology {
    /// See [`config::Topology::Dragonfly`].
    Dragonfly(Dragonfly),
    /// A torus or mesh.
    Cube(Cube),
    /// See [`config::Topology::FatTree`].
    FatTree(FatTree),
    /// A HyperX or flattened butterfly.
    Hyperx(Hyperx),
}

impl Topology {
    /// Checks a configuration.
    ///
    /// # Errors
    /// Names the key whose value no network can have.
    pub fn new(config: &config::Topology) -> Result<Topology, ConfigError> {
        Ok(match *config {
            config::Topology::Dragonfly {
                p,
                a,
                h,
                local_latency_cycles,
                global_latency_cycles,
            } => Topology::Dragonfly(Dragonfly::new(
                p,
                a,
                h,
                local_latency_cycles,
                global_latency_cycles,
            )?),
            config::Topology::Torus { ref dims, nodes_per_router, latency_cycles } => {
                Topology::Cube(Cube::new(dims, true, nodes_per_router, latency_cycles)?)
            }
            config::Topology::Mesh { ref dims, nodes_per_router, latency_cycles } => {
                Topology::Cube(Cube::new(dims, false, nodes_per_router, latency_cycles)?)
            }
            config::Topology::FatTree { k, n, latency_cycles } => {
                Topology::FatTree(FatTree::new(k, n, latency_cycles)?)
            }
            config::Topology::Hyperx { ref dims, nodes_per_router, latency_cycles } => {
                Topology::Hyperx(Hyperx::new(dims, nodes_per_router, latency_cycles)?)
            }
            config::Topology::FlattenedButterfly { k, n, nodes_per_router, latency_cycles } => {
                if n > PORTS_MAX {
                    let reason = format!("{n} dimensions; a router has at most {PORTS_MAX} ports");
                    return Err(ConfigError::new("topology.n", reason));
                }
                Hyperx::new(&vec![k; n as usize], nodes_per_router, latency_cycles)
                    .map(Topology::Hyperx)
                    .map_err(|error| match error.key.as_str() {
                        "topology.dims" => ConfigError::new("topology.k", error.reason),
                        _ => error,
                    })?
            }
        })
    }

    /// The wiring.
    pub fn fabric(&self) -> Fabric {
        match self {
            Topology::Dragonfly(topology) => topology.fabric(),
            Topology::Cube(topology) => topology.fabric(),
            Topology::FatTree(topology) => topology.fabric(),
            Topology::Hyperx(topology) => topology.fabric(),
        }
    }
}
