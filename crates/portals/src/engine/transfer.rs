//! Data that does not travel with its header: fetched by the target of a put,
//! written or offered by the target of a get, pulled in pieces where a rail
//! cannot reach the other side's memory.
//!
//! Invariant: every transfer ends, by its last byte, by a refusal, or by the
//! end of the peer; and its end is told once.

use crate::engine::admit::{Owed, Request, What};
use crate::engine::initiate::reply_slots;
use crate::engine::memory::Span;
use crate::engine::ni::{Ni, rail_failure};
use crate::objects::event::NiFail;
use crate::objects::operation::{
    AnswerBy, Done, Incoming, LongGets, Operation, Outgoing, Place, Purpose, Stage,
};
use crate::table::Handle;
use sluice_link::{Port, RailError, Token, Transmitted};
use sluice_wire::{
    Ack, Addr, Get, NEXT_SLOT_BYTES, Offer, Packet, PeerId, PtIndex, Pull, Region, Reply,
    SLOT_BYTES, Status,
};

/// Most bytes that the reply to one get or pull may carry. A reply region has
/// at most `u16::MAX` slots, whoever divides it; each holds 60 bytes or more,
/// and this leaves room for the header.
const REPLY_BYTES_MAX: u64 = (u16::MAX as u64 - 1) * NEXT_SLOT_BYTES - SLOT_BYTES as u64;
/// Pieces of one transfer on their way at once: enough that the side asked has
/// the next at hand, few enough that several transfers share the reply region.
const CHUNKS_MAX: u32 = 4;
/// Where a get wants bytes that no rail can write there: they are to be
/// offered. No memory has this address.
pub(crate) const NOWHERE: Addr = Addr(u64::MAX);

impl Ni {
    /// Fetches the data of a put that matched.
    pub(crate) fn fetch_put<P: Port>(
        &mut self,
        port: &mut P,
        done: Done,
        source: u64,
        direct: Option<Addr>,
        into: Span,
    ) {
        let (peer, pt_index) = (done.event.peer, done.event.pt_index);
        if into.len == 0 {
            return self.finish(port, done, Ok(()));
        }
        if !self.is_writable(port, into) {
            return self.finish(port, done, Err(NiFail::Segv));
        }
        if self.operations.is_full() {
            return self.finish(port, done, Err(NiFail::Aborted));
        }
        let direct = direct.filter(|_| port.can_read(peer));
        let incoming = Incoming::new(Purpose::Put(done), source, direct, into);
        self.start_incoming(port, peer, pt_index, incoming);
    }

