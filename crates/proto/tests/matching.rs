//! Random programs against the reference matcher. A failure names its seed;
//! `SLUICE_SEED=<seed> SLUICE_OPERATIONS=<count> cargo test -p sluice-proto
//! --test matching replay` runs that program again.

mod oracle {
    mod naive;
    pub mod program;
    pub use naive::{Message, Oracle, Wanted};
}
mod world;

use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

fn run_named(seed: u64, operations: u64) {
    let run = AssertUnwindSafe(|| oracle::program::run(seed, operations));
    if let Err(cause) = catch_unwind(run) {
        eprintln!("replay with: SLUICE_SEED={seed} SLUICE_OPERATIONS={operations}");
        resume_unwind(cause);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_receive_gets_the_oldest_message_that_matches(
        seed in any::<u64>(),
        operations in 1u64..60,
    ) {
        run_named(seed, operations);
    }
}

#[test]
fn the_same_seeds_run_every_time() {
    for seed in 0..4000 {
        run_named(seed, 20 + seed % 130);
    }
}

#[test]
fn replay() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    if let Some(seed) = number("SLUICE_SEED") {
        run_named(seed, number("SLUICE_OPERATIONS").unwrap_or(150));
    }
}
