//! The endpoint of one process: requests in, completions out, and the events
//! of its Portals interface in between. Its parts own their state and are given what
//! they need of the others; here is what leads from one to the next.
//!
//! Invariants: messages of one pair leave in the order they were sent in; a
//! request is in exactly one table until its completion is pushed; nothing is
//! completed twice.

mod asking;
mod at_rail;
mod crowded;
mod events;
pub(crate) mod footprint;
mod machine;
mod pieces;
mod probe;
mod recv;
pub(crate) mod remote;
mod send;

use crate::api::{Completion, Config, Pending, Stats};
use crate::core::Core;
use crate::exhausted::Exhausted;
use crate::peers::Peers;
use crate::probes::Probes;
use crate::recvs::Recvs;
use crate::rendezvous::pulls::Pulls;
use crate::rendezvous::speculative::Rtrs;
use crate::rma::pending::Operations;
use crate::rma::regions::Regions;
use crate::sends::Sends;
use crate::stalled::Stalled;
use crowded::Crowded;
use sluice_link::{Layout, Links};
use sluice_portals::UnexpectedBytes;
use sluice_wire::PeerId;

/// One process's endpoint: a [`Machine`](sluice_link::Machine) over all its peers.
#[derive(Debug)]
pub struct Endpoint {
    core: Core,
    sends: Sends,
    stalled: Stalled,
    recvs: Recvs,
    rtrs: Rtrs,
    pulls: Pulls,
    exhausted: Exhausted,
    probes: Probes,
    /// Receives that the rail which matches had no room for, oldest first.
    crowded: Crowded,
    regions: Regions,
    operations: Operations,
}

impl Endpoint {
    /// Heap bytes of a peer that was named but never spoken to.
    pub const IDLE_PEER_BYTES: usize = Links::IDLE_PEER_BYTES + Peers::PEER_BYTES;
    /// Heap bytes of a peer that was spoken to.
    pub const ACTIVE_PEER_BYTES: usize = Links::ACTIVE_PEER_BYTES + Peers::PEER_BYTES;

    /// Heap bytes of a send that waits for credits, besides an injected
    /// message's copy.
    pub const PENDING_SEND_BYTES: usize = Sends::PENDING_BYTES;

    /// An endpoint whose own mailbox is divided as `mailbox` says.
    ///
    /// # Panics
    /// Never: a new interface has room for what is made here.
    #[must_use]
    pub fn new(config: Config, mailbox: Layout) -> Endpoint {
        let core = Core::new(config, mailbox);
        let pulled_at_once = core.ni.gets_bytes_max();
        Endpoint {
            core,
            sends: Sends::new(config.requests_max),
            stalled: Stalled::default(),
            recvs: Recvs::new(config.requests_max),
            rtrs: Rtrs::default(),
            pulls: Pulls::new(config.pull_bytes_max.min(pulled_at_once)),
            exhausted: Exhausted::default(),
            probes: Probes::new(config.requests_max),
            crowded: Crowded::default(),
            regions: Regions::new(config.regions_max),
            operations: Operations::new(config.requests_max),
        }
    }

    /// The most memory, in bytes, that messages not matched yet can take of a
    /// process whose mailbox is divided as `mailbox` says: their records and what
    /// is lent for their payloads ([`Stats::unexpected_bytes_now`]).
    #[must_use]
    pub fn unexpected_bytes_max(mailbox: &Layout) -> u64 {
        u64::from(mailbox.data_slots_total()) * UnexpectedBytes::SLOT_MAX
    }

    /// The most data slots that a mailbox may have for [`Endpoint::unexpected_bytes_max`]
    /// to be at most `bytes_max`.
    #[must_use]
    pub fn data_slots_within(bytes_max: u64) -> u32 {
        u32::try_from(bytes_max / UnexpectedBytes::SLOT_MAX).unwrap_or(u32::MAX)
    }

