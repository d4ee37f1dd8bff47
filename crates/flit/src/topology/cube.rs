//! Tori and meshes of any number of dimensions, and the [`Grid`] of their
//! coordinates, which HyperX uses too.
//!
//! Router `x + dims[0] * (y + dims[1] * z)` has, for dimension `d`, the port
//! `2d` towards higher coordinates and `2d + 1` towards lower ones; its nodes
//! come after these. A mesh has no links at its edges, and a dimension of one
//! router has none at all. A ring of two has two links between its routers.

use super::{End, Fabric, Link, PORTS_MAX};
use crate::ConfigError;

/// Most nodes of a cube, a HyperX or a tree; each takes kilobytes.
pub(super) const NODES_MAX: u64 = 1 << 24;

/// Routers at the points of a grid, and the coordinates of a router as one
/// word: where two of these words differ first is the dimension that
/// dimension order corrects first, found without a loop.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    axes: Vec<Axis>,
    /// The axis that a bit of the word belongs to.
    axis_of_bit: [u8; 64],
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    pub size: u32,
    shift: u8,
    mask: u32,
}

impl Grid {
    /// Checks the dimensions.
    ///
    /// # Errors
    /// When there are none, one is empty, or there are too many routers for
    /// `nodes_per_router` nodes each.
    pub(super) fn new(dims: &[u32], nodes_per_router: u32) -> Result<Grid, ConfigError> {
        if dims.is_empty() {
            return Err(ConfigError::new("topology.dims", "there is at least 1 dimension"));
        }
        if dims.contains(&0) {
            return Err(ConfigError::new("topology.dims", "a dimension has at least 1 router"));
        }
        if nodes_per_router == 0 {
            return Err(ConfigError::new(
                "topology.nodes_per_router",
                "a router has at least 1 node",
            ));
        }
        let nodes = dims.iter().try_fold(u64::from(nodes_per_router), |nodes, &size| {
            nodes.checked_mul(u64::from(size)).filter(|&nodes| nodes <= NODES_MAX)
        });
        if nodes.is_none() {
            return Err(ConfigError::new("topology.dims", format!("more than {NODES_MAX} nodes")));
        }
        // At most twice the logarithm of NODES_MAX, so all fit in the word.
        let mut used = 0;
        let mut axis_of_bit = [0; 64];
        let mut axes = Vec::new();
        for (number, &size) in dims.iter().enumerate() {
            let width = 32 - (size - 1).leading_zeros();
            axis_of_bit[used as usize..(used + width) as usize].fill(number as u8);
            axes.push(Axis { size, shift: used as u8, mask: (1 << width) - 1 });
            used += width;
        }
        Ok(Grid { axes, axis_of_bit })
    }

    pub(crate) fn axes(&self) -> &[Axis] {
        &self.axes
    }

    pub(crate) fn routers(&self) -> u32 {
        self.axes.iter().map(|axis| axis.size).product()
    }

    /// The coordinates of a router as a word.
    pub(crate) fn point(&self, router: u32) -> u64 {
        let mut rest = router;
        let mut point = 0;
        for axis in &self.axes {
            point |= u64::from(rest % axis.size) << axis.shift;
            rest /= axis.size;
        }
        point
    }

    /// The router whose coordinate on one axis is `to` and which is otherwise
    /// where `router` is.
    pub(crate) fn moved(&self, router: u32, axis: usize, to: u32) -> u32 {
        let stride: u32 = self.axes[..axis].iter().map(|axis| axis.size).product();
        router - self.coordinate(self.point(router), axis) * stride + to * stride
    }

    /// The first axis on which two different points differ.
    #[inline]
    pub(crate) fn first_axis(&self, from: u64, to: u64) -> usize {
        usize::from(self.axis_of_bit[((from ^ to).trailing_zeros() & 63) as usize])
    }

    #[inline]
    pub(crate) fn coordinate(&self, point: u64, axis: usize) -> u32 {
        let axis = &self.axes[axis];
        (point >> axis.shift) as u32 & axis.mask
    }
}

/// A torus or mesh; see [`crate::config::Topology`].
#[derive(Clone, Debug)]
pub struct Cube {
    grid: Grid,
    wraps: bool,
    nodes_per_router: u32,
    latency_cycles: u16,
}

impl Cube {
    /// Checks the numbers. `wraps` tells a torus from a mesh.
    ///
    /// # Errors
    /// When one is 0, or there are too many nodes or ports.
    pub fn new(
        dims: &[u32],
        wraps: bool,
        nodes_per_router: u32,
        latency_cycles: u16,
    ) -> Result<Cube, ConfigError> {
        let grid = Grid::new(dims, nodes_per_router)?;
        if latency_cycles == 0 {
            return Err(ConfigError::new(
                "topology.latency_cycles",
                "a link takes at least 1 cycle",
            ));
        }
        let ports = 2 * dims.len() as u64 + u64::from(nodes_per_router);
        if ports > u64::from(PORTS_MAX) {
            return Err(ConfigError::new(
                "topology",
                format!("a router would have {ports} ports; {PORTS_MAX} are possible"),
            ));
        }
        Ok(Cube { grid, wraps, nodes_per_router, latency_cycles })
    }

    /// Whether it is a torus.
    pub fn wraps(&self) -> bool {
        self.wraps
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

    /// The first port with a node.
    pub(crate) fn first_node_port(&self) -> u8 {
        2 * self.grid.axes.len() as u8
    }

    /// The wiring.
    pub fn fabric(&self) -> Fabric {
        let ports = self.first_node_port() + self.nodes_per_router as u8;
        Fabric::wire(self.routers(), ports, self.nodes(), |router, port| self.link(router, port))
    }

    fn link(&self, router: u32, port: u8) -> Link {
        if port >= self.first_node_port() {
            let node = router * self.nodes_per_router + u32::from(port - self.first_node_port());
            return Link { to: End::Node(node), latency_cycles: 1 };
        }
        let axis = usize::from(port / 2);
        let size = self.grid.axes[axis].size;
        let up = port.is_multiple_of(2);
        let from = self.grid.coordinate(self.grid.point(router), axis);
        let edge = if up { from + 1 == size } else { from == 0 };
        let to = if size == 1 || (edge && !self.wraps) {
            End::None
        } else {
            let to = if up { (from + 1) % size } else { (from + size - 1) % size };
            End::Router { router: self.grid.moved(router, axis, to), port: port ^ 1 }
        };
        Link { to, latency_cycles: self.latency_cycles }
    }
}
