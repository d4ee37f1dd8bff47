//! The rows of an experiment and the CSV files they are written to.
//!
//! Everything here is in the order of the plan, and no times are written. So the same
//! seeds give the same bytes.

use crate::journal::Entry;
use crate::plan::Plan;
use crate::setup::Outcome;
use crate::statistics::{Summary, rounded};
use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

/// One row a point.
pub const RESULTS: &str = "results.csv";
/// One row a batch.
pub const SERIES: &str = "series.csv";
/// One row a direction of a link.
pub const LINKS: &str = "links.csv";
/// One row a cell and column.
pub const SUMMARY: &str = "summary.csv";

/// The row of a point.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Index of the cell in the plan.
    pub cell: usize,
    /// Its seed.
    pub seed: u64,
    /// By column of the plan.
    pub values: Vec<Option<f64>>,
    /// Why the run ended.
    pub stopped_by: &'static str,
    /// Whether what was offered was accepted.
    pub state: &'static str,
}

/// The rows of the points whose runs have ended.
pub fn rows(plan: &Plan, entries: &BTreeMap<usize, Entry>) -> Vec<Row> {
    let row = |point: &crate::plan::Point| {
        let outcome = &entries.get(&point.run)?.outcome;
        Some(Row {
            cell: point.cell,
            seed: point.seed,
            values: outcome.values().into_iter().map(|value| value.map(rounded)).collect(),
            stopped_by: outcome.stopped_by(),
            state: outcome.state(&plan.runs[point.run].setup),
        })
    };
    plan.points.iter().filter_map(row).collect()
}

/// The values of a column at a cell, by seed.
pub fn values(rows: &[Row], cell: usize, column: usize) -> Vec<(u64, f64)> {
    rows.iter()
        .filter(|row| row.cell == cell)
        .filter_map(|row| Some((row.seed, row.values[column]?)))
        .collect()
}

/// A column at a cell, over the seeds.
pub fn summary(rows: &[Row], cell: usize, column: usize) -> Option<Summary> {
    let values: Vec<f64> = values(rows, cell, column).into_iter().map(|(_, value)| value).collect();
    Summary::of(&values)
}

/// Writes all files of a folder.
///
/// # Errors
/// When the system refuses.
pub fn write(folder: &Path, plan: &Plan, entries: &BTreeMap<usize, Entry>) -> Result<Vec<Row>> {
    let rows = rows(plan, entries);
    write_csv(&folder.join(RESULTS), |csv| {
        let mut head: Vec<&str> = plan.axes().collect();
        head.push("seed");
        head.extend(plan.columns.iter().map(|column| column.name));
        head.extend(["stopped_by", "state"]);
        csv.write_record(head)?;
        rows.iter().try_for_each(|row| {
            let mut cells = labels(plan, row.cell);
            cells.push(row.seed.to_string());
            cells.extend(
                row.values.iter().map(|value| value.map_or(String::new(), |v| v.to_string())),
            );
            cells.extend([row.stopped_by.to_owned(), row.state.to_owned()]);
            csv.write_record(cells)
        })
    })?;
    write_csv(&folder.join(SUMMARY), |csv| summary_file(csv, plan, &rows))?;
    write_csv(&folder.join(SERIES), |csv| {
        let head = plan.experiment.simulator.series();
        csv.write_record(plan.axes().chain(["seed"]).chain(head.iter().copied()))?;
        ended(plan, entries).try_for_each(|(cell, seed, outcome)| {
            outcome.series().into_iter().try_for_each(|row| {
                let mut cells = labels(plan, cell);
                cells.push(seed.to_string());
                cells.extend(row);
                csv.write_record(cells)
            })
        })
    })?;
    let links_file = folder.join(LINKS);
    if plan.runs.iter().any(|run| run.links) {
        write_csv(&links_file, |csv| links(csv, plan, entries))?;
    }
    Ok(rows)
}

fn summary_file(csv: &mut csv::Writer<Vec<u8>>, plan: &Plan, rows: &[Row]) -> csv::Result<()> {
    let head = ["column", "seeds", "mean", "min", "max", "half_width_95"];
    csv.write_record(plan.axes().chain(head))?;
    for cell in 0..plan.cells.len() {
        for (index, column) in plan.columns.iter().enumerate() {
            let Some(summary) = summary(rows, cell, index) else { continue };
            let mut cells = labels(plan, cell);
            cells.extend([
                column.name.to_owned(),
                values(rows, cell, index).len().to_string(),
                rounded(summary.mean).to_string(),
                summary.min.to_string(),
                summary.max.to_string(),
                summary.half_width.map_or(String::new(), |half| rounded(half).to_string()),
            ]);
            csv.write_record(cells)?;
        }
    }
    Ok(())
}

fn links(
    csv: &mut csv::Writer<Vec<u8>>,
    plan: &Plan,
    entries: &BTreeMap<usize, Entry>,
) -> csv::Result<()> {
    let head = ["seed", "router", "port", "to_router", "to_node", "flits", "load"];
    csv.write_record(plan.axes().chain(head))?;
    let with_links = |point: &&crate::plan::Point| plan.runs[point.run].links;
    for point in plan.points.iter().filter(with_links) {
        let Some(entry) = entries.get(&point.run) else { continue };
        let text = |number: Option<u32>| number.map_or(String::new(), |number| number.to_string());
        let Some(outcome) = entry.outcome.network() else { continue };
        for link in &outcome.links {
            let load = link.flits as f64 / outcome.cycles.max(1) as f64;
            let mut cells = labels(plan, point.cell);
            cells.extend([
                point.seed.to_string(),
                link.router.to_string(),
                link.port.to_string(),
                text(link.to_router),
                text(link.to_node),
                link.flits.to_string(),
                rounded(load).to_string(),
            ]);
            csv.write_record(cells)?;
        }
    }
    Ok(())
}

fn labels(plan: &Plan, cell: usize) -> Vec<String> {
    plan.cells[cell].marks.iter().map(|mark| mark.label.clone()).collect()
}

/// Cell, seed and outcome of each point whose run has ended.
fn ended<'a>(
    plan: &'a Plan,
    entries: &'a BTreeMap<usize, Entry>,
) -> impl Iterator<Item = (usize, u64, &'a Outcome)> {
    plan.points
        .iter()
        .filter_map(|point| Some((point.cell, point.seed, &entries.get(&point.run)?.outcome)))
}

fn write_csv(
    path: &Path,
    fill: impl FnOnce(&mut csv::Writer<Vec<u8>>) -> csv::Result<()>,
) -> Result<()> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    fill(&mut csv)?;
    let bytes = csv.into_inner().context("a table could not be finished")?;
    replace(path, &bytes)
}

/// Replaces a file in one step: readers see either the old one or the new one,
/// complete.
///
/// # Errors
/// When the system refuses.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&beside)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        std::fs::rename(&beside, path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
