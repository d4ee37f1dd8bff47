//! `sluice perf flood`: far more messages than the receiver wants.
//!
//! The second process posts all its sends at once. The first one lets them
//! arrive and wants none for a while; then it receives everything, the last tag
//! first, and checks every byte. What it kept of them meanwhile is what this
//! measures: the bound of invariant 1.

use crate::cores::Placement;
use crate::node::{Node, Numbered};
use crate::progress::Progress;
use crate::rail::{Opening, RailArgs, RailKind, choice};
use crate::report::Report;
use crate::session;
use crate::step::Step;
use crate::verify::{fill, first_wrong};
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;
use sluice_rail::shm::CreditKind;
use sluice_runtime::RailOptions;
use sluice_text::{Table, bytes};
use sluice_text::{parse_seconds, parse_size};
use std::time::{Duration, Instant};

/// Most different contents of messages; one of each is kept to be sent from.
const CONTENTS_MAX: u64 = 1024;
/// Most receives that are posted at once.
const WINDOW_MAX: u64 = 64;
/// Most memory for either, unless one message takes more.
const BUFFER_BYTES_MAX: u64 = 64 << 20;

/// What a flood can be told.
#[derive(Debug, Args)]
pub struct FloodArgs {
    #[command(flatten)]
    rail: RailArgs,
    /// Messages
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u64).range(1..=u64::from(u32::MAX)))]
    messages: u64,
    /// Size of each in bytes: 8, 1K
    #[arg(long, value_name = "BYTES", value_parser = parse_size, default_value = "1024",
          allow_negative_numbers = true)]
    size: u64,
    /// Time for which the receiver wants none, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds,
          allow_negative_numbers = true, default_value = "1")]
    quiet: f64,
    /// Most memory for messages not yet matched, in bytes: 64K, 4M
    #[arg(long, value_name = "BYTES", value_parser = parse_size, default_value_t = RailOptions::UNEXPECTED_BYTES,
          allow_negative_numbers = true)]
    unexpected: u64,
    /// How that is shared among senders
    #[arg(long, value_parser = choice::<CreditKind>(), default_value = "dynamic")]
    credits: CreditKind,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// What was found.
#[derive(Debug, Serialize)]
struct Row {
    messages: u64,
    size: u64,
    /// Most bytes that the receiver kept of messages not yet matched.
    peak_unexpected_bytes: u64,
    /// The bound on them.
    unexpected_bytes_max: u64,
    /// Largest resident set of the receiver.
    peak_rss_bytes: u64,
    /// Largest resident set of the sender, which keeps what the receiver does not.
    sender_peak_rss_bytes: u64,
    /// From the first send to the last receive.
    seconds: f64,
    lost: u64,
    corrupt: u64,
}

/// Runs a flood and prints what it found.
pub fn run(args: &FloodArgs) -> Result<()> {
    args.rail.check()?;
    if args.rail.hosts.launch()? {
        return Ok(());
    }
    let placement = Placement::choose(None);
    let mut progress = Progress::new("flood");
    progress.show("the second process starts");
    let mailbox = RailOptions {
        credits: args.credits,
        unexpected_bytes: args.unexpected,
        ..RailOptions::default()
    };
    let kind = args.rail.kind();
    let opening = Opening { kind, mailbox, ..Opening::default() };
    let mut node = session::start(&placement, &opening, &args.rail.hosts.start())?;
    let row = receive_all(&mut node, args, &mut progress)?;
    session::stop(node)?;
    progress.clear();
    let whole = row.lost == 0 && row.corrupt == 0;
    let bounded = row.peak_unexpected_bytes <= row.unexpected_bytes_max;
    report(kind, row, &placement).print(args.json)?;
    ensure!(whole, "messages were lost or altered");
    ensure!(bounded, "more was kept of unexpected messages than the bound allows");
    Ok(())
}

/// The side that sends: everything at once, then waits until it is gone.
pub fn second(node: &mut Node, size: u64, count: u64) -> Result<()> {
    let contents = as_many(CONTENTS_MAX, size);
    node.reserve(size * contents);
    for content in 0..contents {
        let at = (content * size) as usize;
        fill(&mut node.send_buf()[at..at + size as usize], content);
    }
    node.answer(0)?;
    for number in 0..count {
        node.send_numbered(number, (number % contents) * size, size)?;
    }
    node.wait_sends()?;
    node.answer(resident_bytes_peak()?)
}

