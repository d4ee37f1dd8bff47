//! `sluice sim validate`: results beside those of BookSim 2, case by case.
//!
//! `experiments/validation/booksim2.toml` has the cases, their figures and the
//! tolerances.

use crate::experiment::Stop;
use crate::measure::{COLUMNS, column, measure};
use crate::output::digits;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use sluice_flit::{Config, Simulation};
use sluice_text::Table;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

const CASES: &str = include_str!("../../../experiments/validation/booksim2.toml");
/// Status when a figure is too far off.
const EXIT_OFF: u8 = 3;

/// Arguments of `sluice sim validate`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 all agree, 1 an error, 3 a figure is further off than allowed."
)]
pub struct ValidateArgs {
    /// Only cases whose names have this in them.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    simulator: String,
    case: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    warm_up_cycles: u64,
    cycles: u64,
    config: Config,
    figure: BTreeMap<String, Figure>,
}

/// A figure of the other simulator.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure {
    value: f64,
    /// Share by which ours may differ; none: it is shown only.
    within: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct Line {
    case: String,
    figure: String,
    ours: Option<f64>,
    theirs: f64,
    /// Share by which ours is larger.
    difference: Option<f64>,
    within: Option<f64>,
    agrees: bool,
}

/// Runs the command.
pub fn run(args: &ValidateArgs) -> Result<ExitCode> {
    let cases: Cases = toml::from_str(CASES).context("experiments/validation/booksim2.toml")?;
    let wanted = |case: &&Case| args.only.as_ref().is_none_or(|only| case.name.contains(only));
    let chosen: Vec<&Case> = cases.case.iter().filter(wanted).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = cases.case.iter().map(|case| case.name.as_str()).collect();
        bail!(
            "no case has {:?} in its name; there are {}",
            args.only.as_deref().unwrap_or(""),
            names.join(", ")
        );
    }
    let lines = run_all(&chosen)?;
    let off = lines.iter().filter(|line| !line.agrees).count();
    let mut out = std::io::stdout().lock();
    if args.json {
        let document =
            serde_json::json!({ "reference": cases.simulator, "agrees": off == 0, "rows": lines });
        serde_json::to_writer(&mut out, &document)?;
        writeln!(out)?;
    } else {
        let mut table =
            Table::new(&["case", "figure", "ours", "theirs", "difference", "allowed", ""]);
        for line in &lines {
            let percent = |share: f64| format!("{:+.1} %", share * 100.0);
            table.row(vec![
                line.case.clone(),
                line.figure.clone(),
                line.ours.map_or("-".into(), digits),
                digits(line.theirs),
                line.difference.map_or("-".into(), percent),
                line.within.map_or("-".into(), |share| format!("±{:.0} %", share * 100.0)),
                if line.agrees { "agrees" } else { "OFF" }.to_owned(),
            ]);
        }
        writeln!(out, "reference: {}\n\n{table}", cases.simulator)?;
    }
    if off > 0 {
        eprintln!("sluice: {off} of {} figures are further off than allowed", lines.len());
        return Ok(ExitCode::from(EXIT_OFF));
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the cases side by side; the lines are in their order.
fn run_all(cases: &[&Case]) -> Result<Vec<Line>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(cases.len());
    let next = AtomicUsize::new(0);
    let done = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(index) else { return };
                    let lines = run_case(case);
                    done.lock().unwrap_or_else(PoisonError::into_inner).insert(index, lines);
                }
            });
        }
    });
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.into_values().collect::<Result<Vec<Vec<Line>>>>().map(|lines| lines.concat())
}

fn run_case(case: &Case) -> Result<Vec<Line>> {
    let mut simulation = Simulation::new(&case.config, None, 1)
        .with_context(|| format!("the case {}", case.name))?;
    // One batch: as long as the other simulator's measurement.
    let stop = Stop {
        warm_up_cycles: case.warm_up_cycles,
        batch_cycles: case.cycles,
        min_cycles: case.cycles,
        max_cycles: case.cycles,
        change: 0.0,
    };
    let outcome = measure(&mut simulation, &stop, false, &mut |_| true)
        .with_context(|| format!("the case {} was stopped", case.name))?;
    if let Some(stuck) = &outcome.stuck {
        bail!("the case {} is stuck: {stuck}", case.name);
    }
    case.figure
        .iter()
        .map(|(name, figure)| {
            let index = column(name)
                .with_context(|| format!("the case {} has no figure {name}", case.name))?;
            let ours = (COLUMNS[index].of)(&outcome);
            let difference = ours.map(|ours| ours / figure.value - 1.0);
            let near =
                |within: f64| difference.is_some_and(|difference| difference.abs() <= within);
            Ok(Line {
                case: case.name.clone(),
                figure: name.clone(),
                ours,
                theirs: figure.value,
                difference,
                within: figure.within,
                agrees: figure.within.is_none_or(near),
            })
        })
        .collect()
}
