//! Which buffers the messages of a stream are sent from and received into.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Buffers of a stream, on each side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Buffers {
    /// One for all messages, which stays in the caches
    #[default]
    Hot,
    /// One for each message of a window
    Distinct,
    /// The next ones of 256 MiB for each message, which are in no cache
    Cold,
}

/// Bytes of cold buffers on each side: more than caches hold.
const COLD_BYTES: u64 = 256 << 20;

impl Buffers {
    /// How many there are for messages of this size.
    pub fn count(self, size: u64, window: u64) -> u64 {
        match self {
            Buffers::Hot => 1,
            Buffers::Distinct => window,
            Buffers::Cold => (COLD_BYTES / size.max(1)).max(1),
        }
    }
}

/// Buffers of one size, side by side, which messages take in turn. Both sides count alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    count: u64,
    next: u64,
}

impl Places {
    /// So many, of which as many messages as are given have been in one.
    pub fn new(count: u64, messages: u64) -> Places {
        Places { count, next: messages % count.max(1) }
    }

    /// Where the next message begins.
    #[inline]
    pub fn at(self, size: u64) -> u64 {
        self.next * size
    }

    /// Where the next message begins, which takes that place.
    #[inline]
    pub fn take(&mut self, size: u64) -> u64 {
        let at = self.at(size);
        self.next += 1;
        if self.next >= self.count {
            self.next = 0;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_take_places_in_turn() {
        let mut places = Places::new(3, 4);
        assert_eq!(places.at(10), 10);
        let taken: Vec<u64> = (0..5).map(|_| places.take(10)).collect();
        assert_eq!(taken, [10, 20, 0, 10, 20]);
        assert_eq!(places, Places::new(3, 4 + 5));
    }

    #[test]
    fn cold_buffers_are_as_many_as_fit() {
        let count = |buffers: Buffers, size| buffers.count(size, 64);
        assert_eq!((count(Buffers::Hot, 8), count(Buffers::Distinct, 8)), (1, 64));
        assert_eq!((count(Buffers::Cold, 4 << 20), count(Buffers::Cold, 3 << 20)), (64, 85));
        assert_eq!(count(Buffers::Cold, 1 << 30), 1);
    }
}
