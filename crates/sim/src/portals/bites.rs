//! That this swarm bites: each rule that is broken on purpose is found out within [`SEEDS_MAX`]
//! seeds.

use super::{Trace, run};
use sluice_link::mutants::{self, Mutant};
use std::panic::{AssertUnwindSafe, catch_unwind};

const SEEDS_MAX: u64 = 2_000;

/// Of the rules that the whole stack keeps, those that the engine's programs come by.
const OF_ALL: [Mutant; 15] = [
    Mutant::SpendsTooLittle,
    Mutant::KeepsControlSlots,
    Mutant::ReturnsOneTooMany,
    Mutant::LosesCredits,
    Mutant::SkipsNumbers,
    Mutant::KeepsReplySlots,
    Mutant::MatchesTheNewestReceive,
    Mutant::MatchesTheNewestMessage,
    Mutant::MatchesAnySource,
    Mutant::OverlooksATagBit,
    Mutant::OverlooksMessages,
    Mutant::DeliversTwice,
    Mutant::CopiesTooLittle,
    Mutant::LandsChunksTooFar,
    Mutant::ForgetsAcknowledgements,
];

#[test]
fn whoever_breaks_a_rule_of_portals_is_found_out() {
    let mut missed = Vec::new();
    for mutant in Mutant::OF_PORTALS.into_iter().chain(OF_ALL) {
        let is_found = |seed: &u64| {
            mutants::with(mutant, || {
                catch_unwind(AssertUnwindSafe(|| run(*seed, &mut Trace::tail()))).is_err()
            })
        };
        match (0..SEEDS_MAX).find(is_found) {
            Some(seed) => println!("{mutant:?} is found out by seed {seed}"),
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "not found out: {missed:?}");
}
