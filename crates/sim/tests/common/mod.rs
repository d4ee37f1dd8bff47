//! Configurations that the tests begin with.

#![allow(dead_code, reason = "each test program uses its part of it")]

use sluice_sim::config::{
    Config, Cost, Endpoint, Flow, Layer, Network, Pattern, Program, Progress, Protocol, Rail,
    Topology,
};
use sluice_sim::{Outcome, Simulation};

/// An all-to-all of 2 KiB under equal quotas of 58 slots, four to a node.
pub fn config(processes: u32) -> Config {
    Config {
        layer: Layer::Packets,
        processes,
        network: Network {
            kind: Topology::Mesh,
            dims: vec![processes.div_ceil(4)],
            processes_per_node: 4,
            hop_ns: 87,
            interface_ns: 300,
            packet_ns: 64,
            kib_ns: 900,
            interface_packets: 16,
        },
        flow: Flow { protocol: Protocol::Static, slots: 58, credit_slots: 2, piggyback: false },
        cost: Cost::default(),
        progress: Progress::Always,
        rail: Rail::default(),
        endpoint: Endpoint::default(),
        program: Program {
            pattern: Pattern::Alltoall,
            bytes: 2048,
            ranks: None,
            repetitions: 3,
            warm_up: 1,
            hops: 1,
            root_repetitions: 1,
            barrier: false,
            phases: Vec::new(),
            shared_memory: false,
            credit_groups: Vec::new(),
            overlap: None,
            pace: None,
        },
        payload: false,
        seed: 1,
    }
}

pub fn with(processes: u32, change: impl FnOnce(&mut Config)) -> Config {
    let mut config = config(processes);
    change(&mut config);
    config
}

pub fn run(config: &Config) -> Outcome {
    let simulation = Simulation::new(config).expect("a sound configuration");
    let outcome = simulation.run(&mut |_| true).expect("it is not stopped");
    assert_eq!(outcome.stuck, None);
    outcome
}

/// The same, with every book checked after every event.
pub fn run_checked(config: &Config) -> Outcome {
    let outcome = Simulation::new(config).expect("a sound configuration").run_checked();
    assert_eq!(outcome.stuck, None);
    outcome
}

pub const PATTERNS: [Pattern; 19] = [
    Pattern::PingPong,
    Pattern::MultiPingPong,
    Pattern::PingPing,
    Pattern::Sendrecv,
    Pattern::Exchange,
    Pattern::Allreduce,
    Pattern::Reduce,
    Pattern::ReduceScatter,
    Pattern::Bcast,
    Pattern::Barrier,
    Pattern::Alltoall,
    Pattern::AlltoallPosted,
    Pattern::Alltoallv,
    Pattern::Allgather,
    Pattern::Allgatherv,
    Pattern::Gather,
    Pattern::Gatherv,
    Pattern::Scatter,
    Pattern::Scatterv,
];
