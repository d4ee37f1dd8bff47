//! The lock of an endpoint, an interface, a completion queue, an address vector.
//!
//! One word, taken by one compare-and-swap, left by one store: an uncontended
//! pass costs less than a system mutex, whose unlock must look for sleepers.
//! Whoever finds it taken turns away ([`Lock::try_lock`]: pollers) or spins and
//! then yields ([`Lock::lock`]: everyone else). The lock is held for the length
//! of one call, and never across a system call that waits
//! for somebody else; the end of a region of remote memory waits for who moves its bytes.
//!
//! In a domain opened with FI_THREAD_DOMAIN the program promises that no two
//! threads are inside its objects at once and that what one call did is seen by
//! the next. That is all that the compare-and-swap would establish, so a plain
//! load and store take its place. They still find a call made from inside
//! another one, and a program that breaks its promise grossly.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const FREE: u32 = 0;
const HELD: u32 = 1;
const POISONED: u32 = 2;

/// How often to look at a taken lock before the processor is given away.
const SPINS: u32 = 100;
/// How often it then gives its core away before it sleeps.
const YIELDS: u32 = 1000;
const NAP: Duration = Duration::from_micros(50);

/// A value that one thread at a time may use.
#[derive(Debug)]
pub struct Lock<T> {
    word: AtomicU32,
    serial: bool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a guard, of which there is one at a
// time: by the compare-and-swap, or, in serial mode, by what the caller of
// [`Lock::serial`] has promised.
unsafe impl<T: Send> Sync for Lock<T> {}

/// Why a lock was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// Another thread holds it.
    Held,
    /// A panic happened while it was held.
    Poisoned,
}

impl<T> Lock<T> {
    /// A free lock that any thread may take.
    pub const fn new(value: T) -> Lock<T> {
        Lock { word: AtomicU32::new(FREE), serial: false, value: UnsafeCell::new(value) }
    }

    /// A free lock for a program that lets one thread at a time into it, if it
    /// says so, and otherwise as [`Lock::new`].
    ///
    /// # Safety
    /// If `is_serial`: no two threads are inside a call on the lock, or have a
    /// guard of it, at once, and what one has done happens before what the next
    /// does. A program promises that of all objects of a domain by opening it with
    /// FI_THREAD_DOMAIN.
    pub unsafe fn serial(value: T, is_serial: bool) -> Lock<T> {
        Lock { serial: is_serial, ..Lock::new(value) }
    }

    /// Whether one thread at a time comes to it, as its maker promised.
    pub fn is_serial(&self) -> bool {
        self.serial
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Result<Guard<'_, T>, Unavailable> {
        let found = if self.serial {
            let found = self.word.load(Ordering::Relaxed);
            if found == FREE {
                self.word.store(HELD, Ordering::Relaxed);
            }
            found
        } else {
            // A look first: pollers that find it taken must not pull the line.
            match self.word.load(Ordering::Relaxed) {
                FREE => self
                    .word
                    .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
                    .unwrap_or_else(|found| found),
                found => found,
            }
        };
        match found {
            FREE => Ok(Guard::of(self)),
            POISONED => Err(Unavailable::Poisoned),
            _ => Err(Unavailable::Held),
        }
    }

    /// Takes the lock, waiting for it; `None` if it is poisoned.
    #[inline]
    pub fn lock(&self) -> Option<Guard<'_, T>> {
        match self.try_lock() {
            Ok(guard) => Some(guard),
            Err(Unavailable::Poisoned) => None,
            Err(Unavailable::Held) => self.wait(),
        }
    }

    /// Takes the lock, waiting for it, poisoned or not: for values that any
    /// single step leaves whole, and for taking an object down. A poisoned one stays
    /// so, unless [`Guard::mend`] says otherwise.
    pub fn lock_anyway(&self) -> Guard<'_, T> {
        loop {
            if let Some(guard) = self.lock() {
                return guard.forgiving();
            }
            let freed =
                self.word.compare_exchange(POISONED, HELD, Ordering::Acquire, Ordering::Relaxed);
            if freed.is_ok() {
                let mut guard = Guard::of(self);
                guard.poison();
                return guard.forgiving();
            }
        }
    }

    #[cold]
    fn wait(&self) -> Option<Guard<'_, T>> {
        let mut spins = 0;
        loop {
            match self.try_lock() {
                Ok(guard) => return Some(guard),
                Err(Unavailable::Poisoned) => return None,
                Err(Unavailable::Held) if spins < SPINS => {
                    spins += 1;
                    std::hint::spin_loop();
                }
                Err(Unavailable::Held) if spins < SPINS + YIELDS => {
                    spins += 1;
                    std::thread::yield_now();
                }
                // A yield lets nobody run who has a lower priority.
                Err(Unavailable::Held) => std::thread::sleep(NAP),
            }
        }
    }
}

