//! What an endpoint knows of its peers.

use crate::queue::Queue;
use crate::rendezvous::rtr_list::{AnnouncedRecv, RtrList};
use crate::stall_cursor::StallCursor;
use sluice_link::{ClaimsId, PeerError};
use sluice_wire::{Nanos, PeerId, Search};

/// What an endpoint knows of a peer that one of the two is stalled toward, that has
/// announced a receive or was told of one, or that is gone.
#[derive(Debug, Default)]
pub(crate) struct PeerState {
    /// Sends that wait for credits, oldest first.
    pub queue: Queue,
    /// Since when the oldest of them waits.
    pub stalled_since: Option<Nanos>,
    /// Since when there is no credit for one that waits, or that was offered meanwhile.
    pub queued_since: Option<Nanos>,
    /// For how long it was so before.
    pub queued: Nanos,
    /// Slots of the longest message that went eagerly because the peer looked: it gives so many
    /// credits. Zero again once one has waited for them in vain.
    pub slots_had: u32,
    /// Why the peer will not answer again.
    gone: Option<PeerError>,
    /// What it has asked of the queue.
    pub questions: Questions,
    /// What was asked of its queue.
    pub cursor: StallCursor,
    /// Receives here that it was told of.
    pub announced: Vec<AnnouncedRecv>,
    /// Receives there that it has told of.
    pub rtrs: Option<Box<RtrList>>,
}

impl PeerState {
    /// For how long sends have waited here, in all.
    pub fn queued_until(&self, now: Nanos) -> Nanos {
        let since = self.queued_since.map_or(Nanos(0), |since| now.since(since));
        self.queued.saturating_add(since)
    }

    /// Why the peer will not answer again.
    #[inline]
    pub fn gone(&self) -> Option<PeerError> {
        self.gone
    }
}

/// What a receiver has asked of the queue of its messages.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    pub search: Option<Search>,
    /// The number that a watch is for a message after.
    pub watch: Option<u64>,
}

/// The states of the peers.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    /// Others have no state.
    states: Vec<Option<Box<PeerState>>>,
    any_gone: bool,
    /// Some peer has announced a receive.
    any_rtrs: bool,
    /// Peers to which something about waiting messages could not be said for
    /// want of a control credit. Each is here once.
    pending_control: Vec<PeerId>,
}

impl Peers {
    /// Heap bytes of a peer without a state.
    pub const PEER_BYTES: usize = size_of::<Option<Box<PeerState>>>();

    #[inline]
    pub fn get(&self, peer: PeerId) -> Option<&PeerState> {
        self.states.get(peer.index())?.as_deref()
    }

    #[inline]
    pub fn get_mut(&mut self, peer: PeerId) -> Option<&mut PeerState> {
        self.states.get_mut(peer.index())?.as_deref_mut()
    }

    /// The state of a peer, which has one from now on.
    pub fn state_mut(&mut self, peer: PeerId) -> &mut PeerState {
        let index = peer.index();
        if index >= self.states.len() {
            self.states.resize_with(index + 1, || None);
        }
        self.states[index].get_or_insert_with(Box::default)
    }

    pub fn iter(&self) -> impl Iterator<Item = &PeerState> {
        self.states.iter().filter_map(Option::as_deref)
    }

    /// Why `peer` is gone, if it is.
    #[inline]
    pub fn gone(&self, peer: PeerId) -> Option<PeerError> {
        if !self.any_gone {
            return None;
        }
        self.get(peer)?.gone
    }

    #[inline]
    pub fn any_gone(&self) -> bool {
        self.any_gone
    }

    /// The peer will not answer again.
    pub fn note_gone(&mut self, peer: PeerId, why: PeerError) {
        self.any_gone = true;
        self.state_mut(peer).gone = Some(why);
    }

    /// Whether some peer has announced a receive.
    #[inline(always)]
    pub fn any_rtrs(&self) -> bool {
        self.any_rtrs
    }

    /// Some peer announces a receive.
    pub fn note_rtr(&mut self) {
        self.any_rtrs = true;
    }

    /// A receive with these chunk claims is announced no more. What its source was told.
    pub fn take_announced(&mut self, peer: PeerId, claims: ClaimsId) -> Option<AnnouncedRecv> {
        let announced = &mut self.state_mut(peer).announced;
        let at = announced.iter().position(|announced| announced.claims == claims)?;
        Some(announced.swap_remove(at))
    }

    /// The sender of a message that was taken from its queue has been told of its end.
    /// Of one that is gone nothing is counted any more.
    pub fn note_told(&mut self, peer: PeerId) {
        if self.gone(peer).is_none() {
            self.state_mut(peer).cursor.note_told();
        }
    }

    /// Forgets what was asked of a peer that is gone, and what it has announced.
    pub fn forget_asked(&mut self, peer: PeerId) {
        let state = self.state_mut(peer);
        state.rtrs = None;
        state.cursor = StallCursor::default();
        self.end_pending_control(peer);
    }

    /// Remembers that something could not be said to `peer`.
    pub fn note_pending_control(&mut self, peer: PeerId) {
        if !self.pending_control.contains(&peer) {
            self.pending_control.push(peer);
        }
    }

    /// Whether there is something to be said to somebody.
    #[inline]
    pub fn is_control_pending(&self) -> bool {
        !self.pending_control.is_empty()
    }

    /// What could not be said to `peer` is said now, or need not be.
    pub fn end_pending_control(&mut self, peer: PeerId) {
        self.pending_control.retain(|pending| *pending != peer);
    }

    /// Those to which something is to be said, which is done now.
    #[inline]
    pub fn take_pending_control(&mut self) -> Vec<PeerId> {
        std::mem::take(&mut self.pending_control)
    }
}
