//! What arrives, handed to what it is for; and answers that wait for a credit.

use crate::engine::ni::Ni;
use crate::lists::Slab;
use crate::objects::event::{Event, EventKind, NiFail};
use crate::objects::me::Me;
use crate::objects::request::{Owed, Taken};
use sluice_link::mutants::{self, Mutant};
use sluice_link::{Arrival, Held, MailboxRegion, Opened, PeerError, Port, SendError, Violation};
use sluice_wire::{GetDone, Packet, Parsed, PeerId};
use std::collections::BTreeSet;

impl Ni {
    /// Handles a packet that has arrived.
    #[inline]
    pub fn on_packet<P: Port>(&mut self, port: &mut P, from: PeerId, packet: &Parsed) -> Taken {
        let arrival = match self.links.on_arrival(from, packet) {
            Ok(arrival) => arrival,
            // That is known; what is left of it is dropped.
            Err(Violation::Gone) => return Taken::Fine { brought_credits: false },
            Err(_) => {
                self.status.protocol_violations += 1;
                return Taken::Violation;
            }
        };
        let mut above = false;
        let sound = match &packet.packet {
            Packet::Put(put) => {
                let sound = !put.by_control || self.is_by_control(put.pt_index);
                if sound {
                    self.on_put(port, from, put, packet.payload_len, arrival.held());
                    if mutants::is_now(Mutant::DeliversTwice) {
                        self.on_put(port, from, put, packet.payload_len, Held::NONE);
                    }
                }
                sound
            }
            Packet::Ack(_)
            | Packet::Get(_)
            | Packet::Reply(_)
            | Packet::GetDone(_)
            | Packet::Atomic(_)
            | Packet::Offer(_)
            | Packet::Pull(_)
            | Packet::Recovery(_) => self.on_operation(port, from, packet, arrival.held()),
            // Only where credits are held until a message is matched is there a
            // layer above whose messages wait for them.
            Packet::Search(_)
            | Packet::Watch(_)
            | Packet::Waiting(_)
            | Packet::Decline(_)
            | Packet::Rtr(_)
            | Packet::Cts(_)
            | Packet::Written(_) => {
                above = self.limits.credits_until_matched;
                above
            }
            // The links have dealt with them.
            Packet::Credit | Packet::ReturnRequest | Packet::ReturnResponse(_) => true,
        };
        let is_held = matches!(packet.packet, Packet::Put(_) | Packet::Atomic(_));
        if arrival.region == MailboxRegion::Control && !is_held {
            self.links.free_control(port, from, arrival.slots);
        }
        if !sound {
            if arrival.answer_due {
                self.links.answer(port, from);
            }
            if arrival.region == MailboxRegion::Data || is_held {
                self.links.free(port, from, arrival.held());
            }
            self.status.protocol_violations += 1;
            return Taken::Violation;
        }
        let brought_credits = self.settle(port, from, &arrival);
        if above { Taken::Above { brought_credits } } else { Taken::Fine { brought_credits } }
    }

    /// What follows every packet that is sound: answers, what waited for the credits that
    /// it has brought, counters. Whether it has brought any.
    #[inline(always)]
    pub(crate) fn settle<P: Port>(
        &mut self,
        port: &mut P,
        from: PeerId,
        arrival: &Arrival,
    ) -> bool {
        if arrival.answer_due {
            self.links.answer(port, from);
        }
        if arrival.brought_credits {
            if !self.owed.is_empty() || !self.kept_untold.is_empty() {
                self.flush_owed_to(port, from);
            }
            if self.waiting_now != 0 {
                self.flush_waiting(port, from);
            }
            if self.recovery.is_some() {
                self.say_to(port, from);
            }
        }
        if self.has_freed_reply_slots || (arrival.brought_credits && !self.starved.is_empty()) {
            self.feed_starved(port);
        }
        self.fire(port);
        arrival.brought_credits
    }

    /// Handles what belongs to an operation, but a put. Whether it is sound.
    // Apart, since puts are most of what arrives: they are not to pay for the registers
    // that all of this needs.
    #[inline(never)]
    fn on_operation<P: Port>(
        &mut self,
        port: &mut P,
        from: PeerId,
        packet: &Parsed,
        held: Held,
    ) -> bool {
        let payload_len = packet.payload_len;
        match &packet.packet {
            Packet::Ack(ack) => self.on_ack(port, from, ack),
            Packet::Get(get) => self.on_get(port, from, get),
            Packet::Reply(reply) => self.on_reply(port, from, reply, payload_len),
            Packet::GetDone(done) => {
                self.on_get_done(from, done);
                true
            }
            Packet::Atomic(atomic) => {
                let sound = !atomic.by_control || self.is_by_control(atomic.pt_index);
                sound && self.on_atomic(port, from, atomic, payload_len, held)
            }
            Packet::Offer(offer) => self.on_offer(port, from, offer),
            Packet::Pull(pull) => self.on_pull(port, from, pull),
            Packet::Recovery(said) => self.on_recovery(port, from, said),
            _ => unreachable!("no operation's packet"),
        }
    }

