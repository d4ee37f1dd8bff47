//! A report for who started the program: whether Sluice was opened, and what was sent.
//!
//! `sluice run` names a file in `FI_SLUICE_REPORT`. Each endpoint appends a line of
//! JSON when its mailbox opens and another one when it closes. A process that is killed
//! leaves the first line alone, so that the reader knows what is missing.

use crate::engine::Engine;
use crate::log::{self, About};
use crate::param;
use sluice_rail::snapshot::quoted;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process;
use std::sync::Once;

/// What `sluice run` and `sluice doctor` find in the library's bytes, to know which
/// version it is before they start anything.
const IDENTITY: &str = concat!("sluice-provider/", env!("CARGO_PKG_VERSION"), "/wire-4;");

/// The identity names this version of the wire.
const _: () = assert!(sluice_wire::VERSION == 4);

/// An endpoint has opened its mailbox.
pub fn opened() {
    append(|| {
        let (host, pid) = (host(), process::id());
        format!(r#"{{"event":"open","host":{host},"pid":{pid},"by":"{IDENTITY}"}}"#)
    });
}

/// An endpoint is about to close its mailbox.
pub fn closed(engine: &Engine) {
    append(|| {
        let (messages, bytes) = engine.sent();
        let (host, pid, devices) = (host(), process::id(), devices(&engine.carried()));
        format!(
            r#"{{"event":"close","host":{host},"pid":{pid},"messages":{messages},"bytes":{bytes}{devices}}}"#
        )
    });
}

/// The name of this host as a string of JSON: processes of two hosts may have one number.
fn host() -> String {
    quoted(&fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default())
}

/// How many bytes went by each device that carried some, as a member of an object of JSON
/// behind others.
fn devices(carried: &[(&str, u64)]) -> String {
    let used = carried.iter().filter(|(_, bytes)| *bytes > 0);
    let members: Vec<String> =
        used.map(|(name, bytes)| format!("{}:{bytes}", quoted(name))).collect();
    match members.is_empty() {
        true => String::new(),
        false => format!(r#","devices":{{{}}}"#, members.join(",")),
    }
}

/// Appends a line, if somebody wants it. A report that fails is said once, and fails
/// nothing else.
fn append(line: impl FnOnce() -> String) {
    static WARNED: Once = Once::new();
    let Some(path) = &param::get().report else { return };
    if let Err(error) = append_to(path, &line()) {
        WARNED.call_once(|| {
            let text = format!("no report is written to {}: {error}", path.display());
            // Its directory is on another host, most likely: that of the launcher.
            if error.kind() == io::ErrorKind::NotFound {
                log::info(About::Endpoint, || text);
            } else {
                log::warn(About::Endpoint, &text);
            }
        });
    }
}

/// One write: lines of several processes do not mix.
fn append_to(path: &Path, line: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.append(true).create(true).mode(0o600).open(path)?;
    file.write_all(format!("{line}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_carried_something_are_named() {
        assert_eq!(devices(&[("eth0", 0)]), "");
        let said = devices(&[("eth0", 7), ("lo", 0), ("a\"b\\", 9)]);
        assert_eq!(said, r#","devices":{"eth0":7,"ab":9}"#);
    }
}
