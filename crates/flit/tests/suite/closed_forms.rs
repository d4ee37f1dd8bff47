//! What can be computed with pencil and paper comes out.

use crate::cases;
use crate::cases::{config, mesh, minimal, torus};
use sluice_flit::config::{Config, Endpoint, Pattern, Router, Routing, Slow, Topology};
use sluice_flit::topology::End;
use sluice_flit::traffic::Trace;
use sluice_flit::{Sample, Simulation};

fn simulation(config: &Config) -> Simulation {
    Simulation::new(config, None, 1).expect("a good configuration")
}

/// Counts of an interval after another one.
fn measure(config: &Config, warm_up: u64, cycles: u64) -> Sample {
    let mut simulation = simulation(config);
    simulation.run(warm_up).expect("it is not stuck");
    simulation.take_sample();
    simulation.run(cycles).expect("it is not stuck");
    simulation.take_sample()
}

fn assert_within(what: &str, found: f64, from: f64, to: f64) {
    assert!((from..=to).contains(&found), "{what}: {found:.4} is not from {from:.4} to {to:.4}");
}

/// Cycles of a single packet in an empty network.
fn lone_packet(config: &Config, source: u32, destination: u32, flits: u16) -> Sample {
    let nodes = simulation(config).nodes();
    let text = format!("17 {source} {destination} {flits}");
    let trace = Trace::parse(&text, nodes).expect("a good trace");
    let mut config = config.clone();
    config.traffic.pattern = Pattern::Trace { path: String::new() };
    config.traffic.packet_flits = flits;
    let mut simulation = Simulation::new(&config, Some(trace), 1).expect("a good configuration");
    simulation.run(2_000).expect("it is not stuck");
    let sample = simulation.take_sample();
    assert_eq!(sample.packets, 1);
    assert_eq!(sample.packet_latency_sum, sample.network_latency_sum);
    sample
}

#[test]
fn a_lone_packet_takes_the_pipelines_the_links_and_its_length() {
    let dragonfly = Topology::Dragonfly {
        p: 2,
        a: 4,
        h: 2,
        local_latency_cycles: 10,
        global_latency_cycles: 100,
    };
    let tree = Topology::FatTree { k: 3, n: 3, latency_cycles: 4 };
    let hyperx = Topology::Hyperx { dims: vec![3, 4], nodes_per_router: 2, latency_cycles: 6 };
    // From node to node: routers, and the cycles of the links between them.
    for (topology, ends, routers, links) in [
        (mesh(&[4, 4]), (0, 15), 7, 6),
        (mesh(&[4, 4]), (5, 5), 1, 0),
        (torus(&[5, 5]), (0, 24), 3, 2),
        // Local, global, local; local, global; global alone; local alone.
        (dragonfly.clone(), (0, 71), 4, 120),
        (dragonfly.clone(), (0, 64), 3, 110),
        (dragonfly.clone(), (0, 8), 2, 100),
        (dragonfly, (0, 7), 2, 10),
        (tree.clone(), (0, 1), 1, 0),
        (tree, (0, 26), 5, 16),
        (hyperx, (0, 23), 3, 12),
    ] {
        // A router takes three cycles with one step a cycle, two with two and
        // one with three.
        for (speedup, pipeline) in [(1.0, 3), (2.0, 2), (3.0, 1)] {
            for extra in [0, 3] {
                for flits in [1, 16] {
                    let mut config = config(topology.clone(), minimal(), 1.0);
                    config.router = Router {
                        buffer_flits: 300,
                        speedup,
                        extra_pipeline_cycles: extra,
                        ..Router::default()
                    };
                    let sample = lone_packet(&config, ends.0, ends.1, flits);
                    // Two cycles from the node; from the last router a link of
                    // one cycle.
                    let expected = 2
                        + routers * pipeline
                        + links
                        + (routers - 1) * u64::from(extra)
                        + 1
                        + u64::from(flits)
                        - 1;
                    let what = format!("{topology:?} {ends:?}, speedup {speedup}, {flits} flits");
                    assert_eq!(sample.hops_sum, routers, "{what}");
                    assert_eq!(sample.packet_latency_sum, expected, "{what}");
                }
            }
        }
    }
}

/// Two routers with a node each, whose nodes send to each other at full load.
fn couple(latency_cycles: u16, vcs_per_class: u8, packet_flits: u16) -> Config {
    let topology = Topology::Mesh { dims: vec![2], nodes_per_router: 1, latency_cycles };
    let mut config = config(topology, Routing::Minimal { vcs_per_class }, 1.0);
    config.traffic.pattern = Pattern::Pairs;
    config.traffic.packet_flits = packet_flits;
    config
}

