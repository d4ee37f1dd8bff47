//! The interfaces of this process: four at most, one for each pair of matching
//! or not, logical or physical, each in a slot with a lock of its own.
//!
//! The slots are static, so that a handle leads to its interface by an index,
//! whatever other threads do meanwhile; each opening of an interface has a
//! generation, so that handles of an earlier one are stale.

use crate::codes::Code;
use crate::consts::PTL_TIME_FOREVER;
use crate::handle::INTERFACES;
use crate::ni_state::{Engine, NiState};
use sluice_runtime::lock::{Guard, Lock};
use sluice_runtime::{Context, Holds, Polled, Shared, ThreadOptions, Unmet};
use std::ffi::c_uint;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// One interface, open or not.
#[derive(Debug)]
pub(crate) struct NiSlot {
    shared: Shared<Place>,
    /// It is open and has no thread.
    is_untended: AtomicBool,
}

/// What the lock of a slot leads to: the interface, while it is open.
#[derive(Debug)]
pub(crate) struct Place(pub Option<NiState>);

impl Holds for Place {
    type Polled = Context<Engine>;

    #[inline]
    fn polled(&self) -> Option<&Context<Engine>> {
        self.0.as_ref().map(|state| &state.context)
    }

    #[inline]
    fn polled_mut(&mut self) -> Option<&mut Context<Engine>> {
        self.0.as_mut().map(|state| &mut state.context)
    }
}

static SLOTS: [NiSlot; INTERFACES] = [const { NiSlot::new() }; INTERFACES];
static ABORTED: AtomicBool = AtomicBool::new(false);
static POLLED: OnceLock<bool> = OnceLock::new();

/// The slot of this index.
pub(crate) fn slot_at(index: usize) -> Option<&'static NiSlot> {
    SLOTS.get(index)
}

/// All slots.
pub(crate) fn slots() -> &'static [NiSlot] {
    &SLOTS
}

/// Whether `PtlAbort` was called.
#[inline]
fn is_aborted() -> bool {
    ABORTED.load(Ordering::Relaxed)
}

/// Ends every wait of this process, now and from now on.
pub(crate) fn abort() {
    ABORTED.store(true, Ordering::SeqCst);
    for slot in slots() {
        slot.shared.wake();
    }
}

/// Waits are possible again.
pub(crate) fn clear_abort() {
    ABORTED.store(false, Ordering::SeqCst);
}

/// Whether the program drives progress itself (`PTL_PROGRESS=poll`).
pub(crate) fn is_polled() -> bool {
    *POLLED.get_or_init(|| std::env::var_os("PTL_PROGRESS").is_some_and(|value| value == "poll"))
}

/// Takes in what has arrived at interfaces that have no thread, for a program that waits
/// elsewhere. Says how much there was; `None` if each has one.
pub(crate) fn poll_untended() -> Option<usize> {
    // Nothing comes to an interface that a panic has put out of service.
    let poll = |slot: &NiSlot| {
        let polled = slot.shared.call(|place| place.polled_mut().map_or(0, Polled::poll));
        polled.unwrap_or(0)
    };
    let untended = slots().iter().filter(|slot| slot.is_untended.load(Ordering::Acquire));
    untended.map(poll).reduce(|all, one| all + one)
}

impl NiSlot {
    const fn new() -> NiSlot {
        let shared = Shared::new(Lock::new(Place(None)));
        NiSlot { shared, is_untended: AtomicBool::new(false) }
    }

