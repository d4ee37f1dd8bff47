//! The figures of one message over several rails.

use crate::simulator::Column;
use sluice_sim::stripes::Outcome;

/// Processes that take part.
pub const PROCESSES: u32 = 2;

/// The figures of a run, in the order of the columns.
pub const COLUMNS: &[Column<Outcome>] = &[
    Column { name: "mb_per_s", title: "Bandwidth, MB/s", of: |o| Some(mb_per_s(o)) },
    Column {
        name: "efficiency_pct",
        title: "Bandwidth, % of what the rails carry",
        of: |o| Some(efficiency_pct(o)),
    },
    Column { name: "time_us", title: "Time of a message, µs", of: |o| Some(time_ns(o) / 1e3) },
    Column { name: "chunks", title: "Parts of a message", of: |o| Some(o.chunks as f64) },
    Column {
        name: "rail_chunks_max",
        title: "Parts on the rail that has most",
        of: |o| Some(o.rail_chunks_max as f64),
    },
    Column {
        name: "rail_share_max",
        title: "Share of the bytes on the rail that has most",
        of: |o| (o.chunks > 0).then(|| o.rail_bytes_max as f64 / o.message_bytes as f64),
    },
    Column { name: "events", title: "Events simulated", of: |o| Some(o.events as f64) },
];

/// For people.
pub fn in_words(outcome: &Outcome) -> String {
    format!(
        "{:.2} µs, {:.0} MB/s, {:.1} % of the rails",
        time_ns(outcome) / 1e3,
        mb_per_s(outcome),
        efficiency_pct(outcome)
    )
}

fn time_ns(outcome: &Outcome) -> f64 {
    outcome.time_ns as f64 / f64::from(outcome.messages.max(1))
}

/// Megabytes are millions of bytes, as with IMB.
fn mb_per_s(outcome: &Outcome) -> f64 {
    outcome.message_bytes as f64 * 1e3 / time_ns(outcome)
}

fn efficiency_pct(outcome: &Outcome) -> f64 {
    100.0 * mb_per_s(outcome) * 8.0 / outcome.rails_mbit_per_s as f64
}
