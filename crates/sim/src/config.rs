//! What a simulation is made of, as plain data. Every part can be read from a
//! TOML table; unknown keys are errors.
//!
//! Units are in the names. The costs are those of the paper's cluster as far
//! as its text gives them away; `docs/simulation.md` says how they were found.

mod large;

pub use large::{Endpoint, First, Overlap, Pace, Rail, Shares, Side};

use crate::error::ConfigError;
use crate::grid::Grid;
pub use crate::grid::Topology;
use serde::{Deserialize, Serialize};

/// Most processes: what the compact form of a packet and the link layer's counts
/// have room for.
const PROCESSES_MAX: u32 = 65_535;
/// Most slots that a process may be granted: the quota of a run without limits.
pub const SLOTS_MAX: u32 = 65_535;
/// As many senders do not crowd a process: those of one node.
pub const FEW_SENDERS: u32 = 16;
/// Most places for credit packets that the link layer remembers.
const CREDIT_SLOTS_MAX: u32 = 8;

/// One simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What stands between a program and its mailbox.
    #[serde(default)]
    pub layer: Layer,
    /// Processes; they fill node after node.
    pub processes: u32,
    /// Nodes, links and their speed.
    pub network: Network,
    /// Who may have how many slots.
    pub flow: Flow,
    /// What the processors do for a packet.
    #[serde(default)]
    pub cost: Cost,
    /// When a process looks into its mailbox.
    #[serde(default)]
    pub progress: Progress,
    /// What the interfaces move by themselves.
    #[serde(default)]
    pub rail: Rail,
    /// Limits of the protocols.
    #[serde(default)]
    pub endpoint: Endpoint,
    /// What the processes do.
    pub program: Program,
    /// Whether bytes are moved and compared (layer `messages` only).
    #[serde(default)]
    pub payload: bool,
    /// Draws everything that is random.
    #[serde(default = "default_seed")]
    pub seed: u64,
}

fn default_seed() -> u64 {
    1
}

/// What stands between a program and its mailbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// The link layer alone: a message is cut into packets of one slot, as the
    /// library of the paper does.
    #[default]
    Packets,
    /// The whole stack: a message is one packet of several slots.
    Messages,
}

/// When a process looks into its mailbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// Before it begins an operation, and while it waits.
    #[default]
    Always,
    /// While it waits.
    Waiting,
    /// While it waits, and before it begins what the endpoint calls large
    /// ([`sluice_proto::Endpoint::should_poll_first`]): as the provider does.
    Large,
}

/// Nodes, links and their speed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// How nodes are joined.
    pub kind: Topology,
    /// Nodes along each dimension; a crossbar has one.
    pub dims: Vec<u32>,
    /// Processes that share a node and its network interface.
    #[serde(default = "sixteen")]
    pub processes_per_node: u32,
    /// From one router to the next.
    #[serde(default = "hop_ns")]
    pub hop_ns: u64,
    /// Out of the sender's interface and into the receiver's memory.
    #[serde(default = "interface_ns")]
    pub interface_ns: u64,
    /// How long a packet of one slot occupies a link.
    #[serde(default = "packet_ns")]
    pub packet_ns: u64,
    /// How long 1,024 bytes of a bulk transfer occupy a link.
    #[serde(default = "kib_ns")]
    pub kib_ns: u64,
    /// Packets that an interface takes before a sender has to wait for it.
    #[serde(default = "interface_packets")]
    pub interface_packets: u64,
}

fn sixteen() -> u32 {
    16
}

fn hop_ns() -> u64 {
    87
}

fn interface_ns() -> u64 {
    300
}

fn packet_ns() -> u64 {
    64
}

fn kib_ns() -> u64 {
    900
}

fn interface_packets() -> u64 {
    16
}

/// How a mailbox is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// Equal quotas.
    Static,
    /// A few slots each; the others go where they are used.
    Dynamic,
    /// Quotas that no run uses up, and no credit packets.
    Unlimited,
}

/// Who may have how many slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// How a mailbox is divided.
    pub protocol: Protocol,
    /// Slots of a mailbox for each process, those for credit packets included.
    pub slots: u32,
    /// Of these, for credit packets.
    #[serde(default = "two")]
    pub credit_slots: u32,
    /// Whether credits are piggybacked on packets that have room for them.
    #[serde(default)]
    pub piggyback: bool,
}

fn two() -> u32 {
    2
}

