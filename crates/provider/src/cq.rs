//! The completion queue.
//!
//! A completion usually never lies in a queue here: a read polls the endpoints
//! bound to it and writes what they have finished straight into the program's
//! array. Only what cannot be handed over at once is kept: an error behind good
//! entries, and completions that belong to another queue of the same endpoint.
//!
//! Several threads may read one queue. One of them gets in; the others are told
//! at once that there is nothing (-FI_EAGAIN), instead of queueing up for a lock
//! to learn the same.
//!
//! A call that waits polls; where endpoints have threads (`waiters`), it sleeps.
//!
//! Order of locks: the endpoint list of one queue, one endpoint's state (only
//! tried), the entries of any queue (a leaf). Nobody waits for the first two
//! while holding a third.

mod entry;
mod waiters;

use crate::av::put_text;
use crate::domain::{Domain, DomainCore};
use crate::ep::EpCore;
use crate::errno::{self, Errno};
use crate::ffi::{
    self, fi_addr_t, fi_cq_attr, fi_cq_err_entry, fi_ops, fi_ops_cq, fid, fid_cq, fid_domain,
};
use crate::guard;
use crate::log::{self, About};
use crate::object::{self, Object, no_bind};
use crate::wait::{self, Descriptor};
use libc::{c_char, c_int, c_void, ssize_t};
use sluice_runtime::lock::{Lock, Unavailable};
use sluice_runtime::spin::Spin;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use waiters::Waiters;

pub use entry::{Entry, Failed, Format, Sink};

/// The longest that a call that waits sleeps at a time: it need not be woken by
/// each death of a peer, for instance.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// How often an empty queue is polled before the processor is offered to
/// others, in a call that waits.
const SPINS: u32 = 200;

/// What endpoints report to.
#[derive(Debug)]
pub struct CqCore {
    endpoints: Lock<Bound>,
    kept: Lock<VecDeque<Kept>>,
    /// How many are kept: what a read looks at instead of the lock.
    kept_count: AtomicUsize,
    /// The error read last, for `fi_cq_strerror` and for `err_data`.
    last_error: Lock<Option<(c_int, CString)>>,
    signalled: AtomicBool,
    pub waiters: Waiters,
    wait_obj: u32,
    /// Reads in vain.
    spin: Spin,
    /// The same of threads that found another one reading: counted apart, so that
    /// they do not pull at what that one writes.
    turned_away: Apart<Spin>,
    format: Format,
    api_version: u32,
    domain: Arc<DomainCore>,
}

/// On cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

/// The endpoints that report here.
#[derive(Debug, Default)]
struct Bound {
    endpoints: Vec<Arc<EpCore>>,
    /// Which one the next read begins with.
    next: usize,
}

/// A completion that waits to be read.
#[derive(Debug)]
pub enum Kept {
    /// A good one, and its source.
    Good(Entry, fi_addr_t),
    /// A bad one.
    Bad(Failed),
}

impl CqCore {
    /// Adds an endpoint; once, however often it is bound.
    pub fn attach(&self, endpoint: &Arc<EpCore>) -> Result<(), Errno> {
        let mut bound = self.endpoints.lock().ok_or(Errno::POISONED)?;
        if !bound.endpoints.iter().any(|known| Arc::ptr_eq(known, endpoint)) {
            bound.endpoints.push(Arc::clone(endpoint));
        }
        Ok(())
    }

    /// Forgets an endpoint. Completions of it that are kept stay readable.
    pub fn detach(&self, endpoint: &Arc<EpCore>) {
        let mut bound = self.endpoints.lock_anyway();
        bound.endpoints.retain(|known| !Arc::ptr_eq(known, endpoint));
        bound.next = 0;
    }

    /// Keeps a completion.
    pub fn keep(&self, kept: Kept) {
        let mut queue = self.kept.lock_anyway();
        queue.push_back(kept);
        self.kept_count.store(queue.len(), Ordering::Release);
    }

    /// Whether completions are kept here, which must be read first.
    #[inline]
    pub fn keeps_any(&self) -> bool {
        self.kept_count.load(Ordering::Acquire) > 0
    }

    /// Fills `sink`; an error if it stays empty. Who reads in vain again and again
    /// gives its core away.
    #[inline]
    fn read(&self, sink: &mut Sink) -> Result<usize, Errno> {
        let mut bound = match self.endpoints.try_lock() {
            Ok(bound) => bound,
            Err(Unavailable::Held) => {
                self.turned_away.0.vain();
                return Err(Errno::AGAIN);
            }
            Err(Unavailable::Poisoned) => return Err(Errno::POISONED),
        };
        // A call that has room for nothing is for progress alone.
        if self.keeps_any() && !sink.is_full() {
            return self.read_kept(sink);
        }
        match bound.endpoints.as_slice() {
            [only] => only.collect(self, sink)?,
            _ => self.collect_all(&mut bound, sink)?,
        }
        match sink.count() {
            0 if self.keeps_any() => self.read_kept(sink),
            0 => {
                drop(bound);
                self.spin.vain();
                Err(Errno::AGAIN)
            }
            count => {
                self.spin.found();
                Ok(count)
            }
        }
    }

