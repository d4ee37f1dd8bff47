//! Counters: how many operations have ended, well and badly.
//!
//! A counter counts what the endpoints bound to it hand over, so that reading it polls them,
//! as reading a completion queue does. What they hand over besides is kept in their queues.

use crate::domain::{Domain, DomainCore};
use crate::ep::EpCore;
use crate::errno::Errno;
use crate::ffi::{self, fi_cntr_attr, fi_ops, fi_ops_cntr, fid_cntr, fid_domain};
use crate::guard;
use crate::object::{self, Object, no_bind};
use crate::wait;
use libc::{c_int, c_void};
use sluice_runtime::lock::Lock;
use sluice_runtime::spin::Spin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What endpoints and regions count on.
#[derive(Debug)]
pub struct CntrCore {
    good: AtomicU64,
    bad: AtomicU64,
    endpoints: Lock<Vec<Arc<EpCore>>>,
    spin: Spin,
    wait_obj: u32,
    _domain: Arc<DomainCore>,
}

impl CntrCore {
    /// An operation has ended.
    pub fn count(&self, well: bool) {
        let counter = if well { &self.good } else { &self.bad };
        counter.fetch_add(1, Ordering::Release);
    }

    /// Adds an endpoint; once, however often it is bound.
    pub fn attach(&self, endpoint: &Arc<EpCore>) -> Result<(), Errno> {
        let mut endpoints = self.endpoints.lock().ok_or(Errno::POISONED)?;
        if !endpoints.iter().any(|known| Arc::ptr_eq(known, endpoint)) {
            endpoints.push(Arc::clone(endpoint));
        }
        Ok(())
    }

    /// Forgets an endpoint.
    pub fn detach(&self, endpoint: &Arc<EpCore>) {
        self.endpoints.lock_anyway().retain(|known| !Arc::ptr_eq(known, endpoint));
    }

    /// Has the endpoints make progress. Another thread that is at it does as well.
    fn poll(&self) {
        if let Ok(endpoints) = self.endpoints.try_lock() {
            for endpoint in endpoints.iter() {
                endpoint.drain();
            }
        }
    }

    /// As [`CntrCore::poll`], for a reader: one that finds the same again and again gives its
    /// core away.
    fn look(&self) {
        let before = self.good.load(Ordering::Relaxed);
        self.poll();
        match self.good.load(Ordering::Relaxed) == before {
            true => self.spin.vain(),
            false => self.spin.found(),
        }
    }

    fn value(&self, which: &AtomicU64) -> u64 {
        which.load(Ordering::Acquire)
    }

    /// Waits until as many have ended well as `threshold` says, or one has ended badly.
    fn wait(&self, threshold: u64, timeout_ms: c_int) -> Result<(), Errno> {
        let bad = self.value(&self.bad);
        let since = Instant::now();
        let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        loop {
            self.poll();
            if self.value(&self.good) >= threshold {
                self.spin.found();
                return Ok(());
            }
            if self.value(&self.bad) != bad {
                return Err(Errno::AVAILABLE);
            }
            if timeout.is_some_and(|timeout| since.elapsed() >= timeout) {
                return Err(Errno(ffi::FI_ETIMEDOUT));
            }
            self.spin.vain();
        }
    }
}

/// An open counter.
#[repr(C)]
pub struct Cntr {
    cntr: fid_cntr,
    pub core: Arc<CntrCore>,
}

// SAFETY: `repr(C)`, begins with `fid_cntr`, made below with this class.
unsafe impl Object for Cntr {
    const CLASS: usize = ffi::FI_CLASS_CNTR;

    fn in_use(&self) -> bool {
        object::shared(&self.core)
    }
}

static OPS: fi_ops = object::ops::<Cntr>(no_bind, control);

static CNTR_OPS: fi_ops_cntr =
    fi_ops_cntr { size: size_of::<fi_ops_cntr>(), read, readerr, add, set, wait, adderr, seterr };