    /// The initiator wants no more of a get entry: it is unlinked. One that is
    /// not there any more was cancelled by its owner; that is no fault.
    fn on_get_done(&mut self, from: PeerId, done: &GetDone) {
        if mutants::is_now(Mutant::LosesFins) {
            return;
        }
        let slot = self.pts.get_mut(usize::from(done.pt_index.0));
        let Some(pt) = slot.and_then(Option::as_mut) else { return };
        let is_get = |mes: &Slab<Me>, slot: u32| mes.at(slot).flags.get_done();
        let found = pt.priority.find(&mut self.mes, done.match_bits, from, is_get);
        let Some(slot) = found else { return };
        let me = *self.mes.at(slot);
        self.unlink_from_list(slot);
        self.forget_entry(slot);
        let mut event = Event::new(EventKind::GetDone, done.pt_index, from, me.user_ptr);
        event.match_bits = done.match_bits;
        event.rlength = me.region.len;
        event.mlength = done.length.min(me.region.len);
        event.outcome = NiFail::check(done.status);
        let eq = self.eq_of(done.pt_index);
        self.post(eq, event);
    }

    #[inline]
    pub(crate) fn answer<P: Port>(&mut self, port: &mut P, owed: Owed) {
        if !self.try_answer(port, &owed) {
            self.owed.entry(owed.peer).or_default().push_back(owed);
        }
    }

    /// False if it has to wait for a control credit.
    #[inline]
    fn try_answer<P: Port>(&mut self, port: &mut P, owed: &Owed) -> bool {
        let sent = self.links.send_control(port, owed.peer, &Packet::Ack(owed.ack));
        if sent.is_err_and(|error| is_no_credit(&error)) {
            return mutants::is(Mutant::ForgetsAcknowledgements);
        }
        if !owed.held.is_none() {
            self.links.free(port, owed.peer, owed.held);
        }
        true
    }

    /// Sends the acknowledgements that waited for control credits, as far as these go.
    #[cold]
    fn flush_owed<P: Port>(&mut self, port: &mut P) {
        let peers: BTreeSet<PeerId> =
            self.owed.keys().chain(self.kept_untold.keys()).copied().collect();
        for peer in peers {
            self.flush_owed_to(port, peer);
        }
    }

    /// Those to one peer. The first that finds no credit is the last that is tried: with thousands
    /// of them each credit would cost as much otherwise.
    #[cold]
    pub(crate) fn flush_owed_to<P: Port>(&mut self, port: &mut P, peer: PeerId) {
        if let Some(mut queue) = self.owed.remove(&peer) {
            while let Some(owed) = queue.front()
                && self.try_answer(port, owed)
            {
                queue.pop_front();
            }
            if !queue.is_empty() {
                self.owed.insert(peer, queue);
            }
        }
        if let Some(mut kept) = self.kept_untold.remove(&peer) {
            while let Some(&first) = kept.front()
                && self.tell_kept(port, first)
            {
                kept.pop_front();
            }
            if !kept.is_empty() {
                self.kept_untold.insert(peer, kept);
            }
        }
    }

    /// The connection to a peer is open, which an operation has asked for: what waited for
    /// it goes.
    ///
    /// # Errors
    /// Why it cannot be used. The caller says [`Ni::on_peer_gone`].
    pub fn on_connected<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        opened: Opened,
    ) -> Result<(), PeerError> {
        self.links.on_connected(peer, opened)?;
        self.flush_owed_to(port, peer);
        self.flush_waiting(port, peer);
        self.feed_starved(port);
        self.fire(port);
        Ok(())
    }

    /// Sends what an idle moment is for: credits, and answers that waited for
    /// a control credit.
    pub fn on_idle<P: Port>(&mut self, port: &mut P) {
        if !self.owed.is_empty() || !self.kept_untold.is_empty() {
            self.flush_owed(port);
        }
        if self.has_freed_reply_slots || !self.starved.is_empty() || self.waiting_now != 0 {
            self.feed_starved(port);
        }
        if let Some(recovery) = &mut self.recovery
            && recovery.minds_idle()
        {
            self.recover_when_idle(port);
        }
        self.links.on_idle(port);
        self.fire(port);
    }
}

/// A send that needs a credit it does not have waits, or a connection that is not open; any
/// other failure is the peer's.
pub(crate) fn is_no_credit(error: &SendError) -> bool {
    matches!(error, SendError::NoCredit { .. } | SendError::Connecting)
}
