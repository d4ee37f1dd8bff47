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
use crate::endpoint::Endpoint;
use crate::portal::{PT_BULK, get_entry};
use crate::queue::Waiter;
use crate::request::{SendOp, SendState, SenderCopy};
use crate::wanted::Wanted;
use sluice_link::Port;
use sluice_portals::{Handle, List, Me, PtlError};
use sluice_wire::{Found, MatchBits, Packet, PeerId, Region, Waiting};

impl Endpoint {
    /// Packets about messages that wait. False if it breaks the protocol.
    #[cold]
    #[inline(never)]
    pub(crate) fn on_stall_packet<P: Port>(
        &mut self,
        port: &mut P,
        from: PeerId,
        packet: &Packet,
    ) -> bool {
        match packet {
            Packet::Search(search) => {
                let questions = &mut self.core.peers.state_mut(from).questions;
                if questions.search.is_some() || Space::named(search.pt_index).is_none() {
                    return false;
                }
                questions.search = Some(*search);
                self.answer_questions(port, from);
                true
            }
            Packet::Watch(watch) => {
                let questions = &mut self.core.peers.state_mut(from).questions;
                if questions.watch.is_some() {
                    return false;
                }
                questions.watch = Some(watch.after);
                self.answer_questions(port, from);
                true
            }
            Packet::Waiting(waiting) => self.on_waiting(port, from, waiting),
            Packet::Decline(decline) => self.on_decline(port, from, decline.number),
            _ => false,
        }
    }

    /// Answers what `peer` has asked, as far as that can be answered now.
    pub(crate) fn answer_questions<P: Port>(&mut self, port: &mut P, peer: PeerId) {
        let state = self.core.peers.state_mut(peer);
        if let Some(search) = state.questions.search {
            let wanted = Wanted {
                space: Space::of(search.pt_index),
                bits: search.match_bits.0,
                ignore: search.ignore_bits,
            };
            let is_answered = match state.queue.find(&wanted, search.newest) {
                Some((number, waiter)) => self.offer(port, peer, number, waiter, false),
                None => {
                    let number = state.queue.newest();
                    self.answer(port, peer, &Waiting { watched: false, number, found: None })
                }
            };
            if !is_answered {
                return self.core.peers.note_pending_control(peer);
            }
            self.core.peers.state_mut(peer).questions.search = None;
        }
        let state = self.core.peers.state_mut(peer);
        if let Some(after) = state.questions.watch
            && let Some((number, waiter)) = state.queue.after(after)
        {
            if !self.offer(port, peer, number, waiter, true) {
                return self.core.peers.note_pending_control(peer);
            }
            self.core.peers.state_mut(peer).questions.watch = None;
        }
    }

    /// Whether a message that joins the queue of `peer` answers a question.
    pub(crate) fn is_watched(&self, peer: PeerId) -> bool {
        self.core.peers.get(peer).is_some_and(|state| state.questions.watch.is_some())
    }

    /// Puts a waiting message behind a get entry and tells of it. False if that
    /// cannot be told now; nothing has changed then.
    fn offer<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        number: u64,
        waiter: Waiter,
        watched: bool,
    ) -> bool {
        let Some(op) = self.sends.get(waiter.handle) else {
            unreachable!("a queue names only pending sends")
        };
        let (send, bytes) = (op.send, op.bytes());
        let key = MatchBits(number);
        let Ok(entry) = self.expose(port, peer, bytes, key, waiter.handle) else { return false };
        let found = Found {
            pt_index: send.space.pt(),
            match_bits: MatchBits(send.tag),
            hdr_data: send.data.unwrap_or(0),
            user: send.user(),
            total_len: bytes.len,
            addr: bytes.addr,
        };
        if !self.answer(port, peer, &Waiting { watched, number, found: Some(found) }) {
            let unlinked = self.core.ni.me_unlink(entry);
            assert!(unlinked.is_ok(), "the entry was appended above");
            return false;
        }
        self.core.peers.state_mut(peer).queue.offer(number);
        if let Some(op) = self.sends.get_mut(waiter.handle) {
            op.state = SendState::Offered(entry, number);
        }
        true
    }

    /// Appends the get entry from which `peer` fetches a message.
    pub(crate) fn expose<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        bytes: Region,
        key: MatchBits,
        handle: Handle<SendOp>,
    ) -> Result<Handle<Me>, PtlError> {
        let entry = self.core.ni.me_append(
            port,
            PT_BULK,
            List::Priority,
            get_entry(peer, bytes, key, handle),
        )?;
        entry.ok_or(PtlError::ArgInvalid("a get entry meets no unexpected header"))
    }

    /// False if it has to wait for a control credit.
    fn answer<P: Port>(&mut self, port: &mut P, peer: PeerId, waiting: &Waiting) -> bool {
        let sent = self.core.ni.tell(port, peer, &Packet::Waiting(*waiting));
        // A peer that cannot be reached needs no answer.
        !matches!(sent, Err(PtlError::NoCredit { .. }))
    }

    /// A message told of is not wanted now. False if it was not told of, or is
    /// being got.
    fn on_decline<P: Port>(&mut self, port: &mut P, peer: PeerId, number: u64) -> bool {
        let Some(handle) = self.core.peers.state_mut(peer).queue.offered(number) else {
            return false;
        };
        let Some(op) = self.sends.get_mut(handle) else { return false };
        let SendState::Offered(entry, _) = op.state else { return false };
        if self.core.ni.me_unlink(entry).is_err() {
            return false;
        }
        if op.part != SenderCopy::None {
            return false;
        }
        op.state = SendState::Queued;
        self.core.peers.state_mut(peer).queue.end_offer(number, true);
        self.flush_peer(port, peer);
        true
    }
}
