//! What all objects have in common.
//!
//! An object is a box whose first member is libfabric's structure, so a
//! pointer to the one is a pointer to the other. What other objects refer to is
//! in a counted core inside the box: an object is in use, and will not close,
//! as long as anyone else counts on its core.

use crate::errno::Errno;
use crate::ffi::{self, NoOp, fi_ops, fid};
use crate::guard;
use libc::{c_int, c_void, ssize_t};
use std::sync::Arc;

/// A box whose first member is one of libfabric's structures.
///
/// # Safety
/// The type is `repr(C)`, its first member is a structure that begins with a
/// [`fid`], and `CLASS` is the class that its `fid` carries.
pub unsafe trait Object: Sized {
    /// The class of its `fid`.
    const CLASS: usize;

    /// Whether other objects count on this one.
    fn in_use(&self) -> bool;

    /// The last words before the memory goes.
    fn closing(&self) {}
}

/// The object behind a pointer that C holds.
///
/// # Safety
/// `at` was handed out by [`hand_out`] for a `T`, and was not closed.
#[inline]
pub unsafe fn object<'a, T: Object>(at: *const impl Sized) -> &'a T {
    // SAFETY: the caller's promise; the pointer is to the box's start.
    unsafe { &*at.cast::<T>() }
}

/// The object behind a `fid`, if it is a `T`.
///
/// # Safety
/// `at` is an object of this provider that was not closed.
pub unsafe fn of_class<'a, T: Object>(at: *const fid) -> Option<&'a T> {
    // SAFETY: the caller's promise; every object begins with a `fid`, and its
    // class says which it is.
    unsafe { (!at.is_null() && (*at).fclass == T::CLASS).then(|| object(at)) }
}

/// Gives an object to C, which owns it until it closes it.
///
/// # Safety
/// `to` can be written.
pub unsafe fn hand_out<T: Object, F>(object: T, to: *mut *mut F) {
    // SAFETY: the caller's promise.
    unsafe { *to = Box::into_raw(Box::new(object)).cast() };
}

/// `fi_close` of a `T`.
///
/// # Safety
/// As libfabric calls it: `at` is a `T` of this provider, not used again.
pub unsafe extern "C" fn close<T: Object>(at: *mut fid) -> c_int {
    guard::status(|| {
        // SAFETY: the caller's promise.
        let object: &T = unsafe { object(at) };
        if object.in_use() {
            return Err(Errno::BUSY);
        }
        object.closing();
        // SAFETY: it came from `hand_out`, and C gives up its pointer.
        drop(unsafe { Box::from_raw(at.cast::<T>()) });
        Ok(())
    })
}

/// Whether anyone but its object holds a core.
pub fn shared<T>(core: &Arc<T>) -> bool {
    Arc::strong_count(core) > 1
}

/// The common table of an object.
pub const fn ops<T: Object>(
    bind: unsafe extern "C" fn(*mut fid, *mut fid, u64) -> c_int,
    control: unsafe extern "C" fn(*mut fid, c_int, *mut c_void) -> c_int,
) -> fi_ops {
    fi_ops {
        size: size_of::<fi_ops>(),
        close: close::<T>,
        bind,
        control,
        ops_open: no_op,
        tostr: no_op,
        ops_set: no_op,
    }
}

/// The beginning of an object.
pub fn head<T: Object>(context: *mut c_void, ops: &'static fi_ops) -> fid {
    fid { fclass: T::CLASS, context, ops }
}

/// An operation that is not offered.
pub extern "C" fn no_op() -> ssize_t {
    -(ffi::FI_ENOSYS as ssize_t)
}

const _: NoOp = no_op;

/// `fi_bind` on what nothing is bound to.
///
/// # Safety
/// None needed: it looks at nothing.
pub unsafe extern "C" fn no_bind(_: *mut fid, _: *mut fid, _: u64) -> c_int {
    -ffi::FI_ENOSYS
}

/// `fi_control` on what takes no command.
///
/// # Safety
/// None needed: it looks at nothing.
pub unsafe extern "C" fn no_control(_: *mut fid, _: c_int, _: *mut c_void) -> c_int {
    -ffi::FI_ENOSYS
}
