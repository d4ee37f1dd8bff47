//! The second process: it does what the first one tells it.

use crate::measured::NiKind;
use crate::memory::Gathered;
use crate::node::Node;
use crate::other::{Other, read_line, write_line};
use crate::pace::Receivers;
use crate::portals;
use crate::rail::{Opening, RailKind, choice};
use crate::raw::Raw;
use crate::recover;
use crate::remote;
use crate::step::Step;
use crate::{alltoall, behind, feed, flood, latency, overlap, stream, verify};
use anyhow::{Context, Result, bail};
use clap::Args;
use sluice_rail::shm::{BulkKind, CreditKind};
use sluice_runtime::RailOptions;

/// What the second process is started with. Not for people.
#[derive(Debug, Args)]
pub struct PeerArgs {
    /// The first process, if it is this one's parent.
    #[arg(long)]
    parent: Option<u32>,
    /// The rail.
    #[arg(long, value_enum, default_value_t)]
    rail: RailKind,
    /// The core to run on.
    #[arg(long)]
    core: Option<usize>,
    /// How large messages move.
    #[arg(long, value_parser = choice::<BulkKind>(), default_value = "auto")]
    bulk: BulkKind,
    /// How the room for messages is shared.
    #[arg(long, value_parser = choice::<CreditKind>(), default_value = "dynamic")]
    credits: CreditKind,
    /// Most memory for messages not yet matched.
    #[arg(long, default_value_t = RailOptions::UNEXPECTED_BYTES)]
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
    /// The part in a measurement of recovery, if it is one.
    #[arg(long, value_enum)]
    recover: Option<recover::Part>,
    /// Whether this is a rank of an all-to-all.
    #[arg(long)]
    alltoall: bool,
}

/// The whole life of the second process.
pub fn run_peer(args: &PeerArgs) -> Result<()> {
    let first = Other::first(args.parent)?;
    if let Some(part) = args.recover {
        return recover::serve(part);
    }
    if args.alltoall {
        return alltoall::serve(first);
    }
    if let Some(kind) = args.ni {
        return portals::serve(args.core, kind, args.bytes, first);
    }
    let mailbox = RailOptions {
        bulk: args.bulk,
        credits: args.credits,
        unexpected_bytes: args.unexpected,
        ..RailOptions::default()
    };
    let opening = Opening { kind: args.rail, mailbox, ..Opening::default() };
    let mut node = Node::open(args.core, &opening, first, args.yields)?;
    node.meet(&read_line::<Vec<u8>>(std::io::stdin(), true)?)?;
    write_line(std::io::stdout(), &node.address())?;
    let (mut receivers, mut raw) = (None, None);
    let mut gathered = Gathered::default();
    loop {
        match node.next_step()? {
            Step::Reserve { size } => {
                node.reserve(size);
                node.answer(0)?;
            }
            Step::ReservePlaces { bytes } => {
                node.reserve_received(bytes);
                node.answer(0)?;
            }
            Step::Verify { size, seed, at } => verify::second(&mut node, size, seed, at)?,
            Step::PingPong { size, count } => latency::second(&mut node, size, count)?,
            Step::Stream { size, count, window, places } => {
                stream::second(&mut node, size, window, count, places)?;
            }
            Step::RawOpen => raw = Some(Raw::serve(&mut node)?),
            Step::RawPingPong { size, count } => {
                let raw = raw.as_mut().context("no plain connection")?;
                node.answer(0)?;
                raw.pong(size, count)?;
            }
            Step::RawStream { window_bytes, count } => {
                let raw = raw.as_mut().context("no plain connection")?;
                node.answer(0)?;
                raw.drain(window_bytes, count)?;
            }
            Step::Expose => {
                let key = node.expose();
                node.answer(key)?;
            }
            Step::Feed { size, window, every_ns } => {
                feed::second(&mut node, size, window, every_ns)?;
            }
            Step::Behind { size, count, bulk_bytes, window } => {
                behind::second(&mut node, size, count, bulk_bytes, window)?;
            }
            Step::Gather { count } => gathered.open(&mut node, args.rail, count)?,
            Step::Echo => gathered.echo(&mut node)?,
            Step::EndFeed => bail!("the end of what has not begun"),
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
            Step::Share => {
                node.share()?;
                node.answer(0)?;
            }
            Step::Away { for_ns } => remote::away(&mut node, for_ns)?,
            Step::Stop => return Ok(()),
        }
    }
}
