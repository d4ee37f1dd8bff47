//! Processes that hold namespaces: what identifies one, and how it is found again.
//!
//! Numbers of processes differ between inside and outside, and are used again. A holder is
//! the first process of its process namespace. The namespace's number and the holder's
//! start time are the same from everywhere, and identify it.

use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// What identifies a holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The link of its process namespace: `pid:[4026532281]`.
    pub namespace: String,
    /// When it started, in clock ticks since the machine did.
    pub start: u64,
}

/// A holder that was found.
#[derive(Debug)]
pub struct Holder {
    /// Its number here.
    pub pid: i32,
    /// A descriptor that cannot come to mean another process.
    pub pidfd: OwnedFd,
}

impl Identity {
    /// The identity of the calling process.
    pub fn of_self() -> Result<Identity> {
        identity(Path::new("/proc/self")).context("/proc does not show this process")
    }

    /// Finds the process. It is found from outside the lab and from the head.
    pub fn find(&self) -> Option<Holder> {
        let entries = fs::read_dir("/proc").ok()?;
        let pids = entries.flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
        pids.filter(|&pid| self.is(pid)).find_map(|pid| {
            let pidfd = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
            // Only now is the number known to stay with the process.
            self.is(pid).then_some(Holder { pid, pidfd })
        })
    }

    fn is(&self, pid: i32) -> bool {
        let dir = format!("/proc/{pid}");
        let dir = Path::new(&dir);
        is_first(dir) && identity(dir).is_some_and(|identity| identity == *self)
    }
}

/// The calling process's number, as `/proc` shows it.
pub fn own_pid() -> Result<i32> {
    let link = fs::read_link("/proc/self").context("/proc does not show this process")?;
    let pid = link.to_str().and_then(|text| text.parse().ok());
    pid.context("/proc/self is no number")
}

/// The process that started another one.
pub fn parent(pid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// Waits until a process has ended, for a time.
pub fn wait_for_end(pidfd: &OwnedFd, seconds: i64) -> Result<()> {
    let timeout = Timespec { tv_sec: seconds, tv_nsec: 0 };
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    let ready = poll(&mut fds, Some(&timeout)).context("a process cannot be waited for")?;
    ensure!(ready > 0, "a process that was killed is still there after {seconds} s");
    Ok(())
}

/// Whether a process is the first one of its namespace. The last number of `NSpid` is the
/// one that the process itself sees.
fn is_first(dir: &Path) -> bool {
    let status = fs::read_to_string(dir.join("status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.and_then(|numbers| numbers.split_whitespace().last()) == Some("1")
}

fn identity(dir: &Path) -> Option<Identity> {
    let namespace = fs::read_link(dir.join("ns/pid")).ok()?.to_str()?.to_owned();
    let start = start_of(&fs::read_to_string(dir.join("stat")).ok()?)?;
    Some(Identity { namespace, start })
}

/// The start time of a line of `/proc/PID/stat`: field 22. The name may hold spaces and
/// brackets, so fields count from its last bracket.
fn start_of(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_start_time() {
        let fields: Vec<String> = (4..=30).map(|field| field.to_string()).collect();
        let stat = format!("17 (a) b) S {}", fields.join(" "));
        assert_eq!(start_of(&stat), Some(22));
        assert_eq!(start_of(""), None);
    }

    #[test]
    fn the_own_process_is_identified() {
        let identity = Identity::of_self().expect("an identity");
        assert!(identity.namespace.starts_with("pid:[") && identity.start > 0);
        let other = Identity { start: identity.start + 1, ..identity };
        assert!(other.find().is_none());
    }
}
