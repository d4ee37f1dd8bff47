//! What happened in a run, for people: the last things, or all of them.

use super::model::Told;
use crate::rails::{FaultCounts, Note};
use sluice_portals::{Command, Event};
use sluice_wire::Parsed;
use std::collections::VecDeque;
use std::fmt;

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
}

#[derive(Clone, Debug)]
struct Entry {
    at_ns: u64,
    who: usize,
    what: What,
}

/// One thing that happened to a process.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// It calls what starts an operation, or what a counter will set off at a threshold.
    Issues(usize, Box<Command>),
    Arms(Option<usize>, Box<Command>, usize, u64),
    /// It appends an entry, which is linked or not.
    Appends(usize, Box<super::model::Entry>, bool),
    Searches(Box<super::model::Entry>, bool, usize),
    /// It unlinks an entry, or cannot.
    Unlinks(usize, bool),
    Switches(usize, bool),
    Cancels(usize),
    Transmits(usize, Parsed, u32),
    Reads(usize, Parsed),
    Moved(usize, u64, bool),
    Transmitted(usize),
    Connected(usize),
    /// It learns that a peer has ended, or has given it up.
    Loses(usize),
    Takes(Box<Event>, Box<Told>),
    /// Something has happened between hosts.
    Rails(Note),
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

    pub(super) fn begin(&mut self, setup: String) {
        *self = Trace { setup, whole: self.whole, ..Trace::default() };
    }

    pub(super) fn add(&mut self, at_ns: u64, who: usize, what: What) {
        if !self.whole && self.entries.len() == TAIL_MAX {
            self.entries.pop_front();
            self.dropped += 1;
        }
        let what_hash = match &what {
            What::Issues(id, _) => (*id as u64) << 8 | 1,
            What::Arms(id, _, ct, threshold) => {
                (id.unwrap_or(0) as u64) << 40 | threshold << 16 | (*ct as u64) << 8 | 2
            }
            What::Appends(id, _, linked) => (*id as u64) << 16 | u64::from(*linked) << 8 | 3,
            What::Searches(_, _, found) => (*found as u64) << 8 | 4,
            What::Unlinks(id, done) => (*id as u64) << 16 | u64::from(*done) << 8 | 5,
            What::Switches(pt, on) => (*pt as u64) << 16 | u64::from(*on) << 8 | 6,
            What::Cancels(ct) => (*ct as u64) << 8 | 7,
            What::Transmits(to, _, slots) => (*to as u64) << 40 | u64::from(*slots) << 8 | 8,
            What::Reads(from, packet) => (*from as u64) << 40 | u64::from(packet.seq.0) << 8 | 9,
            What::Moved(from, bytes, _) => (*from as u64) << 40 | bytes << 8 | 10,
            What::Transmitted(to) => (*to as u64) << 8 | 11,
            What::Connected(peer) => (*peer as u64) << 8 | 12,
            What::Takes(event, _) => event.user_ptr << 16 | (event.kind as u64) << 8 | 13,
            What::Loses(peer) => (*peer as u64) << 8 | 15,
            What::Rails(note) => u64::from(note.is_fault()) << 8 | 14,
        };
        for part in [at_ns, who as u64, what_hash] {
            self.hash = (self.hash ^ part).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23);
        }
        self.entries.push_back(Entry { at_ns, who, what });
    }

    /// Which faults have happened.
    #[must_use]
    pub fn faults(&self) -> FaultCounts {
        self.faults
    }

    pub(super) fn set_faults(&mut self, faults: FaultCounts) {
        self.faults = faults;
    }

    /// Of all that has happened, in order.
    pub(super) fn hash(&self) -> u64 {
        self.hash
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
            What::Issues(id, command) => write!(f, "issues #{id}: {command:?}"),
            What::Arms(id, command, ct, threshold) => {
                write!(f, "will, once counter {ct} is at {threshold}, ")?;
                match id {
                    Some(id) => write!(f, "issue #{id}: {command:?}"),
                    None => write!(f, "do {command:?}"),
                }
            }
            What::Appends(id, entry, true) => write!(f, "appends entry {id}: {}", Brief(entry)),
            What::Appends(id, entry, false) => {
                write!(f, "appends entry {id}, which headers use up: {}", Brief(entry))
            }
            What::Searches(entry, deletes, found) => {
                let what = if *deletes { "takes what it finds" } else { "searches" };
                write!(f, "{what}: {} for {}", found, Brief(entry))
            }
            What::Unlinks(id, true) => write!(f, "unlinks entry {id}"),
            What::Unlinks(id, false) => write!(f, "cannot unlink entry {id}"),
            What::Switches(pt, true) => write!(f, "enables portal table entry {pt}"),
            What::Switches(pt, false) => write!(f, "disables portal table entry {pt}"),
            What::Cancels(ct) => write!(f, "cancels what counter {ct} would set off"),
            What::Transmits(to, parsed, slots) => {
                write!(f, "→ {to}, {slots} slots: {:?}", parsed.packet)
            }
            What::Reads(from, parsed) => write!(
                f,
                "← {from}, number {}, credits {}/{}: {:?}",
                parsed.seq.0, parsed.credits.data, parsed.credits.control, parsed.packet
            ),
            What::Moved(peer, bytes, true) => write!(f, "has moved {bytes} bytes, with {peer}"),
            What::Moved(peer, _, false) => write!(f, "may not reach {peer}'s memory"),
            What::Transmitted(to) => write!(f, "has its memory of a packet for {to} read"),
            What::Connected(peer) => write!(f, "is told that the connection to {peer} is open"),
            What::Loses(peer) => write!(f, "learns that {peer} is gone"),
            What::Takes(_, told) => write!(f, "takes {told:?}"),
            What::Rails(note) => write!(f, "{note}"),
        }
    }
}

/// An entry without its memory.
struct Brief<'a>(&'a super::model::Entry);

impl fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = self.0;
        write!(
            f,
            "portal {}, {:?} list, bits {:#x}/{:#x}, source {:?}, {} bytes, min_free {}, ct {:?}, \
             user_ptr {:#x}, {:?}",
            entry.pt,
            entry.list,
            entry.bits,
            entry.ignore,
            entry.source,
            entry.memory.len(),
            entry.min_free,
            entry.ct,
            entry.user_ptr,
            entry.options
        )
    }
}
