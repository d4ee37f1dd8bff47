//! What every object of libfabric begins with.
//!
//! Operations that this provider never offers are of type [`NoOp`]: a function
//! that takes nothing and returns `-FI_ENOSYS`. Its caller passes arguments
//! that it does not look at, which the C calling conventions of the supported
//! systems allow (the caller removes them).

use libc::{c_int, c_void, size_t, ssize_t};

/// An operation that is not offered.
pub type NoOp = extern "C" fn() -> ssize_t;

#[repr(C)]
#[derive(Debug)]
pub struct fid {
    pub fclass: size_t,
    pub context: *mut c_void,
    pub ops: *const fi_ops,
}

#[repr(C)]
pub struct fi_ops {
    pub size: size_t,
    pub close: unsafe extern "C" fn(*mut fid) -> c_int,
    pub bind: unsafe extern "C" fn(*mut fid, *mut fid, u64) -> c_int,
    pub control: unsafe extern "C" fn(*mut fid, c_int, *mut c_void) -> c_int,
    pub ops_open: NoOp,
    pub tostr: NoOp,
    pub ops_set: NoOp,
}

#[repr(C)]
pub struct fid_wait {
    pub fid: fid,
    pub ops: *const c_void,
}
