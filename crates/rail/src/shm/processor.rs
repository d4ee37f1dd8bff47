//! What kind of processor this is, where that decides how bytes are moved.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use std::sync::LazyLock;

/// Whether it is one of Intel's. To ask it takes microseconds in a virtual machine, so it is
/// asked once.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
pub(super) fn is_intel() -> bool {
    static IS_INTEL: LazyLock<bool> = LazyLock::new(|| {
        let name = std::arch::x86_64::__cpuid(0);
        [name.ebx, name.edx, name.ecx].map(u32::to_le_bytes).as_flattened() == b"GenuineIntel"
    });
    *IS_INTEL
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(super) fn is_intel() -> bool {
    false
}
