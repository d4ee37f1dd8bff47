//! The engine does in every cycle what the naive simulator does.

use crate::cases;
use crate::cases::{config, dragonfly, marking, minimal, slow, torus};
use crate::oracle::Oracle;
use proptest::prelude::*;
use sluice_flit::config::{Config, Divert, Metric, Pattern, Router, Routing};
use sluice_flit::traffic::Trace;
use sluice_flit::{Sample, Simulation};

/// Runs both and compares every passage and every count.
fn compare(name: &str, config: &Config, trace: Option<&Trace>, cycles: u32) -> Sample {
    let mut oracle = Oracle::new(config, trace.cloned());
    let mut engine = Simulation::in_one_piece(config, trace.cloned())
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    engine.passages(true);
    let mut passed = 0;
    for _ in 0..cycles {
        let cycle = engine.cycle();
        oracle.cycle();
        engine.run(1).expect("it is not stuck");
        let (ours, theirs) = (oracle.take_passages(), engine.passages(true));
        passed += ours.len();
        assert_eq!(theirs, ours, "{name}: cycle {cycle} (left: engine, right: oracle)");
    }
    assert!(passed > 0, "{name}: nothing passed");
    let mut sample = engine.take_sample();
    assert_eq!(sample.latency_histogram.iter().sum::<u64>(), sample.packets, "{name}");
    sample.latency_histogram.fill(0);
    assert_eq!(sample, oracle.sample(), "{name} (left: engine, right: oracle)");
    sample
}

fn compare_part(part: usize, parts: usize, cycles: u32) {
    for (name, config) in cases::all().into_iter().skip(part).step_by(parts) {
        compare(&name, &config, None, cycles);
    }
}

#[test]
fn the_engine_and_the_oracle_agree_in_every_cycle_on_a_third_of_the_cases() {
    compare_part(0, 3, 700);
}

#[test]
fn the_engine_and_the_oracle_agree_in_every_cycle_on_another_third_of_the_cases() {
    compare_part(1, 3, 700);
}

#[test]
fn the_engine_and_the_oracle_agree_in_every_cycle_on_the_last_third_of_the_cases() {
    compare_part(2, 3, 700);
}

#[test]
fn what_the_cases_are_to_show_happens_in_them() {
    let mut sum = Sample::new(0);
    for (name, config) in cases::all() {
        let mut engine = Simulation::in_one_piece(&config, None)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        engine.run(700).expect("it is not stuck");
        let sample = engine.take_sample();
        assert!(sample.packets > 0, "{name}");
        sum.add(&sample);
    }
    let shown = [sum.packets, sum.accepted_flits_slow, sum.marks, sum.credit_packets];
    assert!(shown[0] > 100_000 && shown[1..].iter().all(|&count| count > 1_000), "{shown:?}");
}

#[test]
fn they_agree_for_thousands_of_cycles_of_collapse() {
    let rule = Divert { bias: 1.0, threshold_flits: 3, metric: Metric::Port };
    let mut config =
        config(dragonfly(), Routing::ProgressiveAdaptive { vcs_per_class: 1, rule }, 1.0);
    config.traffic.pattern = Pattern::Pairs;
    config.router = Router { buffer_flits: 32, speedup: 2.4, ..Router::default() };
    config.traffic.packet_flits = 16;
    config.endpoint.slow = slow(8);
    compare("collapse", &config, None, 5_000);
    config.endpoint.marking = Some(marking(Metric::VirtualChannel));
    let sample = compare("collapse with marks", &config, None, 5_000);
    assert!(sample.marks > 100 && sample.credit_packets > 0, "{sample:?}");
}

#[test]
fn they_agree_on_a_trace() {
    let mut text = String::new();
    for nth in 0..400u32 {
        let (source, destination) = (nth * 7 % 16, nth * nth % 16);
        text += &format!("{} {source} {destination} {}\n", nth / 20 * 13, 1 + nth % 11);
    }
    let trace = Trace::parse(&text, 16).expect("a good trace");
    let mut config = config(torus(&[4, 4]), minimal(), 1.0);
    config.traffic.pattern = Pattern::Trace { path: String::new() };
    let sample = compare("trace", &config, Some(&trace), 1_500);
    assert_eq!(sample.accepted_flits, trace.total_flits());
    config.endpoint.outstanding_packets = Some(2);
    let sample = compare("trace with a limit", &config, Some(&trace), 4_000);
    assert_eq!(sample.accepted_flits, trace.total_flits());
    assert_eq!(sample.packets, sample.credit_packets);
}

prop_compose! {
    /// Any small configuration.
    fn any_config()(
        case in 0..cases::all().len(),
        seed: u64,
        load in prop_oneof![Just(1.0), 0.01..1.0],
        packet_flits in 1u16..10,
        message_flits in prop::option::of(1u32..20),
        buffer_flits in 1u16..12,
        speedup in prop_oneof![Just(1.0), 0.1..3.0],
        iterations in 1u8..4,
        output_queue_flits in prop::option::of(1u16..4),
        pipeline in (0u16..3, 0u16..4),
        limit in prop::option::of(1u32..6),
        throttle in prop::option::of((1u16..30, 0u16..9, 1u16..40, 1u16..9)),
        share in prop_oneof![Just(0.0), 0.0..1.0],
        factor in 1u32..9,
    ) -> Config {
        let (_, mut config) = cases::all().swap_remove(case);
        config.seed = seed;
        config.traffic.load = load;
        config.traffic.packet_flits = packet_flits;
        config.traffic.message_flits = message_flits;
        config.router = Router {
            buffer_flits,
            speedup,
            iterations,
            output_queue_flits,
            extra_pipeline_cycles: pipeline.0,
            credit_cycles: pipeline.1,
            ..config.router
        };
        config.endpoint.outstanding_packets = limit;
        config.endpoint.slow.share = share;
        config.endpoint.slow.factor = factor;
        if let Some((step_up, step_down, counter_max, decay_cycles)) = throttle {
            let marking = marking(Metric::VirtualChannel);
            config.endpoint.marking =
                Some(sluice_flit::config::Marking { step_up, step_down, counter_max, decay_cycles, ..marking });
        }
        config
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn they_agree_on_any_small_network(config in any_config()) {
        let mut oracle = Oracle::new(&config, None);
        let mut engine = Simulation::in_one_piece(&config, None).expect("a good configuration");
        for _ in 0..3 {
            engine.passages(true);
            for _ in 0..100 {
                oracle.cycle();
            }
            engine.run(100).expect("it is not stuck");
            prop_assert_eq!(engine.passages(true), oracle.take_passages());
        }
        let mut sample = engine.take_sample();
        sample.latency_histogram.fill(0);
        prop_assert_eq!(sample, oracle.sample());
    }
}
