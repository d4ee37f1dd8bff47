//! What a simulation is made of, as plain data. Every part can be read from a
//! TOML table; unknown keys are errors.
//!
//! Units: time in cycles (one flit a link and cycle), sizes in flits, rates in
//! flits per node and cycle.

use serde::{Deserialize, Serialize};

/// One simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Routers, nodes and links.
    pub topology: Topology,
    /// How packets choose their way.
    pub routing: Routing,
    /// The inside of a router.
    #[serde(default)]
    pub router: Router,
    /// Who sends what to whom, and when.
    pub traffic: Traffic,
    /// What the nodes do at both ends.
    #[serde(default)]
    pub endpoint: Endpoint,
    /// Draws everything that is random.
    #[serde(default = "default_seed")]
    pub seed: u64,
}

fn default_seed() -> u64 {
    1
}

/// Routers, nodes and links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Topology {
    /// `a * h + 1` groups of `a` routers with `p` nodes each; every router has
    /// a link to each other one of its group and `h` global links (Kim et al.,
    /// ISCA 2008). Balanced when `a = 2p = 2h`.
    Dragonfly {
        /// Nodes a router.
        p: u32,
        /// Routers a group.
        a: u32,
        /// Global links a router.
        h: u32,
        /// Cycles on a link inside a group.
        #[serde(default = "one")]
        local_latency_cycles: u16,
        /// Cycles on a link between groups.
        #[serde(default = "one")]
        global_latency_cycles: u16,
    },
    /// A k-ary n-cube with wrap-around links.
    Torus {
        /// Routers along each dimension.
        dims: Vec<u32>,
        /// Nodes a router.
        #[serde(default = "one_node")]
        nodes_per_router: u32,
        /// Cycles on a link.
        #[serde(default = "one")]
        latency_cycles: u16,
    },
    /// A k-ary n-cube without wrap-around links.
    Mesh {
        /// Routers along each dimension.
        dims: Vec<u32>,
        /// Nodes a router.
        #[serde(default = "one_node")]
        nodes_per_router: u32,
        /// Cycles on a link.
        #[serde(default = "one")]
        latency_cycles: u16,
    },
    /// A k-ary n-tree: `n` levels of `k^(n-1)` routers.
    FatTree {
        /// Links down (and up) of a router.
        k: u32,
        /// Levels.
        n: u32,
        /// Cycles on a link.
        #[serde(default = "one")]
        latency_cycles: u16,
    },
    /// Routers at the points of a grid, all of a line linked with each other.
    /// With equal dimensions this is a flattened butterfly.
    Hyperx {
        /// Routers along each dimension.
        dims: Vec<u32>,
        /// Nodes a router.
        nodes_per_router: u32,
        /// Cycles on a link.
        #[serde(default = "one")]
        latency_cycles: u16,
    },
    /// A flattened butterfly: a HyperX of `n` dimensions of `k` routers.
    FlattenedButterfly {
        /// Routers along each dimension.
        k: u32,
        /// Dimensions.
        n: u32,
        /// Nodes a router.
        nodes_per_router: u32,
        /// Cycles on a link.
        #[serde(default = "one")]
        latency_cycles: u16,
    },
}

fn one() -> u16 {
    1
}

fn one_node() -> u32 {
    1
}

/// How packets choose their way. Trees know only `minimal` (nearest common
/// ancestor, up links at random).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Routing {
    /// The shortest way; dimension order on cubes and HyperX.
    Minimal {
        /// Virtual channels of a class.
        #[serde(default = "one_u8")]
        vcs_per_class: u8,
    },
    /// Minimal to a random node, then minimal to the destination.
    Valiant {
        /// Virtual channels of a class.
        #[serde(default = "one_u8")]
        vcs_per_class: u8,
    },
    /// Minimal or Valiant, whichever looks shorter from the source router
    /// (UGAL-L, Singh 2005).
    Ugal {
        /// Virtual channels of a class.
        #[serde(default = "one_u8")]
        vcs_per_class: u8,
        /// When to divert.
        #[serde(default)]
        rule: Divert,
    },
    /// As UGAL, and the routers of the source group may still divert a packet
    /// that is on its minimal way (progressive adaptive routing; Dragonfly).
    ProgressiveAdaptive {
        /// Virtual channels of a class.
        #[serde(default = "one_u8")]
        vcs_per_class: u8,
        /// When to divert.
        #[serde(default)]
        rule: Divert,
    },
}

fn one_u8() -> u8 {
    1
}

/// A packet is diverted when
/// `queue(minimal) > bias * queue(detour) + threshold_flits`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Divert {
    /// By what factor the minimal queue may be longer than that of the detour.
    pub bias: f64,
    /// How many flits longer it may be besides.
    pub threshold_flits: u32,
    /// What a queue is.
    pub metric: Metric,
}

impl Default for Divert {
    fn default() -> Divert {
        Divert { bias: 2.0, threshold_flits: 30, metric: Metric::Port }
    }
}

/// What adaptive routing takes for the length of an output's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Flits sent and not yet credited, over all virtual channels of a port.
    Port,
    /// The same, of the virtual channels that the packet could take.
    VirtualChannel,
}

