//! `sluice sim`: experiments on simulated interconnects.

use crate::{bench, list, run, swarm, validate};
use anyhow::Result;
use clap::Subcommand;
use std::process::ExitCode;

/// What can be done with the simulator.
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Run an experiment, or go on with one that was stopped.
    Run(run::RunArgs),
    /// Show the experiments that come with it.
    List(list::ListArgs),
    /// Compare with BookSim 2 on reference cases.
    Validate(validate::ValidateArgs),
    /// Run many random programs over the whole stack and check everything.
    Swarm(swarm::SwarmArgs),
    /// Measure how fast the simulator is, and its memory.
    Bench(bench::BenchArgs),
    /// One row of a measurement, in a process of its own.
    #[command(hide = true)]
    BenchRow(bench::RowArgs),
}

/// Runs one of them.
pub fn run(command: &SimCommand) -> Result<ExitCode> {
    match command {
        SimCommand::Run(args) => run::run(args),
        SimCommand::List(args) => list::run(args).map(|()| ExitCode::SUCCESS),
        SimCommand::Validate(args) => validate::run(args),
        SimCommand::Swarm(args) => swarm::run(args),
        SimCommand::Bench(args) => bench::run(args).map(|()| ExitCode::SUCCESS),
        SimCommand::BenchRow(args) => bench::run_row(args).map(|()| ExitCode::SUCCESS),
    }
}
