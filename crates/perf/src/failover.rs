//! `sluice perf failover`: how long nothing comes when one of several rails fails.
//!
//! The launcher makes a lab of four rails and starts a process on each of its two hosts. A
//! stream of numbered messages and reads of memory (`feed`) go over all rails, while the
//! launcher cuts one, silences it, slows it to a tenth, and has it return. Each time the
//! longest pause of either is a sample.

use crate::compute::now_ns;
use crate::cores::Placement;
use crate::feed::{Feed, Gaps};
use crate::hosts::Hosts;
use crate::lab::{Lab, LabArgs, device};
use crate::launch::Both;
use crate::node::Node;
use crate::progress::Progress;
use crate::rail::{Opening, RailKind};
use crate::report::{Report, or_dash};
use crate::session;
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use sluice_text::Table;
use std::ffi::OsString;
use std::time::Duration;

/// What a failover can be told.
#[derive(Debug, Args)]
pub struct FailoverArgs {
    /// How often each is tried
    #[arg(long, value_name = "N", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    trials: u32,
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
Messages of 512 bytes, one in 50 us, and reads of 1 MiB, four at a time, come from another
host over four rails of 1 Gbit/s. One rail after the other is
  cut      its device loses its carrier
  silent   nothing arrives any more, and no device shows it
  slow     its rate falls to a tenth
  return   what was cut is there again: until it carries data
The gap is the longest time in which no message came, or no read ended, from just before
the event on. The row 'none' is without an event: what this machine does to the streams by
itself. Gaps are also told without the times in which one of the two processes was without
its core: on two cores the commands that break rails take some milliseconds of them. --json
tells when a rail was noticed to fail, when the stream was on another, when data flowed, and
the longest gap of each. Every message is counted, every byte is checked. It makes a lab of
two hosts (see 'sluice lab --help'), and needs root.

Examples:
  sluice perf failover                       fifty of each
  sluice perf failover --trials 200 --json   more of them, for a program
  sluice perf failover --lab-rails 1,1       two rails
  sluice perf failover --lab mine            the lab 'mine', with the rails it has";

/// Rails of the lab, in Gbit/s.
const RAILS: [f64; 4] = [1.0; 4];
/// How long gaps count after an event.
const WATCH: Duration = Duration::from_millis(1000);
/// Longest time until a rail that has returned carries data.
const RETURN_NS_MAX: u64 = 15_000_000_000;
/// What a rail that carries data has brought; what opens a connection is far less.
const CARRIED_BYTES: u64 = 256 << 10;
/// How often it is looked at whether it does.
const LOOK_NS: u64 = 250_000;

/// What happens to a rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    None,
    Cut,
    Silent,
    Slow,
    Return,
}

const KINDS: [Kind; 5] = [Kind::None, Kind::Cut, Kind::Silent, Kind::Slow, Kind::Return];

/// What the launcher tells the first process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Order {
    /// From now on gaps count; answered with the time.
    Mark,
    /// Answered with the gaps since then, when both streams go on.
    Gaps,
    /// Answered with the time at which the rail has carried so much since this.
    Carried { rail: usize },
    /// Both streams end; answered with what was lost.
    End,
}

/// One kind of event.
#[derive(Debug, Serialize)]
struct Row {
    kind: Kind,
    trials: u32,
    gap_ms: Spread,
    /// The same of messages alone, and of reads alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    packet_gap_ms: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_gap_ms: Option<Spread>,
    /// The gap without the times in which one of the two processes was without its core.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_core_gap_ms: Option<Spread>,
    /// From just before the event until a rail was closed or suspected, and from then on until
    /// the stream was on another rail, and until both streams had brought something.
    #[serde(skip_serializing_if = "Option::is_none")]
    noticed_ms: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resumed_ms: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flowed_ms: Option<Spread>,
    /// The trial with the longest gap.
    #[serde(skip_serializing_if = "Option::is_none")]
    longest: Option<Longest>,
    lost: u64,
    duplicated: u64,
}

/// The longest gap of all trials of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Longest {
    of: &'static str,
    trial: usize,
    gap_ms: f64,
    /// In the trial, without the times in which a process was without its core.
    on_core_ms: f64,
    /// From just before the event.
    begin_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    noticed_ms: Option<f64>,
}

/// Of all trials.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Spread {
    p50: f64,
    p99: f64,
    max: f64,
}

