//! What arrives: which entry takes it (Portals 4, section 3.12), what that
//! entry's owner is told, and the answers that the initiator is owed.

use crate::engine::initiate::is_no_credit;
use crate::engine::ni::Ni;
use crate::lists::Slab;
use crate::objects::event::{Event, EventKind, NiFail};
use crate::objects::me::Me;
use crate::objects::operation::Done;
use crate::objects::pt::{Header, RareHeader};
use crate::table::Handle;
use sluice_link::{MailboxRegion, Port};
use sluice_wire::{
    Ack, AtomicOp, Datatype, GetDone, List, MatchBits, Packet, Parsed, PeerId, PtIndex, Put, Rts,
    Status,
};

/// An acknowledgement that is to be sent, or waits for a control credit. There
/// are at most as many as the data credits granted and the transfers under way:
/// the put that asked for one keeps its slots until the acknowledgement is
/// gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owed {
    pub peer: PeerId,
    pub ack: Ack,
    /// Slots of the data region that are freed with it. None for a put whose
    /// header is in an overflow entry of the client's: the header has them.
    pub slots: u32,
}

/// What [`Ni::on_packet`] made of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It was what it should be.
    Fine {
        /// Whether it brought credits, so that stalled sends may go.
        brought_credits: bool,
    },
    /// It tells of messages that wait for credits, and is for the layer above,
    /// which alone knows them. It is accounted for.
    Above {
        /// Whether it brought credits, so that stalled sends may go.
        brought_credits: bool,
    },
    /// The peer broke the protocol; nothing from it can be trusted.
    Violation,
}

/// An operation that looks for an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub peer: PeerId,
    pub pt_index: PtIndex,
    pub match_bits: MatchBits,
    pub hdr_data: u64,
    pub user: u8,
    pub remote_offset: u64,
    pub rlength: u64,
    pub what: What,
    pub rts: Option<Rts>,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Put,
    Get,
    Atomic(AtomicOp, Datatype),
    Fetch(AtomicOp, Datatype),
}

impl Ni {
    /// Handles a packet that has arrived.
    #[inline]
    pub fn on_packet<P: Port>(&mut self, port: &mut P, from: PeerId, packet: &Parsed) -> Taken {
        let Ok(arrival) = self.links.on_arrival(from, packet) else {
            self.status.protocol_violations += 1;
            return Taken::Violation;
        };
        let mut above = false;
        let sound = match &packet.packet {
            Packet::Put(put) => {
                self.on_put(port, from, put, packet.payload_len, arrival.slots);
                true
            }
            Packet::Ack(ack) => self.on_ack(port, from, ack),
            Packet::Get(get) => self.on_get(port, from, get),
            Packet::Reply(reply) => self.on_reply(port, from, reply, packet.payload_len),
            Packet::GetDone(done) => {
                self.on_get_done(from, done);
                true
            }
            Packet::Credit => true,
            Packet::Atomic(atomic) => {
                self.on_atomic(port, from, atomic, packet.payload_len, arrival.slots)
            }
            Packet::Offer(offer) => self.on_offer(port, from, offer),
            Packet::Pull(pull) => self.on_pull(port, from, pull),
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
            Packet::ReturnRequest | Packet::ReturnResponse(_) => true,
        };
        if arrival.region == MailboxRegion::Control {
            self.links.free_control(port, from, arrival.slots);
        }
        if arrival.answer_due {
            self.links.answer(port, from);
        }
        if !sound {
            self.status.protocol_violations += 1;
            return Taken::Violation;
        }
        if arrival.brought_credits {
            if !self.owed.is_empty() {
                self.flush_owed(port);
            }
            if self.waiting_now != 0 {
                self.flush_waiting(port, from);
            }
        }
        if self.has_freed_reply_slots || (arrival.brought_credits && !self.starved.is_empty()) {
            self.feed_starved(port);
        }
        self.fire(port);
        let brought_credits = arrival.brought_credits;
        if above { Taken::Above { brought_credits } } else { Taken::Fine { brought_credits } }
    }

