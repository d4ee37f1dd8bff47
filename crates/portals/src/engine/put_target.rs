//! Puts at the target: what lands in an entry, and what is kept of what nobody
//! waits for yet.

use crate::engine::ni::Ni;
use crate::objects::event::{EventKind, NiFail};
use crate::objects::operation::Done;
use crate::objects::pt::Header;
use crate::objects::request::{Owed, Request};
use sluice_link::mutants::{self, Mutant};
use sluice_link::{Held, Port};
use sluice_wire::{Ack, AckKind, Addr, List, PeerId, Put, Region, Status};

impl Ni {
    #[inline(always)]
    pub(crate) fn on_put<P: Port>(
        &mut self,
        port: &mut P,
        from: PeerId,
        put: &Put,
        payload_len: u32,
        held: Held,
    ) {
        let request = Request::put(from, put, payload_len);
        let done = match self.admit(port, &request) {
            Err(status) => {
                if self.is_turned_away(port, status) {
                    return self.links.free(port, from, held);
                }
                Ack { op: 0, mlength: 0, offset: 0, list: List::Priority, status }
            }
            Ok(entry) => {
                let me = self.mes.at(entry);
                if me.list() == List::Overflow || put.bulk.is_some() || me.has_cold() {
                    return self.put_elsewhere(port, from, put, payload_len, held, entry);
                }
                self.put_in_place(port, &request, entry)
            }
        };
        self.acknowledge(port, from, put, done, held);
    }

    /// Tells the initiator what became of a put, `done` but for its name, if it
    /// wants to know; and frees its slots.
    #[inline(always)]
    fn acknowledge<P: Port>(
        &mut self,
        port: &mut P,
        from: PeerId,
        put: &Put,
        done: Ack,
        held: Held,
    ) {
        match put.ack {
            Some((_, op)) => {
                let ack = Ack { op, ..done };
                self.answer(port, Owed { peer: from, ack, held });
            }
            None if !held.is_none() => self.links.free(port, from, held),
            None => {}
        }
    }

    /// A put that has come with its bytes lands in a plain entry of the
    /// priority list: the path of nearly every message.
    /// Returns what the initiator is told.
    #[inline(always)]
    fn put_in_place<P: Port>(&mut self, port: &mut P, request: &Request, entry: u32) -> Ack {
        let (offset, fits) = self.mes.place(entry, request.remote_offset, request.rlength);
        // What is only announced has not moved.
        let mlength = if request.rts.is_some() { 0 } else { fits };
        let unlink = self.mes.consume(entry, mlength);
        let me = self.mes.at(entry);
        let into = Region { addr: me.region.addr.offset(offset), len: mlength };
        let mut event = Ni::comm_event(request, me);
        event.mlength = mlength;
        event.outcome = if mlength > 0 { land_in(port, into) } else { Ok(()) };
        if event.outcome != Err(NiFail::Segv) {
            event.start = into.addr;
        }
        let status = event.outcome.map_or_else(Status::from, |()| Status::Ok);
        event.announce(request.rts);
        self.tell_comm(entry, event);
        if unlink {
            self.unlink_from_list(entry);
            self.settle_used(entry);
        }
        let whole = mutants::is(Mutant::AcknowledgesTheWholeLength);
        let mlength = if whole { request.rlength } else { mlength };
        Ack { op: 0, mlength, offset, list: List::Priority, status }
    }

    /// Forgets an entry that was just unlinked, if it has nothing to tell any
    /// more, as [`Ni::settle_entry`] would.
    #[inline(always)]
    fn settle_used(&mut self, slot: u32) {
        let me = self.mes.at(slot);
        if me.flags.event_unlink_disable() && !me.has_cold() {
            self.mes.discard(slot);
        } else {
            self.settle_entry(self.mes.handle(slot));
        }
    }

    /// A put that does not land in a plain entry of the priority list, or not
    /// at once.
    #[inline(never)]
    fn put_elsewhere<P: Port>(
        &mut self,
        port: &mut P,
        from: PeerId,
        put: &Put,
        payload_len: u32,
        held: Held,
        entry: u32,
    ) {
        let request = Request::put(from, put, payload_len);
        let me = self.mes.at(entry);
        if me.list() == List::Overflow && me.flags.lent() {
            return self.put_lent(port, &request, put, payload_len, held, entry);
        }
        if put.bulk.is_some() {
            return self.put_bulk(port, &request, put, held, entry);
        }
        let (done, kept) = self.put_entry(port, &request, held, entry);
        let held = if kept { Held::NONE } else { held };
        self.acknowledge(port, from, put, done, held);
    }

