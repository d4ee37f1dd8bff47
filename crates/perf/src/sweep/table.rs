//! Latencies, bandwidths and rates, for people and for programs.

use crate::buffers::Buffers;
use crate::cores::Placement;
use crate::limits::Limits;
use crate::measured::{Api, NiKind, Op, Test};
use crate::rail::RailKind;
use crate::report::{Conditions, Report, bulk_name, bulk_text, or_dash, word};
use crate::stats::Spread;
use serde::Serialize;
use sluice_text::{Column, Table, bytes};
use std::collections::BTreeMap;

/// One size of one operation.
#[derive(Debug)]
pub struct Row {
    pub op: Op,
    pub size: u64,
    pub spread: Spread,
    pub samples: u64,
    /// The same over a plain connection, if it was measured.
    pub raw: Vec<RawFigure>,
}

/// One size over a plain connection.
#[derive(Clone, Debug)]
pub struct RawFigure {
    pub messages_per_write: u64,
    pub spread: Spread,
}

/// What was measured, and where.
#[derive(Debug)]
pub struct Measurement {
    pub test: Test,
    pub rail: RailKind,
    pub api: Api,
    pub limits: Limits,
    pub placement: Placement,
}

/// A row for programs. `size` and the figures are relied on.
#[derive(Debug, Serialize)]
pub struct JsonRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    op: Option<Op>,
    /// Of bandwidth by messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    buffers: Option<Buffers>,
    size: u64,
    #[serde(flatten)]
    figures: BTreeMap<&'static str, Spread>,
    samples: u64,
    verified: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    raw: Vec<JsonRaw>,
}

/// What a plain connection does.
#[derive(Debug, Serialize)]
pub struct JsonRaw {
    messages_per_write: u64,
    #[serde(flatten)]
    figures: BTreeMap<&'static str, Spread>,
}

/// What only these measurements say.
#[derive(Debug, Serialize)]
pub struct More {
    api: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ni: Option<NiKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<u64>,
    /// Through libportals the library decides, and does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    bulk: Option<&'static str>,
    #[serde(flatten)]
    conditions: Conditions,
}

impl Measurement {
    /// What was found.
    pub fn report(&self, rows: &[Row]) -> Report<JsonRow, More> {
        let (api, ni, bulk) = match self.api {
            Api::Messages { direct } => ("messages", None, Some(bulk_name(direct))),
            Api::Portals { ni } => ("portals", Some(ni), None),
        };
        let conditions = Conditions::of(&self.placement, &self.limits);
        Report {
            test: self.test.name(),
            rail: Some(self.rail.name()),
            rows: rows.iter().map(|row| self.json_row(row)).collect(),
            more: More { api, ni, window: self.test.window(), bulk, conditions },
            notes: self.limits.notes(&self.placement),
            head: self.head(),
            table: self.table(rows),
            foot: self.limits.to_text(),
        }
    }

    fn json_row(&self, row: &Row) -> JsonRow {
        let figure = match (self.test, row.op) {
            (Test::Latency, Op::Put) => "half_rtt_ns",
            // Of a get, whose answer has the bytes.
            (Test::Latency, Op::Get) => "rtt_ns",
            (Test::Bandwidth { .. }, _) => "mib_per_s",
            (Test::Rate { .. }, _) => "msgs_per_s",
        };
        let json_raw = |raw: &RawFigure| JsonRaw {
            messages_per_write: raw.messages_per_write,
            figures: [(figure, raw.spread.rounded())].into(),
        };
        let buffers = match (self.test, self.api) {
            (Test::Bandwidth { buffers, .. }, Api::Messages { .. }) => Some(buffers),
            _ => None,
        };
        JsonRow {
            buffers,
            op: matches!(self.api, Api::Portals { .. }).then_some(row.op),
            size: row.size,
            figures: [(figure, row.spread.rounded())].into(),
            samples: row.samples,
            // A byte that is wrong ends the command with an error instead.
            verified: true,
            raw: row.raw.iter().map(json_raw).collect(),
        }
    }