    /// Sends the acknowledgements that waited for a control credit.
    pub(crate) fn flush_owed<P: Port>(&mut self, port: &mut P) {
        for _ in 0..self.owed.len() {
            let Some(owed) = self.owed.pop_front() else { return };
            self.answer(port, owed);
        }
    }

    /// The slot of the entry that takes an operation.
    ///
    /// # Errors
    /// What the initiator is told if none does.
    #[inline(always)]
    pub(crate) fn admit<P: Port>(&mut self, port: &P, request: &Request) -> Result<u32, Status> {
        let slot = self.pts.get_mut(usize::from(request.pt_index.0));
        let Some(pt) = slot.and_then(Option::as_mut) else {
            self.status.dropped += 1;
            return Err(Status::NoMatch);
        };
        if !pt.enabled {
            self.status.dropped += 1;
            return Err(Status::PtDisabled);
        }
        let (remote_offset, rlength) = (request.remote_offset, request.rlength);
        let fits = |mes: &Slab<Me>, slot: u32| {
            !mes.at(slot).flags.no_truncate()
                || mes.landing(slot, remote_offset, rlength).1 == rlength
        };
        let (bits, peer) = (request.match_bits, request.peer);
        let found = match pt.priority.find(&mut self.mes, bits, peer, fits) {
            Some(found) => Some(found),
            None => pt.overflow.find(&mut self.mes, bits, peer, fits),
        };
        let Some(slot) = found else {
            return Err(self.refuse(request.pt_index, true));
        };
        let me = self.mes.at(slot);
        let flags = me.flags;
        let list = me.list();
        if me.has_rare() && self.mes.rare(slot).uid.is_some_and(|uid| uid != port.uid(peer)) {
            self.status.permission_violations += 1;
            return Err(Status::PermViolation);
        }
        let allowed = match request.what {
            What::Put | What::Atomic(..) => flags.op_put(),
            What::Get => flags.op_get(),
            What::Fetch(..) => flags.op_put() && flags.op_get(),
        };
        if !allowed {
            self.status.operation_violations += 1;
            return Err(Status::OpViolation);
        }
        let keeps_header = list == List::Overflow && !flags.unexpected_hdr_disable();
        let tells = !flags.event_flowctrl_disable();
        if keeps_header && self.headers.is_full() {
            return Err(self.refuse(request.pt_index, tells));
        }
        if pt.flow_control {
            let events = self.mes.events_due(slot, remote_offset, rlength);
            let has_room =
                pt.eq.and_then(|eq| self.eqs.get(eq)).is_none_or(|eq| eq.has_room(events));
            if !has_room {
                return Err(self.refuse(request.pt_index, tells));
            }
        }
        Ok(slot)
    }

    /// Something has run out: with flow control the portal table entry is
    /// disabled, else the operation is dropped.
    #[cold]
    fn refuse(&mut self, pt_index: PtIndex, tells: bool) -> Status {
        self.status.dropped += 1;
        let Some(pt) = self.pts[usize::from(pt_index.0)].as_mut() else { return Status::NoMatch };
        if !pt.flow_control {
            return Status::NoMatch;
        }
        pt.enabled = false;
        pt.event_owed = tells;
        self.tell_disabled(pt_index);
        Status::PtDisabled
    }

    /// Tells that a portal table entry is disabled, once nothing is under way
    /// there any more.
    pub(crate) fn tell_disabled(&mut self, pt_index: PtIndex) {
        let Some(pt) = self.pts[usize::from(pt_index.0)].as_mut() else { return };
        if pt.active > 0 || !pt.event_owed {
            return;
        }
        pt.event_owed = false;
        let mut event =
            Event::new(EventKind::PtDisabled, pt_index, crate::engine::append::NOBODY, 0);
        event.outcome = Err(NiFail::PtDisabled);
        if let Some(eq) = pt.eq.and_then(|eq| self.eqs.get_mut(eq)) {
            eq.push_over(event);
        }
    }