    /// A put lands in the memory of an entry. Returns what the initiator is told, and
    /// whether a header was kept that has the credits.
    fn put_entry<P: Port>(
        &mut self,
        port: &mut P,
        request: &Request,
        held: Held,
        entry: u32,
    ) -> (Ack, bool) {
        let handle = self.mes.handle(entry);
        let (offset, fits) = self.mes.place(entry, request.remote_offset, request.rlength);
        // What is only announced has not moved.
        let mlength = if request.rts.is_some() { 0 } else { fits };
        let unlink = self.mes.consume(entry, mlength);
        let into = self.mes.span(entry, offset, mlength);
        let me = self.mes.at(entry);
        let list = me.list();
        let mut event = Ni::comm_event(request, me);
        event.mlength = mlength;
        let outcome = if self.is_writable(port, into) {
            event.start = self.start_of(into);
            if self.scatter(port, 0, into) { Ok(()) } else { Err(NiFail::CUT) }
        } else {
            Err(NiFail::Segv)
        };
        event.outcome = outcome;
        let holds = list == List::Overflow && self.limits.credits_until_matched;
        let slots = if holds { held.of_data() } else { 0 };
        let kept = self.keep_header_of(request, entry, &event, false, slots).is_some();
        event.announce(request.rts);
        if unlink {
            self.unlink_from_list(entry);
        }
        self.tell_comm(entry, event);
        if unlink {
            self.settle_entry(handle);
        }
        let status = outcome.map_or_else(Status::from, |()| Status::Ok);
        (Ack { op: 0, mlength, offset, list, status }, kept && holds)
    }

    /// A put whose data is to be fetched: what fits of it is, and the rest
    /// never moves.
    fn put_bulk<P: Port>(
        &mut self,
        port: &mut P,
        request: &Request,
        put: &Put,
        held: Held,
        entry: u32,
    ) {
        let (Some(bulk), Some((_, op))) = (put.bulk, put.ack) else { return };
        let handle = self.mes.handle(entry);
        let (offset, mlength) = self.mes.place(entry, request.remote_offset, request.rlength);
        let unlink = self.mes.consume(entry, mlength);
        let into = self.mes.span(entry, offset, mlength);
        let mut event = Ni::comm_event(request, self.mes.at(entry));
        event.mlength = mlength;
        event.start = self.start_of(into);
        let header = self.keep_header_of(request, entry, &event, true, 0);
        if unlink {
            self.unlink_from_list(entry);
        }
        self.start_moving(handle, request.pt_index);
        let done = Done { entry: handle, header, event, offset, answer: Some(op), held };
        let direct = Some(bulk.from).filter(|key| key.is_some());
        self.fetch_put(port, done, op, direct, into);
    }

    /// A put nobody waits for yet is kept in memory that the port lends, and
    /// keeps its credits. It is acknowledged at once, or when it is done with if the initiator
    /// asks for that.
    fn put_lent<P: Port>(
        &mut self,
        port: &mut P,
        request: &Request,
        put: &Put,
        payload_len: u32,
        held: Held,
        entry: u32,
    ) {
        let start = if payload_len > 0 {
            let start = port.lend(payload_len);
            if !port.copy_payload(0, start, payload_len) {
                // Its sender has ended, and nobody was told of it yet.
                port.give_back(start, payload_len);
                return self.links.free(port, request.peer, held);
            }
            start
        } else {
            Addr(0)
        };
        self.count_unexpected(request.peer);
        let header = Header {
            mlength: u64::from(payload_len),
            start,
            is_lent: true,
            slots: held.of_data(),
            ack: put.ack.map(|(_, op)| op),
            ..Header::of(request, self.mes.handle(entry), EventKind::PutOverflow)
        };
        let kept = self.keep_unexpected(request.pt_index, header, request.rts);
        // Each header holds at least one credit, and the table's limit is no
        // less than the credits granted (`Ni::new`).
        let kept = kept.expect("credits bound the unexpected headers");
        if put.ack.is_some_and(|(kind, _)| kind != AckKind::Matched) && !self.tell_kept(port, kept)
        {
            self.kept_untold.entry(request.peer).or_default().push_back(kept);
        }
    }
}

/// Copies the payload of a put, from its beginning, into memory of the client.
#[inline(always)]
fn land_in<P: Port>(port: &mut P, into: Region) -> Result<(), NiFail> {
    if !port.writable(into) {
        return Err(NiFail::Segv);
    }
    let left = u32::from(mutants::is(Mutant::CopiesTooLittle));
    let is_whole = port.copy_payload(0, into.addr, into.len as u32 - left);
    if is_whole { Ok(()) } else { Err(NiFail::CUT) }
}
