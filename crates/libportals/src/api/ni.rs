//! Network interfaces: open, close, identities, the map of ranks.

use super::{call, interface};
use crate::args::NiKind;
use crate::codes::Code;
use crate::consts::{PTL_IFACE_DEFAULT, PTL_PID_ANY, PTL_PID_MAX, PTL_RANK_ANY};
use crate::limits;
use crate::ni_slot::{NiSlot, slot_at, slots};
use crate::ni_state::{Engine, NiState};
use crate::object::{pack_ni, unpack_any};
use crate::own::{Identity, Node, failed};
use crate::peers::Peers;
use crate::phys::Phys;
use crate::resolve::{check_out, phys_of, read, write};
use crate::types::{ptl_handle_any_t, ptl_ni_limits_t, ptl_process_t};
use crate::{book, settings};
use sluice_portals::Ni;
use sluice_rail::shm::{Config, CreditKind, Guard, Names};
use sluice_runtime::{Context, RailOptions, Unmet};
use std::ffi::{c_int, c_uint};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Who this process is; also held while an interface is opened or closed.
static IDENTITY: Mutex<Identity> = Mutex::new(Identity::NEW);

/// See `portals4.h`.
///
/// # Safety
/// The pointers are null, or lead to what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlNIInit(
    iface: c_uint,
    options: c_uint,
    pid: u32,
    desired: *const ptl_ni_limits_t,
    actual: *mut ptl_ni_limits_t,
    ni_handle: *mut ptl_handle_any_t,
) -> c_int {
    call(|| {
        let kind = NiKind::from_options(options)?;
        let is_network = iface == 0 || iface == PTL_IFACE_DEFAULT;
        if !is_network || (pid != PTL_PID_ANY && pid > PTL_PID_MAX) {
            return Err(Code::ArgInvalid);
        }
        check_out(ni_handle)?;
        if !actual.is_null() {
            check_out(actual)?;
        }
        let desired = if desired.is_null() {
            None
        } else {
            // SAFETY: the caller says what it leads to.
            Some(unsafe { read(desired) }?)
        };
        let slot = slot_at(usize::from(kind.slot())).ok_or(Code::Fail)?;
        let (limits, generation) = open(slot, kind, pid, desired.as_ref())?;
        if !actual.is_null() {
            // SAFETY: checked above.
            unsafe { write(actual, limits) };
        }
        // SAFETY: checked above.
        unsafe { write(ni_handle, pack_ni(kind.slot(), generation)?) };
        Ok(())
    })
}

fn open(
    slot: &'static NiSlot,
    kind: NiKind,
    pid: u32,
    desired: Option<&ptl_ni_limits_t>,
) -> Result<(ptl_ni_limits_t, u32), Code> {
    let mut identity = IDENTITY.lock().unwrap_or_else(PoisonError::into_inner);
    let mut place = slot.lock();
    if place.0.is_some() && place.is_poisoned() {
        return Err(Code::Fail);
    }
    if let Some(state) = &mut place.0 {
        state.references += 1;
        return Ok((limits::actual(state), slot.generation()));
    }
    let (network, observed) = settings::shared();
    let default = RailOptions::default();
    let shm_dir = std::env::var_os("PTL_SHM_DIR");
    let options = RailOptions {
        credits: CreditKind::Static,
        peers_max: Some(limits::peers_max()),
        mailbox_slots: Some(Config::default().slots_max),
        shm_dir: shm_dir.map_or(default.shm_dir, PathBuf::from),
        observed,
        ..default
    };
    // The engine takes whatever room there is.
    let mut config = options.config(0, |_| u32::MAX);
    (config.guard, config.sleeps) = (Guard::Check, true);
    let names = Names::open(&config.shm_dir).map_err(|why| failed("name directory", &why))?;
    let node = Node::of(&network, settings::job_key());
    let wanted = (pid != PTL_PID_ANY).then_some(pid);
    let (own, world) = identity.open((&node, kind.slot()), wanted, &names, (&network, &config))?;
    let (mut engine_limits, features) = limits::of(desired);
    engine_limits.recovery = settings::recovery();
    let peers = Peers::of(&own, kind.slot(), network.rails.shm);
    let engine = |layout| Engine::new(Ni::new(engine_limits, layout), peers);
    let mut context = Context::new(world, engine);
    let world = context.world_mut();
    let name = names.claim(own.phys.pid, kind.slot(), &world.address());
    let name = name.map_err(|why| failed("name", &why))?;
    world.shm_mut().use_names(names, kind.slot());
    let mut state = NiState {
        context,
        own: own.clone(),
        is_logical: kind.logical,
        is_matching: kind.matching,
        references: 1,
        uid: rustix::process::geteuid().as_raw(),
        features,
        bundles: 0,
        poll_from: 0,
        _name: name,
    };
    for (phys, address) in book::kept(kind.slot()) {
        state.introduce(phys, address);
    }
    let actual = limits::actual(&state);
    identity.keep(own);
    slot.open(&mut place, state);
    let generation = slot.generation();
    drop(place);
    if let Err(why) = slot.start_thread() {
        eprintln!(
            "libportals: no thread to make progress: {why}; it is made in the program's calls \
             alone; raise the limit of processes and threads (ulimit -u)"
        );
    }
    Ok((actual, generation))
}

