//! What arrives: puts and gets on this process's entries, and the answers that
//! they are owed.

use crate::event::{Event, EventKind};
use crate::initiator::{Operation, Stage, is_no_credit};
use crate::me::{List, Me};
use crate::ni::Ni;
use crate::pt::Header;
use crate::table::Handle;
use sluice_link::{Arrival, MailboxRegion, Port, Token, Transmitted};
use sluice_wire::{Ack, Addr, Get, GetDone, Packet, Parsed, PeerId, Put, Region, Reply, Status};

use crate::matching::{Found, Op};

/// Most bytes that the reply to one get may carry. A reply region has at most
/// `u16::MAX` slots, whoever divides it; each holds 60 bytes or more, and this
/// leaves room for the header.
const REPLY_BYTES_MAX: u64 =
    (u16::MAX as u64 - 1) * sluice_wire::NEXT_SLOT_BYTES - sluice_wire::SLOT_BYTES as u64;

/// An acknowledgement that is to be sent, or waits for a control credit. There
/// are at most as many as the data credits granted: the put that asked for one
/// keeps its own until the acknowledgement is gone.
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
    /// The peer broke the protocol; nothing from it can be trusted.
    Violation,
}

impl Ni {
    /// Handles a packet that has arrived.
    #[inline]
    pub fn on_packet<P: Port>(&mut self, port: &mut P, from: PeerId, packet: &Parsed) -> Taken {
        let Ok(arrival) = self.links.on_arrival(from, packet) else {
            self.status.protocol_violations += 1;
            return Taken::Violation;
        };
        let sound = match &packet.packet {
            Packet::Put(put) => {
                self.on_put(port, from, put, packet.payload_len, arrival);
                true
            }
            Packet::Ack(ack) => self.on_ack(from, ack),
            Packet::Get(get) => {
                self.on_get(port, from, get);
                true
            }
            Packet::Reply(reply) => {
                self.on_reply(port, from, reply.op, reply.status, packet.payload_len)
            }
            Packet::GetDone(done) => {
                self.on_get_done(from, done);
                true
            }
            Packet::Credit => true,
        };
        if arrival.region == MailboxRegion::Control {
            self.links.free_control(port, from, arrival.slots);
        }
        if !sound {
            self.status.protocol_violations += 1;
            return Taken::Violation;
        }
        if arrival.brought_credits && !self.owed.is_empty() {
            self.flush_owed(port);
        }
        Taken::Fine { brought_credits: arrival.brought_credits }
    }

    /// Sends the acknowledgements that waited for a control credit.
    pub(crate) fn flush_owed<P: Port>(&mut self, port: &mut P) {
        for _ in 0..self.owed.len() {
            let Some(owed) = self.owed.pop_front() else { return };
            self.answer(port, owed);
        }
    }

    #[inline(always)]
    fn on_put<P: Port>(
        &mut self,
        port: &mut P,
        from: PeerId,
        put: &Put,
        payload_len: u32,
        arrival: Arrival,
    ) {
        let rlength = put.rts.map_or(u64::from(payload_len), |rts| rts.total_len);
        let found = self.find_entry(
            put.pt_index,
            Op::Put,
            from,
            put.match_bits,
            put.remote_offset,
            rlength,
        );
        let (mlength, status, slots) = match found {
            Found::Nothing => {
                self.status.dropped += 1;
                let known = self.pt(put.pt_index).is_ok();
                (0, if known { Status::NoMatch } else { Status::PtDisabled }, arrival.slots)
            }
            Found::Violation => {
                self.status.operation_violations += 1;
                (0, Status::OpViolation, arrival.slots)
            }
            Found::Entry(entry) => {
                let me = self.mes.get_mut(entry).expect("just found");
                if me.list == List::Overflow && me.spec.options.lent {
                    self.put_lent(port, from, put, payload_len, arrival, entry);
                    return;
                }
                let (mlength, kept) = self.put_entry(port, from, put, payload_len, arrival, entry);
                (mlength, Status::Ok, if kept { 0 } else { arrival.slots })
            }
        };
        match put.ack {
            Some((_, op)) => {
                let ack = Ack { op, mlength, status };
                self.answer(port, Owed { peer: from, ack, slots });
            }
            None if slots > 0 => self.links.free_data(port, from, slots),
            None => {}
        }
    }

