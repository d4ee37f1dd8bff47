//! Verdicts over rows made by hand.

use super::*;
use crate::measure::COLUMNS;
use crate::place::Source;

const HEAD: &str = r#"name = "x"
title = "X"
seeds = [1, 2]
[base]
topology = { kind = "mesh", dims = [4, 4] }
routing = { kind = "minimal" }
traffic = { pattern = { kind = "uniform" } }
[[sweep]]
name = "limit"
key = "endpoint.outstanding_packets"
values = [1, 10, 20, 50]
"#;

/// The first column of each cell with the first seed; the second seed has one
/// tenth more.
fn judged(expect: &str, accepted: [f64; 4]) -> Verdict {
    let source = Source {
        name: "x.toml".into(),
        text: format!("{HEAD}[[expect]]\nreason = \"so\"\n{expect}"),
    };
    let plan = Plan::read(source, None).unwrap_or_else(|fault| panic!("{fault}"));
    let row = |cell: usize, seed: u64, value: f64| {
        let mut values = vec![None; COLUMNS.len()];
        values[0] = Some(value);
        Row { cell, seed, values, stopped_by: "steady", state: "stable" }
    };
    let rows: Vec<Row> = accepted
        .iter()
        .enumerate()
        .filter(|(_, value)| value.is_finite())
        .flat_map(|(cell, &value)| [row(cell, 1, value), row(cell, 2, value * 1.1)])
        .collect();
    judge(&plan, &rows).remove(0)
}

fn near(value: Option<f64>, wanted: f64) -> bool {
    value.is_some_and(|value| (value - wanted).abs() < 1e-9)
}

#[test]
fn a_value_is_the_mean_over_cells_and_seeds() {
    let verdict = judged("where = { limit = [1, 10] }\nmax = 0.2", [0.1, 0.3, 9.0, 9.0]);
    assert!(near(verdict.value, 0.21), "{verdict:?}");
    assert_eq!(verdict.holds, Some(false));
    // Two values, 0.2 and 0.22: 12.706 × 0.01.
    assert!(verdict.half_width.is_some_and(|half| (half - 0.127_06).abs() < 1e-4), "{verdict:?}");
}

#[test]
fn a_ratio_may_be_to_the_best() {
    let text =
        "where = { limit = 20 }\nover = { limit = [1, 10], best = true }\nmin = 1.5\nmax = 2.5";
    let verdict = judged(text, [0.1, 0.3, 0.6, 0.2]);
    assert!(near(verdict.value, 2.0) && verdict.holds == Some(true), "{verdict:?}");
    assert!(near(verdict.half_width, 0.0), "the seeds' ratios are the same: {verdict:?}");
    let mean =
        judged("where = { limit = 20 }\nover = { limit = [1, 10] }\nmin = 1", [0.1, 0.3, 0.6, 0.2]);
    assert!(near(mean.value, 3.0), "{mean:?}");
}

#[test]
fn a_ratio_to_nothing_or_less_does_not_hold() {
    let text = "where = { limit = 20 }\nover = { limit = 1 }\nmin = 1";
    assert_eq!(judged(text, [0.0, 0.3, 0.6, 0.2]).holds, Some(false));
    // Overheads that are noise can both be below 0.
    assert_eq!(judged(text, [-0.2, 0.3, -0.6, 0.2]).holds, Some(false));
}

#[test]
fn a_peak_is_where_the_curve_is_highest() {
    let text = "peak = \"limit\"\nmin = 10\nmax = 30";
    let verdict = judged(text, [0.1, 0.3, 0.6, 0.2]);
    assert!(near(verdict.value, 20.0) && verdict.holds == Some(true), "{verdict:?}");
    assert_eq!(judged(text, [0.1, 0.3, 0.6, 0.7]).holds, Some(false));
    // A flat top begins where nothing more is gained.
    let verdict = judged(text, [0.1, 0.595, 0.596, 0.6]);
    assert!(near(verdict.value, 10.0) && verdict.holds == Some(true), "{verdict:?}");
    // A second peak, larger than the slack and smaller.
    let verdict = judged(text, [0.4, 0.3, 0.6, 0.2]);
    assert_eq!(verdict.holds, Some(false));
    assert_eq!(verdict.note.as_deref(), Some("there is another peak at 1"));
    assert_eq!(judged(text, [0.305, 0.3, 0.6, 0.2]).holds, Some(true));
}

#[test]
fn without_all_results_nothing_is_said() {
    for text in ["where = { limit = [1, 50] }\nmin = 0", "peak = \"limit\"\nmin = 0"] {
        let verdict = judged(text, [0.1, 0.3, 0.6, f64::NAN]);
        assert_eq!((verdict.value, verdict.holds), (None, None));
    }
}