/// The trials of one kind.
#[derive(Debug, Default)]
struct Trials {
    gaps: Vec<Gaps>,
    returns_ns: Vec<u64>,
}

/// Runs the measurement and prints what it found.
pub fn run(args: &FailoverArgs) -> Result<()> {
    if args.launched {
        return watch_as_told();
    }
    let mut progress = Progress::new("failover");
    progress.show("a lab is made");
    let mut lab = args.lab.open(&RAILS)?;
    let rails = lab.gbit_per_s().to_vec();
    ensure!(rails.len() > 1, "a lab of several rails is needed: with one, nothing goes on");
    let words = ["perf", "failover", "--launched"].map(OsString::from);
    let both = lab.start(words.to_vec())?;
    let mut all: Vec<(Kind, Trials)> = KINDS.map(|kind| (kind, Trials::default())).into();
    for trial in 0..args.trials {
        let rail = trial as usize % rails.len();
        progress.within(f64::from(trial) / f64::from(args.trials));
        for (kind, trials) in &mut all {
            once(&mut lab, &both, *kind, rail, trials)?;
        }
    }
    let end: Gaps = ask(&both, Order::End)?;
    both.wait()?;
    progress.clear();
    let rows: Vec<Row> = all.iter().map(|(kind, trials)| row(*kind, trials)).collect();
    report(rows, end, &rails).print(args.json)?;
    ensure!(end.lost == 0 && end.duplicated == 0, "messages were lost, or came twice");
    Ok(())
}

/// One event, and the way back. What was cut before is what returns.
fn once(lab: &mut Lab, both: &Both, kind: Kind, rail: usize, trials: &mut Trials) -> Result<()> {
    let rate = lab.gbit_per_s()[rail];
    if kind == Kind::Return {
        lab.link(rail, "cut")?;
        std::thread::sleep(WATCH);
    }
    let _: u64 = ask(both, Order::Mark)?;
    match kind {
        Kind::None => {}
        Kind::Cut => lab.link(rail, "cut")?,
        Kind::Silent => lab.link(rail, "silent")?,
        Kind::Slow => lab.set_rate(rail, rate / 10.0)?,
        Kind::Return => {
            trials.returns_ns.push(bring_back(lab, both, rail)?);
            trials.gaps.push(ask(both, Order::Gaps)?);
            return Ok(());
        }
    }
    std::thread::sleep(WATCH);
    trials.gaps.push(ask(both, Order::Gaps)?);
    match kind {
        Kind::Slow => lab.set_rate(rail, rate),
        Kind::Cut | Kind::Silent => bring_back(lab, both, rail).map(drop),
        Kind::None | Kind::Return => Ok(()),
    }
}

/// Has a rail return. How long after that it carried data.
fn bring_back(lab: &Lab, both: &Both, rail: usize) -> Result<u64> {
    both.tell(&Order::Carried { rail })?;
    lab.link(rail, "up")?;
    let returned_ns = now_ns();
    let carried_ns: u64 = both.hear()?;
    Ok(carried_ns.saturating_sub(returned_ns))
}

fn ask<T: serde::de::DeserializeOwned>(both: &Both, order: Order) -> Result<T> {
    both.tell(&order)?;
    both.hear()
}

fn row(kind: Kind, trials: &Trials) -> Row {
    let gaps = |of: fn(&Gaps) -> u64| spread(trials.gaps.iter().map(of).collect());
    let is_return = kind == Kind::Return;
    let gap_ms = if is_return {
        spread(trials.returns_ns.clone())
    } else {
        gaps(|gaps| gaps.packets.gap_ns.max(gaps.reads.gap_ns))
    };
    // Without an event, what is noticed is no failure of a rail.
    let has_failed = matches!(kind, Kind::Cut | Kind::Silent | Kind::Slow);
    let times = |of: fn(&Gaps) -> Option<u64>| {
        let all: Vec<u64> = trials.gaps.iter().filter_map(of).collect();
        (has_failed && !all.is_empty()).then(|| spread(all))
    };
    let count = |of: fn(&Gaps) -> u64| trials.gaps.iter().map(of).sum();
    Row {
        kind,
        trials: u32::try_from(trials.gaps.len()).unwrap_or(u32::MAX),
        gap_ms,
        packet_gap_ms: (!is_return).then(|| gaps(|gaps| gaps.packets.gap_ns)),
        read_gap_ms: (!is_return).then(|| gaps(|gaps| gaps.reads.gap_ns)),
        on_core_gap_ms: (!is_return).then(|| gaps(on_core_ns)),
        noticed_ms: times(|gaps| gaps.noticed_ns),
        resumed_ms: times(|gaps| gaps.resumed_ns?.checked_sub(gaps.noticed_ns?)),
        flowed_ms: times(|gaps| gaps.flowed_ns),
        longest: longest(&trials.gaps).filter(|_| !is_return),
        lost: count(|gaps| gaps.lost),
        duplicated: count(|gaps| gaps.duplicated),
    }
}