    /// The event of an operation on an entry, but for how it went.
    #[inline(always)]
    pub(crate) fn comm_event(request: &Request, me: &Me) -> Event {
        let kind = match request.what {
            What::Put => EventKind::Put,
            What::Get => EventKind::Get,
            What::Atomic(..) => EventKind::Atomic,
            What::Fetch(..) => EventKind::FetchAtomic,
        };
        let mut event = Event::new(kind, request.pt_index, request.peer, me.user_ptr);
        event.match_bits = request.match_bits;
        event.hdr_data = request.hdr_data;
        event.user = request.user;
        event.rlength = request.rlength;
        event.remote_offset = request.remote_offset;
        event.list = me.list();
        event.atomic = match request.what {
            What::Atomic(op, datatype) | What::Fetch(op, datatype) => Some((op, datatype)),
            What::Put | What::Get => None,
        };
        event
    }

    /// Counts and tells what happened on an entry.
    #[inline(always)]
    pub(crate) fn tell_comm(&mut self, entry: u32, event: Event) {
        let me = self.mes.at(entry);
        let flags = me.flags;
        let ok = event.outcome.is_ok();
        if flags.ct_comm() {
            let ct = self.mes.rare(entry).ct;
            self.note_header(ct, &event);
            self.count(ct, ok, flags.ct_bytes().then_some(event.mlength));
        }
        let unwanted = flags.event_comm_disable() || (ok && flags.event_success_disable());
        if !unwanted {
            let eq = self.eq_of(event.pt_index);
            self.post(eq, event);
        }
    }

    /// Keeps the header of what landed in an overflow entry, if that wants it.
    #[inline(never)]
    pub(crate) fn keep_header_of(
        &mut self,
        request: &Request,
        entry: u32,
        event: &Event,
        arriving: bool,
        slots: u32,
    ) -> Option<Handle<Header>> {
        let me = self.mes.at(entry);
        if me.list() != List::Overflow || me.flags.unexpected_hdr_disable() {
            return None;
        }
        self.status.unexpected += 1;
        let kind = match request.what {
            What::Put => EventKind::PutOverflow,
            What::Get => EventKind::GetOverflow,
            What::Atomic(..) => EventKind::AtomicOverflow,
            What::Fetch(..) => EventKind::FetchAtomicOverflow,
        };
        let header = Header {
            mlength: event.mlength,
            start: event.start,
            slots,
            atomic: event.atomic,
            outcome: event.outcome,
            arriving,
            ..Header::of(request, self.mes.handle(entry), kind)
        };
        let kept = self.keep_unexpected(request.pt_index, header, request.rts);
        assert!(kept.is_some(), "room for the header was checked when the entry was found");
        kept
    }

    /// The data of an operation on an entry has begun to move: the entry and
    /// its portal table entry are busy until [`Ni::finish`].
    pub(crate) fn start_moving(&mut self, entry: Handle<Me>, pt_index: PtIndex) {
        let mut events = 0;
        if let Some(slot) = self.mes.locate(entry) {
            self.mes.rare_mut(slot).busy += 1;
            events = self.mes.events_of_move(slot);
        }
        if let Some(pt) = self.pts[usize::from(pt_index.0)].as_mut() {
            pt.active += 1;
            if pt.flow_control
                && let Some(eq) = pt.eq.and_then(|eq| self.eqs.get_mut(eq))
            {
                eq.keep(events);
            }
        }
    }

