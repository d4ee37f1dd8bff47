//! No flit and no credit is ever lost or made, in any cycle.

use crate::cases;
use crate::cases::{config, dragonfly, minimal, slow};
use sluice_flit::config::{Config, Divert, Metric, Pattern, Routing};
use sluice_flit::topology::End;
use sluice_flit::traffic::Trace;
use sluice_flit::{Sample, Simulation};

/// Checks after each cycle.
fn run_checked(simulation: &mut Simulation, cycles: u32) {
    for _ in 0..cycles {
        simulation.run(1).expect("it is not stuck");
        simulation.check_invariants();
    }
}

#[test]
fn flits_and_credits_are_conserved_in_every_cycle() {
    for (name, config) in cases::all() {
        println!("{name}");
        let mut simulation = Simulation::in_one_piece(&config, None).expect("a good configuration");
        simulation.check_invariants();
        run_checked(&mut simulation, 300);
    }
}

#[test]
fn they_are_conserved_when_a_network_collapses() {
    let rule = Divert { bias: 1.0, threshold_flits: 0, metric: Metric::Port };
    let routing = Routing::ProgressiveAdaptive { vcs_per_class: 1, rule };
    let mut config = config(dragonfly(), routing, 1.0);
    config.traffic.pattern = Pattern::Pairs;
    config.endpoint.slow = slow(8);
    let mut simulation = Simulation::in_one_piece(&config, None).expect("a good configuration");
    simulation.run(10_000).expect("it is not stuck");
    let before = simulation.take_sample().accepted_rate();
    run_checked(&mut simulation, 500);
    let after = simulation.take_sample().accepted_rate();
    assert!(after < 0.6 && before < 0.6, "that is no collapse: {before}, {after}");
}

/// Bursts of messages from everybody to everybody, and then silence.
fn bursts(config: &Config) -> (Trace, Sample, Simulation) {
    let nodes = Simulation::in_one_piece(config, None).expect("a good configuration").nodes();
    let mut text = String::new();
    for source in 0..nodes {
        for nth in 0..8 {
            let destination = (source * 5 + nth * nth * 3 + 1) % nodes;
            text +=
                &format!("{} {source} {destination} {}\n", nth / 4 * 50, 1 + (source + nth) % 9);
        }
    }
    let trace = Trace::parse(&text, nodes).expect("a good trace");
    let mut config = config.clone();
    config.traffic.pattern = Pattern::Trace { path: String::new() };
    let mut simulation =
        Simulation::in_one_piece(&config, Some(trace.clone())).expect("a good configuration");
    simulation.run(4_000).expect("it is not stuck");
    let sample = simulation.take_sample();
    (trace, sample, simulation)
}

#[test]
fn all_that_is_sent_arrives_and_then_nothing_moves() {
    for (name, config) in cases::all().into_iter().step_by(2) {
        if matches!(config.traffic.pattern, Pattern::Hotspot { .. }) {
            continue;
        }
        let (trace, sample, mut simulation) = bursts(&config);
        assert_eq!(sample.injected_flits, trace.total_flits(), "{name}");
        assert_eq!(sample.accepted_flits, trace.total_flits(), "{name}");
        simulation.check_invariants();
        let to_nodes = |loads: Vec<sluice_flit::LinkLoad>| -> u64 {
            loads.iter().filter(|load| matches!(load.to, End::Node(_))).map(|load| load.flits).sum()
        };
        simulation.run(100).expect("it is not stuck");
        assert_eq!(to_nodes(simulation.link_loads()), 0, "{name}");
        let silence = simulation.take_sample();
        assert_eq!((silence.flit_hops, silence.injected_flits), (0, 0), "{name}");
    }
}

#[test]
fn each_credit_packet_and_each_flit_is_counted_on_the_link_to_its_node() {
    let mut config = config(cases::torus(&[4, 4]), minimal(), 0.2);
    config.endpoint.outstanding_packets = Some(4);
    let mut simulation = Simulation::in_one_piece(&config, None).expect("a good configuration");
    simulation.run(5_000).expect("it is not stuck");
    let loads = simulation.link_loads();
    let sample = simulation.take_sample();
    let ejected: u64 =
        loads.iter().filter(|load| matches!(load.to, End::Node(_))).map(|load| load.flits).sum();
    let all: u64 = loads.iter().map(|load| load.flits).sum();
    assert_eq!(all, sample.flit_hops);
    // What is on its way makes the difference.
    let counted = sample.accepted_flits + sample.credit_packets;
    assert!(ejected.abs_diff(counted) < 100, "{ejected} and {counted}");
}
