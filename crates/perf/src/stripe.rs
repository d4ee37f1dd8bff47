//! `sluice perf stripe`: what reads of a peer's memory make of several rails.
//!
//! The launcher makes a lab for each set of rails, and starts a process on each of its two
//! hosts. The first one reads the memory of the second one, a read at a time, and checks
//! what has come; neither is told anything of the rails. At last one of several equal rails
//! falls to a tenth of its rate while reads are under way: they should go on at what is
//! left.

use crate::cores::Placement;
use crate::hosts::Hosts;
use crate::lab::{Lab, LabArgs, device, payload_gbit_per_s};
use crate::launch::Both;
use crate::node::Node;
use crate::progress::Progress;
use crate::rail::{Opening, RailKind};
use crate::report::{Report, or_dash};
use crate::session;
use crate::step::Step;
use crate::verify;
use anyhow::{Result, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use sluice_text::{Table, bytes, parse_seconds, parse_size};
use std::ffi::OsString;
use std::time::{Duration, Instant};

/// What a stripe can be told.
#[derive(Debug, Args)]
pub struct StripeArgs {
    /// Bytes of a read, or several
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = parse_size,
          default_value = "64M,4M,1M", allow_negative_numbers = true)]
    size: Vec<u64>,
    /// Time to read for, in seconds, for each row
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds,
          allow_negative_numbers = true, default_value = "1")]
    seconds: f64,
    /// Cut reads into fragments of so many bytes, in turn over all rails, as in the paper
    #[arg(long, value_name = "BYTES", value_parser = parse_size, allow_negative_numbers = true)]
    fragments: Option<u64>,
    #[command(flatten)]
    lab: LabArgs,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// This is the first process, which a launcher has started
    #[arg(long, hide = true)]
    launched: bool,
}

/// The end of the command's help.
pub const HELP: &str = "\
It makes labs of two hosts (see 'sluice lab --help'), and needs root. The sum of rails is
what TCP's payload can have of their rates: 95.6 %.

Examples:
  sluice perf stripe                       four sets of rails, three sizes, one rail that falls
  sluice perf stripe --size 64M --json     one size, for a program
  sluice perf stripe --fragments 65536     equal fragments in turn, to compare with
  sluice perf stripe --lab-rails 1,2.5     one set of rails
  sluice perf stripe --lab mine            the lab 'mine', with the rails it has";

/// Sets of rails, by their rates in Gbit/s. Of the first one a rail falls.
const SETS: [&[f64]; 4] = [&[1.0; 4], &[1.0, 2.0, 4.0], &[1.0], &[1.0; 3]];
/// Least reads of one row.
const READS_MIN: u64 = 3;
/// How long reads go on at a new rate before they count.
const SETTLING_S: f64 = 0.3;

/// What the launcher tells the first process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Order {
    /// Reads of this size for so long; answered with what was found.
    Read { size: u64, seconds: f64 },
    /// The same until the next order is there; not answered.
    ReadOn { size: u64 },
    /// Nothing more.
    Stop,
}

/// Some reads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Found {
    reads: u64,
    gbit_per_s: f64,
    /// Of the bytes that came, those that were copied once more, in per cent.
    copied_pct: f64,
}

/// What was found of one size over one set of rails.
#[derive(Debug, Serialize)]
struct Row {
    /// Their rates in Gbit/s.
    rails: Vec<f64>,
    size: u64,
    gbit_per_s: f64,
    sum_of_rails_gbit_per_s: f64,
    efficiency_pct: f64,
    reads: u64,
    /// Bytes that came with other frames and were copied into their place; all others were
    /// received there. The sender copies none.
    copied_pct: f64,
    /// The rail that has just fallen to a tenth, while reads were under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    fallen: Option<String>,
    /// What they made of all rails before.
    #[serde(skip_serializing_if = "Option::is_none")]
    before_gbit_per_s: Option<f64>,
}

/// What only this measurement says.
#[derive(Debug, Serialize)]
struct More {
    #[serde(skip_serializing_if = "Option::is_none")]
    fragment_bytes: Option<u64>,
}

