//! Memory descriptors: the initiator's memory (Portals 4, section 3.10).

use crate::objects::ct::Ct;
use crate::objects::eq::Eq;
use crate::objects::vector::{Span, Vector};
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
    /// The memory may be changed as soon as a put or atomic call of at most
    /// [`crate::Limits::volatile_bytes_max`] has returned.
    pub volatile: bool,
}

/// A memory descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Md {
    /// The memory; of a vector, its total length from address zero.
    pub region: Region,
    /// The pieces of the memory, if it is an I/O vector.
    pub vector: Option<Handle<Vector>>,
    /// Where its events go.
    pub eq: Option<Handle<Eq>>,
    /// Where it counts.
    pub ct: Option<Handle<Ct>>,
    /// Its options.
    pub options: MdOptions,
    /// Operations on it whose end is awaited.
    pub(crate) pending: u32,
    /// Released by the client; kept until nothing is pending on it.
    pub(crate) is_released: bool,
}

impl Md {
    /// The `length` bytes at `offset`, if the descriptor has them.
    pub(crate) fn span(&self, offset: u64, length: u64) -> Option<Span> {
        if self.vector.is_none() {
            self.part(offset, length)?;
        }
        let end = offset.checked_add(length)?;
        (end <= self.region.len).then(|| Span::new(self.region, self.vector, offset, length))
    }

    /// Whether something may have to be told or counted of what was sent from it at once and
    /// well. Most sends are such, and of a layer that the return value tells nothing is.
    #[inline(always)]
    pub(crate) fn minds_sent(&self) -> bool {
        self.options.ct_send || !self.options.event_send_if_pending
    }

    /// Its queue, and how many events an operation that goes well posts there: that it was
    /// sent, that it was answered.
    #[inline]
    pub(crate) fn own_events(&self, sends: bool, answers: bool) -> Option<(Handle<Eq>, usize)> {
        let eq = self.eq.filter(|_| !self.options.event_success_disable)?;
        let sends = sends && !self.options.event_send_disable;
        let count = usize::from(sends) + usize::from(answers);
        (count > 0).then_some((eq, count))
    }

    /// Whether it is told or counted that something was sent from it well and not at once.
    #[inline]
    pub(crate) fn tells_sent(&self) -> bool {
        self.options.ct_send || self.own_events(true, false).is_some()
    }

    /// The `length` bytes at `offset` of a descriptor without a vector, if the descriptor has them.
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
