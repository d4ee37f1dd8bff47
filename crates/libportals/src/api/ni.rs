//! Network interfaces: open, close, identities, the map of ranks.

use super::{call, interface};
use crate::args::NiKind;
use crate::codes::Code;
use crate::consts::{PTL_IFACE_DEFAULT, PTL_PID_ANY, PTL_PID_MAX, PTL_RANK_ANY};
use crate::face::{Engine, Face};
use crate::interface::{Interface, is_polled, shell, shells};
use crate::limits;
use crate::object::{pack_ni, unpack_any};
use crate::peers::{Peers, Phys};
use crate::progress;
use crate::resolve::{check_out, phys_of, read, write};
use crate::types::{ptl_handle_any_t, ptl_ni_limits_t, ptl_process_t};
use crate::wait::{Unmet, wait};
use sluice_portals::Ni;
use sluice_rail::shm::{Config, Guard, NameError, Names, PidClaim, Shm, host_id};
use std::ffi::{c_int, c_uint};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The process identifier, as long as an interface is open; also held while one
/// is opened or closed.
static IDENTITY: Mutex<Option<PidClaim>> = Mutex::new(None);

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
        let shell = shell(usize::from(kind.slot())).ok_or(Code::Fail)?;
        let (limits, life) = open(shell, kind, pid, desired.as_ref())?;
        if !actual.is_null() {
            // SAFETY: checked above.
            unsafe { write(actual, limits) };
        }
        // SAFETY: checked above.
        unsafe { write(ni_handle, pack_ni(kind.slot(), life)?) };
        Ok(())
    })
}

fn open(
    shell: &'static Interface,
    kind: NiKind,
    pid: u32,
    desired: Option<&ptl_ni_limits_t>,
) -> Result<(ptl_ni_limits_t, u32), Code> {
    let mut identity = IDENTITY.lock().unwrap_or_else(PoisonError::into_inner);
    let mut place = shell.lock();
    if let Some(face) = &mut *place {
        face.references += 1;
        return Ok((limits::actual(face), shell.life()));
    }
    let mut config = Config { guard: Guard::Check, sleeps: true, ..Config::default() };
    if let Some(dir) = std::env::var_os("PTL_SHM_DIR") {
        config.shm_dir = dir.into();
    }
    config.senders_max = limits::peers_max();
    let names = Names::open(&config.shm_dir).map_err(|why| failed("name directory", &why))?;
    let claim = match &*identity {
        Some(claim) if pid == PTL_PID_ANY || pid == claim.pid() => claim.clone(),
        Some(_) => return Err(Code::ArgInvalid),
        None => names.claim_pid((pid != PTL_PID_ANY).then_some(pid)).map_err(|why| match why {
            NameError::InUse { .. } => Code::PidInUse,
            why => failed("process identifier", &why),
        })?,
    };
    let own = Phys { nid: host_id(), pid: claim.pid() };
    config.label = own.label();
    let mut shm = Shm::open(config).map_err(|why| failed("mailbox", &why))?;
    let name =
        names.claim(own.pid, kind.slot(), &shm.address()).map_err(|why| failed("name", &why))?;
    shm.use_names(names, kind.slot());
    let (engine_limits, features) = limits::of(desired);
    let face = Face {
        engine: Engine { ni: Ni::new(engine_limits, shm.layout()), peers: Peers::default() },
        shm,
        own,
        is_logical: kind.logical,
        is_matching: kind.matching,
        references: 1,
        uid: rustix::process::geteuid().as_raw(),
        features,
        bundles: 0,
        poll_from: 0,
        _name: name,
        _pid: claim.clone(),
    };
    let actual = limits::actual(&face);
    *identity = Some(claim);
    shell.open(&mut place, face);
    let life = shell.life();
    drop(place);
    if !is_polled()
        && let Err(why) = progress::start(shell, life)
    {
        drop(identity);
        close(shell);
        return Err(failed("progress thread", &why));
    }
    Ok((actual, life))
}

fn failed(what: &str, why: &dyn std::fmt::Display) -> Code {
    eprintln!("libportals: cannot open an interface: {what}: {why}");
    Code::NoSpace
}

