//! How a node gets at its endpoint: it has it alone, or shares it with a thread that makes
//! progress while the node does not call.
//!
//! A node is made for one of the two at compile time, so that one that is alone measures
//! no lock.

use crate::cores::{pin, unpin};
use crate::read::Reader;
use anyhow::{Context as _, Result};
use sluice_runtime::lock::Lock;
use sluice_runtime::{Context, Holds, Shared, ThreadOptions};
use std::sync::Arc;

/// What leads to an endpoint.
pub trait Access: Sized {
    /// Takes an endpoint that was just opened.
    fn of(context: Context<Reader>) -> Self;

    /// Does something with it.
    fn with<R>(&mut self, then: impl FnOnce(&mut Context<Reader>) -> R) -> R;

    /// Asks it something.
    fn look<R>(&self, then: impl FnOnce(&Context<Reader>) -> R) -> R;
}

impl Access for Context<Reader> {
    fn of(context: Context<Reader>) -> Context<Reader> {
        context
    }

    #[inline(always)]
    fn with<R>(&mut self, then: impl FnOnce(&mut Context<Reader>) -> R) -> R {
        then(self)
    }

    #[inline(always)]
    fn look<R>(&self, then: impl FnOnce(&Context<Reader>) -> R) -> R {
        then(self)
    }
}

/// What the lock leads to.
#[derive(Debug)]
struct Held(Context<Reader>);

impl Holds for Held {
    type Polled = Context<Reader>;

    fn polled(&self) -> Option<&Context<Reader>> {
        Some(&self.0)
    }

    fn polled_mut(&mut self) -> Option<&mut Context<Reader>> {
        Some(&mut self.0)
    }
}

/// An endpoint that a thread may share, as under an MPI that asks for one.
#[derive(Debug)]
pub struct Attended {
    shared: Arc<Shared<Held>>,
}

impl Attended {
    /// Starts the thread. It runs where the system lets it, or on an idle core if there
    /// is one; the calling thread goes back to `core`.
    ///
    /// # Errors
    /// The system's, if it has no thread to give.
    pub fn start_thread(&self, core: Option<usize>) -> Result<()> {
        let options = ThreadOptions { name: "perf-progress", pin: Some(|_| {}) };
        if core.is_some() {
            // A thread begins where the one that starts it may run.
            unpin();
        }
        let started = self.shared.start_thread(Arc::clone(&self.shared), |it| it, options);
        if let Some(core) = core {
            pin(core)?;
        }
        started.context("the system gives no thread")
    }
}

impl Access for Attended {
    fn of(context: Context<Reader>) -> Attended {
        use sluice_runtime::Polled as _;
        let waker = context.waker();
        let shared = Arc::new(Shared::new(Lock::new(Held(context))));
        shared.open(waker);
        Attended { shared }
    }

    #[inline]
    fn with<R>(&mut self, then: impl FnOnce(&mut Context<Reader>) -> R) -> R {
        self.shared.call(|held| then(&mut held.0)).expect("no thread has panicked")
    }

    #[inline]
    fn look<R>(&self, then: impl FnOnce(&Context<Reader>) -> R) -> R {
        self.shared.call(|held| then(&held.0)).expect("no thread has panicked")
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        self.shared.close();
        if let Some(thread) = self.shared.take_thread() {
            thread.join();
        }
    }
}
