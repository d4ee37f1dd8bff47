//! Reads of a peer's memory by the device itself, and memory that peers read so.
//!
//! The reader has the bytes come into buffers of this process's own, and copies them from
//! there. So a read may be given up at any time: the device never writes memory of the
//! client, which may be something else by then. On the other side there is no copy, and
//! nothing for the processor to do.
//!
//! Memory is registered when a peer first asks where it is, and closed before it may be
//! something else: a device that cannot close it is given up, with all that it holds.

use super::device::{Device, Notice};
use super::message::Token;
use crate::net::Place;
use rustix::rand::{GetRandomFlags, getrandom};
use sluice_fabric::{BUFFER_BYTES, Begun, BufferId};
use sluice_wire::{Region, RemoteKey};
use std::collections::VecDeque;
use std::ptr;

/// Most buffers of a lane that are being read into, or were and wait to be copied.
const PIECES_MAX: usize = 32;
/// Most pieces of memory that are registered at once: what is more is sent.
const EXPOSED_MAX: usize = 1024;

/// Where a device reads memory of a peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whereabouts {
    /// The provider's key.
    pub(crate) key: u64,
    /// Where the first byte is.
    pub(crate) base: u64,
}

/// What has come of a chunk that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fetched {
    /// Its next bytes, in a buffer that is to be handed back by [`Device::copy_out`].
    Bytes {
        /// Which chunk.
        chunk: u32,
        /// Where they are.
        buffer: BufferId,
        /// How many.
        len: usize,
    },
    /// It cannot be read.
    Failed {
        /// Which chunk.
        chunk: u32,
    },
}

/// What a lane reads.
#[derive(Debug, Default)]
pub(super) struct Fetches {
    /// What is to be read, in order: chunk, where, length.
    wanted: VecDeque<Want>,
    /// What is being read, in the same order.
    pieces: VecDeque<Piece>,
}

#[derive(Clone, Copy, Debug)]
struct Want {
    chunk: u32,
    at: Whereabouts,
    len: u64,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    chunk: u32,
    buffer: BufferId,
    len: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Coming,
    Here,
    Failed,
    /// Its chunk has failed before it.
    Dropped,
}

/// A read that the provider has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    token: Token,
    pub(super) peer: usize,
}

impl Fetches {
    /// Whether a chunk is being read.
    fn has(&self, chunk: u32) -> bool {
        self.wanted.iter().any(|want| want.chunk == chunk)
            || self.pieces.iter().any(|piece| piece.chunk == chunk)
    }

    /// Whether more can be read now.
    fn has_room(&self) -> bool {
        !self.wanted.is_empty() && self.pieces.len() < PIECES_MAX
    }

    /// Buffers that nobody reads into any more, of a lane that ends.
    pub(super) fn here(&self) -> impl Iterator<Item = BufferId> {
        let here = self.pieces.iter().filter(|piece| piece.state == State::Here);
        here.map(|piece| piece.buffer)
    }

    /// A read has ended. Says whether its buffer is kept.
    fn ended(&mut self, buffer: BufferId, has_failed: bool) -> bool {
        // The buffer of a piece that has failed may be another's by now.
        let is_read = |piece: &Piece| matches!(piece.state, State::Coming | State::Dropped);
        let mut pieces = self.pieces.iter();
        let Some(at) = pieces.position(|piece| piece.buffer == buffer && is_read(piece)) else {
            return false;
        };
        let piece = &mut self.pieces[at];
        if piece.state == State::Dropped {
            self.pieces.remove(at);
            return false;
        }
        piece.state = if has_failed { State::Failed } else { State::Here };
        !has_failed
    }

    /// What has come next. A chunk that has failed is told of once, and buffers with more
    /// of it are added to `unused`.
    fn next(&mut self, unused: &mut Vec<BufferId>) -> Option<Fetched> {
        let at = self.pieces.iter().position(|piece| piece.state != State::Dropped)?;
        let Piece { chunk, buffer, len, state } = self.pieces[at];
        match state {
            State::Coming | State::Dropped => None,
            State::Here => {
                self.pieces.remove(at);
                Some(Fetched::Bytes { chunk, buffer, len })
            }
            State::Failed => {
                self.wanted.retain(|want| want.chunk != chunk);
                self.pieces.retain_mut(|piece| {
                    if piece.chunk != chunk {
                        return true;
                    }
                    if piece.state == State::Here {
                        unused.push(piece.buffer);
                    }
                    let is_kept = matches!(piece.state, State::Coming | State::Dropped);
                    piece.state = State::Dropped;
                    is_kept
                });
                Some(Fetched::Failed { chunk })
            }
        }
    }
}

