//! The thread that makes progress without the program's calls, from its start to its
//! end. What it does is in `progress`.
//!
//! A fork has no copy of it, perhaps not even a free lock ([`ProgressThread::here`]). It
//! handles no signal but those of its own faults, which the rail answers.

use sluice_rail::signals::with_signals_blocked;
use std::thread::{self, JoinHandle};

/// Far more than its calls take.
const STACK_BYTES: usize = 256 << 10;

/// A thread at work.
#[derive(Debug)]
pub struct ProgressThread {
    thread: JoinHandle<()>,
    /// The process that it is a thread of.
    pid: u32,
}

impl ProgressThread {
    /// Starts it.
    ///
    /// # Errors
    /// The system's, if it has no thread to give.
    pub fn start(
        name: &str,
        run: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<ProgressThread> {
        let build = thread::Builder::new().name(name.into()).stack_size(STACK_BYTES);
        let thread = with_signals_blocked(|| build.spawn(run))?;
        Ok(ProgressThread { thread, pid: std::process::id() })
    }

    /// Itself, if it is a thread of this process and not of the one that this is
    /// a fork of.
    #[must_use]
    pub fn here(self) -> Option<ProgressThread> {
        if self.pid == std::process::id() {
            return Some(self);
        }
        // There is no such thread here, not even to be let go.
        std::mem::forget(self);
        None
    }

    /// Waits for its end, after what it works on was closed, without the lock.
    pub fn join(self) {
        // A panic of it has been reported, and has poisoned the lock.
        let _ = self.thread.join();
    }
}
