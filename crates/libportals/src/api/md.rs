//! Memory descriptors.

use super::{call, interface};
use crate::codes::Code;
use crate::handle::Kind;
use crate::object::unpack;
use crate::resolve::{check_out, ct_of, eq_of, memory, read, write};
use crate::types::{ptl_handle_any_t, ptl_md_t};
use std::ffi::c_int;

/// See `portals4.h`.
///
/// # Safety
/// The pointers are null, or lead to what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlMDBind(
    ni_handle: ptl_handle_any_t,
    md: *const ptl_md_t,
    md_handle: *mut ptl_handle_any_t,
) -> c_int {
    call(|| {
        let parts = interface(ni_handle)?;
        check_out(md_handle)?;
        // SAFETY: the caller says what it leads to.
        let md = unsafe { read(md) }?;
        let options = md.checked_options()?;
        // SAFETY: as above.
        let named = unsafe { memory(md.start, md.length, md.options) }?;
        let handle = parts.slot.with(parts.generation, |state| {
            let eq = eq_of(state, &parts, md.eq_handle)?;
            let ct = ct_of(state, &parts, md.ct_handle)?;
            let ni = state.ni_mut();
            let vector = named.vector.map(|vector| ni.vector_bind(vector)).transpose()?;
            let bound = ni.md_bind(named.region, vector, eq, ct, options);
            if let (Err(_), Some(vector)) = (&bound, vector) {
                ni.vector_release(vector);
            }
            Ok::<_, Code>(bound?)
        })??;
        // SAFETY: checked above.
        unsafe { write(md_handle, parts.pack(Kind::Md, handle)?) };
        Ok(())
    })
}

/// See `portals4.h`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlMDRelease(md_handle: ptl_handle_any_t) -> c_int {
    call(|| {
        let parts = unpack(Kind::Md, md_handle)?;
        parts
            .slot
            .attempt(parts.generation, |state| Ok(state.ni_mut().md_release(parts.table())?))
    })
}