/// Reading.
impl Device {
    /// Reads a chunk, unless that is being done.
    pub(super) fn fetch(&mut self, stream: usize, chunk: u32, at: Whereabouts, len: u64) {
        let fetches = &mut self.streams[stream].fetches;
        if !fetches.has(chunk) {
            fetches.wanted.push_back(Want { chunk, at, len });
            self.begin_reads(stream);
        }
    }

    /// Begins to read what there is room for.
    pub(super) fn begin_reads(&mut self, stream: usize) {
        while let known = &self.streams[stream]
            && known.fetches.has_room()
            && let Some(&Want { chunk, at, len }) = known.fetches.wanted.front()
        {
            let (token, peer) = (known.link.own_token, known.peer);
            let Ok(buffer) = self.endpoint.take() else { return self.stall(stream) };
            let part = len.min(BUFFER_BYTES as u64);
            let from = self.peers[peer].peer;
            let begun = self.endpoint.read(buffer, part as usize, from, at.base, at.key);
            if begun != Ok(Begun::Yes) {
                self.endpoint.give_back(buffer);
            }
            let state = match begun {
                Ok(Begun::Later) => return self.stall(stream),
                Ok(Begun::Yes) => {
                    self.peers[peer].users += 1;
                    self.reads.insert(buffer, Reading { token, peer });
                    State::Coming
                }
                Err(_) => State::Failed,
            };
            let fetches = &mut self.streams[stream].fetches;
            fetches.pieces.push_back(Piece { chunk, buffer, len: part as usize, state });
            match fetches.wanted.front_mut() {
                Some(want) if want.len > part => {
                    want.len -= part;
                    want.at.base = want.at.base.wrapping_add(part);
                }
                _ => drop(fetches.wanted.pop_front()),
            }
            if state == State::Failed {
                return self.notice(stream, Notice::Came);
            }
        }
    }

    /// The provider takes no read of a lane now: at the next look perhaps.
    fn stall(&mut self, stream: usize) {
        if !self.stalled.contains(&stream) {
            self.stalled.push(stream);
        }
    }

    /// A read has ended, of a lane that may be no more.
    pub(super) fn read_ended(&mut self, buffer: BufferId, reading: Reading, has_failed: bool) {
        let stream = self.tokens.get(&reading.token).copied();
        let is_kept = stream.is_some_and(|at| self.streams[at].fetches.ended(buffer, has_failed));
        if !is_kept {
            self.endpoint.give_back(buffer);
        }
        if let Some(stream) = stream {
            if !has_failed {
                self.streams[stream].link.note_heard();
            }
            self.notice(stream, Notice::Came);
        }
        self.let_go(reading.peer);
    }

    /// What was read next.
    pub(super) fn next_fetched(&mut self, stream: usize) -> Option<Fetched> {
        let mut unused = Vec::new();
        let next = self.streams[stream].fetches.next(&mut unused);
        unused.into_iter().for_each(|buffer| self.endpoint.give_back(buffer));
        if next.is_none() {
            self.begin_reads(stream);
        }
        next
    }

    /// Copies what was read to its place, which may be of none of it, and has the buffer back.
    ///
    /// # Safety
    /// The place is of this process, or of its client, and can be written.
    pub(super) unsafe fn copy_out(&mut self, buffer: BufferId, to: Option<Place>) {
        if let Some(to) = to {
            let bytes = self.endpoint.bytes(buffer);
            // SAFETY: the caller's promise; the source has what is copied of it.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to.at, to.len.min(bytes.len())) };
        }
        self.endpoint.give_back(buffer);
    }
}

/// Being read.
impl Device {
    /// Has peers read memory that is exposed under a key. Says where it is for them; `None`
    /// if it cannot be so: then it is sent.
    pub(crate) fn expose(&mut self, key: RemoteKey, region: Region) -> Option<Whereabouts> {
        if let Some(known) = self.exposed.get(&key) {
            return Some(Whereabouts { key: known.key, base: known.base });
        }
        if self.exposed.len() >= EXPOSED_MAX || self.is_broken || !self.reads_memory {
            return None;
        }
        let mut bits = [0; 8];
        if getrandom(&mut bits, GetRandomFlags::empty()) != Ok(bits.len()) {
            return None;
        }
        let at = ptr::with_exposed_provenance_mut(region.addr.0 as usize);
        let len = usize::try_from(region.len).ok()?;
        // SAFETY: the client exposes the memory until it revokes the key, when it is closed.
        let registered =
            unsafe { self.endpoint.register(at, len, u64::from_le_bytes(bits)) }.ok()?;
        let found = Whereabouts { key: registered.key, base: registered.base };
        self.exposed.insert(key, registered);
        Some(found)
    }

