//! Connections whose bytes are sealed: what stands between their frames and the socket.
//!
//! What goes out is copied into records and sealed there, so many bytes at a time as the
//! processor's cache holds, and given to the lane from there. What comes in is opened
//! where it was received, and the contents of records are put together there, so frames are
//! read as those of other connections are. Bytes of a chunk are copied from there to their
//! place: memory of the client never has bytes that nobody has vouched for.
//!
//! Invariants:
//! - What was sealed goes to the socket whole and in its order.
//! - Of what has come and cannot be opened yet no more is kept than one record.

use super::handshake::{Cipher, Opener, PLAIN_BYTES_MAX, RECORD_BYTES_MAX, Sealer};
use super::lane::Lane;
use super::{BUFFER_BYTES, Entry, Net, Place, Reading};
use crate::faults;
use std::io;

/// Bytes that are sealed in one go.
const SEAL_BYTES_MAX: usize = 4 * PLAIN_BYTES_MAX;

const _: () = assert!(RECORD_BYTES_MAX < BUFFER_BYTES, "what is kept leaves room for the rest");

/// What goes out.
#[derive(Debug)]
pub(super) struct Sealing {
    sealer: Sealer,
    /// Records, and how much of them the socket has taken.
    bytes: Vec<u8>,
    given: usize,
}

/// What comes in.
#[derive(Debug)]
pub(super) struct Unsealing {
    opener: Opener,
    /// The beginning of a record whose rest has not come.
    rest: Vec<u8>,
}

/// Both, of a connection behind whose handshake `rest` has come.
pub(super) fn both(cipher: Cipher, rest: &[u8]) -> (Box<Sealing>, Box<Unsealing>) {
    let Cipher { sealer, opener } = cipher;
    let out = Sealing { sealer, bytes: Vec::new(), given: 0 };
    (Box::new(out), Box::new(Unsealing { opener, rest: rest.to_vec() }))
}

impl Sealing {
    /// Seals what these pieces of memory hold, or as much as goes at once. Says how many
    /// bytes that is. All that was sealed before has been given to the socket.
    ///
    /// # Errors
    /// `EFAULT`, as a socket says it, if some of that cannot be read; then nothing is sealed.
    ///
    /// # Safety
    /// The pieces are of this process, or of its client, who lets them be read.
    pub(super) unsafe fn seal(&mut self, pieces: &[Place]) -> io::Result<usize> {
        debug_assert_eq!(self.given, self.bytes.len(), "records go whole");
        self.bytes.clear();
        self.given = 0;
        if !first_bytes(pieces).all(|piece| piece.is_readable()) {
            return Err(io::Error::from_raw_os_error(libc::EFAULT));
        }
        let (mut taken, mut begun) = (0, None);
        for piece in first_bytes(pieces) {
            // SAFETY: it can be read, as was just found. Whoever has the memory may write it
            // meanwhile, as it may while the system reads it: it is copied first.
            let mut bytes = unsafe { std::slice::from_raw_parts(piece.at, piece.len) };
            while !bytes.is_empty() {
                let begin = *begun.get_or_insert_with(|| Sealer::begin(&mut self.bytes));
                let room = PLAIN_BYTES_MAX - (self.bytes.len() - begin);
                let (now, later) = bytes.split_at(bytes.len().min(room));
                self.bytes.extend_from_slice(now);
                (bytes, taken) = (later, taken + now.len());
                if now.len() == room {
                    self.sealer.end(&mut self.bytes, begin);
                    begun = None;
                }
            }
        }
        if let Some(begin) = begun {
            self.sealer.end(&mut self.bytes, begin);
        }
        Ok(taken)
    }

    /// Gives the lane what is sealed. Says whether that was all.
    ///
    /// # Errors
    /// The system's: the connection is broken.
    pub(super) fn flush(&mut self, lane: &mut Lane) -> io::Result<bool> {
        while self.given < self.bytes.len() {
            let left = Place::of(&self.bytes[self.given..]);
            // SAFETY: the records are this process's own.
            match unsafe { lane.send(&[left]) } {
                Ok(sent) => self.given += sent,
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(cause),
            }
        }
        Ok(true)
    }

