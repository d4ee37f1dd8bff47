//! Experiments on simulated interconnects, and their reports: `sluice sim` and
//! `sluice report`.
//!
//! `experiment` and `plan` say what to run. `run` and `measure` run it, `sharing` with
//! other processes. `journal`,
//! `results` and `manifest` keep the results on disk. `expect` compares them with the
//! expectations, and `report` draws them.

#![forbid(unsafe_code)]

mod bench;
mod expect;
mod experiment;
mod journal;
mod library;
mod list;
mod manifest;
mod measure;
mod one_world;
mod output;
mod place;
mod plan;
mod portals_swarm;
mod processes;
mod progress;
mod rails;
pub mod report;
mod results;
mod run;
mod seeds;
mod setup;
mod sharing;
pub mod sim;
mod simulator;
mod statistics;
mod swarm;
mod validate;
mod verdict;

/// Whether a text is an experiment, for those who try texts that nobody has written.
///
/// # Errors
/// What is wrong, and on which line.
#[doc(hidden)]
pub fn check_text(text: &str) -> Result<(), String> {
    let source = place::Source { name: "input".to_owned(), text: text.to_owned() };
    experiment::Experiment::parse(&source).map(drop).map_err(|fault| fault.to_string())
}
