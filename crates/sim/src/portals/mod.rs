//! Random programs of Portals 4 calls over the engine that ships, in virtual time: each a pure
//! function of its seed, and compared with a model of the specification as it goes.
//!
//! | room | what it holds |
//! |---|---|
//! | `setup` | what a seed draws before the first step |
//! | `model` | the specification, in lists and bytes; it knows nothing of the engine |
//! | `program` `calls` `operations` | what the processes do; each call is made to the engine and to the model |
//! | `world` | processes, network and time; one call of an engine is one step |
//! | `apart` | processes on different hosts, the rails between them (`crate::rails`), stops |
//! | `deaths` | what the end of a process does to the others |
//! | `bridge` | the model's words and the engine's |
//! | `recovery` | what recovery from exhaustion may do to operations that are refused |
//! | `judge` | memory and registers, at the end |
//! | `cut` | a world of which something is left out, and the least that still fails |
//! | `coverage` | what a world has come by |
//! | `trace` | what happened, for people |
//!
//! Programs may lose operations: one that nothing matches is dropped, or disables its portal
//! table entry. Processes end, and hosts are cut off for so long that peers are given up: what
//! their survivors have under way ends then, each operation once. What is checked is that each call, event, count and byte is what the
//! specification says, and that in the end nothing is left.

mod apart;
mod bridge;
mod calls;
mod coverage;
mod cut;
mod deaths;
mod judge;
mod model;
mod operations;
mod program;
mod recovery;
mod setup;
mod trace;
mod world;

#[cfg(test)]
mod bites;
#[cfg(test)]
mod tests;

pub(crate) use bridge::combined;
pub use coverage::Coverage;
pub use cut::{Cut, CutError, shrink};
pub use trace::Trace;

use crate::rails::FaultCounts;

/// What became of one program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Processes.
    pub processes: u64,
    /// Operations that were started.
    pub operations: u64,
    /// Entries that were appended.
    pub entries: u64,
    /// Events that were told, and due.
    pub events: u64,
    /// Calls into the engines, each with a look at the books after it.
    pub steps: u64,
    /// Virtual time that it took, in nanoseconds.
    pub time_ns: u64,
    /// Of all that happened, in order.
    pub hash: u64,
    /// What it has come by.
    pub coverage: Coverage,
    /// The faults of rails that it has survived.
    pub faults: FaultCounts,
}

/// Runs the program of `seed` and compares everything about it with the model.
///
/// # Panics
/// If anything is wrong; `trace` then ends with what led to it.
pub fn run(seed: u64, trace: &mut Trace) -> Summary {
    run_cut(seed, &Cut::default(), trace)
}

/// The same of what a cut leaves of it.
///
/// # Panics
/// If anything is wrong; `trace` then ends with what led to it.
pub fn run_cut(seed: u64, cut: &Cut, trace: &mut Trace) -> Summary {
    program::Program::new(seed, cut, trace).run()
}
