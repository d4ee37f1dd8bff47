//! `sluice perf memory`: what a peer takes, in bytes of this process.
//!
//! The second process opens as many endpoints as are wanted. The first one opens an endpoint
//! of its own for each number of peers, tells it their addresses, and then says a message
//! to each, which is answered. Between these steps it looks how much memory of its own the
//! process has. What the system keeps for a socket is not in it.

use crate::compute::now_ns;
use crate::cores::Placement;
use crate::node::{Idle, Node};
use crate::progress::Progress;
use crate::rail::{self, Opening, RailArgs, RailKind};
use crate::read::Reader;
use crate::report::Report;
use crate::session;
use crate::step::Step;
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;
use sluice_proto::{Kind, Recv, Refused, Send, Space};
use sluice_runtime::{Context, RailOptions};
use sluice_text::{Table, bytes};
use sluice_wire::{Addr, PeerId, Region};
use std::time::Duration;

/// What it can be told.
#[derive(Debug, Args)]
pub struct MemoryArgs {
    #[command(flatten)]
    rail: RailArgs,
    /// How many peers, or several
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "2,64,1000",
          value_parser = clap::value_parser!(u64).range(1..=PEERS_MAX))]
    peers: Vec<u64>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// The end of the command's help.
pub const HELP: &str = "\
Bytes are the process's own memory (private and written to), divided by the number of
peers. The system counts pages, so with few peers a figure is coarse. A known peer has an
address and no connection. A connected one has been sent 8 bytes, has answered, and is
silent: what an idle connection does not need has been given back. 'busy' is before that.

Examples:
  sluice perf memory --rail tcp                 2, 64 and 1,000 peers
  sluice perf memory --rail tcp --peers 1000 --json
  sluice perf memory                            over shared memory";

/// Most peers. Each takes some descriptors of the second process.
const PEERS_MAX: u64 = 1000;
/// Bytes of a message.
const MESSAGE_BYTES: u64 = 8;
/// How long peers are silent before what is left counts.
const SILENCE: Duration = Duration::from_millis(1500);
/// Longest wait for all answers.
const PATIENCE_NS: u64 = 120_000_000_000;
/// Peers that are opened at once.
const BATCH: u64 = 50;
/// Peers that are spoken to at once.
const AT_ONCE: usize = 64;
/// Senders of a peer's mailbox: an endpoint for each number of peers, and what is left of
/// those before.
const SENDERS: u16 = 16;
/// The smallest block that an allocator has, and how many of them are more than it has free.
const PLUG_BYTES: usize = 24;
const PLUGS: usize = 100_000;
/// A small mailbox will do for peers.
const UNEXPECTED_BYTES: u64 = 64 << 10;
/// Bytes of a message with addresses.
const PART_BYTES: u64 = 16 << 10;

/// What was found with one number of peers.
#[derive(Debug, Serialize)]
struct Row {
    peers: u64,
    known_peer_bytes: i64,
    connected_peer_bytes: i64,
    /// Of one that was just connected.
    busy_peer_bytes: i64,
    /// The process before it knows any.
    process_bytes: u64,
}

/// What only this measurement says.
#[derive(Debug, Serialize)]
struct More {
    /// How long connected peers were silent.
    silence_s: f64,
}

/// Runs the measurement and prints what it found.
pub fn run(args: &MemoryArgs) -> Result<()> {
    args.rail.check()?;
    if args.rail.hosts.launch()? {
        return Ok(());
    }
    let mut counts = args.peers.clone();
    counts.sort_unstable();
    counts.dedup();
    let most = counts.last().copied().unwrap_or(1);
    allow_descriptors();
    let placement = Placement::choose(None);
    let kind = args.rail.kind();
    let opening = Opening { kind, ..Opening::default() };
    let mut progress = Progress::new("memory");
    progress.show("the second process opens endpoints");
    let mut node = session::start(&placement, &opening, &args.rail.hosts.start())?;
    node.begin(&Step::Reserve { size: PART_BYTES })?;
    node.reserve(PART_BYTES);
    let addresses = gather(&mut node, most)?;
    let mut rows = Vec::new();
    for count in counts {
        progress.show(&format!("{count} peers"));
        rows.push(measure(&mut node, &opening, &addresses[..count as usize])?);
    }
    session::stop(node)?;
    progress.clear();
    report(kind, rows).print(args.json)
}

