//! The event queue. Connections would need it; here it carries what the
//! program itself writes and the ends of address insertions.

use crate::errno::Errno;
use crate::fabric::{Fabric, FabricCore};
use crate::ffi::{
    self, fi_eq_attr, fi_eq_entry, fi_eq_err_entry, fi_ops, fi_ops_eq, fid, fid_eq, fid_fabric,
};
use crate::guard;
use crate::object::{self, Object, no_bind};
use crate::wait::{self, Descriptor};
use libc::{c_char, c_int, c_void, ssize_t};
use sluice_runtime::spin::Spin;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// An event.
#[derive(Debug)]
enum Event {
    /// Its number and what is read with it.
    Good(u32, Vec<u8>),
    /// A failure.
    Bad { fid: usize, context: usize, data: u64, err: c_int },
}

/// What address vectors write to.
#[derive(Debug)]
pub struct EqCore {
    events: Mutex<VecDeque<Event>>,
    /// Reads in vain.
    spin: Spin,
    wait_obj: u32,
    /// Readable as long as there is an event.
    descriptor: Option<Descriptor>,
    _fabric: Arc<FabricCore>,
}

/// An open event queue.
#[repr(C)]
pub struct Eq {
    eq: fid_eq,
    pub core: Arc<EqCore>,
}

// SAFETY: `repr(C)`, begins with `fid_eq`, made below with this class.
unsafe impl Object for Eq {
    const CLASS: usize = ffi::FI_CLASS_EQ;

    fn in_use(&self) -> bool {
        object::shared(&self.core)
    }
}

static OPS: fi_ops = object::ops::<Eq>(no_bind, control);
static EQ_OPS: fi_ops_eq =
    fi_ops_eq { size: size_of::<fi_ops_eq>(), read, readerr, write, sread, strerror };

impl EqCore {
    fn events(&self) -> MutexGuard<'_, VecDeque<Event>> {
        // A queue of whole events is sound whatever happened to its user.
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, event: Event) {
        let mut events = self.events();
        events.push_back(event);
        if let Some(descriptor) = &self.descriptor {
            descriptor.raise();
        }
    }

    fn pop(&self, events: &mut VecDeque<Event>) {
        events.pop_front();
        if let Some(descriptor) = &self.descriptor
            && events.is_empty()
        {
            descriptor.lower();
        }
    }

    /// Whether there is nothing to read, for who will wait by the descriptor.
    pub fn may_wait(&self) -> Result<bool, Errno> {
        self.descriptor.as_ref().ok_or(Errno::INVALID)?;
        Ok(self.events().is_empty())
    }

    /// Reports the end of an insertion of `count` good addresses.
    pub fn inserted(&self, av: *mut fid, context: *mut c_void, count: u64) {
        let entry = fi_eq_entry { fid: av, context, data: count };
        let at = (&raw const entry).cast::<u8>();
        // SAFETY: a plain structure without padding: two pointers and a word.
        let bytes = unsafe { std::slice::from_raw_parts(at, size_of_val(&entry)) };
        self.push(Event::Good(ffi::FI_AV_COMPLETE, bytes.to_vec()));
    }

    /// Reports that the address at `index` of an insertion was not accepted.
    pub fn refused(&self, av: *mut fid, context: *mut c_void, index: u64, errno: Errno) {
        let event =
            Event::Bad { fid: av as usize, context: context as usize, data: index, err: errno.0 };
        self.push(event);
    }
}

/// `fi_eq_open`.
///
/// # Safety
/// As libfabric calls it: `fabric` is whole, `out` can be written.
pub unsafe extern "C" fn open(
    fabric: *mut fid_fabric,
    attr: *mut fi_eq_attr,
    out: *mut *mut fid_eq,
    context: *mut c_void,
) -> c_int {
    guard::status(|| {
        // SAFETY: the caller's promise; attributes may be null.
        let (fabric, attr): (&Fabric, _) = unsafe { (object::object(fabric), attr.as_ref()) };
        let wait_obj = attr.map_or(ffi::FI_WAIT_NONE, |attr| attr.wait_obj);
        let descriptor = Descriptor::wanted(wait_obj)?;
        let eq = Eq {
            eq: fid_eq { fid: object::head::<Eq>(context, &OPS), ops: &EQ_OPS },
            core: Arc::new(EqCore {
                events: Mutex::new(VecDeque::new()),
                spin: Spin::new(),
                wait_obj,
                descriptor,
                _fabric: Arc::clone(&fabric.core),
            }),
        };
        // SAFETY: the caller's promise.
        unsafe { object::hand_out(eq, out) };
        Ok(())
    })
}

