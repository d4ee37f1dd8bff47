//! Few seeds, and wrong things that the model must not miss.

use super::model::{AckReq, Bytes, Counter, Ends, Fail, Kind, Md, Model, Op, Pt, Shot, Told, What};
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

/// A put of the first of two processes to the second, which wants an acknowledgement and counts
/// it, and has not arrived.
fn model_with_a_put() -> Model {
    let mut model = Model::new(2, true, 10, false);
    model.processes[0].counters = vec![Counter::default()];
    let md = Md { has_queue: true, ct: Some(0), ct_ack: true, ..Md::default() };
    model.add_op(Op {
        kind: What::Put,
        from: 0,
        to: 1,
        pt: 0,
        bits: 0,
        hdr_data: 0,
        len: 8,
        remote_offset: 0,
        ack: AckReq::Full,
        user_ptr: 0,
        source_md: md,
        answer_md: md,
        sent: vec![7; 8],
        operand: Vec::new(),
        started: None,
        arrived: None,
        answer: Bytes::default(),
        settled: false,
        is_unexpected: false,
        is_claimed: false,
        send_due: None,
        comm_due: None,
        ends: Ends::default(),
    });
    model.begin(0);
    model
}

fn told(kind: Kind, outcome: Result<(), Fail>) -> Told {
    Told { outcome, rlength: Some(8), mlength: Some(8), ..Told::of(kind, 0, 0) }
}

#[test]
fn what_is_lost_on_its_way_ends_once_as_undeliverable() {
    let mut model = model_with_a_put();
    model.dies(1);
    model.gives_up(0, 1);
    assert_eq!(model.sees(0, &told(Kind::Send, Ok(()))), Some(0), "its memory may have been read");
    model.sees(0, &told(Kind::Ack, Err(Fail::Undeliverable)));
    model.counters_are(0, &[(0, 1)]);
    model.check_end();
}

#[test]
#[should_panic(expected = "told what is not due")]
fn an_acknowledgement_of_what_was_lost_on_its_way_is_found_out() {
    let mut model = model_with_a_put();
    model.gives_up(0, 1);
    model.sees(0, &told(Kind::Ack, Ok(())));
}

#[test]
#[should_panic(expected = "0 was never told")]
fn an_operation_that_waits_for_the_dead_is_found_out() {
    let mut model = model_with_a_put();
    model.gives_up(0, 1);
    model.sees(0, &told(Kind::Send, Err(Fail::Undeliverable)));
    model.check_end();
}

#[test]
#[should_panic(expected = "has counted")]
fn a_loss_that_is_counted_as_success_and_failure_is_found_out() {
    let mut model = model_with_a_put();
    model.pt_alloc(1, 0, Pt::default());
    model.arrives(0, 1, 0, true);
    model.gives_up(0, 1);
    model.sees(0, &told(Kind::Send, Ok(())));
    model.sees(0, &told(Kind::Ack, Err(Fail::Undeliverable)));
    model.counters_are(0, &[(0, 0)]);
    model.check_end();
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