/// Runs the measurement and prints what it found.
pub fn run(args: &StripeArgs) -> Result<()> {
    ensure!(!args.size.contains(&0), "a read of nothing has no rate; give --size from 1");
    ensure!(args.fragments != Some(0), "a fragment has bytes; give --fragments from 1");
    if args.launched {
        return read_as_told(args);
    }
    let mut progress = Progress::new("stripe");
    let mut rows = Vec::new();
    let sets = if args.lab.is_given() { &SETS[..1] } else { &SETS };
    for (index, set) in sets.iter().enumerate() {
        progress.show("a lab is made");
        let mut lab = args.lab.open(set)?;
        let both = lab.start(first_args(args))?;
        for &size in &args.size {
            progress.at(rows.len(), sets.len() * args.size.len(), size);
            rows.push(row(&lab, size, read(&both, size, args.seconds)?));
        }
        if index == 0 && lab.gbit_per_s().len() > 1 {
            progress.show("a rail falls");
            rows.push(fall(&mut lab, &both, args)?);
        }
        both.tell(&Order::Stop)?;
        both.wait()?;
    }
    progress.clear();
    report(rows, args.fragments).print(args.json)
}

/// The arguments of the process on the first host.
fn first_args(args: &StripeArgs) -> Vec<OsString> {
    let mut words = vec!["perf".to_owned(), "stripe".to_owned(), "--launched".to_owned()];
    let sizes: Vec<String> = args.size.iter().map(u64::to_string).collect();
    words.extend(["--size".to_owned(), sizes.join(",")]);
    if let Some(fragments) = args.fragments {
        words.extend(["--fragments".to_owned(), fragments.to_string()]);
    }
    words.into_iter().map(OsString::from).collect()
}

fn read(both: &Both, size: u64, seconds: f64) -> Result<Found> {
    both.tell(&Order::Read { size, seconds })?;
    both.hear()
}

/// One of the rails falls while large reads are under way.
fn fall(lab: &mut Lab, both: &Both, args: &StripeArgs) -> Result<Row> {
    let size = args.size.iter().copied().max().unwrap_or(1);
    let rail = lab.gbit_per_s().len() - 1;
    let rate = lab.gbit_per_s()[rail];
    let before = read(both, size, args.seconds)?;
    both.tell(&Order::ReadOn { size })?;
    lab.set_rate(rail, rate / 10.0)?;
    // Its figure has the fall in it, and is not asked for.
    read(both, size, SETTLING_S)?;
    let after = row(lab, size, read(both, size, args.seconds)?);
    lab.set_rate(rail, rate)?;
    let before_gbit_per_s = Some(thousandth(before.gbit_per_s));
    Ok(Row { fallen: Some(device(rail)), before_gbit_per_s, ..after })
}

fn row(lab: &Lab, size: u64, found: Found) -> Row {
    let sum = payload_gbit_per_s(lab.gbit_per_s());
    Row {
        rails: lab.gbit_per_s().to_vec(),
        size,
        gbit_per_s: thousandth(found.gbit_per_s),
        sum_of_rails_gbit_per_s: thousandth(sum),
        efficiency_pct: (1000.0 * found.gbit_per_s / sum).round() / 10.0,
        reads: found.reads,
        copied_pct: found.copied_pct,
        fallen: None,
        before_gbit_per_s: None,
    }
}

