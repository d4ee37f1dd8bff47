//! Random programs of Portals 4 calls over the engine that ships, in virtual time: each a pure
//! function of its seed, and compared with a model of the specification as it goes.
//!
//! | room | what it holds |
//! |---|---|
//! | `setup` | what a seed draws before the first step |
//! | `model` | the specification, in lists and bytes; it knows nothing of the engine |
//! | `program` `calls` `operations` | what the processes do; each call is made to the engine and to the model |
//! | `world` | processes, network and time; one call of an engine is one step |
//! | `bridge` | the model's words and the engine's |
//! | `judge` | memory and registers, at the end |
//! | `coverage` | what a world has come by |
//! | `trace` | what happened, for people |
//!
//! Programs may lose operations: one that nothing matches is dropped, or disables its portal
//! table entry. What is checked is that each call, event, count and byte is what the
//! specification says, and that in the end nothing is left.

mod bridge;
mod calls;
mod coverage;
mod judge;
mod model;
mod operations;
mod program;
mod setup;
mod trace;
mod world;

#[cfg(test)]
mod bites;
#[cfg(test)]
mod tests;

pub use coverage::Coverage;
pub use trace::Trace;

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
}

/// Runs the program of `seed` and compares everything about it with the model.
///
/// # Panics
/// If anything is wrong; `trace` then ends with what led to it.
pub fn run(seed: u64, trace: &mut Trace) -> Summary {
    program::Program::new(seed, trace).run()
}
