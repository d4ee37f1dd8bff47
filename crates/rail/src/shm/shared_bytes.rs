//! The one copy of bytes between shared memory and a process's own, and why it is sound though
//! other processes may write there at any time.

use std::ffi::c_void;
use std::hint::black_box;

/// Copies bytes into shared memory or out of it.
///
/// Why that is no data race, though the access is not atomic: one thread at a time
/// uses a rail, and those that use the rails of one process are ordered. A reader
/// touches a further slot only after it has loaded, with acquire, the stamp
/// that its writer stored with release after the last of these accesses; and who
/// writes there next has the credits for it from the reader, through another such
/// pair, or has seen the reader's count of bounce buffers. So of two accesses in one program, one of them a write, one happens before
/// the other. What is left are other processes that do not keep to the rules. They
/// are outside of what the language knows of. So the copy is made by a function of the C
/// library that the compiler cannot look into: it assumes nothing of what is read, and no
/// byte that is read is relied upon.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes; they do not overlap.
#[inline]
pub(super) unsafe fn copy_shared(from: *const u8, to: *mut u8, len: usize) {
    type Copy = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;
    let copy: Copy = black_box(libc::memcpy);
    // SAFETY: as the caller says.
    unsafe { copy(to.cast(), from.cast(), len) };
}
