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
use crate::unmet::Unmet;
use sluice_rail::waker::{Haste, Waker};
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
    /// somebody wakes; zero if it would find something. What wakes goes by `haste`.
    fn rest_ns(&mut self, haste: Haste) -> u64;

    /// Whether the last rest was to gather what comes, and there is more to come.
    fn gathers(&self) -> bool;

    /// Whether something is left to be done that no peer will wake for.
    fn is_busy(&self) -> bool;

    /// What a thread sleeps by.
    fn waker(&self) -> Self::Waker;
}

/// What the lock of a [`Shared`] leads to: what is at work, while it is open, and
/// whatever else the library has there.
///
/// A panic under the lock poisons it, for its invariants may not hold any more. From
/// then on it is out of service: calls are refused ([`Shared::visit`]), waits end with
/// [`Unmet::Poisoned`](crate::Unmet), also those that sleep, and the progress thread
/// ends. [`Shared::lock_anyway`] still leads to what is there, to take it down.
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

    /// A panic poisons the lock; asked under the lock. Wakes all of these threads.
    fn tell_poisoned(&self) {}
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

    /// Takes the lock, poisoned or not, for who neither polls nor leaves anything
    /// behind.
    #[inline]
    pub fn lock_anyway(&self) -> Guard<'_, H> {
        self.claim().map_or_else(|_| self.held.lock_anyway(), Guard::forgiving)
    }

    /// Takes the lock, for who neither polls nor leaves anything behind. `None` if a
    /// panic has poisoned it.
    #[inline]
    pub fn lock(&self) -> Option<Guard<'_, H>> {
        match self.claim() {
            Ok(held) => Some(held),
            Err(Unavailable::Poisoned) => None,
            Err(Unavailable::Held) => self.held.lock(),
        }
    }

    /// Takes the lock if it is free, and else says that it is wanted.
    // It stays in line where a queue is read in vain, the shortest call there is.
    #[inline(always)]
    fn claim(&self) -> Result<Guard<'_, H>, Unavailable> {
        let held = self.held.try_lock();
        if matches!(held, Err(Unavailable::Held)) {
            self.turned_away();
        }
        held
    }

    /// As [`Shared::claim`], for the thread, which wants nothing.
    #[inline]
    pub(crate) fn try_lock(&self) -> Result<Guard<'_, H>, Unavailable> {
        self.held.try_lock()
    }

    /// A call that cannot do without the lock. `None` if a panic has poisoned it.
    #[inline]
    pub fn visit(&self) -> Option<Visit<'_, H>> {
        Some(Visit { shared: self, held: self.lock()? })
    }

    /// A call that goes away if another thread is here, and else does something.
    ///
    /// # Errors
    /// [`Unavailable`].
    #[inline(always)]
    pub fn try_visit<R>(&self, then: impl FnOnce(&mut H) -> R) -> Result<R, Unavailable> {
        let mut held = self.claim()?;
        let done = self.watched(&mut held, then);
        self.leave_to_others(&held);
        Ok(done)
    }

    /// As [`Shared::visit`], for a call that does something and goes: shorter.
    #[inline(always)]
    pub fn call<R>(&self, then: impl FnOnce(&mut H) -> R) -> Option<R> {
        let mut held = self.lock()?;
        let done = self.watched(&mut held, then);
        self.leave_to_others(&held);
        Some(done)
    }

    /// Does something under the lock, if it is still the same opening. Tells nobody.
    ///
    /// # Errors
    /// [`Unmet::Gone`], [`Unmet::Poisoned`].
    #[inline]
    pub fn with<R>(&self, generation: u32, then: impl FnOnce(&mut H) -> R) -> Result<R, Unmet> {
        let mut held = self.lock().ok_or(Unmet::Poisoned)?;
        if self.generation() != generation {
            return Err(Unmet::Gone);
        }
        Ok(self.watched(&mut held, then))
    }

    /// Does something under the lock. If it panics, who sleeps is woken to find that.
    #[inline(always)]
    fn watched<R>(&self, held: &mut Guard<'_, H>, then: impl FnOnce(&mut H) -> R) -> R {
        let alarm = Alarm { shared: self, held };
        let done = then(alarm.held);
        // It is for a panic alone.
        std::mem::forget(alarm);
        done
    }

    /// The lock will be poisoned when it is let go: wakes everybody who sleeps. They
    /// wait for the lock and find that.
    #[cold]
    fn alarm(&self, held: &H) {
        self.wake();
        held.tell_poisoned();
    }

    /// Poisons the lock, for a thread that ends by a panic.
    #[cold]
    pub(crate) fn poison(&self) {
        let mut held = self.lock_anyway();
        self.alarm(&held);
        held.poison();
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

    /// Whether there is a thread that makes progress.
    #[must_use]
    pub fn has_thread(&self) -> bool {
        self.others.load(Ordering::SeqCst) & THREAD != 0
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

    /// The calling thread is about to sleep, as long as what this returns is there.
    pub(crate) fn sleeper(&self) -> Sleeper<'_> {
        self.others.fetch_add(1, Ordering::SeqCst);
        Sleeper { others: &self.others }
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

/// A thread of the program that is counted as one that sleeps.
#[derive(Debug)]
pub(crate) struct Sleeper<'a> {
    others: &'a AtomicU32,
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        self.others.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Dropped by a panic under the lock, before the lock is let go.
struct Alarm<'a, 'b, H: Holds> {
    shared: &'a Shared<H>,
    held: &'a mut Guard<'b, H>,
}

impl<H: Holds> Drop for Alarm<'_, '_, H> {
    #[cold]
    fn drop(&mut self) {
        self.shared.alarm(self.held);
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
        if std::thread::panicking() {
            self.shared.alarm(&self.held);
        } else {
            self.shared.leave_to_others(&self.held);
        }
    }
}

#[cfg(test)]
#[path = "shared_tests.rs"]
mod tests;
