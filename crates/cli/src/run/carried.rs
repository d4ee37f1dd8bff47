//! What Sluice carried: the processes of a job append it to a file that is named in
//! their environment.

use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Names the file.
pub const VARIABLE: &str = "FI_SLUICE_REPORT";

/// The file that is appended to.
#[derive(Debug)]
pub struct Report {
    path: PathBuf,
    /// How long it was before; `None` if it could not be made.
    skip: Option<usize>,
    /// Removed with this.
    _dir: Option<TempDir>,
}

impl Report {
    /// The file that the environment names already, or one in a private directory. It is
    /// made now: where that cannot be done, nobody will know what was carried, and the
    /// job runs all the same.
    pub fn new() -> Report {
        if let Some(path) = env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
            // The processes may begin elsewhere.
            let path = std::path::absolute(&path).unwrap_or_else(|_| PathBuf::from(path));
            return Report { skip: make(&path), path, _dir: None };
        }
        let Ok(dir) = tempfile::Builder::new().prefix("sluice-run-").tempdir() else {
            let path = env::temp_dir().join("sluice-run");
            return Report { path, skip: None, _dir: None };
        };
        let path = dir.path().join("report");
        Report { skip: make(&path), path, _dir: Some(dir) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the processes have said; `None` if the file cannot be used.
    pub fn read(&self) -> Option<Carried> {
        let bytes = fs::read(&self.path).ok()?;
        let bytes = bytes.get(self.skip?..).unwrap_or_default();
        Some(Carried::of(&String::from_utf8_lossy(bytes)))
    }
}

/// Makes the file if it is not there, and says how long it is.
fn make(path: &Path) -> Option<usize> {
    let file = fs::OpenOptions::new().create(true).append(true).open(path).ok()?;
    usize::try_from(file.metadata().ok()?.len()).ok()
}

/// One line.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Event {
    Open {
        #[serde(default)]
        host: String,
        pid: u32,
    },
    Close {
        #[serde(default)]
        host: String,
        pid: u32,
        messages: u64,
        bytes: u64,
        /// What went by each network device, headers too.
        #[serde(default)]
        devices: BTreeMap<String, u64>,
    },
}

/// What was carried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Processes that opened Sluice.
    pub ranks: usize,
    /// Hosts that they ran on.
    pub hosts: usize,
    /// Those of them that ended without saying what they sent.
    pub unfinished: usize,
    pub messages: u64,
    pub bytes: u64,
    /// What went by network devices of this name, on all hosts. It has headers, and what
    /// went twice, so it is not a part of `bytes`.
    pub devices: BTreeMap<String, u64>,
}

impl Carried {
    fn of(text: &str) -> Carried {
        let mut carried = Carried::default();
        // Endpoints open, by process.
        let mut open: BTreeMap<(String, u32), u64> = BTreeMap::new();
        for line in text.lines() {
            // What is no line of the provider is no process's.
            match serde_json::from_str(line) {
                Ok(Event::Open { host, pid }) => *open.entry((host, pid)).or_default() += 1,
                Ok(Event::Close { host, pid, messages, bytes, devices }) => {
                    let left = open.entry((host, pid)).or_default();
                    *left = left.saturating_sub(1);
                    carried.messages = carried.messages.saturating_add(messages);
                    carried.bytes = carried.bytes.saturating_add(bytes);
                    for (name, bytes) in devices {
                        let sum = carried.devices.entry(name).or_default();
                        *sum = sum.saturating_add(bytes);
                    }
                }
                Err(_) => {}
            }
        }
        carried.ranks = open.len();
        carried.hosts = open.keys().map(|(host, _)| host).collect::<BTreeSet<_>>().len();
        carried.unfinished = open.values().filter(|&&left| left > 0).count();
        carried
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        json!({
            "ranks": self.ranks,
            "hosts": self.hosts,
            "unfinished": self.unfinished,
            "messages": self.messages,
            "bytes": self.bytes,
            "devices": self.devices,
        })
    }
}

impl fmt::Display for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ranks == 0 {
            return f.write_str("Sluice carried nothing: no process opened it");
        }
        let ranks = counted(self.ranks as u64, "rank", "ranks");
        if self.unfinished == self.ranks {
            return write!(f, "{ranks} opened Sluice and ended without closing it");
        }
        let messages = counted(self.messages, "message", "messages");
        write!(f, "Sluice carried {messages}, {}, sent by {ranks}", bytes(self.bytes))?;
        if self.hosts > 1 {
            write!(f, " on {} hosts", self.hosts)?;
        }
        for (at, (name, count)) in self.devices.iter().enumerate() {
            let before = if at == 0 { "; by device: " } else { ", " };
            write!(f, "{before}{name} {}", self::bytes(*count))?;
        }
        match self.unfinished {
            0 => Ok(()),
            unfinished => {
                write!(f, "; not counted: {unfinished} that ended without closing it")
            }
        }
    }
}

