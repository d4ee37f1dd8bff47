//! What a measurement found, for people and for programs.

use crate::cores::Placement;
use crate::limits::Limits;
use anyhow::Result;
use serde::Serialize;
use serde_json::Value;
use sluice_text::Table;
use std::io::Write;

/// One measurement, as it is printed. Of the JSON, `test`, `rail` and of each row what
/// its measurement names are relied on; the rest is for people.
#[derive(Debug, Serialize)]
pub struct Report<R, M> {
    pub test: &'static str,
    /// `None` for a measurement without a rail.
    pub rail: Option<&'static str>,
    pub rows: Vec<R>,
    /// What only this measurement says.
    #[serde(flatten)]
    pub more: M,
    /// What the reader of the figures must know.
    pub notes: Vec<String>,
    /// For people: what was measured, the figures, and what is said below them.
    #[serde(skip)]
    pub head: String,
    #[serde(skip)]
    pub table: Table,
    #[serde(skip)]
    pub foot: String,
}

impl<R: Serialize, M: Serialize> Report<R, M> {
    /// Prints it, as JSON or as text.
    pub fn print(&self, as_json: bool) -> Result<()> {
        let mut out = std::io::stdout().lock();
        if as_json {
            serde_json::to_writer(&mut out, self).map_err(std::io::Error::from)?;
            writeln!(out)?;
            return Ok(());
        }
        write!(out, "{}\n\n{}\n{}", self.head, self.table, self.foot)?;
        for note in &self.notes {
            writeln!(out, "note: {note}")?;
        }
        Ok(())
    }
}

/// Where two processes were measured, and what the machine allows there.
#[derive(Debug, Serialize)]
pub struct Conditions {
    cores: Option<[usize; 2]>,
    limits: Value,
}

impl Conditions {
    pub fn of(placement: &Placement, limits: &Limits) -> Conditions {
        let cores = placement.cores.map(|pair| [pair.first, pair.second]);
        Conditions { cores, limits: limits.to_json() }
    }
}

/// How the bytes of large messages moved, as JSON says it.
pub fn bulk_name(direct: bool) -> &'static str {
    if direct { "direct" } else { "ring" }
}

/// The same for people.
pub fn bulk_text(direct: bool) -> &'static str {
    if direct { "moved directly" } else { "through the mailboxes" }
}

/// The word that stands for a plain value in JSON, on the command line and in tables.
pub fn word(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or("-").to_owned()
}

/// A cell of a value that may be missing.
pub fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::NiKind;

    #[test]
    fn words_are_those_of_the_command_line() {
        use clap::ValueEnum;
        for kind in NiKind::value_variants() {
            let value = kind.to_possible_value().expect("it can be given");
            assert_eq!(word(kind), value.get_name());
        }
    }

    #[test]
    fn json_has_what_all_measurements_say_and_what_one_says() {
        #[derive(Debug, Serialize)]
        struct More {
            window: u64,
            #[serde(flatten)]
            conditions: Conditions,
        }
        let limits = Limits::example();
        let placement = Placement { cores: None, note: Some("one core".to_owned()) };
        let report = Report {
            test: "rate",
            rail: Some("shm"),
            rows: vec![7],
            more: More { window: 64, conditions: Conditions::of(&placement, &limits) },
            notes: limits.notes(&placement),
            head: String::new(),
            table: Table::new(&[]),
            foot: String::new(),
        };
        let json = serde_json::to_value(&report).expect("plain data");
        assert_eq!((&json["test"], &json["rail"]), (&"rate".into(), &"shm".into()));
        assert_eq!((&json["rows"][0], &json["window"]), (&7.into(), &64.into()));
        assert_eq!(json["limits"]["cache_line_half_rtt_after_ns"], 200.0);
        assert_eq!(json["notes"].as_array().map(Vec::len), Some(2));
        assert!(json["cores"].is_null() && json.get("table").is_none());
    }
}
