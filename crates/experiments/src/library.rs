//! The experiments that come with the command.

use crate::place::{Source, advice};
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};

macro_rules! experiments {
    ($($name:literal),* $(,)?) => {
        /// Name and text of each.
        pub const EXPERIMENTS: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../../../experiments/", $name, ".toml")))),*
        ];
    };
}

experiments![
    "extoll-fig10",
    "extoll-fig10-small",
    "extoll-fig15",
    "extoll-fig15-small",
    "extoll-fig16",
    "extoll-fig16-small",
    "extoll-fig18",
    "extoll-fig18-small",
    "extoll-fig19",
    "extoll-fig19-small",
    "extoll-fig20",
    "extoll-fig20-small",
    "extoll-fig25",
    "extoll-fig25-small",
    "extoll-fig27",
    "extoll-fig27-small",
    "extoll-fig4",
    "extoll-fig4-small",
    "extoll-fig6",
    "extoll-fig6-small",
    "extoll-fig9",
    "extoll-fig9-small",
    "multirail-fig5",
    "multirail-fig5-small",
    "rdrp-fig1",
    "rdrp-fig1-small",
    "rdrp-fig4",
    "rdrp-fig4-small",
    "rdrp-fig5",
    "rdrp-fig5-small",
    "rdrp-operating-point",
    "rdrp-operating-point-small",
    "rdrp-slow-sink",
    "rdrp-slow-sink-small",
    "rdrp-unstated",
    "rdrp-unstated-marks",
    "speculative-fig3",
    "speculative-fig3-small",
    "speculative-fig4",
    "speculative-fig4-small",
];

/// An experiment's text, and the folder to which the paths of its traces are relative.
///
/// # Errors
/// When it is neither a file nor the name of an experiment that comes with the
/// command.
pub fn open(what: &str) -> Result<(Source, PathBuf)> {
    let path = Path::new(what);
    if path.is_file() {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {what}"))?;
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        return Ok((Source { name: what.to_owned(), text }, folder));
    }
    if let Some((name, text)) = EXPERIMENTS.iter().find(|(name, _)| *name == what) {
        let source = Source { name: format!("{name}.toml"), text: (*text).to_owned() };
        return Ok((source, PathBuf::new()));
    }
    if path.is_dir() {
        bail!("{what} is a folder; name an experiment file in it");
    }
    let names: Vec<&str> = EXPERIMENTS.iter().map(|(name, _)| *name).collect();
    bail!(
        "there is no file {what} and no experiment of that name{}; see `sluice sim list`",
        advice(what, &names)
    )
}
