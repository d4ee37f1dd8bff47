//! Ways through a HyperX, in the order of the dimensions: one hop in each.
//!
//! A detour goes so to the router of a random node and then so to the
//! destination, on virtual channels of their own. Within either phase the
//! dimensions rise, so no channels wait for each other in a circle.

use super::cube::{Classes, Home, Policy, Spare, homes};
use super::{At, Hop, Route, Senses};
use crate::ConfigError;
use crate::config;
use crate::topology::Hyperx;

/// At the source router.
const START: u8 = 0;
/// On the way to `via`.
const OUT: u8 = 1;
/// On the way to the destination.
const HOME: u8 = 2;

/// A routing made for a HyperX.
#[derive(Clone, Debug)]
pub struct Routing {
    policy: Policy,
    vcs: u8,
    every_vc: u16,
    out: u16,
    home: u16,
    topology: Hyperx,
    first_ports: Vec<u8>,
    routers: Vec<u64>,
    homes: Vec<Home>,
}

impl Routing {
    pub(super) fn new(
        topology: Hyperx,
        config: &config::Routing,
        vcs: Option<u8>,
    ) -> Result<Routing, ConfigError> {
        let (policy, vcs_per_class) = Policy::new(config)?;
        let classes = Classes::new(policy.phases(), vcs_per_class, vcs, Spare::Shared)?;
        let grid = topology.grid();
        let routers: Vec<u64> = (0..topology.routers()).map(|router| grid.point(router)).collect();
        Ok(Routing {
            policy,
            vcs: classes.vcs(),
            every_vc: classes.every(),
            out: classes.mask(0),
            home: classes.mask(usize::from(policy.phases() - 1)),
            first_ports: topology.first_ports(),
            homes: homes(&routers, 0, topology.nodes_per_router()),
            routers,
            topology,
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
        if here == goal.point {
            // Also on the way to via. All channels: nodes always drain them.
            return Hop { port: goal.port, vcs: self.every_vc };
        }
        match route.stage {
            START => self.decide(here, goal.point, route, senses),
            OUT if here != self.homes[route.via as usize].point => {
                self.towards(here, self.homes[route.via as usize].point, self.out)
            }
            _ => {
                route.stage = HOME;
                self.towards(here, goal.point, self.home)
            }
        }
    }

    /// The first hop of a packet, at its source router.
    #[inline]
    fn decide(&self, here: u64, goal: u64, route: &mut Route, senses: &mut impl Senses) -> Hop {
        let minimal = self.towards(here, goal, self.home);
        route.stage = HOME;
        let rule = match &self.policy {
            Policy::Minimal => return minimal,
            Policy::Valiant => None,
            Policy::Ugal(rule) => Some(rule),
        };
        let via = senses.below(self.homes.len() as u32);
        let point = self.homes[via as usize].point;
        if point == here || point == goal {
            return minimal;
        }
        let detour = self.towards(here, point, self.out);
        if rule.is_some_and(|rule| !senses.diverts(rule, minimal, detour)) {
            return minimal;
        }
        route.via = via;
        route.stage = OUT;
        detour
    }

    #[inline]
    fn towards(&self, here: u64, target: u64, vcs: u16) -> Hop {
        let axis = self.topology.grid().first_axis(here, target);
        let (from, to) = (
            self.topology.grid().coordinate(here, axis),
            self.topology.grid().coordinate(target, axis),
        );
        Hop { port: self.first_ports[axis] + (to - u32::from(to > from)) as u8, vcs }
    }
}
