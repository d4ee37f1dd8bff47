//! The `sluice` command: runs MPI programs over Sluice, checks the environment, measures,
//! and simulates.

#![forbid(unsafe_code)]

mod child;
mod doctor;
mod info;
mod lab;
mod manual;
mod mpi;
mod provider;
mod run;
mod selection;
mod top;
mod trace;
mod tune;
mod why;

use clap::{Parser, Subcommand};
use sluice_experiments::{report, sim};
use sluice_perf as perf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  sluice run -n 2 ./program            an MPI program over Sluice
  sluice doctor                        check the environment; faults and remedies
  sluice info                          what works on this machine, and how to enable the rest
  sluice top                           what running processes do over Sluice, live
  sluice trace /tmp/traces             messages as ladders (FI_SLUICE_TRACE=/tmp/traces)
  sluice why --size 1M                 which protocol a message takes, and why no other
  sluice tune                          transfer costs measured on this machine
  sluice perf latency                  half round trip by message size
  sluice perf bandwidth --size 1M,4M   bandwidth for two sizes
  sluice perf rate --json              message rate, as JSON
  sluice perf latency --api portals    puts and gets through libportals
  sluice perf overlap                  how much of a transfer each side computes through
  sluice perf match                    what one match costs as lists grow
  sluice sim list                      the experiments that are included
  sluice sim run rdrp-fig5-small --out fig5 && sluice report fig5
  sluice lab up --rails 4 --rate 1gbit two hosts as network namespaces, four rails";

/// Run MPI programs over Sluice, check the environment, measure and simulate.
#[derive(Debug, Parser)]
#[command(name = "sluice", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run an MPI program over Sluice, and report whether Sluice carried its messages.
    Run(run::RunArgs),
    /// Check the environment; name faults and their remedies.
    Doctor(doctor::DoctorArgs),
    /// Show what works on this machine, and how to enable the rest.
    Info(info::InfoArgs),
    /// Show what running processes do over Sluice, live.
    Top(top::TopArgs),
    /// Show what happened to messages of a job, as ladders, from files of FI_SLUICE_TRACE.
    Trace(trace::TraceArgs),
    /// Show which protocol a message takes here, and why no other.
    Why(why::WhyArgs),
    /// Show the transfer costs of this machine; measure them if that was not done before.
    Tune(tune::TuneArgs),
    /// Measure latency, rate and bandwidth between processes, or matching alone.
    #[command(
        subcommand,
        after_help = "\
Protocols are selected by fixed lengths, not by those of `sluice tune` or FI_SLUICE_*,\n\
so that figures of two runs can be compared."
    )]
    Perf(perf::PerfCommand),
    /// Simulate networks flit by flit, and the protocols on many processes.
    #[command(subcommand)]
    Sim(sim::SimCommand),
    /// Start several hosts as network namespaces on this machine, for tests of rails.
    #[command(subcommand)]
    Lab(lab::LabCommand),
    /// Write the results of `sluice sim run`, or a file of FI_SLUICE_STATS, as one HTML page.
    Report(report::ReportArgs),
    /// Print the completions of commands, options and values for a shell.
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
        Command::Top(args) => top::run(&args),
        Command::Trace(args) => trace::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Why(args) => why::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Tune(args) => tune::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Perf(command) => perf::run(&command).map(|()| ExitCode::SUCCESS),
        Command::PerfPeer(args) => perf::run_peer(&args).map(|()| ExitCode::SUCCESS),
        Command::Sim(command) => sim::run(&command),
        Command::Lab(command) => lab::run(&command),
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
