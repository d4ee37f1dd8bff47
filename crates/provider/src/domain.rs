//! The domain: parent of endpoints, queues and vectors.

use crate::atomic;
use crate::av;
use crate::cntr;
use crate::cq;
use crate::ep;
use crate::eq::Eq;
use crate::errno::Errno;
use crate::fabric::{Fabric, FabricCore};
use crate::ffi::{self, fi_info, fi_ops, fi_ops_domain, fid, fid_domain, fid_fabric};
use crate::guard;
use crate::info;
use crate::mr::{self, Registry};
use crate::object::{self, Object, no_control, no_op};
use crate::param;
use libc::{c_int, c_void};
use sluice_runtime::lock::Lock;
use sluice_runtime::settings::Progress;
use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the objects of a domain count on.
#[derive(Debug)]
pub struct DomainCore {
    /// The interface version that the program asked for.
    pub api_version: u32,
    /// The program lets one thread at a time into the domain
    /// (FI_THREAD_DOMAIN).
    serial: bool,
    /// Endpoints have a thread each that makes progress: all of them, or those that are
    /// opened after the first queue with a descriptor, which only a thread can raise.
    threaded: AtomicBool,
    may_be_threaded: bool,
    /// Kind of an address vector whose attributes name none.
    pub av_type: u32,
    /// Offsets in regions are addresses (FI_MR_VIRT_ADDR).
    pub virtual_addresses: bool,
    /// Keys of regions are the provider's (FI_MR_PROV_KEY).
    pub own_keys: bool,
    pub registry: Lock<Registry>,
    _fabric: Arc<FabricCore>,
}

impl DomainCore {
    /// Whether an endpoint that is opened now gets a thread.
    pub fn is_threaded(&self) -> bool {
        self.threaded.load(Ordering::Relaxed)
    }

    /// Endpoints that are opened from now on are to have a thread. Whether they may.
    pub fn wants_threads(&self) -> bool {
        if self.may_be_threaded {
            self.threaded.store(true, Ordering::Relaxed);
        }
        self.may_be_threaded
    }

    /// The lock of an object of this domain that only the program's threads use.
    pub fn lock<T>(&self, value: T) -> Lock<T> {
        // SAFETY: `serial` comes from `open` alone, whose caller asked for
        // FI_THREAD_DOMAIN and has so promised what is wanted, of every object
        // of the domain. A thread of our own takes none of these locks.
        unsafe { Lock::serial(value, self.serial) }
    }
}

/// An open domain.
#[repr(C)]
pub struct Domain {
    domain: fid_domain,
    pub core: Arc<DomainCore>,
}

// SAFETY: `repr(C)`, begins with `fid_domain`, made below with this class.
unsafe impl Object for Domain {
    const CLASS: usize = ffi::FI_CLASS_DOMAIN;

    fn in_use(&self) -> bool {
        object::shared(&self.core)
    }
}

static OPS: fi_ops = object::ops::<Domain>(bind, no_control);

static DOMAIN_OPS: fi_ops_domain = fi_ops_domain {
    size: size_of::<fi_ops_domain>(),
    av_open: av::open,
    cq_open: cq::open,
    endpoint: ep::open,
    scalable_ep: no_op,
    cntr_open: cntr::open,
    poll_open: no_op,
    stx_ctx: no_op,
    srx_ctx: no_op,
    query_atomic: atomic::query,
    query_collective: no_op,
    endpoint2: ep::open2,
};

/// `fi_domain`.
///
/// # Safety
/// As libfabric calls it: `fabric` and `info` are whole, `out` can be written.
pub unsafe extern "C" fn open(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    out: *mut *mut fid_domain,
    context: *mut c_void,
) -> c_int {
    guard::status(|| {
        // SAFETY: the caller's promise.
        let (fabric, attr): (&Fabric, _) = unsafe {
            if info.is_null() || (*info).domain_attr.is_null() {
                return Err(Errno::INVALID);
            }
            (object::object(fabric), &(*(*info).domain_attr).hints)
        };
        // SAFETY: null or NUL-terminated.
        if !attr.name.is_null() && unsafe { CStr::from_ptr(attr.name) } != info::DOMAIN {
            return Err(Errno::INVALID);
        }
        let asked = info::asks_for_thread(attr);
        let threaded = match param::get().progress {
            Progress::Asked => asked,
            Progress::Thread => true,
            // `fi_getinfo` has refused this; the program asks all the same.
            Progress::Poll if asked => return Err(Errno::INVALID),
            Progress::Poll => false,
        };
        let domain = Domain {
            domain: fid_domain {
                fid: object::head::<Domain>(context, &OPS),
                ops: &DOMAIN_OPS,
                mr: &mr::OPS,
            },
            core: Arc::new(DomainCore {
                api_version: fabric.api_version(),
                serial: attr.threading == ffi::FI_THREAD_DOMAIN,
                threaded: AtomicBool::new(threaded),
                may_be_threaded: param::get().progress != Progress::Poll,
                av_type: attr.av_type,
                virtual_addresses: attr.mr_mode & (ffi::FI_MR_BASIC | ffi::FI_MR_VIRT_ADDR) != 0,
                own_keys: attr.mr_mode & (ffi::FI_MR_BASIC | ffi::FI_MR_PROV_KEY) != 0,
                registry: mr::registry(),
                _fabric: Arc::clone(&fabric.core),
            }),
        };
        // SAFETY: the caller's promise.
        unsafe { object::hand_out(domain, out) };
        Ok(())
    })
}

/// `fi_domain2`: no flag is known.
///
/// # Safety
/// As [`open`].
pub unsafe extern "C" fn open2(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    out: *mut *mut fid_domain,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        return -ffi::FI_EBADFLAGS;
    }
    // SAFETY: the caller's promise.
    unsafe { open(fabric, info, out, context) }
}

/// `fi_domain_bind`: an event queue, for events that never come.
unsafe extern "C" fn bind(_domain: *mut fid, to: *mut fid, flags: u64) -> c_int {
    guard::status(|| {
        // SAFETY: libfabric passes an open object of this provider.
        match unsafe { object::of_class::<Eq>(to) } {
            Some(_) if flags == 0 => Ok(()),
            Some(_) => Err(Errno::BAD_FLAGS),
            None => Err(Errno::INVALID),
        }
    })
}
