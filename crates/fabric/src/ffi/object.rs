//! Objects and their tables of operations. Every table begins with its size,
//! by which a caller knows what the table has; all are filled to the length
//! that 1.17 gives them.

use super::fi_addr_t;
use super::head::{NoOp, fid};
use super::info::fi_info;
use super::queue::{
    fi_cq_attr, fi_cq_err_entry, fi_eq_attr, fi_eq_err_entry, fi_msg, fi_msg_tagged,
};
use super::remote::{fi_atomic_attr, fi_cntr_attr, fi_ops_atomic, fi_ops_rma, fid_cntr};
use libc::{c_char, c_int, c_void, iovec, size_t, ssize_t};

#[repr(C)]
pub struct fi_ops_fabric {
    pub size: size_t,
    pub domain: unsafe extern "C" fn(
        *mut fid_fabric,
        *mut fi_info,
        *mut *mut fid_domain,
        *mut c_void,
    ) -> c_int,
    pub passive_ep: NoOp,
    pub eq_open: unsafe extern "C" fn(
        *mut fid_fabric,
        *mut fi_eq_attr,
        *mut *mut fid_eq,
        *mut c_void,
    ) -> c_int,
    pub wait_open: NoOp,
    pub trywait: unsafe extern "C" fn(*mut fid_fabric, *mut *mut fid, c_int) -> c_int,
    pub domain2: unsafe extern "C" fn(
        *mut fid_fabric,
        *mut fi_info,
        *mut *mut fid_domain,
        u64,
        *mut c_void,
    ) -> c_int,
}

#[repr(C)]
pub struct fid_fabric {
    pub fid: fid,
    pub ops: *const fi_ops_fabric,
    /// Written by libfabric after the fabric is opened.
    pub api_version: u32,
}

#[repr(C)]
pub struct fi_av_attr {
    pub type_: u32,
    pub rx_ctx_bits: c_int,
    pub count: size_t,
    pub ep_per_node: size_t,
    pub name: *const c_char,
    pub map_addr: *mut c_void,
    pub flags: u64,
}

#[repr(C)]
pub struct fi_ops_domain {
    pub size: size_t,
    pub av_open: unsafe extern "C" fn(
        *mut fid_domain,
        *mut fi_av_attr,
        *mut *mut fid_av,
        *mut c_void,
    ) -> c_int,
    pub cq_open: unsafe extern "C" fn(
        *mut fid_domain,
        *mut fi_cq_attr,
        *mut *mut fid_cq,
        *mut c_void,
    ) -> c_int,
    pub endpoint:
        unsafe extern "C" fn(*mut fid_domain, *mut fi_info, *mut *mut fid_ep, *mut c_void) -> c_int,
    pub scalable_ep: NoOp,
    pub cntr_open: unsafe extern "C" fn(
        *mut fid_domain,
        *mut fi_cntr_attr,
        *mut *mut fid_cntr,
        *mut c_void,
    ) -> c_int,
    pub poll_open: NoOp,
    pub stx_ctx: NoOp,
    pub srx_ctx: NoOp,
    pub query_atomic:
        unsafe extern "C" fn(*mut fid_domain, u32, u32, *mut fi_atomic_attr, u64) -> c_int,
    pub query_collective: NoOp,
    pub endpoint2: unsafe extern "C" fn(
        *mut fid_domain,
        *mut fi_info,
        *mut *mut fid_ep,
        u64,
        *mut c_void,
    ) -> c_int,
}

#[repr(C)]
pub struct fi_mr_attr {
    pub mr_iov: *const iovec,
    pub iov_count: size_t,
    pub access: u64,
    pub offset: u64,
    pub requested_key: u64,
    pub context: *mut c_void,
    pub auth_key_size: size_t,
    pub auth_key: *mut u8,
    pub iface: u32,
    pub device: u64,
}

#[repr(C)]
pub struct fi_ops_mr {
    pub size: size_t,
    pub reg: unsafe extern "C" fn(
        *mut fid,
        *const c_void,
        size_t,
        u64,
        u64,
        u64,
        u64,
        *mut *mut fid_mr,
        *mut c_void,
    ) -> c_int,
    pub regv: unsafe extern "C" fn(
        *mut fid,
        *const iovec,
        size_t,
        u64,
        u64,
        u64,
        u64,
        *mut *mut fid_mr,
        *mut c_void,
    ) -> c_int,
    pub regattr: unsafe extern "C" fn(*mut fid, *const fi_mr_attr, u64, *mut *mut fid_mr) -> c_int,
}

