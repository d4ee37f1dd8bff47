//! Mapped files whose memory somebody may take away by shortening them.
//!
//! A touch beyond the end of a file is `SIGBUS`. The handler of `fault` asks here
//! whether the place is in such a mapping. If it is, the whole mapping becomes
//! private memory that holds zeroes, and the touch is made again. So none of the
//! many places that touch a mailbox has to expect the fault; whoever owns the
//! mapping finds out by asking [`MappedFile::is_lost`].
//!
//! Invariants: an entry of the list is never freed, so the handler may walk the
//! list at any time. An entry with a base is of a mapping that is still there.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

#[derive(Debug)]
struct Entry {
    /// Zero: free for the next mapping.
    base: AtomicUsize,
    len: AtomicUsize,
    is_lost: AtomicBool,
    next: *const Entry,
}

// SAFETY: all but `next` is atomic, and `next` is never changed and leads to an
// entry that is never freed.
unsafe impl Sync for Entry {}

/// The newest entry.
static LIST: AtomicPtr<Entry> = AtomicPtr::new(ptr::null_mut());
/// Held by who looks for a free entry.
static CLAIM: Mutex<()> = Mutex::new(());

/// A mapped file under the handler's protection. To be dropped before the file is
/// unmapped.
#[derive(Debug)]
pub(crate) struct MappedFile {
    entry: &'static Entry,
}

impl MappedFile {
    /// Protects the `len` bytes mapped at `base`.
    ///
    /// # Safety
    /// They are a mapping of whole pages, which stays until this is dropped, and
    /// which may be replaced by other memory.
    pub(crate) unsafe fn new(base: *const u8, len: usize) -> MappedFile {
        super::install();
        let _claim = CLAIM.lock().unwrap_or_else(PoisonError::into_inner);
        let free = entries().find(|entry| entry.base.load(Ordering::Acquire) == 0);
        let entry = free.unwrap_or_else(add_entry);
        entry.is_lost.store(false, Ordering::Relaxed);
        // After the base is seen to be zero: who reads this length with another
        // base finds that the base has changed.
        entry.len.store(len, Ordering::Release);
        // Exposed, for the handler makes a pointer of it again.
        entry.base.store(base.expose_provenance(), Ordering::Release);
        MappedFile { entry }
    }

    /// Whether the file was shortened and the memory is not shared any more.
    pub(crate) fn is_lost(&self) -> bool {
        self.entry.is_lost.load(Ordering::Acquire)
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        self.entry.base.store(0, Ordering::Release);
    }
}

fn add_entry() -> &'static Entry {
    let entry = Box::leak(Box::new(Entry {
        base: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        is_lost: AtomicBool::new(false),
        next: LIST.load(Ordering::Relaxed),
    }));
    LIST.store(entry, Ordering::Release);
    entry
}

fn entries() -> impl Iterator<Item = &'static Entry> {
    let mut next = LIST.load(Ordering::Acquire).cast_const();
    std::iter::from_fn(move || {
        // SAFETY: null, or an entry, which is never freed.
        let entry: &'static Entry = unsafe { next.as_ref() }?;
        next = entry.next;
        Some(entry)
    })
}

/// Replaces the mapping that `at` is in, if it is one of these. For the handler:
/// it takes no lock and allocates nothing.
pub(crate) fn replace(at: usize) -> bool {
    for entry in entries() {
        let base = entry.base.load(Ordering::Acquire);
        let len = entry.len.load(Ordering::Acquire);
        // Another thread may have given the entry to another mapping in between;
        // the one that `at` is in stays, for the thread that faulted uses it.
        let is_one = entry.base.load(Ordering::Acquire) == base;
        if base == 0 || !is_one || !(base..base + len).contains(&at) {
            continue;
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a mapping that may be replaced, by `MappedFile::new`'s contract;
        // the thread that faulted uses it, so it is still there.
        let mapped = unsafe {
            libc::mmap(ptr::with_exposed_provenance_mut(base), len, protection, flags, -1, 0)
        };
        if mapped == libc::MAP_FAILED {
            return false;
        }
        entry.is_lost.store(true, Ordering::Release);
        return true;
    }
    false
}