/// The inside of a router.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Router {
    /// Flits that an input buffer holds, each virtual channel.
    pub buffer_flits: u16,
    /// Times the switch is faster than the links, 0.1 to 3; need not be whole.
    pub speedup: f64,
    /// Rounds of switch allocation in a step.
    pub iterations: u8,
    /// Flits an output queue holds; none: as many as credits allow.
    pub output_queue_flits: Option<u16>,
    /// Cycles of the pipeline besides the three of the base model (virtual
    /// channel allocation, switch allocation, traversal: one each).
    pub extra_pipeline_cycles: u16,
    /// Cycles from the arrival of a credit to its use.
    pub credit_cycles: u16,
    /// Virtual channels; none: as many as the routing needs. More than that
    /// is an error unless the routing can use them.
    pub vcs: Option<u8>,
    /// Keeps the packets of a flow (one source, one destination) in order
    /// where the routing allows: each flow keeps to one virtual channel of a
    /// class. An error with routings that spread a flow over several ways.
    pub in_order: bool,
}

impl Default for Router {
    fn default() -> Router {
        Router {
            buffer_flits: 256,
            speedup: 1.0,
            iterations: 1,
            output_queue_flits: None,
            extra_pipeline_cycles: 0,
            credit_cycles: 2,
            vcs: None,
            in_order: false,
        }
    }
}

/// Who sends what to whom, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// To whom.
    pub pattern: Pattern,
    /// Flits that a node offers a cycle; its links take at most 1.
    #[serde(default = "full_load")]
    pub load: f64,
    /// Flits of the largest packet.
    #[serde(default = "default_packet")]
    pub packet_flits: u16,
    /// Flits of a message; none: one packet.
    #[serde(default)]
    pub message_flits: Option<u32>,
}

fn full_load() -> f64 {
    1.0
}

fn default_packet() -> u16 {
    16
}

/// Destinations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Pattern {
    /// Any node, drawn anew for each message.
    Uniform {
        /// Whether a node may draw itself.
        #[serde(default)]
        with_self: bool,
    },
    /// Nodes paired at random once; partners send to each other.
    Pairs,
    /// Half-way around each dimension (cubes), the next group (Dragonfly).
    Tornado,
    /// Node (x, y) sends to (y, x) of a square arrangement.
    Transpose,
    /// Node i sends to the node of all complemented bits.
    BitComplement,
    /// A share of all messages goes to a few nodes, the rest anywhere.
    Hotspot {
        /// How many nodes are hot, drawn by seed.
        nodes: u32,
        /// Share of messages that go to them, 0 to 1.
        share: f64,
    },
    /// Every node sends to each other one in turn, starting with its
    /// neighbour.
    AllToAll,
    /// Messages read from a file; `load` is not used.
    Trace {
        /// The file, each line `cycle source destination flits`; beside the
        /// experiment file if relative.
        path: String,
    },
}

/// What the nodes do at both ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Endpoint {
    /// Nodes whose memory takes less than their link brings.
    pub slow: Slow,
    /// Marking and throttling (FECN/BECN).
    pub marking: Option<Marking>,
    /// Packets that a node may have on their way; none: no limit.
    pub outstanding_packets: Option<u32>,
}

/// Nodes whose memory takes less than their link brings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Slow {
    /// Share of nodes, 0 to 1; at least one node unless 0. Drawn by seed.
    pub share: f64,
    /// How many times slower than a link they sink.
    pub factor: u32,
    /// Flits of a slow node's receive buffer, each virtual channel; none: as
    /// an input buffer of a router.
    pub buffer_flits: Option<u16>,
}

impl Default for Slow {
    fn default() -> Slow {
        Slow { share: 0.0, factor: 1, buffer_flits: None }
    }
}

/// Which queue decides whether a packet that passes a switch is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkingQueue {
    /// The one that the packet goes to, at the other end of the link.
    Output,
    /// The one that it comes from, in this router.
    Input,
}

/// Forward and backward congestion notification (RDRP paper, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Marking {
    /// Which queue is looked at.
    pub queue: MarkingQueue,
    /// Occupancy of that queue from which packets are marked, 0 to 1. The
    /// probability rises linearly from there to `rate` at 1.
    pub from: f64,
    /// Probability of a mark when the queue is full; above 1, it is certain
    /// before that.
    pub rate: f64,
    /// Whose occupancy.
    pub metric: Metric,
    /// What a packet with a backward mark adds to the counter.
    pub step_up: u16,
    /// What a packet without one takes from it.
    pub step_down: u16,
    /// Largest value of the counter, at which nothing is sent.
    pub counter_max: u16,
    /// The counter falls by one every so many cycles.
    pub decay_cycles: u16,
}

impl Default for Marking {
    fn default() -> Marking {
        Marking {
            queue: MarkingQueue::Output,
            from: 0.5,
            rate: 1.0,
            metric: Metric::VirtualChannel,
            step_up: 8,
            step_down: 1,
            counter_max: 20,
            decay_cycles: 4,
        }
    }
}
