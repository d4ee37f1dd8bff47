//! A chunk that a peer has asked for, on its way into the socket.

use super::Place;
use sluice_wire::frame::{FRAME_HEAD_BYTES, FrameHead, FrameKind};
use sluice_wire::{Addr, Region, RemoteKey};
use std::ptr;

/// Bytes of zero that go in place of memory that is no more exposed.
static ZEROES: [u8; 16 << 10] = [0; 16 << 10];
/// Least bytes of a chunk in one frame, but for the last.
const FRAME_BYTES_MIN: usize = 16 << 10;

/// A chunk that the peer has asked for. It goes in one frame or several: what goes in one
/// is as much as the socket may have now, so that other frames can go between.
#[derive(Debug)]
pub(super) struct Serve {
    id: u32,
    acknowledged: u64,
    /// The bytes; `None` once the memory is not exposed any more.
    from: Option<Addr>,
    /// By which it was reached.
    key: RemoteKey,
    /// Length of the chunk, and how much of it went in frames that are whole.
    len: usize,
    done: usize,
    /// The header of the frame that is next or was begun, the length of its body, and how
    /// much of both the socket has taken.
    head: [u8; FRAME_HEAD_BYTES],
    frame: usize,
    given: usize,
}

impl Serve {
    pub(super) fn new(id: u32, acknowledged: u64, from: Region, key: RemoteKey) -> Serve {
        Serve {
            id,
            acknowledged,
            from: Some(from.addr),
            key,
            len: usize::try_from(from.len).expect("a chunk fits memory"),
            done: 0,
            head: [0; FRAME_HEAD_BYTES],
            frame: 0,
            given: 0,
        }
    }

    /// What the frame that is next or was begun still has.
    pub(super) fn left(&self) -> usize {
        FRAME_HEAD_BYTES + self.frame - self.given
    }

    /// Decides how much the next frame has, unless it was begun.
    pub(super) fn prepare(&mut self, bulk: usize) {
        if self.given > 0 {
            return;
        }
        let left = self.len - self.done;
        // No rest that is shorter than the least.
        let frame = bulk.max(FRAME_BYTES_MIN);
        self.frame = if left < frame + FRAME_BYTES_MIN { left } else { frame };
        let head = FrameHead {
            kind: FrameKind::Data,
            len: self.frame as u32,
            id: self.id,
            acknowledged: self.acknowledged,
        };
        self.head = head.emit();
    }

    /// The socket has taken so much more. True if that was the end of the chunk.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        self.given += bytes;
        if self.left() == 0 {
            self.done += self.frame;
            (self.frame, self.given) = (0, 0);
        }
        self.done == self.len
    }

    /// What the socket has not taken yet of the frame; of one without memory, only as many
    /// zeroes as there are.
    pub(super) fn pieces(&self, mut add: impl FnMut(Place)) {
        if self.given < FRAME_HEAD_BYTES {
            add(Place::of(&self.head[self.given..]));
        }
        let given = self.given.saturating_sub(FRAME_HEAD_BYTES);
        let left = self.frame - given;
        match self.from {
            Some(from) => {
                let at = from.offset((self.done + given) as u64).0 as usize;
                add(Place { at: ptr::with_exposed_provenance_mut(at), len: left });
            }
            None => add(Place::of(&ZEROES[..left.min(ZEROES.len())])),
        }
    }

    /// Whether the frame that is next or was begun can be given whole, and is the last of
    /// the chunk: another chunk may follow at once.
    pub(super) fn ends_with_frame(&self) -> bool {
        self.from.is_some() && self.done + self.frame == self.len
    }

    /// By which its memory is reached.
    pub(super) fn key(&self) -> RemoteKey {
        self.key
    }

    /// Whether its memory is reached by this key, and is still read.
    pub(super) fn reads(&self, key: RemoteKey) -> bool {
        self.key == key && self.from.is_some()
    }

    /// Whether the socket has part of a frame, whose rest goes next.
    pub(super) fn is_begun(&self) -> bool {
        self.given > 0
    }

    /// Its memory is not read any more: a frame that was begun is ended with zeroes, and no
    /// other follows. Says what whoever asked for it is told, unless that was its last frame.
    pub(super) fn cut_short(&mut self) -> Option<[u8; FRAME_HEAD_BYTES]> {
        let end = self.done + if self.is_begun() { self.frame } else { 0 };
        let fault = (end < self.len).then(|| self.fault());
        (self.from, self.len) = (None, end);
        fault
    }

    /// What goes in its place if the key does not reach the memory any more.
    fn fault(&self) -> [u8; FRAME_HEAD_BYTES] {
        let Serve { id, acknowledged, .. } = *self;
        FrameHead { kind: FrameKind::Fault, len: 0, id, acknowledged }.emit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The socket is given the bytes of a chunk where the client has them: nothing copies them
    /// here.
    #[test]
    fn the_bytes_of_a_chunk_go_from_where_they_are() {
        let chunk = vec![7u8; 100_000];
        let at = chunk.as_ptr().expose_provenance();
        let from = Region { addr: Addr(at as u64), len: chunk.len() as u64 };
        let mut serve = Serve::new(1, 0, from, RemoteKey::from_bits(1));
        let mut done = 0;
        loop {
            serve.prepare(30_000);
            let mut places = Vec::new();
            serve.pieces(|place| places.push((place.at as usize, place.len)));
            let [(_, FRAME_HEAD_BYTES), (body, len)] = places[..] else { panic!("{places:?}") };
            assert_eq!(body, at + done);
            done += len;
            // The socket takes a frame in two steps.
            assert!(!serve.take(FRAME_HEAD_BYTES + 1));
            places.clear();
            serve.pieces(|place| places.push((place.at as usize, place.len)));
            assert_eq!(places, [(body + 1, len - 1)]);
            if serve.take(len - 1) {
                break;
            }
        }
        assert_eq!(done, chunk.len());
    }
}
