//! The `sluice` command: what the rails of this machine can do, how fast they
//! are, and what would happen on machines that are not here.

#![forbid(unsafe_code)]

mod doctor;
mod info;
mod manual;
mod mpi;
mod provider;
mod run;
mod settings;
mod tune;
mod why;

use clap::{Parser, Subcommand};
use sluice_experiments::{report, sim};
use sluice_perf as perf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  sluice run -n 2 ./program            an MPI program over Sluice
  sluice doctor                        what stands in the way here, and what mends it
  sluice info                          what Sluice finds on this machine
  sluice why --size 1M                 which protocol a message takes, and why no other
  sluice tune                          what moves cost on this machine
  sluice perf latency                  half round trips over a sweep of sizes
  sluice perf bandwidth --size 1M,4M   two sizes
  sluice perf rate --json              for a program to read
  sluice perf latency --api portals    puts and gets through libportals
  sluice perf overlap                  how much of a transfer each side computes through
  sluice perf match                    what one match costs as lists grow
  sluice sim list                      the experiments that come with it
  sluice sim run rdrp-fig5-small --out fig5 && sluice report fig5";

/// Message passing over shared memory, as MPI programs see it through
/// libfabric.
#[derive(Debug, Parser)]
#[command(name = "sluice", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run an MPI program over Sluice, and say whether Sluice carried its messages.
    Run(run::RunArgs),
    /// Check this environment: what stands in the way of programs, and what mends it.
    Doctor(doctor::DoctorArgs),
    /// Show the rails found, what was probed, what was refused and what mends it.
    Info(info::InfoArgs),
    /// Show which protocol a message takes here, and why no other.
    Why(why::WhyArgs),
    /// Show what moves cost on this machine, measured if that was not done before.
    Tune(tune::TuneArgs),
    /// Measure between two processes, which it starts itself, or matching alone.
    #[command(
        subcommand,
        after_help = "\
Protocols change at the stated lengths here, whatever `sluice tune` has kept or\n\
FI_SLUICE_* say, so that figures of two runs can be compared."
    )]
    Perf(perf::PerfCommand),
    /// Simulate interconnects, flit by flit.
    #[command(subcommand)]
    Sim(sim::SimCommand),
    /// Draw the results of `sluice sim run`: one page that needs no network.
    Report(report::ReportArgs),
    /// Print the completions of a shell: names of commands, options and their values.
    Completion(manual::CompletionArgs),
    /// Write the manual pages of all commands.
    #[command(hide = true)]
    Man(manual::ManArgs),
    /// The second process of a measurement.
    #[command(hide = true)]
    PerfPeer(perf::PeerArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Completion(args) => manual::complete::<Cli>(&args).map(|()| ExitCode::SUCCESS),
        Command::Man(args) => manual::write_pages::<Cli>(&args).map(|()| ExitCode::SUCCESS),
        Command::Info(args) => info::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Why(args) => why::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Tune(args) => tune::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Perf(command) => perf::run(&command).map(|()| ExitCode::SUCCESS),
        Command::PerfPeer(args) => perf::run_peer(&args).map(|()| ExitCode::SUCCESS),
        Command::Sim(command) => sim::run(&command),
        Command::Report(args) => report::run(&args).map(|()| ExitCode::SUCCESS),
    };
    match done {
        Ok(status) => status,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sluice: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the reader of the output has gone: `sluice info | head` is no error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
