//! `sluice perf behind`: how long a short message waits behind large ones to the same peer.
//!
//! The first process keeps some large messages under way to the second one, and now and
//! then sends a short one beside them, which is answered by one of the same length. The
//! answer has nothing of that kind before it, so what the round trip takes longer than
//! without the large messages is what the short one waited.

use crate::compute::now_ns;
use crate::cores::Placement;
use crate::node::{Idle, Node};
use crate::progress::Progress;
use crate::rail::{Opening, RailArgs, RailKind};
use crate::report::{Report, or_dash};
use crate::session;
use crate::stats::{Samples, Spread, tenth};
use crate::step::Step;
use crate::verify;
use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;
use sluice_text::{Table, bytes, parse_size};

/// What it can be told.
#[derive(Debug, Args)]
pub struct BehindArgs {
    #[command(flatten)]
    rail: RailArgs,
    /// Bytes of a large message
    #[arg(long, value_name = "BYTES", value_parser = parse_size, default_value = "4M",
          allow_negative_numbers = true)]
    size: u64,
    /// Large messages under way
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u64).range(1..=WINDOW_MAX))]
    window: u64,
    /// Short messages, with the large ones and without
    #[arg(long, value_name = "N", default_value_t = 2000,
          value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    messages: u64,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// The end of the command's help.
pub const HELP: &str = "\
Over TCP, without --other, it makes a lab of two hosts with one rail of 1 Gbit/s (see
'sluice lab --help'), and needs root. A short message has 8 bytes. The round trip of it is
measured, with no more than one under way.

Examples:
  sluice perf behind --rail tcp                   4 MiB messages over a rail of 1 Gbit/s
  sluice perf behind --lab-rails 1,1 --json       over two, for a program
  sluice perf behind --lab mine                   the lab 'mine', with the rails it has
  sluice perf behind                              through shared memory";

/// Most large messages under way.
const WINDOW_MAX: u64 = 64;
/// Rails of the lab, in Gbit/s.
const RAILS: [f64; 1] = [1.0];
/// Bytes of a short message.
const SHORT_BYTES: u64 = 8;
/// Time from an answer to the next short message, and what is added for one after the
/// other: they come at any moment of the large ones.
const PAUSE_NS: u64 = 300_000;
const PAUSE_STEP_NS: u64 = 7_919;
const PAUSE_STEPS: u64 = 64;
/// Large messages go for so long before anything counts: what a token bucket lets go at
/// once is over by then.
const SETTLING_NS: u64 = 300_000_000;
/// Where in the buffers large messages begin.
const BULK_AT: u64 = 64;

/// What was found with the large messages, or without.
#[derive(Debug, Serialize)]
struct Row {
    /// Bytes of a large message; 0 without them.
    bulk_bytes: u64,
    messages: u64,
    rtt_us: Spread,
    /// Beside the row without.
    #[serde(skip_serializing_if = "Option::is_none")]
    more_us: Option<More>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bulk_gbit_per_s: Option<f64>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct More {
    p50: f64,
    p99: f64,
}

/// What only this measurement says.
#[derive(Debug, Serialize)]
struct Meta {
    window: u64,
}

/// Runs the measurement and prints what it found.
pub fn run(args: &BehindArgs) -> Result<()> {
    ensure!(args.size > 0, "messages without bytes are none to wait for; give --size from 1");
    args.rail.check()?;
    let is_launched = match args.rail.kind() {
        RailKind::Shm => args.rail.hosts.launch()?,
        RailKind::Tcp => args.rail.hosts.launch_in(&RAILS)?,
    };
    if is_launched {
        return Ok(());
    }
    let placement = Placement::choose(None);
    let kind = args.rail.kind();
    let opening = Opening { kind, ..Opening::default() };
    let mut progress = Progress::new("behind");
    let mut node = session::start(&placement, &opening, &args.rail.hosts.start())?;
    let room = BULK_AT + args.window * args.size;
    node.begin(&Step::Reserve { size: room })?;
    node.reserve(room);
    let mut rows: Vec<Row> = Vec::new();
    for bulk_bytes in [0, args.size] {
        verify::first(&mut node, args.size, args.size ^ 0x5EED)?;
        let window = if bulk_bytes == 0 { 0 } else { args.window };
        let mut stream = Bulk { size: bulk_bytes, window, begun: 0, ended_before: 0 };
        let mut samples = Samples::new();
        let bits_per_ns = stream.measure(&mut node, args.messages, &mut samples, &mut progress)?;
        rows.push(row(bulk_bytes, &samples, bits_per_ns, rows.first()));
    }
    verify::first(&mut node, args.size, args.size ^ 0xF00D)?;
    session::stop(node)?;
    progress.clear();
    report(kind, rows, args.window, &placement).print(args.json)
}

/// The large messages, as the first process sends them.
struct Bulk {
    size: u64,
    /// Most under way; 0 for none.
    window: u64,
    begun: u64,
    ended_before: u64,
}

impl Bulk {
    /// Times short messages. The rate of the large ones, in bits per nanosecond.
    fn measure(
        &mut self,
        node: &mut Node,
        messages: u64,
        samples: &mut Samples,
        progress: &mut Progress,
    ) -> Result<f64> {
        let step = Step::Behind {
            size: SHORT_BYTES,
            count: messages,
            bulk_bytes: self.size,
            window: self.window,
        };
        node.begin(&step)?;
        self.ended_before = node.sends_ended();
        let mut idle = Idle::default();
        let began_ns = now_ns();
        let settled_ns = began_ns + if self.window > 0 { SETTLING_NS } else { 0 };
        while now_ns() < settled_ns {
            self.go_on(node)?;
            node.turn(&mut idle)?;
        }
        for message in 0..messages {
            progress.within(message as f64 / messages as f64);
            let due_ns = now_ns() + PAUSE_NS + message % PAUSE_STEPS * PAUSE_STEP_NS;
            while now_ns() < due_ns {
                self.go_on(node)?;
                node.turn(&mut idle)?;
            }
            let received = node.data_received() + 1;
            node.post_data(SHORT_BYTES)?;
            let sent_ns = now_ns();
            node.send_data(SHORT_BYTES)?;
            while node.data_received() < received {
                self.go_on(node)?;
                node.turn(&mut idle)?;
            }
            samples.record(now_ns() - sent_ns);
        }
        node.wait_sends_ended(self.ended_before + self.begun)?;
        let elapsed_ns = now_ns() - began_ns;
        let arrived = node.ask(&Step::EndFeed)?;
        ensure!(arrived == self.begun * self.size, "large messages were lost");
        Ok((8 * arrived) as f64 / elapsed_ns as f64)
    }

