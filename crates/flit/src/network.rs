//! What all shards share and none changes: wiring, routing, parameters.
//!
//! Within a shard, nodes have numbers of their own, in the order of their routers and
//! ports (*seats*), so that they are adjacent in memory. The interface names nodes
//! only.

use crate::config::{Config, Endpoint, Metric};
use crate::cut::{Cutting, each_link};
use crate::routing::Routing;
use crate::topology::{End, Fabric, Link, PORTS_MAX, Topology, VCS_MAX};
use crate::traffic::{Pattern, Trace};
use crate::wheel::CREDITS_MAX;
use crate::{ConfigError, Rng, Stream};

/// The parameters of routers and nodes, checked.
#[derive(Clone, Debug)]
pub(crate) struct Measures {
    pub ports: usize,
    /// Most nodes of a router.
    pub node_ports: usize,
    pub vcs: usize,
    pub buffer: u16,
    pub slow_buffer: u16,
    /// Thousandths.
    pub speedup_milli: u64,
    pub iterations: u8,
    pub output_queue: usize,
    pub extra_cycles: u32,
    pub credit_cycles: u32,
    pub in_order: bool,
    pub packet_flits: u16,
    pub message_flits: u32,
    /// Messages a node and cycle.
    pub message_rate: f64,
    pub slow_factor: u32,
}

impl Measures {
    /// Steps of the switch in a cycle.
    #[inline]
    pub fn steps(&self, cycle: u32) -> u32 {
        let cycle = u64::from(cycle);
        ((cycle + 1) * self.speedup_milli / 1000 - cycle * self.speedup_milli / 1000) as u32
    }
}

/// Everything that is fixed for a run.
#[derive(Debug)]
pub(crate) struct Network {
    pub fabric: Fabric,
    pub routing: Routing,
    pub pattern: Option<Pattern>,
    pub trace: Option<Trace>,
    pub measures: Measures,
    pub endpoint: Endpoint,
    pub seed: u64,
    /// By node.
    pub slow: Vec<bool>,
    /// First router of each shard, and the number of routers.
    pub cuts: Vec<u32>,
    /// Threads that run the shards.
    pub threads: usize,
    /// Cycles that shards may run without exchanging anything.
    pub window: u32,
    /// Cycles that the longest way of a flit or credit takes.
    pub horizon: u32,
}

impl Network {
    pub fn new(
        config: &Config,
        trace: Option<Trace>,
        cutting: Cutting,
    ) -> Result<Network, ConfigError> {
        let topology = Topology::new(&config.topology)?;
        let fabric = topology.fabric();
        let routing = Routing::new(&topology, &config.routing, config.router.vcs)?;
        let measures = measures(config, &routing, &fabric)?;
        check_endpoint(&config.endpoint)?;
        let pattern = match (&config.traffic.pattern, &trace) {
            (crate::config::Pattern::Trace { .. }, Some(_)) => None,
            (crate::config::Pattern::Trace { path }, None) => {
                return Err(ConfigError::new(
                    "traffic.pattern.path",
                    format!("the trace {path} was not read"),
                ));
            }
            (_, Some(_)) => {
                return Err(ConfigError::new(
                    "traffic.pattern",
                    "a trace was given, but the pattern is another one",
                ));
            }
            (pattern, None) => Some(Pattern::new(pattern, &topology, config.seed)?),
        };
        if let Some(trace) = &trace {
            check_trace(trace, &fabric)?;
        }
        let slow = slow_nodes(config, fabric.nodes());
        let (cuts, window) = cutting.cut(&fabric);
        let threads = cutting.threads.clamp(1, cuts.len() - 1);
        let longest = each_link(&fabric).map(|(_, _, latency)| latency).max().unwrap_or(1);
        let horizon = 1 + longest + measures.extra_cycles + measures.credit_cycles + 1;
        Ok(Network {
            fabric,
            routing,
            pattern,
            trace,
            measures,
            endpoint: config.endpoint.clone(),
            seed: config.seed,
            slow,
            cuts,
            threads,
            window,
            horizon,
        })
    }