fn on_core_ns(gaps: &Gaps) -> u64 {
    gaps.packets.on_core_ns.max(gaps.reads.on_core_ns)
}

fn longest(all: &[Gaps]) -> Option<Longest> {
    let both = |gaps: &Gaps| [("messages", gaps.packets), ("reads", gaps.reads)];
    let one = |(trial, gaps): (usize, &Gaps)| both(gaps).map(|(of, gap)| (of, gap, trial, *gaps));
    let all = all.iter().enumerate().flat_map(one);
    let (of, gap, trial, gaps) = all.max_by_key(|(_, gap, ..)| gap.gap_ns)?;
    Some(Longest {
        of,
        trial,
        gap_ms: ms(gap.gap_ns),
        on_core_ms: ms(on_core_ns(&gaps)),
        begin_ms: ms(gap.begin_ns),
        noticed_ms: gaps.noticed_ns.map(ms),
    })
}

fn ms(ns: u64) -> f64 {
    (ns as f64 / 1e4).round() / 1e2
}

/// Of times in nanoseconds, in milliseconds.
fn spread(mut all_ns: Vec<u64>) -> Spread {
    all_ns.sort_unstable();
    let at = |percent: usize| {
        // The time that so many per cent do not exceed.
        let rank = (all_ns.len() * percent).div_ceil(100).max(1) - 1;
        ms(all_ns.get(rank).copied().unwrap_or(0))
    };
    Spread { p50: at(50), p99: at(99), max: at(100) }
}

fn report(rows: Vec<Row>, end: Gaps, rails: &[f64]) -> Report<Row, More> {
    let cell = |spread: Option<Spread>| {
        or_dash(spread.map(|it| format!("{:.2} {:.2} {:.2}", it.p50, it.p99, it.max)))
    };
    let table = Table::of(
        &rows,
        &[
            ("event", &|row| crate::report::word(&row.kind)),
            ("trials", &|row| row.trials.to_string()),
            ("gap ms: p50 p99 max", &|row| cell(Some(row.gap_ms))),
            ("of messages", &|row| cell(row.packet_gap_ms)),
            ("of reads", &|row| cell(row.read_gap_ms)),
            ("while both had a core", &|row| cell(row.on_core_gap_ms)),
            ("lost", &|row| row.lost.to_string()),
            ("twice", &|row| row.duplicated.to_string()),
        ],
    );
    let rates: Vec<String> = rails.iter().map(f64::to_string).collect();
    Report {
        test: "failover",
        rail: Some(RailKind::Tcp.name()),
        rows,
        more: More { rails: rails.to_vec(), lost: end.lost, duplicated: end.duplicated },
        notes: Vec::new(),
        head: format!(
            "failover over tcp: messages and reads over rails of {} Gbit/s, one of which fails",
            rates.join("+")
        ),
        table,
        foot: "\
gap: the longest time without a message, or without the end of a read; of return: until
the rail carries data. none: without any event. While both had a core: without the times
in which others, such as the commands that break rails, had the core of one of the two
"
        .to_owned(),
    }
}

/// What only this measurement says: of all trials together, and after their end.
#[derive(Debug, Serialize)]
struct More {
    rails: Vec<f64>,
    lost: u64,
    duplicated: u64,
}

