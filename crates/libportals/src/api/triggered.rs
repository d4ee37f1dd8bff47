//! Triggered changes of counters. Triggered operations are beside those that are
//! not (`operations`).

use super::call;
use super::ct::engine_value;
use crate::codes::Code;
use crate::handle::Kind;
use crate::object::unpack;
use crate::types::{ptl_ct_event_t, ptl_handle_any_t};
use sluice_portals::Command;
use std::ffi::c_int;

fn trigger_ct(
    ct_handle: ptl_handle_any_t,
    trig_ct_handle: ptl_handle_any_t,
    threshold: u64,
    command: impl FnOnce(sluice_portals::Handle<sluice_portals::Ct>) -> Command,
) -> c_int {
    call(|| {
        let parts = unpack(Kind::Ct, ct_handle)?;
        let trigger = unpack(Kind::Ct, trig_ct_handle)?;
        if !trigger.is_beside(&parts) {
            return Err(Code::ArgInvalid);
        }
        parts.slot.attempt(parts.generation, |state| {
            let (engine, port) = state.parts();
            let command = command(parts.table());
            Ok(engine.ni.trigger(port, command, trigger.table(), threshold)?)
        })
    })
}

/// See `portals4.h`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredCTInc(
    ct_handle: ptl_handle_any_t,
    increment: ptl_ct_event_t,
    trig_ct_handle: ptl_handle_any_t,
    threshold: u64,
) -> c_int {
    trigger_ct(ct_handle, trig_ct_handle, threshold, |ct| Command::CtInc {
        ct,
        by: engine_value(increment),
    })
}

/// See `portals4.h`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredCTSet(
    ct_handle: ptl_handle_any_t,
    new_ct: ptl_ct_event_t,
    trig_ct_handle: ptl_handle_any_t,
    threshold: u64,
) -> c_int {
    trigger_ct(ct_handle, trig_ct_handle, threshold, |ct| Command::CtSet {
        ct,
        to: engine_value(new_ct),
    })
}
