//! What matching costs, for people and for programs.

use crate::matching::{Case, Cost, Match, Order, Queue};
use crate::stats::{Spread, tenth};
use anyhow::Result;
use serde::Serialize;
use sluice_text::Table;
use std::fmt;
use std::io::Write;

/// One case.
#[derive(Debug)]
pub struct Row {
    pub case: Case,
    pub cost: Cost,
    /// A plain list, the same steps.
    pub plain_ns: f64,
    /// A plain list with links and events around it, the same steps.
    pub plain_target_ns: Option<f64>,
}

/// The whole of the JSON. `test` and `rows`, without `samples` and
/// `steps_per_sample`, are relied on; the rest is for people. There is no rail.
#[derive(Debug, Serialize)]
struct Json {
    test: &'static str,
    rail: Option<&'static str>,
    rows: Vec<JsonRow>,
    core: Option<usize>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct JsonRow {
    depth: u32,
    queue: Queue,
    order: Order,
    #[serde(rename = "match")]
    kind: Match,
    ns_per_match: Spread,
    plain_ns: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    plain_target_ns: Option<f64>,
    samples: u64,
    steps_per_sample: usize,
    verified: bool,
}

impl JsonRow {
    fn of(row: &Row) -> JsonRow {
        JsonRow {
            depth: row.case.depth,
            queue: row.case.queue,
            order: row.case.order,
            kind: row.case.kind,
            ns_per_match: row.cost.spread.rounded(),
            plain_ns: tenth(row.plain_ns),
            plain_target_ns: row.plain_target_ns.map(tenth),
            samples: row.cost.blocks,
            steps_per_sample: row.cost.block_steps,
            // A wrong match ends the command with an error instead.
            verified: true,
        }
    }
}

/// The measurement.
#[derive(Debug)]
pub struct Report {
    pub rows: Vec<Row>,
    /// Where it ran, if it was pinned.
    pub core: Option<usize>,
    /// Which part of the time the core was this process's.
    pub cpu_share: f64,
}

/// With less of a core than this, other programs are in the figures.
const CPU_SHARE_MIN: f64 = 0.95;

const EXPLANATION: &str = "\
a step is one match and one append, at a depth that stays; the event of the match is taken out
plain: a linked list that is walked, alone; plain target: the same with credits and an event
";

impl Report {
    fn to_json(&self) -> Json {
        Json {
            test: "match",
            rail: None,
            rows: self.rows.iter().map(JsonRow::of).collect(),
            core: self.core,
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
        let core = self.core.map_or("not pinned".to_owned(), |core| format!("core {core}"));
        writeln!(out, "match in the Portals engine, messages without bytes; {core}\n")?;
        write!(out, "{}", self.table())?;
        write!(out, "\n{EXPLANATION}")?;
        for note in self.notes() {
            writeln!(out, "note: {note}")?;
        }
        Ok(())
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&[
            "queue",
            "order",
            "match",
            "depth",
            "p50 ns",
            "p99 ns",
            "/ depth 1",
            "plain ns",
            "plain target ns",
        ]);
        for row in &self.rows {
            let Case { depth, queue, order, kind } = row.case;
            let ratio = self.at_depth_1(row.case).map(|at_1| row.cost.spread.p50 / at_1);
            let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
            table.row(vec![
                queue.to_string(),
                order.to_string(),
                kind.to_string(),
                depth.to_string(),
                format!("{:.1}", row.cost.spread.p50),
                format!("{:.1}", row.cost.spread.p99),
                or_dash(ratio.map(|ratio| format!("{ratio:.2}"))),
                format!("{:.1}", row.plain_ns),
                or_dash(row.plain_target_ns.map(|ns| format!("{ns:.1}"))),
            ]);
        }
        table
    }

    /// What the same costs at depth 1, if that was measured.
    fn at_depth_1(&self, case: Case) -> Option<f64> {
        let at_1 = Case { depth: 1, ..case };
        self.rows.iter().find(|row| row.case == at_1).map(|row| row.cost.spread.p50)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.core.is_none() {
            notes.push(
                "no core could be chosen: the figures have changes of core in them".to_owned(),
            );
        }
        if self.cpu_share < CPU_SHARE_MIN {
            notes.push(format!(
                "other programs had the core for {:.0} % of the time, and the caches too: run it \
                 again on a quiet machine",
                (1.0 - self.cpu_share) * 100.0
            ));
        }
        notes
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Queue::Posted => "posted",
            Queue::Unexpected => "unexpected",
        })
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Order::In => "in",
            Order::Out => "out",
        })
    }
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Match::Exact => "exact",
            Match::Masked => "masked",
            Match::Wildcard => "wildcard",
        })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { depth, queue, order, kind } = self;
        write!(f, "{queue}, {order} of order, {kind}, depth {depth}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(depth: u32, p50: f64) -> Row {
        Row {
            case: Case { depth, queue: Queue::Posted, order: Order::Out, kind: Match::Masked },
            cost: Cost {
                spread: Spread { min: 1.0, p50, p99: 300.04, max: 400.0 },
                blocks: 7,
                block_steps: 50,
            },
            plain_ns: 2.34,
            plain_target_ns: (depth == 1).then_some(20.0),
        }
    }

    fn report(rows: Vec<Row>) -> Report {
        Report { rows, core: Some(0), cpu_share: 1.0 }
    }

    #[test]
    fn json_has_the_promised_shape() {
        let report = report(vec![row(1, 100.0), row(10, 150.0)]);
        let json = serde_json::to_value(report.to_json()).expect("plain data");
        assert_eq!(json["test"], "match");
        assert!(json["rail"].is_null());
        let rows = json["rows"].as_array().expect("rows");
        assert_eq!(rows[1]["depth"], 10);
        assert_eq!(rows[1]["queue"], "posted");
        assert_eq!(rows[1]["order"], "out");
        assert_eq!(rows[1]["match"], "masked");
        assert_eq!(rows[1]["ns_per_match"]["p50"], 150.0);
        assert_eq!(rows[1]["ns_per_match"]["p99"], 300.0);
        assert_eq!(rows[1]["plain_ns"], 2.3);
        assert_eq!(rows[0]["plain_target_ns"], 20.0);
        assert!(rows[1].get("plain_target_ns").is_none());
    }

    #[test]
    fn the_table_compares_with_depth_1() {
        let both = report(vec![row(1, 100.0), row(10, 150.0)]);
        let text = both.table().to_string();
        let last = text.lines().last().expect("a row");
        assert!(last.split_whitespace().any(|cell| cell == "1.50"), "{text}");
        let alone = report(vec![row(10, 150.0)]);
        let text = alone.table().to_string();
        assert!(text.lines().last().expect("a row").contains("  -  "), "{text}");
    }

    #[test]
    fn what_spoils_the_figures_is_said() {
        let good = report(Vec::new());
        assert!(good.notes().is_empty());
        let bad = Report { core: None, cpu_share: 0.6, ..good };
        let notes = bad.notes();
        assert_eq!(notes.len(), 2);
        assert!(notes[1].contains("40 %"), "{notes:?}");
    }
}
