//! Portal table entries.

use super::{call, interface};
use crate::args::pt_options;
use crate::codes::Code;
use crate::consts::PTL_PT_ANY;
use crate::resolve::{check_out, eq_of, pt_index, write};
use crate::types::ptl_handle_any_t;
use sluice_portals::PtlError;
use std::ffi::{c_int, c_uint};

/// See `portals4.h`.
///
/// # Safety
/// The pointer is null, or leads to what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlPTAlloc(
    ni_handle: ptl_handle_any_t,
    options: c_uint,
    eq_handle: ptl_handle_any_t,
    pt_index_req: u32,
    pt_index_out: *mut u32,
) -> c_int {
    call(|| {
        let parts = interface(ni_handle)?;
        let options = pt_options(options)?;
        check_out(pt_index_out)?;
        let index = parts.slot.with(parts.generation, |state| {
            let eq = eq_of(state, &parts, eq_handle)?;
            let index = if pt_index_req == PTL_PT_ANY {
                state.ni().pt_free_index()?
            } else {
                pt_index(state, pt_index_req)?
            };
            state.ni_mut().pt_alloc(index, options, eq)?;
            Ok::<_, Code>(index)
        })??;
        // SAFETY: checked above.
        unsafe { write(pt_index_out, u32::from(index.0)) };
        Ok(())
    })
}

/// See `portals4.h`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlPTFree(ni_handle: ptl_handle_any_t, index: u32) -> c_int {
    call(|| {
        let parts = interface(ni_handle)?;
        parts.slot.act(parts.generation, |state| {
            let index = pt_index(state, index)?;
            state.ni_mut().pt_free(index).map_err(|why| match why {
                PtlError::InUse => Code::PtInUse,
                why => why.into(),
            })
        })?
    })
}

/// See `portals4.h`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlPTEnable(ni_handle: ptl_handle_any_t, index: u32) -> c_int {
    call(|| {
        let parts = interface(ni_handle)?;
        parts.slot.act(parts.generation, |state| {
            let index = pt_index(state, index)?;
            let (engine, port) = state.parts();
            Ok(engine.ni.pt_enable(port, index)?)
        })?
    })
}

/// See `portals4.h`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlPTDisable(ni_handle: ptl_handle_any_t, index: u32) -> c_int {
    call(|| {
        let parts = interface(ni_handle)?;
        let index = parts.slot.act(parts.generation, |state| {
            let index = pt_index(state, index)?;
            state.ni_mut().pt_disable(index)?;
            Ok::<_, Code>(index)
        })??;
        let quiet = parts
            .slot
            .wait(parts.generation, None, |state| (!state.ni().pt_is_active(index)).then_some(()));
        match quiet {
            Ok(()) => Ok(()),
            Err(unmet) => Err(Code::of_unmet(unmet, Code::Aborted)),
        }
    })
}
