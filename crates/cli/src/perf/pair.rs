//! The two processes: starting the second one, finding each other, and each
//! one's end when the other ends.

use crate::cores::Placement;
use crate::perf::node::Node;
use crate::perf::step::Step;
use crate::perf::{latency, stream, verify};
use crate::rail::Bulk;
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for the other process to start and to say its address.
const MEETING: Duration = Duration::from_secs(20);
/// Longest wait for the second process to end by itself.
const PARTING: Duration = Duration::from_secs(5);

/// What the second process is started with. Not for people.
#[derive(Debug, Args)]
pub struct PeerArgs {
    /// The first process.
    #[arg(long)]
    parent: u32,
    /// The core to run on.
    #[arg(long)]
    core: Option<usize>,
    /// How large messages move.
    #[arg(long, value_enum)]
    bulk: Bulk,
    /// Whether to give the core away while waiting.
    #[arg(long)]
    yields: bool,
}

/// The other process.
#[derive(Debug)]
pub enum Other {
    /// The second process, started by this one and ended with it.
    Second(Second),
    /// The first process, which started this one.
    First(u32),
}

impl Other {
    /// An error if the other process has ended.
    pub fn check(&mut self) -> Result<()> {
        match self {
            Other::Second(second) => match second.child.try_wait() {
                Ok(None) => Ok(()),
                Ok(Some(status)) => {
                    bail!("the second process ended in the middle of the test ({status})")
                }
                Err(error) => Err(error).context("cannot watch the second process"),
            },
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
    fn start(placement: &Placement, bulk: Bulk) -> Result<Second> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(program);
        command.arg("perf-peer");
        command.args(["--parent", &std::process::id().to_string()]);
        command.args(["--bulk", bulk.name()]);
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

    /// Gives this process's address and takes the second one's.
    fn exchange(&mut self, address: &[u8]) -> Result<Vec<u8>> {
        let mut stdin = self.stdin.take().context("no pipe to the second process")?;
        let mut stdout = self.stdout.take().context("no pipe from the second process")?;
        let told = write_line(&mut stdin, &hex(address));
        let answer = told.and_then(|()| read_line(&mut stdout));
        // The pipe stays open: its end tells the second process of ours.
        self.stdin = Some(stdin);
        match answer {
            Ok(line) => unhex(&line),
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

/// Starts the second process and meets it.
pub fn start(placement: &Placement, bulk: Bulk) -> Result<Node> {
    let core = placement.cores.map(|pair| pair.first);
    let second = Second::start(placement, bulk)?;
    let mut node = Node::open(core, bulk, Other::Second(second), placement.shares_a_core())?;
    let address = node.address();
    let Other::Second(second) = node.other() else { unreachable!("this process is the first") };
    let answer = second.exchange(&address)?;
    node.meet(&answer)?;
    Ok(node)
}

/// Lets the second process end, and waits until it has.
pub fn stop(mut node: Node) -> Result<()> {
    node.tell(&Step::Stop)?;
    let Other::Second(second) = node.other() else { unreachable!("this process is the first") };
    let until = Instant::now() + PARTING;
    while Instant::now() < until {
        if let Some(status) = second.child.try_wait().context("cannot watch the second process")? {
            ensure!(status.success(), "the second process failed at its end ({status})");
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    bail!("the second process does not end; it is killed")
}

/// The whole life of the second process.
pub fn run_peer(args: &PeerArgs) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .context("cannot ask to end with the first process")?;
    // It may have ended before that was asked.
    ensure!(is_parent(args.parent), "this is a part of 'sluice perf' and is not run by hand");
    let mut node = Node::open(args.core, args.bulk, Other::First(args.parent), args.yields)?;
    let address = unhex(&read_line(&mut std::io::stdin())?)?;
    node.meet(&address)?;
    write_line(&mut std::io::stdout(), &hex(&node.address()))?;
    loop {
        match node.next_step()? {
            Step::Reserve { size } => {
                node.reserve(size);
                node.answer(0)?;
            }
            Step::Verify { size, seed } => verify::second(&mut node, size, seed)?,
            Step::PingPong { size, count } => latency::second(&mut node, size, count)?,
            Step::Stream { size, count, window } => {
                stream::second(&mut node, size, window, count)?;
            }
            Step::Expose => {
                let exposed = node.exposed();
                node.answer(exposed)?;
            }
            Step::Stop => return Ok(()),
        }
    }
}

fn is_parent(pid: u32) -> bool {
    getppid().map(Pid::as_raw_pid).is_some_and(|parent| u32::try_from(parent) == Ok(pid))
}

fn write_line(to: &mut impl Write, text: &str) -> Result<()> {
    writeln!(to, "{text}").and_then(|()| to.flush()).context("the other process does not listen")
}

/// Reads one short line, and not for ever.
fn read_line(from: &mut (impl Read + AsFd)) -> Result<String> {
    const LINE_BYTES_MAX: usize = 4096;
    let until = Instant::now() + MEETING;
    let mut line = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).context("a wait too long")?;
        let mut fds = [PollFd::new(from, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) => bail!("the other process said nothing for {} seconds", MEETING.as_secs()),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error).context("cannot wait for the other process"),
        }
        let mut buf = [0; 512];
        let count = from.read(&mut buf).context("cannot hear the other process")?;
        line.extend_from_slice(&buf[..count]);
        if let Some(end) = line.iter().position(|&byte| byte == b'\n') {
            line.truncate(end);
            return String::from_utf8(line).context("the other process's address");
        }
        ensure!(count > 0, "the other process ended before it gave its address");
        ensure!(line.len() <= LINE_BYTES_MAX, "the other process's address is too long");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Result<Vec<u8>> {
    let digits: Vec<u8> = text
        .chars()
        .map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect::<Option<_>>()
        .context("the other process's address is not hexadecimal")?;
    ensure!(digits.len().is_multiple_of(2), "the other process's address has half a byte");
    Ok(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_go_through_a_line_of_text() {
        let bytes = [0, 1, 0x7F, 0xFF];
        assert_eq!(unhex(&hex(&bytes)).expect("hexadecimal"), bytes);
        assert!(unhex("0g").is_err());
        assert!(unhex("012").is_err());
    }
}
