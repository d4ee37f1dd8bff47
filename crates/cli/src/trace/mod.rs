//! `sluice trace`: the last things that happened to the processes of a job, as a ladder of
//! their messages. The processes have written them as `FI_SLUICE_TRACE` asks.

mod file;
mod ladder;

use anyhow::{Result, bail, ensure};
use clap::Args;
use file::Traced;
use std::io::Write as _;
use std::path::PathBuf;

/// Arguments of `sluice trace`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  FI_SLUICE_TRACE=/tmp/traces mpirun -n 2 ./program
  sluice trace /tmp/traces                 the messages that were sent
  sluice trace /tmp/traces --message 7     the ladder of one of them
  sluice trace /tmp/traces --peer 0        all that happened to rank 0 and with it

Each process keeps the last 8192 things that happened to it, and writes them when its
endpoint is closed. Times are of one clock on each host; those of two hosts cannot be
compared, so each host has a list or ladder of its own.")]
pub struct TraceArgs {
    /// The directory that FI_SLUICE_TRACE named
    dir: PathBuf,
    /// Show the ladder of the message of this number
    #[arg(long, value_name = "N", conflicts_with = "peer")]
    message: Option<usize>,
    /// Show the ladder of all that happened to this rank, or process if there are no ranks
    #[arg(long, value_name = "RANK")]
    peer: Option<u32>,
}

/// Shows them.
pub fn run(args: &TraceArgs) -> Result<()> {
    let all = file::read_dir(&args.dir)?;
    let mut hosts: Vec<Vec<Traced>> = Vec::new();
    for traced in all {
        match hosts.iter_mut().find(|host| host[0].is_of_host_of(&traced)) {
            Some(host) => host.push(traced),
            None => hosts.push(vec![traced]),
        }
    }
    let mut numbered = 0;
    let mut shown = 0;
    let mut out = std::io::stdout().lock();
    for host in &hosts {
        let text = match (args.message, args.peer) {
            (Some(number), _) => number
                .checked_sub(numbered)
                .filter(|number| *number > 0)
                .and_then(|number| ladder::of_message(host, number, numbered)),
            (None, Some(peer)) => ladder::of_peer(host, peer),
            (None, None) => Some(ladder::list(host, numbered)),
        };
        numbered += ladder::count(host);
        if let Some(text) = text {
            if hosts.len() > 1 {
                writeln!(out, "host {}", host[0].host)?;
            }
            write!(out, "{text}")?;
            shown += 1;
        }
    }
    if let (0, Some(number)) = (shown, args.message) {
        bail!("there is no message {number}; there are {numbered}");
    }
    ensure!(shown > 0, "there is no trace of rank or process {}", args.peer.unwrap_or(0));
    Ok(())
}