fn counted(count: u64, one: &str, several: &str) -> String {
    let digits = count.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
    format!("{} {}", groups.join(","), if count == 1 { one } else { several })
}

/// As people read it: `1.5 GiB`.
fn bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_report_adds_up(
            lines in prop::collection::vec((any::<bool>(), 0_u32..4, any::<u64>(), "\\PC{0,6}"), 0..20),
        ) {
            let text: String = lines
                .iter()
                .map(|(is_open, pid, count, noise)| match is_open {
                    true => format!("{{\"event\":\"open\",\"pid\":{pid}}}\n{noise}\n"),
                    false => format!(
                        "{{\"event\":\"close\",\"pid\":{pid},\"messages\":{count},\"bytes\":{count}}}\n"
                    ),
                })
                .collect();
            let carried = Carried::of(&text);
            prop_assert!(carried.unfinished <= carried.ranks && carried.ranks <= 4);
            let sent = lines.iter().filter(|line| !line.0).map(|line| line.2);
            let sum = sent.fold(0_u64, u64::saturating_add);
            prop_assert_eq!((carried.messages, carried.bytes), (sum, sum));
        }
    }

    const OPEN: &str = r#"{"event":"open","pid":7,"by":"sluice-provider/0.1.0/wire-1;"}"#;

    #[test]
    fn lines_of_several_processes_are_added_up() {
        let text = format!(
            "{OPEN}\n{}\n{}\n{}\n",
            OPEN.replace('7', "8"),
            r#"{"event":"close","pid":8,"messages":1000,"bytes":1572864}"#,
            r#"{"event":"close","pid":7,"messages":234,"bytes":0}"#,
        );
        let carried = Carried::of(&text);
        let expected =
            Carried { ranks: 2, hosts: 1, messages: 1234, bytes: 1_572_864, ..Carried::default() };
        assert_eq!(carried, expected);
        let said = "Sluice carried 1,234 messages, 1.5 MiB, sent by 2 ranks";
        assert_eq!(carried.to_string(), said);
    }

    #[test]
    fn processes_of_two_hosts_may_have_one_number() {
        let open = |host: &str| format!(r#"{{"event":"open","host":"{host}","pid":7}}"#);
        let close = r#"{"event":"close","host":"a","pid":7,"messages":1,"bytes":1}"#;
        let carried = Carried::of(&format!("{}\n{}\n{close}\n", open("a"), open("b")));
        assert_eq!((carried.ranks, carried.hosts, carried.unfinished), (2, 2, 1));
        assert!(carried.to_string().contains("by 2 ranks on 2 hosts; not counted: 1"));
    }

    #[test]
    fn bytes_of_one_device_are_added_up_over_processes() {
        let close = |pid: u32, devices: &str| {
            format!(
                r#"{{"event":"close","pid":{pid},"messages":1,"bytes":8,"devices":{{{devices}}}}}"#
            )
        };
        let lines =
            [OPEN, &close(7, r#""r1":1048576,"r0":100"#), &close(7, r#""r1":524288"#)].join("\n");
        let carried = Carried::of(&lines);
        let said =
            "Sluice carried 2 messages, 16 B, sent by 1 rank; by device: r0 100 B, r1 1.5 MiB";
        assert_eq!(carried.to_string(), said);
        assert_eq!(carried.to_json()["devices"]["r1"], 1_572_864);
    }

    #[test]
    fn a_process_that_ended_without_closing_is_said() {
        let one = Carried::of(&format!("{OPEN}\n"));
        assert_eq!((one.ranks, one.unfinished), (1, 1));
        assert_eq!(one.to_string(), "1 rank opened Sluice and ended without closing it");
        let close = r#"{"event":"close","pid":9,"messages":1,"bytes":5}"#;
        let two = Carried::of(&format!("{OPEN}\n{}\n{close}\n", OPEN.replace('7', "9")));
        assert!(two.to_string().contains("1 message, 5 B, sent by 2 ranks; not counted: 1"));
    }

    #[test]
    fn nothing_and_nonsense_are_nothing() {
        assert_eq!(Carried::of(""), Carried::default());
        assert_eq!(Carried::of("{\"event\":\"open\"\nx\n{}\n"), Carried::default());
        assert!(Carried::default().to_string().contains("no process opened it"));
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(counted(1, "x", "xs"), "1 x");
        assert_eq!(counted(999, "x", "xs"), "999 xs");
        assert_eq!(counted(1_000_000, "x", "xs"), "1,000,000 xs");
    }
}
