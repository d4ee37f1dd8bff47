//! Every credit is in exactly one place, after every event; whatever the
//! buffers, everything ends; bytes arrive as they were sent.

mod common;

use common::{PATTERNS, config, run, run_checked, with};
use sluice_sim::config::{Layer, Pattern, Phase, Progress, Protocol};

#[test]
fn the_books_of_equal_quotas_hold() {
    for (slots, credit_slots) in [(3, 2), (2, 1), (16, 5), (58, 2)] {
        for piggyback in [false, true] {
            run_checked(&with(6, |config| {
                config.flow.slots = slots;
                config.flow.credit_slots = credit_slots;
                config.flow.piggyback = piggyback;
                config.program.bytes = 300;
            }));
        }
    }
}

#[test]
fn the_books_of_dynamic_quotas_hold() {
    for (slots, credit_slots) in [(5, 2), (3, 1), (16, 2), (30, 3)] {
        for piggyback in [false, true] {
            run_checked(&with(8, |config| {
                config.flow.protocol = Protocol::Dynamic;
                config.flow.slots = slots;
                config.flow.credit_slots = credit_slots;
                config.flow.piggyback = piggyback;
                config.program.bytes = 1000;
                let phases = [(8, 2), (4, 2), (2, 3), (8, 2)];
                config.program.phases =
                    phases.map(|(ranks, repetitions)| Phase { ranks, repetitions }).to_vec();
            }));
        }
    }
}

#[test]
fn the_books_of_posted_sends_hold() {
    for (protocol, slots) in [(Protocol::Static, 3), (Protocol::Dynamic, 5)] {
        for bytes in [1000, 3000] {
            run_checked(&with(7, |config| {
                config.flow.protocol = protocol;
                config.flow.slots = slots;
                config.program.pattern = Pattern::AlltoallPosted;
                config.program.bytes = bytes;
            }));
        }
    }
}

#[test]
fn the_books_of_the_whole_stack_hold() {
    for (protocol, slots) in
        [(Protocol::Static, 3), (Protocol::Static, 64), (Protocol::Dynamic, 40)]
    {
        run_checked(&with(5, |config| {
            config.layer = Layer::Messages;
            config.flow.protocol = protocol;
            config.flow.slots = slots;
            config.payload = true;
            config.program.repetitions = 2;
        }));
    }
}

#[test]
fn all_to_all_ends_with_a_single_slot() {
    for layer in [Layer::Packets, Layer::Messages] {
        for progress in [Progress::Always, Progress::Waiting] {
            let outcome = run(&with(16, |config| {
                config.layer = layer;
                config.progress = progress;
                config.flow.credit_slots = 1;
                config.flow.slots = 2;
            }));
            // A whole message that is longer than its quota is announced and does not
            // wait; cut into packets, it does.
            assert!(layer == Layer::Messages || outcome.counts.delayed > 0);
        }
    }
}

#[test]
fn every_pattern_ends_in_both_layers() {
    for pattern in PATTERNS {
        for layer in [Layer::Packets, Layer::Messages] {
            for bytes in [0, 2048, 5000] {
                for protocol in [Protocol::Static, Protocol::Dynamic] {
                    run(&with(8, |config| {
                        config.layer = layer;
                        config.flow.protocol = protocol;
                        config.flow.slots = 12;
                        config.payload = layer == Layer::Messages;
                        config.program.pattern = pattern;
                        config.program.bytes = bytes;
                    }));
                }
            }
        }
    }
}

#[test]
fn memory_grows_with_the_peers() {
    let bytes = |processes| run(&config(processes)).link_bytes_max as f64 / f64::from(processes);
    let (few, many) = (bytes(16), bytes(64));
    assert!((few / many - 1.0).abs() < 0.2, "{few} and {many} bytes a peer");
    assert!(many < 600.0, "{many} bytes a peer");
}
