//! Reads of a peer's memory by the device itself.
//!
//! The reader has the bytes come into buffers of this process's own, and copies them from
//! there. So a read may be given up at any time: the device never writes memory of the
//! client, which may be something else by then. On the other side there is no copy, and
//! nothing for the processor to do ([`super::exposed`]).

use super::super::fetches::{Fetched, Piece, Reading, State, Want, Whereabouts};
use super::{Device, Notice};
use crate::net::Place;
use sluice_fabric::{BUFFER_BYTES, Begun, BufferId};
use std::ptr;

impl Device {
    /// Reads a chunk, unless that is being done.
    pub(in crate::ofi) fn fetch(&mut self, stream: usize, chunk: u32, at: Whereabouts, len: u64) {
        let fetches = &mut self.streams[stream].fetches;
        if !fetches.has(chunk) {
            fetches.wanted.push_back(Want { chunk, at, len });
            self.begin_reads(stream);
        }
    }

    /// Begins to read what there is room for.
    pub(in crate::ofi) fn begin_reads(&mut self, stream: usize) {
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
    pub(in crate::ofi) fn read_ended(
        &mut self,
        buffer: BufferId,
        reading: Reading,
        has_failed: bool,
    ) {
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
    pub(in crate::ofi) fn next_fetched(&mut self, stream: usize) -> Option<Fetched> {
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
    pub(in crate::ofi) unsafe fn copy_out(&mut self, buffer: BufferId, to: Option<Place>) {
        if let Some(to) = to {
            let bytes = self.endpoint.bytes(buffer);
            // SAFETY: the caller's promise; the source has what is copied of it.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to.at, to.len.min(bytes.len())) };
        }
        self.endpoint.give_back(buffer);
    }
}
