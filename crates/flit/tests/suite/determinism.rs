//! The same seed gives the same results, however the network is cut and
//! whoever runs it.

use crate::cases;
use crate::cases::{config, dragonfly, marking, slow, torus};
use sluice_flit::config::{Config, Divert, Metric, Pattern, Router, Routing, Topology};
use sluice_flit::{LinkLoad, Sample, Simulation};

/// Samples and link loads of some intervals, none of which is a multiple of a
/// window.
fn results(mut simulation: Simulation) -> Vec<(Sample, Vec<LinkLoad>)> {
    [1, 2, 3, 501, 1, 700, 13, 900]
        .into_iter()
        .map(|cycles| {
            simulation.run(cycles).expect("it is not stuck");
            let loads = simulation.link_loads();
            (simulation.take_sample(), loads)
        })
        .collect()
}

fn whole(config: &Config) -> Vec<(Sample, Vec<LinkLoad>)> {
    results(Simulation::in_one_piece(config, None).expect("a good configuration"))
}

fn cut(config: &Config, threads: usize) -> Vec<(Sample, Vec<LinkLoad>)> {
    results(Simulation::new(config, None, threads).expect("a good configuration"))
}

/// All that nodes can do, at saturation.
fn with_everything(topology: Topology, routing: Routing) -> Config {
    let mut config = config(topology, routing, 0.9);
    config.router = Router { buffer_flits: 24, speedup: 2.4, ..Router::default() };
    config.traffic.packet_flits = 6;
    config.traffic.message_flits = Some(15);
    config.endpoint.slow = slow(4);
    config.endpoint.marking = Some(marking(Metric::VirtualChannel));
    config.endpoint.outstanding_packets = Some(12);
    config
}

fn progressive() -> Routing {
    let rule = Divert { bias: 1.0, threshold_flits: 3, metric: Metric::Port };
    Routing::ProgressiveAdaptive { vcs_per_class: 1, rule }
}

fn check(config: &Config) {
    let expected = whole(config);
    let mut sum = Sample::new(0);
    expected.iter().for_each(|(sample, _)| sum.add(sample));
    assert!(sum.packets > 1_000 && sum.credit_packets > 0 && sum.marks > 0, "{sum:?}");
    for threads in [1, 2, 3] {
        assert_eq!(cut(config, threads), expected, "{threads} threads");
    }
}

#[test]
fn a_dragonfly_cut_into_groups_gives_the_same_on_any_number_of_threads() {
    for pattern in [Pattern::Pairs, cases::UNIFORM] {
        let mut config = with_everything(dragonfly(), progressive());
        config.traffic.pattern = pattern;
        check(&config);
    }
}

#[test]
fn a_torus_cut_for_threads_gives_the_same_on_any_number_of_them() {
    for pattern in [Pattern::Pairs, cases::UNIFORM] {
        let rule = Divert { bias: 1.0, threshold_flits: 0, metric: Metric::VirtualChannel };
        let mut config =
            with_everything(torus(&[4, 4, 2]), Routing::Ugal { vcs_per_class: 1, rule });
        config.traffic.pattern = pattern;
        check(&config);
    }
}

#[test]
fn more_threads_than_routers_give_the_same() {
    let config = with_everything(torus(&[3, 2]), cases::minimal());
    assert_eq!(cut(&config, 50), whole(&config));
}

#[test]
fn every_case_gives_the_same_on_two_threads() {
    for (name, config) in cases::all().into_iter().step_by(3) {
        let [one, two] = [1, 2].map(|threads| {
            let mut simulation =
                Simulation::new(&config, None, threads).expect("a good configuration");
            simulation.run(300).expect("it is not stuck");
            simulation.take_sample()
        });
        let mut simulation = Simulation::in_one_piece(&config, None).expect("a good configuration");
        simulation.run(300).expect("it is not stuck");
        let whole = simulation.take_sample();
        assert!(one == whole && two == whole, "{name}: {one:?} {two:?} {whole:?}");
    }
}

#[test]
fn another_seed_gives_other_results() {
    let config = with_everything(dragonfly(), progressive());
    let other = Config { seed: 2, ..config.clone() };
    assert_eq!(cut(&config, 2), cut(&config, 2));
    assert_ne!(cut(&config, 2), cut(&other, 2));
}