/// What a processor does for a packet, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cost {
    /// To write a packet into the network interface.
    pub send_packet_ns: u64,
    /// To take a packet of a message out of the mailbox.
    pub receive_packet_ns: u64,
    /// To make a credit packet and write it into the network interface.
    pub credit_send_ns: u64,
    /// To take in a credit packet.
    pub credit_receive_ns: u64,
    /// To begin a message.
    pub send_message_ns: u64,
    /// To end one at the receiver.
    pub receive_message_ns: u64,
    /// Besides, in a process that more than [`FEW_SENDERS`] others have sent to.
    pub crowd_packet_ns: u64,
    /// For each stored message that a new receive is compared with.
    pub search_ns: u64,
    /// Until a process that finds its mailbox empty again and again sees that
    /// something has come.
    pub poll_ns: u64,
    /// To begin a message to a process of the same node through memory.
    pub local_message_ns: u64,
    /// Besides, at most, to begin a message: drawn anew for each.
    pub noise_ns: u64,
    /// Processes begin within this span of each other.
    pub start_spread_ns: u64,
}

impl Default for Cost {
    fn default() -> Cost {
        Cost {
            send_packet_ns: 1_000,
            receive_packet_ns: 1_283,
            credit_send_ns: 1_000,
            credit_receive_ns: 400,
            send_message_ns: 100,
            receive_message_ns: 500,
            crowd_packet_ns: 2_535,
            search_ns: 357,
            poll_ns: 100,
            local_message_ns: 1_500,
            noise_ns: 800,
            start_spread_ns: 2_000,
        }
    }
}

/// What the processes do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Who sends what to whom.
    pub pattern: Pattern,
    /// Length of a message.
    #[serde(default = "two_kib")]
    pub bytes: u32,
    /// Ranks that take part; the others wait in a barrier. None: all.
    #[serde(default)]
    pub ranks: Option<u32>,
    /// How often.
    #[serde(default = "three")]
    pub repetitions: u32,
    /// The first of them that are not counted.
    #[serde(default = "one")]
    pub warm_up: u32,
    /// Distance of the two nodes of a ping-pong.
    #[serde(default = "one")]
    pub hops: u32,
    /// Repetitions after which another rank is the root.
    #[serde(default = "one")]
    pub root_repetitions: u32,
    /// Whether the ranks meet in a barrier after each repetition.
    #[serde(default)]
    pub barrier: bool,
    /// Instead of `ranks` and `repetitions`: one after the other, with a
    /// barrier of all between them.
    #[serde(default)]
    pub phases: Vec<Phase>,
    /// Whether messages within a node go through its memory, without credits.
    #[serde(default)]
    pub shared_memory: bool,
    /// Bounds of groups of ranks: after each repetition of rank 0 its credits
    /// toward each group are written down. Layer `packets` only.
    #[serde(default)]
    pub credit_groups: Vec<u32>,
    /// Of the pattern `overlap`.
    #[serde(default)]
    pub overlap: Option<Overlap>,
    /// Of the pattern `pace`.
    #[serde(default)]
    pub pace: Option<Pace>,
}

fn two_kib() -> u32 {
    2048
}

fn three() -> u32 {
    3
}

fn one() -> u32 {
    1
}

/// A part of a program that changes with time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// The first so many ranks take part.
    pub ranks: u32,
    /// How often.
    pub repetitions: u32,
}

/// Who sends what to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// One pair, on two nodes.
    PingPong,
    /// All processes of one node, each with one of another.
    MultiPingPong,
    /// Both of a pair send, then receive.
    PingPing,
    /// A ring: send up, receive from below.
    Sendrecv,
    /// A ring: send both ways, receive from both.
    Exchange,
    /// Recursive doubling.
    Allreduce,
    /// A binomial tree toward the root.
    Reduce,
    /// Recursive halving; the message is what all have together.
    ReduceScatter,
    /// A binomial tree from the root.
    Bcast,
    /// Dissemination.
    Barrier,
    /// Each sends to all others, then receives from all.
    Alltoall,
    /// Each begins all receives and sends at once, then waits for all.
    AlltoallPosted,
    /// Each sends to one and receives from one at a time, a rank farther away
    /// each time.
    Alltoallv,
    /// Blocks exchanged with both neighbours in turn, two at a time after the
    /// first; a ring of one block at a time if the ranks are odd.
    Allgather,
    /// The same.
    Allgatherv,
    /// A binomial tree toward the root, messages growing.
    Gather,
    /// Everybody sends to the root.
    Gatherv,
    /// A binomial tree from the root, messages shrinking.
    Scatter,
    /// The root sends to everybody.
    Scatterv,
    /// A large message beside a computation: [`Overlap`].
    Overlap,
    /// A fast flow of large messages beside one to a slow sink: [`Pace`].
    Pace,
}

impl Network {
    /// Nodes.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.dims.iter().product()
    }
}

impl Program {
    /// Phases, also if it has but one.
    #[must_use]
    pub fn all_phases(&self, processes: u32) -> Vec<Phase> {
        if self.phases.is_empty() {
            let ranks = self.ranks.unwrap_or(processes);
            vec![Phase { ranks, repetitions: self.repetitions }]
        } else {
            self.phases.clone()
        }
    }
}

