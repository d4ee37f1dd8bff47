//! What wakes a sleeping thread when something comes by the network.
//!
//! Threads sleep by the doorbell in shared memory, which peers on this host ring. Nobody
//! rings it for the network, so a thread of the library's own waits for that in their
//! place, and rings. It does so only once each time that somebody is about to sleep
//! ([`Watcher::arm`]); while all are awake it sleeps too. It is made when somebody sleeps
//! for the first time.
//!
//! Weighed: to sleep on the sockets and look at shared memory now and then, which delays
//! peers on this host; and an io_uring that waits for both, which many systems forbid.

use crate::shm::Doorbell;
use crate::signals::with_signals_blocked;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Far more than its calls take.
const STACK_BYTES: usize = 64 << 10;
const STOP: u64 = 0;
const NETWORK: u64 = 1;

/// See the module.
#[derive(Debug)]
pub(crate) struct Watcher {
    watched: Arc<Watched>,
    thread: Option<JoinHandle<()>>,
    /// The process that it is a thread of: a fork has none.
    pid: u32,
}

#[derive(Debug)]
struct Watched {
    outer: OwnedFd,
    /// The list of sockets that have something.
    network: OwnedFd,
    stop: OwnedFd,
}

impl Watcher {
    /// Begins to watch a list of sockets, on behalf of those who sleep by a doorbell.
    ///
    /// # Errors
    /// The system's, if it has no thread or descriptor to give.
    pub(crate) fn start(network: impl AsFd, doorbell: Doorbell) -> io::Result<Watcher> {
        let watched = Arc::new(Watched {
            outer: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            network: rustix::io::fcntl_dupfd_cloexec(network, 0)?,
            stop: eventfd(0, EventfdFlags::CLOEXEC)?,
        });
        let Watched { outer, network, stop } = &*watched;
        epoll::add(outer, stop, EventData::new_u64(STOP), EventFlags::IN)?;
        epoll::add(outer, network, EventData::new_u64(NETWORK), EventFlags::empty())?;
        let its = Arc::clone(&watched);
        let build = std::thread::Builder::new().name("sluice-net".into()).stack_size(STACK_BYTES);
        let thread = with_signals_blocked(|| build.spawn(move || its.run(&doorbell)))?;
        Ok(Watcher { watched, thread: Some(thread), pid: std::process::id() })
    }

    /// Somebody is about to sleep: what comes from now on, or has come and was not looked
    /// at, rings.
    pub(crate) fn arm(&self) {
        let Watched { outer, network, .. } = &*self.watched;
        let flags = EventFlags::IN | EventFlags::ONESHOT;
        // Where it fails the sleep ends by its deadline.
        let _ = epoll::modify(outer, network, EventData::new_u64(NETWORK), flags);
    }
}

impl Watched {
    fn run(&self, doorbell: &Doorbell) {
        let mut events = Vec::with_capacity(2);
        loop {
            events.clear();
            match epoll::wait(&self.outer, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            if events.iter().any(|event| event.data.u64() == STOP) {
                return;
            }
            if !events.is_empty() {
                doorbell.ring();
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.pid != std::process::id() {
            // There is no such thread here, not even to be let go.
            std::mem::forget(thread);
            return;
        }
        if rustix::io::write(&self.watched.stop, &1u64.to_ne_bytes()).is_ok() {
            // A panic of it has been reported.
            let _ = thread.join();
        }
    }
}
