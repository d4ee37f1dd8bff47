//! HyperX: routers at the points of a grid, each linked with all others of the
//! lines through it. With equal dimensions it is a flattened butterfly.
//!
//! A router has its nodes on the first ports and then, dimension by dimension,
//! the other routers of that line in their order. Routers are numbered as in a
//! [cube](super::Cube).

use super::cube::Grid;
use super::{End, Fabric, Link, PORTS_MAX};
use crate::ConfigError;

/// A HyperX; see [`crate::config::Topology::Hyperx`].
#[derive(Clone, Debug)]
pub struct Hyperx {
    grid: Grid,
    nodes_per_router: u32,
    latency_cycles: u16,
}

impl Hyperx {
    /// Checks the numbers.
    ///
    /// # Errors
    /// When one is 0, or there are too many nodes or ports.
    pub fn new(
        dims: &[u32],
        nodes_per_router: u32,
        latency_cycles: u16,
    ) -> Result<Hyperx, ConfigError> {
        let grid = Grid::new(dims, nodes_per_router)?;
        if latency_cycles == 0 {
            return Err(ConfigError::new(
                "topology.latency_cycles",
                "a link takes at least 1 cycle",
            ));
        }
        let links: u64 = dims.iter().map(|&size| u64::from(size) - 1).sum();
        let ports = links + u64::from(nodes_per_router);
        if ports > u64::from(PORTS_MAX) {
            return Err(ConfigError::new(
                "topology",
                format!("a router would have {ports} ports; {PORTS_MAX} are possible"),
            ));
        }
        Ok(Hyperx { grid, nodes_per_router, latency_cycles })
    }

    /// Nodes of a router.
    pub fn nodes_per_router(&self) -> u32 {
        self.nodes_per_router
    }

    /// How many routers there are.
    pub fn routers(&self) -> u32 {
        self.grid.routers()
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u32 {
        self.routers() * self.nodes_per_router
    }

    pub(crate) fn grid(&self) -> &Grid {
        &self.grid
    }

    /// The first port of each dimension, and the number of all ports.
    pub(crate) fn first_ports(&self) -> Vec<u8> {
        let mut next = self.nodes_per_router;
        let mut first = vec![next as u8];
        for axis in self.grid.axes() {
            next += axis.size - 1;
            first.push(next as u8);
        }
        first
    }

    /// The wiring.
    pub fn fabric(&self) -> Fabric {
        let first = self.first_ports();
        let ports = first[first.len() - 1];
        Fabric::wire(self.routers(), ports, self.nodes(), |router, port| {
            self.link(&first, router, port)
        })
    }

    fn link(&self, first: &[u8], router: u32, port: u8) -> Link {
        if port < first[0] {
            return Link {
                to: End::Node(router * self.nodes_per_router + u32::from(port)),
                latency_cycles: 1,
            };
        }
        let axis = first.partition_point(|&start| start <= port) - 1;
        let from = self.grid.coordinate(self.grid.point(router), axis);
        let place = u32::from(port - first[axis]);
        let to = place + u32::from(place >= from);
        let back = first[axis] + (from - u32::from(from > to)) as u8;
        let router = self.grid.moved(router, axis, to);
        Link { to: End::Router { router, port: back }, latency_cycles: self.latency_cycles }
    }
}
