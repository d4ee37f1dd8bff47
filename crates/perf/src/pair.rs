//! The two processes: starting the second one, finding each other, and each
//! one's end when the other ends.

use crate::cores::Placement;
use crate::node::Node;
use crate::pace::Receivers;
use crate::portals::{self, NiKind};
use crate::rail::{Bulk, Credits, RailOptions, UNEXPECTED_BYTES};
use crate::step::Step;
use crate::{flood, latency, overlap, stream, verify};
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
    #[arg(long, value_enum, default_value_t = Bulk::Auto)]
    bulk: Bulk,
    /// How the room for messages is shared.
    #[arg(long, value_enum, default_value_t = Credits::Dynamic)]
    credits: Credits,
    /// Most memory for messages not yet matched.
    #[arg(long, default_value_t = UNEXPECTED_BYTES)]
    unexpected: u64,
    /// The interface of libportals that is measured, if it is.
    #[arg(long, value_enum)]
    ni: Option<NiKind>,
    /// Length of the longest message through it.
    #[arg(long, default_value_t = 0)]
    bytes: u64,
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

    /// Tells it a line.
    pub fn tell(&mut self, line: &str) -> Result<()> {
        write_line(self.stdin.as_mut().context("no pipe to the second process")?, line)
    }

    /// Waits for a line from it.
    pub fn hear(&mut self) -> Result<String> {
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
        let answer = self.tell(&hex(address)).and_then(|()| self.hear());
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
pub fn start(placement: &Placement, options: RailOptions) -> Result<Node> {
    let core = placement.cores.map(|pair| pair.first);
    let RailOptions { bulk, credits, unexpected_bytes } = options;
    let unexpected = unexpected_bytes.to_string();
    let args = ["--bulk", bulk.name(), "--credits", credits.name(), "--unexpected", &unexpected];
    let second = Second::start(placement, &args)?;
    let mut node = Node::open(core, options, Other::Second(second), placement.shares_a_core())?;
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
    second.part()
}

/// The whole life of the second process.
pub fn run_peer(args: &PeerArgs) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .context("cannot ask to end with the first process")?;
    // It may have ended before that was asked.
    ensure!(is_parent(args.parent), "this is a part of 'sluice perf' and is not run by hand");
    let first = Other::First(args.parent);
    if let Some(kind) = args.ni {
        return portals::serve(args.core, kind, args.bytes, first);
    }
    let options =
        RailOptions { bulk: args.bulk, credits: args.credits, unexpected_bytes: args.unexpected };
    let mut node = Node::open(args.core, options, first, args.yields)?;
    let address = unhex(&read_line(&mut std::io::stdin(), true)?)?;
    node.meet(&address)?;
    write_line(&mut std::io::stdout(), &hex(&node.address()))?;
    let mut receivers = None;
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
            Step::Flood { size, count } => flood::second(&mut node, size, count)?,
            Step::Overlap { size, when, role } => {
                overlap::second(&mut node, size, when, role)?;
            }
            Step::PaceOpen { size, window, bytes_per_s } => {
                receivers = Some(Receivers::open(&mut node, size, window, bytes_per_s)?);
            }
            Step::Pace { mix, span } => {
                let receivers = receivers.as_mut().context("flows without endpoints")?;
                receivers.take(&mut node, mix, span)?;
            }
            Step::Stop => return Ok(()),
        }
    }
}

fn is_parent(pid: u32) -> bool {
    getppid().map(Pid::as_raw_pid).is_some_and(|parent| u32::try_from(parent) == Ok(pid))
}

/// Writes one line.
pub fn write_line(to: &mut impl Write, text: &str) -> Result<()> {
    writeln!(to, "{text}").and_then(|()| to.flush()).context("the other process does not listen")
}

/// Reads one short line; if `soon`, not for ever.
pub fn read_line(from: &mut (impl Read + AsFd), soon: bool) -> Result<String> {
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
            line.truncate(end);
            return String::from_utf8(line).context("what the other process says");
        }
        ensure!(count > 0, "the other process ended before it said anything");
        ensure!(line.len() <= LINE_BYTES_MAX, "what the other process says is too long");
    }
}

/// Bytes as text.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Text as bytes.
pub fn unhex(text: &str) -> Result<Vec<u8>> {
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
