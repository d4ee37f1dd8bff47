//! What programs of this environment choose their protocols by, in words and for
//! programs. The settings are those that the libfabric provider reads.

use serde_json::{Value, json};
use sluice_link::{Costs, Direct};
use sluice_proto::selection::{MemoryKind, NEVER, Source, Threshold, Thresholds};
use sluice_rail::tune::{Origin, Tuned};
use sluice_runtime::Settings;
use sluice_runtime::settings::Lengths;
use sluice_text::{Table, bytes};

/// The rail whose table it is.
pub const RAIL: &str = "shm";

/// By which lengths protocols are chosen, if moves cost what was found.
pub fn thresholds(settings: &Settings, tuned: &Tuned) -> Thresholds {
    Thresholds::of(tuned.costs.as_ref(), MemoryKind::Host, &settings.lengths.set())
}

/// The variable that sets a threshold.
fn variable(threshold: Threshold) -> String {
    let [eager, looking, announce, share, network_eager] = Lengths::variables();
    match threshold {
        Threshold::Eager => eager,
        Threshold::Looking => looking,
        Threshold::Announce => announce,
        Threshold::Share => share,
        Threshold::NetworkEager => network_eager,
    }
    .env()
}

/// The thresholds, as a table for people.
pub fn thresholds_text(thresholds: &Thresholds) -> Table {
    let mut rows = Table::new(&["threshold", "value", "from", "meaning"]);
    for (threshold, value, source) in thresholds.iter() {
        let from = match source {
            Source::Environment => variable(threshold),
            source => source.to_string(),
        };
        let value = if value == NEVER { "never".to_owned() } else { bytes(value) };
        rows.row(vec![threshold.name().into(), value, from, threshold.meaning().into()]);
    }
    rows
}

/// The thresholds for programs. One that no message reaches is null.
pub fn thresholds_json(thresholds: &Thresholds) -> Value {
    let rows = thresholds.iter().map(|(threshold, value, source)| {
        json!({
            "name": threshold.name(),
            "value": (value != NEVER).then_some(value),
            "source": source.name(),
            "variable": variable(threshold),
            "meaning": threshold.meaning(),
        })
    });
    rows.collect()
}

/// How the costs came about, in words.
pub fn origin_text(tuned: &Tuned) -> String {
    let file = tuned.file.as_ref().map(|file| file.display().to_string());
    match (tuned.origin, file) {
        (Origin::Off, _) => "stated figures; FI_SLUICE_TUNE is off".to_owned(),
        (Origin::Kept, Some(file)) => format!("measured before, kept in {file}"),
        (Origin::Measured, Some(file)) => format!("measured now, kept in {file}"),
        (Origin::Kept | Origin::Measured, None) => "measured now, and not kept".to_owned(),
        (Origin::Busy, _) => "stated figures; another process is measuring".to_owned(),
    }
}

/// How the costs came about, in a word for programs.
pub fn origin_name(origin: Origin) -> &'static str {
    match origin {
        Origin::Off => "off",
        Origin::Kept => "kept",
        Origin::Measured => "measured",
        Origin::Busy => "busy",
    }
}

/// The costs for people.
pub fn costs_text(costs: &Costs) -> Table {
    let mut rows = Table::new(&["what moves", "start ns", "byte ps"]);
    let none = || "-".to_owned();
    let mut direct = |name: &str, way: Option<Direct>| {
        let cells = way.map(|way| [way.start_ns.to_string(), way.byte_ps.to_string()]);
        let [start, byte] = cells.unwrap_or_else(|| [none(), none()]);
        rows.row(vec![name.into(), start, byte]);
    };
    let packet = Direct { start_ns: costs.packet_ns, byte_ps: costs.packet_byte_ps };
    direct(if has_stated_packet(costs) { "packet (stated)" } else { "packet" }, Some(packet));
    direct("direct read", costs.read);
    direct("direct write", costs.write);
    rows.row(vec![
        "chunk claims".into(),
        costs.claim_ns.map_or_else(none, |ns| ns.to_string()),
        none(),
    ]);
    rows
}

/// Whether the cost of packets is the stated one: it could not be measured, because
/// two threads never ran at once.
fn has_stated_packet(costs: &Costs) -> bool {
    let stated = Costs::default();
    (costs.packet_ns, costs.packet_byte_ps) == (stated.packet_ns, stated.packet_byte_ps)
}

/// The costs for programs. What the rail does not have is null.
pub fn costs_json(costs: &Costs) -> Value {
    let direct = |way: Option<Direct>| {
        way.map(|way| json!({ "start_ns": way.start_ns, "byte_ps": way.byte_ps }))
    };
    json!({
        "packet_ns": costs.packet_ns,
        "packet_byte_ps": costs.packet_byte_ps,
        "packet_is_stated": has_stated_packet(costs),
        "read": direct(costs.read),
        "write": direct(costs.write),
        "claim_ns": costs.claim_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_runtime::settings::{
        BYTES_MAX, EAGER_BYTES_MAX, LOOKING_BYTES_MAX, NETWORK_EAGER_BYTES_MAX,
    };

    #[test]
    fn what_is_set_is_the_threshold_of_that_name_and_no_setting_is_beyond_it() {
        for (threshold, name, most) in [
            (Threshold::Eager, "FI_SLUICE_EAGER_SIZE", EAGER_BYTES_MAX),
            (Threshold::Looking, "FI_SLUICE_LOOKING_SIZE", LOOKING_BYTES_MAX),
            (Threshold::Announce, "FI_SLUICE_ANNOUNCE_SIZE", BYTES_MAX),
            (Threshold::Share, "FI_SLUICE_SHARE_SIZE", BYTES_MAX),
            (Threshold::NetworkEager, "FI_SLUICE_NETWORK_EAGER_SIZE", NETWORK_EAGER_BYTES_MAX),
        ] {
            assert_eq!((variable(threshold).as_str(), threshold.max()), (name, most));
            let settings = Settings::read(|variable| (variable.env() == name).then(|| "77".into()));
            let found = Thresholds::of(None, MemoryKind::Host, &settings.lengths.set());
            let set: Vec<Threshold> = found
                .iter()
                .filter(|(_, value, source)| *value == 77 && *source == Source::Environment)
                .map(|(threshold, _, _)| threshold)
                .collect();
            assert_eq!(set, [threshold]);
        }
    }
}
