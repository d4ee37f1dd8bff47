//! How much of a communication a computation hides.
//!
//! A repetition takes three times on the measured side: the communication with
//! nothing else to do, the computation with nothing else to do, and both. The
//! differences are of times taken one right after the other, and medians are of
//! these differences: a core that changes its speed in between spoils a few
//! repetitions and no more.

use crate::overlap::case::{First, MeasuredSide, ProgressBy};
use crate::report::{or_dash, word};
use crate::stats::tenth;
use serde::Serialize;
use sluice_text::{Table, bytes};

/// Three times of one repetition, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Repetition {
    /// From the moment at which both sides were there until the measured side
    /// had ended, without any computation.
    pub comm_ns: f64,
    /// The computation, without any communication.
    pub compute_ns: f64,
    /// From the moment at which the measured side came until it had ended, with
    /// the computation between post and wait.
    pub elapsed_ns: f64,
    /// Whether a side lost its core to another program.
    pub is_disturbed: bool,
}

/// One case of one size.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub size: u64,
    pub first: First,
    pub side: MeasuredSide,
    pub progress: ProgressBy,
    pub overlap_pct: f64,
    /// What of the overlap is wanted, of a side that came first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_pct: Option<f64>,
    /// The communication alone.
    pub comm_us: f64,
    /// The computation after both sides were there, alone.
    pub compute_us: f64,
    /// Both, after both sides were there.
    pub total_us: f64,
    /// How much later the other side came.
    pub lead_us: f64,
    pub samples: usize,
    /// Of these, in how many a side lost its core to another program.
    pub disturbed: usize,
}

impl Row {
    /// What the repetitions say. `lead_ns` is how much later the second one to
    /// come came.
    pub fn of(
        size: u64,
        first: First,
        side: MeasuredSide,
        progress: ProgressBy,
        lead_ns: f64,
        all: &[Repetition],
    ) -> Row {
        let comm_ns = median(all.iter().map(|one| one.comm_ns).collect());
        let visible_ns = median(all.iter().map(|one| one.elapsed_ns - one.compute_ns).collect());
        let before_ns = if side.is(first) { lead_ns } else { 0.0 };
        let compute_ns = median(all.iter().map(|one| one.compute_ns).collect()) - before_ns;
        Row {
            size,
            first,
            side,
            progress,
            overlap_pct: tenth(overlap_pct(comm_ns, visible_ns)),
            target_pct: target_pct(size).filter(|_| side.is(first)),
            comm_us: micros(comm_ns),
            compute_us: micros(compute_ns),
            total_us: micros(compute_ns + visible_ns),
            lead_us: micros(lead_ns),
            samples: all.len(),
            disturbed: all.iter().filter(|one| one.is_disturbed).count(),
        }
    }
}

/// The rows for people.
pub fn table(rows: &[Row]) -> Table {
    Table::of(
        rows,
        &[
            ("size", &|row| bytes(row.size)),
            ("first", &|row| word(&row.first)),
            ("measured", &|row| word(&row.side)),
            ("progress", &|row| word(&row.progress)),
            ("overlap %", &|row| format!("{:.1}", row.overlap_pct)),
            ("wanted", &|row| or_dash(row.target_pct.map(|pct| format!("{pct:.0}")))),
            ("comm µs", &|row| format!("{:.2}", row.comm_us)),
            ("compute µs", &|row| format!("{:.2}", row.compute_us)),
            ("total µs", &|row| format!("{:.2}", row.total_us)),
        ],
    )
}

/// The share of a communication of `comm_ns` that a computation hid which left
/// `visible_ns` of it to be waited for.
fn overlap_pct(comm_ns: f64, visible_ns: f64) -> f64 {
    if comm_ns <= 0.0 {
        return 0.0;
    }
    (100.0 * (1.0 - visible_ns / comm_ns)).clamp(0.0, 100.0)
}

/// The middle one, the lower of two; zero if there is none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

/// What is wanted of the side that came first, from 64 KiB on. The calls alone take
/// a part of the few microseconds of a shorter message.
fn target_pct(size: u64) -> Option<f64> {
    const SHORT_BYTES: u64 = 64 << 10;
    match size {
        ..SHORT_BYTES => None,
        SHORT_BYTES => Some(85.0),
        _ => Some(95.0),
    }
}

/// In microseconds, to a hundredth.
fn micros(ns: f64) -> f64 {
    (ns / 10.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY: ProgressBy = ProgressBy::Manual;

    #[test]
    fn the_share_is_of_what_the_communication_takes_alone() {
        // Nothing to be waited for, a quarter, all of it.
        assert_eq!(overlap_pct(100.0, 0.0), 100.0);
        assert_eq!(overlap_pct(100.0, 25.0), 75.0);
        assert_eq!(overlap_pct(100.0, 100.0), 0.0);
        // Noise leads out of the range, and so does a library that is slower
        // when its caller was away.
        assert_eq!(overlap_pct(100.0, -3.0), 100.0);
        assert_eq!(overlap_pct(100.0, 140.0), 0.0);
        assert_eq!(overlap_pct(0.0, 1.0), 0.0);
    }

    #[test]
    fn the_middle_one() {
        assert_eq!(median(vec![9.0, 1.0, 5.0]), 5.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.0);
        assert_eq!(median(Vec::new()), 0.0);
    }

    fn repetition(comm: f64, compute: f64, elapsed: f64) -> Repetition {
        let thousand = |us: f64| us * 1000.0;
        Repetition {
            comm_ns: thousand(comm),
            compute_ns: thousand(compute),
            elapsed_ns: thousand(elapsed),
            is_disturbed: elapsed > 1000.0,
        }
    }

    #[test]
    fn a_side_that_came_first_computed_before_there_was_anything_to_hide() {
        // One repetition in which something else had the core changes nothing.
        let all = [
            repetition(80.0, 400.0, 404.0),
            repetition(80.0, 400.0, 404.0),
            repetition(900.0, 400.0, 4000.0),
        ];
        let row = Row::of(1 << 20, First::Receiver, MeasuredSide::Receive, BY, 160_000.0, &all);
        assert_eq!((row.samples, row.disturbed), (3, 1));
        assert_eq!((row.overlap_pct, row.target_pct), (95.0, Some(95.0)));
        assert_eq!((row.comm_us, row.compute_us, row.total_us), (80.0, 240.0, 244.0));
        let row = Row::of(1 << 20, First::Sender, MeasuredSide::Receive, BY, 160_000.0, &all);
        assert_eq!((row.overlap_pct, row.target_pct), (95.0, None));
        assert_eq!((row.compute_us, row.total_us, row.lead_us), (400.0, 404.0, 160.0));
        let json = serde_json::to_value(&row).expect("plain data");
        assert_eq!((&json["size"], &json["first"]), (&(1 << 20).into(), &"sender".into()));
        assert_eq!((&json["side"], &json["overlap_pct"]), (&"receive".into(), &95.0.into()));
        assert!(json["target_pct"].is_null());
        assert_eq!(table(&[row]).to_string().lines().count(), 2);
    }

    #[test]
    fn what_shows_is_the_difference_within_a_repetition() {
        // The core slows down in the middle of the run; nothing was hidden.
        let all = [
            repetition(10.0, 100.0, 110.0),
            repetition(10.0, 150.0, 160.0),
            repetition(10.0, 200.0, 210.0),
        ];
        assert_eq!(
            Row::of(65536, First::Sender, MeasuredSide::Send, BY, 0.0, &all).overlap_pct,
            0.0
        );
    }
}
