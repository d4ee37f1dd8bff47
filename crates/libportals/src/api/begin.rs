//! `PtlInit`, `PtlFini`, `PtlAbort`, and what belongs to no interface.

use super::{call, guarded};
use crate::codes::Code;
use crate::ni_slot::{abort, clear_abort, slots};
use crate::types::ptl_handle_any_t;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// `PtlInit` calls that `PtlFini` has not undone.
static READY: AtomicU32 = AtomicU32::new(0);
/// Held while that changes.
static CHANGE: Mutex<()> = Mutex::new(());

#[inline]
pub(super) fn is_ready() -> bool {
    READY.load(Ordering::Relaxed) != 0
}

/// See `portals4.h`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlInit() -> c_int {
    guarded(|| {
        let _change = CHANGE.lock().unwrap_or_else(PoisonError::into_inner);
        let ready = READY.load(Ordering::Relaxed);
        READY.store(ready.checked_add(1).ok_or(Code::Fail)?, Ordering::Release);
        Ok(())
    })
}

/// See `portals4.h`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlFini() {
    let _ = guarded(|| {
        let _change = CHANGE.lock().unwrap_or_else(PoisonError::into_inner);
        match READY.load(Ordering::Relaxed) {
            0 => {}
            1 => {
                READY.store(0, Ordering::Release);
                for slot in slots() {
                    super::ni::close(slot);
                }
                clear_abort();
            }
            ready => READY.store(ready - 1, Ordering::Release),
        }
        Ok(())
    });
}

/// See `portals4.h`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlAbort() {
    let _ = call(|| {
        abort();
        Ok(())
    });
}

/// See `portals4.h`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlAtomicSync() -> c_int {
    // Atomic operations act on memory itself: there is nothing to wait for but
    // the order of this thread's own accesses.
    call(|| {
        std::sync::atomic::fence(Ordering::SeqCst);
        Ok(())
    })
}

/// See `portals4.h`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlHandleIsEqual(handle1: ptl_handle_any_t, handle2: ptl_handle_any_t) -> c_int {
    c_int::from(handle1 == handle2)
}
