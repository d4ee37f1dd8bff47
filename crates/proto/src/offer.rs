//! The sender's side of stalled messages: what their receiver asks, and what
//! becomes of a message that it was told of.
//!
//! A message told of is *offered*: it stands behind a get entry under its
//! number, as an announced one does, until its receiver has got it or declines
//! it. Until then nothing newer goes, for it may be declined and then keeps its
//! place.
//!
//! Invariants: a pair has at most one search and one watch that is not
//! answered; a search is answered as soon as a control credit allows, a watch
//! when a message after its number waits.

use crate::api::Space;
use crate::core::Core;
use crate::queue::Waiter;
use crate::rendezvous::ability::revoke;
use crate::rendezvous::announce::expose;
use crate::request::{SendState, SenderCopy};
use crate::sends::Sends;
use crate::wanted::Wanted;
use sluice_link::Port;
use sluice_link::mutants::{self, Mutant};
use sluice_portals::PtlError;
use sluice_wire::{Found, MatchBits, Packet, PeerId, Search, Waiting, Watch};

/// A receiver asks for a message. False if it breaks the protocol.
pub(crate) fn on_search(core: &mut Core, from: PeerId, search: &Search) -> bool {
    let questions = &mut core.peers.state_mut(from).questions;
    if questions.search.is_some() || Space::named(search.pt_index).is_none() {
        return false;
    }
    questions.search = Some(*search);
    true
}

/// A receiver asks for the next message that waits. False if it breaks the protocol.
pub(crate) fn on_watch(core: &mut Core, from: PeerId, watch: &Watch) -> bool {
    let questions = &mut core.peers.state_mut(from).questions;
    if questions.watch.is_some() {
        return false;
    }
    questions.watch = Some(watch.after).filter(|_| !mutants::is(Mutant::ForgetsWatches));
    true
}

/// A message told of is not wanted now: it waits again. False if it was not told of,
/// or is being got.
pub(crate) fn on_decline<P: Port>(
    core: &mut Core,
    sends: &mut Sends,
    port: &mut P,
    peer: PeerId,
    number: u64,
) -> bool {
    let Some(handle) = core.peers.state_mut(peer).queue.offered(number) else { return false };
    let Some(op) = sends.get_mut(handle) else { return false };
    let SendState::Offered(exposed, _) = op.state else { return false };
    if core.ni.me_unlink(exposed.entry).is_err() {
        return false;
    }
    if op.sender_copy != SenderCopy::None {
        return false;
    }
    op.state = SendState::Queued;
    revoke(port, peer, exposed.key);
    core.peers.state_mut(peer).queue.end_offer(number, true);
    true
}

/// Answers what `peer` has asked, as far as that can be answered now.
pub(crate) fn answer_questions<P: Port>(
    core: &mut Core,
    sends: &mut Sends,
    port: &mut P,
    peer: PeerId,
) {
    let state = core.peers.state_mut(peer);
    if let Some(search) = state.questions.search {
        let space = Space::of(search.pt_index);
        let wanted = Wanted { space, bits: search.match_bits.0, ignore: search.ignore_bits };
        let found = match mutants::is(Mutant::OffersTheWrongMessage) {
            true => state.queue.after(0),
            false => state.queue.find(&wanted, search.newest),
        };
        let is_answered = match found {
            Some((number, waiter)) => offer(core, sends, port, number, waiter, false),
            None => {
                let number = state.queue.newest();
                answer(core, port, peer, &Waiting { watched: false, number, found: None })
            }
        };
        if !is_answered {
            return core.peers.note_pending_control(peer);
        }
        core.peers.state_mut(peer).questions.search = None;
    }
    let state = core.peers.state_mut(peer);
    if let Some(after) = state.questions.watch
        && let Some((number, waiter)) = state.queue.after(after)
    {
        if !offer(core, sends, port, number, waiter, true) {
            return core.peers.note_pending_control(peer);
        }
        core.peers.state_mut(peer).questions.watch = None;
    }
}

/// Whether a message that joins the queue of `peer` answers a question.
pub(crate) fn is_watched(core: &Core, peer: PeerId) -> bool {
    core.peers.get(peer).is_some_and(|state| state.questions.watch.is_some())
}

/// Puts a waiting message behind a get entry and tells of it. False if that
/// cannot be told now; nothing has changed then.
fn offer<P: Port>(
    core: &mut Core,
    sends: &mut Sends,
    port: &mut P,
    number: u64,
    waiter: Waiter,
    watched: bool,
) -> bool {
    let Some(op) = sends.get_mut(waiter.handle) else {
        unreachable!("a queue names only pending sends")
    };
    let (send, bytes) = (op.send, op.bytes());
    let peer = send.peer;
    let key = MatchBits(number);
    let Ok(exposed) = expose(core, port, peer, bytes, key, waiter.handle) else { return false };
    let found = Found {
        pt_index: send.space.pt(),
        match_bits: MatchBits(send.tag),
        hdr_data: send.data.unwrap_or(0),
        user: send.user(),
        total_len: bytes.len,
        from: exposed.key,
    };
    if !answer(core, port, peer, &Waiting { watched, number, found: Some(found) }) {
        let unlinked = core.ni.me_unlink(exposed.entry);
        assert!(unlinked.is_ok(), "the entry was appended above");
        revoke(port, peer, exposed.key);
        return false;
    }
    core.peers.state_mut(peer).queue.offer(number);
    op.state = SendState::Offered(exposed, number);
    true
}

/// False if it has to wait for a control credit.
fn answer<P: Port>(core: &mut Core, port: &mut P, peer: PeerId, waiting: &Waiting) -> bool {
    let sent = core.ni.tell(port, peer, &Packet::Waiting(*waiting));
    // A peer that cannot be reached needs no answer.
    !matches!(sent, Err(PtlError::NoCredit { .. }))
}
