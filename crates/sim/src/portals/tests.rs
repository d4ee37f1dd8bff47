//! Few seeds, and wrong things that the model must not miss.

use super::model::{Counter, Kind, Model, Pt, Shot, Told};
use super::{Coverage, Trace, run};

#[test]
fn the_first_seeds_run_and_run_again_alike() {
    for seed in 0..60 {
        let first = run(seed, &mut Trace::tail());
        assert_eq!(run(seed, &mut Trace::whole()), first, "seed {seed}");
    }
}

#[test]
fn the_first_seeds_come_by_every_path() {
    let mut met = Coverage::default();
    for seed in 0..600 {
        met = met + run(seed, &mut Trace::tail()).coverage;
    }
    let missed = met.iter().filter(|(_, worlds)| *worlds == 0);
    let missed: Vec<&str> = missed.map(|(name, _)| name).collect();
    assert!(missed.is_empty(), "never met: {missed:?}");
}

/// One process with a portal table entry that tells, and a counter of its own.
fn model() -> Model {
    let mut model = Model::new(1, true, 10, false);
    model.pt_alloc(0, 0, Pt { has_queue: true, ..Pt::default() });
    model.processes[0].counters = vec![Counter::own()];
    model
}

#[test]
#[should_panic(expected = "told what is not due")]
fn an_event_that_is_not_due_is_found_out() {
    model().sees(0, &Told::of(Kind::AutoUnlink, 0, 7));
}

#[test]
#[should_panic(expected = "says (3, 0) and is (2, 0)")]
fn a_counter_that_says_too_much_is_found_out() {
    let mut model = model();
    model.ct_inc(0, 0, (2, 0));
    model.counters_are(0, &[(3, 0)]);
}

#[test]
#[should_panic(expected = "nobody has issued operation 0")]
fn what_nobody_has_sent_is_found_out() {
    model().arrives(0, 0, 0, true);
}

#[test]
fn a_counter_that_is_passed_through_a_threshold_sets_off_what_waits_there() {
    let mut model = model();
    model.processes[0].counters.push(Counter::own());
    model.arm(0, 0, 5, Shot::Inc(1, (1, 0)));
    model.ct_set(0, 0, (9, 0));
    model.ct_set(0, 0, (0, 0));
    model.counters_are(0, &[(0, 0), (1, 0)]);
}
