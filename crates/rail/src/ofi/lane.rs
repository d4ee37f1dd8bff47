//! A stream over an endpoint, with the TCP connection that it was opened by.

use super::answers::Answers;
use super::control::{Control, Read, Record};
use super::device::{Notice, SharedDevice};
use super::fetches::{Fetched, Whereabouts};
use super::message::Token;
use crate::net::Place;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use sluice_fabric::{BufferId, FabricError};
use sluice_wire::{Region, RemoteKey};
use std::collections::HashMap;
use std::io;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long what a peer has sent before its end is waited for.
const END_WAIT: Duration = Duration::from_secs(1);
/// The same for one that has ended without a word.
const SILENT_END_WAIT: Duration = Duration::from_millis(20);
/// Most keys of a peer whose memory's place is known.
const KNOWN_MAX: usize = 1024;
/// Chunks in a row that may fail to be read before a lane reads no more.
const FAILURES_MAX: u32 = 64;
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
    /// What the peer has answered on the connection.
    answers: Answers,
    /// When the connection ended, and how many messages were sent by then.
    ended: Option<Instant>,
    count: Option<u64>,
    has_said_end: bool,
    /// Where memory of the peer's is.
    known: HashMap<RemoteKey, Whereabouts>,
    /// Chunks in a row that could not be read.
    failures: u32,
    /// The process whose lane it is: a fork has none.
    pid: u32,
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
            answers: Answers::default(),
            ended: None,
            count: None,
            has_said_end: false,
            known: HashMap::new(),
            failures: 0,
            pid: std::process::id(),
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
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock && self.is_over() => Ok(0),
            got => got,
        }
    }

    /// Whether chunks are read by the device itself.
    pub(crate) fn reads_memory(&self) -> bool {
        self.failures < FAILURES_MAX && lock(&self.device).reads_memory
    }

    /// Where the peer's memory is that it has exposed under a key, if that is known.
    pub(crate) fn whereabouts(&self, key: RemoteKey) -> Option<Whereabouts> {
        self.known.get(&key).copied()
    }

    /// The peer has said where that is.
    pub(crate) fn learn(&mut self, key: RemoteKey, at: Whereabouts) {
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(key, at);
    }

    /// Reads a chunk.
    pub(crate) fn fetch(&mut self, chunk: u32, at: Whereabouts, len: u64) {
        lock(&self.device).fetch(self.stream, chunk, at, len);
    }

    /// What was read next.
    pub(crate) fn next_fetched(&mut self) -> Option<Fetched> {
        let next = lock(&self.device).next_fetched(self.stream);
        if matches!(next, Some(Fetched::Bytes { .. })) {
            self.failures = 0;
        }
        next
    }

    /// Copies it to its place, if it has one.
    ///
    /// # Safety
    /// The place is of this process, or of its client, and can be written.
    pub(crate) unsafe fn copy_out(&mut self, buffer: BufferId, to: Option<Place>) {
        // SAFETY: the caller's promise.
        unsafe { lock(&self.device).copy_out(buffer, to) };
    }

    /// What is exposed under a key could not be read: it is asked for anew.
    pub(crate) fn note_failure(&mut self, key: Option<RemoteKey>) {
        self.failures += 1;
        if let Some(key) = key {
            self.known.remove(&key);
        }
    }

    /// Has the peer read memory that is exposed to it. Says where that is.
    pub(crate) fn expose(&mut self, key: RemoteKey, region: Region) -> Option<Whereabouts> {
        lock(&self.device).expose(key, region)
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
                Read::Record(Record::Ask(number)) => self.control.say(Record::Answer(number)),
                Read::Record(Record::Answer(number)) => {
                    let heard = self.heard();
                    self.answers.answered(number, heard, Instant::now());
                }
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
        let heard = self.heard();
        let number = self.answers.ask(heard);
        self.control.say(Record::Ask(number));
    }

    /// Whether the peer answers on the connection, and not here. To be called now and then
    /// while it is silent.
    pub(crate) fn is_deaf(&mut self) -> bool {
        let heard = self.heard();
        if self.answers.is_due(heard, Instant::now()) {
            self.ask();
        }
        self.answers.is_deaf(heard)
    }

    fn heard(&self) -> u64 {
        lock(&self.device).link(self.stream).heard()
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
    /// In a fork another thread of the parent may hold the device for ever, and what is in it
    /// is the parent's.
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            return;
        }
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
