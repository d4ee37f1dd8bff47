//! Ways through a Dragonfly: minimal, by way of a random node, or whichever
//! looks shorter.
//!
//! A minimal way is local, global, local, each at most once. A detour goes
//! minimally to the router of a random node (`via`) in a third group and from
//! there minimally to the destination: local, global, local, local, global,
//! local. Where `via` is in the group of the source or of the destination,
//! or these two are one, the way is minimal.
//!
//! Invariant: along any way the classes of channels rise in the order of
//! [`Plan`], so no set of packets can wait for each other in a circle. The two
//! hops in the group of `via` need two classes: with one, three packets in the
//! triangles A→B→C, B→C→A and C→A→B of a group would.

use super::cube::{Classes, Spare};
use super::{At, Hop, Route, Senses};
use crate::ConfigError;
use crate::config::{self, Divert};
use crate::topology::Dragonfly;

/// At the source router.
const START: u8 = 0;
/// In the source group after a local hop, on the minimal way.
const NEAR: u8 = 1;
/// On the way to `via`.
const OUT: u8 = 2;
/// On the way to the destination, outside the source group.
const HOME: u8 = 3;

/// A routing made for a Dragonfly.
#[derive(Clone, Debug)]
pub struct Routing {
    policy: Policy,
    plan: Plan,
    vcs: u8,
    every_vc: u16,
    nodes: u32,
    first_local_port: u8,
    routers: Vec<Place>,
    homes: Vec<Place>,
    gates: Vec<Gate>,
}

/// Where a router is, or a node: then `port` is the one of its router. Small,
/// because two or three of them are looked up a hop.
#[derive(Clone, Copy, Debug)]
struct Place {
    group: u16,
    index: u8,
    port: u8,
}

/// The router of a group with a global link, and its port.
#[derive(Clone, Copy, Debug)]
struct Gate {
    index: u8,
    port: u8,
}

#[derive(Clone, Copy, Debug)]
enum Policy {
    Minimal,
    Valiant,
    Ugal(Divert),
    Progressive(Divert),
}

/// The virtual channels of each kind of hop, in the order in which they can
/// follow each other. Local and global ports number their classes separately.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// The first local hop in the source group.
    leave_source: u16,
    /// The second one, of a packet diverted after the first.
    turn: u16,
    /// The global hop to the group of `via`.
    out: u16,
    /// The local hop to the router of `via`.
    reach_via: u16,
    /// The local hop from there.
    leave_via: u16,
    /// The global hop to the destination's group.
    home: u16,
    /// The local hop there, and the last link after it.
    reach_destination: u16,
}

impl Routing {
    pub(super) fn new(
        topology: Dragonfly,
        config: &config::Routing,
        vcs: Option<u8>,
    ) -> Result<Routing, ConfigError> {
        // The classes of the plan's hops, in its order.
        let (policy, vcs_per_class, order): (_, _, [usize; 7]) = match *config {
            config::Routing::Minimal { vcs_per_class } => {
                (Policy::Minimal, vcs_per_class, [0, 0, 0, 0, 0, 1, 1])
            }
            config::Routing::Valiant { vcs_per_class } => {
                (Policy::Valiant, vcs_per_class, [0, 0, 0, 1, 2, 1, 3])
            }
            config::Routing::Ugal { vcs_per_class, rule } => {
                (Policy::Ugal(rule), vcs_per_class, [0, 0, 0, 1, 2, 1, 3])
            }
            config::Routing::ProgressiveAdaptive { vcs_per_class, rule } => {
                (Policy::Progressive(rule), vcs_per_class, [0, 1, 0, 2, 3, 1, 4])
            }
        };
        let classes = Classes::new(order[6] as u8 + 1, vcs_per_class, vcs, Spare::Refused)?;
        let class = |hop: usize| classes.mask(order[hop]);
        // PORTS_MAX bounds a group at 64 routers, and the groups at 1,100.
        let place = |router: u32, port: u32| Place {
            group: (router / topology.routers_per_group()) as u16,
            index: (router % topology.routers_per_group()) as u8,
            port: port as u8,
        };
        let p = topology.nodes_per_router();
        let gate = |number| {
            let (index, port) = topology.gate(number);
            Gate { index: index as u8, port }
        };
        Ok(Routing {
            policy,
            plan: Plan {
                leave_source: class(0),
                turn: class(1),
                out: class(2),
                reach_via: class(3),
                leave_via: class(4),
                home: class(5),
                reach_destination: class(6),
            },
            vcs: classes.vcs(),
            every_vc: classes.every(),
            nodes: topology.nodes(),
            first_local_port: p as u8,
            routers: (0..topology.routers()).map(|router| place(router, 0)).collect(),
            homes: (0..topology.nodes()).map(|node| place(node / p, node % p)).collect(),
            gates: (0..topology.groups() - 1).map(gate).collect(),
        })
    }

    /// Virtual channels of every port.
    pub fn vcs(&self) -> u8 {
        self.vcs
    }

