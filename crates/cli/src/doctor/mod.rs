//! `sluice doctor`: faults of the environment and their remedies. It judges what
//! `sluice info` shows of the machine, and checks libfabric and the provider (`fabric`),
//! the MPIs (`mpis`), limits and leftovers (`system`).

mod fabric;
mod mpis;
mod system;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

/// Arguments of `sluice doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
A fault prevents programs from running over Sluice. A warning concerns speed, or only
some programs. The exit status is 1 if there is a fault.

Examples:
  sluice doctor              faults and warnings, each with its remedy
  sluice doctor --all        also the checks that passed
  sluice doctor --ranks 64   for a job of 64 processes
  sluice doctor --json       as JSON")]
pub struct DoctorArgs {
    /// Show also the checks that passed
    #[arg(long)]
    all: bool,
    /// Number of processes of a job on this machine
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Ok,
    /// Slower, or not for all programs.
    Warning,
    /// Programs do not run over Sluice.
    Fault,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Warning => "warning",
            State::Fault => "fault",
        }
    }
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    topic: &'static str,
    state: State,
    /// What was found.
    detail: String,
    /// How to repair it, unless it is in order.
    remedy: Option<String>,
}

impl Finding {
    fn ok(topic: &'static str, detail: impl Into<String>) -> Finding {
        Finding { topic, state: State::Ok, detail: detail.into(), remedy: None }
    }

    fn warning(
        topic: &'static str,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        let (detail, remedy) = (detail.into(), Some(remedy.into()));
        Finding { topic, state: State::Warning, detail, remedy }
    }

    fn fault(topic: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { state: State::Fault, ..Finding::warning(topic, detail, remedy) }
    }

    fn to_json(&self) -> Value {
        json!({
            "topic": self.topic,
            "state": self.state.name(),
            "detail": self.detail,
            "remedy": self.remedy,
        })
    }
}

/// Checks and prints.
pub fn run(args: &DoctorArgs) -> Result<ExitCode> {
    let mut findings = system::check(args.ranks);
    findings.extend(fabric::check());
    findings.extend(mpis::check());
    let faults = count(&findings, State::Fault);
    let mut out = std::io::stdout().lock();
    if args.json {
        let document = json!({
            "faults": faults,
            "warnings": count(&findings, State::Warning),
            "findings": findings.iter().map(Finding::to_json).collect::<Vec<_>>(),
        });
        serde_json::to_writer_pretty(&mut out, &document).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", to_text(&findings, args.all))?;
    }
    Ok(if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn count(findings: &[Finding], state: State) -> usize {
    findings.iter().filter(|finding| finding.state == state).count()
}

/// Faults first, then warnings; what is in order only if it is asked for.
fn to_text(findings: &[Finding], all: bool) -> String {
    let mut shown: Vec<&Finding> =
        findings.iter().filter(|finding| all || finding.state != State::Ok).collect();
    shown.sort_by_key(|finding| std::cmp::Reverse(finding.state));
    let mut text = String::new();
    // Writing to a string cannot fail.
    for Finding { topic, state, detail, remedy } in shown {
        let _ = writeln!(text, "{:<8} {topic}: {detail}", state.name());
        if let Some(remedy) = remedy {
            let _ = writeln!(text, "{:<8} remedy: {remedy}", "");
        }
    }
    let [faults, warnings, ok] =
        [State::Fault, State::Warning, State::Ok].map(|state| count(findings, state));
    let _ = writeln!(text, "faults: {faults}, warnings: {warnings}, in order: {ok}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_come_first_and_each_has_its_remedy() {
        let findings = [
            Finding::ok("kernel", "Linux 6.1"),
            Finding::warning("cores", "one", "another machine"),
            Finding::fault("provider", "missing", "make build"),
        ];
        let text = to_text(&findings, false);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("fault    provider: missing"), "{text}");
        assert!(lines[1].ends_with("remedy: make build"), "{text}");
        assert!(lines[2].starts_with("warning  cores"), "{text}");
        assert_eq!(lines.last(), Some(&"faults: 1, warnings: 1, in order: 1"));
        assert!(!text.contains("kernel") && to_text(&findings, true).contains("kernel"));
    }
}
