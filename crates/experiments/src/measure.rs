//! One run: warm-up, batches until they agree, and the counts.
//!
//! Only integers are kept. So a figure from the journal equals one just measured, to
//! the last digit.

use crate::experiment::Stop;
use crate::simulator::Column;
use crate::statistics::{half_width, rounded};
use serde::{Deserialize, Serialize};
use sluice_flit::topology::End;
use sluice_flit::{Sample, Simulation};
use std::collections::BTreeMap;

/// Most cycles between two looks at whether the user wants to stop.
const SLICE_CYCLES: u64 = 200;

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoppedBy {
    /// Two batches agreed.
    Steady,
    /// There were as many cycles as allowed.
    MaxCycles,
    /// Nothing moved any more.
    Stuck,
}

impl StoppedBy {
    /// As in the results.
    pub fn name(self) -> &'static str {
        match self {
            StoppedBy::Steady => "steady",
            StoppedBy::MaxCycles => "max_cycles",
            StoppedBy::Stuck => "stuck",
        }
    }
}

/// An interval of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Its first cycle.
    pub from_cycle: u64,
    /// Its length.
    pub cycles: u64,
    /// Flits that nodes took.
    pub accepted_flits: u64,
    /// Whether it is part of the warm-up.
    pub warm_up: bool,
}

/// The load of one direction of a link over the counted cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// It leaves this router.
    pub router: u32,
    /// By this port.
    pub port: u8,
    /// The router that it leads to, unless it is a node.
    pub to_router: Option<u32>,
    /// The node that it leads to, unless it is a router.
    pub to_node: Option<u32>,
    /// Flits that it carried.
    pub flits: u64,
}

/// What a run has counted after its warm-up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Nodes of the network.
    pub nodes: u32,
    /// Slow ones of them.
    pub slow_nodes: u32,
    /// Those of the warm-up included.
    pub batches: Vec<Batch>,
    /// Counted cycles.
    pub cycles: u64,
    /// See [`Sample`], as for all that follow.
    pub injected_flits: u64,
    /// Flits that nodes took.
    pub accepted_flits: u64,
    /// Flits that slow nodes took.
    pub accepted_flits_slow: u64,
    /// Packets that arrived.
    pub packets: u64,
    /// Sum over packets.
    pub packet_latency_sum: u64,
    /// Sum over packets.
    pub network_latency_sum: u64,
    /// Sum over packets.
    pub hops_sum: u64,
    /// Median latency of packets.
    pub latency_p50: Option<u64>,
    /// What 99 of 100 packets do not exceed.
    pub latency_p99: Option<u64>,
    /// Packets marked.
    pub marks: u64,
    /// Packets that carried nothing but a credit.
    pub credit_packets: u64,
    /// Why the run ended.
    pub stopped_by: StoppedBy,
    /// What the simulator said when nothing moved.
    pub stuck: Option<String>,
    /// If they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
}

/// The figures of a run, in the order of the columns.
pub const COLUMNS: &[Column<Outcome>] = &[
    Column {
        name: "accepted",
        title: "Throughput, flits a node and cycle",
        of: |o| o.rate(o.accepted_flits),
    },
    Column {
        name: "accepted_half_width",
        title: "95 % half-width over batches",
        of: Outcome::batch_half_width,
    },
    Column {
        name: "accepted_last",
        title: "Throughput of the last batch",
        of: |o| o.batch_rates().last().copied(),
    },
    Column {
        name: "accepted_peak",
        title: "Throughput of the best batch, warm-up included",
        of: Outcome::peak,
    },
    Column { name: "accepted_slow", title: "Throughput of slow nodes", of: Outcome::slow_rate },
    Column {
        name: "injected",
        title: "Flits sent, a node and cycle",
        of: |o| o.rate(o.injected_flits),
    },
    Column {
        name: "packet_latency",
        title: "Packet latency, cycles",
        of: |o| o.each_packet(o.packet_latency_sum),
    },
    Column {
        name: "network_latency",
        title: "Latency in the network, cycles",
        of: |o| o.each_packet(o.network_latency_sum),
    },
    Column {
        name: "latency_p50",
        title: "Median packet latency, cycles",
        of: |o| o.latency_p50.map(|c| c as f64),
    },
    Column {
        name: "latency_p99",
        title: "99th percentile of packet latency, cycles",
        of: |o| o.latency_p99.map(|c| c as f64),
    },
    Column {
        name: "hops",
        title: "Routers that a packet passes",
        of: |o| o.each_packet(o.hops_sum),
    },
    Column { name: "marks", title: "Marks a packet", of: |o| o.each_packet(o.marks) },
    Column {
        name: "credit_packets",
        title: "Credit packets a packet",
        of: |o| o.each_packet(o.credit_packets),
    },
    Column { name: "cycles", title: "Cycles counted", of: |o| Some(o.cycles as f64) },
];

/// The index of a column.
pub fn column(name: &str) -> Option<usize> {
    COLUMNS.iter().position(|column| column.name == name)
}

impl Outcome {
    fn new(nodes: u32) -> Outcome {
        Outcome {
            nodes,
            slow_nodes: 0,
            batches: Vec::new(),
            cycles: 0,
            injected_flits: 0,
            accepted_flits: 0,
            accepted_flits_slow: 0,
            packets: 0,
            packet_latency_sum: 0,
            network_latency_sum: 0,
            hops_sum: 0,
            latency_p50: None,
            latency_p99: None,
            marks: 0,
            credit_packets: 0,
            stopped_by: StoppedBy::MaxCycles,
            stuck: None,
            links: Vec::new(),
        }
    }

