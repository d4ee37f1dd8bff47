//! Identifiers as types.

/// A peer process, as this process numbers them: dense, from zero, never
/// reused while the endpoint lives. It never travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u32);

impl PeerId {
    /// As an index into a table of peers.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Index of a portal table entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PtIndex(pub u8);

/// Portals match bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MatchBits(pub u64);

impl MatchBits {
    /// Whether an entry with these bits accepts `incoming`, ignoring the bits
    /// set in `ignore` (Portals 4, section 3.12).
    #[must_use]
    #[inline]
    pub fn accepts(self, ignore: u64, incoming: MatchBits) -> bool {
        (self.0 ^ incoming.0) & !ignore == 0
    }
}

/// Position of a packet in the stream of one ordered pair of processes. Wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PacketSeq(pub u32);

impl PacketSeq {
    /// The one after.
    #[must_use]
    pub fn next(self) -> PacketSeq {
        PacketSeq(self.0.wrapping_add(1))
    }
}
