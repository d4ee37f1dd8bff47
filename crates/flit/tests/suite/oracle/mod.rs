//! A naive simulator with the rules of `docs/simulation.md`: an object for each
//! flit, a loop over everything in every cycle, no sets, no wheel, nothing
//! that sleeps. With the crate it shares only topologies, routings, patterns,
//! traces and streams of random numbers.

mod node;
mod router;

use node::Node;
use router::Router;
use sluice_flit::config::{self, Config};
use sluice_flit::routing::{Route, Routing};
use sluice_flit::topology::{End, Fabric, Topology};
use sluice_flit::traffic::{Pattern, Trace};
use sluice_flit::{Passage, Rng, Sample, Stream};
use std::collections::BTreeMap;

/// A flit on its way. `packet` is a place in [`World::packets`].
#[derive(Clone, Copy, Debug)]
pub struct Flit {
    packet: usize,
    head: bool,
    tail: bool,
    vc: u8,
}

#[derive(Clone, Debug)]
pub struct Packet {
    route: Route,
    flits: u32,
    born: u32,
    entered: u32,
    hops: u64,
    /// Returned to whom it goes to.
    credits: u32,
    is_control: bool,
    forward_mark: bool,
    backward_mark: bool,
}

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    Router(u32, u8),
    Node(u32),
}

/// What all routers and nodes use.
pub struct World {
    config: Config,
    fabric: Fabric,
    routing: Routing,
    pattern: Option<Pattern>,
    trace: Option<Trace>,
    vcs: u8,
    is_slow: Vec<bool>,
    now: u32,
    /// Every packet that there ever was.
    packets: Vec<Packet>,
    flits: BTreeMap<u32, Vec<(Place, Flit)>>,
    credits: BTreeMap<u32, Vec<(Place, u8)>>,
    passages: Vec<Passage>,
    sample: Sample,
    /// Packets in the order of their arrival: source, destination, number.
    arrivals: Vec<(u32, u32, usize)>,
}

impl World {
    fn send_flit(&mut self, delay: u32, to: Place, flit: Flit) {
        self.flits.entry(self.now + delay).or_default().push((to, flit));
    }

    fn send_credit(&mut self, delay: u32, to: Place, vc: u8) {
        self.credits.entry(self.now + delay).or_default().push((to, vc));
    }

    /// The other end of a router's port and the latency of the link.
    fn beyond(&self, router: u32, port: u8) -> (Option<Place>, u32) {
        let link = self.fabric.link(router, port);
        let place = match link.to {
            End::Router { router, port } => Some(Place::Router(router, port)),
            End::Node(node) => Some(Place::Node(node)),
            End::None => None,
        };
        (place, u32::from(link.latency_cycles))
    }

    /// Flits that the other end of a port has room for, each channel.
    fn room(&self, router: u32, port: u8) -> u32 {
        let slow = &self.config.endpoint.slow;
        let usual = self.config.router.buffer_flits;
        let room = match self.fabric.link(router, port).to {
            End::Node(node) if self.is_slow[node as usize] => slow.buffer_flits.unwrap_or(usual),
            _ => usual,
        };
        u32::from(room)
    }

    /// Of the channels that a packet may take, those that order leaves it.
    fn allowed(&self, vcs: u16, route: &Route) -> Vec<u8> {
        let all: Vec<u8> = (0..16).filter(|vc| vcs >> vc & 1 == 1).collect();
        if !self.config.router.in_order {
            return all;
        }
        let flow = u64::from(route.source) * (1 << 32) + u64::from(route.destination);
        let hash = flow.wrapping_mul(0x9E37_79B9_7F4A_7C15) / (1 << 40);
        vec![all[hash as usize % all.len()]]
    }
}

pub struct Oracle {
    pub world: World,
    routers: Vec<Router>,
    nodes: Vec<Node>,
}

impl Oracle {
    pub fn new(config: &Config, trace: Option<Trace>) -> Oracle {
        let topology = Topology::new(&config.topology).expect("a good topology");
        let fabric = topology.fabric();
        let routing =
            Routing::new(&topology, &config.routing, config.router.vcs).expect("a good routing");
        let pattern = match &config.traffic.pattern {
            config::Pattern::Trace { .. } => None,
            pattern => Some(Pattern::new(pattern, &topology, config.seed).expect("a good pattern")),
        };
        let world = World {
            vcs: routing.vcs(),
            is_slow: slow_nodes(config, fabric.nodes()),
            config: config.clone(),
            pattern,
            trace,
            now: 0,
            packets: Vec::new(),
            flits: BTreeMap::new(),
            credits: BTreeMap::new(),
            passages: Vec::new(),
            sample: Sample::new(fabric.nodes()),
            arrivals: Vec::new(),
            fabric,
            routing,
        };
        let routers = (0..world.fabric.routers()).map(|id| Router::new(&world, id)).collect();
        let nodes = (0..world.fabric.nodes()).map(|id| Node::new(&world, id)).collect();
        Oracle { world, routers, nodes }
    }

    /// Runs a cycle.
    pub fn cycle(&mut self) {
        let world = &mut self.world;
        let now = world.now;
        for node in &mut self.nodes {
            node.decay(world);
        }
        for (place, vc) in world.credits.remove(&now).unwrap_or_default() {
            match place {
                Place::Node(node) => self.nodes[node as usize].credit(vc),
                Place::Router(router, port) => self.routers[router as usize].credit(port, vc),
            }
        }
        // By router and port: a packet may draw where it arrives.
        let mut flits = world.flits.remove(&now).unwrap_or_default();
        flits.sort_by_key(|&(place, _)| place);
        for pair in flits.windows(2) {
            assert_ne!(pair[0].0, pair[1].0, "a link carries one flit a cycle");
        }
        for (place, flit) in flits {
            match place {
                Place::Node(node) => self.nodes[node as usize].arrive(world, flit),
                Place::Router(router, port) => {
                    self.routers[router as usize].arrive(world, port, flit);
                }
            }
        }
        for router in &mut self.routers {
            router.cycle(world);
        }
        for node in &mut self.nodes {
            node.cycle(world);
        }
        world.now += 1;
    }

    /// Every flit's way through a switch since the last call, in order.
    pub fn take_passages(&mut self) -> Vec<Passage> {
        let mut all = std::mem::take(&mut self.world.passages);
        all.sort_unstable();
        all
    }

    /// The counts so far, without the histogram.
    pub fn sample(&self) -> Sample {
        let world = &self.world;
        let slow_nodes = world.is_slow.iter().filter(|&&slow| slow).count() as u32;
        Sample { cycles: u64::from(world.now), slow_nodes, ..world.sample.clone() }
    }

    /// Packets in the order of their arrival: source, destination, and how
    /// many entered before it.
    #[allow(dead_code)] // Not every test needs it.
    pub fn arrivals(&self) -> &[(u32, u32, usize)] {
        &self.world.arrivals
    }
}

fn slow_nodes(config: &Config, nodes: u32) -> Vec<bool> {
    let slow = &config.endpoint.slow;
    let mut is_slow = vec![false; nodes as usize];
    if slow.share == 0.0 || slow.factor == 1 {
        return is_slow;
    }
    let count = (f64::from(nodes) * slow.share).round().max(1.0) as usize;
    let mut order: Vec<u32> = (0..nodes).collect();
    Rng::new(config.seed, Stream::Slow, 0).shuffle(&mut order);
    for &node in order.iter().take(count) {
        is_slow[node as usize] = true;
    }
    is_slow
}
