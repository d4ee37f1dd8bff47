//! Whether each expectation of each experiment can fail.
//!
//! No simulation runs here. The results are made up: those of the points that an expectation names
//! are right, a third as large, or three times as large. The range decides what must fail:
//!
//! - Two bounds: whatever is right between them is wrong at a third and at three times.
//! - A lower bound alone: a third is wrong, also of the most that the column can be.
//! - An upper bound alone: what is right is nearly nothing, and three times the bound is wrong.
//! - A peak: a place a third or three times as far along the axis is wrong, and so are two peaks.

use super::{Verdict, verdict};
use crate::experiment::{Expect, Selection};
use crate::place::Source;
use crate::plan::Plan;
use crate::results::Row;

/// By how much a result is wrong that must be noticed.
const FACTOR: f64 = 3.0;
/// How far inside its bounds a right value lies, as a share: rounding must not decide.
const INSIDE: f64 = 1e-6;

/// Made-up results and what must be said of them.
struct Trial {
    /// What the expectation looks at.
    value: f64,
    /// What is made up, in words.
    what: String,
    /// Whether it is right.
    is_right: bool,
    rows: Vec<Row>,
}

/// The most that a column can be; none: there is no such thing.
fn most(expect: &Expect) -> Option<f64> {
    match (&expect.over, expect.value.as_str()) {
        (Some(_), _) => None,
        (None, "delayed") => Some(1.0),
        (None, column) => column.ends_with("_pct").then_some(100.0),
    }
}

/// The most that an upper bound alone may allow; none: the column needs a lower bound too.
fn nearly_nothing(expect: &Expect) -> Option<f64> {
    match (&expect.over, expect.value.as_str()) {
        (Some(_), _) => Some(0.1),
        // Repetitions vary by some 4 %, so less overhead than that may well be below 0.
        (None, "overhead") => Some(0.05),
        (None, _) => most(expect).map(|most| most / 100.0),
    }
}

/// Rows in which a column has these values, by cell.
fn rows(plan: &Plan, column: &str, of: impl Fn(usize) -> f64) -> Vec<Row> {
    let column = plan.column(column).expect("plans have the columns of their expectations");
    let row = |point: &crate::plan::Point| {
        let mut values = vec![None; plan.columns.len()];
        values[column] = Some(of(point.cell));
        Row { cell: point.cell, seed: point.seed, values, stopped_by: "end", state: "stable" }
    };
    plan.points.iter().map(row).collect()
}

/// Gives the cells of a selection a value. If the best counts, one of them alone has it.
fn fill(plan: &Plan, selection: &Selection, value: f64, cells: &mut [f64]) {
    for (index, cell) in plan.select(selection).into_iter().enumerate() {
        cells[cell] = if selection.best && index > 0 { value / 2.0 } else { value };
    }
}

/// Rows in which an expectation looks at `value`, and all points that it does not name have `elsewhere`.
fn rows_with(plan: &Plan, expect: &Expect, value: f64, elsewhere: f64) -> Vec<Row> {
    let mut cells = vec![elsewhere; plan.cells.len()];
    if let Some(over) = &expect.over {
        fill(plan, over, 1.0, &mut cells);
    }
    fill(plan, &expect.only, value, &mut cells);
    rows(plan, &expect.value, |cell| cells[cell])
}

/// Trials around a value that is right, with a third and three times of it if those must be wrong.
fn around(plan: &Plan, expect: &Expect, right: f64, third: bool, triple: bool) -> Vec<Trial> {
    let trial = |value: f64, what: String, is_right: bool| {
        // The other points say the opposite, so they must not count.
        let elsewhere = if is_right { right * FACTOR * FACTOR + 1.0 } else { right };
        Trial { value, what, is_right, rows: rows_with(plan, expect, value, elsewhere) }
    };
    let mut trials = vec![trial(right, format!("{right:.6}"), true)];
    if third {
        let value = right / FACTOR;
        trials.push(trial(value, format!("{value:.6}, a third of {right:.6},"), false));
    }
    if triple {
        let value = right * FACTOR;
        trials.push(trial(value, format!("{value:.6}, three times {right:.6},"), false));
    }
    trials
}