fn thousandth(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn report(rows: Vec<Row>, fragment_bytes: Option<u64>) -> Report<Row, More> {
    let rails = |row: &Row| {
        let rates: Vec<String> = row.rails.iter().map(f64::to_string).collect();
        rates.join("+")
    };
    let table = Table::of(
        &rows,
        &[
            ("rails Gbit/s", &rails),
            ("size", &|row| bytes(row.size)),
            ("Gbit/s", &|row| format!("{:.3}", row.gbit_per_s)),
            ("sum of rails", &|row| format!("{:.3}", row.sum_of_rails_gbit_per_s)),
            ("% of it", &|row| format!("{:.1}", row.efficiency_pct)),
            ("copied %", &|row| format!("{:.1}", row.copied_pct)),
            ("fallen", &|row| or_dash(row.fallen.clone())),
            ("before", &|row| or_dash(row.before_gbit_per_s.map(|rate| format!("{rate:.3}")))),
            ("reads", &|row| row.reads.to_string()),
        ],
    );
    let how = match fragment_bytes {
        Some(bytes) => format!("fragments of {bytes} bytes in turn"),
        None => "chunks to the rail that is free".to_owned(),
    };
    Report {
        test: "stripe",
        rail: Some(RailKind::Tcp.name()),
        rows,
        more: More { fragment_bytes },
        notes: Vec::new(),
        head: format!("stripe over tcp: reads of another host's memory, one at a time; {how}"),
        table,
        foot: "\
sum of rails: what TCP's payload can have of their rates
copied: bytes that the library copied once more; the others were received into their place
fallen: the rail that fell to a tenth while reads were under way; before: the rate before
"
        .to_owned(),
    }
}

/// The first process: does what the launcher tells it.
fn read_as_told(args: &StripeArgs) -> Result<()> {
    let opening =
        Opening { kind: RailKind::Tcp, fragment_bytes: args.fragments, ..Opening::default() };
    let mut node = session::start(&Placement::choose(None), &opening, &Hosts::launched().start())?;
    let largest = args.size.iter().copied().max().unwrap_or(1);
    node.begin(&Step::Reserve { size: largest })?;
    node.reserve(largest);
    let seed = 0x5EED;
    // The second process then has the opposite of this in what it exposes.
    verify::first(&mut node, largest, seed)?;
    let key = node.ask(&Step::Expose)?;
    loop {
        match node.second()?.hear()? {
            Order::Read { size, seconds } => {
                let found = read_for(&mut node, key, size, seconds)?;
                check(&mut node, key, size, !seed)?;
                node.second()?.tell(&found)?;
            }
            Order::ReadOn { size } => {
                while !node.second()?.has_said()? {
                    read_once(&mut node, key, size)?;
                }
            }
            Order::Stop => return session::stop(node),
        }
    }
}

fn read_for(node: &mut Node, key: u64, size: u64, seconds: f64) -> Result<Found> {
    // What a token bucket let go at once after a pause is over by then.
    read_once(node, key, size)?;
    let span = Duration::from_secs_f64(seconds);
    let before = node.net_stats();
    let start = Instant::now();
    let mut reads = 0;
    while reads < READS_MIN || start.elapsed() < span {
        read_once(node, key, size)?;
        reads += 1;
    }
    let bits = (8 * size * reads) as f64;
    let gbit_per_s = bits / start.elapsed().as_secs_f64() / 1e9;
    let after = node.net_stats();
    let copied = (after.copied - before.copied) as f64;
    let placed = (after.placed - before.placed) as f64;
    // Reads through a device of its own are in neither count.
    let copied_pct = (1000.0 * copied / (copied + placed).max(1.0)).round() / 10.0;
    Ok(Found { reads, gbit_per_s, copied_pct })
}

fn read_once(node: &mut Node, key: u64, size: u64) -> Result<()> {
    ensure!(node.read_directly(key, size)?, "a read of the other host's memory failed");
    Ok(())
}

/// One more read, of which every byte is looked at.
fn check(node: &mut Node, key: u64, size: u64, seed: u64) -> Result<()> {
    node.recv_buf()[..size as usize].fill(0);
    read_once(node, key, size)?;
    match verify::first_wrong(&node.recv_buf()[..size as usize], seed) {
        Some(wrong) => bail!("byte {wrong} of a read of {size} bytes is wrong"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_promised_shape() {
        let row = Row {
            rails: vec![1.0, 0.1],
            size: 64 << 20,
            gbit_per_s: 1.0,
            sum_of_rails_gbit_per_s: 1.052,
            efficiency_pct: 95.1,
            reads: 3,
            copied_pct: 1.5,
            fallen: Some("r1".to_owned()),
            before_gbit_per_s: Some(1.9),
        };
        let report = report(vec![row], None);
        assert!(report.table.to_string().contains("1+0.1"));
        let json = serde_json::to_value(&report).expect("plain data");
        let row = &json["rows"][0];
        assert_eq!((&row["rails"][1], &row["size"]), (&0.1.into(), &(64 << 20).into()));
        for name in ["gbit_per_s", "sum_of_rails_gbit_per_s", "efficiency_pct", "copied_pct"] {
            assert!(row[name].is_f64(), "{name}");
        }
        assert_eq!(row["fallen"], "r1");
    }

    #[test]
    fn orders_and_answers_are_lines() {
        for order in [Order::Read { size: 1, seconds: 0.5 }, Order::ReadOn { size: 2 }, Order::Stop]
        {
            let line = serde_json::to_string(&order).expect("a line");
            assert_eq!(serde_json::from_str::<Order>(&line).expect("the same"), order);
        }
    }
}