/// The first process: keeps both streams going, and does what the launcher tells it.
fn watch_as_told() -> Result<()> {
    let opening = Opening { kind: RailKind::Tcp, ..Opening::default() };
    let mut node = session::start(&Placement::choose(None), &opening, &Hosts::launched().start())?;
    let mut feed = Feed::begin(&mut node)?;
    let mut told = Gaps::default();
    let mut next_look_ns = 0;
    loop {
        feed.turn(&mut node)?;
        if now_ns() < next_look_ns {
            continue;
        }
        next_look_ns = now_ns() + LOOK_NS;
        if !node.second()?.has_said()? {
            continue;
        }
        match node.second()?.hear()? {
            Order::Mark => {
                feed.mark();
                node.second()?.tell(&now_ns())?;
            }
            Order::Gaps => {
                feed.catch_up(&mut node)?;
                let gaps = feed.gaps();
                // What was lost since the last answer.
                let (lost, duplicated) = (gaps.lost - told.lost, gaps.duplicated - told.duplicated);
                told = gaps;
                node.second()?.tell(&Gaps { lost, duplicated, ..gaps })?;
            }
            Order::Carried { rail } => {
                let carried_ns = wait_carried(&mut feed, &mut node, rail)?;
                node.second()?.tell(&carried_ns)?;
            }
            Order::End => {
                let gaps = feed.end(&mut node)?;
                node.second()?.tell(&gaps)?;
                return session::stop(node);
            }
        }
    }
}

/// When a rail has carried something since now.
fn wait_carried(feed: &mut Feed, node: &mut Node, rail: usize) -> Result<u64> {
    let begin_ns = now_ns();
    let before = received_bytes(rail)?;
    let mut next_look_ns = begin_ns;
    loop {
        feed.turn(node)?;
        let now_ns = now_ns();
        if now_ns < next_look_ns {
            continue;
        }
        next_look_ns = now_ns + LOOK_NS;
        if received_bytes(rail)?.saturating_sub(before) >= CARRIED_BYTES {
            return Ok(now_ns);
        }
        ensure!(
            now_ns - begin_ns < RETURN_NS_MAX,
            "the rail {} was there again and carried nothing for {} seconds",
            device(rail),
            RETURN_NS_MAX / 1_000_000_000
        );
    }
}

/// What the device of a rail has received.
fn received_bytes(rail: usize) -> Result<u64> {
    let path = format!("/sys/class/net/{}/statistics/rx_bytes", device(rail));
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    text.trim().parse().with_context(|| path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gaps::Watched;

    #[test]
    fn rows_have_the_promised_shape() {
        let watched = |gap_ns| Watched { gap_ns, begin_ns: 0, on_core_ns: gap_ns / 2 };
        let one = |gap_ns| Gaps {
            packets: watched(gap_ns),
            reads: watched(2_000_000),
            noticed_ns: Some(1_000_000),
            resumed_ns: Some(1_500_000),
            ..Gaps::default()
        };
        let cut = Trials { gaps: vec![one(1_000_000), one(9_000_000)], returns_ns: Vec::new() };
        let back = Trials { gaps: vec![one(0)], returns_ns: vec![20_000_000] };
        let rows = vec![row(Kind::Cut, &cut), row(Kind::Return, &back)];
        let report = report(rows, Gaps::default(), &RAILS);
        let json = serde_json::to_value(&report).expect("plain data");
        let (cut, back) = (&json["rows"][0], &json["rows"][1]);
        assert_eq!((&cut["kind"], &cut["trials"]), (&"cut".into(), &2.into()));
        assert_eq!((&cut["gap_ms"]["p50"], &cut["gap_ms"]["p99"]), (&2.0.into(), &9.0.into()));
        assert_eq!((&cut["lost"], &cut["duplicated"]), (&0.into(), &0.into()));
        assert_eq!((&back["kind"], &back["gap_ms"]["p50"]), (&"return".into(), &20.0.into()));
        assert_eq!(&cut["on_core_gap_ms"]["max"], 4.5);
        assert_eq!(
            (&cut["noticed_ms"]["p50"], &cut["resumed_ms"]["p50"]),
            (&1.0.into(), &0.5.into())
        );
        assert_eq!(
            (&cut["longest"]["of"], &cut["longest"]["trial"]),
            (&"messages".into(), &1.into())
        );
        assert!(cut["flowed_ms"].is_null());
        assert!(
            ["packet_gap_ms", "noticed_ms", "longest"].iter().all(|name| back[*name].is_null())
        );
    }

    #[test]
    fn orders_and_answers_are_lines() {
        for order in [Order::Mark, Order::Gaps, Order::Carried { rail: 3 }, Order::End] {
            let line = serde_json::to_string(&order).expect("a line");
            assert_eq!(serde_json::from_str::<Order>(&line).expect("the same"), order);
        }
    }
}