    fn head(&self) -> String {
        let what = match (self.test, self.api) {
            (Test::Latency, Api::Portals { .. }) => {
                "put, half a round trip, and get, a whole one".to_owned()
            }
            (Test::Latency, Api::Messages { .. }) => "half round trip".to_owned(),
            (Test::Bandwidth { window, .. } | Test::Rate { window }, Api::Portals { .. }) => {
                format!("puts, windows of {window}, acknowledgements counted")
            }
            (Test::Bandwidth { window, buffers }, Api::Messages { .. }) => {
                format!("one way, windows of {window} messages, {} buffers", word(&buffers))
            }
            (Test::Rate { window }, Api::Messages { .. }) => {
                format!("one way, windows of {window} messages")
            }
        };
        let cores = self.placement.cores.map_or("not pinned".to_owned(), |pair| {
            format!("cores {} and {}", pair.first, pair.second)
        });
        let how = match self.api {
            Api::Messages { direct } => format!("large messages {}", bulk_text(direct)),
            Api::Portals { ni } => format!("libportals, {} interface", word(&ni)),
        };
        format!("{} over {}: {what}; {cores}; {how}", self.test.name(), self.rail.name())
    }

    fn table(&self, rows: &[Row]) -> Table {
        let mut columns = match self.test {
            Test::Latency => self.latency_columns(),
            Test::Bandwidth { buffers, .. } => self.bandwidth_columns(buffers),
            Test::Rate { .. } => rate_columns(),
        };
        if rows.iter().any(|row| !row.raw.is_empty()) {
            columns.extend(raw_columns(self.test));
        }
        let columns: Vec<Column<Row>> =
            columns.iter().map(|(name, cell)| (*name, &**cell)).collect();
        Table::of(rows, &columns)
    }

    fn latency_columns(&self) -> Vec<NamedCell<'_>> {
        let per_line = |row: &Row| {
            // Each beside what the line takes for as much of a round trip.
            let halves = if row.op == Op::Get { 2.0 } else { 1.0 };
            let ratio = self.limits.line_half_rtt_ns.map(|line| row.spread.p50 / (halves * line));
            or_dash(ratio.map(|ratio| format!("{ratio:.1}")))
        };
        let columns: Vec<NamedCell> = vec![
            ("op", Box::new(|row| word(&row.op))),
            ("size", Box::new(|row| bytes(row.size))),
            ("min µs", Box::new(|row| micros(row.spread.min))),
            ("p50 µs", Box::new(|row| micros(row.spread.p50))),
            ("p99 µs", Box::new(|row| micros(row.spread.p99))),
            ("p50 / cache line", Box::new(per_line)),
            ("samples", Box::new(|row| row.samples.to_string())),
        ];
        let is_portals = matches!(self.api, Api::Portals { .. });
        columns.into_iter().skip(usize::from(!is_portals)).collect()
    }

    fn bandwidth_columns(&self, buffers: Buffers) -> Vec<NamedCell<'_>> {
        // The limits are those of one hot buffer.
        let ratio = move |row: &Row, limit: Option<f64>| {
            let limit = limit.filter(|_| buffers == Buffers::Hot);
            or_dash(limit.map(|limit| format!("{:.2}", row.spread.p50 / limit)))
        };
        vec![
            ("size", Box::new(|row| bytes(row.size))),
            ("p50 MiB/s", Box::new(|row| format!("{:.1}", row.spread.p50))),
            ("best MiB/s", Box::new(|row| format!("{:.1}", row.spread.max))),
            ("/ memcpy", Box::new(move |row| ratio(row, self.limits.memcpy_near(row.size)))),
            (
                "/ direct read",
                Box::new(move |row| ratio(row, self.limits.direct_read_near(row.size))),
            ),
            ("windows", Box::new(|row| row.samples.to_string())),
        ]
    }
}

/// A column's name, and its cell in a row.
type NamedCell<'a> = (&'static str, Box<dyn Fn(&Row) -> String + 'a>);

