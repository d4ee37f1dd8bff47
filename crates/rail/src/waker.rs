//! What a sleeping thread waits on.
//!
//! A thread that has nothing to do sleeps until somebody gives it something: a peer
//! that writes, or another thread of the process. What it waits on follows from the
//! rails: a doorbell in shared memory where that is the only one. Who sleeps and who
//! wakes knows this trait alone.

use std::fmt::Debug;

/// What a thread that sleeps wants to be woken by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Haste {
    /// The first byte that comes: the program waits.
    FirstByte,
    /// As much as is worth taking a core for it, or what has come within a millisecond: the
    /// program does something else.
    WorthAWake,
}

/// Wakes threads of this process that sleep until there is something to do.
pub trait Waker: Clone + Debug + Send + Sync + 'static {
    /// From the call on every wake counts. Then asks `rest_ns` for how long there is
    /// nothing to do, in nanoseconds, and sleeps until somebody wakes, or has since the
    /// call began, at most for so long; for zero not at all.
    ///
    /// It may return early, and does so often enough that the end of a peer, for which
    /// nobody wakes, is noticed soon.
    fn sleep(&self, rest_ns: impl FnOnce() -> u64);

    /// Wakes all threads that sleep by this or are about to.
    fn wake(&self);
}
