//! Overlaps, for people and for programs.

use crate::cores::Placement;
use crate::limits::Limits;
use crate::overlap::share::Row;
use anyhow::Result;
use serde::Serialize;
use serde_json::Value;
use sluice_text::{Table, bytes};
use std::io::Write;

/// One measurement.
#[derive(Debug)]
pub struct Report {
    pub rows: Vec<Row>,
    /// Length of the computation, in times of the communication.
    pub compute: f64,
    /// Whether the bytes were moved directly.
    pub direct: bool,
    pub limits: Limits,
    pub placement: Placement,
}

/// The whole of the JSON. `test` and of each row `size`, `first`, `side` and
/// `overlap_pct` are relied on; the rest is for people.
#[derive(Debug, Serialize)]
struct Json<'a> {
    test: &'static str,
    rail: &'static str,
    rows: &'a [Row],
    compute_times: f64,
    bulk: &'static str,
    cores: Option<[usize; 2]>,
    limits: Value,
    notes: Vec<String>,
}

impl Report {
    fn to_json(&self) -> Json<'_> {
        Json {
            test: "overlap",
            rail: "shm",
            rows: &self.rows,
            compute_times: self.compute,
            bulk: if self.direct { "direct" } else { "ring" },
            cores: self.placement.cores.map(|pair| [pair.first, pair.second]),
            limits: self.limits.to_json(),
            notes: self.notes(),
        }
    }

    /// Prints it for a program.
    pub fn print_json(&self) -> Result<()> {
        let mut out = std::io::stdout().lock();
        serde_json::to_writer(&mut out, &self.to_json()).map_err(std::io::Error::from)?;
        writeln!(out)?;
        Ok(())
    }

    /// Prints it for people.
    pub fn print_table(&self) -> Result<()> {
        let mut out = std::io::stdout().lock();
        let how = if self.direct { "moved directly" } else { "through the mailboxes" };
        writeln!(out, "overlap over shm: large messages {how}\n")?;
        write!(out, "{}", self.table())?;
        writeln!(
            out,
            "\nwanted: of a side that came first; comm: the communication alone; compute: the\n\
             computation alone; total: both; all from the moment at which both sides are there"
        )?;
        for note in self.notes() {
            writeln!(out, "note: {note}")?;
        }
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.limits.notes(&self.placement);
        if self.rows.iter().any(|row| 2 * row.disturbed > row.samples) {
            notes.push(
                "other programs took a core away in most repetitions of some rows: these rows \
                 say little"
                    .to_owned(),
            );
        }
        notes
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&[
            "size",
            "first",
            "measured",
            "overlap %",
            "wanted",
            "comm µs",
            "compute µs",
            "total µs",
        ]);
        for row in &self.rows {
            table.row(vec![
                bytes(row.size),
                row.first.name().to_owned(),
                row.side.name().to_owned(),
                format!("{:.1}", row.overlap_pct),
                row.target_pct.map_or("-".to_owned(), |pct| format!("{pct:.0}")),
                format!("{:.2}", row.comm_us),
                format!("{:.2}", row.compute_us),
                format!("{:.2}", row.total_us),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlap::share::Repetition;
    use crate::overlap::{First, Side};

    #[test]
    fn json_and_table_have_the_promised_shape() {
        let all =
            [Repetition { comm_ns: 1e5, compute_ns: 3e5, elapsed_ns: 3.1e5, is_disturbed: true }];
        let limits = Limits {
            line_half_rtt_ns: Some(50.0),
            line_half_rtt_after_ns: Some(200.0),
            memcpy: Vec::new(),
            direct_read: Vec::new(),
            clock_ns: 20.0,
        };
        let report = Report {
            rows: vec![Row::of(1 << 20, First::Sender, Side::Receive, 0.0, &all)],
            compute: 3.0,
            direct: true,
            limits,
            placement: Placement { cores: None, note: None },
        };
        let json = serde_json::to_value(report.to_json()).expect("plain data");
        assert_eq!(json["test"], "overlap");
        let row = &json["rows"][0];
        assert_eq!((&row["size"], &row["first"]), (&(1 << 20).into(), &"sender".into()));
        assert_eq!((&row["side"], &row["overlap_pct"]), (&"receive".into(), &90.0.into()));
        assert_eq!((row["comm_us"].as_f64(), row["total_us"].as_f64()), (Some(100.0), Some(310.0)));
        assert!(row["target_pct"].is_null());
        assert_eq!(report.table().to_string().lines().count(), 2);
        assert_eq!(report.notes().len(), 2);
    }
}
