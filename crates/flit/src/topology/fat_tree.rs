//! The k-ary n-tree: `n` levels of `k^(n-1)` routers, level 0 at the top.
//!
//! Router `level * k^(n-1) + position` has its `k` links down on the ports
//! `0..k` and its `k` links up on the ports `k..2k`; the top has none of the
//! latter. A position is a number of `n - 1` digits to the base `k`: going up
//! from a level replaces the one digit that belongs to it by the port's number,
//! and the port at the upper end is the digit that was replaced. The nodes
//! hang from the lowest level, `k` each.

use super::cube::NODES_MAX;
use super::{End, Fabric, Link, PORTS_MAX};
use crate::ConfigError;

/// A k-ary n-tree; see [`crate::config::Topology::FatTree`].
#[derive(Clone, Debug)]
pub struct FatTree {
    k: u32,
    n: u32,
    latency_cycles: u16,
}

impl FatTree {
    /// Checks the numbers.
    ///
    /// # Errors
    /// When there are no levels, too few or too many links, or too many nodes.
    pub fn new(k: u32, n: u32, latency_cycles: u16) -> Result<FatTree, ConfigError> {
        if k < 2 || 2 * u64::from(k) > u64::from(PORTS_MAX) {
            let reason =
                format!("{k} links down and as many up; 2 to {} are possible", PORTS_MAX / 2);
            return Err(ConfigError::new("topology.k", reason));
        }
        if n == 0 {
            return Err(ConfigError::new("topology.n", "there is at least 1 level"));
        }
        if u64::from(k).checked_pow(n).is_none_or(|nodes| nodes > NODES_MAX) {
            return Err(ConfigError::new("topology.n", format!("more than {NODES_MAX} nodes")));
        }
        if latency_cycles == 0 {
            return Err(ConfigError::new(
                "topology.latency_cycles",
                "a link takes at least 1 cycle",
            ));
        }
        Ok(FatTree { k, n, latency_cycles })
    }

    /// Links down, and up, of a router.
    pub fn arity(&self) -> u32 {
        self.k
    }

    /// How many levels there are.
    pub fn levels(&self) -> u32 {
        self.n
    }

    /// Routers of a level.
    pub fn routers_per_level(&self) -> u32 {
        self.k.pow(self.n - 1)
    }

    /// How many routers there are.
    pub fn routers(&self) -> u32 {
        self.n * self.routers_per_level()
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u32 {
        self.k.pow(self.n)
    }

    /// The wiring.
    pub fn fabric(&self) -> Fabric {
        Fabric::wire(self.routers(), 2 * self.k as u8, self.nodes(), |router, port| {
            self.link(router, port)
        })
    }

    fn link(&self, router: u32, port: u8) -> Link {
        let (level, position) =
            (router / self.routers_per_level(), router % self.routers_per_level());
        let port = u32::from(port);
        if port < self.k && level + 1 == self.n {
            return Link { to: End::Node(position * self.k + port), latency_cycles: 1 };
        }
        let to = if port < self.k {
            self.swap(level + 1, position, level, port, self.k)
        } else if level > 0 {
            self.swap(level - 1, position, level - 1, port - self.k, 0)
        } else {
            End::None
        };
        Link { to, latency_cycles: self.latency_cycles }
    }

    /// The router of `level` whose position is `position` with the digit that
    /// belongs to the links below level `upper` replaced, and its port of the
    /// old digit's number after `first_port`.
    fn swap(&self, level: u32, position: u32, upper: u32, digit: u32, first_port: u32) -> End {
        let weight = self.k.pow(self.n - 2 - upper);
        let old = position / weight % self.k;
        let position = position - old * weight + digit * weight;
        End::Router {
            router: level * self.routers_per_level() + position,
            port: (first_port + old) as u8,
        }
    }
}
