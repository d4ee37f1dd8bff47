//! Waiting for the job, with an end.
//!
//! Others may be unable to come before this process has answered them: so where
//! no thread makes progress, every wait here does. Whether one does is asked each
//! time, since it may be that there is no thread to be had.

use rustix::event::{PollFd, Timespec};
use rustix::io::Errno;
use std::io;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// Between two looks at what has arrived, where a wait makes progress.
const NAP: Duration = Duration::from_micros(50);
/// Between two looks whether it has to.
const LOOK: Duration = Duration::from_millis(20);

/// Takes in what has arrived for this process, and says how much there was; `None` if
/// somebody else does.
pub type Poll = fn() -> Option<usize>;

/// How this process waits for the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    /// The longest that one answer may take.
    pub timeout: Duration,
    /// For a process where nobody else may take in what arrives.
    pub poll: Option<Poll>,
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

    /// Makes a call that waits in a library of others. Where no thread makes progress, a
    /// thread makes the call and this one makes progress; if there is none for that either,
    /// the call makes none.
    pub fn with_progress<R: Send>(self, call: impl FnOnce() -> R + Send) -> R {
        let Some(poll) = self.poll.filter(|poll| poll().is_some()) else { return call() };
        let call = Mutex::new(Some(call));
        let take = || call.lock().unwrap_or_else(PoisonError::into_inner).take();
        let make = || take().map(|call| call());
        let made = thread::scope(|scope| {
            let calling: ScopedJoinHandle<'_, Option<R>> =
                thread::Builder::new().spawn_scoped(scope, make).ok()?;
            while !calling.is_finished() {
                thread::sleep(nap(poll));
            }
            calling.join().unwrap_or_else(|panic| resume_unwind(panic))
        });
        made.or_else(|| take().map(|call| call())).expect("one of both has made the call")
    }
}

/// Makes progress. Says for how long there is nothing more to do.
fn nap(poll: Poll) -> Duration {
    match poll() {
        Some(0) => NAP,
        Some(_) => Duration::ZERO,
        None => LOOK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::PollFlags;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// What is left of the polls that the other side waits for.
    static LEFT: AtomicUsize = AtomicUsize::new(0);

    fn poll() -> Option<usize> {
        let left = LEFT.load(Ordering::SeqCst);
        LEFT.store(left.saturating_sub(1), Ordering::SeqCst);
        Some(left)
    }

    /// Who asks for no polls waits as if nothing could be asked of it.
    #[test]
    fn a_wait_makes_no_progress_where_somebody_else_does() {
        let waits = Waits { timeout: Duration::from_millis(50), poll: Some(|| None) };
        let here = thread::current().id();
        assert_eq!(waits.with_progress(|| thread::current().id()), here);
        let (reader, _writer) = std::io::pipe().unwrap();
        let mut fds = [PollFd::new(&reader, PollFlags::IN)];
        assert!(!waits.until_ready(&mut fds, Instant::now() + waits.timeout).unwrap());
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