/// Closes an interface, whatever still refers to it.
pub(super) fn close(shell: &'static Interface) {
    let _ = release(shell, |_| Ok(true));
}

/// How long an interface that is to be closed goes on after the last arrival,
/// and at most.
const LINGER: Duration = Duration::from_millis(50);
const LINGER_MAX: Duration = Duration::from_millis(500);

/// Serves those who are a little later than this process: their last
/// operations meet an interface that is still there. Not for one that has
/// nobody else.
fn linger(shell: &'static Interface, life: u32) -> Result<(), Code> {
    let is_alone = |face: &mut Face| {
        let ranks = face.engine.peers.map().map_or(1, <[Phys]>::len);
        let stats = face.shm.stats();
        let others = stats.peers_known.saturating_sub(1 + stats.peers_gone);
        face.references > 1 || (ranks < 2 && others == 0)
    };
    if shell.with(life, is_alone)? {
        return Ok(());
    }
    let end = Instant::now() + LINGER_MAX;
    let mut quiet = Instant::now() + LINGER;
    while let Err(Unmet::TimedOut) = wait(shell, life, Some(quiet.min(end)), |face| {
        if face.poll() > 0 {
            quiet = Instant::now() + LINGER;
        }
        None::<()>
    }) {
        if Instant::now() >= quiet.min(end) {
            break;
        }
    }
    Ok(())
}

/// Closes an interface if `is_last` says so of what there is.
fn release(
    shell: &'static Interface,
    is_last: impl FnOnce(&mut Face) -> Result<bool, Code>,
) -> Result<(), Code> {
    let mut identity = IDENTITY.lock().unwrap_or_else(PoisonError::into_inner);
    let mut place = shell.lock();
    if !place.as_mut().map_or(Err(Code::ArgInvalid), is_last)? {
        return Ok(());
    }
    let face = shell.close(&mut place);
    drop(place);
    shell.attention.look_again();
    let thread = shell.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(thread) = thread {
        // It sees the new life when it wakes, which closing has made it do.
        let _ = thread.join();
    }
    drop(face);
    if shells().iter().all(|shell| shell.lock().is_none()) {
        *identity = None;
    }
    Ok(())
}

/// See `portals4.h`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlNIFini(ni_handle: ptl_handle_any_t) -> c_int {
    call(|| {
        let parts = interface(ni_handle)?;
        linger(parts.shell, parts.life)?;
        release(parts.shell, |face| {
            if parts.shell.life() != parts.life {
                return Err(Code::ArgInvalid);
            }
            face.references -= 1;
            Ok(face.references == 0)
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
        let counts = parts.shell.look(parts.life, |face| face.engine.ni.status())?;
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
        let is_there = parts.shell.with(parts.life, |face| face.has(&parts))?;
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
        parts.shell.with(parts.life, |face| {
            if !face.is_logical || !map.contains(&face.own) {
                return Err(Code::ArgInvalid);
            }
            if face.engine.peers.map().is_some() {
                return Err(Code::Ignored);
            }
            face.engine.peers.set_map(map);
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
        let map = parts.shell.with(parts.life, |face| match face.engine.peers.map() {
            _ if !face.is_logical => Err(Code::ArgInvalid),
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
        let own = parts.shell.with(parts.life, |face| face.uid)?;
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
        let own = parts.shell.with(parts.life, |face| {
            if !face.is_logical {
                return process(face.own);
            }
            ptl_process_t::from_rank(face.engine.peers.rank_of_phys(face.own))
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
        let own = parts.shell.with(parts.life, |face| face.own)?;
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
        parts.shell.with(parts.life, |face| face.bundles = face.bundles.saturating_add(1))
    })
}

/// See `portals4.h`.
#[unsafe(no_mangle)]
pub extern "C" fn PtlEndBundle(ni_handle: ptl_handle_any_t) -> c_int {
    call(|| {
        let parts = interface(ni_handle)?;
        parts.shell.act(parts.life, |face| {
            face.bundles = face.bundles.checked_sub(1).ok_or(Code::ArgInvalid)?;
            Ok(())
        })?
    })
}

fn process(phys: Phys) -> ptl_process_t {
    ptl_process_t::from_phys(phys.nid, phys.pid)
}
