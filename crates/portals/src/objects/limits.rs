//! Limits of an interface (Portals 4, section 3.6).

use crate::objects::recovery::Scheme;
use sluice_wire::PtIndex;

/// How many of each thing an interface holds. Each is the named maximum of a
/// table; what goes beyond is refused, never grown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Match list entries.
    pub entries_max: u32,
    /// Headers of unexpected messages. Where credits bound them already, a
    /// smaller number than the credits granted is raised to that.
    pub unexpected_headers_max: u32,
    /// Memory descriptors.
    pub mds_max: u32,
    /// Counting events.
    pub cts_max: u32,
    /// Event queues.
    pub eqs_max: u32,
    /// Highest index of a portal table entry.
    pub pt_index_max: u8,
    /// Operations whose end is awaited, and operations that wait for credits.
    pub operations_max: u32,
    /// I/O vectors.
    pub vectors_max: u32,
    /// Entries of one list of a portal table entry.
    pub list_size_max: u32,
    /// Triggered operations that wait for their counters.
    pub triggered_ops_max: u32,
    /// Bytes of a put or an atomic operation that travel in one packet; the
    /// data of longer puts is fetched.
    pub eager_bytes_max: u32,
    /// A message's slots stay taken until it is matched, which bounds what an
    /// interface keeps of messages nobody waits for; else until it is copied
    /// to where an entry wants it, and `unexpected_headers_max` is the bound.
    pub credits_until_matched: bool,
    /// Puts and atomic operations that ask for an acknowledgement, at portal table entries
    /// from this one on, go by control credits where they find no data credits: what does not
    /// wait for a receive never waits for one behind messages that do. These entries have no
    /// overflow list. Of commands only ([`crate::Ni::issue`]).
    pub by_control_from: Option<PtIndex>,
    /// Operations that a disabled entry refuses go again when it is enabled, and entries
    /// that have run out of something are enabled when there is enough again
    /// (`docs/recovery.md`). Of commands only ([`crate::Ni::issue`], [`crate::Ni::trigger`]).
    pub recovery: Option<Scheme>,
}

impl Limits {
    /// Bytes up to which [`crate::MdOptions`]'s `volatile` holds.
    #[must_use]
    pub fn volatile_bytes_max(&self) -> u64 {
        u64::from(self.eager_bytes_max)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            entries_max: 1 << 22,
            unexpected_headers_max: 1 << 22,
            mds_max: 1 << 16,
            cts_max: 1 << 16,
            eqs_max: 1 << 10,
            pt_index_max: 63,
            operations_max: 1 << 22,
            vectors_max: 1 << 20,
            list_size_max: 1 << 22,
            triggered_ops_max: 1 << 20,
            eager_bytes_max: 4096,
            credits_until_matched: true,
            by_control_from: None,
            recovery: None,
        }
    }
}

/// Why a call was refused. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PtlError {
    /// An argument names nothing, or is out of range (`PTL_ARG_INVALID`).
    #[error("invalid argument: {0}")]
    ArgInvalid(&'static str),
    /// A limit is reached (`PTL_NO_SPACE`).
    #[error("no space: {0}")]
    NoSpace(&'static str),
    /// In use (`PTL_IN_USE`).
    #[error("in use")]
    InUse,
    /// The index is taken (`PTL_PT_IN_USE`).
    #[error("portal table entry in use")]
    PtInUse,
    /// The list is at its limit (`PTL_LIST_TOO_LONG`).
    #[error("list too long")]
    ListTooLong,
    /// Flow control needs an event queue (`PTL_PT_EQ_NEEDED`).
    #[error("flow control needs an event queue")]
    PtEqNeeded,
    /// Every portal table entry is taken (`PTL_PT_FULL`).
    #[error("portal table full")]
    PtFull,
    /// No credit for it now; try again after progress.
    #[error("no credit: {need} slots wanted, {have} left")]
    NoCredit {
        /// Slots that it takes.
        need: u32,
        /// Credits that there are.
        have: u32,
    },
    /// The target cannot be reached.
    #[error(transparent)]
    Peer(#[from] sluice_link::PeerError),
}

impl From<sluice_link::SendError> for PtlError {
    fn from(error: sluice_link::SendError) -> PtlError {
        match error {
            sluice_link::SendError::NoCredit { need, have } => PtlError::NoCredit { need, have },
            // Nothing is granted before the connection is open.
            sluice_link::SendError::Connecting => PtlError::NoCredit { need: 1, have: 0 },
            sluice_link::SendError::Peer(why) => PtlError::Peer(why),
        }
    }
}
