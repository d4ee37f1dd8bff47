//! The lengths that a choice compares with, and the kinds of memory that they are for.

/// A length that no message reaches.
pub const NEVER: u64 = u64::MAX;

/// The kinds of memory that messages lie in. What moves cost depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// That of the processor. No rail reaches another kind yet.
    Host,
}

impl MemoryKind {
    /// Its name, for people and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MemoryKind::Host => "host",
        }
    }
}

/// The lengths by which protocols are chosen on one rail, between memory of one
/// kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Longest message in bytes that is sent eagerly.
    pub eager_bytes_max: u32,
    /// The same to a receiver that *looks*: it takes in what it is sent, at the moment of the send.
    pub looking_bytes_max: u32,
    /// Shortest receive, in bytes, that is announced to its source.
    pub announce_bytes_min: u64,
    /// Shortest message, in bytes, that both sides copy.
    pub share_bytes_min: u64,
}

impl Table {
    /// For peers that a network is between. To fetch a message takes a round trip more: as
    /// long as 64 KiB take to be copied in and out again several times. Receives are not
    /// announced, as there are no chunk claims.
    pub const NETWORK: Table = Table {
        eager_bytes_max: 64 << 10,
        looking_bytes_max: 0,
        announce_bytes_min: NEVER,
        share_bytes_min: NEVER,
    };
}

impl Default for Table {
    fn default() -> Table {
        Table {
            eager_bytes_max: 48 << 10,
            looking_bytes_max: 256 << 10,
            announce_bytes_min: 32 << 10,
            share_bytes_min: 64 << 10,
        }
    }
}
