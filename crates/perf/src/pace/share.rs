//! What a flow keeps of its speed beside another one.

use crate::pace::flow::Flow;
use crate::report::{or_dash, word};
use crate::stats::tenth;
use crate::step::Receiver;
use serde::Serialize;
use sluice_text::Table;

/// What the fast flow is wanted to keep, in per cent.
pub const TARGET_PCT: f64 = 95.0;

/// A flow in one round: alone, and right after or before beside the other one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    pub alone_mib_per_s: f64,
    pub shared_mib_per_s: f64,
}

impl Round {
    fn kept_pct(self) -> f64 {
        if self.alone_mib_per_s <= 0.0 {
            return 0.0;
        }
        100.0 * self.shared_mib_per_s / self.alone_mib_per_s
    }
}

/// A flow over all rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Where the fast flow goes: to the process of the slow one, or to another.
    pub receiver: Receiver,
    pub flow: Flow,
    pub alone_mib_per_s: f64,
    pub shared_mib_per_s: f64,
    pub kept_pct: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_pct: Option<f64>,
}

impl Row {
    /// Both figures are of one round, the middle one by what the flow kept: a
    /// machine that changes its speed between rounds changes both.
    pub fn of(receiver: Receiver, flow: Flow, mut rounds: Vec<Round>) -> Row {
        rounds.sort_by(|a, b| a.kept_pct().total_cmp(&b.kept_pct()));
        let none = Round { alone_mib_per_s: 0.0, shared_mib_per_s: 0.0 };
        let middle = rounds.get(rounds.len().saturating_sub(1) / 2).copied().unwrap_or(none);
        Row {
            receiver,
            flow,
            alone_mib_per_s: tenth(middle.alone_mib_per_s),
            shared_mib_per_s: tenth(middle.shared_mib_per_s),
            kept_pct: tenth(middle.kept_pct()),
            target_pct: (flow == Flow::Fast).then_some(TARGET_PCT),
        }
    }
}

/// The rows for people.
pub fn table(rows: &[Row]) -> Table {
    Table::of(
        rows,
        &[
            ("receiver", &|row| word(&row.receiver)),
            ("flow", &|row| word(&row.flow)),
            ("alone MiB/s", &|row| format!("{:.1}", row.alone_mib_per_s)),
            ("shared MiB/s", &|row| format!("{:.1}", row.shared_mib_per_s)),
            ("kept %", &|row| format!("{:.1}", row.kept_pct)),
            ("wanted", &|row| or_dash(row.target_pct.map(|pct| format!("{pct:.0}")))),
        ],
    )
}

/// MiB in a second, of so many messages in so many nanoseconds.
pub fn mib_per_s(messages: u32, size: u64, ns: u64) -> f64 {
    let mib = f64::from(messages) * size as f64 / f64::from(1 << 20);
    mib / (ns.max(1) as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_the_middle_round() {
        let round = |alone, shared| Round { alone_mib_per_s: alone, shared_mib_per_s: shared };
        // The machine was twice as fast in one round, and busy in another.
        let rounds = vec![round(100.0, 96.0), round(200.0, 194.0), round(100.0, 40.0)];
        let row = Row::of(Receiver::Same, Flow::Fast, rounds);
        assert_eq!((row.alone_mib_per_s, row.shared_mib_per_s), (100.0, 96.0));
        assert_eq!((row.kept_pct, row.target_pct), (96.0, Some(TARGET_PCT)));
        let row = Row::of(Receiver::Other, Flow::Slow, vec![round(0.0, 5.0)]);
        assert_eq!((row.kept_pct, row.target_pct), (0.0, None));
        assert_eq!(Row::of(Receiver::Same, Flow::Slow, Vec::new()).kept_pct, 0.0);
    }

    #[test]
    fn json_and_table_have_the_promised_shape() {
        let round = Round { alone_mib_per_s: 1000.0, shared_mib_per_s: 970.0 };
        let row = Row::of(Receiver::Other, Flow::Fast, vec![round]);
        let json = serde_json::to_value(&row).expect("plain data");
        assert_eq!((&json["flow"], &json["receiver"]), (&"fast".into(), &"other".into()));
        assert_eq!(json["alone_mib_per_s"].as_f64(), Some(1000.0));
        assert_eq!(json["shared_mib_per_s"].as_f64(), Some(970.0));
        assert_eq!(table(&[row]).to_string().lines().count(), 2);
    }

    #[test]
    fn rates() {
        assert_eq!(mib_per_s(400, 1 << 20, 500_000_000), 800.0);
        assert_eq!(mib_per_s(3, 1 << 19, 1_000_000_000), 1.5);
        assert!(mib_per_s(1, 1 << 19, 0).is_finite());
    }
}
