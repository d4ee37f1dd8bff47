//! Waiting for descriptors, with an end.

use std::io;
use std::time::Instant;

use rustix::event::{PollFd, Timespec};
use rustix::io::Errno;

/// Whether one of `fds` is ready before `until`. A signal does not end the wait.
pub(super) fn until_ready(fds: &mut [PollFd<'_>], until: Instant) -> io::Result<bool> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        match rustix::event::poll(fds, Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
