//! `sluice sim`: experiments on simulated interconnects.

use crate::{bench, list, one_world, run, swarm, validate};
use anyhow::Result;
use clap::Subcommand;
use std::process::ExitCode;

/// Commands of `sluice sim`.
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Run an experiment, or resume one that was stopped.
    Run(run::RunArgs),
    /// List the experiments that are included.
    List(list::ListArgs),
    /// Compare with BookSim 2 on reference cases.
    Validate(validate::ValidateArgs),
    /// Run random programs over the protocol code, and check each step.
    Swarm(swarm::SwarmArgs),
    /// Show one random program of the swarm.
    Trace(one_world::TraceArgs),
    /// Reduce a random program that fails.
    Shrink(one_world::ShrinkArgs),
    /// Measure the simulator's speed and memory.
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
        SimCommand::Trace(args) => one_world::trace(args),
        SimCommand::Shrink(args) => one_world::shrink(args),
        SimCommand::Bench(args) => bench::run(args).map(|()| ExitCode::SUCCESS),
        SimCommand::BenchRow(args) => bench::run_row(args).map(|()| ExitCode::SUCCESS),
    }
}
