//! Where packets and requests are looked at for who wants them noted. Nobody mostly does: then
//! each of these is a look at a pointer.

use super::copy::slot_bytes;
use super::ring::WORDS;
use super::{Shm, clock_now};
use crate::observer::{Observer, Request, Tally};
use sluice_link::TaggedMessage;
use sluice_wire::{HeadBuf, Packet, Parsed, PeerId};

impl Shm {
    /// What is noted, if anything is.
    pub(crate) fn observer(&self) -> Option<&Observer> {
        self.observer.as_deref()
    }

    /// Packets are counted from now on. False if they were already.
    pub(super) fn begin_counting(&mut self) -> bool {
        if self.observer.is_some() {
            return false;
        }
        self.observer = Some(Box::new(Observer::new(self.clock, None)));
        true
    }

    /// Nothing is noted any more.
    pub(super) fn end_counting(&mut self) {
        self.observer = None;
    }

    /// What was exchanged with a peer, as far as that is counted.
    pub(crate) fn tally(&self, peer: PeerId) -> Tally {
        self.observer().map(|observer| observer.tally(peer)).unwrap_or_default()
    }

    /// A packet is about to go.
    #[inline(always)]
    pub(crate) fn observe_out(&mut self, peer: PeerId, head: &HeadBuf) {
        if self.observer.is_some() {
            // By value, so that the head stays in registers where nobody looks.
            self.note_out(peer, *head);
        }
    }

    /// A packet has come into the mailbox.
    #[inline(always)]
    pub(super) fn observe_in(&mut self, peer: PeerId, copy: &[u64; WORDS]) {
        if self.observer.is_some() {
            self.note_slot(peer, copy);
        }
    }

    /// A packet has come by another rail.
    #[inline]
    pub(crate) fn observe_arrival(&mut self, peer: PeerId, packet: &Parsed) {
        if let Some(observer) = &mut self.observer {
            observer.note_in(clock_now, peer, packet);
        }
    }

    /// A message is given to a rail that matches.
    pub(crate) fn observe_matched(&mut self, peer: PeerId, message: &TaggedMessage) {
        if let Some(observer) = &mut self.observer {
            observer.note_matched(peer, message);
        }
    }

    /// Something happens to a request of the layer above.
    #[inline(always)]
    pub(crate) fn observe_request(&mut self, peer: Option<PeerId>, request: Request) {
        if self.observer.is_some() {
            self.note_request(peer, request);
        }
    }

    /// The newest request to send or to receive was refused.
    #[cold]
    pub(crate) fn observe_refusal(&mut self) {
        if let Some(observer) = &mut self.observer {
            observer.withdraw_request();
        }
    }

    /// Bytes are to be moved between the memories of two processes.
    #[inline]
    pub(crate) fn observe_move(&mut self, peer: PeerId, writes: bool, len: u64) {
        if let Some(observer) = &mut self.observer {
            observer.note_move(clock_now, peer, writes, len);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_out(&mut self, peer: PeerId, head: HeadBuf) {
        if let (Ok(packet), Some(observer)) = (Packet::parse(head.slot()), &mut self.observer) {
            observer.note_out(clock_now, peer, &packet);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_slot(&mut self, peer: PeerId, copy: &[u64; WORDS]) {
        // What is not sound is refused by who reads it.
        if let Ok(packet) = Packet::parse(slot_bytes(copy)) {
            self.observe_arrival(peer, &packet);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_request(&mut self, peer: Option<PeerId>, request: Request) {
        if let Some(observer) = &mut self.observer {
            observer.note_request(clock_now, peer, request);
        }
    }
}
