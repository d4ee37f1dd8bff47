//! The other process: started, watched, spoken to through pipes; each one's end
//! when the other ends.

use crate::cores::Placement;
use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
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
    /// The first process, for one that another program has started, maybe on another
    /// host: the end of what is read shows that it has ended.
    Distant,
}

impl Other {
    /// The first process, as the second one holds it, which ends with it from now on.
    pub fn first(pid: Option<u32>) -> Result<Other> {
        let Some(pid) = pid else { return Ok(Other::Distant) };
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
            Other::Distant => {
                let is_gone = is_hung_up(&std::io::stdin())?;
                ensure!(!is_gone, "the first process ended in the middle of the test");
                Ok(())
            }
        }
    }
}

/// How the second process is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// As a child.
    Child,
    /// By this command, maybe on another host.
    By(String),
    /// By the process that has started this one, to which standard input leads.
    Launcher,
}

/// The second process, as the first one holds it. Ended when dropped.
#[derive(Debug)]
pub struct Second {
    /// What was started, if this process has started it.
    child: Option<Child>,
    /// What is written to it, and read from it. The end of either tells of its own.
    to: Option<OwnedFd>,
    from: OwnedFd,
}

impl Drop for Second {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        // One that has ended already needs neither.
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Second {
    /// Starts it, with what it needs to know besides where it runs.
    pub fn start(start: &Start, placement: &Placement, args: &[&str]) -> Result<Second> {
        let mut args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        if let Some(pair) = placement.cores {
            args.extend(["--core".to_owned(), pair.second.to_string()]);
        }
        if placement.shares_a_core() {
            args.push("--yields".to_owned());
        }
        let mut child = match start {
            Start::Child => {
                args.extend(["--parent".to_owned(), std::process::id().to_string()]);
                spawn_second(None, &args)?
            }
            Start::By(command) => spawn_second(Some(command), &args)?,
            Start::Launcher => {
                let socket = std::io::stdin().as_fd().try_clone_to_owned()?;
                let mut second =
                    Second { child: None, to: Some(socket.try_clone()?), from: socket };
                second.tell(&args)?;
                return Ok(second);
            }
        };
        let stdin = child.stdin.take().context("no pipe to the second process")?;
        let stdout = child.stdout.take().context("no pipe from the second process")?;
        Ok(Second { child: Some(child), to: Some(stdin.into()), from: stdout.into() })
    }

    /// Its process number, if this process has started it.
    pub fn pid(&self) -> Option<u32> {
        Some(self.child.as_ref()?.id())
    }

    /// An error if it has ended.
    pub fn check(&mut self) -> Result<()> {
        let Some(child) = &mut self.child else {
            ensure!(!is_hung_up(&self.from)?, "the second process ended in the middle of the test");
            return Ok(());
        };
        match child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                bail!("the second process ended in the middle of the test ({status})")
            }
            Err(error) => Err(error).context("cannot watch the second process"),
        }
    }

    /// Tells it something; or whoever has started both.
    pub fn tell(&mut self, value: &impl Serialize) -> Result<()> {
        write_line(self.to.as_ref().context("no pipe to the second process")?, value)
    }

    /// Waits for what it says; or whoever has started both.
    pub fn hear<T: DeserializeOwned>(&mut self) -> Result<T> {
        read_line(&self.from, true)
    }

    /// Whether something can be heard without waiting.
    pub fn has_said(&self) -> Result<bool> {
        can_be_heard(&self.from)
    }

    /// Waits until it has ended, which it was told to.
    pub fn part(&mut self) -> Result<()> {
        let Some(child) = &mut self.child else {
            // Whoever has started it waits for it, and says so.
            ensure!(self.hear::<bool>()?, "the second process failed at its end");
            return Ok(());
        };
        let until = Instant::now() + PARTING;
        while Instant::now() < until {
            if let Some(status) = child.try_wait().context("cannot watch the second process")? {
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
                    let ended = self.child.as_mut().map(Child::try_wait);
                    if let Some(Ok(Some(status))) = ended {
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

/// Starts the hidden command that is the second process, by a command if one is given.
pub fn spawn_second(by: Option<&str>, args: &[String]) -> Result<Child> {
    let mut command = self_by(by)?;
    command.arg("perf-peer").args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().with_context(|| match by {
        Some(by) => format!("cannot start the second process by '{by}'"),
        None => "cannot start the second process".to_owned(),
    })
}

/// This program, started by a command if one is given: its words come first.
pub fn self_by(by: Option<&str>) -> Result<Command> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut words = by.unwrap_or_default().split_whitespace();
    let Some(first) = words.next() else { return Ok(Command::new(program)) };
    let mut command = Command::new(first);
    command.args(words).arg(program);
    Ok(command)
}

/// What can be done with a descriptor at once.
fn look(fd: &impl AsFd) -> Result<PollFlags> {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    match poll(&mut fds, Some(&Timespec::default())) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(fds[0].revents()),
        Err(error) => Err(error).context("cannot watch the other process"),
    }
}

fn is_hung_up(fd: &impl AsFd) -> Result<bool> {
    Ok(look(fd)?.intersects(PollFlags::HUP | PollFlags::ERR))
}

/// Whether something can be heard, or the end, without waiting.
pub fn can_be_heard(from: &impl AsFd) -> Result<bool> {
    Ok(!look(from)?.is_empty())
}

/// Writes something as one line.
pub fn write_line(to: impl AsFd, value: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(value).context("what is to be said")?;
    line.push(b'\n');
    let mut left = &line[..];
    while !left.is_empty() {
        match rustix::io::write(&to, left) {
            Ok(count) => left = &left[count..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("the other process does not listen"),
        }
    }
    Ok(())
}

/// Reads one short line, and nothing behind it; if `soon`, not for ever.
pub fn read_line<T: DeserializeOwned>(from: impl AsFd, soon: bool) -> Result<T> {
    const LINE_BYTES_MAX: usize = 4096;
    let until = Instant::now() + MEETING;
    let mut line = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).context("a wait too long")?;
        let mut fds = [PollFd::new(&from, PollFlags::IN)];
        match poll(&mut fds, soon.then_some(&timeout)) {
            Ok(0) => bail!("the other process said nothing for {} seconds", MEETING.as_secs()),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error).context("cannot wait for the other process"),
        }
        let mut byte = [0];
        // What follows may be for someone else.
        let count = match rustix::io::read(&from, &mut byte) {
            Err(rustix::io::Errno::INTR) => continue,
            read => read.context("cannot hear the other process")?,
        };
        ensure!(count > 0, "the other process ended before it said anything");
        if byte == *b"\n" {
            return serde_json::from_slice(&line)
                .context("what the other process says; are both the same build?");
        }
        line.extend_from_slice(&byte);
        ensure!(line.len() <= LINE_BYTES_MAX, "what the other process says is too long");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn what_is_said_is_heard() {
        let (from, mut to) = std::io::pipe().expect("a pipe");
        let address = vec![0_u8, 1, 0x7F, 0xFF];
        write_line(&to, &address).expect("a line");
        assert_eq!(read_line::<Vec<u8>>(&from, true).expect("a line"), address);
        for wrong in ["", "[0, 256]", "jump"] {
            writeln!(to, "{wrong}").expect("a line");
            assert!(read_line::<Vec<u8>>(&from, true).is_err(), "{wrong}");
        }
        write!(to, "[1]").expect("no line");
        drop(to);
        assert!(read_line::<Vec<u8>>(&from, false).is_err(), "the other process has ended");
    }
}
