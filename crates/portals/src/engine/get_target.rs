//! Gets at the target: bytes of an entry go with the reply, are written where they are
//! wanted, or are offered and pulled.

use crate::engine::ni::Ni;
use crate::objects::event::NiFail;
use crate::objects::operation::{Done, LongGets, Operation, Outgoing, Place, Stage};
use crate::objects::request::{Request, What};
use crate::objects::vector::Span;
use crate::table::Handle;
use sluice_link::mutants::{self, Mutant};
use sluice_link::{Held, Port, Remote, Token, Transmitted};
use sluice_wire::{
    Get, Offer, Packet, PeerId, PtIndex, Pull, Region, RemoteKey, Reply, Status, payload_bytes_max,
};

/// Most bytes that the reply to one get or pull may carry. A reply region has
/// at most `u16::MAX` slots, whoever divides it.
const REPLY_BYTES_MAX: u64 = payload_bytes_max(u16::MAX as u64);

impl Ni {
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
        let is_long = get.into != RemoteKey::NONE;
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
            Err(status) if self.is_turned_away(port, status) => return true,
            Err(status) => {
                self.reply(port, from, get.op, Place::default(), Span::EMPTY, status);
                return true;
            }
        };
        let handle = self.mes.handle(entry);
        let (offset, mlength) = self.mes.place(entry, get.remote_offset, get.length);
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
        let status = event.outcome.map_or_else(Status::from, |()| Status::Ok);
        let payload = if status == Status::Ok { span } else { Span::EMPTY };
        let place = Place { offset, list: event.list };
        let reply = (!moves).then(|| self.reply(port, from, get.op, place, payload, status));
        // The rail may read the entry's memory later. A copy of it is nobody's business.
        let is_lent = payload.flat().is_some_and(|flat| flat.len > 0);
        let lent = reply.flatten().filter(|_| is_lent && !mutants::is(Mutant::TellsOfGetsTooEarly));
        let header = self.keep_header_of(&request, entry, &event, moves || lent.is_some(), 0);
        if unlink {
            self.unlink_from_list(entry);
        }
        let done = Done { entry: handle, header, event, offset, answer: None, held: Held::NONE };
        if let Some(operation) = lent.and_then(|lent| self.operations.get_mut(lent)) {
            operation.stage = Stage::Lent(Box::new(done));
            self.start_moving(handle, get.pt_index);
            return true;
        }
        if moves {
            self.start_moving(handle, get.pt_index);
            let direct = Some(get.into).filter(|to| to.is_some() && port.caps(from).write);
            let outgoing = Outgoing { done, from: span, direct, written: 0, op: get.op };
            self.start_outgoing(port, from, get.pt_index, outgoing);
            return true;
        }
        self.tell_comm(entry, done.event);
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
    pub(crate) fn step_outgoing<P: Port>(&mut self, port: &mut P, handle: Handle<Operation>) {
        let Some(operation) = self.operations.get(handle) else { return };
        let Stage::Outgoing(outgoing) = &operation.stage else { return };
        let (peer, op, mlength) = (operation.peer, outgoing.op, outgoing.from.len);
        let (written, direct) = (outgoing.written, outgoing.direct);
        let Place { offset, list } = outgoing.done.place();
        let left = mlength - written;
        if let Some(to) = direct.filter(|_| left > 0) {
            let piece = self.first_piece(outgoing.from.part(written, left));
            if piece.len > 0 {
                let to = Remote { key: to, offset: written };
                port.write_remote(peer, piece, to, Token(handle.to_u64()));
                return;
            }
        }
        let source = if left == 0 { 0 } else { handle.to_u64() };
        self.send_offer(port, peer, Offer { op, mlength, offset, list, source });
        if left == 0 {
            self.end_outgoing(port, handle, Ok(()));
        }
    }

    pub(crate) fn end_outgoing<P: Port>(
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

    /// Sends bytes that were asked for. The operation that waits for the rail to have read
    /// them, if it has not.
    pub(crate) fn reply<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        op: u64,
        place: Place,
        span: Span,
        status: Status,
    ) -> Option<Handle<Operation>> {
        let (payload, staged) = match span.flat() {
            Some(payload) => (payload, None),
            None if span.len == 0 => (Region::EMPTY, None),
            None => {
                let staged = self.gather(port, span);
                (staged, Some(staged))
            }
        };
        let Place { offset, list } = place;
        self.send_reply(port, peer, Reply { op, offset, list, status }, payload, staged)
    }

    /// Sends a reply; memory that the port lent for it goes back when it is
    /// out. As [`Ni::reply`].
    pub(crate) fn send_reply<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        reply: Reply,
        payload: Region,
        staged: Option<Region>,
    ) -> Option<Handle<Operation>> {
        let handle = self.operations.next_handle();
        let token = Token(handle.to_u64());
        let sent = self.links.send_reply(port, peer, &Packet::Reply(reply), payload, token);
        if sent == Ok(Transmitted::Pending) {
            let (pt_index, md) = (PtIndex(0), Handle::default());
            let stage = Stage::Answer { staged };
            // The rail reads the memory, so the operation has to be there, also where the
            // table is full. Slots of the peer's bound how many there are.
            self.operations.insert_beyond(Operation { peer, pt_index, md, user_ptr: 0, stage });
            return Some(handle);
        }
        if let Some(staged) = staged {
            port.give_back(staged.addr, staged.len as u32);
        }
        None
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
}
