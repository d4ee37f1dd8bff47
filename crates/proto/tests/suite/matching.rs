//! Random programs against the reference matcher. A failure names its seed;
//! `SLUICE_SEED=<seed> SLUICE_OPERATIONS=<count> cargo test -p sluice-proto
//! --test suite matching::replay` runs that program again, and `SLUICE_SEEDS=<count>`
//! those of the seeds after it too.

use crate::oracle;
use crate::oracle::said::Said;
use crate::seeds;
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

fn run_named(seed: u64, operations: u64) -> Said {
    let run = AssertUnwindSafe(|| oracle::program::run(seed, operations));
    catch_unwind(run).unwrap_or_else(|cause| {
        eprintln!("replay with: SLUICE_SEED={seed} SLUICE_OPERATIONS={operations}");
        resume_unwind(cause)
    })
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
    let mut said = Said::default();
    for one in seeds::run_all(0..4000, |seed| run_named(seed, 20 + seed % 130)) {
        said.add(&one);
    }
    let Said { searches, watches, answers_found, answers_missed, .. } = said;
    let Said { answers_watched, declines, taken, .. } = said;
    let counts =
        [searches, watches, answers_found, answers_missed, answers_watched, declines, taken];
    assert!(counts.iter().all(|&count| count > 1000), "{counts:?}");
    let Said { announced, rtrs_used, invited, written, .. } = said;
    let counts = [announced, rtrs_used, invited, written];
    assert!(counts.iter().all(|&count| count > 100), "{counts:?}");
}

#[test]
fn replay() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    if let Some(first) = number("SLUICE_SEED") {
        for seed in first..first + number("SLUICE_SEEDS").unwrap_or(1) {
            run_named(seed, number("SLUICE_OPERATIONS").unwrap_or(150));
        }
    }
}
