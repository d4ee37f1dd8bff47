//! Ways through tori and meshes, in the order of the dimensions; and
//! [`Classes`], how every routing deals out virtual channels.
//!
//! Around a ring of a torus the channels come in two classes. A packet that
//! enters a dimension takes the one class if its way crosses the link between
//! the ring's last router and its first, else the other, and keeps it to the
//! end of that dimension. Minimal ways of either class leave out a channel of
//! the ring, so neither class closes a circle. A detour has these classes
//! twice: to `via`, and from there.

use super::{At, Hop, Route, Senses};
use crate::ConfigError;
use crate::config::{self, Divert};
use crate::topology::{Cube, VCS_MAX};

/// The virtual channels of a port, dealt out in classes.
#[derive(Clone, Debug)]
pub(super) struct Classes {
    vcs: u8,
    masks: Vec<u16>,
}

/// What happens to virtual channels beyond those that a routing needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spare {
    /// The classes share them as equally as possible.
    Shared,
    /// They are an error.
    Refused,
}

impl Classes {
    /// Deals out `vcs` channels, or `vcs_per_class` to each class.
    pub(super) fn new(
        classes: u8,
        vcs_per_class: u8,
        vcs: Option<u8>,
        spare: Spare,
    ) -> Result<Classes, ConfigError> {
        if vcs_per_class == 0 {
            return Err(ConfigError::new(
                "routing.vcs_per_class",
                "a class has at least 1 virtual channel",
            ));
        }
        let needed = u32::from(classes) * u32::from(vcs_per_class);
        if needed > u32::from(VCS_MAX) {
            let reason = format!(
                "{classes} classes would need {needed} virtual channels; {VCS_MAX} are possible"
            );
            return Err(ConfigError::new("routing.vcs_per_class", reason));
        }
        let given = vcs.map_or(needed, u32::from);
        let reason = if given < needed {
            format!("the routing needs {needed}: {classes} classes of {vcs_per_class}")
        } else if given > u32::from(VCS_MAX) {
            format!("at most {VCS_MAX} are possible")
        } else if given > needed && spare == Spare::Refused {
            format!(
                "the routing uses {needed}, {classes} classes of {vcs_per_class}; see routing.vcs_per_class"
            )
        } else {
            let below = |class: u32| (1u32 << (class * given / u32::from(classes))) - 1;
            let masks = (0..u32::from(classes))
                .map(|class| (below(class + 1) & !below(class)) as u16)
                .collect();
            return Ok(Classes { vcs: given as u8, masks });
        };
        Err(ConfigError::new("router.vcs", reason))
    }

    /// How many there are in all.
    pub(super) fn vcs(&self) -> u8 {
        self.vcs
    }

    /// Those of a class.
    pub(super) fn mask(&self, class: usize) -> u16 {
        self.masks[class]
    }

    /// Those of all classes.
    pub(super) fn every(&self) -> u16 {
        self.masks.iter().fold(0, |all, mask| all | mask)
    }
}

/// Set in a packet's stage when its way in this dimension crosses the link
/// between the last router of the ring and the first.
const CROSSES: u8 = 1;
/// Set on the way to the destination, clear on the way to `via`.
const HOME: u8 = 2;
/// Set once the way is decided.
const DECIDED: u8 = 4;

/// A routing made for a torus or mesh.
#[derive(Clone, Debug)]
pub struct Routing {
    policy: Policy,
    wraps: bool,
    single_path: bool,
    vcs: u8,
    every_vc: u16,
    /// By [`CROSSES`] and [`HOME`].
    masks: [u16; 4],
    first_node_port: u8,
    topology: Cube,
    routers: Vec<u64>,
    homes: Vec<Home>,
}

/// How packets are spread over ways, on all topologies but the Dragonfly.
#[derive(Clone, Copy, Debug)]
pub(super) enum Policy {
    Minimal,
    Valiant,
    Ugal(Divert),
}

/// The point and port of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Home {
    pub point: u64,
    pub port: u8,
}