    /// A put lands in the memory of an entry. Returns how many bytes did, and
    /// whether a header was kept, which then has the credits.
    #[inline(always)]
    fn put_entry<P: Port>(
        &mut self,
        port: &mut P,
        from: PeerId,
        put: &Put,
        payload_len: u32,
        arrival: Arrival,
        entry: Handle<Me>,
    ) -> (u64, bool) {
        let me = self.mes.get_mut(entry).expect("just found");
        let rlength = put.rts.map_or(u64::from(payload_len), |rts| rts.total_len);
        let (offset, fits) = me.landing(put.remote_offset, rlength);
        // What is only announced has not moved.
        let mlength = if put.rts.is_some() { 0 } else { fits };
        let start = me.spec.region.addr.offset(offset);
        let exhausted = me.consume(mlength);
        let spec = me.spec;
        let list = me.list;
        if mlength > 0 {
            port.copy_payload(0, start, mlength as u32);
        }
        let unlink = spec.options.use_once || exhausted;
        let keep_header = list == List::Overflow && !spec.options.unexpected_hdr_disable;
        if keep_header {
            self.keep_header(from, put, rlength, mlength, start, entry, None, arrival.slots);
        }
        let mut freed = false;
        if unlink {
            self.unlink_from_list(entry);
            let me = self.mes.get_mut(entry).expect("just found");
            if me.headers > 0 {
                me.zombie = true;
            } else {
                self.mes.discard(entry);
                freed = list == List::Overflow;
            }
        }
        self.count_comm(&spec, mlength);
        let eq = self.pts[usize::from(put.pt_index.0)].as_ref().and_then(|pt| pt.eq);
        let wanted = !spec.options.event_comm_disable && !spec.options.event_success_disable;
        if wanted && list == List::Priority {
            let mut event = Event::new(EventKind::Put, put.pt_index, from, spec.user_ptr);
            event.match_bits = put.match_bits;
            event.hdr_data = put.hdr_data;
            event.user = put.user;
            event.rlength = rlength;
            event.mlength = mlength;
            event.start = start;
            event.rts = put.rts;
            self.post(eq, event);
        }
        if unlink && !spec.options.event_unlink_disable {
            self.post(eq, Event::new(EventKind::AutoUnlink, put.pt_index, from, spec.user_ptr));
        }
        if freed && !spec.options.event_unlink_disable {
            // No header points into it, so nobody else will say it.
            self.post(eq, Event::new(EventKind::AutoFree, put.pt_index, from, spec.user_ptr));
        }
        (mlength, keep_header)
    }

