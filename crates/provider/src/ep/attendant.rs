//! The thread of an endpoint: progress without the program's calls.
//!
//! What it does and when is said in [`sluice_rail::attend`]. It takes the
//! endpoint's lock as a call does, turns away where a call has it, and lets go
//! when a call wants it. It takes in what arrives; what has ended stays with the
//! endpoint until the program reads its queue, so the program is told of nothing
//! outside of its own calls.
//!
//! It begins when the endpoint is enabled and has ended when `fi_close` returns.
//! It has a reference of its own to what it works on. A fork has no copy of it,
//! perhaps not even a free lock: there an endpoint is closed without a look at
//! it. It handles no signal but those of its own faults, which the rail answers.

use super::EpCore;
use crate::engine::Doorbell;
use crate::lock::Unavailable;
use crate::log::{self, About};
use sluice_rail::attend::{Attended, Looked, attend};
use sluice_rail::cores::{NoCore, Pinned, Search};
use sluice_rail::signals::with_signals_blocked;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

/// Far more than its calls take.
const STACK_BYTES: usize = 256 << 10;

/// A thread at work.
#[derive(Debug)]
pub struct Attendant {
    thread: JoinHandle<()>,
    doorbell: Doorbell,
    /// The process that it is a thread of.
    pid: u32,
}

impl Attendant {
    /// Starts it. If the caller has the endpoint's lock, the thread waits for it.
    ///
    /// # Errors
    /// The system's, if it has no thread to give.
    pub fn start(core: &Arc<EpCore>, doorbell: Doorbell) -> std::io::Result<Attendant> {
        let search = Search::begin();
        let mut work = Work {
            core: Arc::clone(core),
            doorbell: doorbell.clone(),
            search: None,
            pinned: None,
            is_broken: false,
        };
        match search {
            Ok(search) => work.search = Some(search),
            Err(why) => work.tell_not_pinned(why),
        }
        let build = thread::Builder::new().name("sluice".into()).stack_size(STACK_BYTES);
        let core = Arc::clone(core);
        let thread =
            with_signals_blocked(|| build.spawn(move || attend(&core.attention, &mut work)))?;
        Ok(Attendant { thread, doorbell, pid: std::process::id() })
    }

    /// Itself, if it is a thread of this process and not of the one that this is
    /// a fork of.
    pub fn here(self) -> Option<Attendant> {
        if self.pid == std::process::id() {
            return Some(self);
        }
        // There is no such thread here, not even to be let go.
        std::mem::forget(self);
        None
    }

    /// Ends it. The caller does not have the endpoint's lock.
    pub fn end(self, core: &EpCore) {
        core.is_closed.store(true, Ordering::SeqCst);
        self.doorbell.ring();
        core.attention.look_again();
        // A panic of it has been reported, and has poisoned the endpoint.
        let _ = self.thread.join();
    }
}

/// What the thread works on.
struct Work {
    core: Arc<EpCore>,
    doorbell: Doorbell,
    /// Until it is known which core it gets.
    search: Option<Search>,
    /// Held for as long as the thread runs there.
    pinned: Option<Pinned>,
    /// A panic has poisoned the endpoint.
    is_broken: bool,
}

impl Attended for Work {
    fn is_closed(&self) -> bool {
        self.is_broken || self.core.is_closed.load(Ordering::SeqCst)
    }

    fn is_waited_at(&self) -> bool {
        false
    }

    fn look(&mut self) -> Looked {
        match self.core.state.try_lock() {
            Ok(mut state) => match state.attend() {
                0 => Looked::Nothing,
                _ => Looked::Something,
            },
            Err(Unavailable::Held) => Looked::Held,
            Err(Unavailable::Poisoned) => {
                self.is_broken = true;
                Looked::Nothing
            }
        }
    }

    fn rest_ns(&mut self) -> u64 {
        match self.core.state.try_lock() {
            Ok(mut state) => state.engine.as_mut().map_or(0, |engine| engine.rest_ns()),
            // A call that is there now may leave something behind, and may have
            // asked before the thread said that it sleeps.
            Err(_) => 0,
        }
    }

    fn doorbell(&self) -> Option<Doorbell> {
        Some(self.doorbell.clone())
    }

    fn on_turn(&mut self) {
        let Some(search) = self.search.take_if(|search| search.is_due()) else { return };
        match search.finish() {
            Ok(pinned) => {
                log::info(About::Endpoint, || {
                    format!("the progress thread runs on core {}", pinned.core)
                });
                self.pinned = Some(pinned);
            }
            Err(why) => self.tell_not_pinned(why),
        }
    }
}

impl Work {
    fn tell_not_pinned(&self, why: NoCore) {
        log::info(About::Endpoint, || format!("the progress thread is not bound to a core: {why}"));
    }
}