    /// Cycles that a flit and a credit take by a link.
    pub fn delays(&self, link: Link) -> (u16, u16) {
        let measures = &self.measures;
        let way = 1 + u32::from(link.latency_cycles);
        match link.to {
            // A node uses a credit in the cycle of its arrival.
            End::Node(_) | End::None => (way as u16, way as u16),
            End::Router { .. } => {
                ((way + measures.extra_cycles) as u16, (way + measures.credit_cycles) as u16)
            }
        }
    }

    /// Cycles without movement that are no deadlock.
    pub fn patience(&self) -> u32 {
        let throttle = self.endpoint.marking.map_or(0, |marking| u32::from(marking.decay_cycles));
        2 * (self.horizon + self.measures.slow_factor + throttle)
    }

    /// The shard of a router.
    pub fn shard_of(&self, router: u32) -> usize {
        self.cuts.partition_point(|&first| first <= router) - 1
    }

    /// The thread that runs a shard.
    #[inline(always)]
    pub fn thread_of(&self, shard: usize) -> usize {
        if self.threads == 1 { 0 } else { shard * self.threads / (self.cuts.len() - 1) }
    }

    /// Flits that the buffer at the other end of an output port holds, each
    /// channel.
    pub fn room(&self, router: u32, port: u8) -> u16 {
        match self.fabric.link(router, port).to {
            End::Node(node) if self.slow[node as usize] => self.measures.slow_buffer,
            End::Node(_) | End::Router { .. } => self.measures.buffer,
            End::None => 0,
        }
    }
}

fn measures(config: &Config, routing: &Routing, fabric: &Fabric) -> Result<Measures, ConfigError> {
    let router = &config.router;
    let fail = |key: &str, reason: String| Err(ConfigError::new(key, reason));
    let mut nodes_of = vec![0; fabric.routers() as usize];
    (0..fabric.nodes()).for_each(|node| nodes_of[fabric.home(node).0 as usize] += 1);
    let node_ports = nodes_of.into_iter().max().unwrap_or(0);
    if usize::from(fabric.ports()) + node_ports > PORTS_MAX as usize {
        let ports = fabric.ports();
        let reason = format!(
            "a router of {ports} ports, {node_ports} of them to nodes, is too large: their sum may be {PORTS_MAX}"
        );
        return fail("topology", reason);
    }
    if routing.vcs() > VCS_MAX {
        return fail(
            "routing.vcs_per_class",
            format!("{} virtual channels; a port has at most {VCS_MAX}", routing.vcs()),
        );
    }
    if router.buffer_flits == 0 {
        return fail("router.buffer_flits", "a buffer holds at least 1 flit".into());
    }
    let speedup_max = f64::from(CREDITS_MAX);
    if !(0.1..=speedup_max).contains(&router.speedup) {
        return fail(
            "router.speedup",
            format!("{} is not from 0.1 to {speedup_max}", router.speedup),
        );
    }
    if router.iterations == 0 {
        return fail("router.iterations", "switch allocation takes at least 1 round".into());
    }
    if router.output_queue_flits == Some(0) {
        return fail("router.output_queue_flits", "a queue holds at least 1 flit".into());
    }
    if router.in_order && !routing.single_path() {
        return fail("router.in_order", "this routing sends a flow over several ways; use `minimal` on a topology with one shortest way".into());
    }
    let traffic = &config.traffic;
    if traffic.packet_flits == 0 {
        return fail("traffic.packet_flits", "a packet has at least 1 flit".into());
    }
    let message_flits = traffic.message_flits.unwrap_or(u32::from(traffic.packet_flits));
    if message_flits == 0 {
        return fail("traffic.message_flits", "a message has at least 1 flit".into());
    }
    if !(0.0..=1.0).contains(&traffic.load) {
        return fail(
            "traffic.load",
            format!("{} is not from 0 to 1 flit a node and cycle", traffic.load),
        );
    }
    let longest = each_link(fabric).map(|(_, _, latency)| latency).max().unwrap_or(1);
    for (key, cycles) in [
        ("topology", longest),
        ("router.extra_pipeline_cycles", u32::from(router.extra_pipeline_cycles)),
        ("router.credit_cycles", u32::from(router.credit_cycles)),
    ] {
        if cycles > DELAY_MAX {
            return fail(key, format!("a delay of {cycles} cycles; {DELAY_MAX} at most"));
        }
    }
    let slow_buffer = config.endpoint.slow.buffer_flits.unwrap_or(router.buffer_flits);
    if slow_buffer == 0 {
        return fail("endpoint.slow.buffer_flits", "a buffer holds at least 1 flit".into());
    }
    Ok(Measures {
        ports: usize::from(fabric.ports()),
        node_ports,
        vcs: usize::from(routing.vcs()),
        buffer: router.buffer_flits,
        slow_buffer,
        speedup_milli: (router.speedup * 1000.0).round() as u64,
        iterations: router.iterations,
        output_queue: router.output_queue_flits.map_or(usize::MAX, usize::from),
        extra_cycles: u32::from(router.extra_pipeline_cycles),
        credit_cycles: u32::from(router.credit_cycles),
        in_order: router.in_order,
        packet_flits: traffic.packet_flits,
        message_flits,
        message_rate: traffic.load / f64::from(message_flits),
        slow_factor: config.endpoint.slow.factor,
    })
}

