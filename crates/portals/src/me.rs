//! Match list entries: the target's memory (Portals 4, section 3.12).

use crate::ct::Ct;
use crate::lists::{Criteria, Place};
use crate::memory::{Span, Vector};
use crate::table::Handle;
use sluice_wire::{MatchBits, PeerId, PtIndex, Region};

/// Which list of a portal table entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum List {
    /// Searched first; appending searches the unexpected headers.
    #[default]
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
    /// With `manage_local`, when appended: every header that it takes moves the
    /// offset by what was asked for.
    pub inc_by_rlength: bool,
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
    /// No event if this entry's operation made its portal table entry disabled.
    pub event_flowctrl_disable: bool,
    /// Count operations.
    pub ct_comm: bool,
    /// Count headers taken, and what searches find.
    pub ct_overflow: bool,
    /// Count bytes instead of operations.
    pub ct_bytes: bool,
    /// On the overflow list: keep no header of what lands here.
    pub unexpected_hdr_disable: bool,
    /// On the overflow list: the entry has no memory of its own; each message
    /// is kept in memory that the port lends, and is acknowledged when the
    /// client has ended its hold on it. An extension (`docs/decisions/0001`).
    pub lent: bool,
    /// A get-done unlinks the entry. An extension.
    pub get_done: bool,
}

/// What an entry is made from. The default has no memory and allows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct MeSpec {
    /// The memory; of a vector, its total length from address zero.
    pub region: Region,
    /// The pieces of the memory, if it is an I/O vector.
    pub vector: Option<Handle<Vector>>,
    /// Bits that an operation must have.
    pub match_bits: MatchBits,
    /// Bits that do not matter.
    pub ignore_bits: u64,
    /// The initiator that it accepts; `None` accepts any.
    pub source: Option<PeerId>,
    /// The user that it accepts; `None` accepts any.
    pub uid: Option<u32>,
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
    /// Where it is in its list, while it is linked.
    pub(crate) place: Option<Place>,
    /// Overflow list: unexpected headers whose bytes lie in this entry.
    pub(crate) headers: u32,
    /// Operations whose data is still on its way.
    pub(crate) busy: u32,
    /// Whether its unlinking has been told.
    pub(crate) unlink_told: bool,
}

impl Me {
    pub(crate) fn new(spec: MeSpec, pt_index: PtIndex, list: List) -> Me {
        Me {
            spec,
            pt_index,
            list,
            local_offset: 0,
            place: None,
            headers: 0,
            busy: 0,
            unlink_told: false,
        }
    }

    /// What its list is to look for.
    pub(crate) fn criteria(spec: &MeSpec) -> Criteria {
        Criteria { bits: spec.match_bits, ignore: spec.ignore_bits, source: spec.source }
    }

    /// `len` bytes of its memory from `offset` on.
    #[inline]
    pub(crate) fn span(&self, offset: u64, len: u64) -> Span {
        Span::new(self.spec.region, self.spec.vector, offset, len)
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
        self.local_offset = self.local_offset.saturating_add(mlength);
        let left = self.spec.region.len.saturating_sub(self.local_offset);
        self.spec.min_free != 0 && left < self.spec.min_free
    }
}
