//! Counters.

use super::{call, interface};
use crate::codes::Code;
use crate::consts::PTL_TIME_FOREVER;
use crate::handle::Kind;
use crate::ni_state::NiState;
use crate::object::{Parts, unpack};
use crate::resolve::{check_out, read, write};
use crate::types::{ptl_ct_event_t, ptl_handle_any_t};
use sluice_portals::{Command, CtEvent};
use smallvec::SmallVec;
use std::ffi::{c_int, c_uint};

/// So many queues or counters a poll keeps on its stack; of more it takes a list on the heap.
pub(super) const WATCHED_INLINE: usize = 8;

/// See `portals4.h`.
///
/// # Safety
/// The pointer is null, or leads to what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlCTAlloc(
    ni_handle: ptl_handle_any_t,
    ct_handle: *mut ptl_handle_any_t,
) -> c_int {
    call(|| {
        let parts = interface(ni_handle)?;
        check_out(ct_handle)?;
        let ct = parts.slot.with(parts.generation, |state| state.ni_mut().ct_alloc())??;
        // SAFETY: checked above.
        unsafe { write(ct_handle, parts.pack(Kind::Ct, ct)?) };
        Ok(())
    })
}

/// See `portals4.h`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlCTFree(ct_handle: ptl_handle_any_t) -> c_int {
    call(|| {
        let parts = unpack(Kind::Ct, ct_handle)?;
        let freed =
            parts.slot.act(parts.generation, |state| state.ni_mut().ct_free(parts.table()))?;
        if freed { Ok(()) } else { Err(Code::ArgInvalid) }
    })
}

/// See `portals4.h`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlCTCancelTriggered(ct_handle: ptl_handle_any_t) -> c_int {
    call(|| {
        let parts = unpack(Kind::Ct, ct_handle)?;
        parts.slot.with(parts.generation, |state| {
            Ok(state.ni_mut().ct_cancel_triggered(parts.table())?)
        })?
    })
}

/// See `portals4.h`.
///
/// # Safety
/// The pointer is null, or leads to what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlCTGet(
    ct_handle: ptl_handle_any_t,
    event: *mut ptl_ct_event_t,
) -> c_int {
    call(|| {
        let parts = unpack(Kind::Ct, ct_handle)?;
        check_out(event)?;
        let value = parts.slot.look(parts.generation, |state| value_of(state, &parts))?;
        // SAFETY: checked above.
        unsafe { write(event, value.ok_or(Code::ArgInvalid)?) };
        Ok(())
    })
}

/// See `portals4.h`.
///
/// # Safety
/// The pointer is null, or leads to what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlCTWait(
    ct_handle: ptl_handle_any_t,
    test: u64,
    event: *mut ptl_ct_event_t,
) -> c_int {
    call(|| {
        let parts = unpack(Kind::Ct, ct_handle)?;
        check_out(event)?;
        let look = |state: &mut NiState| met(state, &parts, test);
        let none = Code::CtNoneReached;
        let met = parts.slot.wait_ms(parts.generation, PTL_TIME_FOREVER, none, look)?;
        // SAFETY: checked above.
        unsafe { write(event, met?) };
        Ok(())
    })
}

/// See `portals4.h`.
///
/// # Safety
/// The pointers are null, or lead to what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlCTPoll(
    ct_handles: *const ptl_handle_any_t,
    tests: *const u64,
    size: c_uint,
    timeout: c_uint,
    event: *mut ptl_ct_event_t,
    which: *mut c_uint,
) -> c_int {
    call(|| {
        check_out(event)?;
        check_out(which)?;
        if size == 0 {
            return Err(Code::ArgInvalid);
        }
        let mut watched = SmallVec::<[(Parts, u64); WATCHED_INLINE]>::new();
        for at in 0..size as usize {
            // SAFETY: the caller says that they lead to so many; each is looked
            // at before it is read.
            let (handle, test) =
                unsafe { (read(ct_handles.wrapping_add(at))?, read(tests.wrapping_add(at))?) };
            watched.push((unpack(Kind::Ct, handle)?, test));
        }
        let first = watched[0].0;
        if watched.iter().any(|(parts, _)| !parts.is_beside(&first)) {
            return Err(Code::ArgInvalid);
        }
        let look = |state: &mut NiState| {
            let found = turns(watched.len(), state.poll_from).find_map(|at| {
                let (parts, test) = &watched[at];
                Some((at, met(state, parts, *test)?))
            })?;
            state.poll_from = found.0 + 1;
            Some(found)
        };
        let none = Code::CtNoneReached;
        let (at, value) = first.slot.wait_ms(first.generation, timeout, none, look)?;
        // SAFETY: checked above.
        unsafe {
            write(event, value?);
            write(which, at as c_uint);
        }
        Ok(())
    })
}

/// See `portals4.h`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlCTSet(ct_handle: ptl_handle_any_t, new_ct: ptl_ct_event_t) -> c_int {
    call(|| {
        let parts = unpack(Kind::Ct, ct_handle)?;
        parts.slot.act(parts.generation, |state| {
            let (engine, port) = state.parts();
            let command = Command::CtSet { ct: parts.table(), to: engine_value(new_ct) };
            Ok(engine.ni.issue(port, &command)?)
        })?
    })
}

/// See `portals4.h`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlCTInc(ct_handle: ptl_handle_any_t, increment: ptl_ct_event_t) -> c_int {
    call(|| {
        let parts = unpack(Kind::Ct, ct_handle)?;
        parts.slot.act(parts.generation, |state| {
            let (engine, port) = state.parts();
            let command = Command::CtInc { ct: parts.table(), by: engine_value(increment) };
            Ok(engine.ni.issue(port, &command)?)
        })?
    })
}

pub(super) fn engine_value(event: ptl_ct_event_t) -> CtEvent {
    CtEvent { success: event.success, failure: event.failure }
}

/// All of `count` things once, beginning with the one after the last found.
pub(super) fn turns(count: usize, from: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |at| (at + from) % count)
}

fn value_of(state: &NiState, parts: &Parts) -> Option<ptl_ct_event_t> {
    let value = state.ni().ct(parts.table())?;
    Some(ptl_ct_event_t { success: value.success, failure: value.failure })
}

/// What ends the wait for a counter: its value, a failure, or its own end.
fn met(state: &NiState, parts: &Parts, test: u64) -> Option<Result<ptl_ct_event_t, Code>> {
    let Some(value) = value_of(state, parts) else { return Some(Err(Code::ArgInvalid)) };
    let sum = value.success.saturating_add(value.failure);
    (sum >= test || value.failure > 0).then_some(Ok(value))
}
