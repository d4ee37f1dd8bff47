//! Event queues.

use super::ct::{WATCHED_INLINE, turns};
use super::{call, interface};
use crate::codes::{Code, PTL_NI_OK, failure};
use crate::consts::{self, PTL_TIME_FOREVER};
use crate::handle::Kind;
use crate::ni_state::NiState;
use crate::object::{Parts, unpack};
use crate::phys::Phys;
use crate::resolve::{check_out, read, write};
use crate::types::{ptl_event_t, ptl_handle_any_t, ptl_process_t};
use sluice_portals::{EqTaken, Event, EventKind, List, NOBODY};
use smallvec::SmallVec;
use std::ffi::{c_int, c_uint, c_void};

/// Events of one queue at the most.
const EVENTS_MAX: u64 = 1 << 24;

/// See `portals4.h`.
///
/// # Safety
/// The pointer is null, or leads to what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlEQAlloc(
    ni_handle: ptl_handle_any_t,
    count: u64,
    eq_handle: *mut ptl_handle_any_t,
) -> c_int {
    call(|| {
        let parts = interface(ni_handle)?;
        check_out(eq_handle)?;
        if count > EVENTS_MAX {
            return Err(Code::NoSpace);
        }
        let eq = parts
            .slot
            .with(parts.generation, |state| state.ni_mut().eq_alloc(count as usize))??;
        // SAFETY: checked above.
        unsafe { write(eq_handle, parts.pack(Kind::Eq, eq)?) };
        Ok(())
    })
}

/// See `portals4.h`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlEQFree(eq_handle: ptl_handle_any_t) -> c_int {
    call(|| {
        let parts = unpack(Kind::Eq, eq_handle)?;
        let freed =
            parts.slot.act(parts.generation, |state| state.ni_mut().eq_free(parts.table()))?;
        if freed { Ok(()) } else { Err(Code::ArgInvalid) }
    })
}

/// See `portals4.h`.
///
/// # Safety
/// The pointer is null, or leads to what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlEQGet(eq_handle: ptl_handle_any_t, event: *mut ptl_event_t) -> c_int {
    call(|| {
        let parts = unpack(Kind::Eq, eq_handle)?;
        check_out(event)?;
        // SAFETY: checked above.
        let look = |state: &mut NiState| unsafe { take(state, &parts, event) };
        parts.slot.glance(parts.generation, look)?.unwrap_or(Err(Code::EqEmpty))
    })
}

/// See `portals4.h`.
///
/// # Safety
/// The pointer is null, or leads to what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlEQWait(eq_handle: ptl_handle_any_t, event: *mut ptl_event_t) -> c_int {
    call(|| {
        let parts = unpack(Kind::Eq, eq_handle)?;
        check_out(event)?;
        // SAFETY: checked above.
        let look = |state: &mut NiState| unsafe { take(state, &parts, event) };
        parts.slot.wait_ms(parts.generation, PTL_TIME_FOREVER, Code::EqEmpty, look)?
    })
}

/// See `portals4.h`.
///
/// # Safety
/// The pointers are null, or lead to what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlEQPoll(
    eq_handles: *const ptl_handle_any_t,
    size: c_uint,
    timeout: c_uint,
    event: *mut ptl_event_t,
    which: *mut c_uint,
) -> c_int {
    call(|| {
        check_out(event)?;
        check_out(which)?;
        if size == 0 {
            return Err(Code::ArgInvalid);
        }
        let mut watched = SmallVec::<[Parts; WATCHED_INLINE]>::new();
        for at in 0..size as usize {
            // SAFETY: the caller says that it leads to so many; each is looked
            // at before it is read.
            let handle = unsafe { read(eq_handles.wrapping_add(at)) }?;
            watched.push(unpack(Kind::Eq, handle)?);
        }
        let first = watched[0];
        if watched.iter().any(|parts| !parts.is_beside(&first)) {
            return Err(Code::ArgInvalid);
        }
        let look = |state: &mut NiState| {
            let found = turns(watched.len(), state.poll_from)
                // SAFETY: checked above.
                .find_map(|at| Some((at, unsafe { take(state, &watched[at], event) }?)))?;
            state.poll_from = found.0 + 1;
            Some(found)
        };
        let (at, taken) = first.slot.wait_ms(first.generation, timeout, Code::EqEmpty, look)?;
        // SAFETY: checked above.
        unsafe { write(which, at as c_uint) };
        taken
    })
}

