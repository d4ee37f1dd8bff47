//! Messages, through libfabric's log.

use crate::ffi;
use libc::c_int;
use std::ffi::CString;
use std::io::Write;

/// What a message is about: libfabric's subsystems.
#[derive(Clone, Copy, Debug)]
pub enum About {
    Core,
    Fabric,
    Endpoint,
    Addresses,
    Completions,
}

impl About {
    fn subsystem(self) -> c_int {
        match self {
            About::Core => ffi::FI_LOG_CORE,
            About::Fabric => ffi::FI_LOG_FABRIC,
            About::Endpoint => ffi::FI_LOG_EP_CTRL,
            About::Addresses => ffi::FI_LOG_AV,
            About::Completions => ffi::FI_LOG_CQ,
        }
    }
}

/// A message for whoever turns the log up (`FI_LOG_LEVEL=info`).
pub fn info(about: About, message: impl FnOnce() -> String) {
    if enabled(ffi::FI_LOG_INFO, about) {
        write(ffi::FI_LOG_INFO, about, &message());
    }
}

/// A message that a person should see without having asked for it. libfabric
/// 1.x shows nothing at all unless FI_LOG_LEVEL is set, so this falls back on
/// standard error.
pub fn warn(about: About, message: &str) {
    if enabled(ffi::FI_LOG_WARN, about) {
        write(ffi::FI_LOG_WARN, about, message);
    } else {
        print(&format!("warning: {message}"));
    }
}

/// A line on standard error, whole: processes of a job share it.
pub fn print(message: &str) {
    let line = format!("sluice: {message}\n");
    // There is nowhere to report that a report failed.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

fn enabled(level: c_int, about: About) -> bool {
    // SAFETY: the provider structure is static; libfabric only reads it.
    unsafe { ffi::fi_log_enabled(crate::provider(), level, about.subsystem()) != 0 }
}

fn write(level: c_int, about: About, message: &str) {
    // A NUL cannot come from a message of ours; if one does, say nothing.
    let Ok(text) = CString::new(message) else { return };
    // SAFETY: all pointers are to NUL-terminated strings that outlive the
    // call; the format takes exactly one string.
    unsafe {
        ffi::fi_log(
            crate::provider(),
            level,
            about.subsystem(),
            c"sluice".as_ptr(),
            0,
            c"%s\n".as_ptr(),
            text.as_ptr(),
        );
    }
}
