//! The part of PMIx's C interface that we use, written by hand: its structures as PMIx 3 and later
//! lay them out, its constants, and its calls as found in the library.
//!
//! The tests compare every size, offset and constant here with PMIx's own header.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::{offset_of, size_of, transmute};

use super::super::error::{JobError, shown};

/// PMIX_MAX_NSLEN + 1.
pub(super) const NAME_LEN: usize = 256;
/// PMIX_MAX_KEYLEN + 1.
pub(super) const KEY_LEN: usize = 512;

pub(super) const SUCCESS: c_int = 0;
pub(super) const ERR_TIMEOUT: c_int = -24;
pub(super) const ERR_PARTIAL: c_int = -52;
pub(super) const WILDCARD: u32 = u32::MAX - 1;
pub(super) const GLOBAL: u8 = 3;

pub(super) const BOOL: u16 = 1;
pub(super) const INT: u16 = 6;
pub(super) const UINT32: u16 = 14;
pub(super) const BYTE_OBJECT: u16 = 27;

pub(super) const JOB_SIZE: &CStr = c"pmix.job.size";
pub(super) const COLLECT: &CStr = c"pmix.collect";
pub(super) const TIMEOUT: &CStr = c"pmix.timeout";

/// pmix_proc_t
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Proc {
    pub nspace: [c_char; NAME_LEN],
    pub rank: u32,
}

/// pmix_byte_object_t
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ByteObject {
    pub bytes: *mut c_char,
    pub size: usize,
}

/// The union inside pmix_value_t.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) union Data {
    pub flag: bool,
    pub integer: c_int,
    pub uint32: u32,
    pub bytes: ByteObject,
    /// As long as pmix_envar_t, the longest of all.
    whole: [*mut c_void; 3],
}

/// pmix_value_t
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Value {
    pub kind: u16,
    pub data: Data,
}

/// pmix_info_t
#[repr(C)]
pub(super) struct Info {
    key: [c_char; KEY_LEN],
    flags: u32,
    value: Value,
}

const _: () = assert!(size_of::<Proc>() == 260 && offset_of!(Proc, rank) == 256);
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<Value>() == 32 && offset_of!(Value, data) == 8);
    assert!(size_of::<Info>() == 552 && offset_of!(Info, value) == 520);
};

impl Info {
    /// `name` with `value`.
    pub(super) fn of(name: &CStr, value: Value) -> Info {
        let mut key = [0; KEY_LEN];
        // The last byte stays zero, whatever the name.
        for (to, from) in key[..KEY_LEN - 1].iter_mut().zip(name.to_bytes()) {
            *to = *from as c_char;
        }
        Info { key, flags: 0, value }
    }
}

type Init = unsafe extern "C" fn(*mut Proc, *mut Info, usize) -> c_int;
type Finalize = unsafe extern "C" fn(*const Info, usize) -> c_int;
type Abort = unsafe extern "C" fn(c_int, *const c_char, *mut Proc, usize) -> c_int;
type Put = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int;
type Commit = unsafe extern "C" fn() -> c_int;
type Fence = unsafe extern "C" fn(*const Proc, usize, *const Info, usize) -> c_int;
type Get =
    unsafe extern "C" fn(*const Proc, *const c_char, *const Info, usize, *mut *mut Value) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;
type Version = unsafe extern "C" fn() -> *const c_char;

/// The calls, as found in a library that is never unloaded.
pub(super) struct Calls {
    pub init: Init,
    pub finalize: Finalize,
    pub abort: Abort,
    pub put: Put,
    pub commit: Commit,
    pub fence: Fence,
    pub get: Get,
    pub error_string: ErrorString,
}

impl Calls {
    /// Loads libpmix, or finds it loaded.
    pub(super) fn load() -> Result<Calls, JobError> {
        let library = open()?;
        let version = symbol(library, c"PMIx_Get_version")?;
        // SAFETY: PMIx_Get_version has had this signature in every version of PMIx.
        let version = unsafe { transmute::<*mut c_void, Version>(version) };
        // SAFETY: takes no argument, may be called before PMIx_Init, and returns a static text.
        let version = unsafe { version() };
        if !version.is_null() {
            // SAFETY: not null; zero-terminated and static, as above.
            let version = unsafe { CStr::from_ptr(version) }.to_string_lossy();
            if major(&version).is_some_and(|major| major < 3) {
                let why = format!("it is {}", shown(version.as_bytes()));
                return Err(JobError::PmixLibrary { why });
            }
        }
        let init = symbol(library, c"PMIx_Init")?;
        let finalize = symbol(library, c"PMIx_Finalize")?;
        let abort = symbol(library, c"PMIx_Abort")?;
        let put = symbol(library, c"PMIx_Put")?;
        let commit = symbol(library, c"PMIx_Commit")?;
        let fence = symbol(library, c"PMIx_Fence")?;
        let get = symbol(library, c"PMIx_Get")?;
        let error_string = symbol(library, c"PMIx_Error_string")?;
        // SAFETY: each address is that of the function of this name in a library that stays
        // loaded, is not null, and its signature is the one that PMIx 3 and later declare.
        Ok(unsafe {
            Calls {
                init: transmute::<*mut c_void, Init>(init),
                finalize: transmute::<*mut c_void, Finalize>(finalize),
                abort: transmute::<*mut c_void, Abort>(abort),
                put: transmute::<*mut c_void, Put>(put),
                commit: transmute::<*mut c_void, Commit>(commit),
                fence: transmute::<*mut c_void, Fence>(fence),
                get: transmute::<*mut c_void, Get>(get),
                error_string: transmute::<*mut c_void, ErrorString>(error_string),
            }
        })
    }
}

fn open() -> Result<*mut c_void, JobError> {
    let mut why = String::new();
    for name in [c"libpmix.so.2", c"libpmix.so"] {
        // SAFETY: the name is zero-terminated. The library's own initialisers run; libpmix is
        // made to be loaded at any time. It is never unloaded.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        if !library.is_null() {
            return Ok(library);
        }
        if why.is_empty() {
            why = last_error();
        }
    }
    Err(JobError::PmixLibrary { why })
}

fn symbol(library: *mut c_void, name: &CStr) -> Result<*mut c_void, JobError> {
    // SAFETY: `library` is a handle that dlopen returned and nobody closes; the name is
    // zero-terminated.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    if found.is_null() {
        return Err(JobError::PmixLibrary { why: last_error() });
    }
    Ok(found)
}

fn last_error() -> String {
    // SAFETY: takes no argument; returns null or a text that is valid until this thread's next
    // call of the dl functions.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "for no reason given".into();
    }
    // SAFETY: not null and zero-terminated; copied before any other dl call.
    shown(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// 4 of `OpenPMIx 4.2.2 (...)`.
fn major(version: &str) -> Option<u32> {
    let digits = version.split(|c: char| !c.is_ascii_digit()).find(|word| !word.is_empty())?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests;