/// What ends the wait for a queue: an event, which it writes where it goes, or the queue's own
/// end.
///
/// # Safety
/// As [`write`].
#[inline]
unsafe fn take(
    state: &mut NiState,
    parts: &Parts,
    to: *mut ptl_event_t,
) -> Option<Result<(), Code>> {
    let eq = parts.table();
    let (event, result) = match state.ni_mut().eq_take(eq) {
        EqTaken::Empty if state.ni().has_eq(eq) => return None,
        EqTaken::Empty => return Some(Err(Code::ArgInvalid)),
        EqTaken::Event(event) => (event, Ok(())),
        EqTaken::EventAfterDrop(event) => (event, Err(Code::EqDropped)),
    };
    // Its place may be what somebody waits for, and the program may not call again.
    if state.ni().wants_attention() {
        state.attend();
        state.context.poll();
    }
    // SAFETY: by the contract of this function.
    unsafe { write(to, event_of(state, &event)) };
    Some(result)
}

/// The engine's event in the header's structure.
#[inline]
fn event_of(state: &mut NiState, event: &Event) -> ptl_event_t {
    let initiator = if event.peer == NOBODY {
        ptl_process_t::from_phys(0, 0)
    } else if state.is_logical {
        let (engine, port) = state.parts();
        ptl_process_t::from_rank(engine.peers.rank(port, event.peer))
    } else {
        let Phys { nid, pid } = state.peers().phys(state.world(), event.peer);
        ptl_process_t::from_phys(nid, pid)
    };
    let is_search = event.kind == EventKind::Search;
    let (operation, datatype) = event.atomic.map_or((0, 0), |(op, ty)| (op.code(), ty.code()));
    // An announcement, which no Portals program sends, has neither.
    let (start, remote_offset) = match event.rts() {
        None => (event.start.0, event.remote_offset),
        Some(_) => (0, 0),
    };
    ptl_event_t {
        start: pointer(start),
        user_ptr: pointer(event.user_ptr),
        hdr_data: event.hdr_data,
        match_bits: event.match_bits.0,
        rlength: event.rlength,
        mlength: event.mlength,
        remote_offset,
        initiator,
        uid: state.uid,
        pt_index: u32::from(event.pt_index.0),
        r#type: code_of_kind(event.kind),
        ptl_list: match event.list {
            List::Priority => consts::PTL_PRIORITY_LIST,
            List::Overflow => consts::PTL_OVERFLOW_LIST,
        },
        ni_fail_type: event.outcome.err().map_or(PTL_NI_OK, |fail| failure(&fail, is_search)),
        atomic_operation: operation,
        atomic_type: datatype,
    }
}

fn code_of_kind(kind: EventKind) -> u8 {
    match kind {
        EventKind::Get | EventKind::GetDone => consts::PTL_EVENT_GET,
        EventKind::GetOverflow => consts::PTL_EVENT_GET_OVERFLOW,
        EventKind::Put => consts::PTL_EVENT_PUT,
        EventKind::PutOverflow => consts::PTL_EVENT_PUT_OVERFLOW,
        EventKind::Atomic => consts::PTL_EVENT_ATOMIC,
        EventKind::AtomicOverflow => consts::PTL_EVENT_ATOMIC_OVERFLOW,
        EventKind::FetchAtomic => consts::PTL_EVENT_FETCH_ATOMIC,
        EventKind::FetchAtomicOverflow => consts::PTL_EVENT_FETCH_ATOMIC_OVERFLOW,
        EventKind::Reply => consts::PTL_EVENT_REPLY,
        EventKind::Send => consts::PTL_EVENT_SEND,
        EventKind::Ack => consts::PTL_EVENT_ACK,
        EventKind::PtDisabled => consts::PTL_EVENT_PT_DISABLED,
        EventKind::Link => consts::PTL_EVENT_LINK,
        EventKind::AutoUnlink => consts::PTL_EVENT_AUTO_UNLINK,
        EventKind::AutoFree => consts::PTL_EVENT_AUTO_FREE,
        EventKind::Search => consts::PTL_EVENT_SEARCH,
    }
}

fn pointer(number: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(number as usize)
}
