//! `sluice sim trace` and `sluice sim shrink`: one world of the swarm, shown, or reduced to
//! what it fails by.

use super::verdict::{self, with_quiet_panics};
use anyhow::Result;
use clap::Args;
use sluice_sim::portals;
use sluice_sim::swarm::{self, Cut, Trace};
use std::io::Write as _;
use std::process::ExitCode;

const TRACE_HELP: &str = "\
A column for each process, time from top to bottom. An arrow is a packet: what it is for, how long it
is, the credits it brings. A cross is a fault.

Exit status: 0 nothing is wrong, 1 the world fails or an error.

Examples:
  sluice sim trace 17
  sluice sim trace 17 --keep processes=2/ops=0.3,1.0
  sluice sim trace --portals 17
  sluice sim trace --portals 17 --keep calls=3,8/faults=";

const SHRINK_HELP: &str = "\
Leaves out delays, phases, processes, faults and operations as long as the world fails at the same
place of the code. Prints what is left as a ladder, and the line that replays it.

Exit status: 0 the world does not fail, 1 it does or an error.

Examples:
  sluice sim shrink 17
  sluice sim shrink --portals 17";

/// Arguments of `sluice sim trace`.
#[derive(Debug, Args)]
#[command(after_help = TRACE_HELP)]
pub struct TraceArgs {
    /// The world.
    #[arg(value_name = "SEED")]
    seed: u64,
    /// Only these parts of it, as `sluice sim shrink` says them.
    #[arg(long, value_name = "PARTS", default_value = "", hide_default_value = true)]
    keep: String,
    /// Everything as the program has it, line by line.
    #[arg(long)]
    raw: bool,
    /// The program of Portals 4 calls of this seed, line by line.
    #[arg(long, conflicts_with = "raw")]
    portals: bool,
}

/// Arguments of `sluice sim shrink`.
#[derive(Debug, Args)]
#[command(after_help = SHRINK_HELP)]
pub struct ShrinkArgs {
    /// The world.
    #[arg(value_name = "SEED")]
    seed: u64,
    /// The program of Portals 4 calls of this seed.
    #[arg(long)]
    portals: bool,
}

/// Runs `sluice sim trace`.
pub fn trace(args: &TraceArgs) -> Result<ExitCode> {
    if args.portals {
        return match args.keep.parse() {
            Ok(cut) => show_portals(args.seed, &cut),
            Err(why) => Ok(refuse_keep(&why)),
        };
    }
    match args.keep.parse() {
        Ok(cut) => show(args.seed, &cut, args.raw),
        Err(why) => Ok(refuse_keep(&why)),
    }
}

/// The status of arguments that are not understood.
fn refuse_keep(why: &dyn std::error::Error) -> ExitCode {
    eprintln!("error: --keep: {why}");
    ExitCode::from(2)
}

/// Prints what happens in a program of Portals calls, and the verdict.
fn show_portals(seed: u64, cut: &portals::Cut) -> Result<ExitCode> {
    let mut trace = portals::Trace::whole();
    let outcome = with_quiet_panics(|| verdict::of_portals(seed, cut, &mut trace));
    let mut out = std::io::stdout().lock();
    write!(out, "{trace}")?;
    match outcome {
        Ok(summary) => {
            let (operations, processes) = (summary.operations, summary.processes);
            writeln!(
                out,
                "seed {seed}: {operations} operations of {processes} processes, all well"
            )?;
            Ok(ExitCode::SUCCESS)
        }
        Err(what) => {
            writeln!(out, "seed {seed}: {what}")?;
            let keep = if *cut == portals::Cut::default() {
                String::new()
            } else {
                format!(" --keep {cut}")
            };
            writeln!(out, "replay it with: sluice sim trace --portals {seed}{keep}")?;
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Runs `sluice sim shrink`.
pub fn shrink(args: &ShrinkArgs) -> Result<ExitCode> {
    let seed = args.seed;
    if args.portals {
        return shrink_portals(seed);
    }
    let run = |cut: &Cut| verdict::of(seed, cut, &mut Trace::tail()).err();
    let Some(what) = with_quiet_panics(|| run(&Cut::default())) else {
        println!("seed {seed} does not fail");
        return Ok(ExitCode::SUCCESS);
    };
    let mut tries = 0;
    let cut = with_quiet_panics(|| {
        swarm::shrink(seed, |cut| {
            tries += 1;
            run(cut).is_some_and(|found| verdict::place(&found) == verdict::place(&what))
        })
    });
    let status = show(seed, &cut, false)?;
    let of = swarm::Size::of(seed);
    let kept = |left: Option<usize>, all: usize| format!("{} of {all}", left.unwrap_or(all));
    println!(
        "left in {tries} runs: {} processes, {} phases, {} faults, {} operations",
        kept(cut.processes, of.processes),
        kept(cut.phases.map(|phases| phases as usize), of.phases as usize),
        kept(cut.faults.as_ref().map(|kept| kept.len()), of.faults),
        kept(cut.operations.as_ref().map(|kept| kept.len()), of.processes * of.operations as usize),
    );
    Ok(status)
}

/// The same of a program of Portals calls.
fn shrink_portals(seed: u64) -> Result<ExitCode> {
    let run =
        |cut: &portals::Cut| verdict::of_portals(seed, cut, &mut portals::Trace::tail()).err();
    let Some(what) = with_quiet_panics(|| run(&portals::Cut::default())) else {
        println!("seed {seed} does not fail");
        return Ok(ExitCode::SUCCESS);
    };
    let mut tries = 0;
    let cut = with_quiet_panics(|| {
        portals::shrink(seed, |cut| {
            tries += 1;
            run(cut).is_some_and(|found| verdict::place(&found) == verdict::place(&what))
        })
    });
    let status = show_portals(seed, &cut)?;
    let kept = |left: Option<usize>| left.map_or("all".to_owned(), |left| left.to_string());
    let (calls, faults) = (cut.calls.map(|kept| kept.len()), cut.faults.map(|kept| kept.len()));
    println!("left in {tries} runs: {} calls, {} faults", kept(calls), kept(faults));
    Ok(status)
}

/// Prints what happens, the verdict, and how to have it again.
fn show(seed: u64, cut: &Cut, raw: bool) -> Result<ExitCode> {
    let mut trace = Trace::whole();
    let outcome = with_quiet_panics(|| verdict::of(seed, cut, &mut trace));
    let mut out = std::io::stdout().lock();
    if raw {
        write!(out, "{trace}")?;
    } else {
        write!(out, "{}", trace.ladder())?;
    }
    match outcome {
        Ok(summary) => {
            let (messages, processes) = (summary.messages, summary.processes);
            writeln!(out, "seed {seed}: {messages} messages of {processes} processes, all well")?;
            Ok(ExitCode::SUCCESS)
        }
        Err(what) => {
            writeln!(out, "seed {seed}: {what}")?;
            let keep =
                if *cut == Cut::default() { String::new() } else { format!(" --keep {cut}") };
            writeln!(out, "replay it with: sluice sim trace {seed}{keep}")?;
            Ok(ExitCode::FAILURE)
        }
    }
}
