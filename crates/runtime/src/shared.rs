//! A context between the threads of a process: the program's calls, its waits, and
//! the thread that makes progress while there are none.
//!
//! One lock guards it. A call takes the lock, does something, and on its way out, still
//! under the lock, tells the others what they have to know ([`Visit`]). What that is
//! one word says (`others`), so that a process in which nobody else is there looks at
//! that word and nothing else.
//!
//! A [`Shared`] may be opened and closed again and again. Each time has a generation;
//! whoever comes with an older one is turned away.

use crate::attend::Attention;
use crate::lock::{Guard, Lock, Unavailable};
use crate::progress_thread::ProgressThread;
use crate::spin::Spin;
use sluice_rail::waker::Waker;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

/// Something at work that is polled.
pub trait Polled {
    /// What a thread sleeps by until there is something to poll for.
    type Waker: Waker;

    /// Takes in what has arrived and does what has become possible. Says how much
    /// there was.
    fn poll(&mut self) -> usize;

    /// As [`Polled::poll`], for a thread that may have slept: the time it has
    /// missed counts.
    fn poll_after_sleep(&mut self) -> usize;

    /// For how long, in nanoseconds, a poll would find nothing to do unless
    /// somebody wakes; zero if it would find something.
    fn rest_ns(&mut self) -> u64;

    /// Whether something is left to be done that no peer will wake for.
    fn is_busy(&self) -> bool;

    /// Whether somebody who sleeps would miss something.
    fn has_work(&mut self) -> bool;

    /// What a thread sleeps by.
    fn waker(&self) -> Self::Waker;
}

/// What the lock of a [`Shared`] leads to: what is at work, while it is open, and
/// whatever else the library has there.
pub trait Holds: Send + 'static {
    /// What is at work.
    type Polled: Polled;

    /// It, while it is open.
    fn polled(&self) -> Option<&Self::Polled>;

    /// It, while it is open.
    fn polled_mut(&mut self) -> Option<&mut Self::Polled>;

    /// A call or the thread is done; asked under the lock. Wakes threads of the
    /// program that sleep elsewhere than by the waker.
    fn tell(&self) {}
}

/// What [`Shared`] leads threads to sleep by.
pub(crate) type WakerOf<H> = <<H as Holds>::Polled as Polled>::Waker;

/// Of [`Shared::others`]: there is a progress thread. The rest counts sleepers.
const THREAD: u32 = 1 << 31;

/// Something at work, and those who get at it.
#[derive(Debug)]
pub struct Shared<H: Holds> {
    held: Lock<H>,
    /// Who is to be told of what a call does: the thread, and the threads of the
    /// program that sleep by the waker.
    others: AtomicU32,
    generation: AtomicU32,
    spin: Spin,
    pub(crate) attention: Attention,
    waker: RwLock<Option<WakerOf<H>>>,
    thread: Mutex<Option<ProgressThread>>,
}

/// What was open is not open any more, or is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

impl<H: Holds> Shared<H> {
    /// With nobody beside the caller.
    pub const fn new(held: Lock<H>) -> Shared<H> {
        Shared {
            held,
            others: AtomicU32::new(0),
            generation: AtomicU32::new(0),
            spin: Spin::new(),
            attention: Attention::new(),
            waker: RwLock::new(None),
            thread: Mutex::new(None),
        }
    }

    /// Looks in vain of calls that a program makes again and again.
    #[inline]
    pub fn spin(&self) -> &Spin {
        &self.spin
    }

