//! Ends a lab.

use crate::directory::{self, Lab, Lock};
use crate::process::{Identity, parent, wait_for_end};
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal};
use std::fs;

/// How long the kernel may take to end the processes of a lab.
const END_SECONDS: i64 = 30;

/// What was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// A lab that ran.
    Running,
    /// What a lab had left whose processes were gone, or that was half started.
    Stale,
}

/// Ends a lab and removes its directory.
pub fn down(name: &str) -> Result<Ended> {
    ensure!(geteuid().is_root(), "labs need root");
    let _lock = Lock::take()?;
    let dir = directory::dir(name);
    if !dir.exists() {
        bail!("there is no lab {name}");
    }
    // A half started one has no record, and its head ends by itself.
    let head = Lab::open(name).ok().map(|lab| lab.head);
    let ended = match head {
        Some(head) => end(&head)?,
        None => Ended::Stale,
    };
    fs::remove_dir_all(&dir).with_context(|| format!("{} cannot be removed", dir.display()))?;
    Ok(ended)
}

/// Kills the head's process: the kernel kills all others with it.
fn end(head: &Identity) -> Result<Ended> {
    let Some(holder) = head.find() else { return Ok(Ended::Stale) };
    ensure!(holder.pid != 1, "this is inside the lab; end it from outside");
    // `unshare`, which ends when the holder has.
    let starter = parent(holder.pid).filter(|&pid| is_unshare(pid)).and_then(Pid::from_raw);
    let starter = starter.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    pidfd_send_signal(&holder.pidfd, Signal::KILL)
        .context("the lab's processes cannot be ended (it needs root)")?;
    wait_for_end(&holder.pidfd, END_SECONDS)?;
    starter.map_or(Ok(()), |starter| wait_for_end(&starter, END_SECONDS))?;
    Ok(Ended::Running)
}

fn is_unshare(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_end() == "unshare")
}
