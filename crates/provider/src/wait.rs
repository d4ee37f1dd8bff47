//! Descriptors that a program gives to poll(2) until there is something to read
//! (FI_WAIT_FD). Whether it may wait, `fi_trywait` says (`fabric`).
//!
//! A descriptor of an event queue is readable as long as there is an event. One of a
//! completion queue becomes so when an endpoint's thread, or a call, finishes something
//! after the program was told that it may wait; until it asks again.

use crate::errno::Errno;
use crate::ffi;
use libc::{c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A descriptor that is readable or not.
#[derive(Debug)]
pub struct Descriptor(OwnedFd);

impl Descriptor {
    /// One that is not.
    pub fn new() -> Result<Descriptor, Errno> {
        // SAFETY: it takes no memory of ours.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            let error = std::io::Error::last_os_error();
            return Err(error.raw_os_error().map_or(Errno::NO_MEMORY, Errno));
        }
        // SAFETY: just opened, and nobody else has it.
        Ok(Descriptor(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// One if the program wants it, of all wait objects that are there; else the code.
    pub fn wanted(wait_obj: u32) -> Result<Option<Descriptor>, Errno> {
        match wait_obj {
            ffi::FI_WAIT_NONE | ffi::FI_WAIT_UNSPEC | ffi::FI_WAIT_YIELD => Ok(None),
            ffi::FI_WAIT_FD => Descriptor::new().map(Some),
            _ => Err(Errno::NO_SYS),
        }
    }

    /// It is readable from now on.
    pub fn raise(&self) {
        let one = 1_u64;
        // SAFETY: the eight bytes of a word. It fails only if it is readable already.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
    }

    /// It is not, until somebody raises it.
    pub fn lower(&self) {
        let mut count = 0_u64;
        // SAFETY: the eight bytes of a word. It fails only if it is not readable.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) };
    }
}

/// `fi_control` of a queue: its wait object, which is the descriptor if it has one.
///
/// # Safety
/// `arg` is null or can be written as the command says.
pub unsafe fn control(
    descriptor: Option<&Descriptor>,
    wait_obj: u32,
    command: c_int,
    arg: *mut c_void,
) -> c_int {
    match (command, descriptor) {
        _ if arg.is_null() => -ffi::FI_ENOSYS,
        (ffi::FI_GETWAIT, Some(Descriptor(fd))) => {
            // SAFETY: the caller's promise: a descriptor.
            unsafe { *arg.cast::<c_int>() = fd.as_raw_fd() };
            0
        }
        (ffi::FI_GETWAITOBJ, _) => {
            // SAFETY: the caller's promise: an enumeration.
            unsafe { *arg.cast::<u32>() = wait_obj };
            0
        }
        _ => -ffi::FI_ENOSYS,
    }
}