/// Flits that such a couple takes in an interval when its nodes never stop.
fn stream(config: &Config, cycles: u64) -> u64 {
    let trace = Trace::parse("0 0 1 100000\n0 1 0 100000", 2).expect("a good trace");
    let mut config = config.clone();
    config.traffic.pattern = Pattern::Trace { path: String::new() };
    let mut simulation = Simulation::new(&config, Some(trace), 1).expect("a good configuration");
    simulation.run(1_000).expect("it is not stuck");
    simulation.take_sample();
    simulation.run(cycles).expect("it is not stuck");
    simulation.take_sample().accepted_flits
}

#[test]
fn a_channel_carries_its_buffer_once_a_round_trip_of_credits() {
    // Through the queue and over the link in 2 + L cycles, on at once; the
    // credit takes 1 + L and then 2 until it is used.
    for (latency, buffer, round_trip) in [(5, 4, 15), (5, 14, 15), (20, 9, 45), (1, 6, 7)] {
        let mut config = couple(latency, 1, 60_000);
        config.router.buffer_flits = buffer;
        let taken = stream(&config, 40 * round_trip);
        assert_eq!(taken, 2 * 40 * u64::from(buffer), "latency {latency}");
    }
    let mut config = couple(5, 1, 60_000);
    config.router.buffer_flits = 15;
    assert_eq!(stream(&config, 600), 2 * 600);
}

#[test]
fn a_packet_costs_its_channel_one_cycle_more_than_its_flits() {
    for flits in [1, 4, 16] {
        let config = |vcs| {
            let mut config = couple(1, vcs, flits);
            config.router.buffer_flits = 64;
            config
        };
        let cycles = 100 * (u64::from(flits) + 1);
        assert_eq!(stream(&config(1), cycles), 2 * 100 * u64::from(flits), "{flits} flits");
        // With two channels one is given out while the other is used.
        assert_eq!(stream(&config(2), cycles), 2 * cycles, "{flits} flits");
    }
}

#[test]
fn below_saturation_what_is_offered_is_accepted() {
    let tree = Topology::FatTree { k: 4, n: 2, latency_cycles: 1 };
    let two = Routing::Minimal { vcs_per_class: 2 };
    for (topology, routing, load) in [
        (mesh(&[8, 8]), two.clone(), 0.05),
        (mesh(&[8, 8]), two.clone(), 0.3),
        (torus(&[4, 4, 4]), two.clone(), 0.5),
        (tree, two.clone(), 0.4),
        (cases::dragonfly(), two, 0.4),
    ] {
        for message_flits in [None, Some(10)] {
            let mut config = config(topology.clone(), routing.clone(), load);
            config.traffic.message_flits = message_flits;
            config.router.buffer_flits = 32;
            let sample = measure(&config, 2_000, 30_000);
            let what = format!("{topology:?}, load {load}");
            assert_within(&what, sample.accepted_rate() / load, 0.99, 1.01);
        }
    }
}

#[test]
fn uniform_traffic_never_exceeds_the_bisection_bound() {
    // Of the packets of a half, a share of other / (nodes - 1) cross the
    // middle: in a mesh of k by k over k links, in a torus over 2 k.
    let bound = |nodes: f64, links: f64| links / (nodes / 2.0 * (nodes / 2.0) / (nodes - 1.0));
    // The bound is derived; the least is a little below what was measured, to
    // notice changes. Rings past saturation give way, as BookSim 2's do: nothing
    // holds a node back from filling the ring. At 0.7 of the bound the torus of
    // 8 by 8 does not take all, though BookSim 2's does: docs/simulation.md.
    for (topology, bound, least) in [
        (mesh(&[8, 8]), bound(64.0, 8.0), 0.75),
        (mesh(&[16]), bound(16.0, 1.0), 0.68),
        (torus(&[8, 8]), bound(64.0, 16.0), 0.55),
        (torus(&[16]), bound(16.0, 2.0), 0.3),
    ] {
        let accepted = |load| {
            let routing = Routing::Minimal { vcs_per_class: 4 };
            let mut config = config(topology.clone(), routing, load);
            config.traffic.packet_flits = 1;
            measure(&config, 3_000, 8_000).accepted_rate()
        };
        let what = format!("{topology:?}");
        let below = 0.6 * bound;
        assert_within(&what, accepted(below) / below, 0.99, 1.01);
        assert_within(&what, accepted(1.0) / bound, least, 1.0);
    }
}

