//! The fence at the C boundary: no panic crosses it.
//!
//! A panic while an object's lock is held poisons that object ([`sluice_runtime::lock`]),
//! so that every later call on it is refused instead of working on a state
//! that an invariant may no longer hold for.

use crate::errno::Errno;
use libc::{c_int, ssize_t};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a call that answers 0 or a negative error number.
#[inline]
pub fn status(call: impl FnOnce() -> Result<(), Errno>) -> c_int {
    count(|| call().map(|()| 0)) as c_int
}

/// Runs a data call: 0 or a negative error number.
#[inline]
pub fn posted(call: impl FnOnce() -> Result<(), Errno>) -> ssize_t {
    count(|| call().map(|()| 0))
}

/// Runs a call that answers a count or a negative error number.
#[inline]
pub fn count(call: impl FnOnce() -> Result<usize, Errno>) -> ssize_t {
    // The answer becomes one number inside the fence: what crosses it goes
    // through memory, and a result written as two halves and read as one stalls
    // the processor for longer than an empty poll takes.
    //
    // What the closure touches is either behind a lock that a panic poisons or
    // not touched again.
    let answer = catch_unwind(AssertUnwindSafe(|| match call() {
        Ok(count) => count as ssize_t,
        Err(errno) => -(errno.0 as ssize_t),
    }));
    answer.unwrap_or(-(Errno::POISONED.0 as ssize_t))
}

/// Runs a call that answers a value, `fallback` after a panic.
#[inline]
pub fn value<T>(fallback: T, call: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(fallback)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_number() {
        assert_eq!(status(|| panic!("on purpose")), -crate::ffi::FI_EOTHER);
        assert_eq!(status(|| Err(Errno::AGAIN)), -libc::EAGAIN);
        assert_eq!(count(|| Ok(3)), 3);
    }
}
