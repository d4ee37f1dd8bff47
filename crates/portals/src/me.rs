//! Match list entries: the target's memory (Portals 4, section 3.12).

use crate::ct::Ct;
use crate::table::Handle;
use sluice_wire::{MatchBits, PeerId, PtIndex, Region};

/// Which list of a portal table entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Searched first; appending searches the unexpected headers.
    Priority,
    /// Takes what the priority list does not.
    Overflow,
}

/// Options of an entry. The default allows nothing and reports everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeOptions {
    /// Puts are allowed.
    pub op_put: bool,
    /// Gets are allowed.
    pub op_get: bool,
    /// Unlinked by its first match.
    pub use_once: bool,
    /// The entry keeps the offset, not the initiator; unlinked when less than
    /// `min_free` is left.
    pub manage_local: bool,
    /// A message that would not fit does not match.
    pub no_truncate: bool,
    /// No link event.
    pub event_link_disable: bool,
    /// No events for operations on it.
    pub event_comm_disable: bool,
    /// No events for operations that succeed.
    pub event_success_disable: bool,
    /// No overflow events.
    pub event_over_disable: bool,
    /// No unlink and free events.
    pub event_unlink_disable: bool,
    /// Count operations.
    pub ct_comm: bool,
    /// Count bytes instead of operations.
    pub ct_bytes: bool,
    /// On the overflow list: keep no header of what lands here.
    pub unexpected_hdr_disable: bool,
    /// On the overflow list: the entry has no memory of its own; each message
    /// is kept in memory that the port lends, and is acknowledged when the
    /// client has ended its hold on it. An extension (`docs/decisions/0001`).
    pub lent: bool,
}

/// What an entry is made from.
#[derive(Clone, Copy, Debug)]
pub struct MeSpec {
    /// The memory.
    pub region: Region,
    /// Bits that an operation must have.
    pub match_bits: MatchBits,
    /// Bits that do not matter.
    pub ignore_bits: u64,
    /// The initiator that it accepts; `None` accepts any.
    pub source: Option<PeerId>,
    /// With `manage_local`: unlink when less than this is left. Zero: never.
    pub min_free: u64,
    /// Its options.
    pub options: MeOptions,
    /// Where it counts.
    pub ct: Option<Handle<Ct>>,
    /// Returned in its events.
    pub user_ptr: u64,
}

/// An entry as the engine keeps it.
#[derive(Debug)]
pub struct Me {
    pub(crate) spec: MeSpec,
    pub(crate) pt_index: PtIndex,
    pub(crate) list: List,
    pub(crate) local_offset: u64,
    pub(crate) prev: Option<Handle<Me>>,
    pub(crate) next: Option<Handle<Me>>,
    /// Overflow list: unexpected headers whose bytes lie in this entry.
    pub(crate) headers: u32,
    /// Unlinked, kept only until its last header is consumed.
    pub(crate) zombie: bool,
}

impl Me {
    pub(crate) fn new(spec: MeSpec, pt_index: PtIndex, list: List) -> Me {
        Me {
            spec,
            pt_index,
            list,
            local_offset: 0,
            prev: None,
            next: None,
            headers: 0,
            zombie: false,
        }
    }

    /// Where in the entry an operation of `rlength` bytes lands, and how many
    /// of them fit. An offset beyond its end, which comes from another process,
    /// lands at its end.
    #[inline]
    pub(crate) fn landing(&self, remote_offset: u64, rlength: u64) -> (u64, u64) {
        let offset = if self.spec.options.manage_local { self.local_offset } else { remote_offset };
        let offset = offset.min(self.spec.region.len);
        (offset, rlength.min(self.spec.region.len - offset))
    }

    /// Moves the managed offset. True if the entry must be unlinked for it.
    pub(crate) fn consume(&mut self, mlength: u64) -> bool {
        if !self.spec.options.manage_local {
            return false;
        }
        self.local_offset += mlength;
        let left = self.spec.region.len.saturating_sub(self.local_offset);
        self.spec.min_free != 0 && left < self.spec.min_free
    }
}