    /// A put nobody waits for yet is kept in memory that the port lends, and
    /// keeps its credits. It is acknowledged when it is done with.
    fn put_lent<P: Port>(
        &mut self,
        port: &mut P,
        from: PeerId,
        put: &Put,
        payload_len: u32,
        arrival: Arrival,
        entry: Handle<Me>,
    ) {
        let start = if payload_len > 0 {
            let start = port.lend(payload_len);
            port.copy_payload(0, start, payload_len);
            start
        } else {
            Addr(0)
        };
        let rlength = put.rts.map_or(u64::from(payload_len), |rts| rts.total_len);
        let mlength = u64::from(payload_len);
        let lent = Some(payload_len);
        self.keep_header(from, put, rlength, mlength, start, entry, lent, arrival.slots);
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one header")]
    fn keep_header(
        &mut self,
        from: PeerId,
        put: &Put,
        rlength: u64,
        mlength: u64,
        start: Addr,
        entry: Handle<Me>,
        lent: Option<u32>,
        slots: u32,
    ) {
        self.status.unexpected += 1;
        let kept = self.keep_unexpected(
            put.pt_index,
            Header {
                pt_index: put.pt_index,
                peer: from,
                match_bits: put.match_bits,
                hdr_data: put.hdr_data,
                user: put.user,
                rlength,
                mlength,
                start,
                rts: put.rts,
                entry,
                lent,
                slots,
                ack: lent.and(put.ack).map(|(_, op)| op),
                prev: None,
                next: None,
            },
        );
        // Each header holds at least one credit, and the table's limit is no
        // less than the credits granted (`Ni::new`).
        assert!(kept.is_some(), "credits bound the unexpected headers");
        if let Some(me) = self.mes.get_mut(entry) {
            me.headers += 1;
        }
    }

    fn on_get<P: Port>(&mut self, port: &mut P, from: PeerId, get: &Get) {
        let found = self.find_entry(
            get.pt_index,
            Op::Get,
            from,
            get.match_bits,
            get.remote_offset,
            get.length,
        );
        let (payload, status) = match found {
            Found::Nothing => {
                self.status.dropped += 1;
                let known = self.pt(get.pt_index).is_ok();
                (Region::EMPTY, if known { Status::NoMatch } else { Status::PtDisabled })
            }
            // No honest initiator asks for more than its own reply region.
            Found::Entry(entry) if get.length <= REPLY_BYTES_MAX => {
                (self.get_entry(from, get, entry), Status::Ok)
            }
            Found::Entry(_) | Found::Violation => {
                self.status.operation_violations += 1;
                (Region::EMPTY, Status::OpViolation)
            }
        };
        let handle = self.operations.next_handle();
        let packet = Packet::Reply(Reply { op: get.op, status });
        let token = Token(handle.to_u64());
        if let Ok(Transmitted::Pending) = self.links.send_reply(port, from, &packet, payload, token)
        {
            // The memory is the entry's: its owner is told by the get-done.
            let _ = self.operations.insert(Operation {
                peer: from,
                pt_index: get.pt_index,
                md: Handle::from_u64(0),
                user_ptr: 0,
                stage: Stage::Answer,
            });
        }
    }

    fn get_entry(&mut self, from: PeerId, get: &Get, entry: Handle<Me>) -> Region {
        let me = self.mes.get_mut(entry).expect("just found");
        let (offset, mlength) = me.landing(get.remote_offset, get.length);
        let start = me.spec.region.addr.offset(offset);
        let exhausted = me.consume(mlength);
        let spec = me.spec;
        if spec.options.use_once || exhausted {
            self.unlink_from_list(entry);
            self.mes.remove(entry);
        }
        self.count_comm(&spec, mlength);
        if !spec.options.event_comm_disable && !spec.options.event_success_disable {
            let mut event = Event::new(EventKind::Get, get.pt_index, from, spec.user_ptr);
            event.match_bits = get.match_bits;
            event.rlength = get.length;
            event.mlength = mlength;
            event.start = start;
            let eq = self.pts[usize::from(get.pt_index.0)].as_ref().and_then(|pt| pt.eq);
            self.post(eq, event);
        }
        Region { addr: start, len: mlength }
    }

    /// The initiator wants no more of a get entry: it is unlinked. One that is
    /// not there any more was cancelled by its owner; that is no fault.
    fn on_get_done(&mut self, from: PeerId, done: &GetDone) {
        let found = self.find_entry(done.pt_index, Op::Get, from, done.match_bits, 0, 0);
        let Found::Entry(entry) = found else { return };
        self.unlink_from_list(entry);
        let Some(me) = self.mes.remove(entry) else { return };
        let mut event = Event::new(EventKind::GetDone, done.pt_index, from, me.spec.user_ptr);
        event.match_bits = done.match_bits;
        event.rlength = me.spec.region.len;
        event.mlength = done.length.min(me.spec.region.len);
        event.outcome = crate::event::NiFail::check(done.status);
        let eq = self.pts[usize::from(done.pt_index.0)].as_ref().and_then(|pt| pt.eq);
        self.post(eq, event);
    }

    pub(crate) fn answer<P: Port>(&mut self, port: &mut P, owed: Owed) {
        let sent = self.links.send_control(port, owed.peer, &Packet::Ack(owed.ack));
        if sent.is_err_and(|error| is_no_credit(&error)) {
            self.owed.push_back(owed);
        } else if owed.slots > 0 {
            self.links.free_data(port, owed.peer, owed.slots);
        }
    }
}
