//! Remote memory, atomic operations and counters: `fi_rma.h`, `fi_atomic.h`, and of
//! `fi_eq.h` the counters.

use super::fi_addr_t;
use super::head::{fid, fid_wait};
use super::object::fid_ep;
use libc::{c_int, c_void, iovec, size_t, ssize_t};

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_rma_iov {
    pub addr: u64,
    pub len: size_t,
    pub key: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_msg_rma {
    pub msg_iov: *const iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: size_t,
    pub addr: fi_addr_t,
    pub rma_iov: *const fi_rma_iov,
    pub rma_iov_count: size_t,
    pub context: *mut c_void,
    pub data: u64,
}

type Read = unsafe extern "C" fn(
    *mut fid_ep,
    *mut c_void,
    size_t,
    *mut c_void,
    fi_addr_t,
    u64,
    u64,
    *mut c_void,
) -> ssize_t;
type Write = unsafe extern "C" fn(
    *mut fid_ep,
    *const c_void,
    size_t,
    *mut c_void,
    fi_addr_t,
    u64,
    u64,
    *mut c_void,
) -> ssize_t;
type Vector = unsafe extern "C" fn(
    *mut fid_ep,
    *const iovec,
    *mut *mut c_void,
    size_t,
    fi_addr_t,
    u64,
    u64,
    *mut c_void,
) -> ssize_t;
type Message = unsafe extern "C" fn(*mut fid_ep, *const fi_msg_rma, u64) -> ssize_t;

#[repr(C)]
pub struct fi_ops_rma {
    pub size: size_t,
    pub read: Read,
    pub readv: Vector,
    pub readmsg: Message,
    pub write: Write,
    pub writev: Vector,
    pub writemsg: Message,
    pub inject:
        unsafe extern "C" fn(*mut fid_ep, *const c_void, size_t, fi_addr_t, u64, u64) -> ssize_t,
    pub writedata: unsafe extern "C" fn(
        *mut fid_ep,
        *const c_void,
        size_t,
        *mut c_void,
        u64,
        fi_addr_t,
        u64,
        u64,
        *mut c_void,
    ) -> ssize_t,
    pub injectdata: unsafe extern "C" fn(
        *mut fid_ep,
        *const c_void,
        size_t,
        u64,
        fi_addr_t,
        u64,
        u64,
    ) -> ssize_t,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_ioc {
    pub addr: *mut c_void,
    pub count: size_t,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_rma_ioc {
    pub addr: u64,
    pub count: size_t,
    pub key: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_msg_atomic {
    pub msg_iov: *const fi_ioc,
    pub desc: *mut *mut c_void,
    pub iov_count: size_t,
    pub addr: fi_addr_t,
    pub rma_iov: *const fi_rma_ioc,
    pub rma_iov_count: size_t,
    pub datatype: u32,
    pub op: u32,
    pub context: *mut c_void,
    pub data: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct fi_atomic_attr {
    pub count: size_t,
    pub size: size_t,
}

type Valid = unsafe extern "C" fn(*mut fid_ep, u32, u32, *mut size_t) -> c_int;

#[repr(C)]
pub struct fi_ops_atomic {
    pub size: size_t,
    pub write: unsafe extern "C" fn(
        *mut fid_ep,
        *const c_void,
        size_t,
        *mut c_void,
        fi_addr_t,
        u64,
        u64,
        u32,
        u32,
        *mut c_void,
    ) -> ssize_t,
    pub writev: unsafe extern "C" fn(
        *mut fid_ep,
        *const fi_ioc,
        *mut *mut c_void,
        size_t,
        fi_addr_t,
        u64,
        u64,
        u32,
        u32,
        *mut c_void,
    ) -> ssize_t,
    pub writemsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_atomic, u64) -> ssize_t,
    pub inject: unsafe extern "C" fn(
        *mut fid_ep,
        *const c_void,
        size_t,
        fi_addr_t,
        u64,
        u64,
        u32,
        u32,
    ) -> ssize_t,
    pub readwrite: unsafe extern "C" fn(
        *mut fid_ep,
        *const c_void,
        size_t,
        *mut c_void,
        *mut c_void,
        *mut c_void,
        fi_addr_t,
        u64,
        u64,
        u32,
        u32,
        *mut c_void,
    ) -> ssize_t,
    pub readwritev: unsafe extern "C" fn(
        *mut fid_ep,
        *const fi_ioc,
        *mut *mut c_void,
        size_t,
        *mut fi_ioc,
        *mut *mut c_void,
        size_t,
        fi_addr_t,
        u64,
        u64,
        u32,
        u32,
        *mut c_void,
    ) -> ssize_t,
    pub readwritemsg: unsafe extern "C" fn(
        *mut fid_ep,
        *const fi_msg_atomic,
        *mut fi_ioc,
        *mut *mut c_void,
        size_t,
        u64,
    ) -> ssize_t,
    pub compwrite: unsafe extern "C" fn(
        *mut fid_ep,
        *const c_void,
        size_t,
        *mut c_void,
        *const c_void,
        *mut c_void,
        *mut c_void,
        *mut c_void,
        fi_addr_t,
        u64,
        u64,
        u32,
        u32,
        *mut c_void,
    ) -> ssize_t,
    pub compwritev: unsafe extern "C" fn(
        *mut fid_ep,
        *const fi_ioc,
        *mut *mut c_void,
        size_t,
        *const fi_ioc,
        *mut *mut c_void,
        size_t,
        *mut fi_ioc,
        *mut *mut c_void,
        size_t,
        fi_addr_t,
        u64,
        u64,
        u32,
        u32,
        *mut c_void,
    ) -> ssize_t,
    pub compwritemsg: unsafe extern "C" fn(
        *mut fid_ep,
        *const fi_msg_atomic,
        *const fi_ioc,
        *mut *mut c_void,
        size_t,
        *mut fi_ioc,
        *mut *mut c_void,
        size_t,
        u64,
    ) -> ssize_t,
    pub writevalid: Valid,
    pub readwritevalid: Valid,
    pub compwritevalid: Valid,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_cntr_attr {
    pub events: u32,
    pub wait_obj: u32,
    pub wait_set: *mut fid_wait,
    pub flags: u64,
}

#[repr(C)]
pub struct fi_ops_cntr {
    pub size: size_t,
    pub read: unsafe extern "C" fn(*mut fid_cntr) -> u64,
    pub readerr: unsafe extern "C" fn(*mut fid_cntr) -> u64,
    pub add: unsafe extern "C" fn(*mut fid_cntr, u64) -> c_int,
    pub set: unsafe extern "C" fn(*mut fid_cntr, u64) -> c_int,
    pub wait: unsafe extern "C" fn(*mut fid_cntr, u64, c_int) -> c_int,
    pub adderr: unsafe extern "C" fn(*mut fid_cntr, u64) -> c_int,
    pub seterr: unsafe extern "C" fn(*mut fid_cntr, u64) -> c_int,
}

#[repr(C)]
pub struct fid_cntr {
    pub fid: fid,
    pub ops: *const fi_ops_cntr,
}
