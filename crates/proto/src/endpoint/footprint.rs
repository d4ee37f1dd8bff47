//! What a request can change of an endpoint that anybody could notice: a refused one
//! must change none of it.

use super::Endpoint;
use crate::api::{Pending, Refused, Stats};

use sluice_wire::{PacketSeq, PeerId};

/// See [`Endpoint::footprint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    pending: Pending,
    stats: Stats,
    completions: usize,
    /// Places of receives and probes that were given.
    next_serial: u64,
    peers_stalled: usize,
    of_peer: OfPeer,
}

/// What is known of the peer of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OfPeer {
    next_seq: Option<PacketSeq>,
    data_credits: u32,
    queued: usize,
    announced_to: usize,
    announced_by: usize,
    announced_by_blocked: usize,
}

impl Endpoint {
    /// What a request that concerns `peer` may change and a refused one must not: to be
    /// compared before and after.
    #[must_use]
    pub fn footprint(&self, peer: Option<PeerId>) -> Footprint {
        Footprint {
            pending: self.pending(),
            stats: self.stats(),
            completions: self.core.completions.len(),
            next_serial: self.recvs.serials_given(),
            peers_stalled: self.stalled.len(),
            of_peer: peer.map_or(OfPeer::default(), |peer| self.footprint_of(peer)),
        }
    }

    fn footprint_of(&self, peer: PeerId) -> OfPeer {
        let links = self.core.ni.links();
        let of_link = OfPeer {
            next_seq: Some(links.next_seq(peer)),
            data_credits: links.data_credits(peer),
            ..OfPeer::default()
        };
        let Some(state) = self.core.peers.get(peer) else { return of_link };
        let (announced_by, announced_by_blocked) =
            state.rtrs.as_ref().map_or((0, 0), |rtrs| rtrs.counts());
        OfPeer {
            queued: state.queue.len(),
            announced_to: state.announced.len(),
            announced_by,
            announced_by_blocked,
            ..of_link
        }
    }

    /// What a refusal is compared with, where assertions that cost something are on.
    #[inline(always)]
    pub(super) fn footprint_to_check(&self, peer: Option<PeerId>) -> Checked {
        Checked(cfg!(debug_assertions).then(|| (peer, self.footprint(peer))))
    }

    /// Panics if a refused request has left a trace.
    #[inline(always)]
    pub(super) fn check_refusal(
        &self,
        before: Checked,
        taken: Result<(), Refused>,
    ) -> Result<(), Refused> {
        if let (Err(refused), Some((peer, before))) = (taken, before.0) {
            assert_eq!(self.footprint(peer), before, "what was refused left a trace: {refused}");
        }
        taken
    }
}

/// The peer of a request, and the footprint before it.
pub(super) struct Checked(Option<(Option<PeerId>, Footprint)>);
