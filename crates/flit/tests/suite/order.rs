//! Packets of a flow stay in order where that is asked for.
//!
//! What arrives is told by its length: every packet of a trace has a length
//! of its own, and the flits that one channel of the last link carries up to
//! a packet's last one are that packet.

use crate::cases::{config, mesh, torus};
use sluice_flit::Simulation;
use sluice_flit::config::{Config, Pattern, Router, Routing, Topology};
use sluice_flit::topology::{End, Topology as Made};
use sluice_flit::traffic::Trace;
use std::collections::BTreeMap;

const PACKETS: u32 = 12;

/// Runs a trace in which every node sends packets to the first one, long and
/// short, and returns which of them came from each source, in the order of
/// their arrival. (5 times 5 is 1 modulo 12.)
fn arrivals(config: &Config) -> BTreeMap<u32, Vec<u32>> {
    let fabric = Made::new(&config.topology).expect("a good topology").fabric();
    let nodes = fabric.nodes();
    let mut text = String::new();
    for source in 1..nodes {
        for nth in 0..PACKETS {
            // To several destinations, so that flows get in each other's way.
            text += &format!("0 {source} 0 {}\n", 1 + nth * 5 % PACKETS * nodes + source);
            if nth % 3 == 0 {
                text += &format!("0 {source} {} 3\n", (source + nth) % (nodes - 1) + 1);
            }
        }
    }
    let trace = Trace::parse(&text, nodes).expect("a good trace");
    let mut config = config.clone();
    config.traffic.pattern = Pattern::Trace { path: String::new() };
    config.traffic.packet_flits = u16::MAX;
    let mut simulation =
        Simulation::in_one_piece(&config, Some(trace.clone())).expect("a good configuration");
    simulation.passages(true);
    simulation.run(3 * trace.total_flits()).expect("it is not stuck");
    let (router, port) = fabric.home(0);
    assert_eq!(fabric.link(router, port).to, End::Node(0));
    let mut lengths = [0; 16];
    let mut seen: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for passage in simulation.passages(false) {
        if (passage.router, passage.out_port) == (router, port) {
            let length = &mut lengths[usize::from(passage.out_vc)];
            *length += 1;
            if passage.tail {
                let number = std::mem::take(length) - 1;
                seen.entry(number % nodes).or_default().push(number / nodes * 5 % PACKETS);
            }
        }
    }
    seen
}

fn with(topology: Topology, in_order: bool) -> Config {
    let mut config = config(topology, Routing::Minimal { vcs_per_class: 2 }, 1.0);
    config.router = Router { in_order, buffer_flits: 128, ..config.router };
    config
}

fn networks() -> [Topology; 4] {
    let dragonfly =
        Topology::Dragonfly { p: 1, a: 3, h: 1, local_latency_cycles: 1, global_latency_cycles: 5 };
    let hyperx = Topology::Hyperx { dims: vec![3, 2], nodes_per_router: 2, latency_cycles: 1 };
    [mesh(&[3, 3]), torus(&[3, 3]), dragonfly, hyperx]
}

#[test]
fn packets_of_a_flow_arrive_in_order_if_that_is_asked_for() {
    for topology in networks() {
        for (source, seen) in arrivals(&with(topology.clone(), true)) {
            let expected: Vec<u32> = (0..PACKETS).collect();
            assert_eq!(seen, expected, "{topology:?}, from node {source}");
        }
    }
}

#[test]
fn otherwise_all_of_them_arrive_but_some_overtake() {
    for topology in networks() {
        let seen = arrivals(&with(topology.clone(), false));
        let all: Vec<u32> = (0..PACKETS).collect();
        let mut overtakes = false;
        for (source, mut seen) in seen {
            overtakes |= !seen.is_sorted();
            seen.sort_unstable();
            assert_eq!(seen, all, "{topology:?}, from node {source}");
        }
        assert!(overtakes, "{topology:?}: the other test shows nothing");
    }
}

#[test]
fn order_cannot_be_had_where_a_flow_takes_several_ways() {
    let tree = Topology::FatTree { k: 2, n: 2, latency_cycles: 1 };
    for topology in [torus(&[4, 4]), tree] {
        let error = Simulation::new(&with(topology, true), None, 1).expect_err("several ways");
        assert_eq!(error.key, "router.in_order");
    }
}
