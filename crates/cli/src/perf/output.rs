//! What was measured, for people and for programs.

use crate::cores::Placement;
use crate::perf::Test;
use crate::perf::limits::Limits;
use crate::perf::stats::Spread;
use crate::rail::RailKind;
use crate::table::{self, Table};
use anyhow::Result;
use serde::Serialize;
use serde_json::Value;
use std::io::Write;

/// One size.
#[derive(Debug)]
pub struct Row {
    pub size: u64,
    pub spread: Spread,
    pub samples: u64,
}

/// The whole of the JSON. `test`, `rail` and `rows`, with `size` and the
/// figures of the test, are relied on; the rest is for people.
#[derive(Debug, Serialize)]
struct Json {
    test: &'static str,
    rail: &'static str,
    rows: Vec<JsonRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<u64>,
    bulk: &'static str,
    cores: Option<[usize; 2]>,
    limits: Value,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct JsonRow {
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    half_rtt_ns: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mib_per_s: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    msgs_per_s: Option<Spread>,
    samples: u64,
    verified: bool,
}

impl JsonRow {
    fn of(test: Test, row: &Row) -> JsonRow {
        let spread = row.spread.rounded();
        JsonRow {
            size: row.size,
            half_rtt_ns: matches!(test, Test::Latency).then_some(spread),
            mib_per_s: matches!(test, Test::Bandwidth { .. }).then_some(spread),
            msgs_per_s: matches!(test, Test::Rate { .. }).then_some(spread),
            samples: row.samples,
            // A byte that is wrong ends the command with an error instead.
            verified: true,
        }
    }
}

/// One measurement.
#[derive(Debug)]
pub struct Report {
    pub test: Test,
    pub rail: RailKind,
    pub rows: Vec<Row>,
    pub limits: Limits,
    pub placement: Placement,
    /// Whether the bytes of large messages were read directly.
    pub direct: bool,
}

impl Report {
    /// The JSON whose shape other programs rely on.
    fn to_json(&self) -> Json {
        let window = match self.test {
            Test::Latency => None,
            Test::Bandwidth { window } | Test::Rate { window } => Some(window),
        };
        Json {
            test: self.test.name(),
            rail: self.rail.name(),
            rows: self.rows.iter().map(|row| JsonRow::of(self.test, row)).collect(),
            window,
            bulk: self.bulk_name(),
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
        write!(out, "{}", self.head())?;
        writeln!(out)?;
        write!(out, "{}", self.table())?;
        writeln!(out)?;
        write!(out, "{}", self.limits_text())?;
        for note in self.notes() {
            writeln!(out, "note: {note}")?;
        }
        Ok(())
    }

    fn head(&self) -> String {
        let what = match self.test {
            Test::Latency => "half round trip".to_owned(),
            Test::Bandwidth { window } => format!("one way, windows of {window} messages"),
            Test::Rate { window } => format!("one way, windows of {window} messages"),
        };
        let cores = self.placement.cores.map_or("not pinned".to_owned(), |pair| {
            format!("cores {} and {}", pair.first, pair.second)
        });
        format!(
            "{} over {}: {what}; {cores}; large messages {}\n",
            self.test.name(),
            self.rail.name(),
            if self.direct { "read directly" } else { "through the mailboxes" },
        )
    }

    fn table(&self) -> Table {
        match self.test {
            Test::Latency => self.latency_table(),
            Test::Bandwidth { .. } => self.bandwidth_table(),
            Test::Rate { .. } => self.rate_table(),
        }
    }

    fn latency_table(&self) -> Table {
        let mut table =
            Table::new(&["size", "min µs", "p50 µs", "p99 µs", "p50 / cache line", "samples"]);
        for row in &self.rows {
            let ratio = self.limits.line_half_rtt_ns.map(|line| row.spread.p50 / line);
            table.row(vec![
                table::bytes(row.size),
                micros(row.spread.min),
                micros(row.spread.p50),
                micros(row.spread.p99),
                ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.1}")),
                row.samples.to_string(),
            ]);
        }
        table
    }

