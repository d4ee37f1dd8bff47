//! The settings, as libfabric finds them.
//!
//! libfabric lists the variables (`fi_info -e`) and finds them; what they may say is
//! checked by [`sluice_runtime::settings`], because libfabric takes a number that is
//! none for zero.

use crate::ffi;
use crate::log::{self, About};
use libc::{c_char, c_int, c_void};
use sluice_runtime::settings::{Kind, Settings, VARIABLES, Variable};
use std::ffi::OsString;
use std::sync::{Once, OnceLock};

/// Makes the variables known to libfabric. Once, when the provider is loaded.
pub fn define() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for variable in VARIABLES {
            // SAFETY: all strings are static and NUL-terminated; the help text
            // is passed as the argument of a fixed format.
            unsafe {
                ffi::fi_param_define(
                    crate::provider(),
                    variable.name.as_ptr(),
                    match variable.kind {
                        Kind::Size => ffi::FI_PARAM_SIZE_T,
                        Kind::Text => ffi::FI_PARAM_STRING,
                    },
                    c"%s".as_ptr(),
                    variable.help.as_ptr(),
                );
            }
        }
    });
}

/// The settings. Read once; warnings are given then.
pub fn get() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let settings = Settings::read_all(raw);
        for warning in &settings.warnings {
            log::warn(About::Core, warning);
        }
        settings
    })
}

/// What the environment says, where libfabric finds the variable set.
fn raw(variable: &Variable) -> Option<OsString> {
    let found = match variable.kind {
        Kind::Text => {
            let mut text: *const c_char = std::ptr::null();
            look_up(variable, (&raw mut text).cast())
        }
        Kind::Size => {
            let mut number: usize = 0;
            look_up(variable, (&raw mut number).cast())
        }
    };
    // Unset gives FI_ENODATA.
    if found == -ffi::FI_ENODATA || found == -ffi::FI_ENOENT {
        return None;
    }
    std::env::var_os(variable.env())
}

fn look_up(variable: &Variable, value: *mut c_void) -> c_int {
    // SAFETY: `value` points to a variable of the type that libfabric
    // writes for this variable's kind (`raw`).
    unsafe { ffi::fi_param_get(crate::provider(), variable.name.as_ptr(), value) }
}