    /// Sends as many large messages as may be under way.
    fn go_on(&mut self, node: &mut Node) -> Result<()> {
        while self.begun - (node.sends_ended() - self.ended_before) < self.window {
            node.send_numbered_reported(self.begun, self.begun, BULK_AT, self.size)?;
            self.begun += 1;
        }
        Ok(())
    }
}

/// The second process: takes all, and answers the short ones.
pub fn second(node: &mut Node, size: u64, count: u64, bulk_bytes: u64, window: u64) -> Result<()> {
    for place in 0..window {
        node.post_any_numbered(place, BULK_AT + place * bulk_bytes, bulk_bytes)?;
    }
    let (mut answered, mut left) = (node.data_received(), count);
    node.post_data(size)?;
    node.answer(0)?;
    node.post_step()?;
    let mut idle = Idle::default();
    let (mut arrived, mut step) = (0, None);
    while step.is_none() {
        node.turn(&mut idle)?;
        if node.data_received() > answered {
            (answered, left) = (node.data_received(), left - 1);
            if left > 0 {
                node.post_data(size)?;
            }
            node.send_data(size)?;
        }
        while let Some(ended) = node.next_numbered() {
            arrived += ended.len;
            let at = BULK_AT + ended.number * bulk_bytes;
            node.post_any_numbered(ended.number, at, bulk_bytes)?;
        }
        step = node.posted_step()?;
    }
    ensure!(step == Some(Step::EndFeed), "the stream goes on until it is ended");
    node.answer(arrived)
}

fn row(bulk_bytes: u64, samples: &Samples, bits_per_ns: f64, alone: Option<&Row>) -> Row {
    let rtt_us = Spread::of_times(samples, 1e3).rounded();
    let more = |alone: &Row| More {
        p50: tenth(rtt_us.p50 - alone.rtt_us.p50),
        p99: tenth(rtt_us.p99 - alone.rtt_us.p99),
    };
    Row {
        bulk_bytes,
        messages: samples.count(),
        rtt_us,
        more_us: alone.map(more),
        bulk_gbit_per_s: alone.map(|_| (bits_per_ns * 1e3).round() / 1e3),
    }
}

fn report(rail: RailKind, rows: Vec<Row>, window: u64, placement: &Placement) -> Report<Row, Meta> {
    let size = |row: &Row| or_dash((row.bulk_bytes > 0).then(|| bytes(row.bulk_bytes)));
    let table = Table::of(
        &rows,
        &[
            ("behind", &size),
            ("p50 µs", &|row| format!("{:.1}", row.rtt_us.p50)),
            ("p99 µs", &|row| format!("{:.1}", row.rtt_us.p99)),
            ("more: p50", &|row| or_dash(row.more_us.map(|more| format!("{:.1}", more.p50)))),
            ("p99", &|row| or_dash(row.more_us.map(|more| format!("{:.1}", more.p99)))),
            ("bulk Gbit/s", &|row| or_dash(row.bulk_gbit_per_s.map(|rate| format!("{rate:.3}")))),
            ("messages", &|row| row.messages.to_string()),
        ],
    );
    let rail = rail.name();
    Report {
        test: "behind",
        rail: Some(rail),
        rows,
        more: Meta { window },
        notes: placement.note.iter().cloned().collect(),
        head: format!(
            "behind over {rail}: round trips of 8 bytes, {window} large messages under way"
        ),
        table,
        foot: "\
more: what the round trip takes longer than without large messages
"
        .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_more_is_beside_the_row_without() {
        let samples = |ns: u64| {
            let mut samples = Samples::new();
            samples.record(ns);
            samples
        };
        let alone = row(0, &samples(10_000), 0.0, None);
        let behind = row(4 << 20, &samples(210_000), 0.95, Some(&alone));
        let report = report(RailKind::Tcp, vec![alone, behind], 4, &Placement::choose(None));
        let json = serde_json::to_value(&report).expect("plain data");
        assert!(json["rows"][0]["more_us"].is_null());
        let more = json["rows"][1]["more_us"]["p50"].as_f64().expect("a figure");
        // Times are kept to three digits.
        assert!((199.0..=201.0).contains(&more), "{more}");
        assert_eq!(json["rows"][1]["bulk_gbit_per_s"], 0.95);
        assert!(report.table.to_string().contains("4 MiB"), "{}", report.table);
    }
}
