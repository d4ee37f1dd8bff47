//! The command that was started: it gets the signals that this process gets, and its
//! end is this process's.

use anyhow::Result;
use rustix::fd::OwnedFd;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpgrp, kill_process, pidfd_open, pidfd_send_signal,
};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};
use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// What is handed on. What a terminal sends to a whole group (stop, continue, size) the
/// command gets by itself.
const HANDED_ON: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// How long a second signal of a kind is taken for the same one: who signals a process
/// and then its group means one. A launcher would take two for more than one.
const SAME_WITHIN: Duration = Duration::from_secs(1);

/// Starts the command and waits for its end. `enter` is called at the last moment before
/// the start: what it changes of this process is the command's as well. It may leave a
/// process that can start no thread, so there is none here.
pub fn run(
    command: &mut Command,
    enter: impl FnOnce(&mut Command) -> Result<()>,
) -> Result<ExitStatus> {
    // In the foreground of a terminal it belongs to the terminal's group, for its keys.
    // Elsewhere it gets a group of its own: who signals ours (timeout, a batch system)
    // would else reach it twice, once directly and once through us.
    let shares_group = is_in_foreground();
    if !shares_group {
        command.process_group(0);
    }
    // Before the start, so that none is lost. One that is ignored stays so for the
    // command as well (nohup).
    let ignored = ignored();
    let handed_on = HANDED_ON.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let mut signals = SignalsInfo::<WithOrigin>::new(handed_on.chain([SIGCHLD]))?;
    enter(command)?;
    let mut child = command.spawn()?;
    let target = Target::of(&child);
    let mut last = HashMap::new();
    for origin in &mut signals {
        if origin.signal == SIGCHLD {
            // It may also have been stopped, or continued.
            match child.try_wait()? {
                Some(status) => return Ok(status),
                None => continue,
            }
        }
        // The terminal has sent it to the command as well. Twice it would mean
        // something else to a launcher.
        if shares_group && is_key(&origin) {
            continue;
        }
        let now = Instant::now();
        let before = last.insert(origin.signal, now);
        if before.is_none_or(|before| now - before >= SAME_WITHIN) {
            target.send(origin.signal);
        }
    }
    Ok(child.wait()?)
}

/// The exit status that a shell would give.
pub fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// The child, by a descriptor that cannot come to mean another process.
struct Target {
    pid: Pid,
    pidfd: Option<OwnedFd>,
}

impl Target {
    fn of(child: &Child) -> Target {
        let pid = Pid::from_child(child);
        Target { pid, pidfd: pidfd_open(pid, PidfdFlags::empty()).ok() }
    }

    fn send(&self, signal: i32) {
        let Some(signal) = Signal::from_named_raw(signal) else { return };
        // It may have ended: then there is nothing to tell it.
        let _ = match &self.pidfd {
            Some(pidfd) => pidfd_send_signal(pidfd, signal),
            None => kill_process(self.pid, signal),
        };
    }
}

/// Whether a key of the terminal caused this signal. The terminal signals its whole
/// foreground group. A process that signals (`kill`) may mean this one alone.
fn is_key(origin: &Origin) -> bool {
    matches!(origin.signal, SIGINT | SIGQUIT) && matches!(origin.cause, Cause::Kernel)
}

/// Whether there is a terminal, and this process is in its foreground group.
fn is_in_foreground() -> bool {
    let Ok(terminal) = File::open("/dev/tty") else { return false };
    rustix::termios::tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp())
}

/// The set of signals that this process was started to ignore, a bit each.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_a_shell() {
        assert_eq!(code_of(ExitStatus::from_raw(0)), 0);
        assert_eq!(code_of(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(code_of(ExitStatus::from_raw(15)), 143);
    }
}
