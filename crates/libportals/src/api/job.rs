//! `sluice_job.h`: how the processes of a job find each other.

use super::guarded;
use crate::codes::Code;
use crate::handle::Kind;
use crate::ni_slot::{INTERFACES, is_polled, poll_all};
use crate::object::unpack;
use crate::peers::Phys;
use crate::resolve::{check_out, region_of, write};
use crate::types::{ptl_handle_any_t, ptl_process_t};
use sluice_boot::{BLOB_MAX, Job, JobError};
use sluice_rail::shm::{is_readable, is_writable};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

/// The job, from `SluiceJobInit` to `SluiceJobFini`.
static JOB: Mutex<Option<Job>> = Mutex::new(None);

thread_local! {
    static ERROR: RefCell<CString> = RefCell::new(CString::default());
}

/// Does something with the job, and keeps in words what goes wrong.
fn with<R>(then: impl FnOnce(&mut Job) -> Result<R, JobError>) -> Result<R, Code> {
    let mut job = JOB.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(job) = &mut *job else {
        tell("SluiceJobInit has not been called");
        return Err(Code::NoInit);
    };
    then(job).map_err(|why| told(&why))
}

fn told(why: &JobError) -> Code {
    tell(&why.to_string());
    if why.is_of_environment() { Code::ArgInvalid } else { Code::Fail }
}

fn tell(what: &str) {
    let words = CString::new(what.replace('\0', " ")).unwrap_or_default();
    ERROR.with(|error| *error.borrow_mut() = words);
}

/// See `sluice_job.h`.
///
/// # Safety
/// The pointers are null, or lead to what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn SluiceJobInit(rank: *mut c_int, size: *mut c_int) -> c_int {
    guarded(|| {
        for out in [rank, size] {
            if !out.is_null() {
                check_out(out)?;
            }
        }
        let mut place = JOB.lock().unwrap_or_else(PoisonError::into_inner);
        let job = match &mut *place {
            Some(job) => job,
            None => {
                // Where no thread makes progress, waiting for the others does.
                let poll = is_polled().then_some(poll_all as fn() -> usize);
                place.insert(Job::start(poll).map_err(|why| told(&why))?)
            }
        };
        let (own, all) = (job.rank() as c_int, job.size() as c_int);
        for (out, value) in [(rank, own), (size, all)] {
            if !out.is_null() {
                // SAFETY: checked above.
                unsafe { write(out, value) };
            }
        }
        Ok(())
    })
}

/// See `sluice_job.h`.
///
/// # Safety
/// The pointers are null, or lead to what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn SluiceJobExchange(
    mine: *const c_void,
    bytes: usize,
    all: *mut c_void,
) -> c_int {
    guarded(|| {
        if bytes > BLOB_MAX {
            return Err(Code::ArgInvalid);
        }
        let size = with(|job| Ok(job.size() as usize))?;
        if !is_readable(region_of(mine, bytes as u64))
            || !is_writable(region_of(all, (bytes * size) as u64))
        {
            return Err(Code::ArgInvalid);
        }
        let own = if bytes == 0 {
            Vec::new()
        } else {
            // SAFETY: the memory can be read, and the program lends it.
            unsafe { std::slice::from_raw_parts(mine.cast::<u8>(), bytes) }.to_vec()
        };
        let blobs = with(|job| job.exchange(&own))?;
        if blobs.len() != size || blobs.iter().any(|blob| blob.len() != bytes) {
            tell("the processes of the job exchange blobs of different lengths");
            return Err(Code::ArgInvalid);
        }
        for (rank, blob) in blobs.iter().enumerate() {
            // SAFETY: `all` has room for as many bytes of each rank.
            unsafe {
                let to = all.cast::<u8>().add(rank * bytes);
                std::ptr::copy_nonoverlapping(blob.as_ptr(), to, bytes);
            }
        }
        Ok(())
    })
}

