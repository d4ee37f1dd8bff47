//! What tells one process from all others: host, pid, start time, namespace.
//!
//! A pid alone names nobody for long; the start time from `/proc/<pid>/stat`
//! makes it unique within one boot, and the boot id makes that unique among
//! machines.

use super::error::OpenError;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const PID_NS: &str = "/proc/self/ns/pid";
const STAT: &str = "/proc/self/stat";
/// Field 22 of `stat`, counted from the field behind the parenthesised name.
const START_TIME_FIELD: usize = 19;

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
    /// It has ended and only waits to be reaped.
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
    let start_time = fields.nth(START_TIME_FIELD - 1)?.parse().ok()?;
    Some(Stat { start_time, ended: matches!(state, "Z" | "X") })
}

/// FNV-1a, 64 bits: tells identities and damaged bytes apart, no more.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let text = b"42 (a b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20 21";
        assert_eq!(parse_stat(text), Some(Stat { start_time: 777, ended: false }));
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
