//! Compares the results with what the experiment expects.

use crate::experiment::{Expect, Selection};
use crate::plan::Plan;
use crate::results::{Row, values};
use crate::statistics::{half_width, mean};
use serde::Serialize;
use std::collections::BTreeMap;

/// The verdict on an expectation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// What is looked at.
    pub what: String,
    /// What it is; none: its points have no results.
    pub value: Option<f64>,
    /// Half the width of its 95 % interval over the seeds.
    pub half_width: Option<f64>,
    /// The least that is right.
    pub min: Option<f64>,
    /// The most that is right.
    pub max: Option<f64>,
    /// Whether it holds; none: there is nothing to judge by.
    pub holds: Option<bool>,
    /// Why it must be so.
    pub reason: String,
    /// What is wrong besides the value.
    pub note: Option<String>,
}

/// Judges all expectations of a plan.
pub fn judge(plan: &Plan, rows: &[Row]) -> Vec<Verdict> {
    plan.experiment.expect.iter().map(|expect| verdict(plan, rows, expect)).collect()
}

fn verdict(plan: &Plan, rows: &[Row], expect: &Expect) -> Verdict {
    let table = Table { plan, rows, column: plan.column(&expect.value).unwrap_or(0) };
    let measured = match (&expect.peak, &expect.over) {
        (Some(axis), _) => table.peak(&expect.only, axis, expect.slack),
        (None, Some(over)) => table.ratio(&expect.only, over),
        (None, None) => table.value(&expect.only),
    };
    let Measured { value, half_width, note } = measured;
    let within = |value: f64| {
        expect.min.is_none_or(|min| value >= min) && expect.max.is_none_or(|max| value <= max)
    };
    Verdict {
        what: describe(expect),
        value,
        half_width,
        min: expect.min,
        max: expect.max,
        holds: value.map(|value| within(value) && note.is_none()),
        reason: expect.reason.clone(),
        note,
    }
}

#[derive(Default)]
struct Measured {
    value: Option<f64>,
    half_width: Option<f64>,
    note: Option<String>,
}

/// By seed.
type Seeded = BTreeMap<u64, f64>;

struct Table<'a> {
    plan: &'a Plan,
    rows: &'a [Row],
    column: usize,
}

