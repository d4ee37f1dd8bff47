//! The functions of `portals4.h`, one file for each of its parts. Each looks at
//! its arguments, turns them into the engine's, calls it under the interface's
//! lock, and turns what comes back into a return code. No panic crosses.

mod begin;
mod ct;
mod entries;
mod eq;
mod job;
mod md;
mod ni;
mod operations;
mod pt;
mod triggered;

// What `crate::program` calls.
pub(crate) use begin::{PtlAbort, PtlFini, PtlInit};
pub(crate) use ct::{PtlCTAlloc, PtlCTGet, PtlCTWait};
pub(crate) use entries::{PtlLEAppend, PtlMEAppend};
pub(crate) use eq::{PtlEQAlloc, PtlEQGet};
pub(crate) use md::PtlMDBind;
pub(crate) use ni::{PtlGetPhysId, PtlNIFini, PtlNIInit};
pub(crate) use operations::{PtlGet, PtlPut};
pub(crate) use pt::PtlPTAlloc;

use crate::codes::{Code, PTL_OK};
use crate::handle::Kind;
use crate::object::{Parts, unpack};
use crate::types::ptl_handle_any_t;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The frame of every function that needs a `PtlInit` before it.
#[inline]
fn call(function: impl FnOnce() -> Result<(), Code>) -> c_int {
    guarded(|| if begin::is_ready() { function() } else { Err(Code::NoInit) })
}

/// The frame of those that do not.
#[inline]
fn guarded(function: impl FnOnce() -> Result<(), Code>) -> c_int {
    match catch_unwind(AssertUnwindSafe(function)) {
        Ok(Ok(())) => PTL_OK,
        Ok(Err(code)) => code as c_int,
        // The panic has been reported by the panic hook.
        Err(_) => Code::Fail as c_int,
    }
}

/// The interface that a handle names, if it is open.
#[inline]
fn interface(handle: ptl_handle_any_t) -> Result<Parts, Code> {
    unpack(Kind::Ni, handle)
}