/// Use of the value; the lock is free again when this is dropped.
#[derive(Debug)]
pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
    /// What the word says afterwards.
    left_as: u32,
    /// Its thread was unwinding already, for something else.
    was_panicking: bool,
    /// It is as good as the value: it may be shared where that may, and sent where
    /// that may.
    value: PhantomData<&'a mut T>,
}

impl<'a, T> Guard<'a, T> {
    fn of(lock: &'a Lock<T>) -> Guard<'a, T> {
        Guard { lock, left_as: FREE, was_panicking: false, value: PhantomData }
    }

    /// Whether a panic happened while the lock was held earlier.
    pub fn is_poisoned(&self) -> bool {
        self.left_as == POISONED
    }

    /// The lock is poisoned when this is dropped.
    pub fn poison(&mut self) {
        self.left_as = POISONED;
    }

    /// A panic that passes already does not poison the lock: what is taken down because of
    /// it is not broken by it.
    #[must_use]
    pub fn forgiving(mut self) -> Self {
        self.was_panicking = std::thread::panicking();
        self
    }

    /// What a panic has left is gone: the lock is not poisoned any more.
    pub fn mend(&mut self) {
        self.left_as = FREE;
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this is the only guard (see `Sync`).
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this is the only guard (see `Sync`).
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let broke = std::thread::panicking() && !self.was_panicking;
        let word = if broke { POISONED } else { self.left_as };
        self.lock.word.store(word, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn one_at_a_time() {
        let lock = Arc::new(Lock::new(0u64));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let lock = Arc::clone(&lock);
                std::thread::spawn(move || {
                    for _ in 0..20_000 {
                        *lock.lock().expect("not poisoned") += 1;
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        assert_eq!(*lock.lock().expect("not poisoned"), 80_000);
    }

    /// Taking things down while a panic passes is no fault of theirs.
    #[test]
    fn a_guard_that_an_unwinding_thread_takes_poisons_nothing() {
        struct Closes(Arc<Lock<u32>>);
        impl Drop for Closes {
            fn drop(&mut self) {
                *self.0.lock_anyway() += 1;
            }
        }
        let lock = Arc::new(Lock::new(0));
        let closes = Closes(Arc::clone(&lock));
        let thread = std::thread::spawn(move || {
            let _closes = closes;
            panic!("as the test wants");
        });
        assert!(thread.join().is_err());
        assert_eq!(lock.lock().map(|guard| *guard), Some(1));
    }

    #[test]
    fn a_taken_lock_turns_pollers_away() {
        for serial in [false, true] {
            // SAFETY: this thread alone has it.
            let lock = unsafe { Lock::serial((), serial) };
            let held = lock.try_lock().expect("free");
            assert_eq!(lock.try_lock().err(), Some(Unavailable::Held));
            drop(held);
            assert!(lock.try_lock().is_ok());
        }
    }

    /// A guard was shared between threads where its value could not be.
    #[test]
    fn a_guard_is_shared_and_sent_where_its_value_is() {
        // Whether a type is so, without a demand for it: where it is, the trait's
        // constant is hidden by the type's own.
        struct Asked<T>(PhantomData<T>);
        trait No {
            const SYNC: bool = false;
            const SEND: bool = false;
        }
        impl<T> No for Asked<T> {}
        struct AskedSync<T>(PhantomData<T>);
        impl<T> No for AskedSync<T> {}
        impl<T: Send> Asked<T> {
            const SEND: bool = true;
        }
        impl<T: Sync> AskedSync<T> {
            const SYNC: bool = true;
        }
        type Cell = std::cell::Cell<u8>;
        type OfCell = Guard<'static, Cell>;
        type OfWord = Guard<'static, u8>;
        const { assert!(!AskedSync::<OfCell>::SYNC && Asked::<OfCell>::SEND) };
        const { assert!(AskedSync::<OfWord>::SYNC && Asked::<OfWord>::SEND) };
        const { assert!(!Asked::<Guard<'static, *const u8>>::SEND) };
    }

    #[test]
    fn a_panic_poisons() {
        let lock = Lock::new(());
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _held = lock.lock();
            panic!("on purpose");
        }));
        assert!(caught.is_err());
        assert_eq!(lock.try_lock().err(), Some(Unavailable::Poisoned));
        assert!(lock.lock().is_none());
        assert!(lock.lock_anyway().is_poisoned());
        assert!(lock.lock().is_none(), "a look does not mend it");
        lock.lock_anyway().mend();
        assert!(lock.lock().is_some());
    }
}