#[repr(C)]
pub struct fid_domain {
    pub fid: fid,
    pub ops: *const fi_ops_domain,
    pub mr: *const fi_ops_mr,
}

#[repr(C)]
pub struct fid_mr {
    pub fid: fid,
    pub mem_desc: *mut c_void,
    pub key: u64,
}

#[repr(C)]
pub struct fi_ops_av {
    pub size: size_t,
    pub insert: unsafe extern "C" fn(
        *mut fid_av,
        *const c_void,
        size_t,
        *mut fi_addr_t,
        u64,
        *mut c_void,
    ) -> c_int,
    pub insertsvc: NoOp,
    pub insertsym: NoOp,
    pub remove: unsafe extern "C" fn(*mut fid_av, *mut fi_addr_t, size_t, u64) -> c_int,
    pub lookup: unsafe extern "C" fn(*mut fid_av, fi_addr_t, *mut c_void, *mut size_t) -> c_int,
    pub straddr:
        unsafe extern "C" fn(*mut fid_av, *const c_void, *mut c_char, *mut size_t) -> *const c_char,
    pub av_set: NoOp,
}

#[repr(C)]
pub struct fid_av {
    pub fid: fid,
    pub ops: *const fi_ops_av,
}

#[repr(C)]
pub struct fi_ops_eq {
    pub size: size_t,
    pub read: unsafe extern "C" fn(*mut fid_eq, *mut u32, *mut c_void, size_t, u64) -> ssize_t,
    pub readerr: unsafe extern "C" fn(*mut fid_eq, *mut fi_eq_err_entry, u64) -> ssize_t,
    pub write: unsafe extern "C" fn(*mut fid_eq, u32, *const c_void, size_t, u64) -> ssize_t,
    pub sread:
        unsafe extern "C" fn(*mut fid_eq, *mut u32, *mut c_void, size_t, c_int, u64) -> ssize_t,
    pub strerror: unsafe extern "C" fn(
        *mut fid_eq,
        c_int,
        *const c_void,
        *mut c_char,
        size_t,
    ) -> *const c_char,
}

#[repr(C)]
pub struct fid_eq {
    pub fid: fid,
    pub ops: *const fi_ops_eq,
}

#[repr(C)]
pub struct fi_ops_cq {
    pub size: size_t,
    pub read: unsafe extern "C" fn(*mut fid_cq, *mut c_void, size_t) -> ssize_t,
    pub readfrom: unsafe extern "C" fn(*mut fid_cq, *mut c_void, size_t, *mut fi_addr_t) -> ssize_t,
    pub readerr: unsafe extern "C" fn(*mut fid_cq, *mut fi_cq_err_entry, u64) -> ssize_t,
    pub sread:
        unsafe extern "C" fn(*mut fid_cq, *mut c_void, size_t, *const c_void, c_int) -> ssize_t,
    pub sreadfrom: unsafe extern "C" fn(
        *mut fid_cq,
        *mut c_void,
        size_t,
        *mut fi_addr_t,
        *const c_void,
        c_int,
    ) -> ssize_t,
    pub signal: unsafe extern "C" fn(*mut fid_cq) -> c_int,
    pub strerror: unsafe extern "C" fn(
        *mut fid_cq,
        c_int,
        *const c_void,
        *mut c_char,
        size_t,
    ) -> *const c_char,
}

#[repr(C)]
pub struct fid_cq {
    pub fid: fid,
    pub ops: *const fi_ops_cq,
}

#[repr(C)]
pub struct fi_ops_ep {
    pub size: size_t,
    pub cancel: unsafe extern "C" fn(*mut fid, *mut c_void) -> ssize_t,
    pub getopt: unsafe extern "C" fn(*mut fid, c_int, c_int, *mut c_void, *mut size_t) -> c_int,
    pub setopt: unsafe extern "C" fn(*mut fid, c_int, c_int, *const c_void, size_t) -> c_int,
    pub tx_ctx: NoOp,
    pub rx_ctx: NoOp,
    pub rx_size_left: NoOp,
    pub tx_size_left: NoOp,
}