/// Has the second process open endpoints. Their addresses.
fn gather(node: &mut Node, count: u64) -> Result<Vec<Vec<u8>>> {
    let mut addresses: Vec<Vec<u8>> = Vec::new();
    while (addresses.len() as u64) < count {
        let count = BATCH.min(count - addresses.len() as u64);
        let received = node.data_received() + 1;
        let len = node.ask(&Step::Gather { count })?;
        ensure!(len > 0 && len * count <= PART_BYTES, "addresses of {len} bytes");
        node.post_data(PART_BYTES)?;
        node.wait_data(received)?;
        let all = &node.recv_buf()[..(len * count) as usize];
        addresses.extend(all.chunks(len as usize).map(<[u8]>::to_vec));
    }
    Ok(addresses)
}

/// One number of peers, with an endpoint of its own.
fn measure(node: &mut Node, opening: &Opening, addresses: &[Vec<u8>]) -> Result<Row> {
    // The buffers that all peers share are there before.
    let mut end = End::open(opening, PEERS_MAX as u16 + 2)?;
    end.poll_for(Duration::from_millis(50));
    let _plug = plug();
    let own = private_bytes()?;
    let mut peers = Vec::with_capacity(addresses.len());
    for address in addresses {
        peers.push(rail::meet(&mut end.context, address)?);
    }
    let known = private_bytes()?;
    node.begin(&Step::Echo)?;
    end.say(&peers)?;
    let busy = private_bytes()?;
    end.poll_for(SILENCE);
    let connected = private_bytes()?;
    let answered = node.ask(&Step::EndFeed)?;
    ensure!(answered == addresses.len() as u64, "{answered} peers have answered");
    let each = |bytes: u64| (bytes as i64 - own as i64) / addresses.len() as i64;
    Ok(Row {
        peers: addresses.len() as u64,
        known_peer_bytes: each(known),
        connected_peer_bytes: each(connected),
        busy_peer_bytes: each(busy),
        process_bytes: own,
    })
}

/// Small blocks that fill what is free between blocks that are used: what is allocated from
/// here on takes new pages.
fn plug() -> Vec<Vec<u8>> {
    (0..PLUGS).map(|_| vec![1; PLUG_BYTES]).collect()
}