fn receive_all(node: &mut Node, args: &FloodArgs, progress: &mut Progress) -> Result<Row> {
    let FloodArgs { messages, size, .. } = *args;
    let (window_max, contents) = (as_many(WINDOW_MAX, size), as_many(CONTENTS_MAX, size));
    node.reserve(size * window_max);
    node.begin(&Step::Flood { size, count: messages })?;
    let start = Instant::now();
    progress.show("nothing is wanted");
    node.look_on(Duration::from_secs_f64(args.quiet))?;
    progress.at(0, 1, size);
    let mut arrivals = Arrivals::default();
    let mut wanted = messages;
    while wanted > 0 {
        let window = wanted.min(window_max);
        for place in 0..window {
            node.post_numbered(wanted - 1 - place, place * size, size)?;
        }
        for _ in 0..window {
            let ended = node.wait_numbered()?;
            let place = (wanted - 1).checked_sub(ended.number).filter(|place| *place < window);
            let place = place.context("a message came that nobody wanted")?;
            let at = (place * size) as usize;
            arrivals.count(&ended, contents, &node.recv_buf()[at..at + size as usize]);
        }
        wanted -= window;
        progress.within((messages - wanted) as f64 / messages as f64);
    }
    let seconds = start.elapsed().as_secs_f64();
    let sender_peak_rss_bytes = node.wait_answer()?;
    let stats = node.stats();
    Ok(Row {
        messages,
        size,
        peak_unexpected_bytes: stats.unexpected_bytes_peak,
        unexpected_bytes_max: node.unexpected_bytes_max(),
        peak_rss_bytes: resident_bytes_peak()?,
        sender_peak_rss_bytes,
        seconds,
        lost: messages - arrivals.received.min(messages),
        corrupt: arrivals.corrupt,
    })
}

/// How many messages of this size have a place of their own.
fn as_many(most: u64, size: u64) -> u64 {
    (BUFFER_BYTES_MAX / size.max(1)).clamp(1, most)
}

/// What has come, and how.
#[derive(Debug, Default)]
struct Arrivals {
    received: u64,
    corrupt: u64,
}

impl Arrivals {
    /// Counts a message that lies in `bytes`, one of so many contents.
    fn count(&mut self, ended: &Numbered, contents: u64, bytes: &[u8]) {
        self.received += 1;
        let content = ended.number % contents;
        let right = ended.len == bytes.len() as u64
            && ended.data == Some(ended.number)
            && first_wrong(bytes, content).is_none();
        if !right {
            self.corrupt += 1;
        }
    }
}

/// What was found.
fn report(rail: RailKind, row: Row, placement: &Placement) -> Report<Row, ()> {
    let rows = vec![row];
    let table = Table::of(
        &rows,
        &[
            ("messages", &|row| row.messages.to_string()),
            ("size", &|row| bytes(row.size)),
            ("kept", &|row| bytes(row.peak_unexpected_bytes)),
            ("bound", &|row| bytes(row.unexpected_bytes_max)),
            ("receiver", &|row| bytes(row.peak_rss_bytes)),
            ("sender", &|row| bytes(row.sender_peak_rss_bytes)),
            ("seconds", &|row| format!("{:.2}", row.seconds)),
            ("us a message", &|row| format!("{:.2}", row.seconds * 1e6 / row.messages as f64)),
            ("lost", &|row| row.lost.to_string()),
            ("corrupt", &|row| row.corrupt.to_string()),
        ],
    );
    Report {
        test: "flood",
        rail: Some(rail.name()),
        rows,
        more: (),
        notes: placement.note.iter().cloned().collect(),
        head: format!("flood over {}; the last tag is received first", rail.name()),
        table,
        foot: "\
kept: most bytes of messages not yet matched, at the receiver; bound: of these
receiver, sender: largest resident set of each process
"
        .to_owned(),
    }
}

/// The largest resident set of this process, in bytes.
fn resident_bytes_peak() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Ok(kib.context("/proc/self/status does not tell the largest resident set")? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_as_sent_is_counted() {
        let mut bytes = [0; 64];
        fill(&mut bytes, 7);
        let right = Numbered { number: 7, len: 64, data: Some(7) };
        let mut arrivals = Arrivals::default();
        arrivals.count(&right, 1024, &bytes);
        assert_eq!((arrivals.received, arrivals.corrupt), (1, 0));
        arrivals.count(&Numbered { len: 63, ..right }, 1024, &bytes);
        arrivals.count(&Numbered { data: Some(8), ..right }, 1024, &bytes);
        arrivals.count(&Numbered { number: 8, data: Some(8), ..right }, 1024, &bytes);
        bytes[63] ^= 1;
        arrivals.count(&right, 1024, &bytes);
        assert_eq!((arrivals.received, arrivals.corrupt), (5, 4));
    }

    #[test]
    fn this_process_lives_in_memory() {
        assert!(resident_bytes_peak().expect("procfs") > 1 << 20);
    }
}
