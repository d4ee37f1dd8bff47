//! Large messages: beside a computation, and beside a slow sink.

mod common;

use common::{config, run, run_checked};
use sluice_sim::config::{
    Config, First, Layer, Overlap, Pace, Pattern, Progress, Rail, Shares, Side, Topology,
};
use sluice_sim::{Outcome, Simulation};

/// As in the experiments: two nodes of 10 Gbit/s.
fn pair(processes: u32) -> Config {
    let mut config = config(4);
    config.processes = processes;
    config.layer = Layer::Messages;
    config.progress = Progress::Large;
    config.network.kind = Topology::Crossbar;
    config.network.dims = vec![processes];
    config.network.processes_per_node = 1;
    config.network.packet_ns = 51;
    config.network.kib_ns = 816;
    config.network.interface_packets = 65_536;
    config.flow.slots = 256;
    config.cost.send_packet_ns = 5;
    config.cost.receive_packet_ns = 5;
    config.cost.noise_ns = 0;
    config.endpoint.eager_bytes_max = 4096;
    config
}

const ANNOUNCED: Rail = Rail { reads: true, writes: true, chunk_claims: true };
const READ: Rail = Rail { chunk_claims: false, ..ANNOUNCED };
const WRITTEN: Rail = Rail { reads: false, ..READ };

fn overlap(rail: Rail, first: First, side: Side, bytes: u32) -> Config {
    let mut config = pair(2);
    config.rail = rail;
    config.program.pattern = Pattern::Overlap;
    config.program.bytes = bytes;
    config.program.overlap = Some(Overlap { first, side, compute_ns: None });
    config
}

/// Neither announces nor looks for what has arrived.
fn conventional(mut config: Config) -> Config {
    config.endpoint.announce_bytes_min = u64::MAX;
    config
}

fn overlap_pct(config: &Config) -> f64 {
    let (alone, both) = (run(&config.reference()), run(config));
    let compute_ns = both.overlap.expect("it is one").compute_ns as f64;
    100.0 * (1.0 - (both.repetition_ns() - compute_ns) / alone.repetition_ns())
}

const CASES: [(First, Side); 4] = [
    (First::Receiver, Side::Receive),
    (First::Sender, Side::Receive),
    (First::Receiver, Side::Send),
    (First::Sender, Side::Send),
];

#[test]
fn announced_messages_move_beside_a_computation_whoever_comes_first() {
    for (first, side) in CASES {
        for bytes in [65_536, 1 << 20] {
            let overlap = overlap_pct(&overlap(ANNOUNCED, first, side, bytes));
            assert!(overlap > 95.0, "{overlap} % of {bytes} bytes, {first:?} {side:?}");
        }
    }
}

/// The paper's state before: the receive side hides nothing.
#[test]
fn without_a_look_and_an_announcement_a_receive_waits_for_its_computation() {
    for (first, side) in CASES {
        let overlap = overlap_pct(&conventional(overlap(READ, first, side, 1 << 20)));
        let hides = side == Side::Send;
        assert_eq!(overlap > 95.0, hides, "{overlap} %, {first:?} {side:?}");
        assert_eq!(overlap < 5.0, !hides, "{overlap} %, {first:?} {side:?}");
    }
}

#[test]
fn a_look_helps_who_comes_second_only() {
    for (first, hides) in [(First::Sender, true), (First::Receiver, false)] {
        let overlap = overlap_pct(&overlap(READ, first, Side::Receive, 1 << 20));
        assert_eq!(overlap > 95.0, hides, "{overlap} %, {first:?}");
    }
}

#[test]
fn a_sender_that_computes_is_not_told_where_to_write() {
    for first in [First::Sender, First::Receiver] {
        let overlap = overlap_pct(&conventional(overlap(WRITTEN, first, Side::Send, 1 << 20)));
        assert!(overlap < 5.0, "{overlap} %, {first:?}");
    }
}

#[test]
fn who_waits_for_a_message_has_it_though_its_sender_computes() {
    let outcome = run(&overlap(ANNOUNCED, First::Receiver, Side::Send, 1 << 20));
    let overlap = outcome.overlap.expect("it is one");
    let arrived_ns = overlap.arrived_ns / u64::from(outcome.repetitions);
    assert!(arrived_ns * 2 < overlap.compute_ns, "{arrived_ns} ns");
}