impl Config {
    /// What its time is compared with: the same without limits; of an overlap
    /// without the computation, of a pace without the slow flow.
    #[must_use]
    pub fn reference(&self) -> Config {
        let mut reference = self.clone();
        if let Some(overlap) = &mut reference.program.overlap {
            overlap.compute_ns = Some(0);
            return reference;
        }
        if let Some(pace) = &mut reference.program.pace {
            pace.slow_messages = 0;
            return reference;
        }
        reference.flow = Flow {
            protocol: Protocol::Unlimited,
            slots: SLOTS_MAX,
            credit_slots: 2,
            piggyback: false,
        };
        reference.program.credit_groups.clear();
        reference
    }

    /// Checks what serde cannot see.
    ///
    /// # Errors
    /// The key at fault, and what would be right.
    pub fn check(&self) -> Result<(), ConfigError> {
        let fault = |key: &str, reason: String| Err(ConfigError::new(key, reason));
        let network = &self.network;
        let dims_max = if network.kind == Topology::Crossbar { 1 } else { 8 };
        if network.dims.is_empty() || network.dims.len() > dims_max || network.dims.contains(&0) {
            let text = format!("needs 1 to {dims_max} dimensions, none of them empty");
            return fault("network.dims", text);
        }
        let nodes = network.dims.iter().try_fold(1u32, |all, &dim| all.checked_mul(dim));
        let room = nodes.and_then(|nodes| nodes.checked_mul(network.processes_per_node));
        if network.processes_per_node == 0 || room.is_none_or(|room| room < self.processes) {
            let text = format!(
                "{} processes do not fit on the nodes, with {} on each",
                self.processes, network.processes_per_node
            );
            return fault("processes", text);
        }
        if !(2..=PROCESSES_MAX).contains(&self.processes) {
            return fault("processes", format!("must be from 2 to {PROCESSES_MAX}"));
        }
        for (key, value) in [
            ("network.packet_ns", network.packet_ns),
            ("network.interface_packets", network.interface_packets),
            ("cost.send_packet_ns", self.cost.send_packet_ns),
            ("cost.receive_packet_ns", self.cost.receive_packet_ns),
        ] {
            if value == 0 {
                return fault(key, "must be at least 1".to_owned());
            }
        }
        if self.payload && self.layer == Layer::Packets {
            return fault("payload", "needs layer = \"messages\"".to_owned());
        }
        self.check_flow()?;
        self.check_large()?;
        self.check_program()
    }

    fn check_flow(&self) -> Result<(), ConfigError> {
        let flow = &self.flow;
        if !(1..=CREDIT_SLOTS_MAX).contains(&flow.credit_slots) {
            let text = format!("must be from 1 to {CREDIT_SLOTS_MAX}");
            return Err(ConfigError::new("flow.credit_slots", text));
        }
        if !(flow.credit_slots + 1..=SLOTS_MAX).contains(&flow.slots) {
            let text = format!(
                "must be from {} (one more than those for credit packets) to {SLOTS_MAX}",
                flow.credit_slots + 1
            );
            return Err(ConfigError::new("flow.slots", text));
        }
        Ok(())
    }

    fn check_program(&self) -> Result<(), ConfigError> {
        let program = &self.program;
        let fault = |key: &str, reason: String| Err(ConfigError::new(key, reason));
        let mut counted = 0;
        for phase in program.all_phases(self.processes) {
            let key = if program.phases.is_empty() { "program.ranks" } else { "program.phases" };
            if !(2..=self.processes).contains(&phase.ranks) {
                return fault(key, format!("ranks must be from 2 to {}", self.processes));
            }
            let doubling = program.pattern == Pattern::Allreduce;
            if doubling && !phase.ranks.is_power_of_two() {
                return fault(key, "this pattern needs a power of two of ranks".to_owned());
            }
            counted += phase.repetitions;
        }
        if counted <= program.warm_up {
            return fault("program.warm_up", "leaves no repetition to be counted".to_owned());
        }
        if program.root_repetitions == 0 {
            return fault("program.root_repetitions", "must be at least 1".to_owned());
        }
        let groups = &program.credit_groups;
        if !groups.is_sorted() || groups.last().is_some_and(|&last| last > self.processes) {
            let text = "must rise, up to the number of processes";
            return fault("program.credit_groups", text.to_owned());
        }
        if !groups.is_empty() && self.layer == Layer::Messages {
            let text = "are written down in the layer \"packets\" only";
            return fault("program.credit_groups", text.to_owned());
        }
        let pairs = matches!(program.pattern, Pattern::PingPong | Pattern::MultiPingPong);
        if pairs && self.partner_node().is_none() {
            let text = format!("no node is {} hops from the first", program.hops);
            return fault("program.hops", text);
        }
        Ok(())
    }

    /// The first node at the distance of a ping-pong, with processes on it.
    pub(crate) fn partner_node(&self) -> Option<u32> {
        let grid = Grid::new(self.network.kind, &self.network.dims);
        let used = self.processes / self.network.processes_per_node;
        (1..used).find(|&node| grid.hops(0, node) == self.program.hops)
    }
}
