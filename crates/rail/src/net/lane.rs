//! What carries the bytes of one connection: a TCP connection, or a stream over libfabric.
//!
//! A connection ([`super::conn`]) owns frames: what goes, in which order, and what came in
//! part. A lane takes and gives bytes, in order, and knows nothing of what they are.

use super::{Place, sock};
use crate::{faults, ofi};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{Shutdown, sockopt};
use std::io;
use std::time::Duration;

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
        let beginning;
        let pieces = match faults::on_send(self)? {
            Some(bytes) => {
                beginning = beginning_of(pieces, bytes);
                beginning.as_slice()
            }
            None => pieces,
        };
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
        let beginning;
        let pieces = match faults::on_receive(self)? {
            Some(bytes) => {
                beginning = beginning_of(pieces, bytes);
                beginning.as_slice()
            }
            None => pieces,
        };
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Lane::Tcp(socket) => sock::receive(socket, pieces),
                Lane::Fabric(lane) => lane.receive(pieces),
            }
        }
    }

    /// Whether it is worth receiving now: there is something, or it has ended, or that is not
    /// known.
    #[inline]
    pub(super) fn has_something(&self) -> bool {
        match self {
            Lane::Tcp(socket) => sock::has_something(socket),
            Lane::Fabric(_) => true,
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
    pub(super) fn is_fresh(&mut self, fresh_ms: u32) -> bool {
        let is_deaf = self.fabric().is_some_and(ofi::Lane::is_deaf);
        !is_deaf && sock::health(self).is_some_and(|health| health.acknowledged_ms_ago <= fresh_ms)
    }

    /// The peer is asked for a sign of life on the lane: also beside it.
    pub(super) fn ask(&mut self) {
        if let Lane::Fabric(lane) = self {
            lane.ask();
        }
    }

    /// So many bytes are to wake a thread that sleeps. False if the lane cannot do that: the
    /// first one wakes, or as many as before.
    pub(super) fn wake_from(&self, bytes: u32) -> bool {
        match self {
            Lane::Tcp(socket) => sock::set_wake_bytes(socket, bytes),
            Lane::Fabric(_) => false,
        }
    }

    /// The system says that something may have come.
    pub(super) fn note_due(&mut self) {
        if let Lane::Fabric(lane) = self {
            lane.note_due();
        }
    }

    /// Whether it is the connection itself.
    pub(super) fn is_tcp(&self) -> bool {
        matches!(self, Lane::Tcp(_))
    }

    /// The stream over libfabric, if it is one.
    pub(super) fn fabric(&mut self) -> Option<&mut ofi::Lane> {
        match self {
            Lane::Tcp(_) => None,
            Lane::Fabric(lane) => Some(lane),
        }
    }

    /// What was sent need not arrive any more: the system does not go on sending it after the
    /// end, nor looking for a host that it does not find.
    pub(super) fn give_up(&self) {
        if let Lane::Tcp(socket) = self {
            // One that cannot be told so ends as others do.
            let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
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

/// So many bytes of the first piece that has any.
#[cold]
fn beginning_of(pieces: &[Place], bytes: usize) -> [Place; 1] {
    let first = pieces.iter().find(|piece| piece.len > 0);
    [first.map_or(Place::NONE, |first| Place { at: first.at, len: first.len.min(bytes) })]
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
