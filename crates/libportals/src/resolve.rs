//! What programs pass in, as far as it takes memory or an interface to
//! understand it: pointers looked at before they are used, handles and
//! processes turned into the engine's.

use crate::args::{ct_or_none, eq_or_none};
use crate::codes::Code;
use crate::consts::{PTL_IOVEC, PTL_NID_ANY, PTL_PID_ANY, PTL_RANK_ANY, PTL_UID_ANY};
use crate::handle::Kind;
use crate::ni_state::NiState;
use crate::object::{Parts, unpack};
use crate::phys::Phys;
use crate::types::{ptl_handle_any_t, ptl_iovec_t, ptl_me_t, ptl_process_t};
use sluice_portals::{Ct, Eq, Handle, MeOptions, MeSpec, Vector};
use sluice_rail::shm::{is_readable, is_writable};
use sluice_wire::{Addr, MatchBits, PeerId, PtIndex, Region};
use std::ffi::{c_uint, c_void};

/// Elements of an I/O vector at the most.
pub(crate) const IOVECS_MAX: u64 = 4096;
/// A peer that there is not.
const NOBODY: PeerId = PeerId(u32::MAX - 1);

/// A structure that a program points to.
///
/// # Errors
/// [`Code::ArgInvalid`] for a pointer that leads nowhere.
///
/// # Safety
/// If the memory can be read, it holds a `T` as far as `T` has values that are
/// not one; the structures of the header have none.
#[inline]
pub(crate) unsafe fn read<T: Copy>(from: *const T) -> Result<T, Code> {
    if !is_readable(region_of(from.cast(), size_of::<T>() as u64)) {
        return Err(Code::ArgInvalid);
    }
    // SAFETY: the memory can be read, and the caller says that it is a `T`.
    Ok(unsafe { from.read_unaligned() })
}

/// Checks that a result can be written where the program wants it.
///
/// # Errors
/// [`Code::ArgInvalid`] for a pointer that leads nowhere.
#[inline]
pub(crate) fn check_out<T>(to: *mut T) -> Result<(), Code> {
    if is_writable(region_of(to.cast_const().cast(), size_of::<T>() as u64)) {
        Ok(())
    } else {
        Err(Code::ArgInvalid)
    }
}

/// Writes a result where [`check_out`] has found that it can be.
///
/// # Safety
/// The memory is the program's to have a `T` written to.
#[inline]
pub(crate) unsafe fn write<T>(to: *mut T, value: T) {
    // SAFETY: by the contract of this function.
    unsafe { to.write_unaligned(value) };
}

/// Memory at a pointer.
pub(crate) fn region_of(at: *const c_void, len: u64) -> Region {
    Region { addr: Addr(at.expose_provenance() as u64), len }
}

/// An event queue of this interface, or none.
pub(crate) fn eq_of(
    state: &NiState,
    beside: &Parts,
    handle: ptl_handle_any_t,
) -> Result<Option<Handle<Eq>>, Code> {
    if eq_or_none(handle)?.is_none() {
        return Ok(None);
    }
    let parts = unpack(Kind::Eq, handle)?;
    let eq = parts.table();
    if !parts.is_beside(beside) || !state.ni().has_eq(eq) {
        return Err(Code::ArgInvalid);
    }
    Ok(Some(eq))
}

/// A counter of this interface, or none.
pub(crate) fn ct_of(
    state: &NiState,
    beside: &Parts,
    handle: ptl_handle_any_t,
) -> Result<Option<Handle<Ct>>, Code> {
    if ct_or_none(handle)?.is_none() {
        return Ok(None);
    }
    let parts = unpack(Kind::Ct, handle)?;
    let ct = parts.table();
    if !parts.is_beside(beside) || state.ni().ct(ct).is_none() {
        return Err(Code::ArgInvalid);
    }
    Ok(Some(ct))
}

/// A portal table index that the interface has.
#[inline]
pub(crate) fn pt_index(state: &NiState, index: u32) -> Result<PtIndex, Code> {
    let index = u8::try_from(index).map_err(|_| Code::ArgInvalid)?;
    if index > state.ni().limits().pt_index_max {
        return Err(Code::ArgInvalid);
    }
    Ok(PtIndex(index))
}

