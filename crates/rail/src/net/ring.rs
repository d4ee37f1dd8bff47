//! The stream of packets to one peer, as the frames that travel, until they are
//! acknowledged.
//!
//! Frames are encoded once, behind one another, and a socket is given these bytes. So
//! frames that wait for a socket go in one piece, and to send again is to begin further
//! back. A place in the stream is a count of bytes since its beginning.
//!
//! Bytes do not wrap around: what was released is skipped, and the rest moves to the front
//! when a frame finds no room behind it, unless it is more than what was released. So each
//! byte moves once at most, on average, and a frame is appended in a few instructions.
//!
//! Invariants: the ring holds whole frames, oldest first; it has at most
//! twice what its peer has granted, and its memory, which doubles, at most twice that.

use std::collections::VecDeque;

/// From this size on an empty ring gives its memory back.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Ring {
    /// What was released, and all frames behind it.
    bytes: Vec<u8>,
    released: usize,
    /// The lengths of the frames, oldest first.
    lens: VecDeque<u32>,
    /// The place of the first byte that was not released.
    begin: u64,
}

impl Ring {
    /// Appends a frame, which is made of these parts.
    #[inline]
    pub(super) fn push<const N: usize>(&mut self, parts: [&[u8]; N]) {
        let len = parts.iter().map(|part| part.len()).sum();
        if len > self.bytes.capacity() - self.bytes.len() {
            self.make_room(len);
        }
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.lens.push_back(u32::try_from(len).expect("a packet is shorter"));
    }

    /// Makes room for so many bytes: those that are kept move to the front if they are few
    /// beside what was released.
    #[cold]
    fn make_room(&mut self, len: usize) {
        if self.released >= self.bytes.len() - self.released {
            self.bytes.drain(..std::mem::take(&mut self.released));
        }
        self.bytes.reserve(len);
    }

    /// The place of the oldest frame.
    pub(super) fn begin(&self) -> u64 {
        self.begin
    }

    /// The place behind the newest.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.begin + (self.bytes.len() - self.released) as u64
    }

    /// All bytes from a place on.
    ///
    /// # Panics
    /// If the place is not in the ring.
    #[inline]
    pub(super) fn from(&self, place: u64) -> &[u8] {
        let skip = usize::try_from(place - self.begin).expect("it fits memory");
        &self.bytes[self.released + skip..]
    }

    /// What is left of the frame that a place is inside of; nothing at its beginning.
    pub(super) fn rest_of_frame(&self, place: u64) -> Vec<u8> {
        let mut at = self.begin;
        let end = self.lens.iter().find_map(|&len| {
            if at == place {
                return Some(place);
            }
            at += u64::from(len);
            (at > place).then_some(at)
        });
        let len = usize::try_from(end.map_or(0, |end| end - place)).expect("it fits memory");
        self.from(place)[..len].to_vec()
    }

    /// So many of the oldest frames have been acknowledged.
    ///
    /// # Panics
    /// If there are not so many.
    pub(super) fn release(&mut self, count: u64) {
        let count = usize::try_from(count).expect("no more than there are");
        if count < self.lens.len() {
            let bytes: u64 = self.lens.drain(..count).map(u64::from).sum();
            self.begin += bytes;
            self.released += usize::try_from(bytes).expect("they are in memory");
            return;
        }
        assert!(count == self.lens.len(), "no more than there are");
        self.begin = self.end();
        self.released = 0;
        self.lens.clear();
        self.bytes.clear();
        if self.bytes.capacity() > KEPT_BYTES_MAX {
            (self.bytes, self.lens) = Default::default();
        }
    }

    /// The place where the frames behind the oldest `count` begin.
    pub(super) fn place_after(&self, count: u64) -> u64 {
        let count = usize::try_from(count).expect("no more than there are");
        if count == self.lens.len() {
            return self.end();
        }
        self.begin + self.lens.iter().take(count).map(|&len| u64::from(len)).sum::<u64>()
    }

    /// Gives memory back that is not used.
    pub(super) fn give_back(&mut self) {
        if self.bytes.is_empty() {
            (self.bytes, self.lens) = Default::default();
        }
    }

    /// Bytes of memory that it takes.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.lens.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(ring: &Ring, place: u64) -> Vec<u8> {
        ring.from(place).to_vec()
    }

    #[test]
    fn frames_stay_until_they_are_acknowledged_wherever_they_move() {
        let mut ring = Ring::default();
        let (mut oldest, mut newest) = (0u8, 0u8);
        let mut place = 0;
        for round in 0..500 {
            for _ in 0..round % 5 {
                ring.push([&[newest], &[newest, newest]]);
                newest = newest.wrapping_add(1);
            }
            let wanted: Vec<u8> = std::iter::successors(Some(oldest), |n| Some(n.wrapping_add(1)))
                .take_while(|&n| n != newest)
                .flat_map(|n| [n; 3])
                .collect();
            assert_eq!(all(&ring, place), wanted);
            assert_eq!(ring.end() - ring.begin(), wanted.len() as u64);
            for skip in 0..wanted.len() {
                assert_eq!(all(&ring, place + skip as u64), wanted[skip..]);
                let rest = (3 - skip % 3) % 3;
                assert_eq!(ring.rest_of_frame(place + skip as u64), wanted[skip..skip + rest]);
            }
            let count = (wanted.len() as u64 / 3).min(round % 4);
            assert_eq!(ring.place_after(count), place + count * 3);
            ring.release(count);
            oldest = oldest.wrapping_add(count as u8);
            place += count * 3;
            assert_eq!(ring.begin(), place);
        }
    }

    /// One that never runs empty, as a stream that does not pause.
    #[test]
    fn what_was_released_takes_no_room_for_long() {
        let mut ring = Ring::default();
        for _ in 0..10 {
            ring.push([&[1; 100]]);
        }
        for _ in 0..10_000 {
            ring.push([&[2; 60], &[3; 40]]);
            ring.release(1);
            assert_eq!(ring.end() - ring.begin(), 1000);
        }
        assert!(ring.heap_bytes() < 8_000, "{}", ring.heap_bytes());
        assert_eq!(ring.from(ring.end() - 100), [[2; 60].as_slice(), &[3; 40]].concat());
    }

    #[test]
    fn a_ring_that_is_empty_gives_its_memory_back() {
        let mut ring = Ring::default();
        ring.push([&vec![1; 4 * KEPT_BYTES_MAX]]);
        assert!(ring.heap_bytes() > KEPT_BYTES_MAX);
        ring.release(1);
        assert_eq!(ring.heap_bytes(), 0);
        assert_eq!(
            (ring.begin(), ring.end()),
            (4 * KEPT_BYTES_MAX as u64, 4 * KEPT_BYTES_MAX as u64)
        );
    }
}
