//! `sluice tune`: transfer costs of this machine, and the lengths computed from them.

use crate::selection;
use anyhow::{Result, ensure};
use clap::Args;
use serde_json::json;
use sluice_rail::shm::COSTS;
use sluice_rail::tune::{self, Mode, Tuned};
use sluice_runtime::Settings;
use std::io::Write as _;

/// Arguments of `sluice tune`.
#[derive(Debug, Args)]
#[command(after_help = "\
Programs measure by themselves when they first open an endpoint; it takes some
milliseconds. The figures are kept below $XDG_CACHE_HOME/sluice, or ~/.cache/sluice, in
a file for each processor model and kernel release. FI_SLUICE_TUNE=off uses fixed
figures; FI_SLUICE_TUNE=FILE keeps the measured ones in FILE. Figures that were measured
beside other work are too high; --force measures again.

Examples:
  sluice tune            costs and lengths; measured if they are not kept yet
  sluice tune --force    measure again
  sluice tune --json     as JSON")]
pub struct TuneArgs {
    /// Measure again, even if figures are kept
    #[arg(long)]
    force: bool,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Measures, keeps and prints.
pub fn run(args: &TuneArgs) -> Result<()> {
    let settings = Settings::of_environment();
    let off = settings.tune == Mode::Off;
    ensure!(
        !(args.force && off),
        "FI_SLUICE_TUNE is off, so nothing is measured; unset it, or name a file"
    );
    let tuned = if args.force {
        tune::measure(&COSTS, &settings.tune)
    } else {
        tune::load(&COSTS, &settings.tune)
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        let document = to_json(&settings, &tuned);
        serde_json::to_writer_pretty(&mut out, &document).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", to_text(&settings, &tuned))?;
        for warning in settings.warnings.iter().chain(&tuned.warnings).chain(&tuned.notices) {
            eprintln!("sluice: warning: {warning}");
        }
    }
    Ok(())
}

fn to_text(settings: &Settings, tuned: &Tuned) -> String {
    let thresholds = selection::thresholds(settings, tuned);
    format!(
        "rail {}, {} memory: {}\nmachine: {}\n\n{}\n{}",
        selection::RAIL,
        thresholds.memory.name(),
        selection::origin_text(tuned),
        tuned.machine,
        selection::costs_text(&tuned.costs.unwrap_or_default()),
        selection::thresholds_text(&thresholds),
    )
}

fn to_json(settings: &Settings, tuned: &Tuned) -> serde_json::Value {
    let thresholds = selection::thresholds(settings, tuned);
    let warnings: Vec<&String> =
        settings.warnings.iter().chain(&tuned.warnings).chain(&tuned.notices).collect();
    json!({
        "rail": selection::RAIL,
        "memory": thresholds.memory.name(),
        "origin": selection::origin_name(tuned.origin),
        "file": tuned.file.as_ref().map(|file| file.display().to_string()),
        "machine": tuned.machine,
        "costs": selection::costs_json(&tuned.costs.unwrap_or_default()),
        "thresholds": selection::thresholds_json(&thresholds),
        "warnings": warnings,
    })
}