/// The target of an operation.
#[inline]
pub(crate) fn target(state: &mut NiState, id: ptl_process_t) -> Result<PeerId, Code> {
    if state.is_logical {
        let (engine, port) = state.parts();
        return engine.peers.of_rank(port, id.as_rank()).ok_or(Code::ArgInvalid);
    }
    let phys = phys_of(id);
    if phys.nid == PTL_NID_ANY || phys.pid == PTL_PID_ANY {
        return Err(Code::ArgInvalid);
    }
    let (engine, port) = state.parts();
    Ok(engine.peers.of_phys(port, phys))
}

/// The initiators that an entry accepts.
fn source(state: &mut NiState, id: ptl_process_t) -> Result<Option<PeerId>, Code> {
    if state.is_logical {
        let rank = id.as_rank();
        if rank == PTL_RANK_ANY {
            return Ok(None);
        }
        let (engine, port) = state.parts();
        return engine.peers.of_rank(port, rank).map(Some).ok_or(Code::ArgInvalid);
    }
    let phys = phys_of(id);
    Ok(match (phys.nid, phys.pid) {
        (PTL_NID_ANY, PTL_PID_ANY) => None,
        // The engine knows one source or any, and not those of a node.
        (PTL_NID_ANY, _) | (_, PTL_PID_ANY) if state.peers().has_far() => {
            return Err(Code::ArgInvalid);
        }
        // All processes that can be reached are of this node.
        (nid, PTL_PID_ANY) if nid == state.own.phys.nid => None,
        (_, PTL_PID_ANY) => Some(NOBODY),
        (PTL_NID_ANY, pid) => {
            let nid = state.own.phys.nid;
            let (engine, port) = state.parts();
            Some(engine.peers.of_phys(port, Phys { nid, pid }))
        }
        _ => {
            let (engine, port) = state.parts();
            Some(engine.peers.of_phys(port, phys))
        }
    })
}

/// A process by node and number.
pub(crate) fn phys_of(id: ptl_process_t) -> Phys {
    let phys = id.as_phys();
    Phys { nid: phys.nid, pid: phys.pid }
}

/// Memory as a structure names it: a region, or an I/O vector.
#[derive(Debug)]
pub(crate) struct Named {
    pub region: Region,
    pub vector: Option<Vector>,
}

/// The memory of a descriptor or an entry.
///
/// # Errors
/// [`Code::ArgInvalid`] for an array that cannot be read, is too long, or names
/// memory past the end of the address space.
///
/// # Safety
/// As [`read`], for the elements of an I/O vector.
pub(crate) unsafe fn memory(
    start: *mut c_void,
    length: u64,
    options: c_uint,
) -> Result<Named, Code> {
    let addr = Addr(start.expose_provenance() as u64);
    if options & PTL_IOVEC == 0 {
        return Ok(Named { region: Region { addr, len: length }, vector: None });
    }
    if length > IOVECS_MAX {
        return Err(Code::ArgInvalid);
    }
    let array: *const ptl_iovec_t = start.cast_const().cast();
    let mut pieces = Vec::with_capacity(length as usize);
    for at in 0..length as usize {
        // SAFETY: by the contract of this function; each element is looked at.
        let piece = unsafe { read(array.wrapping_add(at)) }?;
        let base = Addr(piece.iov_base.expose_provenance() as u64);
        pieces.push(Region::new(base, piece.iov_len).ok_or(Code::ArgInvalid)?);
    }
    let vector = Vector::new(pieces).ok_or(Code::ArgInvalid)?;
    let region = Region { addr: Addr(0), len: vector.total_bytes() };
    Ok(Named { region, vector: Some(vector) })
}

/// What an entry is made from, but for its memory.
pub(crate) fn spec(
    state: &mut NiState,
    beside: &Parts,
    me: &ptl_me_t,
    engine: MeOptions,
    user_ptr: *mut c_void,
) -> Result<MeSpec, Code> {
    Ok(MeSpec {
        match_bits: MatchBits(me.match_bits),
        ignore_bits: me.ignore_bits,
        source: if state.is_matching { source(state, me.match_id)? } else { None },
        uid: (me.uid != PTL_UID_ANY).then_some(me.uid),
        min_free: me.min_free,
        options: engine,
        ct: ct_of(state, beside, me.ct_handle)?,
        user_ptr: user_ptr.expose_provenance() as u64,
        ..MeSpec::default()
    })
}