#[repr(C)]
pub struct fi_ops_cm {
    pub size: size_t,
    pub setname: NoOp,
    pub getname: unsafe extern "C" fn(*mut fid, *mut c_void, *mut size_t) -> c_int,
    pub getpeer: NoOp,
    pub connect: NoOp,
    pub listen: NoOp,
    pub accept: NoOp,
    pub reject: NoOp,
    pub shutdown: NoOp,
    pub join: NoOp,
}

#[repr(C)]
pub struct fi_ops_msg {
    pub size: size_t,
    pub recv: unsafe extern "C" fn(
        *mut fid_ep,
        *mut c_void,
        size_t,
        *mut c_void,
        fi_addr_t,
        *mut c_void,
    ) -> ssize_t,
    pub recvv: unsafe extern "C" fn(
        *mut fid_ep,
        *const iovec,
        *mut *mut c_void,
        size_t,
        fi_addr_t,
        *mut c_void,
    ) -> ssize_t,
    pub recvmsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg, u64) -> ssize_t,
    pub send: unsafe extern "C" fn(
        *mut fid_ep,
        *const c_void,
        size_t,
        *mut c_void,
        fi_addr_t,
        *mut c_void,
    ) -> ssize_t,
    pub sendv: unsafe extern "C" fn(
        *mut fid_ep,
        *const iovec,
        *mut *mut c_void,
        size_t,
        fi_addr_t,
        *mut c_void,
    ) -> ssize_t,
    pub sendmsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg, u64) -> ssize_t,
    pub inject: unsafe extern "C" fn(*mut fid_ep, *const c_void, size_t, fi_addr_t) -> ssize_t,
    pub senddata: unsafe extern "C" fn(
        *mut fid_ep,
        *const c_void,
        size_t,
        *mut c_void,
        u64,
        fi_addr_t,
        *mut c_void,
    ) -> ssize_t,
    pub injectdata:
        unsafe extern "C" fn(*mut fid_ep, *const c_void, size_t, u64, fi_addr_t) -> ssize_t,
}

#[repr(C)]
pub struct fi_ops_tagged {
    pub size: size_t,
    pub recv: unsafe extern "C" fn(
        *mut fid_ep,
        *mut c_void,
        size_t,
        *mut c_void,
        fi_addr_t,
        u64,
        u64,
        *mut c_void,
    ) -> ssize_t,
    pub recvv: unsafe extern "C" fn(
        *mut fid_ep,
        *const iovec,
        *mut *mut c_void,
        size_t,
        fi_addr_t,
        u64,
        u64,
        *mut c_void,
    ) -> ssize_t,
    pub recvmsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_tagged, u64) -> ssize_t,
    pub send: unsafe extern "C" fn(
        *mut fid_ep,
        *const c_void,
        size_t,
        *mut c_void,
        fi_addr_t,
        u64,
        *mut c_void,
    ) -> ssize_t,
    pub sendv: unsafe extern "C" fn(
        *mut fid_ep,
        *const iovec,
        *mut *mut c_void,
        size_t,
        fi_addr_t,
        u64,
        *mut c_void,
    ) -> ssize_t,
    pub sendmsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_tagged, u64) -> ssize_t,
    pub inject: unsafe extern "C" fn(*mut fid_ep, *const c_void, size_t, fi_addr_t, u64) -> ssize_t,
    pub senddata: unsafe extern "C" fn(
        *mut fid_ep,
        *const c_void,
        size_t,
        *mut c_void,
        u64,
        fi_addr_t,
        u64,
        *mut c_void,
    ) -> ssize_t,
    pub injectdata:
        unsafe extern "C" fn(*mut fid_ep, *const c_void, size_t, u64, fi_addr_t, u64) -> ssize_t,
}

/// A table none of whose `N` operations is offered, so that a program that calls them
/// unasked gets an error and no crash.
#[repr(C)]
pub struct NoOps<const N: usize> {
    pub size: size_t,
    pub ops: [NoOp; N],
}

#[repr(C)]
pub struct fid_ep {
    pub fid: fid,
    pub ops: *const fi_ops_ep,
    pub cm: *const fi_ops_cm,
    pub msg: *const fi_ops_msg,
    pub rma: *const fi_ops_rma,
    pub tagged: *const fi_ops_tagged,
    pub atomic: *const fi_ops_atomic,
    pub collective: *const NoOps<11>,
}
