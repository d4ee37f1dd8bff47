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

/// Names memory of one process that it has exposed to one peer: what travels in
/// place of an address. Only its owner knows what it means, and only to that peer does
/// it mean anything. Nothing can be computed from it; a place within what it names
/// is said by an offset beside it.
///
/// The bits are made by whoever keeps the exposures of a process, and mean something
/// to it again; to all others they are opaque.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RemoteKey(u64);

impl RemoteKey {
    /// No memory, and the default: the bytes are moved in packets. All bits are zero.
    pub const NONE: RemoteKey = RemoteKey(0);

    /// No memory, and too many bytes for one packet: they are to be offered
    /// ([`Get::into`](crate::Get::into)). All bits are ones.
    pub const OFFER: RemoteKey = RemoteKey(u64::MAX);

    /// The key with these bits: of its owner, or as it has arrived.
    #[must_use]
    #[inline(always)]
    pub const fn from_bits(bits: u64) -> RemoteKey {
        RemoteKey(bits)
    }

    /// Its bits.
    #[must_use]
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether it names memory, as far as can be told without its owner.
    #[must_use]
    #[inline(always)]
    pub fn is_some(self) -> bool {
        self != RemoteKey::NONE && self != RemoteKey::OFFER
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