    /// Which opening this is; changed under the lock.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Takes the lock, for who neither polls nor leaves anything behind.
    #[inline]
    pub fn lock_anyway(&self) -> Guard<'_, H> {
        self.held.lock_anyway()
    }

    #[inline]
    pub(crate) fn try_lock(&self) -> Result<Guard<'_, H>, Unavailable> {
        self.held.try_lock()
    }

    /// A call that cannot do without the lock. `None` if a panic has poisoned it.
    #[inline]
    pub fn visit(&self) -> Option<Visit<'_, H>> {
        let held = match self.held.try_lock() {
            Ok(held) => held,
            Err(Unavailable::Poisoned) => return None,
            Err(Unavailable::Held) => {
                self.turned_away();
                self.held.lock()?
            }
        };
        Some(Visit { shared: self, held })
    }

    /// As [`Shared::visit`], whatever a panic has left.
    #[inline]
    pub fn visit_anyway(&self) -> Visit<'_, H> {
        let held = match self.held.try_lock() {
            Ok(held) => held,
            Err(unavailable) => {
                if unavailable == Unavailable::Held {
                    self.turned_away();
                }
                self.held.lock_anyway()
            }
        };
        Visit { shared: self, held }
    }

    /// A call that goes away if another thread is here, and else does something.
    ///
    /// # Errors
    /// [`Unavailable`].
    // It stays in line where a queue is read in vain, the shortest call there is.
    #[inline(always)]
    pub fn try_visit<R>(&self, then: impl FnOnce(&mut H) -> R) -> Result<R, Unavailable> {
        let mut held = match self.held.try_lock() {
            Ok(held) => held,
            Err(unavailable) => {
                if unavailable == Unavailable::Held {
                    self.turned_away();
                }
                return Err(unavailable);
            }
        };
        let done = then(&mut held);
        self.leave_to_others(&held);
        Ok(done)
    }

    /// As [`Shared::visit`], for a call that does something and goes: shorter, as
    /// nothing is left to be done where that panics, which poisons the lock.
    #[inline]
    pub fn call<R>(&self, then: impl FnOnce(&mut H) -> R) -> Option<R> {
        let mut held = match self.held.try_lock() {
            Ok(held) => held,
            Err(Unavailable::Poisoned) => return None,
            Err(Unavailable::Held) => {
                self.turned_away();
                self.held.lock()?
            }
        };
        let done = then(&mut held);
        self.leave_to_others(&held);
        Some(done)
    }

    /// Does something under the lock, if it is still the same opening.
    ///
    /// # Errors
    /// [`Gone`] if it is not.
    #[inline]
    pub fn with<R>(&self, generation: u32, then: impl FnOnce(&mut H) -> R) -> Result<R, Gone> {
        let mut held = self.held.lock_anyway();
        if self.generation() == generation { Ok(then(&mut held)) } else { Err(Gone) }
    }

    /// It is open from now on; the caller has the lock.
    pub fn open(&self, waker: WakerOf<H>) {
        *self.waker.write().unwrap_or_else(PoisonError::into_inner) = Some(waker);
        self.attention.reset();
    }

    /// It is closed: the generation ends, and everybody who waits or sleeps here
    /// finds that. Whoever closes takes the thread next ([`Shared::take_thread`]),
    /// without the lock, and waits for its end.
    pub fn close(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.wake();
        *self.waker.write().unwrap_or_else(PoisonError::into_inner) = None;
        self.attention.look_again();
    }

    /// The thread, which this forgets.
    pub fn take_thread(&self) -> Option<ProgressThread> {
        self.others.fetch_and(!THREAD, Ordering::SeqCst);
        self.thread.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Starts the thread by `start`, unless there is one. The caller may have the lock.
    pub(crate) fn start_with(
        &self,
        start: impl FnOnce() -> std::io::Result<ProgressThread>,
    ) -> std::io::Result<()> {
        assert!(!self.held.is_serial(), "a lock of one thread gets no second one");
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            *thread = Some(start()?);
            self.others.fetch_or(THREAD, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Leaves progress to the thread at once, for a call that is about to sleep.
    pub fn hand_over(&self) {
        self.attention.hand_over();
    }

    /// Wakes everybody who sleeps by the waker.
    #[cold]
    pub fn wake(&self) {
        if let Some(waker) = &*self.waker.read().unwrap_or_else(PoisonError::into_inner) {
            waker.wake();
        }
    }

    /// Wakes the threads of the program that sleep by the waker.
    #[inline]
    pub fn wake_sleepers(&self) {
        if self.has_sleepers() {
            self.wake();
        }
    }

    /// Whether there are any.
    #[inline]
    pub(crate) fn has_sleepers(&self) -> bool {
        self.others.load(Ordering::SeqCst) & !THREAD != 0
    }

    /// What threads sleep by, while it is open.
    pub(crate) fn waker(&self) -> Option<WakerOf<H>> {
        self.waker.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The calling thread is about to sleep, until [`Shared::sleeper_left`].
    pub(crate) fn sleeper_came(&self) {
        self.others.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn sleeper_left(&self) {
        self.others.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes the thread if it sleeps and this call leaves it something that nobody
    /// else will wake it for. The caller has the lock.
    #[inline]
    pub(crate) fn leave_to_thread(&self, held: &H) {
        if self.attention.is_asleep() && held.polled().is_some_and(Polled::is_busy) {
            self.wake();
        }
    }

    /// A call has found the lock taken.
    #[cold]
    fn turned_away(&self) {
        if self.others.load(Ordering::Relaxed) & THREAD != 0 {
            self.attention.want();
        }
    }

    /// A call goes, its lock still held.
    #[inline]
    fn leave_to_others(&self, held: &H) {
        // Who came while this call had the lock was counted before it looks under it.
        if self.others.load(Ordering::SeqCst) != 0 {
            self.leave(held);
        }
    }

    /// A call goes, its lock still held, and there are others.
    #[inline(never)]
    fn leave(&self, held: &H) {
        self.attention.noted();
        self.leave_to_thread(held);
        self.wake_sleepers();
        held.tell();
    }
}

/// A call, with its use of what the lock leads to.
#[derive(Debug)]
pub struct Visit<'a, H: Holds> {
    shared: &'a Shared<H>,
    held: Guard<'a, H>,
}

impl<H: Holds> Deref for Visit<'_, H> {
    type Target = H;

    #[inline]
    fn deref(&self) -> &H {
        &self.held
    }
}

impl<H: Holds> DerefMut for Visit<'_, H> {
    #[inline]
    fn deref_mut(&mut self) -> &mut H {
        &mut self.held
    }
}

impl<H: Holds> Drop for Visit<'_, H> {
    /// The last step under the lock.
    #[inline]
    fn drop(&mut self) {
        self.shared.leave_to_others(&self.held);
    }
}

#[cfg(test)]
#[path = "shared_tests.rs"]
mod tests;