    fn take(&mut self, sample: &Sample) {
        self.slow_nodes = sample.slow_nodes;
        self.injected_flits = sample.injected_flits;
        self.accepted_flits = sample.accepted_flits;
        self.accepted_flits_slow = sample.accepted_flits_slow;
        self.packets = sample.packets;
        self.packet_latency_sum = sample.packet_latency_sum;
        self.network_latency_sum = sample.network_latency_sum;
        self.hops_sum = sample.hops_sum;
        self.latency_p50 = sample.latency_at(0.5);
        self.latency_p99 = sample.latency_at(0.99);
        self.marks = sample.marks;
        self.credit_packets = sample.credit_packets;
    }

    /// The throughput of a batch.
    pub fn batch_rate(&self, batch: &Batch) -> f64 {
        batch.accepted_flits as f64 / (f64::from(self.nodes) * batch.cycles.max(1) as f64)
    }

    /// Whether nearly all that is offered is accepted.
    pub fn is_stable(&self, load: f64) -> bool {
        self.rate(self.accepted_flits).is_some_and(|rate| rate >= 0.97 * load)
    }

    /// A row a batch.
    pub fn series(&self) -> Vec<Vec<String>> {
        let row = |batch: &Batch| {
            vec![
                batch.from_cycle.to_string(),
                batch.cycles.to_string(),
                batch.warm_up.to_string(),
                rounded(self.batch_rate(batch)).to_string(),
            ]
        };
        self.batches.iter().map(row).collect()
    }

    /// For people.
    pub fn in_words(&self) -> String {
        format!("accepted {:.3}", self.rate(self.accepted_flits).unwrap_or(0.0))
    }

    fn rate(&self, flits: u64) -> Option<f64> {
        (self.cycles > 0).then(|| flits as f64 / (f64::from(self.nodes) * self.cycles as f64))
    }

    fn slow_rate(&self) -> Option<f64> {
        let node_cycles = f64::from(self.slow_nodes) * self.cycles as f64;
        (node_cycles > 0.0).then(|| self.accepted_flits_slow as f64 / node_cycles)
    }

    fn each_packet(&self, sum: u64) -> Option<f64> {
        (self.packets > 0).then(|| sum as f64 / self.packets as f64)
    }

    fn batch_rates(&self) -> Vec<f64> {
        let counted = self.batches.iter().filter(|batch| !batch.warm_up);
        counted.map(|batch| self.batch_rate(batch)).collect()
    }

    fn batch_half_width(&self) -> Option<f64> {
        half_width(&self.batch_rates())
    }

    fn peak(&self) -> Option<f64> {
        self.batches.iter().map(|batch| self.batch_rate(batch)).max_by(f64::total_cmp)
    }
}

/// Runs a simulation to its end. `tick` is told of cycles as they pass and
/// says whether to go on; if not, there is no outcome.
pub fn measure(
    simulation: &mut Simulation,
    stop: &Stop,
    links: bool,
    tick: &mut dyn FnMut(u64) -> bool,
) -> Option<Outcome> {
    let mut outcome = Outcome::new(simulation.nodes());
    let mut total = Sample::new(simulation.nodes());
    let mut loads: BTreeMap<(u32, u8), Link> = BTreeMap::new();
    let mut last: Option<f64> = None;
    outcome.stopped_by = loop {
        let done = simulation.cycle();
        let warm_up = done < stop.warm_up_cycles;
        let length = if warm_up {
            stop.batch_cycles.min(stop.warm_up_cycles - done)
        } else {
            stop.batch_cycles
        };
        if let Err(stuck) = run(simulation, length, tick)? {
            outcome.stuck = Some(stuck);
        }
        if links && !warm_up {
            add_links(&mut loads, simulation);
        }
        let sample = simulation.take_sample();
        let batch = Batch {
            from_cycle: done,
            cycles: simulation.cycle() - done,
            accepted_flits: sample.accepted_flits,
            warm_up,
        };
        outcome.batches.push(batch);
        if !warm_up {
            total.slow_nodes = sample.slow_nodes;
            total.add(&sample);
            outcome.cycles += batch.cycles;
        }
        if outcome.stuck.is_some() {
            break StoppedBy::Stuck;
        }
        if warm_up {
            continue;
        }
        let rate = outcome.batch_rate(&batch);
        let is_steady =
            last.is_some_and(|last| (rate - last).abs() <= stop.change * last.max(rate));
        if is_steady && outcome.cycles >= stop.min_cycles {
            break StoppedBy::Steady;
        }
        if outcome.cycles + stop.batch_cycles > stop.max_cycles {
            break StoppedBy::MaxCycles;
        }
        last = Some(rate);
    };
    outcome.take(&total);
    outcome.links = loads.into_values().collect();
    Some(outcome)
}

/// Runs so many cycles. None: the user wants to stop. An error: nothing moves.
fn run(
    simulation: &mut Simulation,
    cycles: u64,
    tick: &mut dyn FnMut(u64) -> bool,
) -> Option<Result<(), String>> {
    let mut left = cycles;
    while left > 0 {
        let slice = left.min(SLICE_CYCLES);
        if let Err(stuck) = simulation.run(slice) {
            return Some(Err(stuck.to_string()));
        }
        left -= slice;
        if !tick(slice) {
            return None;
        }
    }
    Some(Ok(()))
}

fn add_links(loads: &mut BTreeMap<(u32, u8), Link>, simulation: &Simulation) {
    for load in simulation.link_loads() {
        let (to_router, to_node) = match load.to {
            End::Router { router, .. } => (Some(router), None),
            End::Node(node) => (None, Some(node)),
            End::None => continue,
        };
        let (router, port) = (load.router, load.port);
        let link = Link { router, port, to_router, to_node, flits: 0 };
        loads.entry((router, port)).or_insert(link).flits += load.flits;
    }
}

#[cfg(test)]
mod tests;