/// Closes an interface, whatever still refers to it.
pub(super) fn close(slot: &'static NiSlot) {
    let _ = release(slot, |_| Ok(true));
}

/// How long an interface that is to be closed goes on after the last arrival,
/// and at most.
const LINGER: Duration = Duration::from_millis(50);
const LINGER_MAX: Duration = Duration::from_millis(500);

/// Serves those who are a little later than this process: their last
/// operations meet an interface that is still there. Not for one that has
/// nobody else.
fn linger(slot: &'static NiSlot, generation: u32) {
    let is_alone = |state: &mut NiState| {
        let ranks = state.peers().map().map_or(1, <[Phys]>::len);
        let stats = state.world().stats();
        let others = stats.peers_known.saturating_sub(1 + stats.peers_gone);
        state.references > 1 || (ranks < 2 && others == 0)
    };
    // Nor for one that is closed, or that a panic has put out of service.
    if slot.with(generation, is_alone).unwrap_or(true) {
        return;
    }
    let end = Instant::now() + LINGER_MAX;
    let mut quiet = Instant::now() + LINGER;
    while let Err(Unmet::TimedOut) = slot.wait(generation, Some(quiet.min(end)), |state| {
        if state.context.poll() > 0 {
            quiet = Instant::now() + LINGER;
        }
        None::<()>
    }) {
        if Instant::now() >= quiet.min(end) {
            break;
        }
    }
}

/// Closes an interface if `is_last` says so of what there is.
fn release(
    slot: &'static NiSlot,
    is_last: impl FnOnce(&mut NiState) -> Result<bool, Code>,
) -> Result<(), Code> {
    let mut identity = IDENTITY.lock().unwrap_or_else(PoisonError::into_inner);
    let mut place = slot.lock();
    if !place.0.as_mut().map_or(Err(Code::ArgInvalid), is_last)? {
        return Ok(());
    }
    let state = slot.close(&mut place);
    drop(place);
    slot.join_thread();
    drop(state);
    if slots().iter().all(|slot| slot.lock().0.is_none()) {
        identity.end();
    }
    Ok(())
}

/// See `portals4.h`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlNIFini(ni_handle: ptl_handle_any_t) -> c_int {
    call(|| {
        let parts = interface(ni_handle)?;
        linger(parts.slot, parts.generation);
        release(parts.slot, |state| {
            if parts.slot.generation() != parts.generation {
                return Err(Code::ArgInvalid);
            }
            state.references -= 1;
            Ok(state.references == 0)
        })
    })
}

/// See `portals4.h`.
///
/// # Safety
/// The pointer is null, or leads to what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlNIStatus(
    ni_handle: ptl_handle_any_t,
    status_register: c_uint,
    status: *mut c_int,
) -> c_int {
    call(|| {
        let parts = interface(ni_handle)?;
        check_out(status)?;
        let counts = parts.slot.look(parts.generation, |state| state.ni().status())?;
        let count = match status_register {
            0 => counts.dropped,
            1 => counts.permission_violations,
            2 => counts.operation_violations,
            _ => return Err(Code::ArgInvalid),
        };
        // SAFETY: checked above.
        unsafe { write(status, c_int::try_from(count).unwrap_or(c_int::MAX)) };
        Ok(())
    })
}

/// See `portals4.h`.
///
/// # Safety
/// The pointer is null, or leads to what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlNIHandle(
    handle: ptl_handle_any_t,
    ni_handle: *mut ptl_handle_any_t,
) -> c_int {
    call(|| {
        let parts = unpack_any(handle)?;
        check_out(ni_handle)?;
        let is_there = parts.slot.with(parts.generation, |state| parts.is_there(state))?;
        if !is_there {
            return Err(Code::ArgInvalid);
        }
        // SAFETY: checked above.
        unsafe { write(ni_handle, parts.ni()) };
        Ok(())
    })
}