    fn bandwidth_table(&self) -> Table {
        let mut table = Table::new(&[
            "size",
            "p50 MiB/s",
            "best MiB/s",
            "/ memcpy",
            "/ direct read",
            "windows",
        ]);
        for row in &self.rows {
            let ratio = |limit: Option<f64>| {
                limit.map_or("-".to_owned(), |limit| format!("{:.2}", row.spread.p50 / limit))
            };
            table.row(vec![
                table::bytes(row.size),
                format!("{:.1}", row.spread.p50),
                format!("{:.1}", row.spread.max),
                ratio(self.limits.memcpy_near(row.size)),
                ratio(self.limits.direct_read_near(row.size)),
                row.samples.to_string(),
            ]);
        }
        table
    }

    fn rate_table(&self) -> Table {
        let mut table =
            Table::new(&["size", "p50 M msg/s", "best M msg/s", "p50 ns/msg", "windows"]);
        for row in &self.rows {
            table.row(vec![
                table::bytes(row.size),
                format!("{:.3}", row.spread.p50 / 1e6),
                format!("{:.3}", row.spread.max / 1e6),
                format!("{:.1}", 1e9 / row.spread.p50.max(1e-9)),
                row.samples.to_string(),
            ]);
        }
        table
    }

    fn limits_text(&self) -> String {
        let limits = &self.limits;
        let ns = |ns: Option<f64>| ns.map_or("-".to_owned(), |ns| format!("{ns:.0} ns"));
        let rates = |rates: &[(u64, f64)]| {
            let list: Vec<String> = rates
                .iter()
                .map(|(size, rate)| format!("{} {rate:.0}", table::bytes(*size)))
                .collect();
            if list.is_empty() { "-".to_owned() } else { list.join(", ") }
        };
        format!(
            "limits of this machine, in this run\n  \
             cache line, half round trip  {} before, {} after\n  \
             memcpy of one core, MiB/s    {}\n  \
             direct reads, MiB/s          {}\n  \
             reading the clock            {:.0} ns\n",
            ns(limits.line_half_rtt_ns),
            ns(limits.line_half_rtt_after_ns),
            rates(&limits.memcpy),
            rates(&limits.direct_read),
            limits.clock_ns,
        )
    }

    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.placement.note.iter().cloned().collect();
        if self.limits.moved() {
            notes.push(
                "the machine's cores moved apart or together during the run: run it again to \
                 compare figures"
                    .to_owned(),
            );
        }
        notes
    }

    fn bulk_name(&self) -> &'static str {
        if self.direct { "direct" } else { "ring" }
    }
}

fn micros(ns: f64) -> String {
    format!("{:.3}", ns / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(test: Test) -> Report {
        Report {
            test,
            rail: RailKind::Shm,
            rows: vec![Row {
                size: 8,
                spread: Spread { min: 100.0, p50: 200.0, p99: 300.0, max: 400.0 },
                samples: 5,
            }],
            limits: Limits {
                line_half_rtt_ns: Some(50.0),
                line_half_rtt_after_ns: Some(200.0),
                memcpy: vec![(65536, 50_000.0)],
                direct_read: Vec::new(),
                clock_ns: 20.0,
            },
            placement: Placement { cores: None, note: Some("one core".to_owned()) },
            direct: true,
        }
    }

    #[test]
    fn json_has_the_promised_shape() {
        let rows = [
            (Test::Latency, "latency", "half_rtt_ns"),
            (Test::Bandwidth { window: 64 }, "bandwidth", "mib_per_s"),
            (Test::Rate { window: 64 }, "rate", "msgs_per_s"),
        ];
        for (test, name, key) in rows {
            let json = serde_json::to_value(report(test).to_json()).expect("plain data");
            assert_eq!(json["test"], name);
            assert_eq!(json["rail"], "shm");
            assert_eq!(json["rows"][0]["size"], 8);
            assert_eq!(json["rows"][0][key]["p50"], 200.0);
        }
        let json = serde_json::to_value(report(Test::Latency).to_json()).expect("plain data");
        assert_eq!(json["rows"][0]["half_rtt_ns"]["min"], 100.0);
        assert_eq!(json["rows"][0]["half_rtt_ns"]["p99"], 300.0);
    }

    #[test]
    fn tables_are_complete() {
        for test in [Test::Latency, Test::Bandwidth { window: 2 }, Test::Rate { window: 2 }] {
            let report = report(test);
            assert_eq!(report.table().to_string().lines().count(), 2);
            assert!(report.limits_text().contains("50 ns before, 200 ns after"));
            assert_eq!(report.notes().len(), 2);
        }
    }
}
