//! Remote memory in the programs of the swarm: regions that processes expose, and what others
//! write, read and combine there.
//!
//! | file | what it holds |
//! |---|---|
//! | `setup` | what a seed draws of it |
//! | `operations` | what processes do |
//! | `regions` | what must be in each region, byte by byte, and what is done with it now |
//! | `ways` | in which order packets of a pair must come |
//! | `books` | operations under way, and what becomes of each when its packet is read |
//! | `judge` | whether what ends is what must end, and what is left at rest |
//! | `coverage` | what a world has come by |
//!
//! Programs are legal: bytes that are written are left alone by all others until that has ended,
//! bytes that are read are only read, and values are combined with nothing but other values, of
//! any integer type. What is asked wrongly (no such region, beyond its end, without the right,
//! hidden meanwhile) is asked too, and must be refused.

mod books;
mod coverage;
mod judge;
mod operations;
mod regions;
mod setup;
mod ways;

#[cfg(test)]
mod tests;

pub(super) use books::Remote;
pub use coverage::RemoteCoverage;
pub use setup::RemoteSetup;

use sluice_proto::{Deed, Refused};
use std::fmt;

/// Something that a process does with remote memory, for people.
#[derive(Clone, Copy, Debug)]
pub(super) enum Note {
    /// It exposes a region of this key and length, or there is no room for it.
    Exposes(u64, u64, bool),
    /// It exposes the region of this key no more.
    Hides(u64),
    /// It begins an operation.
    Begins(Begun),
}

/// What an operation is, of the first of its parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    pub context: u64,
    pub deed: Deed,
    pub peer: usize,
    pub parts: usize,
    pub key: u64,
    pub offset: u64,
    pub len: u64,
    pub fence: bool,
    pub inject: bool,
    pub outcome: Result<(), Refused>,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Exposes(key, len, true) => write!(f, "exposes region {key} of {len} bytes"),
            Note::Exposes(_, len, false) => write!(f, "has no room for a region of {len} bytes"),
            Note::Hides(key) => write!(f, "hides region {key}"),
            Note::Begins(begun) => begun.fmt(f),
        }
    }
}

impl fmt::Display for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Begun { context, deed, peer, parts, key, offset, len, .. } = self;
        write!(
            f,
            "begins #{context}, {deed:?} of {len} bytes at {offset} of region {key} of {peer}"
        )?;
        if *parts > 1 {
            write!(f, ", first of {parts} parts")?;
        }
        for (is, name) in [(self.fence, "fence"), (self.inject, "inject")] {
            if is {
                write!(f, ", {name}")?;
            }
        }
        match self.outcome {
            Ok(()) => Ok(()),
            Err(error) => write!(f, ": {error}"),
        }
    }
}

impl Note {
    /// What of it goes into the hash of a run.
    pub fn hash(&self) -> u64 {
        match self {
            Note::Exposes(key, ..) => *key,
            Note::Hides(key) => key << 1,
            Note::Begins(begun) => begun.context << 1 | u64::from(begun.outcome.is_ok()),
        }
    }
}