/// The trials of a value or a ratio, or why its range cannot be missed.
fn trials(plan: &Plan, expect: &Expect) -> Result<Vec<Trial>, String> {
    match (expect.min.filter(|&min| min > 0.0), expect.max) {
        (Some(min), Some(max)) => {
            let inside = (max - min) * INSIDE;
            let right = [min + inside, (min * max).sqrt(), max - inside];
            Ok(right.iter().flat_map(|&right| around(plan, expect, right, true, true)).collect())
        }
        (Some(min), None) => {
            let most = most(expect).ok_or("no upper bound, and no largest value there can be")?;
            let right = [min * (1.0 + INSIDE), most * (1.0 - INSIDE)];
            Ok(right.iter().flat_map(|&right| around(plan, expect, right, true, false)).collect())
        }
        (None, Some(max)) => {
            if nearly_nothing(expect).is_none_or(|nothing| max > nothing) {
                return Err("no lower bound above 0, and more than nearly nothing is right".into());
            }
            Ok(around(plan, expect, max * (1.0 - INSIDE), false, true))
        }
        (None, None) => Err("no bound above 0".into()),
    }
}

/// The points that a peak is looked for among.
struct Curve {
    /// In order, each once.
    places: Vec<f64>,
    /// Cells and their places.
    cells: Vec<(usize, f64)>,
}

impl Curve {
    fn of(plan: &Plan, expect: &Expect, axis: &str) -> Curve {
        let axis = plan.axis(axis).expect("plans have the axes of their expectations");
        let place = |cell: usize| Some((cell, plan.cells[cell].marks[axis].number?));
        let cells: Vec<(usize, f64)> =
            plan.select(&expect.only).into_iter().filter_map(place).collect();
        let mut places: Vec<f64> = cells.iter().map(|&(_, place)| place).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        Curve { places, cells }
    }

    /// Results that are 1 at one place, and half as much with each step from there. A second peak is
    /// hardly lower. What the curve does not have is higher, and must not count.
    fn rows(&self, plan: &Plan, column: &str, top: usize, second: Option<usize>) -> Vec<Row> {
        let height = |cell: usize| {
            let place = self.cells.iter().find(|&&(other, _)| other == cell).map(|&(_, at)| at);
            let index = self.places.iter().position(|&other| Some(other) == place);
            match index {
                None => FACTOR,
                Some(index) if Some(index) == second => 0.9,
                Some(index) => 0.5f64.powi(index.abs_diff(top) as i32),
            }
        };
        rows(plan, column, height)
    }

    /// The end of the curve that is further from a place, if anything lies between.
    fn far_end(&self, index: usize) -> Option<usize> {
        let last = self.places.len() - 1;
        let end = if index < last - index { last } else { 0 };
        (index.abs_diff(end) > 1).then_some(end)
    }
}

/// The trials of a peak: one at each place of the axis, and two peaks where one is right.
fn trials_of_peak(plan: &Plan, expect: &Expect, axis: &str) -> Result<Vec<Trial>, String> {
    let curve = Curve::of(plan, expect, axis);
    let is_within = |place: f64| {
        expect.min.is_none_or(|min| place >= min) && expect.max.is_none_or(|max| place <= max)
    };
    let right: Vec<f64> = curve.places.iter().copied().filter(|&place| is_within(place)).collect();
    let is_third = |place: f64| right.iter().any(|&right| place <= right / FACTOR);
    let is_triple = |place: f64| right.iter().any(|&right| place >= right * FACTOR);
    let has = |is_far: &dyn Fn(f64) -> bool| curve.places.iter().any(|&place| is_far(place));
    if (expect.min.is_some() && !has(&is_third)) || (expect.max.is_some() && !has(&is_triple)) {
        return Err("the axis has no place a third or three times as far".into());
    }
    let mut trials = Vec::new();
    for (index, &place) in curve.places.iter().enumerate() {
        let must_fail =
            (expect.min.is_some() && is_third(place)) || (expect.max.is_some() && is_triple(place));
        let mut trial = |second: Option<usize>, is_right: bool, what: String| {
            let rows = curve.rows(plan, &expect.value, index, second);
            trials.push(Trial { value: place, what, is_right, rows });
        };
        trial(None, is_within(place) && !must_fail, format!("a peak at {place}"));
        if let Some(end) = curve.far_end(index) {
            let what = format!("a peak at {place} and one at {}", curve.places[end]);
            trial(Some(end), false, what);
        }
    }
    Ok(trials)
}