    /// Whether the lane has all that was sealed.
    pub(super) fn is_given(&self) -> bool {
        self.given == self.bytes.len()
    }

    /// Gives memory back that is not used.
    pub(super) fn give_back(&mut self) {
        if self.is_given() {
            (self.bytes, self.given) = (Vec::new(), 0);
        }
    }

    /// Bytes of memory that its buffer takes.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

/// As much of some pieces as is sealed in one go.
fn first_bytes(pieces: &[Place]) -> impl Iterator<Item = Place> {
    let mut room = SEAL_BYTES_MAX;
    pieces.iter().map(move |piece| {
        let len = piece.len.min(room);
        room -= len;
        Place { at: piece.at, len }
    })
}

impl Unsealing {
    /// Bytes of a record whose rest has not come.
    pub(super) fn rest_bytes(&self) -> usize {
        self.rest.len()
    }

    /// Gives memory back that is not used.
    pub(super) fn give_back(&mut self) {
        if self.rest.is_empty() {
            self.rest = Vec::new();
        }
    }
}

impl Net {
    /// Takes in what a socket has, of a connection that is sealed.
    pub(super) fn receive_sealed(&mut self, entry: usize) {
        let Some(Entry::Conn(conn)) = self.entries.get_mut(entry) else { return };
        let Some(unsealing) = &mut conn.unsealing else { return };
        // In front is the beginning of a frame, then that of a record, then what comes.
        let (plain, rest) = (conn.partial.len(), unsealing.rest.len());
        let begin = plain + rest;
        if self.buffer.len() < begin + BUFFER_BYTES {
            self.buffer.resize(begin + BUFFER_BYTES, 0);
        }
        let behind = Place::of_mut(&mut self.buffer[begin..begin + BUFFER_BYTES]);
        // SAFETY: the buffer is this process's own.
        match unsafe { conn.lane.receive(&[behind]) } {
            Ok(0) => self.broke(entry, None),
            Ok(got) => {
                self.buffer[..plain].copy_from_slice(&conn.partial);
                self.buffer[plain..begin].copy_from_slice(&unsealing.rest);
                faults::on_sealed(&mut self.buffer[begin..begin + got]);
                conn.note_heard();
                if got == BUFFER_BYTES || conn.data.is_some() {
                    // There is more, most likely.
                    self.look_again(entry);
                }
                self.unseal(entry, plain, begin + got);
            }
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
                if conn.note_vain() {
                    self.cool(entry);
                }
            }
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {
                self.look_again(entry);
            }
            Err(cause) => self.broke(entry, Some(cause)),
        }
    }

    /// Reads what came on a sealed connection behind the handshake. False if it is none.
    pub(super) fn reread_sealed(&mut self, entry: usize) -> bool {
        let Some(Entry::Conn(conn)) = self.entries.get_mut(entry) else { return false };
        let Some(unsealing) = &conn.unsealing else { return false };
        let len = unsealing.rest.len();
        if self.buffer.len() < len {
            self.buffer.resize(len, 0);
        }
        self.buffer[..len].copy_from_slice(&unsealing.rest);
        self.unseal(entry, 0, len);
        true
    }

    /// Opens the records in the buffer from `plain` to `end`. What they hold is then read
    /// as frames, with what is before them; the beginning of one more stays.
    fn unseal(&mut self, entry: usize, plain: usize, end: usize) {
        let Some(Entry::Conn(conn)) = self.entries.get_mut(entry) else { return };
        let Some(unsealing) = &mut conn.unsealing else { return };
        let (mut at, mut to) = (plain, plain);
        loop {
            match unsealing.opener.open(&mut self.buffer[..end], at, to) {
                Ok(Some(record)) => (at, to) = (at + record.used, to + record.plain),
                Ok(None) => break,
                Err(why) => return self.altered(entry, &why),
            }
        }
        unsealing.rest.clear();
        unsealing.rest.extend_from_slice(&self.buffer[at..end]);
        if to > plain {
            conn.partial.clear();
            self.reading = Some(Reading { entry, at: 0, end: to });
        }
    }
}
