//! What happened in a run, for people: the last things, or all of them.

use sluice_proto::{Completion, ProbeAction, Refused, Send};
use sluice_wire::Parsed;
use std::collections::VecDeque;
use std::fmt;

use super::ladder::Ladder;
use super::matcher::Wanted;
use super::remote::Note as RemoteNote;
use crate::rails::{FaultCounts, Note};

/// How much is kept of what happened.
const TAIL_MAX: usize = 40;

/// See the module.
#[derive(Debug, Default)]
pub struct Trace {
    setup: String,
    entries: VecDeque<Entry>,
    dropped: u64,
    whole: bool,
    hash: u64,
    faults: FaultCounts,
    /// Processes.
    count: usize,
}

/// One thing that happened, to one process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub at_ns: u64,
    pub who: usize,
    pub what: What,
}

/// What it was.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// It sends, or is told to try again.
    Sends(Send, Result<(), Refused>),
    /// It posts a receive of so many bytes.
    Posts(u64, Wanted, u64),
    Probes(u64, Wanted, ProbeAction),
    /// It fetches or drops the message of this probe.
    Takes(u64),
    Drops(u64),
    Cancels(u64),
    /// A packet leaves for another process.
    Transmits(usize, Parsed, u32),
    /// It reads a packet from its mailbox.
    Reads(usize, Parsed),
    /// Bytes of another process were read, or that is forbidden.
    Moved(usize, u64, bool),
    Ended(Completion),
    Phase(u64),
    /// The rail has read the memory of a packet for this process.
    Transmitted(usize),
    /// The process itself ends.
    Dies,
    /// It is told that another has.
    Loses(usize),
    /// It asks for a connection, and is told that it is open.
    Connects(usize),
    Connected(usize),
    /// Something with remote memory.
    Remote(RemoteNote),
    /// Something about rails.
    Rails(Note),
    /// A message of this sender, tag and length comes to its interface.
    Meets(usize, u64, u64),
}

impl Trace {
    /// Keeps the last things that happened.
    #[must_use]
    pub fn tail() -> Trace {
        Trace::default()
    }

    /// Keeps all of them.
    #[must_use]
    pub fn whole() -> Trace {
        Trace { whole: true, ..Trace::default() }
    }

    /// The faults of rails that have happened, also if the run went wrong.
    #[must_use]
    pub fn faults(&self) -> FaultCounts {
        self.faults
    }

    pub(super) fn set_faults(&mut self, faults: FaultCounts) {
        self.faults = faults;
    }

    pub(super) fn begin(&mut self, setup: String, count: usize) {
        *self = Trace { setup, count, whole: self.whole, ..Trace::default() };
    }

    pub(super) fn add(&mut self, entry: Entry) {
        if !self.whole && self.entries.len() == TAIL_MAX {
            self.entries.pop_front();
            self.dropped += 1;
        }
        self.hash_in(&entry);
        self.entries.push_back(entry);
    }

    /// What happened to so many processes, as a ladder.
    #[must_use]
    pub fn ladder(&self) -> String {
        let entries: Vec<&Entry> = self.entries.iter().collect();
        let count = entries.iter().map(|entry| entry.who + 1).max().unwrap_or(1);
        Ladder { count: count.max(self.count), entries: &entries }.to_string()
    }

    /// Whether such a thing has happened, as far as it is kept.
    #[cfg(test)]
    pub(super) fn holds(&self, is_it: impl Fn(&What) -> bool) -> bool {
        self.entries.iter().any(|entry| is_it(&entry.what))
    }