    /// The data of an operation on an entry has moved, or will not.
    pub(crate) fn finish<P: Port>(
        &mut self,
        port: &mut P,
        done: Done,
        outcome: Result<(), NiFail>,
    ) {
        let Done { entry, header, mut event, offset, answer, slots } = done;
        event.outcome = outcome;
        let (peer, pt_index) = (event.peer, event.pt_index);
        if let Some(op) = answer {
            let status = outcome.map_or_else(Status::from, |()| Status::Ok);
            let (mlength, list) = (event.mlength, event.list);
            let ack = Ack { op, mlength, offset, list, status };
            self.answer(port, Owed { peer, ack, slots });
        } else if slots > 0 {
            self.links.free_data(port, peer, slots);
        }
        let mut events = 0;
        if let Some(slot) = self.mes.locate(entry) {
            self.mes.rare_mut(slot).busy -= 1;
            events = self.mes.events_of_move(slot);
        }
        if let Some(pt) = self.pts[usize::from(pt_index.0)].as_mut() {
            pt.active -= 1;
            if pt.flow_control
                && let Some(eq) = pt.eq.and_then(|eq| self.eqs.get_mut(eq))
            {
                eq.give_back(events);
            }
        }
        if let Some(slot) = self.mes.locate(entry) {
            self.tell_comm(slot, event);
        }
        if let Some(slot) = header.and_then(|header| self.headers.locate(header)) {
            let header = self.headers.at_mut(slot);
            header.arriving = false;
            header.outcome = outcome;
            let RareHeader { claim, claimer, .. } = *self.headers.beside(slot);
            if let Some(claim) = claim {
                self.tell_taken(port, slot, claimer, claim);
            }
        }
        self.settle_entry(entry);
        self.tell_disabled(pt_index);
    }

    /// The initiator wants no more of a get entry: it is unlinked. One that is
    /// not there any more was cancelled by its owner; that is no fault.
    fn on_get_done(&mut self, from: PeerId, done: &GetDone) {
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
        let sent = self.links.send_control(port, owed.peer, &Packet::Ack(owed.ack));
        if sent.is_err_and(|error| is_no_credit(&error)) {
            self.owed.push_back(owed);
        } else if owed.slots > 0 {
            self.links.free_data(port, owed.peer, owed.slots);
        }
    }
}

impl Slab<Me> {
    /// Events for which places are kept while data moves: of the operation,
    /// and of the unlinking and freeing of the entry, which wait for it.
    fn events_of_move(&self, slot: u32) -> usize {
        let me = self.at(slot);
        let flags = me.flags;
        let may_unlink =
            flags.use_once() || (flags.manage_local() && self.rare(slot).min_free != 0);
        let unlinks = may_unlink && !flags.event_unlink_disable();
        let frees = unlinks && me.list() == List::Overflow;
        usize::from(!flags.event_comm_disable()) + usize::from(unlinks) + usize::from(frees)
    }

    /// How many events an operation on this entry may cause at once.
    fn events_due(&self, slot: u32, remote_offset: u64, rlength: u64) -> usize {
        let me = self.at(slot);
        let flags = me.flags;
        let comm = !flags.event_comm_disable() && !flags.event_success_disable();
        let (offset, fits) = self.landing(slot, remote_offset, rlength);
        let left = me.region.len - offset - fits;
        let exhausted = flags.manage_local() && left < self.rare(slot).min_free;
        let unlinks = (flags.use_once() || exhausted) && !flags.event_unlink_disable();
        let frees = unlinks && me.list() == List::Overflow && flags.unexpected_hdr_disable();
        usize::from(comm) + usize::from(unlinks) + usize::from(frees)
    }
}

impl Request {
    #[inline(always)]
    pub(crate) fn put(peer: PeerId, put: &Put, payload_len: u32) -> Request {
        let rlength = match (&put.rts, &put.bulk) {
            (Some(rts), _) => rts.total_len,
            (None, Some(bulk)) => u64::from(bulk.len),
            (None, None) => u64::from(payload_len),
        };
        Request {
            peer,
            pt_index: put.pt_index,
            match_bits: put.match_bits,
            hdr_data: put.hdr_data,
            user: put.user,
            remote_offset: put.remote_offset,
            rlength,
            what: What::Put,
            rts: put.rts,
        }
    }
}
