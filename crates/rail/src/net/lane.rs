//! What carries the bytes of one connection: a TCP connection, or a stream over libfabric.
//!
//! A connection ([`super::conn`]) owns frames: what goes, in which order, and what came in
//! part. A lane takes and gives bytes, in order, and knows nothing of what they are.

use super::{Place, sock};
use crate::ofi;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::Shutdown;
use std::io;

/// Most looks at what a peer has sent, which nobody wants any more.
const LOOKS_MAX: usize = 1024;

/// See the module.
#[derive(Debug)]
pub(super) enum Lane {
    /// The connection itself.
    Tcp(OwnedFd),
    /// A stream over libfabric, which was opened by a connection.
    Fabric(Box<ofi::Lane>),
}

impl Lane {
    /// Gives pieces of memory to the lane. Says how many bytes it has taken.
    ///
    /// # Errors
    /// The system's; `WouldBlock` if it takes nothing now.
    ///
    /// # Safety
    /// All bytes of the pieces can be read.
    pub(super) unsafe fn send(&mut self, pieces: &[Place]) -> io::Result<usize> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Lane::Tcp(socket) => sock::send(socket, pieces),
                Lane::Fabric(lane) => lane.send(pieces),
            }
        }
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
        unsafe {
            match self {
                Lane::Tcp(socket) => sock::receive(socket, pieces),
                Lane::Fabric(lane) => lane.receive(pieces),
            }
        }
    }

    /// Bytes given to it that the other side's host has not acknowledged.
    pub(super) fn waiting_bytes(&self) -> u64 {
        match self {
            Lane::Tcp(socket) => sock::unacknowledged_bytes(socket) as u64,
            Lane::Fabric(lane) => lane.waiting_bytes(),
        }
    }

    /// Whether the other side's host has acknowledged something in the last `fresh_ms`, and
    /// it is not the lane that is silent.
    pub(super) fn is_fresh(&self, fresh_ms: u32) -> bool {
        let is_deaf = matches!(self, Lane::Fabric(lane) if lane.is_deaf());
        !is_deaf && sock::health(self).is_some_and(|health| health.acknowledged_ms_ago <= fresh_ms)
    }

    /// The peer is asked for a sign of life on the lane: also beside it.
    pub(super) fn ask(&mut self) {
        if let Lane::Fabric(lane) = self {
            lane.ask();
        }
    }

    /// The system says that something may have come.
    pub(super) fn note_due(&mut self) {
        if let Lane::Fabric(lane) = self {
            lane.note_due();
        }
    }

    /// The stream over libfabric, if it is one.
    pub(super) fn fabric(&mut self) -> Option<&mut ofi::Lane> {
        match self {
            Lane::Tcp(_) => None,
            Lane::Fabric(lane) => Some(lane),
        }
    }

    /// Ends the connection such that what was sent arrives: the system drops that if there
    /// is something left to be read.
    pub(super) fn end(&mut self, scratch: &mut [u8]) {
        let socket = match self {
            Lane::Tcp(socket) => socket,
            Lane::Fabric(lane) => return lane.end(),
        };
        let _ = rustix::net::shutdown(&socket, Shutdown::Write);
        for _ in 0..LOOKS_MAX {
            // SAFETY: the buffer is this process's own.
            let got = unsafe { sock::receive(socket, &[Place::of_mut(scratch)]) };
            if !got.is_ok_and(|got| got > 0) {
                break;
            }
        }
    }
}

/// What the system lists.
impl AsFd for Lane {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Lane::Tcp(socket) => socket.as_fd(),
            Lane::Fabric(lane) => lane.as_fd(),
        }
    }
}