/// See `sluice_job.h`.
#[unsafe(no_mangle)]
pub extern "C" fn SluiceJobBarrier() -> c_int {
    guarded(|| with(Job::barrier))
}

/// What `SluiceJobMap` has learned for an interface, in which generation.
type Learned = Option<(u32, Vec<Phys>)>;

static MAPS: Mutex<[Learned; INTERFACES]> = Mutex::new([const { None }; INTERFACES]);

/// See `sluice_job.h`.
#[unsafe(no_mangle)]
pub extern "C" fn SluiceJobMap(ni: ptl_handle_any_t) -> c_int {
    guarded(|| {
        let parts = unpack(Kind::Ni, ni)?;
        let own = parts.slot.with(parts.generation, |state| state.own)?;
        let blobs = with(|job| job.exchange(&own.label().to_le_bytes()))?;
        let mut map = Vec::with_capacity(blobs.len());
        for blob in &blobs {
            let Ok(label) = blob.as_slice().try_into() else {
                tell("a process of the job called another function than SluiceJobMap");
                return Err(Code::Fail);
            };
            map.push(Phys::from_label(u64::from_le_bytes(label)));
        }
        let mut maps = MAPS.lock().unwrap_or_else(PoisonError::into_inner);
        maps[parts.slot_index()] = Some((parts.generation, map.clone()));
        parts.slot.with(parts.generation, |state| match state.peers().map() {
            _ if !state.is_logical => Ok(()),
            Some(_) => Err(Code::Ignored),
            None => {
                state.peers_mut().set_map(map);
                Ok(())
            }
        })?
    })
}

/// See `sluice_job.h`.
///
/// # Safety
/// The pointer is null, or leads to what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn SluiceJobPeers(ni: ptl_handle_any_t, all: *mut ptl_process_t) -> c_int {
    guarded(|| {
        with(|_| Ok(()))?;
        let parts = unpack(Kind::Ni, ni)?;
        let is_logical = parts.slot.with(parts.generation, |state| state.is_logical)?;
        let maps = MAPS.lock().unwrap_or_else(PoisonError::into_inner);
        let map = maps[parts.slot_index()]
            .as_ref()
            .filter(|(generation, _)| *generation == parts.generation);
        let (_, map) = map.ok_or(Code::ArgInvalid)?;
        for (rank, phys) in map.iter().enumerate() {
            let to = all.wrapping_add(rank);
            check_out(to)?;
            let process = if is_logical {
                ptl_process_t::from_rank(rank as u32)
            } else {
                ptl_process_t::from_phys(phys.nid, phys.pid)
            };
            // SAFETY: checked above.
            unsafe { write(to, process) };
        }
        Ok(())
    })
}

/// See `sluice_job.h`.
#[unsafe(no_mangle)]
pub extern "C" fn SluiceJobFini() -> c_int {
    guarded(|| {
        let job = JOB.lock().unwrap_or_else(PoisonError::into_inner).take();
        match job {
            Some(job) => job.finish().map_err(|why| told(&why)),
            None => Err(Code::NoInit),
        }
    })
}

/// See `sluice_job.h`.
///
/// # Safety
/// `why` is null, or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn SluiceJobAbort(code: c_int, why: *const c_char) -> c_int {
    guarded(|| {
        let words = if why.is_null() || !is_readable(region_of(why.cast(), 1)) {
            String::new()
        } else {
            // SAFETY: the caller says that it is a string.
            unsafe { CStr::from_ptr(why) }.to_string_lossy().into_owned()
        };
        // Another thread may be waiting for the other processes; then there is
        // no telling them, but the launcher sees how this process ends.
        if let Ok(mut place) = JOB.try_lock()
            && let Some(job) = place.take()
        {
            job.abort(code, &words);
        }
        std::process::exit(code)
    })
}

/// See `sluice_job.h`.
#[unsafe(no_mangle)]
pub extern "C" fn SluiceJobError() -> *const c_char {
    ERROR.with(|error| error.borrow().as_ptr())
}