fn rate_columns() -> Vec<NamedCell<'static>> {
    vec![
        ("size", Box::new(|row| bytes(row.size))),
        ("p50 M msg/s", Box::new(|row| format!("{:.3}", row.spread.p50 / 1e6))),
        ("best M msg/s", Box::new(|row| format!("{:.3}", row.spread.max / 1e6))),
        ("p50 ns/msg", Box::new(|row| format!("{:.1}", 1e9 / row.spread.p50.max(1e-9)))),
        ("windows", Box::new(|row| row.samples.to_string())),
    ]
}

/// What the plain connection does, and how many times that Sluice does; of rates by how
/// many messages a write has.
fn raw_columns(test: Test) -> Vec<NamedCell<'static>> {
    let cell = |at: usize, text: fn(&Row, f64) -> String| -> Box<dyn Fn(&Row) -> String> {
        Box::new(move |row| or_dash(row.raw.get(at).map(|raw| text(row, raw.spread.p50))))
    };
    let times: fn(&Row, f64) -> String =
        |row, raw| format!("{:.2}", row.spread.p50 / raw.max(1e-9));
    match test {
        Test::Latency => {
            vec![("plain p50 µs", cell(0, |_, raw| micros(raw))), ("/ plain", cell(0, times))]
        }
        Test::Bandwidth { .. } => vec![
            ("plain MiB/s", cell(0, |_, raw| format!("{raw:.1}"))),
            ("/ plain", cell(0, times)),
        ],
        Test::Rate { .. } => {
            let millions: fn(&Row, f64) -> String = |_, raw| format!("{:.3}", raw / 1e6);
            vec![
                ("plain, 1 a write", cell(0, millions)),
                ("16 a write", cell(1, millions)),
                ("64 a write", cell(2, millions)),
            ]
        }
    }
}

fn micros(ns: f64) -> String {
    format!("{:.3}", ns / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// The JSON and the table of one row.
    fn printed(test: Test, api: Api, op: Op) -> (Value, String) {
        let measurement = Measurement {
            test,
            rail: RailKind::Shm,
            api,
            limits: Limits::example(),
            placement: Placement { cores: None, note: None },
        };
        let spread = Spread { min: 100.0, p50: 200.0, p99: 300.0, max: 400.0 };
        let raw = match test {
            Test::Latency => vec![RawFigure { messages_per_write: 1, spread }],
            _ => Vec::new(),
        };
        let report = measurement.report(&[Row { op, size: 8, spread, samples: 5, raw }]);
        (serde_json::to_value(&report).expect("plain data"), report.table.to_string())
    }

    #[test]
    fn json_and_table_have_the_promised_shape() {
        let rows = [
            (Test::Latency, "latency", "half_rtt_ns"),
            (Test::Bandwidth { window: 64, buffers: Buffers::Hot }, "bandwidth", "mib_per_s"),
            (Test::Rate { window: 64 }, "rate", "msgs_per_s"),
        ];
        for (test, name, key) in rows {
            let (json, table) = printed(test, Api::Messages { direct: true }, Op::Put);
            assert_eq!((&json["test"], &json["rail"]), (&name.into(), &"shm".into()));
            assert_eq!(json["rows"][0]["size"], 8);
            for (part, value) in [("min", 100.0), ("p50", 200.0), ("p99", 300.0)] {
                assert_eq!(json["rows"][0][key][part], value);
            }
            assert_eq!(table.lines().count(), 2);
        }
    }

    #[test]
    fn json_of_portals_says_which_operation() {
        let api = Api::Portals { ni: NiKind::Matching };
        for (op, name, key, other) in
            [(Op::Put, "put", "half_rtt_ns", "rtt_ns"), (Op::Get, "get", "rtt_ns", "half_rtt_ns")]
        {
            let (json, table) = printed(Test::Latency, api, op);
            assert_eq!((&json["api"], &json["ni"]), (&"portals".into(), &"matching".into()));
            assert_eq!(json["rows"][0]["op"], name);
            assert_eq!(json["rows"][0][key]["p50"], 200.0);
            assert!(json["rows"][0][other].is_null() && json["bulk"].is_null());
            assert!(table.contains(name));
        }
    }
}
