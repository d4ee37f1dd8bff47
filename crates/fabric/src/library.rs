//! The library, loaded once.

use crate::FabricError;
use crate::ffi::{fi_fabric_attr, fi_info, fid_fabric};
use libc::{c_char, c_int, c_void};
use std::ffi::CStr;
use std::mem;
use std::sync::OnceLock;

/// The functions that libfabric exports; all others are in tables of its objects.
#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) getinfo: GetInfo,
    pub(crate) freeinfo: unsafe extern "C" fn(*mut fi_info),
    pub(crate) dupinfo: unsafe extern "C" fn(*const fi_info) -> *mut fi_info,
    pub(crate) fabric: OpenFabric,
    pub(crate) strerror: unsafe extern "C" fn(c_int) -> *const c_char,
}

type GetInfo = unsafe extern "C" fn(
    u32,
    *const c_char,
    *const c_char,
    u64,
    *const fi_info,
    *mut *mut fi_info,
) -> c_int;
type OpenFabric =
    unsafe extern "C" fn(*mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int;

static LIBRARY: OnceLock<Result<Library, FabricError>> = OnceLock::new();

impl Library {
    /// The library. In a process that libfabric has loaded it is that libfabric.
    pub(crate) fn get() -> Result<&'static Library, FabricError> {
        LIBRARY.get_or_init(Library::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<Library, FabricError> {
        let flags = libc::RTLD_NOW | libc::RTLD_LOCAL;
        // SAFETY: a name that ends in zero. The library's constructors are its own affair.
        let handle = unsafe { libc::dlopen(c"libfabric.so.1".as_ptr(), flags) };
        if handle.is_null() {
            return Err(FabricError::Missing(reason()));
        }
        // SAFETY: each of these symbols is a function of the type that its field has
        // (fabric.h, fi_errno.h); the library stays loaded.
        unsafe {
            Ok(Library {
                getinfo: mem::transmute::<*mut c_void, GetInfo>(find(handle, c"fi_getinfo")?),
                freeinfo: mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut fi_info)>(find(
                    handle,
                    c"fi_freeinfo",
                )?),
                dupinfo: mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*const fi_info) -> *mut fi_info,
                >(find(handle, c"fi_dupinfo")?),
                fabric: mem::transmute::<*mut c_void, OpenFabric>(find(handle, c"fi_fabric")?),
                strerror: mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> *const c_char>(
                    find(handle, c"fi_strerror")?,
                ),
            })
        }
    }
}

fn find(handle: *mut c_void, name: &'static CStr) -> Result<*mut c_void, FabricError> {
    // SAFETY: the handle is of a library that is loaded.
    let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
    if symbol.is_null() {
        return Err(FabricError::Function(name.to_str().unwrap_or("function")));
    }
    Ok(symbol)
}

/// What the loader says.
fn reason() -> String {
    // SAFETY: it returns null or a text that stays until the next call of this thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return String::from("no reason is given");
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
