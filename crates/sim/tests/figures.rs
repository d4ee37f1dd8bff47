//! What a run gives is a function of its configuration and seed, and what can
//! be computed by hand comes out.

mod common;

use common::{config, run, with};
use sluice_sim::References;
use sluice_sim::config::{Config, Layer, Pattern, Progress, Protocol};

#[test]
fn equal_seeds_give_equal_runs() {
    for layer in [Layer::Packets, Layer::Messages] {
        let config = |seed| {
            with(16, |config| {
                config.layer = layer;
                config.seed = seed;
                config.flow.slots = 20;
            })
        };
        let (one, same, other) = (run(&config(1)), run(&config(1)), run(&config(2)));
        assert_eq!(one, same);
        assert_ne!(one.hash, other.hash);
    }
}

/// Two processes on neighbouring nodes; a message of one packet.
fn ping_pong(change: impl FnOnce(&mut Config)) -> Config {
    with(8, |config| {
        config.program.pattern = Pattern::PingPong;
        config.program.bytes = 8;
        config.program.repetitions = 11;
        config.cost.noise_ns = 0;
        change(config);
    })
}

#[test]
fn one_message_takes_the_sum_of_its_parts() {
    let config = ping_pong(|_| {});
    let (cost, network) = (&config.cost, &config.network);
    let wanted_ns = cost.send_message_ns
        + cost.send_packet_ns
        + network.packet_ns
        + network.hop_ns
        + network.interface_ns
        + cost.poll_ns
        + cost.receive_packet_ns
        + cost.receive_message_ns;
    assert_eq!(run(&config).time_ns, 10 * wanted_ns);
}

#[test]
fn a_long_message_takes_its_slowest_part() {
    // The receiver is slower than the sender: each further packet costs it.
    let times = [8, 2048].map(|bytes| {
        run(&ping_pong(|config| {
            config.program.bytes = bytes;
            config.flow.protocol = Protocol::Unlimited;
        }))
        .time_ns
    });
    let each = config(8).cost.receive_packet_ns;
    let more = times[1] - times[0];
    assert!(more.abs_diff(10 * 36 * each) < 10 * 400, "{more} ns more");
}

#[test]
fn an_announced_message_takes_its_bandwidth() {
    let times = [65_536, 131_072]
        .map(|bytes| run(&ping_pong(|config| config.program.bytes = bytes)).time_ns);
    assert_eq!(times[1] - times[0], 10 * 64 * config(8).network.kib_ns);
}

#[test]
fn the_papers_reference_times_come_out() {
    for (hops, wanted_us) in [(1, 50.04), (14, 51.17)] {
        let outcome = run(&with(1024, |config| {
            config.network.dims = vec![8, 8];
            config.network.processes_per_node = 16;
            config.flow.protocol = Protocol::Unlimited;
            config.program.pattern = Pattern::MultiPingPong;
            config.program.hops = hops;
        }));
        let us = outcome.repetition_ns() / 1e3;
        assert!((us / wanted_us - 1.0).abs() < 0.005, "{us} us at {hops} hops");
    }
}

/// EXTOLL paper, equation 1: a credit packet for each threshold of packets.
#[test]
fn credit_traffic_is_one_in_a_threshold() {
    for (slots, credit_slots) in [(58, 2), (20, 1), (30, 5), (8, 2)] {
        let quota = slots - credit_slots;
        let threshold = quota / (credit_slots + 1) + 1;
        let outcome = run(&with(16, |config| {
            config.flow.slots = slots;
            config.flow.credit_slots = credit_slots;
            config.program.repetitions = 41;
        }));
        let ratio = outcome.counts.credit_packets as f64 / outcome.counts.data_packets as f64;
        let wanted = 1.0 / f64::from(threshold);
        assert!((ratio / wanted - 1.0).abs() < 0.02, "{ratio} of {wanted}");
    }
}

/// EXTOLL paper, table 2 and equation 5.
#[test]
fn nobody_waits_from_the_papers_slots_on() {
    for (credit_slots, stable_slots) in [(2, 57), (3, 52), (4, 50), (5, 49)] {
        for (slots, waits) in [(stable_slots, false), (stable_slots - 1, true)] {
            let outcome = run(&with(32, |config| {
                config.flow.slots = slots;
                config.flow.credit_slots = credit_slots;
                config.program.repetitions = 60;
                config.program.barrier = true;
            }));
            // A few find credits late that are on their way: everyone is a little late.
            let share = outcome.counts.delayed as f64 / outcome.counts.messages as f64;
            assert_eq!(
                share > 0.005,
                waits,
                "{share} at {slots} slots, {credit_slots} for credits"
            );
        }
    }
}

