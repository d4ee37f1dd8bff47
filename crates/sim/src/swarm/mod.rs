//! Many small random programs over the whole stack, in virtual time: each a
//! pure function of its seed, and everything about it is checked.
//!
//! | room | what it holds |
//! |---|---|
//! | `setup` `draw` | what a seed draws: processes, mailboxes, network, styles |
//! | `remote` | regions of memory, and what others write, read and combine there |
//! | `refusals` | messages that were refused, and what that may change: nothing |
//! | `program` `operations` | what the processes do, phase by phase, each drained at its end |
//! | `world` | processes, network and time; one call of a machine is one step |
//! | `events` `carry` | what happens, and what machines have asked for |
//! | `losses` | who has ended, and who knows |
//! | `apart` | processes on different hosts, and the rails between them (`crate::rails`) |
//! | `by_nic` | interfaces that match messages (`crate::nic`) |
//! | `deaths` | what the end of a process does to the others |
//! | `troubles` | what befalls processes on any host |
//! | `cut` `shrink` | a world of which something is left out, and the least that still fails |
//! | `coverage` | what a world has come by |
//! | `books` | credits, slots and memory, looked at after every step |
//! | `many` `pieces` | buffers that take many messages, and that lie in pieces |
//! | `matcher` `judge` | what must match, and whether that is what ended |
//! | `trace` `ladder` | what happened, for people |
//!
//! Every program is legal: whatever is sent is received in the end, so whatever
//! the buffers, everything must end. If a process ends early, so must what was
//! asked of it, and nothing else may go wrong. What is wrong panics; whoever runs a swarm
//! catches that, and the trace says how it came.

mod apart;
mod books;
mod by_nic;
mod carry;
mod coverage;
mod cut;
mod deaths;
mod draw;
mod events;
mod judge;
mod ladder;
mod losses;
mod many;
mod matcher;
mod operations;
mod pieces;
mod program;
mod refusals;
mod remote;
mod setup;
mod shares;
mod shrink;
mod trace;
mod troubles;
mod world;

#[cfg(test)]
mod bites;
#[cfg(test)]
mod tests;

pub use crate::rails::FaultCounts;
pub(crate) use books::Books;
pub use coverage::Coverage;
pub use cut::{Cut, CutError, Size};
pub(crate) use draw::Draw;
pub(crate) use losses::Losses;
pub use remote::RemoteCoverage;
pub(crate) use shrink::reduce;
pub use shrink::shrink;
pub use trace::Trace;
pub(crate) use world::slots_max;

/// What became of one program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Processes.
    pub processes: u64,
    /// Messages sent, received and compared.
    pub messages: u64,
    /// Those that had to wait for credits.
    pub waited: u64,
    /// Those taken from their senders' queues, because somebody asked.
    pub asked_for: u64,
    /// Messages refused for a while.
    pub refused: u64,
    /// Probes that found something.
    pub found: u64,
    /// Calls into the machines, each with a look at the books after it.
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

/// Runs the program of `seed` and checks everything about it.
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
