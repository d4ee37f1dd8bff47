//! Triggered operations.

use super::call;
use super::ct::engine_value;
use super::operations::{Asked, LocalArgs, TargetArgs, arithmetic, swap_arithmetic};
use crate::codes::Code;
use crate::face::Face;
use crate::handle::Kind;
use crate::object::unpack;
use crate::types::{ptl_ct_event_t, ptl_handle_any_t, ptl_process_t};
use sluice_portals::Command;
use std::ffi::{c_int, c_void};

fn trigger(
    asked: Result<Asked, Code>,
    to: &TargetArgs,
    trig_ct_handle: ptl_handle_any_t,
    threshold: u64,
) -> c_int {
    call(|| {
        let asked = asked?;
        let parts = asked.parts()?;
        let ct = unpack(Kind::Ct, trig_ct_handle)?;
        if !ct.is_beside(&parts) {
            return Err(Code::ArgInvalid);
        }
        parts.shell.act(parts.life, |face| {
            let command = asked.command(face, to)?;
            let Face { engine, shm, .. } = face;
            Ok(engine.ni.trigger(shm, command, ct.table(), threshold)?)
        })?
    })
}

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
        parts.shell.act(parts.life, |face| {
            let Face { engine, shm, .. } = face;
            let command = command(parts.table());
            Ok(engine.ni.trigger(shm, command, trigger.table(), threshold)?)
        })?
    })
}

/// See `portals4.h`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredPut(
    md_handle: ptl_handle_any_t,
    local_offset: u64,
    length: u64,
    ack_req: u8,
    target_id: ptl_process_t,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: *mut c_void,
    hdr_data: u64,
    trig_ct_handle: ptl_handle_any_t,
    threshold: u64,
) -> c_int {
    let from = LocalArgs { md: md_handle, offset: local_offset, length };
    let to = TargetArgs { id: target_id, pt_index, match_bits, remote_offset, user_ptr, hdr_data };
    trigger(Ok(Asked::Put { from, ack: ack_req }), &to, trig_ct_handle, threshold)
}

/// See `portals4.h`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredGet(
    md_handle: ptl_handle_any_t,
    local_offset: u64,
    length: u64,
    target_id: ptl_process_t,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: *mut c_void,
    trig_ct_handle: ptl_handle_any_t,
    threshold: u64,
) -> c_int {
    let into = LocalArgs { md: md_handle, offset: local_offset, length };
    let to =
        TargetArgs { id: target_id, pt_index, match_bits, remote_offset, user_ptr, hdr_data: 0 };
    trigger(Ok(Asked::Get { into }), &to, trig_ct_handle, threshold)
}

/// See `portals4.h`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredAtomic(
    md_handle: ptl_handle_any_t,
    local_offset: u64,
    length: u64,
    ack_req: u8,
    target_id: ptl_process_t,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: *mut c_void,
    hdr_data: u64,
    operation: u8,
    datatype: u8,
    trig_ct_handle: ptl_handle_any_t,
    threshold: u64,
) -> c_int {
    let from = LocalArgs { md: md_handle, offset: local_offset, length };
    let to = TargetArgs { id: target_id, pt_index, match_bits, remote_offset, user_ptr, hdr_data };
    let asked = arithmetic(operation, datatype, length).map(|arithmetic| Asked::Atomic {
        from,
        ack: ack_req,
        arithmetic,
    });
    trigger(asked, &to, trig_ct_handle, threshold)
}

/// See `portals4.h`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredFetchAtomic(
    get_md_handle: ptl_handle_any_t,
    local_get_offset: u64,
    put_md_handle: ptl_handle_any_t,
    local_put_offset: u64,
    length: u64,
    target_id: ptl_process_t,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: *mut c_void,
    hdr_data: u64,
    operation: u8,
    datatype: u8,
    trig_ct_handle: ptl_handle_any_t,
    threshold: u64,
) -> c_int {
    let into = LocalArgs { md: get_md_handle, offset: local_get_offset, length };
    let from = LocalArgs { md: put_md_handle, offset: local_put_offset, length };
    let to = TargetArgs { id: target_id, pt_index, match_bits, remote_offset, user_ptr, hdr_data };
    let asked = arithmetic(operation, datatype, length).map(|arithmetic| Asked::Fetch {
        into,
        from,
        arithmetic,
    });
    trigger(asked, &to, trig_ct_handle, threshold)
}

/// See `portals4.h`.
///
/// # Safety
/// The operand is null, or leads to what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlTriggeredSwap(
    get_md_handle: ptl_handle_any_t,
    local_get_offset: u64,
    put_md_handle: ptl_handle_any_t,
    local_put_offset: u64,
    length: u64,
    target_id: ptl_process_t,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: *mut c_void,
    hdr_data: u64,
    operand: *const c_void,
    operation: u8,
    datatype: u8,
    trig_ct_handle: ptl_handle_any_t,
    threshold: u64,
) -> c_int {
    let into = LocalArgs { md: get_md_handle, offset: local_get_offset, length };
    let from = LocalArgs { md: put_md_handle, offset: local_put_offset, length };
    let to = TargetArgs { id: target_id, pt_index, match_bits, remote_offset, user_ptr, hdr_data };
    // SAFETY: the caller says what it leads to.
    let asked = unsafe { swap_arithmetic(operation, datatype, length, operand) }
        .map(|arithmetic| Asked::Fetch { into, from, arithmetic });
    trigger(asked, &to, trig_ct_handle, threshold)
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
