//! A stream over an endpoint, with the TCP connection that it was opened by.

use super::control::{Control, Read, Record};
use super::device::{Notice, SharedDevice};
use super::message::Token;
use crate::net::Place;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use sluice_fabric::FabricError;
use std::io;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long what a peer has sent before its end is waited for.
const END_WAIT: Duration = Duration::from_secs(1);
/// The same for one that has ended without a word.
const SILENT_END_WAIT: Duration = Duration::from_millis(20);
/// Records that one look reads at most.
const RECORDS_MAX: usize = 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct Lane {
    device: SharedDevice,
    stream: usize,
    control: Control,
    /// Something may have come on the connection.
    is_due: bool,
    /// The peer knows the token.
    is_ready: bool,
    /// The peer has answered on the connection, so often since something came here.
    answers: u32,
    /// When the connection ended, and how many messages were sent by then.
    ended: Option<Instant>,
    count: Option<u64>,
    has_said_end: bool,
}

impl Lane {
    /// A lane to the peer whose endpoint has this name. `rest` has come on the connection.
    ///
    /// # Errors
    /// [`FabricError`] if the name is none of the provider's.
    pub(crate) fn open(
        device: SharedDevice,
        entry: usize,
        tokens: [Token; 2],
        name: &[u8],
        socket: OwnedFd,
        rest: &[u8],
    ) -> Result<Lane, FabricError> {
        let [own, peers] = tokens;
        let stream = lock(&device).add(entry, own, peers, name)?;
        let mut control = Control::new(socket, rest);
        control.say(Record::Ready);
        Ok(Lane {
            device,
            stream,
            control,
            is_due: true,
            is_ready: false,
            answers: 0,
            ended: None,
            count: None,
            has_said_end: false,
        })
    }

    /// Gives pieces of memory to the lane. Says how many bytes it has taken.
    ///
    /// # Errors
    /// `WouldBlock` if it takes nothing now.
    ///
    /// # Safety
    /// The pieces are of this process, or of its client.
    pub(crate) unsafe fn send(&mut self, pieces: &[Place]) -> io::Result<usize> {
        if !self.is_ready || self.has_said_end {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // SAFETY: the caller's promise.
        unsafe { lock(&self.device).send(self.stream, pieces) }
    }

    /// Receives into pieces of memory, one after the other. Zero is the end.
    ///
    /// # Errors
    /// `WouldBlock` if there is nothing now.
    ///
    /// # Safety
    /// The pieces are of this process, or of its client, who lets them be written.
    pub(crate) unsafe fn receive(&mut self, pieces: &[Place]) -> io::Result<usize> {
        self.read_control();
        // SAFETY: the caller's promise.
        let got = unsafe { lock(&self.device).receive(self.stream, pieces) };
        match got {
            Ok(got) => {
                self.answers = 0;
                Ok(got)
            }
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock && self.is_over() => Ok(0),
            Err(cause) => Err(cause),
        }
    }

    /// Whether nothing more comes.
    fn is_over(&self) -> bool {
        let Some(since) = self.ended else { return false };
        let has_all = match self.count {
            Some(count) => lock(&self.device).link(self.stream).come() == count,
            None => false,
        };
        let wait = if self.count.is_some() { END_WAIT } else { SILENT_END_WAIT };
        has_all || since.elapsed() >= wait
    }

    /// The system says that something has come on the connection.
    pub(crate) fn note_due(&mut self) {
        self.is_due = true;
    }

    fn read_control(&mut self) {
        if !self.is_due {
            return;
        }
        self.control.flush();
        for _ in 0..RECORDS_MAX {
            match self.control.read() {
                Read::Record(Record::Ready) => {
                    self.is_ready = true;
                    lock(&self.device).notice(self.stream, Notice::Room);
                }
                Read::Record(Record::Ask) => self.control.say(Record::Answer),
                Read::Record(Record::Answer) => self.answers = self.answers.saturating_add(1),
                Read::Record(Record::End(count)) => self.count = Some(count),
                Read::Nothing => {
                    self.is_due = false;
                    return;
                }
                Read::Ended => {
                    self.is_due = false;
                    if self.ended.is_none() {
                        self.ended = Some(Instant::now());
                        lock(&self.device).await_end(self.stream);
                    }
                    return;
                }
            }
        }
    }

    /// Asks the peer on the connection for a sign of life.
    pub(crate) fn ask(&mut self) {
        self.control.say(Record::Ask);
    }

    /// Whether the peer answers on the connection, and not here.
    pub(crate) fn is_deaf(&self) -> bool {
        self.answers > 0
    }

    /// Bytes that went and were not read.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        lock(&self.device).link(self.stream).waiting_bytes()
    }

    /// Nothing more goes.
    pub(crate) fn end(&mut self) {
        if !std::mem::replace(&mut self.has_said_end, true) {
            let count = lock(&self.device).link(self.stream).sent();
            self.control.end(count);
        }
    }

    /// Whether the peer has all that was sent, or has ended itself.
    pub(crate) fn is_drained(&mut self) -> bool {
        self.is_due = true;
        self.read_control();
        self.ended.is_some() || self.has_said_end && lock(&self.device).is_drained(self.stream)
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        lock(&self.device).remove(self.stream);
    }
}

/// What the system lists.
impl AsFd for Lane {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.control.socket.as_fd()
    }
}

/// A device, also after a panic: what it holds is checked where it is used.
pub(crate) fn lock(device: &SharedDevice) -> MutexGuard<'_, super::Device> {
    device.lock().unwrap_or_else(PoisonError::into_inner)
}