/// The homes of the nodes of routers at these points.
pub(super) fn homes(points: &[u64], first_port: u8, nodes_per_router: u32) -> Vec<Home> {
    let last_port = first_port + nodes_per_router as u8 - 1;
    points
        .iter()
        .flat_map(|&point| (first_port..=last_port).map(move |port| Home { point, port }))
        .collect()
}

impl Policy {
    /// The policy and `vcs_per_class` of a configuration.
    ///
    /// # Errors
    /// When it is for the Dragonfly alone.
    pub(super) fn new(config: &config::Routing) -> Result<(Policy, u8), ConfigError> {
        match *config {
            config::Routing::Minimal { vcs_per_class } => Ok((Policy::Minimal, vcs_per_class)),
            config::Routing::Valiant { vcs_per_class } => Ok((Policy::Valiant, vcs_per_class)),
            config::Routing::Ugal { vcs_per_class, rule } => {
                Ok((Policy::Ugal(rule), vcs_per_class))
            }
            config::Routing::ProgressiveAdaptive { .. } => Err(ConfigError::new(
                "routing.kind",
                "progressive_adaptive is for the dragonfly; here minimal, valiant and ugal are possible",
            )),
        }
    }

    /// Phases of the way, each with channels of its own.
    pub(super) fn phases(self) -> u8 {
        if matches!(self, Policy::Minimal) { 1 } else { 2 }
    }
}

impl Routing {
    pub(super) fn new(
        topology: Cube,
        config: &config::Routing,
        vcs: Option<u8>,
    ) -> Result<Routing, ConfigError> {
        let (policy, vcs_per_class) = Policy::new(config)?;
        let rings = 1 + u8::from(topology.wraps());
        let classes = Classes::new(rings * policy.phases(), vcs_per_class, vcs, Spare::Shared)?;
        let mut masks = [0; 4];
        for ring in 0..rings {
            for phase in 0..policy.phases() {
                // The last phase is the way home, also when it is the only one.
                let home = if phase + 1 == policy.phases() { HOME } else { 0 };
                masks[usize::from(home | ring)] = classes.mask(usize::from(phase * rings + ring));
            }
        }
        let grid = topology.grid();
        let routers: Vec<u64> = (0..topology.routers()).map(|router| grid.point(router)).collect();
        let first_node_port = topology.first_node_port();
        let homes = homes(&routers, first_node_port, topology.nodes_per_router());
        // Half-way around a ring both directions are minimal.
        let ties = topology.wraps() && grid.axes().iter().any(|axis| axis.size.is_multiple_of(2));
        Ok(Routing {
            single_path: matches!(policy, Policy::Minimal) && !ties,
            policy,
            wraps: topology.wraps(),
            vcs: classes.vcs(),
            every_vc: classes.every(),
            masks,
            first_node_port,
            topology,
            routers,
            homes,
        })
    }

    /// Virtual channels of every port.
    pub fn vcs(&self) -> u8 {
        self.vcs
    }

    /// Whether all packets of a flow take the same way.
    pub fn single_path(&self) -> bool {
        self.single_path
    }

    /// The virtual channels by which a packet may enter its first router: all,
    /// since no packet waits for one while it holds another.
    #[inline]
    pub fn entry(&self, _route: &mut Route, _senses: &mut impl Senses) -> u16 {
        self.every_vc
    }

    /// Where a packet goes from here.
    #[inline]
    pub fn hop(&self, at: At, route: &mut Route, senses: &mut impl Senses) -> Hop {
        let here = self.routers[at.router as usize];
        let goal = self.homes[route.destination as usize];
        if here == goal.point {
            // Also on the way to via. All channels: nodes always drain them.
            return Hop { port: goal.port, vcs: self.every_vc };
        }
        if route.stage & DECIDED == 0 {
            return self.decide(here, goal.point, route, senses);
        }
        // A packet that arrived by a port of the dimension it is still in goes
        // on straight; but not at via, where the way starts afresh.
        let mut from_port = at.port;
        let mut target = goal.point;
        if route.stage & HOME == 0 {
            let via = self.homes[route.via as usize].point;
            if here == via {
                route.stage |= HOME;
                from_port = self.first_node_port;
            } else {
                target = via;
            }
        }
        let axis = self.topology.grid().first_axis(here, target);
        if usize::from(from_port >> 1) == axis && from_port < self.first_node_port {
            return Hop { port: from_port ^ 1, vcs: self.vcs_of(route.stage) };
        }
        let (port, ring) = self.enter(axis, here, target, senses);
        route.stage = (route.stage & !CROSSES) | ring;
        Hop { port, vcs: self.vcs_of(route.stage) }
    }

