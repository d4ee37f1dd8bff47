//! The same answers from system calls, for machines that `fault` has no code
//! for: far slower, and right everywhere.
//!
//! Both calls are made for something else and chosen because the kernel has to
//! look at the memory first. Copying through `process_vm_writev` would need a
//! permission that containers withhold, and would write back a byte that
//! another thread may just have changed.

use std::ptr;
use std::sync::atomic::AtomicU32;

/// Nothing has to be prepared.
#[cfg_attr(test, allow(dead_code, reason = "only the machines without code call it"))]
pub(crate) fn install() {}

/// Nor to be prepared again.
#[cfg_attr(test, allow(dead_code, reason = "only the machines without code call it"))]
pub(crate) fn install_above() {}

/// Whether the byte at `at` can be read: the kernel reads a signal mask before
/// it refuses what should be done with it.
pub(crate) fn read(at: *const u8) -> bool {
    const NO_SUCH_WAY: libc::c_int = -1;
    /// The kernel's signal mask on every machine but MIPS, which has sixteen.
    const MASK_BYTES: usize =
        if cfg!(any(target_arch = "mips", target_arch = "mips64")) { 16 } else { 8 };
    // A mask at zero is no mask and is not read; the next one is in the same page.
    let mask = at.map_addr(|at| (at & !(MASK_BYTES - 1)).max(MASK_BYTES));
    let none = ptr::null_mut::<u8>();
    // SAFETY: the kernel checks the address; the way does not exist, so the
    // mask of this thread stays.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, NO_SUCH_WAY, mask, none, MASK_BYTES) };
    std::io::Error::last_os_error().raw_os_error() != Some(libc::EFAULT)
}

/// Whether the byte at `at` can be written: the kernel does an atomic "or" of
/// nothing to the word around it. At most it wakes a thread that waits there,
/// which a waiter has to expect.
pub(crate) fn write(at: *const u8) -> bool {
    static NOBODY_WAITS_HERE: AtomicU32 = AtomicU32::new(0);
    const OP_OR: u32 = 2 << 28;
    let word = at.map_addr(|at| at & !3);
    // SAFETY: the kernel checks the address and changes no bit.
    let done = unsafe {
        libc::syscall(
            libc::SYS_futex,
            NOBODY_WAITS_HERE.as_ptr(),
            libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG,
            0,
            0,
            word,
            OP_OR,
        )
    };
    done >= 0
}