/// The private memory of this process that has been written to.
fn private_bytes() -> Result<u64> {
    const FILE: &str = "/proc/self/smaps_rollup";
    let text = std::fs::read_to_string(FILE).context(FILE)?;
    let line = text.lines().find_map(|line| line.strip_prefix("Private_Dirty:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib << 10).with_context(|| format!("{FILE} has no Private_Dirty"))
}

/// As many descriptors as the system lets this process have.
fn allow_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// An endpoint that says something to many, or answers one.
#[derive(Debug)]
struct End {
    context: Context<Reader>,
    bytes: Box<[u8; MESSAGE_BYTES as usize]>,
    /// Who has sent what came and was not looked at; no more than is posted.
    came: Vec<PeerId>,
}

impl End {
    fn open(opening: &Opening, senders: u16) -> Result<End> {
        let context = rail::open_for(opening, senders)?;
        Ok(End { context, bytes: Box::default(), came: Vec::new() })
    }

    fn region(&mut self) -> Region {
        let at = self.bytes.as_mut_ptr().expose_provenance() as u64;
        Region { addr: Addr(at), len: MESSAGE_BYTES }
    }

    /// Whether there was anything.
    fn poll(&mut self) -> Result<bool> {
        let mut any = self.context.poll() > 0;
        while let Some(completion) = self.context.machine_mut().endpoint.pop() {
            any = true;
            if let Err(failure) = completion.outcome {
                bail!("a message failed: {failure}");
            }
            if completion.kind == Kind::Recv {
                self.came.push(completion.peer.context("a message of nobody")?);
            }
        }
        Ok(any)
    }

    fn poll_for(&mut self, span: Duration) {
        let until_ns = now_ns() + span.as_nanos() as u64;
        while now_ns() < until_ns {
            self.context.poll();
            rustix::thread::sched_yield();
        }
    }

    fn post(&mut self) -> Result<()> {
        let buf = self.region();
        let recv = Recv {
            space: Space::Tagged,
            source: None,
            buf,
            tag: 0,
            ignore: 0,
            context: 0,
            report: true,
        };
        let (now, Reader { endpoint, .. }, port) = self.context.parts();
        endpoint.recv(now, port, &recv).map_err(|why| anyhow::anyhow!("a receive: {why}"))
    }

    fn send(&mut self, peer: PeerId) -> Result<()> {
        let buf = self.region();
        let send = Send {
            space: Space::Tagged,
            peer,
            buf,
            tag: 0,
            data: None,
            context: 0,
            report: false,
            inject: false,
            delivery: None,
        };
        let until_ns = now_ns() + PATIENCE_NS;
        loop {
            let (now, Reader { endpoint, .. }, port) = self.context.parts();
            match endpoint.send(now, port, &send) {
                Ok(()) => return Ok(()),
                Err(Refused::Again) if now_ns() < until_ns => drop(self.poll()?),
                Err(why) => bail!("a send: {why}"),
            }
        }
    }

    /// A message to each, and its answer; some at a time, so that no queue grows.
    fn say(&mut self, peers: &[PeerId]) -> Result<()> {
        for some in peers.chunks(AT_ONCE) {
            let until_ns = now_ns() + PATIENCE_NS;
            for &peer in some {
                self.post()?;
                self.send(peer)?;
            }
            while self.came.len() < some.len() {
                if !self.poll()? {
                    rustix::thread::sched_yield();
                }
                ensure!(now_ns() < until_ns, "a peer does not answer");
            }
            self.came.clear();
        }
        Ok(())
    }
}

/// The peers, in the second process.
#[derive(Debug, Default)]
pub struct Gathered {
    ends: Vec<End>,
}

impl Gathered {
    /// The other side of [`gather`]: some more.
    pub fn open(&mut self, node: &mut Node, kind: RailKind, count: u64) -> Result<()> {
        ensure!(count <= BATCH, "{count} endpoints at once are too many");
        allow_descriptors();
        let mailbox = RailOptions { unexpected_bytes: UNEXPECTED_BYTES, ..RailOptions::default() };
        let opening = Opening { kind, mailbox, ..Opening::default() };
        let mut addresses = Vec::new();
        for _ in 0..count {
            let mut end = End::open(&opening, SENDERS)?;
            end.post()?;
            addresses.extend(rail::address(&end.context));
            self.ends.push(end);
        }
        let to = node.send_buf().get_mut(..addresses.len());
        to.context("addresses that are too long")?.copy_from_slice(&addresses);
        node.answer(addresses.len() as u64 / count.max(1))?;
        // Its bytes stay until the next step, which comes only after they have arrived.
        node.send_data(PART_BYTES)
    }

    /// Answers messages until the next step.
    pub fn echo(&mut self, node: &mut Node) -> Result<()> {
        node.answer(0)?;
        node.post_step()?;
        let mut idle = Idle::default();
        let mut answered = 0;
        loop {
            for end in &mut self.ends {
                if end.poll()? {
                    idle = Idle::default();
                }
                while let Some(from) = end.came.pop() {
                    end.post()?;
                    end.send(from)?;
                    answered += 1;
                }
            }
            node.turn(&mut idle)?;
            if let Some(step) = node.posted_step()? {
                ensure!(step == Step::EndFeed, "answers go on until they are ended");
                return node.answer(answered);
            }
        }
    }
}

fn report(rail: RailKind, rows: Vec<Row>) -> Report<Row, More> {
    let table = Table::of(
        &rows,
        &[
            ("peers", &|row| row.peers.to_string()),
            ("known B", &|row| row.known_peer_bytes.to_string()),
            ("connected B", &|row| row.connected_peer_bytes.to_string()),
            ("busy B", &|row| row.busy_peer_bytes.to_string()),
            ("process", &|row| bytes(row.process_bytes)),
        ],
    );
    let rail = rail.name();
    Report {
        test: "memory",
        rail: Some(rail),
        rows,
        more: More { silence_s: SILENCE.as_secs_f64() },
        notes: Vec::new(),
        head: format!("memory over {rail}: bytes of the process for each peer"),
        table,
        foot: "\
known: has an address; connected: was spoken to, and is silent; busy: before it was silent;
process: all of it before it knew any
"
        .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_promised_shape() {
        let row = Row {
            peers: 64,
            known_peer_bytes: 300,
            connected_peer_bytes: 4000,
            busy_peer_bytes: 9000,
            process_bytes: 1 << 20,
        };
        let report = report(RailKind::Tcp, vec![row]);
        assert!(report.table.to_string().contains("4000"), "{}", report.table);
        let json = serde_json::to_value(&report).expect("plain data");
        assert_eq!(
            (&json["rail"], &json["rows"][0]["known_peer_bytes"]),
            (&"tcp".into(), &300.into())
        );
    }

    #[test]
    fn memory_that_is_written_to_is_counted() {
        let before = private_bytes().expect("the system tells");
        // Far more than what other tests of this process give back meanwhile.
        let room = vec![1_u8; 64 << 20];
        let after = private_bytes().expect("the system tells");
        assert!(after >= before + (32 << 20), "{before} {after} {}", room.len());
    }
}
