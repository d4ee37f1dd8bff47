//! Operations: put, get, atomics, each started now or triggered; and how their
//! arguments become the engine's commands.

use super::call;
use crate::args::{AtomicCall, ack_req, atomic};
use crate::codes::Code;
use crate::handle::Kind;
use crate::ni_state::NiState;
use crate::object::{Parts, unpack};
use crate::resolve::{read, target};
use crate::types::{ptl_handle_any_t, ptl_process_t};
use sluice_portals::{Arithmetic, Command, Local, Target};
use sluice_wire::{ITEM_BYTES_MAX, MatchBits, PtIndex};
use std::ffi::{c_int, c_void};

/// A part of a descriptor as the program names it.
#[derive(Clone, Copy)]
struct LocalArgs {
    pub md: ptl_handle_any_t,
    pub offset: u64,
    pub length: u64,
}

/// Where an operation aims, and what it carries.
#[derive(Clone, Copy)]
struct TargetArgs {
    pub id: ptl_process_t,
    pub pt_index: u32,
    pub match_bits: u64,
    pub remote_offset: u64,
    pub user_ptr: *mut c_void,
    pub hdr_data: u64,
}

/// An operation as the program asks for it.
#[derive(Clone, Copy)]
enum Asked {
    Put { from: LocalArgs, ack: u8 },
    Get { into: LocalArgs },
    Atomic { from: LocalArgs, ack: u8, arithmetic: Arithmetic },
    Fetch { into: LocalArgs, from: LocalArgs, arithmetic: Arithmetic },
}

impl Asked {
    /// The interface of its descriptors, which must be the same.
    pub fn parts(&self) -> Result<Parts, Code> {
        let (first, second) = match self {
            Asked::Put { from, .. } | Asked::Atomic { from, .. } => (from, None),
            Asked::Get { into } => (into, None),
            Asked::Fetch { into, from, .. } => (into, Some(from)),
        };
        let parts = unpack(Kind::Md, first.md)?;
        if let Some(second) = second
            && !unpack(Kind::Md, second.md)?.is_beside(&parts)
        {
            return Err(Code::ArgInvalid);
        }
        Ok(parts)
    }

    /// The engine's command.
    pub fn command(&self, state: &mut NiState, to: &TargetArgs) -> Result<Command, Code> {
        let target = Target {
            peer: target(state, to.id)?,
            pt_index: u8::try_from(to.pt_index).map(PtIndex).map_err(|_| Code::ArgInvalid)?,
            match_bits: MatchBits(to.match_bits),
            remote_offset: to.remote_offset,
        };
        let (hdr_data, user_ptr) = (to.hdr_data, to.user_ptr.expose_provenance() as u64);
        Ok(match *self {
            Asked::Put { from, ack } => {
                Command::Put { from: local(from)?, ack: ack_req(ack)?, target, hdr_data, user_ptr }
            }
            Asked::Get { into } => Command::Get { into: local(into)?, target, user_ptr },
            Asked::Atomic { from, ack, arithmetic } => Command::Atomic {
                from: local(from)?,
                ack: ack_req(ack)?,
                target,
                hdr_data,
                user_ptr,
                arithmetic,
            },
            Asked::Fetch { into, from, arithmetic } => Command::Fetch {
                into: local(into)?,
                from: local(from)?,
                target,
                hdr_data,
                user_ptr,
                arithmetic,
            },
        })
    }
}

fn local(args: LocalArgs) -> Result<Local, Code> {
    let md = unpack(Kind::Md, args.md)?.table();
    Ok(Local { md, offset: args.offset, length: args.length })
}

/// What `PtlAtomic` and `PtlFetchAtomic` do.
fn arithmetic(operation: u8, datatype: u8, length: u64) -> Result<Arithmetic, Code> {
    let (op, datatype) = atomic(operation, datatype, length, AtomicCall::Combine)?;
    Ok(Arithmetic { op, datatype, operand: [0; ITEM_BYTES_MAX] })
}

/// What `PtlSwap` does, with the operand if there is one.
///
/// # Safety
/// `operand` is null, or leads to one item of the type.
unsafe fn swap_arithmetic(
    operation: u8,
    datatype: u8,
    length: u64,
    operand: *const c_void,
) -> Result<Arithmetic, Code> {
    let (op, datatype) = atomic(operation, datatype, length, AtomicCall::Swap)?;
    let mut item = [0; ITEM_BYTES_MAX];
    if op.has_operand() {
        for (at, byte) in item.iter_mut().take(datatype.bytes()).enumerate() {
            // SAFETY: by the contract; each byte is looked at before it is read.
            *byte = unsafe { read(operand.cast::<u8>().wrapping_add(at)) }?;
        }
    }
    Ok(Arithmetic { op, datatype, operand: item })
}

