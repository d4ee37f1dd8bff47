//! The interfaces of this process: four at most, one for each pair of matching
//! or not, logical or physical, each behind a lock of its own.
//!
//! The shells are static, so that a handle leads to its interface by an index,
//! whatever other threads do meanwhile; each life of an interface has a number,
//! so that handles of an earlier life are stale.

use crate::codes::Code;
use crate::face::Face;
use sluice_rail::attend::Attention;
use sluice_rail::shm::Doorbell;
use sluice_rail::spin::Spin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::thread::JoinHandle;

/// How many interfaces a process can have.
pub(crate) const INTERFACES: usize = 4;

/// One interface, open or not.
#[derive(Debug)]
pub(crate) struct Interface {
    face: Mutex<Option<Face>>,
    /// Which life of the interface this is; changed under the lock.
    life: AtomicU32,
    /// Threads that sleep until something happens.
    pub sleepers: AtomicU32,
    /// Looks in vain, of waits and of programs that look again and again.
    pub spin: Spin,
    pub attention: Attention,
    pub doorbell: RwLock<Option<Doorbell>>,
    pub thread: Mutex<Option<JoinHandle<()>>>,
}

static SHELLS: [Interface; INTERFACES] = [const { Interface::new() }; INTERFACES];
static ABORTED: AtomicBool = AtomicBool::new(false);
static POLLED: OnceLock<bool> = OnceLock::new();

/// The interface of slot `index`.
pub(crate) fn shell(index: usize) -> Option<&'static Interface> {
    SHELLS.get(index)
}

/// All interfaces.
pub(crate) fn shells() -> &'static [Interface] {
    &SHELLS
}

/// Whether `PtlAbort` was called.
#[inline]
pub(crate) fn is_aborted() -> bool {
    ABORTED.load(Ordering::Relaxed)
}

/// Ends every wait of this process, now and from now on.
pub(crate) fn abort() {
    ABORTED.store(true, Ordering::SeqCst);
    for shell in shells() {
        shell.ring();
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

/// Takes in what has arrived at any interface, for a program that waits
/// elsewhere. Says how much there was.
pub(crate) fn poll_all() -> usize {
    let poll = |shell: &Interface| {
        let taken = shell.lock().as_mut().map_or(0, Face::poll);
        if taken > 0 {
            shell.wake_sleepers();
        }
        taken
    };
    shells().iter().map(poll).sum()
}

impl Interface {
    const fn new() -> Interface {
        Interface {
            face: Mutex::new(None),
            life: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            spin: Spin::new(),
            attention: Attention::new(),
            doorbell: RwLock::new(None),
            thread: Mutex::new(None),
        }
    }

    /// The present life.
    #[inline]
    pub fn life(&self) -> u32 {
        self.life.load(Ordering::Acquire)
    }

    /// Locks the interface. A panic while it was locked was a fault of ours and
    /// has been reported; who comes later finds what is there.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, Option<Face>> {
        self.face.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the interface of a handle.
    ///
    /// # Errors
    /// [`Code::ArgInvalid`] if the handle is of another life.
    #[inline]
    pub fn with<R>(&self, life: u32, then: impl FnOnce(&mut Face) -> R) -> Result<R, Code> {
        let mut face = self.lock();
        if self.life() != life {
            return Err(Code::ArgInvalid);
        }
        face.as_mut().map(then).ok_or(Code::ArgInvalid)
    }

    /// As [`Interface::with`], for calls that others may be waiting for, and
    /// that take in what has arrived on the way.
    ///
    /// # Errors
    /// As [`Interface::with`].
    #[inline]
    pub fn act<R>(&self, life: u32, then: impl FnOnce(&mut Face) -> R) -> Result<R, Code> {
        self.call(life, then).map(|(result, _)| result)
    }

    /// As [`Interface::act`], for calls that are refused until something has
    /// happened, and that a program therefore tries again.
    ///
    /// # Errors
    /// As [`Interface::with`], and what `then` returns.
    #[inline]
    pub fn attempt<R>(
        &self,
        life: u32,
        then: impl FnOnce(&mut Face) -> Result<R, Code>,
    ) -> Result<R, Code> {
        let result = self.act(life, then)?;
        match result {
            Err(Code::InUse | Code::NoSpace | Code::ListTooLong) => self.spin.vain(),
            _ => self.spin.found(),
        }
        result
    }

    /// As [`Interface::act`], for calls by which a program looks whether something
    /// has happened.
    ///
    /// # Errors
    /// As [`Interface::with`].
    #[inline]
    pub fn look<R>(&self, life: u32, then: impl FnOnce(&mut Face) -> R) -> Result<R, Code> {
        let (result, taken) = self.call(life, then)?;
        if taken == 0 {
            self.spin.vain()
        } else {
            self.spin.found()
        }
        Ok(result)
    }

    /// Does something, and takes in what has arrived; says how much that was.
    #[inline]
    fn call<R>(&self, life: u32, then: impl FnOnce(&mut Face) -> R) -> Result<(R, usize), Code> {
        let result = self.with(life, |face| {
            let result = then(face);
            let taken = face.poll();
            self.leave(face);
            (result, taken)
        });
        self.attention.noted();
        self.wake_sleepers();
        result
    }

    /// A call goes, its lock still held. A thread that sleeps knows nothing of
    /// what it leaves behind.
    #[inline]
    pub fn leave(&self, face: &Face) {
        if self.attention.is_asleep() && face.shm.is_busy() {
            self.ring();
        }
    }

    /// Opens the interface; its lock is held by the caller.
    pub fn open(&self, place: &mut Option<Face>, face: Face) {
        *self.doorbell.write().unwrap_or_else(PoisonError::into_inner) = Some(face.shm.doorbell());
        *place = Some(face);
        self.attention.reset();
    }

    /// Closes the interface; its lock is held by the caller, who drops what
    /// there was when the lock is released.
    pub fn close(&self, place: &mut Option<Face>) -> Option<Face> {
        self.life.fetch_add(1, Ordering::AcqRel);
        self.ring();
        *self.doorbell.write().unwrap_or_else(PoisonError::into_inner) = None;
        place.take()
    }

    /// Wakes those who sleep until something happens here.
    #[inline]
    pub fn wake_sleepers(&self) {
        if self.sleepers.load(Ordering::SeqCst) != 0 {
            self.ring();
        }
    }

    /// Wakes everybody who sleeps by the doorbell.
    #[cold]
    pub fn ring(&self) {
        if let Some(doorbell) = self.bell() {
            doorbell.ring();
        }
    }

    /// The doorbell, while the interface is open.
    pub fn bell(&self) -> Option<Doorbell> {
        self.doorbell.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
