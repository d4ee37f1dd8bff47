//! The stream of packets to one peer, as the frames that travel, until they are
//! acknowledged.
//!
//! Frames are encoded once, into one ring of bytes, and a socket is given the ring's
//! bytes. So frames that wait for a socket go in one piece, and to send again is to begin
//! further back. A place in the stream is a count of bytes since its beginning.
//!
//! Invariants: the ring holds whole frames, oldest first; it is no larger than what its
//! peer has granted.

use std::collections::VecDeque;

/// From this size on an empty ring gives its memory back.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Ring {
    bytes: VecDeque<u8>,
    /// The lengths of the frames, oldest first.
    lens: VecDeque<u32>,
    /// The place of the first byte.
    begin: u64,
}

impl Ring {
    /// Appends a frame, which is made of these parts.
    pub(super) fn push(&mut self, parts: &[&[u8]]) {
        let mut len = 0;
        for part in parts {
            self.bytes.extend(part.iter());
            len += part.len();
        }
        self.lens.push_back(u32::try_from(len).expect("a packet is shorter"));
    }

    /// The place of the oldest frame.
    pub(super) fn begin(&self) -> u64 {
        self.begin
    }

    /// The place behind the newest.
    pub(super) fn end(&self) -> u64 {
        self.begin + self.bytes.len() as u64
    }

    /// All bytes from a place on.
    ///
    /// # Panics
    /// If the place is not in the ring.
    pub(super) fn from(&self, place: u64) -> [&[u8]; 2] {
        let skip = usize::try_from(place - self.begin).expect("it fits memory");
        let (front, back) = self.bytes.as_slices();
        match skip.checked_sub(front.len()) {
            Some(skip) => [&back[skip..], &[]],
            None => [&front[skip..], back],
        }
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
        let [front, back] = self.from(place);
        front.iter().chain(back).copied().take(len).collect()
    }

    /// So many of the oldest frames have been acknowledged.
    ///
    /// # Panics
    /// If there are not so many.
    pub(super) fn release(&mut self, count: u64) {
        let count = usize::try_from(count).expect("no more than there are");
        if count == self.lens.len() {
            self.begin = self.end();
            self.lens.clear();
            self.bytes.clear();
        } else {
            let bytes: u64 = self.lens.drain(..count).map(u64::from).sum();
            self.bytes.drain(..usize::try_from(bytes).expect("they are in memory"));
            self.begin += bytes;
        }
        if self.bytes.is_empty() && self.bytes.capacity() > KEPT_BYTES_MAX {
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
        ring.from(place).concat()
    }

    #[test]
    fn frames_stay_until_they_are_acknowledged_wherever_the_ring_wraps() {
        let mut ring = Ring::default();
        let (mut oldest, mut newest) = (0u8, 0u8);
        let mut place = 0;
        for round in 0..500 {
            for _ in 0..round % 5 {
                ring.push(&[&[newest], &[newest, newest]]);
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

    #[test]
    fn a_ring_that_is_empty_gives_its_memory_back() {
        let mut ring = Ring::default();
        ring.push(&[&vec![1; 4 * KEPT_BYTES_MAX]]);
        assert!(ring.heap_bytes() > KEPT_BYTES_MAX);
        ring.release(1);
        assert_eq!(ring.heap_bytes(), 0);
        assert_eq!(
            (ring.begin(), ring.end()),
            (4 * KEPT_BYTES_MAX as u64, 4 * KEPT_BYTES_MAX as u64)
        );
    }
}
