//! What matching costs, for people and for programs.

use crate::matching::case::{Case, Cost};
use crate::report::{Report, or_dash, word};
use crate::stats::{Spread, tenth};
use serde::Serialize;
use sluice_text::Table;

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

/// How it was measured.
#[derive(Clone, Copy, Debug)]
pub struct Measurement {
    /// Where it ran, if it was pinned.
    pub core: Option<usize>,
    /// Which part of the time the core was this process's.
    pub cpu_share: f64,
}

/// A row for programs. All but `samples` and `steps_per_sample` is relied on.
#[derive(Debug, Serialize)]
pub struct JsonRow {
    #[serde(flatten)]
    case: Case,
    ns_per_match: Spread,
    plain_ns: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    plain_target_ns: Option<f64>,
    samples: u64,
    steps_per_sample: usize,
    verified: bool,
}

/// What only this measurement says.
#[derive(Debug, Serialize)]
pub struct More {
    core: Option<usize>,
}

/// With less of a core than this, other programs are in the figures.
const CPU_SHARE_MIN: f64 = 0.95;

impl Measurement {
    /// What was found. There is no rail.
    pub fn report(self, rows: Vec<Row>) -> Report<JsonRow, More> {
        let core = self.core.map_or("not pinned".to_owned(), |core| format!("core {core}"));
        Report {
            test: "match",
            rail: None,
            rows: rows.iter().map(JsonRow::of).collect(),
            more: More { core: self.core },
            notes: self.notes(),
            head: format!("match in the Portals engine, messages without bytes; {core}"),
            table: table(&rows),
            foot: "\
a step is one match and one append, at a depth that stays; the event of the match is taken out
plain: a linked list that is walked, alone; plain target: the same with credits and an event
"
            .to_owned(),
        }
    }

    fn notes(self) -> Vec<String> {
        let no_core = "no core could be chosen: the figures have changes of core in them";
        let busy = format!(
            "other programs had the core for {:.0} % of the time, and the caches too: run it \
             again on a quiet machine",
            (1.0 - self.cpu_share) * 100.0
        );
        let no_core = self.core.is_none().then(|| no_core.to_owned());
        let busy = (self.cpu_share < CPU_SHARE_MIN).then_some(busy);
        no_core.into_iter().chain(busy).collect()
    }
}

impl JsonRow {
    fn of(row: &Row) -> JsonRow {
        JsonRow {
            case: row.case,
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

fn table(rows: &[Row]) -> Table {
    // Beside what the same costs at depth 1, if that was measured.
    let ratio = |row: &Row| {
        let at_1 = Case { depth: 1, ..row.case };
        let at_1 = rows.iter().find(|row| row.case == at_1)?;
        Some(format!("{:.2}", row.cost.spread.p50 / at_1.cost.spread.p50))
    };
    Table::of(
        rows,
        &[
            ("queue", &|row| word(&row.case.queue)),
            ("order", &|row| word(&row.case.order)),
            ("match", &|row| word(&row.case.kind)),
            ("depth", &|row| row.case.depth.to_string()),
            ("p50 ns", &|row| format!("{:.1}", row.cost.spread.p50)),
            ("p99 ns", &|row| format!("{:.1}", row.cost.spread.p99)),
            ("/ depth 1", &|row| or_dash(ratio(row))),
            ("plain ns", &|row| format!("{:.1}", row.plain_ns)),
            ("plain target ns", &|row| or_dash(row.plain_target_ns.map(|ns| format!("{ns:.1}")))),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::case::{Match, Order, Queue};

    const QUIET: Measurement = Measurement { core: Some(0), cpu_share: 1.0 };

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

    #[test]
    fn json_has_the_promised_shape() {
        let report = QUIET.report(vec![row(1, 100.0), row(10, 150.0)]);
        let json = serde_json::to_value(&report).expect("plain data");
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
        let text = table(&[row(1, 100.0), row(10, 150.0)]).to_string();
        let last = text.lines().last().expect("a row");
        assert!(last.split_whitespace().any(|cell| cell == "1.50"), "{text}");
        let text = table(&[row(10, 150.0)]).to_string();
        assert!(text.lines().last().expect("a row").contains("  -  "), "{text}");
    }

    #[test]
    fn what_spoils_the_figures_is_said() {
        assert!(QUIET.notes().is_empty());
        let notes = Measurement { core: None, cpu_share: 0.6 }.notes();
        assert_eq!(notes.len(), 2);
        assert!(notes[1].contains("40 %"), "{notes:?}");
    }
}
