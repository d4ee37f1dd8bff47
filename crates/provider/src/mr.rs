//! Memory regions. Nothing here needs registered memory, so a region is only
//! a handle with a key, for programs that register out of habit.

use crate::domain::{Domain, DomainCore};
use crate::errno::Errno;
use crate::ffi::{self, fi_mr_attr, fi_ops, fi_ops_mr, fid, fid_mr};
use crate::guard;
use crate::object::{self, Object};
use libc::{c_int, c_void, iovec};
use std::sync::Arc;

/// A registered region.
#[repr(C)]
struct Mr {
    mr: fid_mr,
    _domain: Arc<DomainCore>,
}

// SAFETY: `repr(C)`, begins with `fid_mr`, made below with this class.
unsafe impl Object for Mr {
    const CLASS: usize = ffi::FI_CLASS_MR;

    fn in_use(&self) -> bool {
        false
    }
}

static MR_OPS: fi_ops = object::ops::<Mr>(bind, control);

/// The registration calls of a domain.
pub static OPS: fi_ops_mr = fi_ops_mr { size: size_of::<fi_ops_mr>(), reg, regv, regattr };

/// Binding to an endpoint and enabling change nothing.
unsafe extern "C" fn bind(_mr: *mut fid, _to: *mut fid, _flags: u64) -> c_int {
    0
}

unsafe extern "C" fn control(_mr: *mut fid, command: c_int, _arg: *mut c_void) -> c_int {
    if command == ffi::FI_ENABLE { 0 } else { -ffi::FI_ENOSYS }
}

/// # Safety
/// `domain` is a domain of this provider, `out` can be written.
unsafe fn register(
    domain: *mut fid,
    key: u64,
    context: *mut c_void,
    out: *mut *mut fid_mr,
) -> c_int {
    guard::status(|| {
        // SAFETY: the caller's promise.
        let domain = unsafe { object::of_class::<Domain>(domain) }.ok_or(Errno::INVALID)?;
        let mr = Mr {
            mr: fid_mr {
                fid: object::head::<Mr>(context, &MR_OPS),
                mem_desc: std::ptr::null_mut(),
                key,
            },
            _domain: Arc::clone(&domain.core),
        };
        // SAFETY: the caller's promise.
        unsafe { object::hand_out(mr, out) };
        Ok(())
    })
}

unsafe extern "C" fn reg(
    domain: *mut fid,
    _buf: *const c_void,
    _len: usize,
    _access: u64,
    _offset: u64,
    key: u64,
    _flags: u64,
    out: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as libfabric calls it.
    unsafe { register(domain, key, context, out) }
}

unsafe extern "C" fn regv(
    domain: *mut fid,
    _iov: *const iovec,
    _count: usize,
    _access: u64,
    _offset: u64,
    key: u64,
    _flags: u64,
    out: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as libfabric calls it.
    unsafe { register(domain, key, context, out) }
}

unsafe extern "C" fn regattr(
    domain: *mut fid,
    attr: *const fi_mr_attr,
    _flags: u64,
    out: *mut *mut fid_mr,
) -> c_int {
    // SAFETY: as libfabric calls it, with whole attributes.
    unsafe { register(domain, (*attr).requested_key, (*attr).context, out) }
}