impl Table<'_> {
    fn cell(&self, cell: usize) -> Seeded {
        values(self.rows, cell, self.column).into_iter().collect()
    }

    /// What a selection means, by seed: the mean over its cells, or the cell
    /// that is best on average. None unless all its cells are done.
    fn selected(&self, selection: &Selection) -> Option<Seeded> {
        let cells: Vec<Seeded> =
            self.plan.select(selection).into_iter().map(|cell| self.cell(cell)).collect();
        let is_whole = |cell: &Seeded| self.plan.seeds.iter().all(|seed| cell.contains_key(seed));
        if cells.is_empty() || !cells.iter().all(is_whole) {
            return None;
        }
        if selection.best {
            return cells.into_iter().max_by(|a, b| average(a).total_cmp(&average(b)));
        }
        let over_cells = |seed: &u64| {
            let sum: f64 = cells.iter().map(|cell| cell[seed]).sum();
            (*seed, sum / cells.len() as f64)
        };
        Some(self.plan.seeds.iter().map(over_cells).collect())
    }

    fn value(&self, selection: &Selection) -> Measured {
        let Some(seeded) = self.selected(selection) else { return Measured::default() };
        let values: Vec<f64> = seeded.into_values().collect();
        Measured { value: mean(&values), half_width: half_width(&values), note: None }
    }

    /// The ratio of the means; its interval is that of the seeds' ratios.
    fn ratio(&self, above: &Selection, below: &Selection) -> Measured {
        let (Some(above), Some(below)) = (self.selected(above), self.selected(below)) else {
            return Measured::default();
        };
        // Below 0, as noise can be, less is more: two such values would make a ratio that looks right.
        if average(&below) <= 0.0 {
            let note = Some("what it is divided by is not above 0".to_owned());
            return Measured { value: Some(f64::INFINITY), half_width: None, note };
        }
        let ratios: Vec<f64> = above.iter().map(|(seed, value)| value / below[seed]).collect();
        Measured {
            value: Some(average(&above) / average(&below)),
            half_width: half_width(&ratios),
            note: None,
        }
    }

    /// The least place along an axis from which the value is within the slack
    /// of the largest: a peak is often flat, and what lies beyond its first
    /// edge gains nothing. The note says where the curve goes the wrong way by
    /// more than the slack.
    fn peak(&self, selection: &Selection, axis: &str, slack: f64) -> Measured {
        let Some(axis) = self.plan.axis(axis) else { return Measured::default() };
        let mut curve: Vec<(f64, Vec<f64>)> = Vec::new();
        for cell in self.plan.select(selection) {
            let Some(x) = self.plan.cells[cell].marks[axis].number else { continue };
            let seeded = self.cell(cell);
            if seeded.len() < self.plan.seeds.len() {
                return Measured::default();
            }
            match curve.iter_mut().find(|(other, _)| *other == x) {
                Some((_, values)) => values.push(average(&seeded)),
                None => curve.push((x, vec![average(&seeded)])),
            }
        }
        let mut curve: Vec<(f64, f64)> =
            curve.into_iter().filter_map(|(x, values)| Some((x, mean(&values)?))).collect();
        curve.sort_by(|a, b| a.0.total_cmp(&b.0));
        let Some(top) = (0..curve.len()).max_by(|&a, &b| curve[a].1.total_cmp(&curve[b].1)) else {
            return Measured::default();
        };
        let (mut rising, mut falling) = (curve[..=top].to_vec(), curve[top..].to_vec());
        falling.reverse();
        let note = [&mut rising, &mut falling].into_iter().find_map(|side| wrong_way(side, slack));
        let edge = curve.iter().find(|&&(_, y)| y >= curve[top].1 * (1.0 - slack));
        Measured { value: edge.map(|&(x, _)| x), half_width: None, note }
    }
}

/// Where a curve that should rise falls instead.
fn wrong_way(side: &[(f64, f64)], slack: f64) -> Option<String> {
    let mut highest: Option<(f64, f64)> = None;
    for &(x, y) in side {
        if let Some((at, high)) = highest
            && y < high * (1.0 - slack)
        {
            return Some(format!("there is another peak at {at}"));
        }
        if highest.is_none_or(|(_, high)| y > high) {
            highest = Some((x, y));
        }
    }
    None
}

fn average(seeded: &Seeded) -> f64 {
    seeded.values().sum::<f64>() / seeded.len().max(1) as f64
}

/// An expectation in words.
fn describe(expect: &Expect) -> String {
    let of = |selection: &Selection| {
        let parts: Vec<String> = selection
            .axes
            .iter()
            .map(|(axis, wanted)| {
                let all: Vec<String> = wanted
                    .all()
                    .iter()
                    .map(|one| match one {
                        crate::experiment::Scalar::Number(number) => number.to_string(),
                        crate::experiment::Scalar::Label(label) => label.clone(),
                    })
                    .collect();
                format!("{axis}={}", all.join("|"))
            })
            .collect();
        let best = if selection.best { "best of " } else { "" };
        let points = if parts.is_empty() { "all".to_owned() } else { parts.join(", ") };
        format!("{best}{points}")
    };
    let value = &expect.value;
    match (&expect.peak, &expect.over) {
        (Some(axis), _) => format!("peak of {value} along {axis} ({})", of(&expect.only)),
        (None, Some(over)) => format!("{value} ({}) / ({})", of(&expect.only), of(over)),
        (None, None) => format!("{value} ({})", of(&expect.only)),
    }
}

#[cfg(test)]
mod bites;
#[cfg(test)]
mod tests;
