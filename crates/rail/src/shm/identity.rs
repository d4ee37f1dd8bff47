//! What tells one process from all others: host, pid, start time, namespace.
//!
//! A pid alone names nobody for long; the start time from `/proc/<pid>/stat`
//! makes it unique within one boot, and the boot id makes that unique among
//! machines.

use super::error::OpenError;
use crate::hash::fnv1a;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const PID_NS: &str = "/proc/self/ns/pid";
const STAT: &str = "/proc/self/stat";
/// Fields 20 and 22 of `stat`, counted from the one behind the state.
const THREADS_FIELD: usize = 16;
const START_TIME_FIELD: usize = 18;

/// This process, as its peers must know it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    pub(super) host: u64,
    pub(super) pid: u32,
    pub(super) start_time: u64,
    pub(super) pid_ns: u64,
    pub(super) uid: u32,
}

impl Identity {
    pub(super) fn of_this_process() -> Result<Identity, OpenError> {
        let boot = fs::read_to_string(BOOT_ID)
            .map_err(|cause| OpenError::Identity { path: BOOT_ID, cause })?;
        let ns =
            fs::metadata(PID_NS).map_err(|cause| OpenError::Identity { path: PID_NS, cause })?;
        let pid = std::process::id();
        let start_time = match stat_of(pid) {
            Ok(stat) => stat.start_time,
            Err(cause) => return Err(OpenError::Identity { path: STAT, cause }),
        };
        Ok(Identity {
            host: fnv1a(boot.trim().as_bytes()),
            pid,
            start_time,
            // The system numbers namespaces with 32 bits.
            pid_ns: u64::from(ns.ino() as u32),
            uid: rustix::process::geteuid().as_raw(),
        })
    }
}

/// The two fields of `/proc/<pid>/stat` that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) start_time: u64,
    /// It has ended and only waits to be reaped. One whose first thread has ended
    /// lives as long as another thread does.
    pub(super) ended: bool,
}

pub(super) fn stat_of(pid: u32) -> io::Result<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat"))?;
    parse_stat(&text).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// The name may hold spaces and parentheses, so the fields are counted from
/// the last closing one.
fn parse_stat(text: &[u8]) -> Option<Stat> {
    let close = text.iter().rposition(|&b| b == b')')?;
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let threads: u64 = fields.nth(THREADS_FIELD)?.parse().ok()?;
    let start_time = fields.nth(START_TIME_FIELD - THREADS_FIELD - 1)?.parse().ok()?;
    // Until it is reaped the first thread is one of them.
    let ended = state == "X" || state == "Z" && threads <= 1;
    Some(Stat { start_time, ended })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let text = b"42 (a b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20 21";
        assert_eq!(parse_stat(text), Some(Stat { start_time: 777, ended: false }));
        for (threads, ended) in [(1, true), (2, false)] {
            let text = format!("42 (x) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 {threads} 18 777");
            assert_eq!(parse_stat(text.as_bytes()), Some(Stat { start_time: 777, ended }));
        }
        assert_eq!(parse_stat(b"42 (x) Z 1 2"), None);
        assert_eq!(parse_stat(b""), None);
    }

    #[test]
    fn this_process_has_an_identity_that_stays() {
        let one = Identity::of_this_process().unwrap();
        let two = Identity::of_this_process().unwrap();
        assert_eq!((one.host, one.pid, one.start_time), (two.host, two.pid, two.start_time));
        assert!(one.start_time > 0);
    }
}