    /// Of all that has happened, in order.
    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    fn hash_in(&mut self, entry: &Entry) {
        let what = match entry.what {
            What::Sends(send, _) => send.context << 8 | 1,
            What::Posts(context, ..) => context << 8 | 2,
            What::Probes(context, ..) => context << 8 | 3,
            What::Takes(context) => context << 8 | 4,
            What::Drops(context) => context << 8 | 5,
            What::Cancels(context) => context << 8 | 6,
            What::Transmits(to, _, slots) => (to as u64) << 40 | u64::from(slots) << 8 | 7,
            What::Reads(from, packet) => (from as u64) << 40 | u64::from(packet.seq.0) << 8 | 8,
            What::Moved(from, bytes, _) => (from as u64) << 40 | bytes << 8 | 9,
            What::Ended(end) => end.context << 8 | 10,
            What::Phase(phase) => phase << 8 | 11,
            What::Transmitted(to) => (to as u64) << 8 | 12,
            What::Dies => 13,
            What::Loses(peer) => (peer as u64) << 8 | 14,
            What::Connects(peer) => (peer as u64) << 8 | 15,
            What::Connected(peer) => (peer as u64) << 8 | 16,
            What::Rails(_) => 17,
            What::Remote(note) => note.hash() << 8 | 19,
            What::Meets(from, _, len) => (from as u64) << 40 | len << 8 | 18,
        };
        for part in [entry.at_ns, entry.who as u64, what] {
            self.hash = (self.hash ^ part).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23);
        }
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.setup)?;
        if self.dropped > 0 {
            writeln!(f, "… {} earlier", self.dropped)?;
        }
        for entry in &self.entries {
            writeln!(f, "{:>9} ns  {}  {}", entry.at_ns, entry.who, entry.what)?;
        }
        Ok(())
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Sends(send, outcome) => {
                let (to, len) = (send.peer.0, send.buf.len);
                write!(
                    f,
                    "sends #{} to {to}: {:?} tag {:#x}, {len} bytes",
                    send.context, send.space, send.tag
                )?;
                for (is, name) in [(send.inject, "inject"), (send.delivery.is_some(), "delivery")] {
                    if is {
                        write!(f, ", {name}")?;
                    }
                }
                match outcome {
                    Ok(()) => Ok(()),
                    Err(error) => write!(f, ": {error}"),
                }
            }
            What::Posts(context, wanted, len) => {
                write!(f, "posts #{context} for {wanted}, {len} bytes")
            }
            What::Probes(context, wanted, action) => {
                write!(f, "probes #{context} for {wanted}: {action:?}")
            }
            What::Takes(context) => write!(f, "receives what #{context} claimed"),
            What::Drops(context) => write!(f, "drops what #{context} claimed"),
            What::Cancels(context) => write!(f, "cancels #{context}"),
            What::Transmits(to, parsed, slots) => {
                write!(f, "→ {to}, {slots} slots: {:?}", parsed.packet)
            }
            What::Reads(from, parsed) => {
                let (seq, credits) = (parsed.seq.0, parsed.credits);
                write!(
                    f,
                    "← {from}, number {seq}, credits {}/{}: {:?}",
                    credits.data, credits.control, parsed.packet
                )
            }
            What::Moved(from, bytes, true) => {
                write!(f, "has read {bytes} bytes of {from}'s memory")
            }
            What::Moved(from, _, false) => write!(f, "may not read {from}'s memory"),
            What::Ended(end) => {
                let (kind, context, len, tag) = (end.kind, end.context, end.len, end.tag);
                let peer = end.peer.map(|peer| peer.0);
                write!(
                    f,
                    "{kind:?} #{context} ends: {len} bytes, tag {tag:#x}, peer {peer:?}, {:?}",
                    end.outcome
                )
            }
            What::Phase(phase) => write!(f, "phase {phase} begins"),
            What::Transmitted(to) => write!(f, "has its memory of a packet for {to} read"),
            What::Dies => f.write_str("ends, unnoticed"),
            What::Connects(peer) => write!(f, "asks for the connection to {peer}"),
            What::Connected(peer) => write!(f, "is told that the connection to {peer} is open"),
            What::Rails(note) => write!(f, "{note}"),
            What::Remote(note) => write!(f, "{note}"),
            What::Meets(from, tag, len) => {
                write!(f, "its interface has {len} bytes of {from}, tag {tag:#x}")
            }
            What::Loses(peer) => write!(f, "is told that {peer} has ended"),
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of ", self.space)?;
        match self.source {
            Some(source) => write!(f, "{source}")?,
            None => f.write_str("any")?,
        }
        write!(f, ", tag {:#x}/{:#x}", self.tag, self.ignore)
    }
}
