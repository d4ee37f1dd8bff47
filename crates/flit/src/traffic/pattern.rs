//! To whom a node sends.
//!
//! A node that a fixed pattern maps onto itself sends to itself, by way of its
//! router, so the load that a pattern offers is that of all nodes. The random
//! patterns draw another node, except `uniform` when it is asked to draw the
//! sender too.

use crate::config;
use crate::topology::{Cube, Dragonfly, Topology};
use crate::{ConfigError, Rng, Stream};

/// A pattern of destinations, made for a topology.
#[derive(Clone, Debug)]
pub struct Pattern {
    nodes: u32,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Uniform {
        with_self: bool,
    },
    /// The destination of each node.
    Fixed(Vec<u32>),
    Hotspot {
        hot: Vec<u32>,
        share: f64,
    },
    AllToAll,
}

impl Pattern {
    /// A pattern for a topology; `seed` draws partners and hot nodes.
    ///
    /// # Errors
    /// When the pattern does not suit the topology or its number of nodes, and
    /// for a trace, which has destinations of its own.
    pub fn new(
        config: &config::Pattern,
        topology: &Topology,
        seed: u64,
    ) -> Result<Pattern, ConfigError> {
        let nodes = match topology {
            Topology::Dragonfly(topology) => topology.nodes(),
            Topology::Cube(topology) => topology.nodes(),
            Topology::FatTree(topology) => topology.nodes(),
            Topology::Hyperx(topology) => topology.nodes(),
        };
        let mut rng = Rng::new(seed, Stream::Pattern, 0);
        let kind = match *config {
            config::Pattern::Uniform { with_self } => Kind::Uniform { with_self },
            config::Pattern::Pairs => Kind::Fixed(pairs(nodes, &mut rng)),
            config::Pattern::Tornado => Kind::Fixed(match topology {
                Topology::Cube(topology) => cube_tornado(topology)?,
                Topology::Dragonfly(topology) => dragonfly_tornado(topology),
                Topology::FatTree(_) | Topology::Hyperx(_) => {
                    return Err(unsuited("tornado is for torus, mesh and dragonfly".into()));
                }
            }),
            config::Pattern::Transpose => {
                let side = nodes.isqrt();
                if side * side != nodes {
                    return Err(unsuited(format!(
                        "transpose needs a square number of nodes, not {nodes}"
                    )));
                }
                Kind::Fixed((0..nodes).map(|node| node % side * side + node / side).collect())
            }
            config::Pattern::BitComplement => {
                if !nodes.is_power_of_two() {
                    return Err(unsuited(format!(
                        "bit_complement needs a power of two of nodes, not {nodes}"
                    )));
                }
                Kind::Fixed((0..nodes).map(|node| nodes - 1 - node).collect())
            }
            config::Pattern::Hotspot { nodes: hot, share } => {
                if hot == 0 || hot > nodes {
                    let reason = format!("1 to {nodes} nodes can be hot, not {hot}");
                    return Err(ConfigError::new("traffic.pattern.nodes", reason));
                }
                if !(0.0..=1.0).contains(&share) {
                    let reason = format!("a share is from 0 to 1, not {share}");
                    return Err(ConfigError::new("traffic.pattern.share", reason));
                }
                let mut drawn: Vec<u32> = (0..nodes).collect();
                rng.shuffle(&mut drawn);
                drawn.truncate(hot as usize);
                Kind::Hotspot { hot: drawn, share }
            }
            config::Pattern::AllToAll => Kind::AllToAll,
            config::Pattern::Trace { .. } => {
                return Err(unsuited("a trace has destinations of its own".into()));
            }
        };
        Ok(Pattern { nodes, kind })
    }

    /// To whom `source` sends its `nth` message, counted from 0; none if it
    /// sends nothing, ever. `rng` is the source's own.
    #[inline]
    pub fn destination(&self, source: u32, nth: u64, rng: &mut Rng) -> Option<u32> {
        match &self.kind {
            Kind::Uniform { with_self: true } => Some(rng.below(self.nodes)),
            Kind::Uniform { with_self: false } => self.another(source, rng),
            Kind::Fixed(to) => Some(to[source as usize]),
            Kind::Hotspot { hot, share } => {
                if rng.unit() < *share {
                    let to = hot[rng.below(hot.len() as u32) as usize];
                    if to != source {
                        return Some(to);
                    }
                }
                // A hot node that draws itself sends anywhere.
                self.another(source, rng)
            }
            Kind::AllToAll => {
                let others = u64::from(self.nodes) - 1;
                let step = nth.checked_rem(others)? + 1;
                Some(((u64::from(source) + step) % u64::from(self.nodes)) as u32)
            }
        }
    }

    /// The node that a node sends to and that sends to it, both to none else:
    /// then the packets of one way can carry the credits of the other. It may be
    /// the node itself.
    pub fn partner(&self, node: u32) -> Option<u32> {
        let Kind::Fixed(to) = &self.kind else { return None };
        let other = to[node as usize];
        (to[other as usize] == node).then_some(other)
    }

    /// Any node but `source`.
    #[inline]
    fn another(&self, source: u32, rng: &mut Rng) -> Option<u32> {
        if self.nodes == 1 {
            return None;
        }
        let drawn = rng.below(self.nodes - 1);
        Some(drawn + u32::from(drawn >= source))
    }
}

fn unsuited(reason: String) -> ConfigError {
    ConfigError::new("traffic.pattern", reason)
}

/// Random partners; of an odd number of nodes one is its own.
fn pairs(nodes: u32, rng: &mut Rng) -> Vec<u32> {
    let mut order: Vec<u32> = (0..nodes).collect();
    rng.shuffle(&mut order);
    let mut to: Vec<u32> = (0..nodes).collect();
    for pair in order.chunks_exact(2) {
        to[pair[0] as usize] = pair[1];
        to[pair[1] as usize] = pair[0];
    }
    to
}

/// Just under half-way up each dimension, where all minimal ways agree on the
/// direction and load one half of each ring's links only.
fn cube_tornado(topology: &Cube) -> Result<Vec<u32>, ConfigError> {
    let grid = topology.grid();
    if grid.axes().iter().all(|axis| axis.size <= 2) {
        return Err(unsuited("tornado needs a dimension of at least 3 routers".into()));
    }
    let per_router = topology.nodes_per_router();
    let destination = |node: u32| {
        let home = node / per_router;
        let router = grid.axes().iter().enumerate().fold(home, |router, (number, axis)| {
            let from = grid.coordinate(grid.point(home), number);
            grid.moved(router, number, (from + (axis.size - 1) / 2) % axis.size)
        });
        router * per_router + node % per_router
    };
    Ok((0..topology.nodes()).map(destination).collect())
}

/// The same place in the next group: a single global link carries all minimal
/// ways of a group.
fn dragonfly_tornado(topology: &Dragonfly) -> Vec<u32> {
    let nodes = topology.nodes();
    (0..nodes).map(|node| (node + topology.nodes_per_group()) % nodes).collect()
}