    /// Polls the endpoints in turn, beginning with another one each time.
    fn collect_all(&self, bound: &mut Bound, sink: &mut Sink) -> Result<(), Errno> {
        let count = bound.endpoints.len();
        for turn in 0..count {
            let index = (bound.next + turn) % count;
            bound.endpoints[index].collect(self, sink)?;
            let full = sink.count() > 0 && sink.is_full();
            if full || self.keeps_any() {
                break;
            }
        }
        bound.next = if bound.next + 1 < count { bound.next + 1 } else { 0 };
        Ok(())
    }

    #[cold]
    fn read_kept(&self, sink: &mut Sink) -> Result<usize, Errno> {
        let mut queue = self.kept.lock().ok_or(Errno::POISONED)?;
        while !sink.is_full() {
            match queue.front() {
                Some(Kept::Good(entry, source)) => sink.put(entry, *source),
                _ => break,
            }
            queue.pop_front();
        }
        self.kept_count.store(queue.len(), Ordering::Release);
        match (sink.count(), queue.front()) {
            (0, Some(Kept::Bad(_))) => Err(Errno::AVAILABLE),
            (0, _) => Err(Errno::AGAIN),
            (count, _) => {
                self.spin.found();
                Ok(count)
            }
        }
    }

    /// Leaves progress to the endpoints' threads, for who will wait by the descriptor. False
    /// if there is something to read, or somebody has no thread.
    pub fn may_wait(&self) -> Result<bool, Errno> {
        self.waiters.arm(self.waiters.descriptor().ok_or(Errno::INVALID)?);
        // Not held while an endpoint is waited for, which may wait for it.
        let endpoints = self.endpoints.lock().ok_or(Errno::POISONED)?.endpoints.clone();
        Ok(endpoints.iter().all(|endpoint| endpoint.hand_over())
            && !self.keeps_any()
            && !self.signalled.swap(false, Ordering::Relaxed))
    }

    /// Leaves progress to the endpoints' threads and sleeps until one of them has
    /// something, at most for this long. May return for nothing.
    fn sleep(&self, most: Duration) {
        let waiter = self.waiters.enter();
        // Not held while an endpoint is waited for, which may wait for it.
        let endpoints = self.endpoints.lock_anyway().endpoints.clone();
        for endpoint in &endpoints {
            if !endpoint.hand_over() {
                return std::thread::yield_now();
            }
        }
        if !self.keeps_any() && !self.signalled.load(Ordering::Relaxed) {
            waiter.sleep(most);
        }
    }

    fn take_error(&self) -> Option<Failed> {
        let mut queue = self.kept.lock_anyway();
        if !matches!(queue.front(), Some(Kept::Bad(_))) {
            return None;
        }
        let Some(Kept::Bad(failed)) = queue.pop_front() else { return None };
        self.kept_count.store(queue.len(), Ordering::Release);
        Some(failed)
    }
}

/// An open completion queue.
#[repr(C)]
pub struct Cq {
    cq: fid_cq,
    pub core: Arc<CqCore>,
}

// SAFETY: `repr(C)`, begins with `fid_cq`, made below with this class.
unsafe impl Object for Cq {
    const CLASS: usize = ffi::FI_CLASS_CQ;

    fn in_use(&self) -> bool {
        object::shared(&self.core)
    }
}

static OPS: fi_ops = object::ops::<Cq>(no_bind, control);

static CQ_OPS: fi_ops_cq = fi_ops_cq {
    size: size_of::<fi_ops_cq>(),
    read,
    readfrom,
    readerr,
    sread,
    sreadfrom,
    signal,
    strerror,
};

/// `fi_cq_open`.
///
/// # Safety
/// As libfabric calls it: `domain` and `attr` are whole, `out` can be written.
pub unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_cq_attr,
    out: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    guard::status(|| {
        // SAFETY: the caller's promise.
        let (domain, attr): (&Domain, _) = unsafe {
            let Some(attr) = attr.as_ref() else { return Err(Errno::INVALID) };
            (object::object(domain), attr)
        };
        let format = Format::new(attr.format).ok_or(Errno::INVALID)?;
        let descriptor = Descriptor::wanted(attr.wait_obj)?;
        if descriptor.is_some() && !domain.core.wants_threads() {
            log::info(About::Completions, || {
                "no completion queue with a descriptor: FI_SLUICE_PROGRESS=poll".into()
            });
            return Err(Errno::NO_SYS);
        }
        let cq = Cq {
            cq: fid_cq { fid: object::head::<Cq>(context, &OPS), ops: &CQ_OPS },
            core: Arc::new(CqCore {
                endpoints: domain.core.lock(Bound::default()),
                kept: domain.core.lock(VecDeque::new()),
                kept_count: AtomicUsize::new(0),
                last_error: domain.core.lock(None),
                signalled: AtomicBool::new(false),
                waiters: Waiters::new(descriptor),
                wait_obj: attr.wait_obj,
                spin: Spin::new(),
                turned_away: Apart::default(),
                format,
                api_version: domain.core.api_version,
                domain: Arc::clone(&domain.core),
            }),
        };
        // SAFETY: the caller's promise.
        unsafe { object::hand_out(cq, out) };
        Ok(())
    })
}