/// What is wrong with a verdict, if anything.
fn wrong(trial: &Trial, verdict: &Verdict) -> Option<String> {
    let near = |value: f64| (value - trial.value).abs() <= trial.value.abs() * 1e-9;
    let what = &trial.what;
    match (verdict.value, verdict.holds) {
        (Some(value), _) if !near(value) => Some(format!("{what} is taken for {value:.6}")),
        (Some(_), Some(holds)) if holds == trial.is_right => None,
        (Some(_), Some(true)) => Some(format!("{what} passes and must not")),
        (Some(_), Some(false)) => Some(format!("{what} does not pass and must")),
        _ => Some(format!("{what} is not judged")),
    }
}

/// What is wrong with an expectation, each with the file and what is looked at.
fn faults(plan: &Plan, expect: &Expect) -> Vec<String> {
    let trials = match &expect.peak {
        Some(axis) => trials_of_peak(plan, expect, axis),
        None => trials(plan, expect),
    };
    let texts: Vec<String> = match trials {
        Ok(trials) => trials
            .iter()
            .filter_map(|trial| wrong(trial, &verdict(plan, &trial.rows, expect)))
            .collect(),
        Err(text) => vec![text],
    };
    let bound = |bound: Option<f64>| bound.map_or("any".to_owned(), |bound| bound.to_string());
    let range = format!("{} to {}", bound(expect.min), bound(expect.max));
    let head = format!("{}: {}, wanted {range}", plan.source.name, super::describe(expect));
    texts.into_iter().map(|text| format!("{head}: {text}")).collect()
}

/// What is wrong with the expectations of an experiment.
fn faults_of(name: &str, text: &str) -> Vec<String> {
    let source = Source { name: format!("{name}.toml"), text: text.to_owned() };
    let plan = Plan::read(source, None).unwrap_or_else(|fault| panic!("{fault}"));
    plan.experiment.expect.iter().flat_map(|expect| faults(&plan, expect)).collect()
}

#[test]
fn each_file_is_among_the_experiments() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
    let paths = std::fs::read_dir(folder).expect("the folder of the experiments is there");
    let paths = paths.map(|entry| entry.expect("the folder can be read").path());
    let files = paths.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    for file in files {
        let is_it = |name: &str| file.file_stem().is_some_and(|stem| stem == name);
        let is_known = crate::library::EXPERIMENTS.iter().any(|(name, _)| is_it(name));
        assert!(is_known, "{} is not among the experiments of library.rs", file.display());
    }
}

#[test]
fn each_expectation_of_each_experiment_can_fail() {
    let found: Vec<String> =
        crate::library::EXPERIMENTS.iter().flat_map(|(name, text)| faults_of(name, text)).collect();
    assert!(found.is_empty(), "{} faults of expectations:\n{}", found.len(), found.join("\n"));
}

/// What is wrong with an expectation of an experiment over limits of 1, 4, 20 and 100 packets.
fn faults_with(expect: &str) -> Vec<String> {
    let text = format!(
        r#"name = "x"
title = "X"
[base]
topology = {{ kind = "mesh", dims = [4, 4] }}
routing = {{ kind = "minimal" }}
traffic = {{ pattern = {{ kind = "uniform" }} }}
[[sweep]]
name = "limit"
key = "endpoint.outstanding_packets"
values = [1, 4, 20, 100]
[[expect]]
reason = "so"
{expect}"#
    );
    faults_of("x", &text)
}

#[test]
fn an_expectation_that_hardly_fails_is_found() {
    let bounds = "where = { limit = 4 }\n";
    let ratio = "where = { limit = 4 }\nover = { limit = 1 }\n";
    let peak = "peak = \"limit\"\n";
    for (points, range, is_weak) in [
        (bounds, "min = 0.2\nmax = 0.5", false),
        (bounds, "min = 0.1\nmax = 0.5", true),
        (bounds, "min = 0.0\nmax = 0.5", true),
        (bounds, "min = 0.2", true),
        (ratio, "min = 0.2\nmax = 0.5", false),
        (ratio, "max = 0.1", false),
        (ratio, "max = 0.5", true),
        (ratio, "min = 0.2", true),
        ("over = { limit = 1 }\n", "min = 0.2\nmax = 0.5", true),
        (peak, "min = 4\nmax = 10", false),
        (peak, "min = 4\nmax = 20", true),
        (peak, "min = 1\nmax = 1", true),
    ] {
        let found = faults_with(&format!("{points}{range}"));
        assert_eq!(!found.is_empty(), is_weak, "{points}{range}: {found:?}");
    }
}
