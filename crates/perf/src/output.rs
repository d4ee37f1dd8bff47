//! What was measured, for people and for programs.

use crate::cores::Placement;
use crate::limits::Limits;
use crate::portals::Op;
use crate::rail::RailKind;
use crate::stats::Spread;
use crate::{Api, Test};
use anyhow::Result;
use serde::Serialize;
use serde_json::Value;
use sluice_text::{Table, bytes};
use std::io::Write;

/// One size.
#[derive(Debug)]
pub struct Row {
    pub op: Op,
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
    api: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ni: Option<&'static str>,
    rows: Vec<JsonRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bulk: Option<&'static str>,
    cores: Option<[usize; 2]>,
    limits: Value,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct JsonRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    op: Option<Op>,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    half_rtt_ns: Option<Spread>,
    /// Of a get, whose answer has the bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    rtt_ns: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mib_per_s: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    msgs_per_s: Option<Spread>,
    samples: u64,
    verified: bool,
}

impl JsonRow {
    fn of(test: Test, api: Api, row: &Row) -> JsonRow {
        let is_portals = matches!(api, Api::Portals { .. });
        let spread = row.spread.rounded();
        JsonRow {
            op: is_portals.then_some(row.op),
            size: row.size,
            half_rtt_ns: (matches!(test, Test::Latency) && row.op == Op::Put).then_some(spread),
            rtt_ns: (matches!(test, Test::Latency) && row.op == Op::Get).then_some(spread),
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
    pub api: Api,
    pub rows: Vec<Row>,
    pub limits: Limits,
    pub placement: Placement,
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
            api: match self.api {
                Api::Messages { .. } => "messages",
                Api::Portals { .. } => "portals",
            },
            ni: match self.api {
                Api::Messages { .. } => None,
                Api::Portals { ni } => Some(ni.name()),
            },
            rows: self.rows.iter().map(|row| JsonRow::of(self.test, self.api, row)).collect(),
            window,
            bulk: self.bulk_name(),
            cores: self.placement.cores.map(|pair| [pair.first, pair.second]),
            limits: self.limits.to_json(),
            notes: self.limits.notes(&self.placement),
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
        for note in self.limits.notes(&self.placement) {
            writeln!(out, "note: {note}")?;
        }
        Ok(())
    }

    fn head(&self) -> String {
        let is_portals = matches!(self.api, Api::Portals { .. });
        let what = match self.test {
            Test::Latency if is_portals => {
                "put, half a round trip, and get, a whole one".to_owned()
            }
            Test::Latency => "half round trip".to_owned(),
            Test::Bandwidth { window } | Test::Rate { window } if is_portals => {
                format!("puts, windows of {window}, acknowledgements counted")
            }
            Test::Bandwidth { window } => format!("one way, windows of {window} messages"),
            Test::Rate { window } => format!("one way, windows of {window} messages"),
        };
        let cores = self.placement.cores.map_or("not pinned".to_owned(), |pair| {
            format!("cores {} and {}", pair.first, pair.second)
        });
        let how = match self.api {
            Api::Messages { direct: true } => "large messages moved directly".to_owned(),
            Api::Messages { direct: false } => "large messages through the mailboxes".to_owned(),
            Api::Portals { ni } => format!("libportals, {} interface", ni.name()),
        };
        format!("{} over {}: {what}; {cores}; {how}\n", self.test.name(), self.rail.name())
    }

    fn table(&self) -> Table {
        match self.test {
            Test::Latency => self.latency_table(),
            Test::Bandwidth { .. } => self.bandwidth_table(),
            Test::Rate { .. } => self.rate_table(),
        }
    }

    fn latency_table(&self) -> Table {
        let mut heads = vec!["size", "min µs", "p50 µs", "p99 µs", "p50 / cache line", "samples"];
        let is_portals = matches!(self.api, Api::Portals { .. });
        if is_portals {
            heads.insert(0, "op");
        }
        let mut table = Table::new(&heads);
        for row in &self.rows {
            // Each beside what the line takes for as much of a round trip.
            let halves = if row.op == Op::Get { 2.0 } else { 1.0 };
            let line_ns = self.limits.line_half_rtt_ns;
            let ratio = line_ns.map(|line| row.spread.p50 / (halves * line));
            let mut cells = vec![
                bytes(row.size),
                micros(row.spread.min),
                micros(row.spread.p50),
                micros(row.spread.p99),
                ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.1}")),
                row.samples.to_string(),
            ];
            if is_portals {
                cells.insert(0, row.op.name().to_owned());
            }
            table.row(cells);
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
                bytes(row.size),
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
                bytes(row.size),
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
            let list: Vec<String> =
                rates.iter().map(|(size, rate)| format!("{} {rate:.0}", bytes(*size))).collect();
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

    /// Through libportals the library decides, and does not tell.
    fn bulk_name(&self) -> Option<&'static str> {
        match self.api {
            Api::Messages { direct: true } => Some("direct"),
            Api::Messages { direct: false } => Some("ring"),
            Api::Portals { .. } => None,
        }
    }
}

fn micros(ns: f64) -> String {
    format!("{:.3}", ns / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::portals::NiKind;

    fn report(test: Test) -> Report {
        report_of(test, Api::Messages { direct: true }, Op::Put)
    }

    fn report_of(test: Test, api: Api, op: Op) -> Report {
        Report {
            test,
            rail: RailKind::Shm,
            api,
            rows: vec![Row {
                op,
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
    fn json_of_portals_says_which_operation() {
        let api = Api::Portals { ni: NiKind::Matching };
        for (op, name, key, other) in
            [(Op::Put, "put", "half_rtt_ns", "rtt_ns"), (Op::Get, "get", "rtt_ns", "half_rtt_ns")]
        {
            let report = report_of(Test::Latency, api, op);
            let json = serde_json::to_value(report.to_json()).expect("plain data");
            assert_eq!((&json["api"], &json["ni"]), (&"portals".into(), &"matching".into()));
            assert_eq!(json["rows"][0]["op"], name);
            assert_eq!(json["rows"][0][key]["p50"], 200.0);
            assert!(json["rows"][0][other].is_null() && json["bulk"].is_null());
            assert!(report.table().to_string().contains(name));
        }
    }

    #[test]
    fn tables_are_complete() {
        for test in [Test::Latency, Test::Bandwidth { window: 2 }, Test::Rate { window: 2 }] {
            let report = report(test);
            assert_eq!(report.table().to_string().lines().count(), 2);
            assert!(report.limits_text().contains("50 ns before, 200 ns after"));
            assert_eq!(report.to_json().notes.len(), 2);
        }
    }
}