    /// Whether what has arrived should be taken in before a request of this length:
    /// the other side may have been first, and then data moves at once (speculative
    /// paper, section 3.1.1).
    #[must_use]
    #[inline]
    pub fn should_poll_first(&self, len: u64) -> bool {
        self.core.config.table().minds_who_is_first(len)
    }

    /// From now on every end is told, also of messages that were not to report success: such
    /// a completion is [`quiet`](Completion::quiet). For who counts them.
    pub fn count_all(&mut self) {
        self.core.counts_all = true;
    }

    /// Whether a request has ended that was not popped yet.
    #[must_use]
    pub fn has_completions(&self) -> bool {
        !self.core.completions.is_empty()
    }

    /// The next ended request, where it lies. A copy of one that was just written waits until all
    /// that was stored before it is out of the core, lines of other processes too.
    #[must_use]
    #[inline]
    pub fn first(&self) -> Option<&Completion> {
        self.core.completions.front()
    }

    /// The next ended request is not wanted any more.
    #[inline]
    pub fn remove_first(&mut self) {
        self.core.remove_first();
    }

    /// Takes the next ended request.
    #[inline]
    pub fn pop(&mut self) -> Option<Completion> {
        let completion = self.first().copied()?;
        self.remove_first();
        Some(completion)
    }

    /// Counts.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let ni = &self.core.ni;
        let status = ni.status();
        Stats {
            unexpected: status.unexpected,
            unexpected_now: ni.unexpected_now(),
            violations: status.protocol_violations,
            stalled_now: self.queued() as u64,
            unexpected_bytes_now: ni.unexpected_bytes().now,
            unexpected_bytes_peak: ni.unexpected_bytes().peak,
            injected_bytes_now: self.sends.injected_bytes(),
            staged_bytes_now: self.recvs.staged_bytes(),
            pull_bytes_now: self.pulls.bytes_now(),
            pull_bytes_peak: self.pulls.bytes_peak(),
            pull_senders_waiting_now: self.pulls.senders_waiting(),
            ..self.core.stats
        }
    }

    /// The links to the peers, to be looked at.
    #[must_use]
    pub fn links(&self) -> &Links {
        self.core.ni.links()
    }

    /// What has not ended yet.
    #[must_use]
    pub fn pending(&self) -> Pending {
        Pending {
            sends: self.sends.len(),
            recvs: self.recvs.len(),
            remote: self.operations.len(),
            claimed: self.probes.claimed_count(),
            probes: self.probes.len(),
            operations: self.core.ni.operations_now(),
            answers: self.pulls.fins.len() + self.core.ni.owed_now(),
        }
    }

    /// Where each message, write and atomic operation goes that was injected and is still here: the
    /// program was told that it is done with them. Takes a look at each request under way.
    pub fn promised(&self) -> impl Iterator<Item = PeerId> {
        self.sends.injected_to().chain(self.operations.injected_to())
    }

    /// The contexts of receives that were posted and have not ended.
    pub fn posted(&self) -> impl Iterator<Item = u64> {
        self.recvs.iter().map(|(_, op)| op.recv.context)
    }

    /// Panics unless the endpoint's books are in order. For tests.
    pub fn check_invariants(&self) {
        let core = &self.core;
        core.ni.check_invariants();
        for state in core.peers.iter() {
            state.queue.check_invariants();
        }
        self.sends.check_invariants(self.queued());
        self.recvs.check_invariants();
        self.stalled.check_invariants(core);
        self.exhausted.check_invariants(core, &self.recvs, &self.probes);
        self.pulls.check_invariants(core, &self.recvs);
        self.operations.check_invariants();
        assert!(core.ni.eq_is_empty(core.eq), "a call handles every event that it causes");
    }

    /// Sends that wait for credits, or were told of while they did.
    fn queued(&self) -> usize {
        self.core.peers.iter().map(|state| state.queue.len()).sum()
    }
}