#[inline(always)]
fn start(asked: impl FnOnce() -> Result<(Asked, TargetArgs), Code>) -> c_int {
    call(|| {
        let (asked, to) = asked()?;
        let parts = asked.parts()?;
        parts.slot.attempt(parts.generation, |state| {
            let command = asked.command(state, &to)?;
            let (engine, port) = state.parts();
            Ok(engine.ni.issue(port, &command)?)
        })
    })
}

fn trigger(
    asked: impl FnOnce() -> Result<(Asked, TargetArgs), Code>,
    trig_ct_handle: ptl_handle_any_t,
    threshold: u64,
) -> c_int {
    call(|| {
        let (asked, to) = asked()?;
        let parts = asked.parts()?;
        let ct = unpack(Kind::Ct, trig_ct_handle)?;
        if !ct.is_beside(&parts) {
            return Err(Code::ArgInvalid);
        }
        parts.slot.attempt(parts.generation, |state| {
            let command = asked.command(state, &to)?;
            let (engine, port) = state.parts();
            Ok(engine.ni.trigger(port, command, ct.table(), threshold)?)
        })
    })
}

/// The two functions of an operation: one starts it now, the other when a
/// counter reaches a threshold. They differ in the last two arguments only, so
/// what the others mean is written once.
macro_rules! operation {
    (
        $(#[$doc:meta])*
        $([$safety:ident])? $now:ident, $triggered:ident ($($arg:ident: $type:ty),+ $(,)?) $asked:block
    ) => {
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub $($safety)? extern "C" fn $now($($arg: $type),+) -> c_int {
            start(|| $asked)
        }

        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub $($safety)? extern "C" fn $triggered(
            $($arg: $type,)+
            trig_ct_handle: ptl_handle_any_t,
            threshold: u64,
        ) -> c_int {
            trigger(|| $asked, trig_ct_handle, threshold)
        }
    };
}

operation! {
    /// See `portals4.h`.
    PtlPut, PtlTriggeredPut(
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
    ) {
        let from = LocalArgs { md: md_handle, offset: local_offset, length };
        let to = TargetArgs { id: target_id, pt_index, match_bits, remote_offset, user_ptr, hdr_data };
        Ok((Asked::Put { from, ack: ack_req }, to))
    }
}

operation! {
    /// See `portals4.h`.
    PtlGet, PtlTriggeredGet(
        md_handle: ptl_handle_any_t,
        local_offset: u64,
        length: u64,
        target_id: ptl_process_t,
        pt_index: u32,
        match_bits: u64,
        remote_offset: u64,
        user_ptr: *mut c_void,
    ) {
        let into = LocalArgs { md: md_handle, offset: local_offset, length };
        let to =
            TargetArgs { id: target_id, pt_index, match_bits, remote_offset, user_ptr, hdr_data: 0 };
        Ok((Asked::Get { into }, to))
    }
}

operation! {
    /// See `portals4.h`.
    PtlAtomic, PtlTriggeredAtomic(
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
    ) {
        let from = LocalArgs { md: md_handle, offset: local_offset, length };
        let to = TargetArgs { id: target_id, pt_index, match_bits, remote_offset, user_ptr, hdr_data };
        let arithmetic = arithmetic(operation, datatype, length)?;
        Ok((Asked::Atomic { from, ack: ack_req, arithmetic }, to))
    }
}

operation! {
    /// See `portals4.h`.
    PtlFetchAtomic, PtlTriggeredFetchAtomic(
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
    ) {
        let into = LocalArgs { md: get_md_handle, offset: local_get_offset, length };
        let from = LocalArgs { md: put_md_handle, offset: local_put_offset, length };
        let to = TargetArgs { id: target_id, pt_index, match_bits, remote_offset, user_ptr, hdr_data };
        let arithmetic = arithmetic(operation, datatype, length)?;
        Ok((Asked::Fetch { into, from, arithmetic }, to))
    }
}

operation! {
    /// See `portals4.h`.
    ///
    /// # Safety
    /// The operand is null, or leads to what the header says.
    [unsafe] PtlSwap, PtlTriggeredSwap(
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
    ) {
        let into = LocalArgs { md: get_md_handle, offset: local_get_offset, length };
        let from = LocalArgs { md: put_md_handle, offset: local_put_offset, length };
        let to = TargetArgs { id: target_id, pt_index, match_bits, remote_offset, user_ptr, hdr_data };
        // SAFETY: the caller says what it leads to.
        let arithmetic = unsafe { swap_arithmetic(operation, datatype, length, operand) }?;
        Ok((Asked::Fetch { into, from, arithmetic }, to))
    }
}
