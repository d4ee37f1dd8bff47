//! Waiting for the job, with an end.
//!
//! Others may be unable to come before this process has answered them: so where
//! no thread makes progress (`PTL_PROGRESS=poll`), every wait here does.

use crate::interface::{is_polled, poll_all};
use rustix::event::{PollFd, Timespec};
use rustix::io::Errno;
use std::io;
use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at the interfaces, where this makes their progress.
const NAP: Duration = Duration::from_micros(50);

/// Whether one of `fds` is ready before `until`. A signal does not end the wait.
pub(super) fn until_ready(fds: &mut [PollFd<'_>], until: Instant) -> io::Result<bool> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let nap = if is_polled() { nap().min(left) } else { left };
        let timeout = Timespec {
            tv_sec: i64::try_from(nap.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: nap.subsec_nanos().into(),
        };
        match rustix::event::poll(fds, Some(&timeout)) {
            Ok(0) if nap < left => {}
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Makes a call that waits in a library of others. Where no thread makes
/// progress, a thread makes the call and this one makes progress.
pub(super) fn with_progress<R: Send>(call: impl FnOnce() -> R + Send) -> R {
    if !is_polled() {
        return call();
    }
    thread::scope(|scope| {
        let calling = scope.spawn(call);
        while !calling.is_finished() {
            thread::sleep(nap());
        }
        calling.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Makes progress. Says for how long there is nothing more to do.
fn nap() -> Duration {
    if poll_all() > 0 { Duration::ZERO } else { NAP }
}