/// A process that is early counts its own repetitions, as all others do.
#[test]
fn the_counted_repetitions_are_those_of_each_process() {
    for pattern in [Pattern::Alltoall, Pattern::PingPong] {
        let outcome = run(&with(16, |config| {
            config.program.pattern = pattern;
            config.program.barrier = false;
            config.program.warm_up = 2;
            config.program.repetitions = 6;
            config.flow.slots = 8;
            config.flow.credit_slots = 2;
        }));
        let counts = outcome.counts;
        if pattern == Pattern::Alltoall {
            assert_eq!(counts.messages, 4 * 16 * 15);
        }
        // A quota of 6 holds no message of 37 packets.
        assert!(counts.delayed > 0, "{pattern:?}");
        assert!(counts.delayed <= counts.messages, "{pattern:?}: {}", counts.delayed);
    }
}

#[test]
fn the_reference_sends_no_credits_and_is_computed_once() {
    let references = References::new();
    let few = with(16, |config| config.flow.slots = 8);
    let mut ticks = 0;
    let mut tick = |_| {
        ticks += 1;
        true
    };
    let first = references.of(&few, &mut tick).expect("sound").expect("not stopped");
    let second = references.of(&config(16), &mut tick).expect("sound").expect("not stopped");
    assert_eq!(first, second);
    assert_eq!(first.counts.credit_packets, 0);
    assert_eq!(first.counts.delayed, 0);
    assert!(first.time_ns < run(&few).time_ns);
}

#[test]
fn slots_that_others_do_not_use_are_used() {
    let time = |protocol| {
        run(&with(32, |config| {
            config.flow.protocol = protocol;
            config.flow.slots = 12;
            config.program.ranks = Some(4);
            config.program.repetitions = 30;
            config.program.warm_up = 15;
        }))
    };
    let (fixed, moving) = (time(Protocol::Static), time(Protocol::Dynamic));
    assert!(moving.time_ns < fixed.time_ns);
    assert!(moving.counts.delayed * 4 < fixed.counts.delayed);
}

#[test]
fn posted_sends_do_not_wait_for_each_others_credits() {
    let counts = |pattern| {
        run(&with(16, |config| {
            config.program.pattern = pattern;
            config.flow.slots = 8;
            config.program.repetitions = 6;
        }))
    };
    let (one_by_one, posted) = (counts(Pattern::Alltoall), counts(Pattern::AlltoallPosted));
    assert!(posted.time_ns < one_by_one.time_ns);
    assert!(posted.counts.stalled_ns * 10 < one_by_one.counts.stalled_ns);
}

/// A process that takes in what came early, before it goes on, keeps others
/// waiting, and then they are late as well. Who goes on at once catches up.
#[test]
fn early_messages_keep_an_exchange_by_pairs_out_of_step() {
    let time_ns = |progress| {
        run(&with(32, |config| {
            config.program.pattern = Pattern::Alltoallv;
            config.flow.protocol = Protocol::Unlimited;
            config.progress = progress;
            config.program.repetitions = 12;
            config.program.warm_up = 6;
        }))
        .time_ns
    };
    let in_step_ns = time_ns(Progress::Waiting);
    assert!(time_ns(Progress::Always) * 2 > in_step_ns * 3);
    let config = config(32);
    let cost = &config.cost;
    let message_ns = 37 * (cost.send_packet_ns + cost.receive_packet_ns + cost.crowd_packet_ns);
    assert!(in_step_ns < 6 * 31 * message_ns * 11 / 10);
}

#[test]
fn what_cannot_be_run_is_refused_by_its_key() {
    type Change = fn(&mut Config);
    let cases: [(Change, &str); 9] = [
        (|c| c.processes = 1, "processes"),
        (|c| c.processes = 17, "processes"),
        (|c| c.network.dims = vec![], "network.dims"),
        (|c| c.flow.slots = 2, "flow.slots"),
        (|c| c.flow.credit_slots = 9, "flow.credit_slots"),
        (|c| c.program.ranks = Some(17), "program.ranks"),
        (|c| c.program.warm_up = 3, "program.warm_up"),
        (|c| c.payload = true, "payload"),
        (|c| (c.flow.protocol, c.flow.slots) = (Protocol::Dynamic, 4), "flow.slots"),
    ];
    for (change, key) in cases {
        let refused = sluice_sim::Simulation::new(&with(16, change)).expect_err(key);
        assert_eq!(refused.key, key);
    }
}
