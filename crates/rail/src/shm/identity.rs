//! What tells one process from all others: host, pid, start time, namespace.
//!
//! A pid alone names nobody for long; the start time from `/proc/<pid>/stat`
//! makes it unique within one boot, and the boot id makes that unique among
//! machines. Where containers have shared memory of their own, each counts as a host.

use super::error::OpenError;
use crate::hash::fnv1a;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const PID_NS: &str = "/proc/self/ns/pid";
const SHARED_MEMORY: &str = "/dev/shm";
const STAT: &str = "/proc/self/stat";
/// Fields 9, 20 and 22 of `stat`, counted from the one behind the state.
const FLAGS_FIELD: usize = 5;
const THREADS_FIELD: usize = 16;
const START_TIME_FIELD: usize = 18;
/// In the flags: the thread is on its way out (`PF_EXITING`).
const FLAG_EXITING: u64 = 0x4;

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
            host: host_of(boot.trim()),
            pid,
            start_time,
            // The system numbers namespaces with 32 bits.
            pid_ns: u64::from(ns.ino() as u32),
            uid: rustix::process::geteuid().as_raw(),
        })
    }
}

/// What processes have in common that shared memory can reach: the boot of their machine,
/// and the shared memory itself. Containers of one machine may each have their own.
fn host_of(boot: &str) -> u64 {
    let mut bytes = boot.as_bytes().to_vec();
    if let Ok(found) = fs::metadata(SHARED_MEMORY) {
        bytes.extend(found.dev().to_le_bytes());
        bytes.extend(found.ino().to_le_bytes());
    }
    fnv1a(&bytes)
}

/// What matters here of `/proc/<pid>/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) start_time: u64,
    /// It has ended and only waits to be reaped. One whose first thread has ended
    /// lives as long as another thread does.
    pub(super) ended: bool,
    /// It has ended or is about to: the process, or the thread if it is one's stat.
    pub(super) is_exiting: bool,
    /// It was stopped by a signal or a debugger.
    pub(super) is_stopped: bool,
}

pub(super) fn stat_of(pid: u32) -> io::Result<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat"))?;
    parse_stat(&text).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// Whether a process was stopped, as far as that can be seen.
pub(super) fn is_stopped(pid: u32) -> bool {
    stat_of(pid).is_ok_and(|stat| stat.is_stopped)
}

/// Whether all threads of a process are on their way out.
pub(super) fn is_exiting(pid: u32) -> bool {
    let threads = match fs::read_dir(format!("/proc/{pid}/task")) {
        Ok(threads) => threads,
        Err(cause) => return cause.kind() == io::ErrorKind::NotFound,
    };
    // One whose entry vanishes has ended.
    threads.flatten().all(|thread| {
        fs::read(thread.path().join("stat"))
            .map_or(true, |text| parse_stat(&text).is_some_and(|stat| stat.is_exiting))
    })
}

/// The name may hold spaces and parentheses, so the fields are counted from
/// the last closing one.
fn parse_stat(text: &[u8]) -> Option<Stat> {
    let close = text.iter().rposition(|&b| b == b')')?;
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let flags: u64 = fields.nth(FLAGS_FIELD)?.parse().ok()?;
    let threads: u64 = fields.nth(THREADS_FIELD - FLAGS_FIELD - 1)?.parse().ok()?;
    let start_time = fields.nth(START_TIME_FIELD - THREADS_FIELD - 1)?.parse().ok()?;
    // Until it is reaped the first thread is one of them.
    let ended = state == "X" || state == "Z" && threads <= 1;
    let is_stopped = matches!(state, "T" | "t");
    Some(Stat { start_time, ended, is_stopped, is_exiting: ended || flags & FLAG_EXITING != 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let text = b"42 (a b) c) S 1 2 3 4 5 2 7 8 9 10 11 12 13 14 15 16 17 18 777 20 21";
        let lives = Stat { start_time: 777, ended: false, is_stopped: false, is_exiting: false };
        assert_eq!(parse_stat(text), Some(lives));
        for state in ["T", "t"] {
            let text = format!("42 (x) {state} 1 2 3 4 5 2 7 8 9 10 11 12 13 14 15 16 17 18 777");
            let stopped = Stat { is_stopped: true, ..lives };
            assert_eq!(parse_stat(text.as_bytes()), Some(stopped));
        }
        for (threads, ended) in [(1, true), (2, false)] {
            let text = format!("42 (x) Z 1 2 3 4 5 4 7 8 9 10 11 12 13 14 15 16 {threads} 18 777");
            let stat = Stat { start_time: 777, ended, is_stopped: false, is_exiting: true };
            assert_eq!(parse_stat(text.as_bytes()), Some(stat));
        }
        assert_eq!(parse_stat(b"42 (x) Z 1 2"), None);
        assert_eq!(parse_stat(b""), None);
    }

    #[test]
    fn a_process_that_only_waits_to_be_reaped_is_exiting() {
        assert!(!is_exiting(std::process::id()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let begin = std::time::Instant::now();
        while !is_exiting(child.id()) {
            assert!(begin.elapsed() < std::time::Duration::from_secs(30));
        }
        child.wait().unwrap();
        assert!(is_exiting(child.id()), "nobody has threads that go on");
    }

    #[test]
    fn this_process_has_an_identity_that_stays() {
        let one = Identity::of_this_process().unwrap();
        let two = Identity::of_this_process().unwrap();
        assert_eq!((one.host, one.pid, one.start_time), (two.host, two.pid, two.start_time));
        assert!(one.start_time > 0);
    }
}
