//! The Dragonfly of Kim et al. (ISCA 2008): the routers of a group are fully
//! connected, and there is one link between any two groups.
//!
//! Router `group * a + index` has its nodes on the ports `0..p`, the other
//! routers of its group on the next `a - 1` (in their order, itself left out)
//! and then `h` global links. Global link `k = index * h + m` of a group leads
//! to the `k`-th of the other groups. This is the arrangement of BookSim 2's
//! `dragonflynew`, so that results can be compared with its.

use super::{End, Fabric, Link, PORTS_MAX};
use crate::ConfigError;

/// A Dragonfly; see [`crate::config::Topology::Dragonfly`].
#[derive(Clone, Debug)]
pub struct Dragonfly {
    p: u32,
    a: u32,
    h: u32,
    local_latency_cycles: u16,
    global_latency_cycles: u16,
}

impl Dragonfly {
    /// Checks the numbers.
    ///
    /// # Errors
    /// When one is 0 or a router would have too many ports.
    pub fn new(
        p: u32,
        a: u32,
        h: u32,
        local_latency_cycles: u16,
        global_latency_cycles: u16,
    ) -> Result<Dragonfly, ConfigError> {
        for (key, value, what) in [
            ("p", p, "a router has at least 1 node"),
            ("a", a, "a group has at least 1 router"),
            ("h", h, "a router has at least 1 global link"),
            ("local_latency_cycles", local_latency_cycles.into(), "a link takes at least 1 cycle"),
            (
                "global_latency_cycles",
                global_latency_cycles.into(),
                "a link takes at least 1 cycle",
            ),
        ] {
            if value == 0 {
                return Err(ConfigError::new(format!("topology.{key}"), what));
            }
        }
        let ports = u64::from(p) + u64::from(a) - 1 + u64::from(h);
        if ports > u64::from(PORTS_MAX) {
            return Err(ConfigError::new(
                "topology",
                format!(
                    "a router would have p + a - 1 + h = {ports} ports; {PORTS_MAX} are possible"
                ),
            ));
        }
        Ok(Dragonfly { p, a, h, local_latency_cycles, global_latency_cycles })
    }

    /// Nodes of a router.
    pub fn nodes_per_router(&self) -> u32 {
        self.p
    }

    /// Routers of a group.
    pub fn routers_per_group(&self) -> u32 {
        self.a
    }

    /// Nodes of a group.
    pub fn nodes_per_group(&self) -> u32 {
        self.a * self.p
    }

    /// How many groups there are.
    pub fn groups(&self) -> u32 {
        self.a * self.h + 1
    }

    /// How many routers there are.
    pub fn routers(&self) -> u32 {
        self.groups() * self.a
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u32 {
        self.routers() * self.p
    }

    /// The wiring.
    pub fn fabric(&self) -> Fabric {
        let ports = self.p + self.a - 1 + self.h;
        Fabric::wire(self.routers(), ports as u8, self.nodes(), |router, port| {
            self.link(router, port)
        })
    }

    fn link(&self, router: u32, port: u8) -> Link {
        let (group, index) = (router / self.a, router % self.a);
        let port = u32::from(port);
        if port < self.p {
            return Link { to: End::Node(router * self.p + port), latency_cycles: 1 };
        }
        if port < self.first_global_port() {
            let place = port - self.p;
            let other = place + u32::from(place >= index);
            let to =
                End::Router { router: group * self.a + other, port: self.local_port(other, index) };
            return Link { to, latency_cycles: self.local_latency_cycles };
        }
        let number = index * self.h + (port - self.first_global_port());
        let other = number + u32::from(number >= group);
        let back = self.gate(group - u32::from(group > other));
        let to = End::Router { router: other * self.a + back.0, port: back.1 };
        Link { to, latency_cycles: self.global_latency_cycles }
    }

    fn first_global_port(&self) -> u32 {
        self.p + self.a - 1
    }

    /// The port by which router `from` of a group reaches router `to` of it.
    fn local_port(&self, from: u32, to: u32) -> u8 {
        (self.p + to - u32::from(to > from)) as u8
    }

    /// The index in its group, and the port, of the router with a group's
    /// `number`-th global link.
    pub(crate) fn gate(&self, number: u32) -> (u32, u8) {
        (number / self.h, (self.first_global_port() + number % self.h) as u8)
    }
}
