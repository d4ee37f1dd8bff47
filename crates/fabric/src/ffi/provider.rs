//! What libfabric is given of a provider.

use super::info::{fi_fabric_attr, fi_info};
use super::object::fid_fabric;
use libc::{c_char, c_int, c_void};

#[repr(C)]
#[derive(Debug)]
pub struct fi_provider {
    pub version: u32,
    pub fi_version: u32,
    /// libfabric's own; it writes here.
    pub context: [*mut c_void; 4],
    pub name: *const c_char,
    pub getinfo: Option<GetInfo>,
    pub fabric: Option<OpenFabric>,
    pub cleanup: Option<unsafe extern "C" fn()>,
}

/// `fi_provider::getinfo`.
pub type GetInfo = unsafe extern "C" fn(
    u32,
    *const c_char,
    *const c_char,
    u64,
    *const fi_info,
    *mut *mut fi_info,
) -> c_int;

/// `fi_provider::fabric`.
pub type OpenFabric =
    unsafe extern "C" fn(*mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int;
