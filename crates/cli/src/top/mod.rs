//! `sluice top`: what the processes of this user do over Sluice, live.

mod document;
mod process;
mod view;

use anyhow::{Context, Result};
use clap::Args;
use process::{Seen, State, see};
use sluice_rail::shm::Watcher;
use sluice_runtime::Settings;
use sluice_text::parse_seconds;
use std::io::{self, IsTerminal, Write as _};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

/// Arguments of `sluice top`.
#[derive(Debug, Args)]
#[command(after_help = "\
A line for each endpoint of a process: messages and bytes sent in a second, packets over
shared memory in a second, messages that have no receive yet and the most memory of such
messages, messages that wait for credits of their receivers, and how long the oldest of
them has waited. A line below names receivers that others wait for. With --peers there is
a line for each pair as well.

Nothing is counted for this: processes that nobody watches look for who does ten times a
second. A process that is not in the library, because it computes, shows nothing and is
silent. Processes of other users and of other hosts are not seen. A Portals program has
packets and no messages.

The exit status is 1 if there is no process to see.

Examples:
  sluice top                  until the last process has ended
  sluice top --peers 4711     one process, and its peers
  sluice top --json           one snapshot, with rates over the interval, as JSON")]
pub struct TopArgs {
    /// Only these processes [default: all of this user]
    #[arg(value_name = "PID")]
    pids: Vec<u32>,
    /// Show the peers of each process
    #[arg(long)]
    peers: bool,
    /// Seconds between two views, 0.2 to 600
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// End after so many views
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// Print one snapshot as JSON
    #[arg(long, conflicts_with_all = ["peers", "count"])]
    json: bool,
}

/// For how long processes are waited for that have not shown anything yet.
const PATIENCE: Duration = Duration::from_millis(1500);
/// Time between two looks meanwhile.
const LOOK_PERIOD: Duration = Duration::from_millis(20);
/// Time between two requests to go on.
const ASK_PERIOD: Duration = Duration::from_millis(500);

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = parse_seconds(text)?;
    if (0.2..=600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("allowed are 0.2 to 600 seconds".into())
    }
}

/// Watches.
pub fn run(args: &TopArgs) -> Result<ExitCode> {
    let settings = Settings::of_environment();
    let watcher = Watcher::begin(&settings.rail.shm_dir).context("processes cannot be watched")?;
    let mut seen = first_look(&watcher, &args.pids);
    let mut views = 0;
    let views_max = if args.json { Some(1) } else { args.count };
    while !seen.is_empty() && views_max.is_none_or(|max| views < max) {
        pause(&watcher, args.interval);
        let before = std::mem::replace(&mut seen, see(&watcher, &args.pids));
        for now in &mut seen {
            now.rate(&before);
        }
        if !args.json && !seen.is_empty() {
            show(&seen, args.peers)?;
        }
        views += u32::from(!seen.is_empty());
    }
    if args.json {
        writeln!(io::stdout().lock(), "{}", view::to_json(&seen))?;
    } else if views == 0 {
        eprintln!("sluice: no process of this user has Sluice open");
    }
    Ok(if views == 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What all show once each of them has shown something, or once patience ends.
fn first_look(watcher: &Watcher, pids: &[u32]) -> Vec<Seen> {
    let begin = Instant::now();
    loop {
        let seen = see(watcher, pids);
        let is_whole = seen.iter().all(|one| one.state != State::Silent);
        if is_whole || begin.elapsed() >= PATIENCE {
            return seen;
        }
        pause(watcher, LOOK_PERIOD);
    }
}

/// Waits, and goes on asking.
fn pause(watcher: &Watcher, time: Duration) {
    let end = Instant::now() + time;
    loop {
        watcher.go_on();
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(ASK_PERIOD));
    }
}

/// A view on the terminal takes the place of the one before.
fn show(seen: &[Seen], peers: bool) -> Result<()> {
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        write!(out, "\x1b[H\x1b[2J")?;
    }
    writeln!(out, "{}", view::to_text(seen, peers))?;
    out.flush()?;
    Ok(())
}
