//! Mapped shared memory.
//!
//! Invariant: all words of it that are more than payload are touched as atomics, for other
//! processes may write there at any time.

use super::guard::MappedFile;
use rustix::fd::AsFd;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

/// Mapped shared memory, unmapped when dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    pub(super) base: NonNull<u8>,
    pub(super) len: usize,
    /// Of a file, which its owner can shorten; anonymous memory is sealed.
    pub(super) file: Option<MappedFile>,
}

impl Mapping {
    /// Maps `len` bytes of a file, or of anonymous memory.
    pub(super) fn new(fd: impl AsFd, len: usize, is_file: bool) -> io::Result<Mapping> {
        // SAFETY: a fresh mapping at an address that the kernel chooses
        // overlaps nothing.
        let base = unsafe {
            mmap(ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, fd, 0)
        }?;
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at zero"))?;
        // SAFETY: the mapping just made, which is unmapped after this is dropped;
        // all that is in it is words of memory, which may be any.
        let file = is_file.then(|| unsafe { MappedFile::new(base.as_ptr(), len) });
        Ok(Mapping { base, len, file })
    }

    /// Where `len` bytes from `offset` on are.
    pub(super) fn at(&self, offset: usize, len: usize) -> NonNull<u8> {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len));
        // SAFETY: inside the mapping, by the assertion.
        unsafe { self.base.add(offset) }
    }

    /// The word at `offset`.
    pub(super) fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8));
        // SAFETY: inside the mapping and aligned; shared words are only ever
        // touched as atomics; the borrow of `self` keeps them mapped.
        unsafe { self.at(offset, 8).cast().as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.file = None;
        // SAFETY: this is the whole mapping, and whoever holds pointers into it
        // keeps it (`Reader`, `Writer`).
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}

// SAFETY: the mapping belongs to the process, not to a thread, and all access
// goes through atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}
