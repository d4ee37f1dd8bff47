//! What libfabric exports to providers. Only symbols of version FABRIC_1.0:
//! anything later would tie the provider to one libfabric.

use libc::{c_char, c_int, c_void};
use sluice_fabric::ffi::fi_provider;

unsafe extern "C" {
    pub fn fi_log_enabled(prov: *const fi_provider, level: c_int, subsys: c_int) -> c_int;
    pub fn fi_log(
        prov: *const fi_provider,
        level: c_int,
        subsys: c_int,
        func: *const c_char,
        line: c_int,
        fmt: *const c_char,
        ...
    );
    pub fn fi_param_define(
        prov: *const fi_provider,
        name: *const c_char,
        type_: c_int,
        help_fmt: *const c_char,
        ...
    ) -> c_int;
    pub fn fi_param_get(prov: *mut fi_provider, name: *const c_char, value: *mut c_void) -> c_int;
    pub fn fi_strerror(errnum: c_int) -> *const c_char;
}
