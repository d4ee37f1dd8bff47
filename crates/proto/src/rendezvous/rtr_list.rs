//! The receives that a peer has announced here (RTR), and which message meets which.
//!
//! Invariant: a listed receive that is not *blocked* is the first that the next
//! message that it accepts will meet; a blocked one, or one that overlaps it, is
//! not used.

use crate::api::Space;
use crate::wanted::Wanted;
use sluice_link::{ClaimsId, SharedCopy};
use sluice_wire::{PacketSeq, PeerId, RemoteKey};
use std::collections::VecDeque;

/// Most receives that may be announced to one sender at once.
pub(crate) const RTRS_MAX: usize = 16;

/// Messages to one receiver whose bits are remembered, for an RTR that they cross.
const SENT_MAX: usize = 32;

/// A receive of this process that was announced to its source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnnouncedRecv {
    pub claims: ClaimsId,
    /// Names its buffer, for the source to write.
    pub into: RemoteKey,
}

/// A receive that was announced to this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtr {
    pub wanted: Wanted,
    /// Names its buffer.
    pub into: RemoteKey,
    pub len: u64,
    pub claims: ClaimsId,
    /// Which message it meets is not known.
    is_blocked: bool,
}

/// What a sender knows of the receives of one peer.
#[derive(Debug)]
pub(crate) struct RtrList {
    /// In the order they were announced in.
    listed: VecDeque<Rtr>,
    /// The newest messages that were sent there, each with the number of the
    /// packet after it.
    sent: VecDeque<(PacketSeq, Space, u64)>,
    /// All messages from this packet on are in `sent`.
    known_from: PacketSeq,
}

impl RtrList {
    pub fn new(known_from: PacketSeq) -> RtrList {
        RtrList { listed: VecDeque::new(), sent: VecDeque::new(), known_from }
    }

    /// Lists a receive of `peer`. `waits`: messages to it wait, and may be asked for
    /// out of order. False if it has announced too many.
    pub fn list<S: SharedCopy>(
        &mut self,
        shared: &mut S,
        peer: PeerId,
        wanted: Wanted,
        rtr: &sluice_wire::Rtr,
        waits: bool,
    ) -> bool {
        self.listed.retain(|rtr| !shared.are_claims_closed(peer, rtr.claims));
        if self.listed.len() == RTRS_MAX {
            return false;
        }
        let overlaps = |older: &Rtr| older.is_blocked && older.wanted.overlaps(&wanted);
        let is_blocked =
            waits || self.may_have_sent(rtr.seen, &wanted) || self.listed.iter().any(overlaps);
        let (into, len, claims) = (rtr.into, rtr.len, ClaimsId(rtr.claims));
        self.listed.push_back(Rtr { wanted, into, len, claims, is_blocked });
        true
    }

    /// The place of the receive that a message meets which goes now, if that is known.
    pub fn met_by(&self, space: Space, tag: u64) -> Option<usize> {
        let at = self.listed.iter().position(|rtr| rtr.wanted.accepts(space, tag))?;
        (!self.listed[at].is_blocked).then_some(at)
    }

    /// Takes the receive at this place out.
    pub fn take(&mut self, at: usize) -> Option<Rtr> {
        self.listed.remove(at)
    }

    /// A message was sent; `next` is the number of the packet after it.
    pub fn note_sent(&mut self, next: PacketSeq, space: Space, tag: u64) {
        if self.sent.len() == SENT_MAX
            && let Some((after, ..)) = self.sent.pop_front()
        {
            self.known_from = after;
        }
        self.sent.push_back((next, space, tag));
    }

    /// Receives listed, and those of them that are blocked.
    pub fn counts(&self) -> (usize, usize) {
        (self.listed.len(), self.listed.iter().filter(|rtr| rtr.is_blocked).count())
    }

    /// What is listed may meet messages that were not sent in order.
    pub fn block(&mut self) {
        for rtr in &mut self.listed {
            rtr.is_blocked = true;
        }
    }

    /// Whether a message from packet `seen` on may be one that is wanted.
    fn may_have_sent(&self, seen: PacketSeq, wanted: &Wanted) -> bool {
        is_before(seen, self.known_from)
            || self
                .sent
                .iter()
                .any(|&(next, space, tag)| is_before(seen, next) && wanted.accepts(space, tag))
    }
}

/// Whether a packet comes before another of its pair. Numbers wrap; what is under
/// way is less than half of them.
fn is_before(one: PacketSeq, other: PacketSeq) -> bool {
    one.0.wrapping_sub(other.0).cast_signed() < 0
}
