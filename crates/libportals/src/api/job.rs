//! `sluice_job.h`: how the processes of a job find each other.

use super::guarded;
use crate::book::{self, Entry, TOLD_BYTES_MAX};
use crate::codes::Code;
use crate::handle::INTERFACES;
use crate::handle::Kind;
use crate::ni_slot::{poll_untended, slot_at, slots};
use crate::object::unpack;
use crate::phys::Phys;
use crate::resolve::{check_out, region_of, write};
use crate::types::{ptl_handle_any_t, ptl_process_t};
use sluice_boot::{BLOB_MAX, Job, JobError};
use sluice_rail::shm::{is_readable, is_writable};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

/// The job, from `SluiceJobInit` to `SluiceJobFini`.
static JOB: Mutex<Option<Joined>> = Mutex::new(None);

/// The most that a program may contribute to one exchange: `SLUICE_JOB_BLOB_MAX`.
const PROGRAM_BYTES_MAX: usize = 1 << 20;
const _: () = assert!(PROGRAM_BYTES_MAX + TOLD_BYTES_MAX <= BLOB_MAX);

/// A job, and which interfaces it has been told of, by their generations.
struct Joined {
    job: Job,
    told: [Option<u32>; INTERFACES],
}

thread_local! {
    static ERROR: RefCell<CString> = RefCell::new(CString::default());
}

/// Does something with the job, and keeps in words what goes wrong.
fn with<R>(then: impl FnOnce(&mut Job) -> Result<R, JobError>) -> Result<R, Code> {
    joined(|joined| then(&mut joined.job).map_err(|why| told(&why)))
}

fn joined<R>(then: impl FnOnce(&mut Joined) -> Result<R, Code>) -> Result<R, Code> {
    let mut place = JOB.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(joined) = &mut *place else {
        tell("SluiceJobInit has not been called");
        return Err(Code::NoInit);
    };
    then(joined)
}

impl Joined {
    /// Exchanges the program's bytes, and with them what other hosts must know of the
    /// interfaces that were opened since the last exchange.
    fn exchange(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, Code> {
        let blob = [&book::emit(&self.news())[..], mine].concat();
        let blobs = self.job.exchange(&blob).map_err(|why| told(&why))?;
        let mut parts = Vec::with_capacity(blobs.len());
        for (rank, blob) in blobs.iter().enumerate() {
            let (entries, program) = book::parse(blob).map_err(|why| {
                tell(&format!("rank {rank} of the job cannot be understood: {why}"));
                Code::Fail
            })?;
            learn(&entries);
            parts.push(program.to_vec());
        }
        Ok(parts)
    }

    fn news(&mut self) -> Vec<Entry> {
        let slots = slots().iter().zip(0..).zip(&mut self.told);
        let news = slots.filter_map(|((slot, kind), told)| {
            let generation = slot.generation();
            if *told == Some(generation) {
                return None;
            }
            let entry = slot.with(generation, |state| state.entry(kind)).ok()??;
            *told = Some(generation);
            Some(entry)
        });
        news.collect()
    }
}

/// Where processes are.
fn learn(entries: &[Entry]) {
    book::keep(entries);
    for &Entry { kind, phys, address } in entries {
        if let Some(slot) = slot_at(usize::from(kind)) {
            // One that is not open learns it when it is opened.
            let _ = slot.with(slot.generation(), |state| state.introduce(phys, address));
        }
    }
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
        let Joined { job, .. } = match &mut *place {
            Some(joined) => joined,
            None => {
                // Where no thread makes progress, waiting for the others does.
                let job = Job::start(Some(poll_untended)).map_err(|why| told(&why))?;
                book::clear();
                place.insert(Joined { job, told: [None; INTERFACES] })
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
        if bytes > PROGRAM_BYTES_MAX {
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
        let blobs = joined(|joined| joined.exchange(&own))?;
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
        let own = parts.slot.with(parts.generation, |state| state.own.phys)?;
        let blobs = joined(|joined| joined.exchange(&own.label().to_le_bytes()))?;
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
            Some(joined) => joined.job.finish().map_err(|why| told(&why)),
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
            && let Some(joined) = place.take()
        {
            joined.job.abort(code, &words);
        }
        std::process::exit(code)
    })
}

/// See `sluice_job.h`.
#[unsafe(no_mangle)]
pub extern "C" fn SluiceJobError() -> *const c_char {
    ERROR.with(|error| error.borrow().as_ptr())
}
