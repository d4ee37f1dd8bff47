//! `manifest.json`, which describes a folder of results.
//!
//! `sluice report` needs nothing else besides the CSV files. No other file has times
//! in it.

use crate::expect::Verdict;
use crate::journal::{Entry, Head};
use crate::place::Source;
use crate::plan::Plan;
use crate::results::replace;
use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The name of the file.
pub const FILE: &str = "manifest.json";

/// See the module.
#[derive(Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// Of the command that ran it, of the experiment, and the seeds.
    #[serde(flatten)]
    pub head: Head,
    /// The experiment's name.
    pub name: String,
    /// Its title.
    pub title: String,
    /// The file it was read from.
    pub experiment_file: String,
    /// What was in it.
    pub experiment: String,
    /// Nodes of the largest network in it.
    pub nodes: u32,
    /// Rows that the results have when all is done.
    pub points: usize,
    /// Simulations behind them.
    pub runs: usize,
    /// Of these, ended.
    pub runs_done: usize,
    /// Seconds of all simulations together.
    pub simulated_seconds: f64,
    /// What it takes to repeat any point, and how it went.
    pub status: Vec<PointStatus>,
    /// Expectations, as judged when the files were written.
    #[serde(skip_deserializing)]
    pub expectations: Vec<Verdict>,
}

/// A point, and how it went.
#[derive(Debug, Serialize, Deserialize)]
pub struct PointStatus {
    /// Its values on the axes.
    pub point: String,
    /// Its seed.
    pub seed: u64,
    /// `done`, `stuck` or `waiting`.
    pub status: String,
    /// How long its simulation took; points of the same simulation share it.
    pub seconds: Option<f64>,
    /// What the simulator said when nothing moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stuck: Option<String>,
}

impl Manifest {
    /// The manifest of a plan, with the runs that have ended so far.
    pub fn new(
        head: Head,
        plan: &Plan,
        entries: &BTreeMap<usize, Entry>,
        expectations: Vec<Verdict>,
    ) -> Manifest {
        let status = |point: &crate::plan::Point| {
            let entry = entries.get(&point.run);
            let stuck = entry.and_then(|entry| entry.outcome.stuck().map(str::to_owned));
            let status = match (entry, &stuck) {
                (None, _) => "waiting",
                (_, Some(_)) => "stuck",
                _ => "done",
            };
            PointStatus {
                point: plan.cell_name(point.cell),
                seed: point.seed,
                status: status.to_owned(),
                seconds: entry.map(|entry| entry.seconds),
                stuck,
            }
        };
        Manifest {
            head,
            name: plan.experiment.name.clone(),
            title: plan.experiment.title.clone(),
            experiment_file: plan.source.name.clone(),
            experiment: plan.source.text.clone(),
            nodes: entries.values().map(|entry| entry.outcome.nodes()).max().unwrap_or(0),
            points: plan.points.len(),
            runs: plan.runs.len(),
            runs_done: entries.len(),
            simulated_seconds: entries.values().map(|entry| entry.seconds).sum(),
            status: plan.points.iter().map(status).collect(),
            expectations,
        }
    }

    /// Writes it into a folder.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        replace(&folder.join(FILE), &bytes)
    }

    /// Reads that of a folder.
    pub fn read(folder: &Path) -> Result<Manifest> {
        let path = folder.join(FILE);
        let bytes = std::fs::read(&path).with_context(|| {
            format!("{} holds no results of `sluice sim run`: cannot read {FILE}", folder.display())
        })?;
        serde_json::from_slice(&bytes).with_context(|| format!("{} is damaged", path.display()))
    }

    /// Whether a folder has the manifest of these results, and all of them are done.
    pub fn is_of_all(folder: &Path, head: &Head) -> bool {
        Manifest::read(folder)
            .is_ok_and(|found| found.head == *head && found.runs_done == found.runs)
    }

    /// The plan that it is of.
    pub fn plan(&self) -> Result<Plan> {
        let source = Source { name: self.experiment_file.clone(), text: self.experiment.clone() };
        Ok(Plan::read(source, self.head.seeds.first().copied())?)
    }
}