/// Longest delay of one kind, in cycles: a cell is kept for each cycle that a
/// flit may be on its way.
const DELAY_MAX: u32 = 4_000;
/// Slowest memory, in cycles a flit.
const SLOW_FACTOR_MAX: u32 = 1_000_000;

fn check_trace(trace: &Trace, fabric: &Fabric) -> Result<(), ConfigError> {
    let fail = |reason: String| Err(ConfigError::new("traffic.pattern.path", reason));
    if trace.nodes() != fabric.nodes() {
        return fail(format!(
            "the trace is for {} nodes, the network has {}",
            trace.nodes(),
            fabric.nodes()
        ));
    }
    match trace.last_cycle() {
        Some(cycle) if cycle >= u64::from(u32::MAX / 2) => {
            fail(format!("a message at cycle {cycle}; {} is the last", u32::MAX / 2 - 1))
        }
        _ => Ok(()),
    }
}

fn check_endpoint(endpoint: &Endpoint) -> Result<(), ConfigError> {
    if !(0.0..=1.0).contains(&endpoint.slow.share) {
        return Err(ConfigError::new(
            "endpoint.slow.share",
            format!("{} is not from 0 to 1", endpoint.slow.share),
        ));
    }
    if endpoint.slow.factor > SLOW_FACTOR_MAX {
        return Err(ConfigError::new(
            "endpoint.slow.factor",
            format!("{} times slower; {SLOW_FACTOR_MAX} at most", endpoint.slow.factor),
        ));
    }
    if endpoint.slow.factor == 0 {
        return Err(ConfigError::new(
            "endpoint.slow.factor",
            "a node is at least 1 times slower than its link",
        ));
    }
    if endpoint.outstanding_packets == Some(0) {
        return Err(ConfigError::new(
            "endpoint.outstanding_packets",
            "with 0 nothing is ever sent; leave it out for no limit",
        ));
    }
    if let Some(marking) = endpoint.marking {
        if !(0.0..1.0).contains(&marking.from) {
            return Err(ConfigError::new(
                "endpoint.marking.from",
                format!("{} is not from 0 to below 1", marking.from),
            ));
        }
        if marking.rate.is_nan() || marking.rate < 0.0 {
            return Err(ConfigError::new(
                "endpoint.marking.rate",
                format!("{} is not a probability", marking.rate),
            ));
        }
        if marking.counter_max == 0 || marking.decay_cycles == 0 {
            let key = if marking.counter_max == 0 { "counter_max" } else { "decay_cycles" };
            return Err(ConfigError::new(format!("endpoint.marking.{key}"), "must be at least 1"));
        }
        debug_assert!(matches!(marking.metric, Metric::Port | Metric::VirtualChannel));
    }
    Ok(())
}

fn slow_nodes(config: &Config, nodes: u32) -> Vec<bool> {
    let slow = &config.endpoint.slow;
    let mut is_slow = vec![false; nodes as usize];
    if slow.share > 0.0 && slow.factor > 1 {
        let count = ((f64::from(nodes) * slow.share).round() as usize).clamp(1, nodes as usize);
        let mut order: Vec<u32> = (0..nodes).collect();
        // The first of one shuffle: a larger share adds nodes and keeps those
        // of the smaller one, which makes curves over shares smoother.
        Rng::new(config.seed, Stream::Slow, 0).shuffle(&mut order);
        for &node in &order[..count] {
            is_slow[node as usize] = true;
        }
    }
    is_slow
}
