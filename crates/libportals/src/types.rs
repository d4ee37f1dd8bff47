//! The types of `portals4.h`, laid out as C does. A test compares them with what
//! a C compiler makes of the header, which documents them.

#![allow(non_camel_case_types, reason = "the names of the specification")]
#![allow(missing_docs, reason = "portals4.h documents them")]

use std::ffi::{c_int, c_uint, c_void};

pub type ptl_size_t = u64;
pub type ptl_sr_index_t = c_uint;
pub type ptl_handle_any_t = u64;
pub type ptl_handle_ni_t = ptl_handle_any_t;
pub type ptl_handle_eq_t = ptl_handle_any_t;
pub type ptl_handle_ct_t = ptl_handle_any_t;
pub type ptl_handle_md_t = ptl_handle_any_t;
pub type ptl_handle_le_t = ptl_handle_any_t;
pub type ptl_handle_me_t = ptl_handle_any_t;
pub type ptl_ni_fail_t = u8;
pub type ptl_list_t = u8;
pub type ptl_search_op_t = u8;
pub type ptl_op_t = u8;
pub type ptl_datatype_t = u8;
pub type ptl_ack_req_t = u8;
pub type ptl_event_kind_t = u8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ptl_phys_t {
    pub nid: u32,
    pub pid: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub union ptl_process_t {
    pub rank: u32,
    pub phys: ptl_phys_t,
}

impl ptl_process_t {
    /// By node and process.
    #[must_use]
    pub const fn from_phys(nid: u32, pid: u32) -> ptl_process_t {
        ptl_process_t { phys: ptl_phys_t { nid, pid } }
    }

    /// By rank; the other half is zero.
    #[must_use]
    pub const fn from_rank(rank: u32) -> ptl_process_t {
        ptl_process_t::from_phys(rank, 0)
    }

    /// As a rank, whatever it was made as.
    #[must_use]
    pub const fn as_rank(self) -> u32 {
        // SAFETY: both members are plain integers, and this one is within the
        // other, so any bits are a value of it.
        unsafe { self.rank }
    }

    /// As node and process, whatever it was made as.
    #[must_use]
    pub const fn as_phys(self) -> ptl_phys_t {
        // SAFETY: any bits are a value of this member. C programs may leave the
        // second half unset where only the rank counts; it is not used then.
        unsafe { self.phys }
    }
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct ptl_iovec_t {
    pub iov_base: *mut c_void,
    pub iov_len: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ptl_ni_limits_t {
    pub max_entries: c_int,
    pub max_unexpected_headers: c_int,
    pub max_mds: c_int,
    pub max_cts: c_int,
    pub max_eqs: c_int,
    pub max_pt_index: c_int,
    pub max_iovecs: c_int,
    pub max_list_size: c_int,
    pub max_triggered_ops: c_int,
    pub max_msg_size: u64,
    pub max_atomic_size: u64,
    pub max_fetch_atomic_size: u64,
    pub max_waw_ordered_size: u64,
    pub max_war_ordered_size: u64,
    pub max_volatile_size: u64,
    pub features: c_uint,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct ptl_md_t {
    pub start: *mut c_void,
    pub length: u64,
    pub options: c_uint,
    pub eq_handle: ptl_handle_any_t,
    pub ct_handle: ptl_handle_any_t,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct ptl_le_t {
    pub start: *mut c_void,
    pub length: u64,
    pub ct_handle: ptl_handle_any_t,
    pub uid: u32,
    pub options: c_uint,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct ptl_me_t {
    pub start: *mut c_void,
    pub length: u64,
    pub ct_handle: ptl_handle_any_t,
    pub uid: u32,
    pub options: c_uint,
    pub match_id: ptl_process_t,
    pub match_bits: u64,
    pub ignore_bits: u64,
    pub min_free: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ptl_ct_event_t {
    pub success: u64,
    pub failure: u64,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct ptl_event_t {
    pub start: *mut c_void,
    pub user_ptr: *mut c_void,
    pub hdr_data: u64,
    pub match_bits: u64,
    pub rlength: u64,
    pub mlength: u64,
    pub remote_offset: u64,
    pub initiator: ptl_process_t,
    pub uid: u32,
    pub pt_index: u32,
    pub r#type: u8,
    pub ptl_list: u8,
    pub ni_fail_type: u8,
    pub atomic_operation: u8,
    pub atomic_type: u8,
}
