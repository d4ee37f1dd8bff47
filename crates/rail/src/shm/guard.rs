//! Whether memory of the client may be used, found by touching each page of it.
//!
//! A touch that the memory refuses is an answer and not the end of the process
//! (`fault`; `ask` on machines that `fault` has no code for). The answer holds
//! for the moment: a client that unmaps memory while a message uses it is not
//! protected.

#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub(super) mod ask;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) mod fault;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod mapped;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) use mapped::MappedFile;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use ask as touch;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use fault as touch;

use sluice_wire::Region;
use std::ptr;

/// Prepares this process. To be called before the first look at memory.
pub(super) fn install() {
    touch::install();
}

/// Prepares it again, where it was: after a library was loaded, which may have undone that.
pub(super) fn install_above() {
    touch::install_above();
}

/// On machines that `fault` has no code for a mapped file is not protected.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[derive(Debug)]
pub(super) struct MappedFile;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
impl MappedFile {
    pub(super) unsafe fn new(_base: *const u8, _len: usize) -> MappedFile {
        MappedFile
    }

    pub(super) fn is_lost(&self) -> bool {
        false
    }
}

/// Whether all bytes of a region can be read now.
pub(super) fn readable(region: Region) -> bool {
    every_page(region, rustix::param::page_size() as u64, touch::read)
}

/// Whether all bytes of a region can be written now. Nothing is changed, and
/// nothing that others write meanwhile is lost.
pub(super) fn writable(region: Region) -> bool {
    every_page(region, rustix::param::page_size() as u64, touch::write)
}

/// Whether `touch` says yes to one byte of each page of the region.
pub(super) fn every_page(
    region: Region,
    page_bytes: u64,
    touch: impl Fn(*const u8) -> bool,
) -> bool {
    if region.len == 0 {
        return true;
    }
    let Some(Region { addr, len }) = Region::new(region.addr, region.len) else { return false };
    let end = addr.0 + len;
    let mut at = addr.0;
    loop {
        if !touch(ptr::with_exposed_provenance(at as usize)) {
            return false;
        }
        match (at & !(page_bytes - 1)).checked_add(page_bytes) {
            Some(next) if next < end => at = next,
            _ => return true,
        }
    }
}

#[cfg(test)]
#[path = "tests/guard.rs"]
mod tests;
