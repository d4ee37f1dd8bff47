//! What `sluice sim run` prints when it is done.

use crate::expect::Verdict;
use crate::manifest::Manifest;
use crate::plan::Plan;
use crate::results::{Row, summary, values};
use anyhow::Result;
use serde_json::{Map, Value, json};
use sluice_text::Table;
use std::io::Write as _;
use std::path::Path;

/// Tables for people.
pub fn text(plan: &Plan, rows: &[Row], verdicts: &[Verdict], folder: &Path) -> Result<()> {
    let mut heads: Vec<&str> = plan.axes().collect();
    heads.push("seeds");
    // The files have all columns; here the first one has its interval too.
    let shown = plan.experiment.simulator.shown().iter().filter_map(|(name, head)| {
        let column = plan.column(name)?;
        let is_there = (0..plan.cells.len()).any(|cell| !values(rows, cell, column).is_empty());
        is_there.then_some((column, *head))
    });
    let shown: Vec<(usize, &str)> = shown.collect();
    for (index, (_, head)) in shown.iter().enumerate() {
        heads.push(head);
        if index == 0 {
            heads.push("±");
        }
    }
    let mut table = Table::new(&heads);
    for cell in 0..plan.cells.len() {
        let mut cells: Vec<String> =
            plan.cells[cell].marks.iter().map(|mark| mark.label.clone()).collect();
        let seeds = shown.first().map_or(0, |&(column, _)| values(rows, cell, column).len());
        cells.push(seeds.to_string());
        for (place, &(column, _)) in shown.iter().enumerate() {
            let summary = summary(rows, cell, column);
            cells.push(summary.map_or("-".into(), |summary| digits(summary.mean)));
            if place == 0 {
                cells.push(
                    summary.and_then(|summary| summary.half_width).map_or("-".into(), digits),
                );
            }
        }
        table.row(cells);
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}\n\n{table}", plan.experiment.title)?;
    for verdict in verdicts {
        writeln!(out, "{}", in_words(verdict))?;
    }
    writeln!(out, "results in {}; `sluice report {0}` draws them", folder.display())?;
    Ok(())
}

/// A verdict on two lines or more.
fn in_words(verdict: &Verdict) -> String {
    let judged = match verdict.holds {
        Some(true) => "as expected",
        Some(false) => "UNEXPECTED",
        None => "not known yet",
    };
    let value = verdict.value.map_or("-".into(), digits);
    let half = verdict.half_width.map_or(String::new(), |half| format!(" ± {}", digits(half)));
    let note = verdict.note.as_ref().map_or(String::new(), |note| format!("; {note}"));
    format!(
        "{judged}: {} is {value}{half}, wanted {}{note}\n    {}",
        verdict.what,
        range(verdict),
        verdict.reason.trim().replace('\n', "\n    ")
    )
}

/// `1.7 to 3`, `at least 1.7`, `at most 3`.
pub fn range(verdict: &Verdict) -> String {
    match (verdict.min, verdict.max) {
        (Some(min), Some(max)) => format!("{min} to {max}"),
        (Some(min), None) => format!("at least {min}"),
        (None, Some(max)) => format!("at most {max}"),
        (None, None) => "anything".to_owned(),
    }
}

/// As many digits as a person wants to see.
pub fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// One document for programs.
pub fn json(plan: &Plan, rows: &[Row], manifest: &Manifest, folder: &Path) -> Result<()> {
    let axes = |cell: usize| -> Value {
        let marks = &plan.cells[cell].marks;
        plan.axes()
            .zip(marks)
            .map(|(axis, mark)| (axis.to_owned(), json!(mark.label)))
            .collect::<Map<_, _>>()
            .into()
    };
    let points: Vec<Value> = rows
        .iter()
        .map(|row| {
            let figures: Map<String, Value> = plan
                .columns
                .iter()
                .zip(&row.values)
                .map(|(column, value)| (column.name.to_owned(), json!(value)))
                .collect();
            json!({
                "axes": axes(row.cell), "seed": row.seed, "figures": figures,
                "stopped_by": row.stopped_by, "state": row.state,
            })
        })
        .collect();
    let cells: Vec<Value> = (0..plan.cells.len())
        .map(|cell| {
            let figures: Map<String, Value> = plan
                .columns
                .iter()
                .enumerate()
                .filter_map(|(index, column)| {
                    Some((column.name.to_owned(), json!(summary(rows, cell, index)?)))
                })
                .collect();
            json!({ "axes": axes(cell), "figures": figures })
        })
        .collect();
    let document = json!({
        "experiment": manifest.name, "title": manifest.title, "version": manifest.head.version,
        "experiment_sha256": manifest.head.experiment_sha256, "seeds": manifest.head.seeds,
        "out": folder.display().to_string(), "runs": manifest.runs, "runs_done": manifest.runs_done,
        "simulated_seconds": manifest.simulated_seconds,
        "points": points, "summary": cells, "expectations": manifest.expectations,
    });
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &document)?;
    writeln!(out)?;
    Ok(())
}
