//! That the swarm bites: each rule that is broken on purpose is found out within
//! [`SEEDS_MAX`] seeds, and all programs are as legal as ever.

use super::setup::Setup;
use super::tests::is_apart;
use super::{Cut, Trace, run, run_cut, shrink};
use crate::rails::mutants as rails;
use sluice_link::mutants::{self, Mutant};
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

const SEEDS_MAX: u64 = 2_000;

/// Panics unless each mutant is found out by one of the seeds.
fn find_all<M: Copy + Debug>(
    mutants: &[M],
    seeds: &[u64],
    with: impl Fn(M, &mut dyn FnMut() -> bool) -> bool,
) {
    let mut missed = Vec::new();
    for &mutant in mutants {
        let is_found = |seed: &u64| {
            with(mutant, &mut || {
                catch_unwind(AssertUnwindSafe(|| run(*seed, &mut Trace::tail()))).is_err()
            })
        };
        match seeds.iter().position(is_found) {
            Some(at) => println!("{mutant:?} is found out by seed {}, world {at}", seeds[at]),
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "not found out: {missed:?}");
}

/// Each breaks a rule of `multirail`.
#[test]
fn whoever_breaks_a_rule_of_rails_is_found_out() {
    let seeds: Vec<u64> = (0..SEEDS_MAX).filter(|&seed| is_apart(seed)).collect();
    find_all(&rails::Mutant::ALL, &seeds, |mutant, run| rails::with(mutant, run));
}

/// Each breaks a rule of `link`, `portals` or `proto`.
#[test]
fn whoever_breaks_a_rule_of_the_machines_is_found_out() {
    let seeds: Vec<u64> = (0..SEEDS_MAX).collect();
    find_all(&Mutant::ALL, &seeds, |mutant, run| mutants::with(mutant, run));
}

/// Each breaks a rule of remote memory, in `portals` or `proto`.
#[test]
fn whoever_breaks_a_rule_of_remote_memory_is_found_out() {
    let seeds: Vec<u64> =
        (0..SEEDS_MAX).filter(|&seed| Setup::draw(seed).remote.is_some()).collect();
    find_all(&Mutant::OF_REMOTE, &seeds, |mutant, run| mutants::with(mutant, run));
}

/// Each breaks a rule of buffers for many messages, in `proto`.
#[test]
fn whoever_breaks_a_rule_of_buffers_for_many_is_found_out() {
    let seeds: Vec<u64> = (0..SEEDS_MAX).collect();
    find_all(&Mutant::OF_BUFFERS, &seeds, |mutant, run| mutants::with(mutant, run));
}

/// Each breaks a rule of receives into several pieces, in `proto`.
#[test]
fn whoever_breaks_a_rule_of_receives_into_pieces_is_found_out() {
    let seeds: Vec<u64> = (0..SEEDS_MAX).collect();
    find_all(&Mutant::OF_PIECES, &seeds, |mutant, run| mutants::with(mutant, run));
}

/// What is left of a world that fails still fails, and is little.
#[test]
fn a_world_that_fails_is_reduced_to_little() {
    let fails = |seed: u64, cut: &Cut| {
        mutants::with(Mutant::MatchesTheNewestMessage, || {
            catch_unwind(AssertUnwindSafe(|| run_cut(seed, cut, &mut Trace::tail()))).is_err()
        })
    };
    let failing = (0..SEEDS_MAX).find(|&seed| fails(seed, &Cut::default()));
    let seed = failing.expect("it is found out");
    let cut = shrink(seed, |cut| fails(seed, cut));
    assert!(fails(seed, &cut), "{cut}");
    let left = cut.operations.as_ref().expect("some are left out").len();
    let setup = Setup::draw(seed);
    let all = setup.layouts.len() as u64 * setup.phases * setup.operations;
    assert!(left <= 6 && (left as u64) < all, "{left} of {all} operations are left: {cut}");
    assert_eq!(cut.to_string().parse(), Ok(cut));
}