/// `fi_cntr_open`.
///
/// # Safety
/// As libfabric calls it: `domain` is whole, `attr` is or is null, `out` can be written.
pub unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_cntr_attr,
    out: *mut *mut fid_cntr,
    context: *mut c_void,
) -> c_int {
    guard::status(|| {
        // SAFETY: the caller's promise.
        let (domain, attr): (&Domain, _) = unsafe { (object::object(domain), attr.as_ref()) };
        let waits = [ffi::FI_WAIT_NONE, ffi::FI_WAIT_UNSPEC, ffi::FI_WAIT_YIELD];
        if let Some(attr) = attr {
            if attr.events != ffi::FI_CNTR_EVENTS_COMP || attr.flags != 0 {
                return Err(Errno::INVALID);
            }
            if !waits.contains(&attr.wait_obj) {
                return Err(Errno::NO_SYS);
            }
        }
        let cntr = Cntr {
            cntr: fid_cntr { fid: object::head::<Cntr>(context, &OPS), ops: &CNTR_OPS },
            core: Arc::new(CntrCore {
                good: AtomicU64::new(0),
                bad: AtomicU64::new(0),
                endpoints: domain.core.lock(Vec::new()),
                spin: Spin::new(),
                wait_obj: attr.map_or(ffi::FI_WAIT_NONE, |attr| attr.wait_obj),
                _domain: Arc::clone(&domain.core),
            }),
        };
        // SAFETY: the caller's promise.
        unsafe { object::hand_out(cntr, out) };
        Ok(())
    })
}

/// `fi_control`: which wait object it has.
unsafe extern "C" fn control(cntr: *mut ffi::fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: as libfabric calls it.
    unsafe {
        let wait_obj = object::object::<Cntr>(cntr).core.wait_obj;
        wait::control(None, wait_obj, command, arg)
    }
}

unsafe extern "C" fn read(cntr: *mut fid_cntr) -> u64 {
    guard::value(0, || {
        // SAFETY: as libfabric calls it.
        let cntr: &Cntr = unsafe { object::object(cntr) };
        cntr.core.look();
        cntr.core.value(&cntr.core.good)
    })
}

unsafe extern "C" fn readerr(cntr: *mut fid_cntr) -> u64 {
    guard::value(0, || {
        // SAFETY: as libfabric calls it.
        let cntr: &Cntr = unsafe { object::object(cntr) };
        cntr.core.look();
        cntr.core.value(&cntr.core.bad)
    })
}

unsafe extern "C" fn add(cntr: *mut fid_cntr, by: u64) -> c_int {
    // SAFETY: as libfabric calls it.
    let cntr: &Cntr = unsafe { object::object(cntr) };
    cntr.core.good.fetch_add(by, Ordering::Release);
    0
}

unsafe extern "C" fn set(cntr: *mut fid_cntr, to: u64) -> c_int {
    // SAFETY: as libfabric calls it.
    let cntr: &Cntr = unsafe { object::object(cntr) };
    cntr.core.good.store(to, Ordering::Release);
    0
}

unsafe extern "C" fn adderr(cntr: *mut fid_cntr, by: u64) -> c_int {
    // SAFETY: as libfabric calls it.
    let cntr: &Cntr = unsafe { object::object(cntr) };
    cntr.core.bad.fetch_add(by, Ordering::Release);
    0
}

unsafe extern "C" fn seterr(cntr: *mut fid_cntr, to: u64) -> c_int {
    // SAFETY: as libfabric calls it.
    let cntr: &Cntr = unsafe { object::object(cntr) };
    cntr.core.bad.store(to, Ordering::Release);
    0
}

unsafe extern "C" fn wait(cntr: *mut fid_cntr, threshold: u64, timeout_ms: c_int) -> c_int {
    guard::status(|| {
        // SAFETY: as libfabric calls it.
        let cntr: &Cntr = unsafe { object::object(cntr) };
        cntr.core.wait(threshold, timeout_ms)
    })
}
