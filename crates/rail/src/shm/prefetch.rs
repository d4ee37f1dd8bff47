//! Lines that the processor begins to fetch before they are read: who has written them last is
//! another core, and a fetch takes as long as handling a packet.

/// Begins to fetch the line at this place. It need not be valid: nothing is read into the program.
#[inline(always)]
pub(super) fn prefetch<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch reads nothing into the program, and never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}