#[test]
fn one_channel_a_port_saturates_by_blocking_at_the_head_of_the_line() {
    // Karol, Hluchyj and Morgan (1987): 0.586 for many ports, 0.60 for 16;
    // here less by the cycle that a packet of 64 flits costs its channel.
    let crossbar = Topology::Hyperx { dims: vec![1], nodes_per_router: 16, latency_cycles: 1 };
    let mut config = config(crossbar, minimal(), 1.0);
    config.traffic.packet_flits = 64;
    config.router.buffer_flits = 256;
    let rate = measure(&config, 20_000, 60_000).accepted_rate();
    assert_within("accepted", rate, 0.56, 0.62);
}

fn dragonfly(routing: Routing, pattern: Pattern) -> f64 {
    let mut config = config(cases::dragonfly(), routing, 1.0);
    config.traffic.pattern = pattern;
    config.router = Router { buffer_flits: 64, speedup: 2.0, ..Router::default() };
    measure(&config, 4_000, 8_000).accepted_rate()
}

#[test]
fn the_next_group_is_the_worst_for_minimal_ways_and_detours_save_it() {
    let minimal = Routing::Minimal { vcs_per_class: 2 };
    // One global link for the 8 nodes of a group.
    assert_within(
        "minimal, next group",
        dragonfly(minimal.clone(), Pattern::Tornado),
        0.124,
        0.1255,
    );
    // A global link carries what 8 nodes draw: 16 of 72 vias leave a packet on
    // the minimal way, 8 lead into each other group; so 16 / 9 of a node's load.
    let valiant = dragonfly(Routing::Valiant { vcs_per_class: 2 }, Pattern::Tornado);
    assert_within("valiant, next group", valiant, 0.40, 0.5625);
    // Uniform: the links allow more than a node takes.
    assert_within("minimal, anybody", dragonfly(minimal, cases::UNIFORM), 0.6, 1.0);
}

#[test]
fn a_hot_node_takes_one_flit_a_cycle_and_no_more() {
    let mut config = config(torus(&[4, 4]), Routing::Minimal { vcs_per_class: 2 }, 0.5);
    config.traffic.pattern = Pattern::Hotspot { nodes: 1, share: 1.0 };
    let mut simulation = simulation(&config);
    simulation.run(1_000).expect("it is not stuck");
    simulation.take_sample();
    simulation.run(2_000).expect("it is not stuck");
    let most = simulation
        .link_loads()
        .into_iter()
        .filter(|load| matches!(load.to, End::Node(_)))
        .map(|load| load.flits)
        .max();
    assert_eq!(most, Some(2_000));
}

#[test]
fn a_slow_node_takes_exactly_its_share_of_a_link() {
    for factor in [2, 4, 8] {
        let mut config = couple(1, 1, 16);
        config.router.buffer_flits = 64;
        let slow = Slow { share: 1.0, factor, buffer_flits: None };
        config.endpoint = Endpoint { slow, ..Endpoint::default() };
        let sample = measure(&config, 2_000, 4_000);
        assert_eq!(sample.accepted_flits, 2 * 4_000 / u64::from(factor), "factor {factor}");
        assert_eq!(sample.accepted_flits_slow, sample.accepted_flits);
    }
}

#[test]
fn a_share_of_slow_nodes_is_that_share_and_at_least_one() {
    for (share, slow) in [(0.0, 0), (0.001, 1), (0.1, 6), (0.5, 32), (1.0, 64)] {
        let mut config = config(mesh(&[8, 8]), minimal(), 0.1);
        config.endpoint.slow = Slow { share, factor: 2, buffer_flits: None };
        assert_eq!(measure(&config, 0, 1).slow_nodes, slow, "share {share}");
    }
}

#[test]
fn a_limit_of_packets_on_their_way_bounds_the_rate_as_little_says() {
    for latency in [1, 30] {
        for flits in [1, 8] {
            for limit in [1, 2, 3, 200] {
                let mut config = couple(latency, 2, flits);
                config.router.buffer_flits = 256;
                config.endpoint.outstanding_packets = Some(limit);
                // Out: 2 to the router, two routers of 3, the link, the last
                // link of 1. Back: the same for a credit packet of one flit.
                let way = 2 + 3 + u64::from(latency) + 3 + 1;
                let round_trip = way + u64::from(flits) - 1 + way;
                let rounds = 100;
                let sample = measure(&config, 10 * round_trip, rounds * round_trip);
                let most =
                    (2 * rounds * u64::from(limit) * u64::from(flits)).min(2 * rounds * round_trip);
                let what = format!("latency {latency}, {flits} flits, limit {limit}");
                let share = sample.accepted_flits as f64 / most as f64;
                match limit {
                    // All in step: a packet out, a credit packet back.
                    1 => assert_eq!(sample.accepted_flits, most, "{what}"),
                    200 => assert_within(&what, share, 0.8, 1.0),
                    _ => assert_within(&what, share, 0.4, 1.0),
                }
            }
        }
    }
}
