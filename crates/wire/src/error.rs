//! Why a packet was refused.

/// A packet that no Sluice process of this version emits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Fewer bytes than the headers need.
    #[error("packet truncated: {have} bytes, its headers need {need}")]
    Truncated {
        /// Bytes that the headers need.
        need: usize,
        /// Bytes that there are.
        have: usize,
    },
    /// Another protocol version.
    #[error("wire version {0} is not {version}", version = crate::VERSION)]
    Version(u8),
    /// A kind of packet that does not exist.
    #[error("unknown packet kind {0}")]
    Kind(u8),
    /// Flags that do not exist, or that exclude each other.
    #[error("flags {flags:#04x} are not allowed on packet kind {kind}")]
    Flags {
        /// The kind of packet.
        kind: u8,
        /// The flags it had.
        flags: u8,
    },
    /// A field that must be zero is not.
    #[error("reserved field of packet kind {0} is not zero")]
    Reserved(u8),
    /// An acknowledgement kind that does not exist.
    #[error("unknown acknowledgement kind {0}")]
    AckKind(u8),
    /// A status that does not exist.
    #[error("unknown status {0}")]
    Status(u8),
    /// An atomic operation that does not exist.
    #[error("unknown atomic operation {0}")]
    AtomicOp(u8),
    /// A type of items that does not exist.
    #[error("unknown datatype {0}")]
    Datatype(u8),
    /// A word of recovery that does not exist.
    #[error("unknown word of recovery {0}")]
    Word(u8),
    /// An RTR without chunk claims.
    #[error("an RTR names no chunk claims")]
    NoClaims,
    /// A payload where none may be.
    #[error("packet kind {kind} carries {len} bytes of payload but may carry none")]
    Payload {
        /// The kind of packet.
        kind: u8,
        /// The payload length it claimed.
        len: u32,
    },
}
