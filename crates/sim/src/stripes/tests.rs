//! What several rails bring, with the pull that ships and with the paper's fragments.

use super::*;

const MIB: u64 = 1 << 20;

fn config(gbit_per_s: &[u32], bytes: u64, cut: Cut) -> Config {
    Config {
        gbit_per_s: gbit_per_s.to_vec(),
        latency_ns: 1_000,
        chunk_ns: 200,
        message_ns: 300,
        eager_bytes_max: 8 << 10,
        bytes,
        cut,
        fragment_bytes: 64 * MIB,
        warm_up: 1,
        repetitions: 1,
    }
}

fn outcome(config: &Config) -> Outcome {
    run(config, &mut || true).expect("it can be").expect("it goes on")
}

/// Over so many rails of 100 Gbit/s.
fn time_ns(rails: usize, bytes: u64, cut: Cut) -> u64 {
    outcome(&config(&vec![100; rails], bytes, cut)).time_ns
}

/// Share of what the rails carry together.
fn efficiency(outcome: &Outcome) -> f64 {
    let bits = (outcome.message_bytes * u64::from(outcome.messages) * 8) as f64;
    bits * 1_000.0 / (outcome.rails_mbit_per_s * outcome.time_ns) as f64
}

fn assert_ratio(of: u64, to: u64, wanted: f64) {
    let ratio = of as f64 / to as f64;
    assert!((ratio / wanted - 1.0).abs() < 0.01, "{of} / {to} is {ratio}, not {wanted}");
}

/// The paper at 256 MiB: four fragments are two rounds on two rails, and on three.
#[test]
fn with_fragments_three_rails_are_as_fast_as_two_where_the_rounds_are_as_many() {
    for (fragments, rounds_of_two, rounds_of_three) in
        [(1, 1, 1), (2, 1, 1), (3, 2, 1), (4, 2, 2), (5, 3, 2), (6, 3, 2), (8, 4, 3), (64, 32, 22)]
    {
        let times = [2, 3].map(|rails| time_ns(rails, fragments * 64 * MIB, Cut::Fragments));
        assert_ratio(times[0], times[1], f64::from(rounds_of_two) / f64::from(rounds_of_three));
    }
}

#[test]
fn with_the_pull_each_rail_adds_its_rate() {
    for mib in [64, 128, 192, 256, 320] {
        let alone_ns = time_ns(1, mib * MIB, Cut::Pull);
        for rails in 2..=4 {
            assert_ratio(alone_ns, time_ns(rails, mib * MIB, Cut::Pull), rails as f64);
        }
    }
}

#[test]
fn unequal_rails_carry_what_they_can() {
    let pull = outcome(&config(&[100, 200, 400], 256 * MIB, Cut::Pull));
    assert!(efficiency(&pull) > 0.98, "{pull:?}");
    let fragments = outcome(&config(&[100, 200, 400], 256 * MIB, Cut::Fragments));
    assert!(efficiency(&fragments) < 0.6, "{fragments:?}");
}

#[test]
fn a_short_message_takes_one_rail_and_no_longer() {
    for bytes in [4, 8 << 10] {
        let times = [1, 4].map(|rails| time_ns(rails, bytes, Cut::Pull));
        assert_eq!(times[0], times[1]);
        assert_eq!(times[0], time_ns(4, bytes, Cut::Fragments));
    }
    // Two calls, the way, and 92 bytes at 12.5 bytes per nanosecond.
    assert_eq!(time_ns(1, 4, Cut::Pull), 300 + 1_000 + 300 + 8);
}

#[test]
fn what_cannot_be_simulated_is_named() {
    let good = config(&[100], 4, Cut::Pull);
    let wrong = [
        ("gbit_per_s", Config { gbit_per_s: vec![], ..good.clone() }),
        ("gbit_per_s", Config { gbit_per_s: vec![0], ..good.clone() }),
        ("gbit_per_s", Config { gbit_per_s: vec![1; 17], ..good.clone() }),
        ("bytes", Config { bytes: 0, ..good.clone() }),
        ("latency_ns", Config { latency_ns: 1 << 40, ..good.clone() }),
        ("eager_bytes_max", Config { eager_bytes_max: 1 << 40, ..good.clone() }),
        ("fragment_bytes", Config { fragment_bytes: 0, ..good.clone() }),
        (
            "fragment_bytes",
            Config { fragment_bytes: 1, bytes: 257, cut: Cut::Fragments, ..good.clone() },
        ),
        ("repetitions", Config { repetitions: 0, ..good.clone() }),
    ];
    for (key, config) in wrong {
        assert_eq!(config.check().map_err(|error| error.key), Err(key.to_owned()));
    }
    assert_eq!(run(&config(&[100], 64 * MIB, Cut::Pull), &mut || false), Ok(None));
}