    /// The present generation.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.shared.generation()
    }

    /// Locks the interface, to open it or to take it down, whatever a panic has left.
    #[inline]
    pub fn lock(&self) -> Guard<'_, Place> {
        self.shared.lock_anyway()
    }

    /// Does something with the interface of a handle.
    ///
    /// # Errors
    /// [`Code::ArgInvalid`] if the handle is of another generation; [`Code::Fail`] if a
    /// panic while the interface was locked, which has been reported, has put it out of
    /// service.
    #[inline]
    pub fn with<R>(
        &self,
        generation: u32,
        then: impl FnOnce(&mut NiState) -> R,
    ) -> Result<R, Code> {
        match self.shared.with(generation, |place| place.0.as_mut().map(then)) {
            Ok(done) => done.ok_or(Code::ArgInvalid),
            Err(unmet) => Err(Code::of_unmet(unmet, Code::Fail)),
        }
    }

    /// As [`NiSlot::with`], for calls that take in what has arrived.
    ///
    /// # Errors
    /// As [`NiSlot::with`].
    #[inline]
    pub fn visit<R>(
        &self,
        generation: u32,
        then: impl FnOnce(&mut NiState) -> R,
    ) -> Result<R, Code> {
        let done = self.shared.call(|place| {
            if self.generation() != generation {
                return Err(Code::ArgInvalid);
            }
            place.0.as_mut().map(then).ok_or(Code::ArgInvalid)
        });
        done.unwrap_or(Err(Code::Fail))
    }

    /// As [`NiSlot::with`], for calls that others may be waiting for, and
    /// that take in what has arrived on the way.
    ///
    /// # Errors
    /// As [`NiSlot::with`].
    #[inline]
    pub fn act<R>(&self, generation: u32, then: impl FnOnce(&mut NiState) -> R) -> Result<R, Code> {
        self.call(generation, then).map(|(result, _)| result)
    }

    /// As [`NiSlot::act`], for calls that are refused until something has
    /// happened, and that a program therefore tries again.
    ///
    /// # Errors
    /// As [`NiSlot::with`], and what `then` returns.
    #[inline]
    pub fn attempt<R>(
        &self,
        generation: u32,
        then: impl FnOnce(&mut NiState) -> Result<R, Code>,
    ) -> Result<R, Code> {
        let result = self.act(generation, then)?;
        self.found(!matches!(result, Err(Code::InUse | Code::NoSpace | Code::ListTooLong)));
        result
    }

    /// As [`NiSlot::act`], for calls by which a program looks whether something
    /// has happened.
    ///
    /// # Errors
    /// As [`NiSlot::with`].
    #[inline]
    pub fn look<R>(
        &self,
        generation: u32,
        then: impl FnOnce(&mut NiState) -> R,
    ) -> Result<R, Code> {
        let (result, taken) = self.call(generation, then)?;
        self.found(taken > 0);
        Ok(result)
    }

    /// Whether a look has found something. One that has not may yield.
    #[inline]
    pub fn found(&self, is_found: bool) {
        if is_found {
            self.shared.spin().found();
        } else {
            self.shared.spin().vain();
        }
    }

    /// Does something, and takes in what has arrived; says how much that was.
    #[inline]
    fn call<R>(
        &self,
        generation: u32,
        then: impl FnOnce(&mut NiState) -> R,
    ) -> Result<(R, usize), Code> {
        self.visit(generation, |state| {
            let result = then(state);
            state.attend();
            (result, state.context.poll())
        })
    }

    /// Waits until `check` finds something, at most until `deadline`.
    ///
    /// # Errors
    /// [`Unmet`].
    pub fn wait<R>(
        &self,
        generation: u32,
        deadline: Option<Instant>,
        mut check: impl FnMut(&mut NiState) -> Option<R>,
    ) -> Result<R, Unmet> {
        let check = |place: &mut Place| check(place.0.as_mut()?);
        self.shared.wait(generation, deadline, is_aborted, check)
    }

    /// As [`NiSlot::wait`], for `timeout_ms` milliseconds or `PTL_TIME_FOREVER`. Without any
    /// time it is one look, which a program may repeat faster than it could look at a clock.
    ///
    /// # Errors
    /// `none` if nothing was found; else as [`NiSlot::with`], or [`Code::Aborted`].
    #[inline]
    pub fn wait_ms<R>(
        &self,
        generation: u32,
        timeout_ms: c_uint,
        none: Code,
        check: impl FnMut(&mut NiState) -> Option<R>,
    ) -> Result<R, Code> {
        let deadline = match timeout_ms {
            0 if is_aborted() => return Err(Code::Aborted),
            0 => return self.glance(generation, check)?.ok_or(none),
            PTL_TIME_FOREVER => None,
            _ => Some(Instant::now() + Duration::from_millis(u64::from(timeout_ms))),
        };
        self.wait(generation, deadline, check).map_err(|unmet| Code::of_unmet(unmet, none))
    }

    /// A look for something, and another one after what has arrived was taken in.
    ///
    /// # Errors
    /// As [`NiSlot::with`].
    #[inline]
    pub fn glance<R>(
        &self,
        generation: u32,
        mut check: impl FnMut(&mut NiState) -> Option<R>,
    ) -> Result<Option<R>, Code> {
        let found = self.visit(generation, |state| {
            check(state).or_else(|| {
                state.context.poll();
                check(state)
            })
        })?;
        self.found(found.is_some());
        Ok(found)
    }

    /// Opens the interface; its lock is held by the caller. What a panic may have left
    /// of an earlier one is gone.
    pub fn open(&self, place: &mut Guard<'_, Place>, state: NiState) {
        self.shared.open(state.context.waker());
        place.0 = Some(state);
        place.mend();
    }

    /// Starts the thread of an interface that was opened, unless the program polls.
    ///
    /// # Errors
    /// The system's, if it has no thread to give. Then the program polls all the same.
    pub fn start_thread(&'static self) -> std::io::Result<()> {
        let options = ThreadOptions { name: "portals", pin: None };
        let start = || self.shared.start_thread(self, |slot| &slot.shared, options);
        let started = if is_polled() { Ok(()) } else { start() };
        self.is_untended.store(is_polled() || started.is_err(), Ordering::Release);
        started
    }

    /// Closes the interface; its lock is held by the caller, who drops what
    /// there was after [`NiSlot::join_thread`].
    pub fn close(&self, place: &mut Place) -> Option<NiState> {
        self.is_untended.store(false, Ordering::Release);
        self.shared.close();
        place.0.take()
    }

    /// Waits for the end of the thread of an interface that was closed, without its
    /// lock.
    pub fn join_thread(&self) {
        // A fork has no such thread.
        if let Some(thread) = self.shared.take_thread().and_then(|thread| thread.here()) {
            thread.join();
        }
    }
}