#[test]
fn every_way_brings_the_bytes_and_keeps_the_books() {
    for (first, side) in CASES {
        for rail in [ANNOUNCED, READ, WRITTEN, Rail { writes: false, ..WRITTEN }] {
            for bytes in [100, 40_000, 200_000] {
                let mut config = overlap(rail, first, side, bytes);
                // Where a process answers gets itself, they wait for it.
                config.program.overlap.as_mut().expect("it is one").compute_ns = Some(1_000);
                config.payload = true;
                run_checked(&config);
            }
        }
    }
}

fn pace(shares: Shares, sink_factor: u32, rail: Rail) -> Config {
    let mut config = pair(3);
    config.rail = rail;
    config.endpoint.reply_slots = 16_384;
    config.program.pattern = Pattern::Pace;
    config.program.bytes = 1 << 20;
    config.program.repetitions = 30;
    config.program.warm_up = 10;
    config.program.pace = Some(Pace {
        shares,
        slow_messages: 60,
        slow_window: 2,
        sink_factor,
        load_percent: 45,
        buffer_bytes: 65_536,
    });
    config
}

const CHUNKS: Rail = Rail { reads: false, writes: false, chunk_claims: false };

fn kept_pct(config: &Config) -> (f64, Outcome) {
    let (alone, beside) = (run(&config.reference()), run(config));
    (100.0 * alone.repetition_ns() / beside.repetition_ns(), beside)
}

#[test]
fn what_is_pulled_at_the_pace_of_its_sink_leaves_others_their_speed() {
    for shares in [Shares::Receiver, Shares::Sender] {
        for sink_factor in [2, 8] {
            let (kept, outcome) = kept_pct(&pace(shares, sink_factor, CHUNKS));
            assert!(kept > 95.0, "{kept} %, {shares:?}, {sink_factor} times slower");
            let pace = outcome.pace.expect("it is one");
            let busy_ns = pace.slow_bytes * pace.sink_kib_ns / 1024;
            assert!(busy_ns * 10 > outcome.time_ns * 8, "{busy_ns} of {}", outcome.time_ns);
        }
    }
}

/// Every second frame that leaves the sender, or that comes to the receiver, waits for
/// the sink: an eighth of a link is left, of which the flow wants 45 %.
#[test]
fn one_read_of_all_takes_others_theirs() {
    for shares in [Shares::Receiver, Shares::Sender] {
        let (kept, _) = kept_pct(&pace(shares, 8, READ));
        assert!((25.0..32.0).contains(&kept), "{kept} %, {shares:?}");
    }
}

#[test]
fn the_books_of_a_pace_hold() {
    for shares in [Shares::Receiver, Shares::Sender] {
        for rail in [CHUNKS, READ] {
            let mut config = pace(shares, 8, rail);
            config.payload = true;
            config.program.bytes = 50_000;
            config.program.repetitions = 4;
            config.program.warm_up = 1;
            config.endpoint.reply_slots = 300;
            config.program.pace.as_mut().expect("it is one").buffer_bytes = 4096;
            run_checked(&config);
        }
    }
}

#[test]
fn a_pace_is_a_function_of_its_seed() {
    let seeded = |seed| {
        let mut config = pace(Shares::Sender, 4, CHUNKS);
        (config.seed, config.cost.noise_ns) = (seed, 500);
        run(&config)
    };
    assert_eq!(seeded(1), seeded(1));
    assert_ne!(seeded(1).hash, seeded(2).hash);
}

#[test]
fn what_cannot_be_run_is_refused_by_its_key() {
    type Change = fn(&mut Config);
    let cases: [(Change, &str); 7] = [
        (|c| c.layer = Layer::Packets, "layer"),
        (|c| c.network.processes_per_node = 3, "network.processes_per_node"),
        (|c| c.processes = 2, "processes"),
        (|c| c.program.barrier = true, "program"),
        (|c| c.program.pattern = Pattern::Alltoall, "program.pace"),
        (|c| c.program.pattern = Pattern::Overlap, "program.overlap"),
        (
            |c| c.program.pace.as_mut().expect("it is one").sink_factor = 0,
            "program.pace.sink_factor",
        ),
    ];
    for (change, key) in cases {
        let mut config = pace(Shares::Sender, 2, CHUNKS);
        change(&mut config);
        let refused = Simulation::new(&config).expect_err(key);
        assert_eq!(refused.key, key);
    }
}