unsafe extern "C" fn control(eq: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: as libfabric calls it.
    unsafe {
        let core = &object::object::<Eq>(eq).core;
        wait::control(core.descriptor.as_ref(), core.wait_obj, command, arg)
    }
}

unsafe extern "C" fn read(
    eq: *mut fid_eq,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    flags: u64,
) -> ssize_t {
    guard::count(|| {
        // SAFETY: as libfabric calls it.
        let eq: &Eq = unsafe { object::object(eq) };
        let mut events = eq.core.events();
        let (number, bytes) = match events.front() {
            None => {
                drop(events);
                eq.core.spin.vain();
                return Err(Errno::AGAIN);
            }
            Some(Event::Bad { .. }) => return Err(Errno::AVAILABLE),
            Some(Event::Good(number, bytes)) => (*number, bytes),
        };
        if bytes.len() > len {
            return Err(Errno::TOO_SMALL);
        }
        let count = bytes.len();
        // SAFETY: as libfabric calls it: `event` and `len` bytes at `buf` can
        // be written.
        unsafe {
            *event = number;
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), buf.cast(), count);
        }
        if flags & ffi::FI_PEEK == 0 {
            eq.core.pop(&mut events);
        }
        eq.core.spin.found();
        Ok(count)
    })
}

unsafe extern "C" fn readerr(eq: *mut fid_eq, buf: *mut fi_eq_err_entry, flags: u64) -> ssize_t {
    guard::count(|| {
        // SAFETY: as libfabric calls it.
        let eq: &Eq = unsafe { object::object(eq) };
        let mut events = eq.core.events();
        let Some(Event::Bad { fid, context, data, err }) = events.front() else {
            return Err(Errno::AGAIN);
        };
        // SAFETY: as libfabric calls it: `buf` can be written.
        unsafe {
            (*buf).fid = *fid as *mut _;
            (*buf).context = *context as *mut _;
            (*buf).data = *data;
            (*buf).err = *err;
            (*buf).prov_errno = *err;
            (*buf).err_data = std::ptr::null_mut();
        }
        if flags & ffi::FI_PEEK == 0 {
            eq.core.pop(&mut events);
        }
        Ok(size_of::<fi_eq_err_entry>())
    })
}

unsafe extern "C" fn write(
    eq: *mut fid_eq,
    event: u32,
    buf: *const c_void,
    len: usize,
    _flags: u64,
) -> ssize_t {
    guard::count(|| {
        // SAFETY: as libfabric calls it: `len` bytes at `buf` can be read.
        let (eq, bytes): (&Eq, _) = unsafe {
            let bytes: &[u8] =
                if len == 0 { &[] } else { std::slice::from_raw_parts(buf.cast(), len) };
            (object::object(eq), bytes)
        };
        eq.core.push(Event::Good(event, bytes.to_vec()));
        Ok(len)
    })
}

unsafe extern "C" fn sread(
    eq: *mut fid_eq,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    timeout_ms: c_int,
    flags: u64,
) -> ssize_t {
    let deadline =
        u64::try_from(timeout_ms).ok().map(|ms| Instant::now() + Duration::from_millis(ms));
    loop {
        // SAFETY: the caller's promise.
        let got = unsafe { read(eq, event, buf, len, flags) };
        let late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if got != -(ffi::FI_EAGAIN as ssize_t) || late {
            return got;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

unsafe extern "C" fn strerror(
    _eq: *mut fid_eq,
    prov_errno: c_int,
    _err_data: *const c_void,
    _buf: *mut c_char,
    _len: usize,
) -> *const c_char {
    // SAFETY: any number is answered, with a static text.
    unsafe { ffi::fi_strerror(prov_errno) }
}