    /// Whether all packets of a flow take the same way.
    pub fn single_path(&self) -> bool {
        matches!(self.policy, Policy::Minimal)
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
        if here.group == goal.group {
            // A detour's via is in a third group, so this is the last one, or
            // the only one.
            let vcs = if route.stage == HOME {
                self.plan.reach_destination
            } else {
                route.stage = NEAR;
                self.plan.leave_source
            };
            let port = if here.index == goal.index {
                goal.port
            } else {
                self.local_port(here, goal.index)
            };
            return Hop { port, vcs };
        }
        match route.stage {
            START | NEAR => self.in_source_group(here, goal, route, senses),
            OUT => {
                let via = self.homes[route.via as usize];
                if here.group != via.group {
                    self.towards(here, via.group, 0, self.plan.out)
                } else if here.index != via.index {
                    Hop { port: self.local_port(here, via.index), vcs: self.plan.reach_via }
                } else {
                    route.stage = HOME;
                    self.towards(here, goal.group, self.plan.leave_via, self.plan.home)
                }
            }
            _ => self.towards(here, goal.group, self.plan.leave_via, self.plan.home),
        }
    }

    /// Decides, where the policy does so here, and takes the way decided.
    #[inline]
    fn in_source_group(
        &self,
        here: Place,
        goal: Place,
        route: &mut Route,
        senses: &mut impl Senses,
    ) -> Hop {
        let minimal = self.towards(here, goal.group, self.plan.leave_source, self.plan.home);
        let rule = match &self.policy {
            Policy::Valiant if route.stage == START => None,
            Policy::Ugal(rule) if route.stage == START => Some(rule),
            Policy::Progressive(rule) => Some(rule),
            _ => return self.stay(here, goal, minimal, route),
        };
        let via = senses.below(self.nodes);
        let group = self.homes[via as usize].group;
        if group == here.group || group == goal.group {
            return self.stay(here, goal, minimal, route);
        }
        let local = if route.stage == START { self.plan.leave_source } else { self.plan.turn };
        let detour = self.towards(here, group, local, self.plan.out);
        if rule.is_some_and(|rule| !senses.diverts(rule, minimal, detour)) {
            return self.stay(here, goal, minimal, route);
        }
        route.via = via;
        route.stage = OUT;
        detour
    }

    /// The minimal way, for now.
    #[inline]
    fn stay(&self, here: Place, goal: Place, minimal: Hop, route: &mut Route) -> Hop {
        route.stage = if self.gate(here, goal.group).index == here.index { HOME } else { NEAR };
        minimal
    }

    /// The hop to another group, or to the router with the link there.
    #[inline]
    fn towards(&self, here: Place, group: u16, local: u16, global: u16) -> Hop {
        let gate = self.gate(here, group);
        if gate.index == here.index {
            Hop { port: gate.port, vcs: global }
        } else {
            Hop { port: self.local_port(here, gate.index), vcs: local }
        }
    }

    #[inline]
    fn gate(&self, here: Place, group: u16) -> Gate {
        self.gates[usize::from(group - u16::from(group > here.group))]
    }

    #[inline]
    fn local_port(&self, here: Place, index: u8) -> u8 {
        self.first_local_port + index - u8::from(index > here.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::{self, dependency};

    /// Whether a plan is without circles, after a change.
    fn holds(config: &config::Routing, change: impl Fn(&mut Plan)) -> bool {
        let topology = Dragonfly::new(1, 3, 2, 1, 1).expect("a good topology");
        let mut routing = Routing::new(topology.clone(), config, None).expect("a good routing");
        change(&mut routing.plan);
        dependency::check(&topology.fabric(), &routing::Routing::Dragonfly(routing)).is_ok()
    }

    /// The local hops of a plan, in its order.
    fn local(plan: &mut Plan) -> [&mut u16; 5] {
        let Plan { leave_source, turn, reach_via, leave_via, reach_destination, .. } = plan;
        [leave_source, turn, reach_via, leave_via, reach_destination]
    }

    #[test]
    fn no_two_kinds_of_hop_can_share_a_class() {
        let rule = Divert::default();
        for config in [
            config::Routing::Valiant { vcs_per_class: 1 },
            config::Routing::Ugal { vcs_per_class: 1, rule },
            config::Routing::ProgressiveAdaptive { vcs_per_class: 1, rule },
        ] {
            assert!(holds(&config, |_| {}));
            assert!(!holds(&config, |plan| plan.home = plan.out), "{config:?}: global hops");
            let turns = matches!(config, config::Routing::ProgressiveAdaptive { .. });
            let kinds: Vec<usize> = (0..5).filter(|&kind| kind != 1 || turns).collect();
            for &one in &kinds {
                for &other in kinds.iter().filter(|&&other| other > one) {
                    let merge = |plan: &mut Plan| *local(plan)[other] = *local(plan)[one];
                    assert!(!holds(&config, merge), "{config:?}: local hops {one} and {other}");
                }
            }
        }
    }
}
