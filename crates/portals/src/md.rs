//! Memory descriptors: the initiator's memory (Portals 4, section 3.10).

use crate::ct::Ct;
use crate::eq::Eq;
use crate::table::Handle;
use sluice_wire::{Addr, Region};

/// Options of a memory descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MdOptions {
    /// No events for what succeeds.
    pub event_success_disable: bool,
    /// No send events.
    pub event_send_disable: bool,
    /// No send event for a put that returned with its memory free already. An
    /// extension: the return value has told it.
    pub event_send_if_pending: bool,
    /// Count sends.
    pub ct_send: bool,
    /// Count replies.
    pub ct_reply: bool,
    /// Count acknowledgements.
    pub ct_ack: bool,
    /// Count bytes instead of operations.
    pub ct_bytes: bool,
}

/// A memory descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Md {
    /// The memory.
    pub region: Region,
    /// Where its events go.
    pub eq: Option<Handle<Eq>>,
    /// Where it counts.
    pub ct: Option<Handle<Ct>>,
    /// Its options.
    pub options: MdOptions,
}

impl Md {
    /// The `length` bytes at `offset`, if the descriptor has them.
    #[must_use]
    #[inline]
    pub fn part(&self, offset: u64, length: u64) -> Option<Region> {
        let end = offset.checked_add(length)?;
        if end > self.region.len {
            return None;
        }
        Region::new(Addr(self.region.addr.0.checked_add(offset)?), length)
    }
}
