//! What carries the bytes of one connection: the socket.
//!
//! A connection ([`super::conn`]) owns frames: what goes, in which order, and what came in
//! part. A lane takes and gives bytes, in order, and knows nothing of what they are.

use super::{Place, sock};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::Shutdown;
use std::io;

/// Most looks at what a peer has sent, which nobody wants any more.
const LOOKS_MAX: usize = 1024;

/// See the module.
#[derive(Debug)]
pub(super) struct Lane {
    socket: OwnedFd,
}

impl Lane {
    /// A TCP connection.
    pub(super) fn tcp(socket: OwnedFd) -> Lane {
        Lane { socket }
    }

    /// Gives pieces of memory to the lane. Says how many bytes it has taken.
    ///
    /// # Errors
    /// The system's; `WouldBlock` if it takes nothing now.
    ///
    /// # Safety
    /// All bytes of the pieces can be read.
    pub(super) unsafe fn send(&mut self, pieces: &[Place]) -> io::Result<usize> {
        // SAFETY: the caller's promise.
        unsafe { sock::send(&self.socket, pieces) }
    }

    /// Receives into pieces of memory, one after the other. Zero is the end.
    ///
    /// # Errors
    /// The system's; `WouldBlock` if there is nothing now.
    ///
    /// # Safety
    /// All bytes of the pieces can be written, and nobody reads or writes them meanwhile.
    pub(super) unsafe fn receive(&mut self, pieces: &[Place]) -> io::Result<usize> {
        // SAFETY: the caller's promise.
        unsafe { sock::receive(&self.socket, pieces) }
    }

    /// Bytes given to it that the other side's host has not acknowledged.
    pub(super) fn waiting_bytes(&self) -> u64 {
        sock::unacknowledged_bytes(&self.socket) as u64
    }

    /// Whether the other side's host has acknowledged something in the last `fresh_ms`.
    pub(super) fn is_fresh(&self, fresh_ms: u32) -> bool {
        sock::health(&self.socket).is_some_and(|health| health.acknowledged_ms_ago <= fresh_ms)
    }

    /// Ends the connection such that what was sent arrives: the system drops that if there
    /// is something left to be read.
    pub(super) fn end(&self, scratch: &mut [u8]) {
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
        for _ in 0..LOOKS_MAX {
            // SAFETY: the buffer is this process's own.
            let got = unsafe { sock::receive(&self.socket, &[Place::of_mut(scratch)]) };
            if !got.is_ok_and(|got| got > 0) {
                break;
            }
        }
    }
}

/// What the system lists.
impl AsFd for Lane {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