/// `fi_control`: which wait object it has.
unsafe extern "C" fn control(cq: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: as libfabric calls it.
    unsafe {
        let core = &object::object::<Cq>(cq).core;
        wait::control(core.waiters.descriptor(), core.wait_obj, command, arg)
    }
}

unsafe extern "C" fn read(cq: *mut fid_cq, buf: *mut c_void, count: usize) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { readfrom(cq, buf, count, std::ptr::null_mut()) }
}

unsafe extern "C" fn readfrom(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
    sources: *mut fi_addr_t,
) -> ssize_t {
    guard::count(|| {
        // SAFETY: as libfabric calls it: `count` entries of the queue's format
        // can be written at `buf`, and as many sources if not null.
        let (cq, mut sink) = unsafe {
            let cq: &Cq = object::object(cq);
            (cq, Sink::new(cq.core.format, buf, count, sources))
        };
        cq.core.read(&mut sink)
    })
}

unsafe extern "C" fn sread(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
    cond: *const c_void,
    timeout_ms: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { sreadfrom(cq, buf, count, std::ptr::null_mut(), cond, timeout_ms) }
}

/// Waits by polling, as with manual progress nobody else would make the
/// completion; where a thread makes progress, asleep after a while. A condition,
/// which may be ignored, is.
unsafe extern "C" fn sreadfrom(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
    sources: *mut fi_addr_t,
    _cond: *const c_void,
    timeout_ms: c_int,
) -> ssize_t {
    // SAFETY: as libfabric calls it.
    let object: &Cq = unsafe { object::object(cq) };
    let mut deadline = None;
    let mut polls = 0;
    loop {
        // SAFETY: the caller's promise.
        let got = unsafe { readfrom(cq, buf, count, sources) };
        if got != -(ffi::FI_EAGAIN as ssize_t)
            || object.core.signalled.swap(false, Ordering::Relaxed)
        {
            return got;
        }
        polls += 1;
        if polls < SPINS {
            std::hint::spin_loop();
            continue;
        }
        let mut left = SLEEP_MAX;
        if let Ok(timeout_ms) = u64::try_from(timeout_ms) {
            let now = Instant::now();
            let until = *deadline.get_or_insert(now + Duration::from_millis(timeout_ms));
            left = left.min(until.saturating_duration_since(now));
            if left.is_zero() {
                return got;
            }
        }
        if object.core.domain.is_threaded() {
            guard::value((), || object.core.sleep(left));
        } else {
            object.core.spin.give_way();
        }
    }
}

unsafe extern "C" fn signal(cq: *mut fid_cq) -> c_int {
    // SAFETY: as libfabric calls it.
    let cq: &Cq = unsafe { object::object(cq) };
    cq.core.signalled.store(true, Ordering::Relaxed);
    guard::value((), || cq.core.waiters.wake());
    0
}

unsafe extern "C" fn readerr(cq: *mut fid_cq, buf: *mut fi_cq_err_entry, _flags: u64) -> ssize_t {
    guard::count(|| {
        // SAFETY: as libfabric calls it.
        let cq: &Cq = unsafe { object::object(cq) };
        let failed = cq.core.take_error().ok_or(Errno::AGAIN)?;
        let text = match &failed.text {
            Cow::Borrowed(text) => *text,
            Cow::Owned(text) => text,
        };
        let mut last = cq.core.last_error.lock_anyway();
        let text = CString::new(text).unwrap_or_default();
        let (_, text) = last.insert((failed.prov_errno, text));
        // SAFETY: as libfabric calls it: `buf` is an entry of the version that
        // the program asked for. The text lives until the next error is read.
        unsafe { failed.write(buf, cq.core.api_version, text) };
        Ok(1)
    })
}

unsafe extern "C" fn strerror(
    cq: *mut fid_cq,
    prov_errno: c_int,
    _err_data: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    guard::value(c"unknown error".as_ptr(), || {
        // SAFETY: as libfabric calls it.
        let cq: &Cq = unsafe { object::object(cq) };
        let mut last = cq.core.last_error.lock_anyway();
        if last.as_ref().is_none_or(|(known, _)| *known != prov_errno) {
            let text = CString::new(errno::text(prov_errno)).unwrap_or_default();
            *last = Some((prov_errno, text));
        }
        let Some((_, text)) = &*last else { return c"unknown error".as_ptr() };
        // SAFETY: as libfabric calls it: `len` bytes at `buf` can be written,
        // or it is null.
        unsafe { put_text(&text.to_string_lossy(), buf, len) };
        if buf.is_null() || len == 0 { text.as_ptr() } else { buf.cast_const() }
    })
}
