//! Whether a peer still lives.
//!
//! By a pidfd where there is one, which no reuse of the pid can fool; else by
//! the start time in `/proc`; across pid namespaces, where a pid says nothing,
//! by the lock that a mailbox file's owner holds.

use super::backing::open_peer;
use super::card::Card;
use super::identity::stat_of;
use super::kept_fd::KeptFd;
use crate::shortage::is_shortage;
use rustix::fd::AsRawFd;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::path::Path;

/// A hold on one process that tells whether it has ended.
#[derive(Debug)]
pub(super) enum Watch {
    /// This process.
    Own,
    /// Readable once the process has ended. Then `/proc` is asked as well: a
    /// program that closes all descriptors, to make others of them, has lost this
    /// one, and the process that it was of lives.
    Pidfd(KeptFd),
    /// No pidfd to be had.
    Stat,
    /// Another pid namespace: its segment file, which it keeps locked.
    Lock(KeptFd),
}

impl Watch {
    /// Starts to watch the process of `card`. `None`: it has ended.
    ///
    /// # Errors
    /// This process lacks something, so nothing is known of that one.
    pub(super) fn new(
        card: &Card,
        own: &Card,
        uid: u32,
        shm_dir: &Path,
    ) -> io::Result<Option<Watch>> {
        if card.pid_ns != own.pid_ns {
            return match open_peer(card, uid, shm_dir) {
                Ok((fd, _)) => Ok(Some(Watch::Lock(fd.into()))),
                Err(cause) if is_shortage(&cause) => Err(cause),
                Err(_) => Ok(None),
            };
        }
        if card.pid == own.pid && card.start_time == own.start_time {
            return Ok(Some(Watch::Own));
        }
        let Some(pid) = i32::try_from(card.pid).ok().and_then(Pid::from_raw) else {
            return Ok(None);
        };
        let watch = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => Watch::Pidfd(fd.into()),
            Err(Errno::SRCH) => return Ok(None),
            Err(_) => Watch::Stat,
        };
        // The pidfd is of whoever has the pid now; the start time tells whether
        // that is the process meant. An unreadable /proc is given the benefit
        // of the doubt: what this process lacks says nothing about that one.
        Ok(match (stat_of(card.pid), &watch) {
            (Ok(stat), _) if stat.start_time != card.start_time || stat.ended => None,
            (Err(cause), Watch::Stat) if says_nobody(&cause) => None,
            _ => Some(watch),
        })
    }

    /// Whether the process of `card`, which this was made for, has ended.
    pub(super) fn has_ended(&self, card: &Card) -> bool {
        match self {
            Watch::Own => false,
            Watch::Pidfd(fd) => {
                let mut polled = [pollfd(fd)];
                poll_now(&mut polled);
                polled[0].revents != 0 && has_ended_by_stat(card)
            }
            Watch::Stat => has_ended_by_stat(card),
            Watch::Lock(fd) => {
                if rustix::fs::flock(fd, FlockOperation::NonBlockingLockShared).is_err() {
                    return false;
                }
                let _ = rustix::fs::flock(fd, FlockOperation::Unlock);
                true
            }
        }
    }

    /// For asking about many at once.
    pub(super) fn pidfd(&self) -> Option<libc::pollfd> {
        match self {
            Watch::Pidfd(fd) => Some(pollfd(fd)),
            _ => None,
        }
    }
}

/// Whether `/proc` says that the process of `card`, of this pid namespace, has ended.
pub(super) fn has_ended_by_stat(card: &Card) -> bool {
    match stat_of(card.pid) {
        Ok(stat) => stat.ended || stat.start_time != card.start_time,
        Err(cause) => says_nobody(&cause),
    }
}

/// Whether a look into `/proc` failed because there is no such process.
fn says_nobody(cause: &io::Error) -> bool {
    cause.kind() == io::ErrorKind::NotFound || cause.raw_os_error() == Some(libc::ESRCH)
}

fn pollfd(fd: &KeptFd) -> libc::pollfd {
    libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }
}

/// Fills in what is ready now; leaves everything at not ready if it cannot.
pub(super) fn poll_now(polled: &mut [libc::pollfd]) {
    let count = polled.len() as libc::nfds_t;
    // SAFETY: the slice is valid for its length, and the call returns at once.
    let ready = unsafe { libc::poll(polled.as_mut_ptr(), count, 0) };
    if ready <= 0 {
        for one in polled {
            one.revents = 0;
        }
    }
}

/// Whether no process has this pid any more.
pub(super) fn pid_is_free(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return true };
    rustix::process::test_kill_process(pid) == Err(Errno::SRCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::card::{Card, Place, card_of};
    use crate::shm::identity::Identity;
    use std::process::Command;

    fn card(pid: u32, start_time: u64) -> Card {
        let own = Identity { pid, start_time, ..Identity::of_this_process().unwrap() };
        card_of(&own, [1; 32], Place::Memfd { fd: 0 }, 0, 0)
    }

    #[test]
    fn the_end_of_a_process_is_seen_and_its_pid_not_mistaken() {
        let dir = Path::new("/dev/shm");
        let own = Identity::of_this_process().unwrap();
        let uid = own.uid;
        let own = card(own.pid, own.start_time);
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let start_time = stat_of(child.id()).unwrap().start_time;
        let other = card(child.id(), start_time);
        let null = rustix::fd::OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let by_another = Watch::Pidfd(null.into());
        let by_pidfd = Watch::new(&other, &own, uid, dir).unwrap().unwrap();
        assert!(!by_pidfd.has_ended(&other) && !Watch::Stat.has_ended(&other));
        assert!(!by_another.has_ended(&other), "what is readable is no pidfd any more");
        assert!(Watch::new(&card(child.id(), start_time + 1), &own, uid, dir).unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        for watch in [by_pidfd, Watch::Stat, by_another] {
            assert!(watch.has_ended(&other), "{watch:?}");
        }
        assert!(Watch::new(&other, &own, uid, dir).unwrap().is_none());
        assert!(pid_is_free(child.id()));
        assert!(!Watch::new(&own, &own, uid, dir).unwrap().unwrap().has_ended(&own));
    }
}
