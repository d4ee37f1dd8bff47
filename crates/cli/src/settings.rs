//! What programs of this environment would choose their protocols by: the variables
//! that the libfabric provider reads, read alike.

use serde_json::{Value, json};
use sluice_link::{Costs, Direct};
use sluice_proto::selection::{
    MemoryKind, NEVER, Overrides, Source, Threshold, Thresholds, parse_setting,
};
use sluice_rail::tune::{Mode, Origin, Tuned};
use sluice_text::{Table, bytes};

const TUNE: &str = "FI_SLUICE_TUNE";
const BULK: &str = "FI_SLUICE_BULK";

/// The rail whose table it is.
pub const RAIL: &str = "shm";

/// The settings of this environment.
#[derive(Debug)]
pub struct Settings {
    /// Where costs come from.
    pub mode: Mode,
    /// Whether data may be moved directly.
    pub direct: bool,
    overrides: Overrides,
    /// Values that are ignored, in words.
    pub warnings: Vec<String>,
}

impl Settings {
    /// Reads them with `lookup`, which knows the environment.
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Settings {
        let mut warnings = Vec::new();
        let overrides = Threshold::ALL.map(|threshold| {
            let text = lookup(threshold.variable())?;
            parse_setting(threshold, &text)
                .inspect_err(|error| warnings.push(error.to_string()))
                .ok()
        });
        let mode = lookup(TUNE).and_then(|text| {
            let mode = Mode::from_setting(&text);
            if mode.is_none() {
                let allowed = "auto, off, or a path, which has a slash";
                warnings.push(format!("{TUNE}={text} is ignored: allowed are {allowed}"));
            }
            mode
        });
        let bulk = lookup(BULK).unwrap_or_default().to_ascii_lowercase();
        if !matches!(bulk.as_str(), "" | "auto" | "direct" | "ring") {
            warnings.push(format!("{BULK}={bulk} is ignored: allowed are auto, direct, ring"));
        }
        let direct = bulk != "ring";
        Settings { mode: mode.unwrap_or_default(), direct, overrides, warnings }
    }

    /// Those of the environment of this command.
    pub fn of_environment() -> Settings {
        Settings::read(|name| Some(std::env::var_os(name)?.to_string_lossy().into_owned()))
    }

    /// By which lengths protocols are chosen, if moves cost what was found.
    pub fn thresholds(&self, tuned: &Tuned) -> Thresholds {
        Thresholds::of(tuned.costs.as_ref(), MemoryKind::Host, &self.overrides)
    }
}

/// The thresholds, as a table for people.
pub fn thresholds_text(thresholds: &Thresholds) -> Table {
    let mut rows = Table::new(&["threshold", "value", "from", "meaning"]);
    for (threshold, value, source) in thresholds.iter() {
        let from = match source {
            Source::Environment => threshold.variable().to_owned(),
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
            "variable": threshold.variable(),
            "meaning": threshold.meaning(),
        })
    });
    rows.collect()
}

/// How the costs came about, in words.
pub fn origin_text(tuned: &Tuned) -> String {
    let file = tuned.file.as_ref().map(|file| file.display().to_string());
    match (tuned.origin, file) {
        (Origin::Off, _) => format!("stated figures; {TUNE} is off"),
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
    rows.row(vec!["tally".into(), costs.tally_ns.map_or_else(none, |ns| ns.to_string()), none()]);
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
        "tally_ns": costs.tally_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        Settings::read(|name| {
            let found = pairs.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn an_empty_environment_is_the_default() {
        let empty = settings(&[]);
        assert_eq!((empty.mode, empty.direct, empty.overrides), (Mode::Auto, true, [None; 3]));
        assert!(empty.warnings.is_empty());
    }

    #[test]
    fn what_is_set_is_read_and_what_is_wrong_is_said() {
        let set = settings(&[
            ("FI_SLUICE_TUNE", "off"),
            ("FI_SLUICE_BULK", "RING"),
            ("FI_SLUICE_EAGER_SIZE", "0x100"),
            ("FI_SLUICE_SHARE_SIZE", "131072"),
        ]);
        assert_eq!((set.mode, set.direct), (Mode::Off, false));
        assert_eq!(set.overrides, [Some(256), None, Some(131_072)]);
        let wrong = settings(&[
            ("FI_SLUICE_TUNE", "quick"),
            ("FI_SLUICE_BULK", "pigeon"),
            ("FI_SLUICE_ANNOUNCE_SIZE", "-1"),
        ]);
        assert_eq!((wrong.mode, wrong.direct, wrong.overrides), (Mode::Auto, true, [None; 3]));
        assert_eq!(wrong.warnings.len(), 3);
        assert!(wrong.warnings.iter().all(|text| text.contains("is ignored: allowed are")));
    }
}
