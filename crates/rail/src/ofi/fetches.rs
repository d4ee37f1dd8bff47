//! What a lane reads of a peer's memory by the device itself: which chunks are wanted, which
//! pieces of them come, and in which order they are told. [`super::device`] does it.

use super::message::Token;
use sluice_fabric::BufferId;
use std::collections::VecDeque;

/// Most buffers of a lane that are being read into, or were and wait to be copied.
const PIECES_MAX: usize = 32;

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
    /// Its next bytes, in a buffer that is to be handed back when it was copied.
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
    pub(super) wanted: VecDeque<Want>,
    /// What is being read, in the same order.
    pub(super) pieces: VecDeque<Piece>,
}

/// A chunk, or the rest of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want {
    pub(super) chunk: u32,
    pub(super) at: Whereabouts,
    pub(super) len: u64,
}

/// What one buffer brings of a chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) chunk: u32,
    pub(super) buffer: BufferId,
    pub(super) len: usize,
    pub(super) state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Coming,
    Here,
    Failed,
    /// Its chunk has failed before it.
    Dropped,
}

/// A read that the provider has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) token: Token,
    pub(super) peer: usize,
}

impl Fetches {
    /// Whether a chunk is being read.
    pub(super) fn has(&self, chunk: u32) -> bool {
        self.wanted.iter().any(|want| want.chunk == chunk)
            || self.pieces.iter().any(|piece| piece.chunk == chunk)
    }

    /// Whether more can be read now.
    pub(super) fn has_room(&self) -> bool {
        !self.wanted.is_empty() && self.pieces.len() < PIECES_MAX
    }

    /// Buffers that nobody reads into any more, of a lane that ends.
    pub(super) fn here(&self) -> impl Iterator<Item = BufferId> {
        let here = self.pieces.iter().filter(|piece| piece.state == State::Here);
        here.map(|piece| piece.buffer)
    }

    /// A read has ended. Says whether its buffer is kept.
    pub(super) fn ended(&mut self, buffer: BufferId, has_failed: bool) -> bool {
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
    pub(super) fn next(&mut self, unused: &mut Vec<BufferId>) -> Option<Fetched> {
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
