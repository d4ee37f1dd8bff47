//! List entries and match list entries: append, unlink, search.

use super::{call, interface};
use crate::args;
use crate::codes::Code;
use crate::handle::Kind;
use crate::ni_state::NiState;
use crate::object::{Parts, unpack};
use crate::resolve::{check_out, memory, pt_index, read, spec, write};
use crate::types::{ptl_handle_any_t, ptl_le_t, ptl_me_t};
use sluice_portals::{Handle, Me, MeOptions, MeSpec};
use std::ffi::{c_int, c_void};

/// An entry as the program describes it, and with what kind of structure.
struct Described {
    kind: Kind,
    me: ptl_me_t,
    options: MeOptions,
}

impl Described {
    /// # Safety
    /// The pointer is null, or leads to what the header says.
    unsafe fn le(le: *const ptl_le_t) -> Result<Described, Code> {
        // SAFETY: by the contract.
        let le = unsafe { read(le) }?;
        let options = le.checked_options()?;
        Ok(Described { kind: Kind::Le, me: le.as_me(), options })
    }

    /// # Safety
    /// As [`Described::le`].
    unsafe fn me(me: *const ptl_me_t) -> Result<Described, Code> {
        // SAFETY: by the contract.
        let me = unsafe { read(me) }?;
        let options = me.checked_options()?;
        Ok(Described { kind: Kind::Me, me, options })
    }

    /// What the engine makes the entry from, but for its memory.
    fn spec(
        &self,
        state: &mut NiState,
        beside: &Parts,
        user_ptr: *mut c_void,
    ) -> Result<MeSpec, Code> {
        // Entries of the other kind are not for this interface.
        if state.is_matching != (self.kind == Kind::Me) {
            return Err(Code::ArgInvalid);
        }
        spec(state, beside, &self.me, self.options, user_ptr)
    }
}

/// # Safety
/// `handle` is null or the program's to write to; an I/O vector is one.
unsafe fn append(
    ni_handle: ptl_handle_any_t,
    index: u32,
    entry: &Described,
    list: u8,
    user_ptr: *mut c_void,
    handle: *mut ptl_handle_any_t,
) -> Result<(), Code> {
    let parts = interface(ni_handle)?;
    let list = args::list(list)?;
    check_out(handle)?;
    // SAFETY: by the contract of this function.
    let named = unsafe { memory(entry.me.start, entry.me.length, entry.me.options) }?;
    let appended = parts.slot.attempt(parts.generation, |state| {
        let index = pt_index(state, index)?;
        let mut spec = entry.spec(state, &parts, user_ptr)?;
        spec.region = named.region;
        let (engine, port) = state.parts();
        let ni = &mut engine.ni;
        spec.vector = named.vector.map(|vector| ni.vector_bind(vector)).transpose()?;
        let appended = ni.me_append(port, index, list, spec);
        if let (Err(_), Some(vector)) = (&appended, spec.vector) {
            ni.vector_release(vector);
        }
        let linked: Option<Handle<Me>> = appended?;
        Ok(linked.unwrap_or_else(|| ni.me_spent()))
    })?;
    // SAFETY: checked above.
    unsafe { write(handle, parts.pack(entry.kind, appended)?) };
    Ok(())
}

/// # Safety
/// An I/O vector is one.
unsafe fn search(
    ni_handle: ptl_handle_any_t,
    index: u32,
    entry: &Described,
    op: u8,
    user_ptr: *mut c_void,
) -> Result<(), Code> {
    let parts = interface(ni_handle)?;
    let op = args::search_op(op)?;
    // SAFETY: by the contract of this function.
    let named = unsafe { memory(entry.me.start, entry.me.length, entry.me.options) }?;
    parts.slot.attempt(parts.generation, |state| {
        let index = pt_index(state, index)?;
        let mut spec = entry.spec(state, &parts, user_ptr)?;
        // A search moves nothing, so its length is all that counts.
        spec.region = named.region;
        let (engine, port) = state.parts();
        Ok(engine.ni.me_search(port, index, op, &spec)?)
    })
}

fn unlink(kind: Kind, handle: ptl_handle_any_t) -> Result<(), Code> {
    let parts = unpack(kind, handle)?;
    parts.slot.attempt(parts.generation, |state| {
        state.ni_mut().me_unlink(parts.table())?;
        Ok(())
    })
}

/// See `portals4.h`.
///
/// # Safety
/// The pointers are null, or lead to what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlLEAppend(
    ni_handle: ptl_handle_any_t,
    index: u32,
    le: *const ptl_le_t,
    list: u8,
    user_ptr: *mut c_void,
    le_handle: *mut ptl_handle_any_t,
) -> c_int {
    call(|| {
        // SAFETY: the caller says what it leads to.
        let entry = unsafe { Described::le(le) }?;
        // SAFETY: as above.
        unsafe { append(ni_handle, index, &entry, list, user_ptr, le_handle) }
    })
}

/// See `portals4.h`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlLEUnlink(le_handle: ptl_handle_any_t) -> c_int {
    call(|| unlink(Kind::Le, le_handle))
}

/// See `portals4.h`.
///
/// # Safety
/// The pointers are null, or lead to what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlLESearch(
    ni_handle: ptl_handle_any_t,
    index: u32,
    le: *const ptl_le_t,
    op: u8,
    user_ptr: *mut c_void,
) -> c_int {
    call(|| {
        // SAFETY: the caller says what it leads to.
        let entry = unsafe { Described::le(le) }?;
        // SAFETY: as above.
        unsafe { search(ni_handle, index, &entry, op, user_ptr) }
    })
}

/// See `portals4.h`.
///
/// # Safety
/// The pointers are null, or lead to what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlMEAppend(
    ni_handle: ptl_handle_any_t,
    index: u32,
    me: *const ptl_me_t,
    list: u8,
    user_ptr: *mut c_void,
    me_handle: *mut ptl_handle_any_t,
) -> c_int {
    call(|| {
        // SAFETY: the caller says what it leads to.
        let entry = unsafe { Described::me(me) }?;
        // SAFETY: as above.
        unsafe { append(ni_handle, index, &entry, list, user_ptr, me_handle) }
    })
}

/// See `portals4.h`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlMEUnlink(me_handle: ptl_handle_any_t) -> c_int {
    call(|| unlink(Kind::Me, me_handle))
}

/// See `portals4.h`.
///
/// # Safety
/// The pointers are null, or lead to what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlMESearch(
    ni_handle: ptl_handle_any_t,
    index: u32,
    me: *const ptl_me_t,
    op: u8,
    user_ptr: *mut c_void,
) -> c_int {
    call(|| {
        // SAFETY: the caller says what it leads to.
        let entry = unsafe { Described::me(me) }?;
        // SAFETY: as above.
        unsafe { search(ni_handle, index, &entry, op, user_ptr) }
    })
}
