//! `sluice run`: runs an MPI program over Sluice. It finds the MPI (`crate::mpi`), decides
//! what to set for it (`plan`), starts the command and forwards signals (`crate::child`), and
//! reports at the end what Sluice carried (`carried`).

mod carried;
mod plan;

use crate::child;
use anyhow::Result;
use carried::{Carried, Report};
use clap::Args;
use plan::{Plan, Request};
use serde_json::{Value, json};
use std::env;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write as _};
use std::process::{Command, ExitCode};

/// Arguments of `sluice run`.
#[derive(Debug, Args)]
#[command(after_help = "\
COMMAND is a launcher with its arguments, or a program. With -n the launcher of its MPI
starts the program. Without -n it is started as it is: one process, or a script that
calls launchers. Two lines on standard error say what was set and, at the end, what
Sluice carried, and how much went by each network device. Signals are forwarded.
The exit status is that of COMMAND, 125 if nothing was started, and 128 plus its number
if a signal ended the command.

Examples:
  sluice run -n 2 ./program
  sluice run -- mpirun -n 2 --bind-to core ./program
  sluice run -n 4 python3 program.py        with the MPI of its mpi4py
  sluice run --dry-run -n 2 ./program       print what would be done")]
pub struct RunArgs {
    /// Start this many processes, with the launcher of the program's MPI
    #[arg(short = 'n', long = "ranks", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    /// Print the command and its environment, and start nothing
    #[arg(long)]
    dry_run: bool,
    /// Report as one line of JSON, on standard error; with --dry-run on standard output
    #[arg(long)]
    json: bool,
    /// Print nothing unless nothing can be started
    #[arg(short, long)]
    quiet: bool,
    /// The directory of the provider libsluice-fi.so [default: found in FI_PROVIDER_PATH,
    /// beside this command, or where it is installed]
    #[arg(long, value_name = "DIR")]
    provider_path: Option<String>,
    /// A launcher or a program, and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The exit status if nothing was started.
const NOT_STARTED: u8 = 125;

/// Runs the command.
pub fn run(args: &RunArgs) -> Result<ExitCode> {
    let request = Request {
        ranks: args.ranks,
        provider_path: args.provider_path.as_deref(),
        command: &args.command,
    };
    let lookup = |name: &str| Some(env::var_os(name)?.to_string_lossy().into_owned());
    let plan = match Plan::make(&request, lookup) {
        Ok(plan) => plan,
        Err(why) => return Ok(refuse(args, &format!("{why:#}"))),
    };
    if args.dry_run {
        let mut out = io::stdout().lock();
        if args.json {
            writeln!(out, "{}", plan.to_json())?;
        } else {
            write!(out, "{}", plan.to_shell())?;
            for note in &plan.notes {
                say(format_args!("sluice: {note}"));
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !args.quiet && !args.json {
        say(format_args!("sluice: {}", plan.said()));
        for note in &plan.notes {
            say(format_args!("sluice: {note}"));
        }
    }
    start(args, &plan)
}

fn start(args: &RunArgs, plan: &Plan) -> Result<ExitCode> {
    let report = Report::new();
    let mut command = Command::new(&plan.command[0]);
    if plan.forwards {
        command.args(["-x", carried::VARIABLE]);
    }
    command
        .args(&plan.command[1..])
        .envs(plan.environment.iter().map(|(name, value)| (name, value)));
    command.env(carried::VARIABLE, report.path());
    let code = match child::run(&mut command, |_| Ok(())) {
        Ok(status) => child::code_of(status),
        Err(error) => {
            let name = plan.command[0].to_string_lossy();
            return Ok(refuse(args, &format!("{name} cannot be started: {error}")));
        }
    };
    let carried = report.read();
    let hint = carried.as_ref().and_then(|carried| plan.hint(code, carried));
    let carried = carried.filter(|_| !plan.is_portals);
    if args.json {
        say(format_args!("{}", document(plan, code, carried.as_ref(), hint.as_deref())));
    } else if !args.quiet {
        match &carried {
            Some(carried) => say(format_args!("sluice: {carried}")),
            None if plan.is_portals => {}
            None => say(format_args!(
                "sluice: what was carried is not known: {}",
                report.path().display()
            )),
        }
        if let Some(hint) = hint {
            say(format_args!("sluice: {hint}"));
        }
    }
    Ok(ExitCode::from(code))
}

fn document(plan: &Plan, code: u8, carried: Option<&Carried>, hint: Option<&str>) -> Value {
    let mut document = plan.to_json();
    document["exit_code"] = json!(code);
    document["carried"] = json!(carried.map(Carried::to_json));
    document["hint"] = json!(hint);
    document
}

fn refuse(args: &RunArgs, why: &str) -> ExitCode {
    if args.json {
        say(format_args!("{}", json!({ "refused": why })));
    } else {
        say(format_args!("sluice: nothing was started: {why}"));
    }
    ExitCode::from(NOT_STARTED)
}

/// Says something on standard error, which may be gone: the command's end counts.
fn say(what: fmt::Arguments) {
    let _ = writeln!(io::stderr(), "{what}");
}
