//! Threads of the library's own, which run no handler of the program.

/// Signals that a thread gets for what it does itself.
const FAULTS: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT];

/// Runs something that starts a thread, which inherits what is blocked: a
/// program's handlers expect its own threads.
pub fn with_signals_blocked<R>(start: impl FnOnce() -> R) -> R {
    // SAFETY: both sets are initialised before they are read, the first by
    // `sigfillset`, the second by the first call; masks of the calling thread
    // only are changed, and changed back.
    unsafe {
        let mut blocked: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut blocked);
        for fault in FAULTS {
            libc::sigdelset(&raw mut blocked, fault);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const blocked, &raw mut before);
        let result = start();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        result
    }
}