    /// The first hop of a packet, at its source router.
    #[inline]
    fn decide(&self, here: u64, goal: u64, route: &mut Route, senses: &mut impl Senses) -> Hop {
        let first = |target, phase, senses: &mut _| {
            let (port, ring) =
                self.enter(self.topology.grid().first_axis(here, target), here, target, senses);
            let stage = DECIDED | phase | ring;
            (stage, Hop { port, vcs: self.vcs_of(stage) })
        };
        let rule = match &self.policy {
            Policy::Minimal => {
                let (stage, hop) = first(goal, HOME, senses);
                route.stage = stage;
                return hop;
            }
            Policy::Valiant => None,
            Policy::Ugal(rule) => Some(rule),
        };
        let via = senses.below(self.homes.len() as u32);
        let point = self.homes[via as usize].point;
        let (stage, minimal) = first(goal, HOME, senses);
        route.stage = stage;
        if point == here || point == goal {
            return minimal;
        }
        let (stage, detour) = first(point, 0, senses);
        if rule.is_some_and(|rule| !senses.diverts(rule, minimal, detour)) {
            return minimal;
        }
        route.via = via;
        route.stage = stage;
        detour
    }

    /// The port by which a packet starts along an axis, and [`CROSSES`] or 0.
    #[inline]
    fn enter(&self, axis: usize, here: u64, target: u64, senses: &mut impl Senses) -> (u8, u8) {
        let (from, to) = (
            self.topology.grid().coordinate(here, axis),
            self.topology.grid().coordinate(target, axis),
        );
        let mut up = to > from;
        let mut ring = 0;
        if self.wraps {
            let size = self.topology.grid().axes()[axis].size;
            let distance = if up { to - from } else { to + size - from };
            let shorter = 2 * distance < size || (2 * distance == size && senses.below(2) == 0);
            ring = u8::from(shorter != up);
            up = shorter;
        }
        (2 * axis as u8 + u8::from(!up), ring)
    }

    #[inline]
    fn vcs_of(&self, stage: u8) -> u16 {
        self.masks[usize::from(stage & (HOME | CROSSES))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::{self, dependency};

    fn shares(classes: u8, vcs: u8) -> Vec<u16> {
        let classes_made = Classes::new(classes, 1, Some(vcs), Spare::Shared).expect("enough");
        (0..usize::from(classes)).map(|class| classes_made.mask(class)).collect()
    }

    #[test]
    fn channels_are_shared_as_equally_as_possible() {
        assert_eq!(shares(2, 4), [0b0011, 0b1100]);
        assert_eq!(shares(2, 5), [0b00011, 0b11100]);
        assert_eq!(shares(4, 4), [1, 2, 4, 8]);
        assert_eq!(shares(3, 16), [0x001f, 0x03e0, 0xfc00]);
        assert_eq!(shares(1, 16), [0xffff]);
    }

    #[test]
    fn rings_and_phases_need_classes_of_their_own() {
        let topology = Cube::new(&[4, 3], true, 1, 1).expect("a good topology");
        let config = config::Routing::Valiant { vcs_per_class: 1 };
        let holds = |masks: [u16; 4]| {
            let mut routing =
                Routing::new(topology.clone(), &config, None).expect("a good routing");
            routing.masks = masks;
            dependency::check(&topology.fabric(), &routing::Routing::Cube(routing)).is_ok()
        };
        assert!(holds([1, 2, 4, 8]));
        assert!(!holds([1, 1, 4, 8]));
        assert!(!holds([1, 2, 1, 2]));
    }
}
