//! What the process does that starts both processes of a measurement: the launcher.
//!
//! It has a socket to the first process, by which it is told how to start the second one
//! and hands on their addresses. The end of each is told by the end of what joins them, so
//! none outlives the others, wherever it is.

use crate::other::{read_line, self_by, spawn_second, write_line};
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Longest wait for a process to end after the other one has.
const PARTING: Duration = Duration::from_secs(10);
/// Time between two looks at processes that run.
const LOOK: Duration = Duration::from_millis(5);

/// Both processes, as the launcher holds them. Ended when dropped.
#[derive(Debug)]
pub struct Both {
    first: Child,
    second: Child,
    /// Leads to the first process. Gone when the second one has failed.
    socket: Option<UnixStream>,
}

impl Both {
    /// Starts the two, the first one with these arguments and the second one as the first
    /// wants it, and has them exchange their addresses.
    pub fn start(here: &str, other: &str, args: Vec<OsString>) -> Result<Both> {
        let (socket, theirs) = UnixStream::pair().context("no socket for the first process")?;
        let mut command = self_by(Some(here))?;
        command.args(args).stdin(std::os::fd::OwnedFd::from(theirs));
        let mut first = command
            .spawn()
            .with_context(|| format!("cannot start the first process by '{here}'"))?;
        // The command holds the other end of the socket, whose end must be seen.
        drop(command);
        let second = meet(&socket, other).inspect_err(|_| end(&mut first))?;
        Ok(Both { first, second, socket: Some(socket) })
    }

    /// Tells the first process something.
    pub fn tell(&self, value: &impl Serialize) -> Result<()> {
        write_line(self.socket()?, value)
    }

    /// Waits for what the first process says, which ends if there is nothing to say.
    pub fn hear<T: DeserializeOwned>(&self) -> Result<T> {
        read_line(self.socket()?, false)
    }

    fn socket(&self) -> Result<&UnixStream> {
        self.socket.as_ref().context("no socket to the first process")
    }

    /// Waits until both have ended.
    pub fn wait(mut self) -> Result<()> {
        let mut second: Option<ExitStatus> = None;
        loop {
            if second.is_none() {
                second = self.second.try_wait().context("cannot watch the second process")?;
                match second {
                    // The first one waits for this.
                    Some(status) if status.success() => drop(self.tell(&true)),
                    // It sees that the socket ends.
                    Some(_) => self.socket = None,
                    None => {}
                }
            }
            if let Some(first) = self.first.try_wait().context("cannot watch the first process")? {
                ensure!(first.success(), "the first process failed ({first})");
                break;
            }
            std::thread::sleep(LOOK);
        }
        let until = Instant::now() + PARTING;
        while second.is_none() && Instant::now() < until {
            std::thread::sleep(LOOK);
            second = self.second.try_wait().context("cannot watch the second process")?;
        }
        match second {
            Some(status) if status.success() => Ok(()),
            Some(status) => bail!("the second process failed ({status})"),
            None => bail!("the second process does not end"),
        }
    }
}

impl Drop for Both {
    fn drop(&mut self) {
        self.socket = None;
        end(&mut self.first);
        end(&mut self.second);
    }
}

/// Starts the second process and hands on the addresses.
fn meet(socket: &UnixStream, other: &str) -> Result<Child> {
    let args: Vec<String> = read_line(socket, true)?;
    let mut second = spawn_second(Some(other), &args)?;
    let exchange = || {
        let address: Vec<u8> = read_line(socket, true)?;
        write_line(second.stdin.as_ref().context("no pipe to the second process")?, &address)?;
        let out = second.stdout.as_ref().context("no pipe from the second process")?;
        let answer: Vec<u8> = read_line(out, true).context("the second process")?;
        write_line(socket, &answer)
    };
    exchange().inspect_err(|_| end(&mut second))?;
    Ok(second)
}

/// Ends a process that may have ended. What it has started hears of a signal that can be
/// handed on.
fn end(child: &mut Child) {
    drop(child.stdin.take());
    if let Ok(None) = child.try_wait()
        && let Some(pid) = Pid::from_raw(child.id() as i32)
    {
        let _ = kill_process(pid, Signal::TERM);
    }
    let until = Instant::now() + PARTING;
    while let Ok(None) = child.try_wait()
        && Instant::now() < until
    {
        std::thread::sleep(LOOK);
    }
    let _ = child.kill();
    let _ = child.wait();
}
