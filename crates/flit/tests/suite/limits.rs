//! What cannot be simulated is refused, and the key named.

use crate::cases;
use sluice_flit::config::{Config, Marking, Pattern, Topology};
use sluice_flit::traffic::Trace;
use sluice_flit::{ConfigError, Simulation};

fn torus() -> Config {
    cases::config(cases::torus(&[4]), cases::minimal(), 0.5)
}

fn refused(config: &Config, trace: Option<Trace>) -> ConfigError {
    Simulation::new(config, trace, 1).expect_err("this cannot be simulated")
}

#[test]
fn a_delay_that_no_wheel_has_is_refused() {
    let mut config = torus();
    config.topology =
        Topology::Torus { dims: vec![4], nodes_per_router: 1, latency_cycles: 65_535 };
    assert_eq!(refused(&config, None).key, "topology");
    let mut config = torus();
    config.router.credit_cycles = 65_535;
    assert_eq!(refused(&config, None).key, "router.credit_cycles");
    let mut config = torus();
    config.router.extra_pipeline_cycles = 4_001;
    assert_eq!(refused(&config, None).key, "router.extra_pipeline_cycles");
}

#[test]
fn memory_slower_than_any_is_refused() {
    let mut config = torus();
    config.endpoint.slow.factor = u32::MAX;
    assert_eq!(refused(&config, None).key, "endpoint.slow.factor");
}

#[test]
fn a_trace_for_another_network_or_pattern_is_refused() {
    let trace = |nodes| Trace::parse("0 0 1 4\n", nodes).expect("a good trace");
    assert_eq!(refused(&torus(), Some(trace(4))).key, "traffic.pattern");
    let mut config = torus();
    config.traffic.pattern = Pattern::Trace { path: "a file".into() };
    assert_eq!(refused(&config, Some(trace(3))).key, "traffic.pattern.path");
    let late = Trace::parse("4294967296 0 1 4\n", 4).expect("a good trace");
    assert_eq!(refused(&config, Some(late)).key, "traffic.pattern.path");
}

#[test]
fn slow_memory_and_a_slow_throttle_are_no_deadlock() {
    let mut config = torus();
    config.traffic.pattern = Pattern::Pairs;
    config.endpoint.slow.share = 1.0;
    config.endpoint.slow.factor = 30_000;
    config.endpoint.marking = Some(Marking {
        decay_cycles: 65_535,
        step_up: 65_535,
        counter_max: 65_535,
        ..Marking::default()
    });
    let mut simulation = Simulation::new(&config, None, 1).expect("a good configuration");
    assert_eq!(simulation.run(300_000), Ok(()));
    assert!(simulation.take_sample().accepted_flits > 0);
}

#[test]
fn a_flattened_butterfly_is_refused_by_its_own_keys() {
    let mut config = torus();
    let butterfly =
        |k, n| Topology::FlattenedButterfly { k, n, nodes_per_router: 1, latency_cycles: 1 };
    config.topology = butterfly(4, u32::MAX);
    assert_eq!(refused(&config, None).key, "topology.n");
    config.topology = butterfly(0, 2);
    assert_eq!(refused(&config, None).key, "topology.k");
}
