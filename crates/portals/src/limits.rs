//! Limits of an interface (Portals 4, section 3.6).

/// How many of each thing an interface holds. Each is the named maximum of a
/// table; what goes beyond is refused, never grown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Match list entries.
    pub entries_max: u32,
    /// Headers of unexpected messages. Credits bound them already, so a smaller
    /// number than the credits granted is raised to that.
    pub unexpected_headers_max: u32,
    /// Memory descriptors.
    pub mds_max: u32,
    /// Counting events.
    pub cts_max: u32,
    /// Event queues.
    pub eqs_max: u32,
    /// Highest index of a portal table entry.
    pub pt_index_max: u8,
    /// Operations of the initiator whose end is awaited.
    pub operations_max: u32,
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
            sluice_link::SendError::Peer(why) => PtlError::Peer(why),
        }
    }
}
