//! Paces, for people and for programs.

use crate::cores::Placement;
use crate::limits::Limits;
use crate::pace::Receiver;
use crate::pace::share::Row;
use anyhow::Result;
use serde::Serialize;
use serde_json::Value;
use sluice_text::{Table, bytes};
use std::io::Write;

/// One measurement.
#[derive(Debug)]
pub struct Report {
    pub rows: Vec<Row>,
    pub sink_mib_per_s: u32,
    pub size: u64,
    pub window: u32,
    /// Whether the bytes were moved directly.
    pub direct: bool,
    pub limits: Limits,
    pub placement: Placement,
}

/// The whole of the JSON. `test` and of each row `receiver`, `flow`,
/// `alone_mib_per_s` and `shared_mib_per_s` are relied on; the rest is for people.
#[derive(Debug, Serialize)]
struct Json<'a> {
    test: &'static str,
    rail: &'static str,
    rows: &'a [Row],
    sink_mib_per_s: u32,
    size: u64,
    window: u32,
    bulk: &'static str,
    cores: Option<[usize; 2]>,
    limits: Value,
    notes: Vec<String>,
}

impl Report {
    fn to_json(&self) -> Json<'_> {
        Json {
            test: "pace",
            rail: "shm",
            rows: &self.rows,
            sink_mib_per_s: self.sink_mib_per_s,
            size: self.size,
            window: self.window,
            bulk: if self.direct { "direct" } else { "ring" },
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
        writeln!(
            out,
            "pace over shm: a sink of {} MiB/s beside a fast flow, messages of {}, windows of \
             {}; {}\n",
            self.sink_mib_per_s,
            bytes(self.size),
            self.window,
            if self.direct { "moved directly" } else { "through the mailboxes" },
        )?;
        write!(out, "{}", self.table())?;
        writeln!(out, "\nreceiver: the fast flow goes to that of the slow one, or to another")?;
        for note in self.limits.notes(&self.placement) {
            writeln!(out, "note: {note}")?;
        }
        Ok(())
    }

    fn table(&self) -> Table {
        let mut table =
            Table::new(&["receiver", "flow", "alone MiB/s", "shared MiB/s", "kept %", "wanted"]);
        for row in &self.rows {
            let receiver = if row.receiver == Receiver::Same { "same" } else { "other" };
            table.row(vec![
                receiver.to_owned(),
                row.flow.name().to_owned(),
                format!("{:.1}", row.alone_mib_per_s),
                format!("{:.1}", row.shared_mib_per_s),
                format!("{:.1}", row.kept_pct),
                row.target_pct.map_or("-".to_owned(), |pct| format!("{pct:.0}")),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::flow::Flow;
    use crate::pace::share::Round;

    #[test]
    fn json_and_table_have_the_promised_shape() {
        let limits = Limits {
            line_half_rtt_ns: Some(50.0),
            line_half_rtt_after_ns: Some(50.0),
            memcpy: Vec::new(),
            direct_read: Vec::new(),
            clock_ns: 20.0,
        };
        let round = Round { alone_mib_per_s: 1000.0, shared_mib_per_s: 970.0 };
        let report = Report {
            rows: vec![Row::of(Receiver::Other, Flow::Fast, vec![round])],
            sink_mib_per_s: 400,
            size: 1 << 20,
            window: 16,
            direct: false,
            limits,
            placement: Placement { cores: None, note: None },
        };
        let json = serde_json::to_value(report.to_json()).expect("plain data");
        assert_eq!((&json["test"], &json["bulk"]), (&"pace".into(), &"ring".into()));
        let row = &json["rows"][0];
        assert_eq!((&row["flow"], &row["receiver"]), (&"fast".into(), &"other".into()));
        assert_eq!(row["alone_mib_per_s"].as_f64(), Some(1000.0));
        assert_eq!(row["shared_mib_per_s"].as_f64(), Some(970.0));
        assert_eq!(report.table().to_string().lines().count(), 2);
    }
}
