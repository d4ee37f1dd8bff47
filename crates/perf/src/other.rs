//! The other process: started, watched, spoken to through pipes; each one's end
//! when the other ends.

use crate::cores::Placement;
use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for the other process to start and to say its address.
const MEETING: Duration = Duration::from_secs(20);
/// Longest wait for the second process to end by itself.
const PARTING: Duration = Duration::from_secs(5);

/// The other process.
#[derive(Debug)]
pub enum Other {
    /// The second process, started by this one and ended with it.
    Second(Second),
    /// The first process, which started this one.
    First(u32),
}

impl Other {
    /// The first process, as the second one holds it, which ends with it from now on.
    pub fn first(pid: u32) -> Result<Other> {
        set_parent_process_death_signal(Some(Signal::KILL))
            .context("cannot ask to end with the first process")?;
        // It may have ended before that was asked.
        ensure!(is_parent(pid), "this is a part of 'sluice perf' and is not run by hand");
        Ok(Other::First(pid))
    }

    /// An error if the other process has ended.
    pub fn check(&mut self) -> Result<()> {
        match self {
            Other::Second(second) => second.check(),
            Other::First(pid) => {
                ensure!(is_parent(*pid), "the first process ended in the middle of the test");
                Ok(())
            }
        }
    }
}

/// The second process, as the first one holds it. Killed when dropped.
#[derive(Debug)]
pub struct Second {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
}

impl Drop for Second {
    fn drop(&mut self) {
        // One that has ended already needs neither.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Second {
    /// Starts it, with what it needs to know besides where it runs.
    pub fn start(placement: &Placement, args: &[&str]) -> Result<Second> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(program);
        command.arg("perf-peer");
        command.args(["--parent", &std::process::id().to_string()]);
        command.args(args);
        if let Some(pair) = placement.cores {
            command.args(["--core", &pair.second.to_string()]);
        }
        if placement.shares_a_core() {
            command.arg("--yields");
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the second process")?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        Ok(Second { child, stdin, stdout })
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// An error if it has ended.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                bail!("the second process ended in the middle of the test ({status})")
            }
            Err(error) => Err(error).context("cannot watch the second process"),
        }
    }

    /// Tells it something.
    pub fn tell(&mut self, value: &impl Serialize) -> Result<()> {
        write_line(self.stdin.as_mut().context("no pipe to the second process")?, value)
    }

    /// Waits for what it says.
    pub fn hear<T: DeserializeOwned>(&mut self) -> Result<T> {
        read_line(self.stdout.as_mut().context("no pipe from the second process")?, true)
    }

    /// Waits until it has ended, which it was told to.
    pub fn part(&mut self) -> Result<()> {
        let until = Instant::now() + PARTING;
        while Instant::now() < until {
            if let Some(status) =
                self.child.try_wait().context("cannot watch the second process")?
            {
                ensure!(status.success(), "the second process failed at its end ({status})");
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        bail!("the second process does not end; it is killed")
    }

    /// Gives this process's address and takes the second one's. The pipes stay
    /// open: their end tells each process of the other's.
    pub fn exchange(&mut self, address: &[u8]) -> Result<Vec<u8>> {
        let answer = self.tell(&address).and_then(|()| self.hear());
        match answer {
            Ok(address) => Ok(address),
            Err(error) => {
                let until = Instant::now() + Duration::from_millis(500);
                while Instant::now() < until {
                    if let Ok(Some(status)) = self.child.try_wait() {
                        bail!("the second process ended before the test began ({status})");
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(error.context("the second process does not answer"))
            }
        }
    }
}

fn is_parent(pid: u32) -> bool {
    getppid().map(Pid::as_raw_pid).is_some_and(|parent| u32::try_from(parent) == Ok(pid))
}

/// Writes something as one line.
pub fn write_line(to: &mut impl Write, value: &impl Serialize) -> Result<()> {
    let line = serde_json::to_string(value).context("what is to be said")?;
    writeln!(to, "{line}").and_then(|()| to.flush()).context("the other process does not listen")
}

/// Reads one short line; if `soon`, not for ever.
pub fn read_line<T: DeserializeOwned>(from: &mut (impl Read + AsFd), soon: bool) -> Result<T> {
    const LINE_BYTES_MAX: usize = 4096;
    let until = Instant::now() + MEETING;
    let mut line = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).context("a wait too long")?;
        let mut fds = [PollFd::new(from, PollFlags::IN)];
        match poll(&mut fds, soon.then_some(&timeout)) {
            Ok(0) => bail!("the other process said nothing for {} seconds", MEETING.as_secs()),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error).context("cannot wait for the other process"),
        }
        let mut buf = [0; 512];
        let count = from.read(&mut buf).context("cannot hear the other process")?;
        line.extend_from_slice(&buf[..count]);
        if let Some(end) = line.iter().position(|&byte| byte == b'\n') {
            return serde_json::from_slice(&line[..end])
                .context("what the other process says; are both the same build?");
        }
        ensure!(count > 0, "the other process ended before it said anything");
        ensure!(line.len() <= LINE_BYTES_MAX, "what the other process says is too long");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard() {
        let (mut from, mut to) = std::io::pipe().expect("a pipe");
        let address = vec![0_u8, 1, 0x7F, 0xFF];
        write_line(&mut to, &address).expect("a line");
        assert_eq!(read_line::<Vec<u8>>(&mut from, true).expect("a line"), address);
        for wrong in ["", "[0, 256]", "jump"] {
            writeln!(to, "{wrong}").expect("a line");
            assert!(read_line::<Vec<u8>>(&mut from, true).is_err(), "{wrong}");
        }
        write!(to, "[1]").expect("no line");
        drop(to);
        assert!(read_line::<Vec<u8>>(&mut from, false).is_err(), "the other process has ended");
    }
}