    fn start_incoming<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        pt_index: PtIndex,
        incoming: Incoming,
    ) {
        let stage = Stage::Incoming(Box::new(incoming));
        let operation = Operation { peer, pt_index, md: Handle::default(), user_ptr: 0, stage };
        let handle = self.begin(operation).expect("room was checked by the caller");
        self.step(port, handle);
    }

    /// Answers a get from an entry. False if no honest peer asks so.
    pub(crate) fn on_get<P: Port>(&mut self, port: &mut P, from: PeerId, get: &Get) -> bool {
        let request = Request {
            peer: from,
            pt_index: get.pt_index,
            match_bits: get.match_bits,
            hdr_data: 0,
            user: 0,
            remote_offset: get.remote_offset,
            rlength: get.length,
            what: What::Get,
            rts: None,
        };
        // No honest initiator asks for more than its own reply region, or has
        // more than so many of the others under way.
        let is_long = get.into != Addr(0);
        let served = self.long_gets.get(&from).map_or(0, |gets| gets.served);
        if is_long && served >= LongGets::MAX {
            return false;
        }
        let most = if is_long { u64::from(u32::MAX) } else { REPLY_BYTES_MAX };
        let admitted = match self.admit(port, &request) {
            Ok(_) if get.length > most => Err(Status::OpViolation),
            Ok(_) if is_long && self.operations.is_full() => Err(Status::Aborted),
            admitted => admitted,
        };
        let entry = match admitted {
            Ok(entry) => entry,
            Err(status) => {
                self.reply(port, from, get.op, Place::default(), Span::EMPTY, status);
                return true;
            }
        };
        let handle = self.mes.handle(entry);
        let (offset, mlength) = self.mes.landing(entry, get.remote_offset, get.length);
        let unlink = self.mes.consume(entry, mlength);
        let span = self.mes.span(entry, offset, mlength);
        let mut event = Ni::comm_event(&request, self.mes.at(entry));
        event.mlength = mlength;
        event.start = self.start_of(span);
        let readable = self.is_readable(port, span);
        event.outcome = if readable { Ok(()) } else { Err(NiFail::Segv) };
        // Without a place for the bytes the asker has set slots aside for all
        // of them; with one, for a header.
        let moves = readable && mlength > 0 && is_long;
        let header = self.keep_header_of(&request, entry, &event, moves, 0);
        if unlink {
            self.unlink_from_list(entry);
        }
        if moves {
            self.start_moving(handle, get.pt_index);
            let done = Done { entry: handle, header, event, offset, answer: None, slots: 0 };
            let direct = Some(get.into).filter(|&to| to != NOWHERE && port.can_write(from));
            let outgoing = Outgoing { done, from: span, direct, written: 0, op: get.op };
            self.start_outgoing(port, from, get.pt_index, outgoing);
            return true;
        }
        let status = event.outcome.map_or_else(Status::from, |()| Status::Ok);
        let payload = if status == Status::Ok { span } else { Span::EMPTY };
        let place = Place { offset, list: event.list };
        self.reply(port, from, get.op, place, payload, status);
        self.tell_comm(entry, event);
        if unlink {
            self.settle_entry(handle);
        }
        true
    }

    fn start_outgoing<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        pt_index: PtIndex,
        outgoing: Outgoing,
    ) {
        let stage = Stage::Outgoing(Box::new(outgoing));
        let operation = Operation { peer, pt_index, md: Handle::default(), user_ptr: 0, stage };
        let handle = self.begin(operation).expect("room was checked by the caller");
        self.step_outgoing(port, handle);
    }

    /// Writes the next piece of a get's data, or offers the whole.
    fn step_outgoing<P: Port>(&mut self, port: &mut P, handle: Handle<Operation>) {
        let Some(operation) = self.operations.get(handle) else { return };
        let Stage::Outgoing(outgoing) = &operation.stage else { return };
        let (peer, op, mlength) = (operation.peer, outgoing.op, outgoing.from.len);
        let (written, direct) = (outgoing.written, outgoing.direct);
        let Place { offset, list } = outgoing.done.place();
        let left = mlength - written;
        if let Some(to) = direct.filter(|_| left > 0) {
            let piece = self.first_piece(outgoing.from.part(written, left));
            if piece.len > 0 {
                port.write_remote(peer, piece, to.offset(written), Token(handle.to_u64()));
                return;
            }
        }
        let source = if left == 0 { 0 } else { handle.to_u64() };
        self.send_offer(port, peer, Offer { op, mlength, offset, list, source });
        if left == 0 {
            self.end_outgoing(port, handle, Ok(()));
        }
    }

    fn end_outgoing<P: Port>(
        &mut self,
        port: &mut P,
        handle: Handle<Operation>,
        outcome: Result<(), NiFail>,
    ) {
        if let Some(operation) = self.end(handle)
            && let Stage::Outgoing(outgoing) = operation.stage
        {
            self.finish(port, outgoing.done, outcome);
        }
    }

    fn send_offer<P: Port>(&mut self, port: &mut P, peer: PeerId, offer: Offer) {
        // A peer that cannot be reached any more needs no answer.
        let packet = Packet::Offer(offer);
        let _ = self.links.send_reply(port, peer, &packet, Region::EMPTY, Token(0));
    }

    /// Sends bytes that were asked for.
    pub(crate) fn reply<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        op: u64,
        place: Place,
        span: Span,
        status: Status,
    ) {
        let (payload, staged) = match span.flat() {
            Some(payload) => (payload, None),
            None if span.len == 0 => (Region::EMPTY, None),
            None => {
                let staged = self.gather(port, span);
                (staged, Some(staged))
            }
        };
        let Place { offset, list } = place;
        self.send_reply(port, peer, Reply { op, offset, list, status }, payload, staged);
    }

    /// Sends a reply; memory that the port lent for it goes back when it is
    /// out.
    pub(crate) fn send_reply<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        reply: Reply,
        payload: Region,
        staged: Option<Region>,
    ) {
        let token = Token(self.operations.next_handle().to_u64());
        let sent = self.links.send_reply(port, peer, &Packet::Reply(reply), payload, token);
        if sent == Ok(Transmitted::Pending) {
            let (pt_index, md) = (PtIndex(0), Handle::default());
            let stage = Stage::Answer { staged };
            if self.begin(Operation { peer, pt_index, md, user_ptr: 0, stage }).is_some() {
                return;
            }
        }
        if let Some(staged) = staged {
            port.give_back(staged.addr, staged.len as u32);
        }
    }

    /// Sends a piece of data that this process has named. False if it has not,
    /// or not to this peer.
    pub(crate) fn on_pull<P: Port>(&mut self, port: &mut P, from: PeerId, pull: &Pull) -> bool {
        let source = self.operations.get(Handle::from_u64(pull.source));
        let span = match source.filter(|operation| operation.peer == from) {
            Some(Operation { stage: Stage::Exposed { span, .. }, .. }) => *span,
            Some(Operation { stage: Stage::Outgoing(outgoing), .. }) => outgoing.from,
            _ => return false,
        };
        let inside = pull.offset.checked_add(pull.length).is_some_and(|end| end <= span.len);
        if !inside || pull.length > REPLY_BYTES_MAX {
            return false;
        }
        let part = span.part(pull.offset, pull.length);
        if self.is_readable(port, part) {
            self.reply(port, from, pull.op, Place::default(), part, Status::Ok);
        } else {
            self.reply(port, from, pull.op, Place::default(), Span::EMPTY, Status::Segv);
        }
        true
    }

    /// An answer with bytes has arrived; they are in the packet being handled.
    /// False if it answers nothing that was asked of this peer, or with more
    /// bytes.
    pub(crate) fn on_reply<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        reply: &Reply,
        payload_len: u32,
    ) -> bool {
        let Reply { op, offset, list, status } = *reply;
        let place = Place { offset, list };
        let handle = Handle::from_u64(op);
        let operation = self.operations.get(handle).filter(|op| op.peer == peer);
        let (into, slots, of) = match operation.map(|operation| &operation.stage) {
            Some(Stage::Reply { into, slots, .. }) => (*into, *slots, None),
            Some(Stage::Chunk { of, into, slots }) => (*into, *slots, Some(*of)),
            _ => return false,
        };
        let length = u64::from(payload_len);
        if reply_slots(length) > slots {
            return false;
        }
        let is_whole = of.is_none() || status != Status::Ok || length == into.len;
        if length > into.len || !is_whole {
            return false;
        }
        let operation = self.end(handle).expect("looked up above");
        self.links.release_reply(slots);
        self.has_freed_reply_slots = true;
        let into_part = into.part(0, length);
        let mut outcome = NiFail::check(status);
        if length > 0 {
            if self.is_writable(port, into_part) {
                self.scatter(port, 0, into_part);
            } else {
                outcome = Err(NiFail::Segv);
            }
        }
        match of {
            None => self.replied(&operation, into, length, place, outcome),
            Some(of) => self.arrived(port, of, length, outcome),
        }
        true
    }

    /// A get is answered without its bytes. False if nothing of this peer was
    /// asked for, or not as much.
    pub(crate) fn on_offer<P: Port>(&mut self, port: &mut P, peer: PeerId, offer: &Offer) -> bool {
        let handle = Handle::from_u64(offer.op);
        let operation = self.operations.get_mut(handle).filter(|op| op.peer == peer);
        let Some(operation) = operation else { return false };
        let Stage::Reply { into, slots, by } = operation.stage else { return false };
        let allowed = match by {
            AnswerBy::Reply => false,
            AnswerBy::Offer => offer.source != 0,
            AnswerBy::Write => true,
        };
        if !allowed || offer.mlength > into.len {
            return false;
        }
        self.links.release_reply(slots);
        self.has_freed_reply_slots = true;
        let place = Place { offset: offer.offset, list: offer.list };
        if offer.source == 0 {
            let operation = self.end(handle).expect("looked up above");
            self.replied(&operation, into, offer.mlength, place, Ok(()));
            return true;
        }
        let purpose = Purpose::Get { into, place };
        let part = into.part(0, offer.mlength);
        operation.stage =
            Stage::Incoming(Box::new(Incoming::new(purpose, offer.source, None, part)));
        if !self.is_writable(port, part) {
            self.fail_incoming(handle, NiFail::Segv);
        }
        self.step(port, handle);
        true
    }

    /// The rail has read or written remote memory, or could not.
    pub fn on_moved<P: Port>(
        &mut self,
        port: &mut P,
        token: Token,
        outcome: Result<(), RailError>,
    ) {
        let handle = Handle::from_u64(token.0);
        let Some(operation) = self.operations.get_mut(handle) else { return };
        match &mut operation.stage {
            Stage::Read { into } => {
                let into = *into;
                let operation = self.end(handle).expect("looked up above");
                let span = Span::whole(into);
                self.replied(
                    &operation,
                    span,
                    into.len,
                    Place::default(),
                    outcome.map_err(rail_failure),
                );
            }
            Stage::Incoming(incoming) => {
                match outcome {
                    Ok(()) => incoming.arrived = incoming.asked,
                    // What cannot be read by address can be asked for.
                    Err(RailError::Forbidden) => {
                        incoming.asked = incoming.arrived;
                        incoming.direct = None;
                    }
                    Err(error) => incoming.outcome = Err(rail_failure(error)),
                }
                self.step(port, handle);
            }
            Stage::Outgoing(outgoing) => match outcome {
                Ok(()) => {
                    let at = outgoing.written;
                    let left = outgoing.from.part(at, outgoing.from.len - at);
                    let piece = self.first_piece(left).len;
                    if let Some(Operation { stage: Stage::Outgoing(outgoing), .. }) =
                        self.operations.get_mut(handle)
                    {
                        outgoing.written += piece;
                    }
                    self.step_outgoing(port, handle);
                }
                Err(RailError::Forbidden) => {
                    outgoing.direct = None;
                    self.step_outgoing(port, handle);
                }
                Err(error) => {
                    let (peer, op) = (operation.peer, outgoing.op);
                    let why = rail_failure(error);
                    let place = outgoing.done.place();
                    self.reply(port, peer, op, place, Span::EMPTY, Status::from(why));
                    self.end_outgoing(port, handle, Err(why));
                }
            },
            _ => {}
        }
        self.fire(port);
    }

    /// Asks again for what waited for credits or reply slots.
    pub(crate) fn feed_starved<P: Port>(&mut self, port: &mut P) {
        self.has_freed_reply_slots = false;
        for _ in 0..self.starved.len() {
            let Some(handle) = self.starved.pop_front() else { break };
            if let Some(Operation { stage: Stage::Incoming(incoming), .. }) =
                self.operations.get_mut(handle)
            {
                incoming.is_starved = false;
                self.step(port, handle);
            }
        }
        if self.waiting_now != 0 {
            self.flush_all_waiting(port);
        }
    }

    fn arrived<P: Port>(
        &mut self,
        port: &mut P,
        of: Handle<Operation>,
        length: u64,
        outcome: Result<(), NiFail>,
    ) {
        if let Some(Operation { stage: Stage::Incoming(incoming), .. }) =
            self.operations.get_mut(of)
        {
            incoming.chunks -= 1;
            incoming.arrived += length;
            if incoming.outcome.is_ok() {
                incoming.outcome = outcome;
            }
            self.step(port, of);
        }
    }

    pub(crate) fn fail_incoming(&mut self, handle: Handle<Operation>, why: NiFail) {
        if let Some(Operation { stage: Stage::Incoming(incoming), .. }) =
            self.operations.get_mut(handle)
        {
            incoming.outcome = Err(why);
        }
    }

    /// Asks for the next pieces of data on its way here, or ends it.
    fn step<P: Port>(&mut self, port: &mut P, handle: Handle<Operation>) {
        let Some(operation) = self.operations.get(handle) else { return };
        let Stage::Incoming(incoming) = &operation.stage else { return };
        let (peer, pt_index) = (operation.peer, operation.pt_index);
        let (into, source) = (incoming.into, incoming.source);
        if incoming.outcome.is_err() || incoming.arrived == into.len {
            if incoming.chunks == 0 {
                self.end_incoming(port, handle);
            }
            return;
        }
        if let Some(from) = incoming.direct {
            let at = incoming.arrived;
            let piece = self.first_piece(into.part(at, into.len - at));
            assert!(piece.len > 0, "an entry in use keeps its I/O vector");
            if let Some(Operation { stage: Stage::Incoming(incoming), .. }) =
                self.operations.get_mut(handle)
            {
                incoming.asked = at + piece.len;
            }
            port.read_remote(peer, from.offset(at), piece, Token(handle.to_u64()));
            return;
        }
        let piece_max = self.get_bytes_max();
        loop {
            let Some(operation) = self.operations.get_mut(handle) else { return };
            let Stage::Incoming(incoming) = &mut operation.stage else { return };
            if incoming.chunks == CHUNKS_MAX || incoming.asked == into.len {
                return;
            }
            let at = incoming.asked;
            let len = piece_max.min(into.len - at);
            let slots = reply_slots(len);
            if !self.operations.is_full() && self.links.reserve_reply(slots) {
                let op = self.operations.next_handle().to_u64();
                let pull = Packet::Pull(Pull { source, op, offset: at, length: len });
                if self.links.send_control(port, peer, &pull).is_ok() {
                    let stage = Stage::Chunk { of: handle, into: into.part(at, len), slots };
                    let md = Handle::default();
                    let begun = self.begin(Operation { peer, pt_index, md, user_ptr: 0, stage });
                    assert!(begun.is_some(), "room was checked above");
                    if let Some(Operation { stage: Stage::Incoming(incoming), .. }) =
                        self.operations.get_mut(handle)
                    {
                        incoming.asked += len;
                        incoming.chunks += 1;
                    }
                    continue;
                }
                self.links.release_reply(slots);
            }
            if let Some(Operation { stage: Stage::Incoming(incoming), .. }) =
                self.operations.get_mut(handle)
                && !incoming.is_starved
            {
                incoming.is_starved = true;
                self.starved.push_back(handle);
            }
            return;
        }
    }

    /// All of the data is here, or no more of it will come.
    pub(crate) fn end_incoming<P: Port>(&mut self, port: &mut P, handle: Handle<Operation>) {
        let Some(mut operation) = self.end(handle) else { return };
        let stage = std::mem::replace(&mut operation.stage, Stage::Answer { staged: None });
        let Stage::Incoming(incoming) = stage else { return };
        let Incoming { purpose, source, arrived, outcome, .. } = *incoming;
        match purpose {
            Purpose::Put(done) => self.finish(port, done, outcome),
            Purpose::Get { into, place } => {
                self.replied(&operation, into, arrived, place, outcome);
                let status = outcome.map_or_else(Status::from, |()| Status::Ok);
                let Place { offset, list } = place;
                let ack = Ack { op: source, mlength: arrived, offset, list, status };
                self.answer(port, Owed { peer: operation.peer, ack, slots: 0 });
            }
        }
    }
}

impl Incoming {
    fn new(purpose: Purpose, source: u64, direct: Option<Addr>, into: Span) -> Incoming {
        Incoming {
            purpose,
            source,
            direct,
            into,
            asked: 0,
            arrived: 0,
            chunks: 0,
            outcome: Ok(()),
            is_starved: false,
        }
    }
}