    /// Ends that, before the memory may be something else.
    pub(crate) fn withdraw(&mut self, key: RemoteKey) {
        let Some(registered) = self.exposed.remove(&key) else { return };
        if let Err(why) = self.endpoint.unregister(registered)
            && !self.is_broken
        {
            self.break_all(&why);
        }
    }

    /// The same of all.
    pub(super) fn withdraw_all(&mut self) {
        for (_, registered) in self.exposed.drain() {
            // What stays open ends with the endpoint.
            let _ = self.endpoint.unregister(registered);
        }
    }
}

/// A domain is closed when nothing is registered with it.
impl Drop for Device {
    fn drop(&mut self) {
        self.withdraw_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetches(buffers: &[BufferId], chunks: &[u32]) -> Fetches {
        let piece = |(&buffer, &chunk)| Piece { chunk, buffer, len: 1, state: State::Coming };
        let pieces = buffers.iter().zip(chunks).map(piece).collect();
        Fetches { wanted: VecDeque::new(), pieces }
    }

    fn buffers(count: usize) -> Option<Vec<BufferId>> {
        let mut device = crate::ofi::tests::device()?;
        Some((0..count).map(|_| device.endpoint.take().unwrap()).collect())
    }

    /// In whatever order reads end, what they have brought is told in that of the chunks.
    #[test]
    fn what_was_read_is_told_in_order_and_a_failure_once() {
        let Some(buffers) = buffers(4) else { return };
        let mut fetches = fetches(&buffers, &[1, 1, 1, 2]);
        let mut unused = Vec::new();
        assert!(fetches.ended(buffers[3], false) && fetches.ended(buffers[2], false));
        assert_eq!(fetches.next(&mut unused), None);
        assert!(fetches.ended(buffers[0], false));
        let first = Fetched::Bytes { chunk: 1, buffer: buffers[0], len: 1 };
        assert_eq!(fetches.next(&mut unused), Some(first));
        assert!(!fetches.ended(buffers[1], true));
        assert_eq!(fetches.next(&mut unused), Some(Fetched::Failed { chunk: 1 }));
        assert_eq!(unused, [buffers[2]]);
        let last = Fetched::Bytes { chunk: 2, buffer: buffers[3], len: 1 };
        assert_eq!(fetches.next(&mut unused), Some(last));
        assert_eq!(fetches.next(&mut unused), None);
        assert!(fetches.pieces.is_empty() && unused.len() == 1);
    }

    /// The buffer of a piece that has failed is given back before the failure is told.
    #[test]
    fn a_buffer_that_is_used_again_is_of_the_piece_that_is_read() {
        let Some(buffers) = buffers(2) else { return };
        let mut fetches = fetches(&buffers, &[1, 1]);
        let mut unused = Vec::new();
        assert!(!fetches.ended(buffers[1], true));
        let again = Piece { chunk: 2, buffer: buffers[1], len: 1, state: State::Coming };
        fetches.pieces.push_back(again);
        assert!(fetches.ended(buffers[1], false) && fetches.ended(buffers[0], false));
        let first = Fetched::Bytes { chunk: 1, buffer: buffers[0], len: 1 };
        assert_eq!(fetches.next(&mut unused), Some(first));
        assert_eq!(fetches.next(&mut unused), Some(Fetched::Failed { chunk: 1 }));
        let last = Fetched::Bytes { chunk: 2, buffer: buffers[1], len: 1 };
        assert_eq!(fetches.next(&mut unused), Some(last));
        assert!(fetches.pieces.is_empty() && unused.is_empty());
    }

    /// What is still under way of a chunk that has failed is dropped when it comes.
    #[test]
    fn what_comes_late_of_a_chunk_that_has_failed_is_dropped() {
        let Some(buffers) = buffers(2) else { return };
        let mut fetches = fetches(&buffers, &[1, 1]);
        let mut unused = Vec::new();
        assert!(!fetches.ended(buffers[0], true));
        assert_eq!(fetches.next(&mut unused), Some(Fetched::Failed { chunk: 1 }));
        assert_eq!(fetches.next(&mut unused), None);
        assert!(!fetches.ended(buffers[1], false), "its buffer is not kept");
        assert!(fetches.pieces.is_empty() && unused.is_empty());
    }
}
