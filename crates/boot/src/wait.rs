//! Waiting for the job, with an end.
//!
//! Others may be unable to come before this process has answered them: so where
//! no thread makes progress, every wait here does.

use rustix::event::{PollFd, Timespec};
use rustix::io::Errno;
use std::io;
use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at what has arrived, where a wait makes progress.
const NAP: Duration = Duration::from_micros(50);

/// How this process waits for the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    /// The longest that one answer may take.
    pub timeout: Duration,
    /// Takes in what has arrived for this process, and says how much there was; for a
    /// process where nobody else does.
    pub poll: Option<fn() -> usize>,
}

impl Waits {
    /// Whether one of `fds` is ready before `until`. A signal does not end the wait.
    pub fn until_ready(self, fds: &mut [PollFd<'_>], until: Instant) -> io::Result<bool> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let nap = self.poll.map_or(left, |poll| nap(poll).min(left));
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
    pub fn with_progress<R: Send>(self, call: impl FnOnce() -> R + Send) -> R {
        let Some(poll) = self.poll else { return call() };
        thread::scope(|scope| {
            let calling = scope.spawn(call);
            while !calling.is_finished() {
                thread::sleep(nap(poll));
            }
            calling.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }
}

/// Makes progress. Says for how long there is nothing more to do.
fn nap(poll: fn() -> usize) -> Duration {
    if poll() > 0 { Duration::ZERO } else { NAP }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::PollFlags;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// What is left of the polls that the other side waits for.
    static LEFT: AtomicUsize = AtomicUsize::new(0);

    fn poll() -> usize {
        let left = LEFT.load(Ordering::SeqCst);
        LEFT.store(left.saturating_sub(1), Ordering::SeqCst);
        left
    }

    /// The other side answers after a thousand polls, which only the wait can make.
    #[test]
    fn a_wait_makes_progress_where_nobody_else_does() {
        let waits = Waits { timeout: Duration::from_secs(60), poll: Some(poll) };
        LEFT.store(1000, Ordering::SeqCst);
        let answered = waits.with_progress(|| {
            while LEFT.load(Ordering::SeqCst) > 0 {
                thread::yield_now();
            }
            7
        });
        assert_eq!(answered, 7);
        LEFT.store(1000, Ordering::SeqCst);
        let (reader, writer) = std::io::pipe().unwrap();
        thread::scope(|scope| {
            scope.spawn(move || {
                while LEFT.load(Ordering::SeqCst) > 0 {
                    thread::yield_now();
                }
                drop(writer);
            });
            let mut fds = [PollFd::new(&reader, PollFlags::IN)];
            let ready = waits.until_ready(&mut fds, Instant::now() + waits.timeout);
            assert!(ready.unwrap());
        });
    }
}