/// See `portals4.h`.
///
/// # Safety
/// The pointer is null, or leads to what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlSetMap(
    ni_handle: ptl_handle_any_t,
    map_size: u64,
    mapping: *const ptl_process_t,
) -> c_int {
    call(|| {
        let parts = interface(ni_handle)?;
        if map_size == 0 || map_size > u64::from(PTL_RANK_ANY - 1) || mapping.is_null() {
            return Err(Code::ArgInvalid);
        }
        let mut map = Vec::new();
        map.try_reserve_exact(map_size as usize).map_err(|_| Code::NoSpace)?;
        for at in 0..map_size as usize {
            // SAFETY: the caller says that it leads to so many; each is looked
            // at before it is read.
            map.push(phys_of(unsafe { read(mapping.wrapping_add(at)) }?));
        }
        parts.slot.with(parts.generation, |state| {
            if !state.is_logical || !map.contains(&state.own.phys) {
                return Err(Code::ArgInvalid);
            }
            if state.peers().map().is_some() {
                return Err(Code::Ignored);
            }
            state.peers_mut().set_map(map);
            Ok(())
        })?
    })
}

/// See `portals4.h`.
///
/// # Safety
/// The pointers are null, or lead to what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlGetMap(
    ni_handle: ptl_handle_any_t,
    map_size: u64,
    mapping: *mut ptl_process_t,
    actual_map_size: *mut u64,
) -> c_int {
    call(|| {
        let parts = interface(ni_handle)?;
        if mapping.is_null() && map_size > 0 {
            return Err(Code::ArgInvalid);
        }
        if !actual_map_size.is_null() {
            check_out(actual_map_size)?;
        }
        let map = parts.slot.with(parts.generation, |state| match state.peers().map() {
            _ if !state.is_logical => Err(Code::ArgInvalid),
            Some(map) => Ok(map.to_vec()),
            None => Err(Code::NoSpace),
        })??;
        for (at, phys) in map.iter().take(map_size as usize).enumerate() {
            let to = mapping.wrapping_add(at);
            check_out(to)?;
            // SAFETY: checked above.
            unsafe { write(to, process(*phys)) };
        }
        if !actual_map_size.is_null() {
            // SAFETY: checked above.
            unsafe { write(actual_map_size, map.len() as u64) };
        }
        Ok(())
    })
}

/// See `portals4.h`.
///
/// # Safety
/// The pointer is null, or leads to what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlGetUid(ni_handle: ptl_handle_any_t, uid: *mut u32) -> c_int {
    call(|| {
        let parts = interface(ni_handle)?;
        check_out(uid)?;
        let own = parts.slot.with(parts.generation, |state| state.uid)?;
        // SAFETY: checked above.
        unsafe { write(uid, own) };
        Ok(())
    })
}

/// See `portals4.h`.
///
/// # Safety
/// The pointer is null, or leads to what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlGetId(ni_handle: ptl_handle_any_t, id: *mut ptl_process_t) -> c_int {
    call(|| {
        let parts = interface(ni_handle)?;
        check_out(id)?;
        let own = parts.slot.with(parts.generation, |state| {
            if !state.is_logical {
                return process(state.own.phys);
            }
            ptl_process_t::from_rank(state.peers().rank_of_phys(state.own.phys))
        })?;
        // SAFETY: checked above.
        unsafe { write(id, own) };
        Ok(())
    })
}

/// See `portals4.h`.
///
/// # Safety
/// The pointer is null, or leads to what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlGetPhysId(
    ni_handle: ptl_handle_any_t,
    id: *mut ptl_process_t,
) -> c_int {
    call(|| {
        let parts = interface(ni_handle)?;
        check_out(id)?;
        let own = parts.slot.with(parts.generation, |state| state.own.phys)?;
        // SAFETY: checked above.
        unsafe { write(id, process(own)) };
        Ok(())
    })
}

/// See `portals4.h`. Operations go out at once, so there is nothing to bundle.
#[unsafe(no_mangle)]
pub extern "C" fn PtlStartBundle(ni_handle: ptl_handle_any_t) -> c_int {
    call(|| {
        let parts = interface(ni_handle)?;
        parts.slot.with(parts.generation, |state| state.bundles = state.bundles.saturating_add(1))
    })
}

/// See `portals4.h`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlEndBundle(ni_handle: ptl_handle_any_t) -> c_int {
    call(|| {
        let parts = interface(ni_handle)?;
        parts.slot.act(parts.generation, |state| {
            state.bundles = state.bundles.checked_sub(1).ok_or(Code::ArgInvalid)?;
            Ok(())
        })?
    })
}

fn process(phys: Phys) -> ptl_process_t {
    ptl_process_t::from_phys(phys.nid, phys.pid)
}
