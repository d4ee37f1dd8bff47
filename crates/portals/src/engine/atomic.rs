//! Atomic operations (Portals 4, section 3.15): how they start, and what they
//! do at the target.
//!
//! Items of one, two, four or eight bytes that lie aligned change in one step
//! for every thread of every process. Longer ones, and those that do not lie
//! aligned or straddle pieces of an I/O vector, change in one step for
//! operations on this interface, which is what the specification asks for.

use crate::arith;
use crate::engine::ni::Ni;
use crate::objects::command::{Arithmetic, Command};
use crate::objects::event::NiFail;
use crate::objects::limits::PtlError;
use crate::objects::operation::{AnswerBy, Operation, Place, Stage, Told, reply_slots};
use crate::objects::request::{Owed, Request, What};
use crate::objects::vector::Span;
use sluice_link::mutants::{self, Mutant};
use sluice_link::{Held, Port, Token, Transmitted};
use sluice_wire::{
    Ack, Answer, Atomic, AtomicOp, Datatype, ITEM_BYTES_MAX, Packet, PeerId, Region, Reply, Status,
};

impl Ni {
    /// Starts an atomic operation, with or without an answer.
    pub(crate) fn start_atomic<P: Port>(
        &mut self,
        port: &mut P,
        command: &Command,
        staged: Option<Region>,
        kept: u64,
        by_control: bool,
    ) -> Result<(), PtlError> {
        let (from, target, hdr_data, user_ptr, arithmetic) = match command {
            Command::Atomic { from, target, hdr_data, user_ptr, arithmetic, .. }
            | Command::Fetch { from, target, hdr_data, user_ptr, arithmetic, .. } => {
                (from, target, *hdr_data, *user_ptr, arithmetic)
            }
            _ => return Ok(()),
        };
        let span = self.span_of(from).ok_or(PtlError::ArgInvalid("memory descriptor"))?;
        if staged.is_none() && !self.is_readable(port, span) {
            if kept == 0 {
                self.fail(command, NiFail::Segv);
            } else {
                self.kept_unreadable(kept);
            }
            return Ok(());
        }
        let fetch = match command {
            Command::Fetch { into, .. } => {
                let span = self.span_of(into).ok_or(PtlError::ArgInvalid("memory descriptor"))?;
                Some((Told::new(into.md, user_ptr, kept), span))
            }
            _ => None,
        };
        let slots = fetch.map_or(0, |(_, into)| reply_slots(into.len));
        if !self.links.reserve_reply(slots) {
            return Err(PtlError::NoCredit { need: slots, have: 0 });
        }
        // What waits for the answer is one operation, what waits for the rail
        // to have read the values another.
        let (peer, pt_index) = (target.peer, target.pt_index);
        let awaited = fetch.and_then(|(told, into)| {
            let Told { md, user_ptr } = told;
            let stage = Stage::Reply { into, slots, by: AnswerBy::Reply };
            self.begin(Operation { peer, pt_index, md, user_ptr, stage })
        });
        let handle = self.operations.next_handle();
        let (answer, ack) = match command {
            Command::Fetch { .. } => {
                (Answer::Fetch(awaited.expect("room was checked before").to_u64()), None)
            }
            Command::Atomic { ack: Some(kind), .. } => {
                (Answer::Ack(*kind, handle.to_u64()), Some(*kind))
            }
            _ => (Answer::No, None),
        };
        let packet = Packet::Atomic(Atomic {
            pt_index: target.pt_index,
            match_bits: target.match_bits,
            hdr_data,
            remote_offset: target.remote_offset,
            op: arithmetic.op,
            datatype: arithmetic.datatype,
            answer,
            by_control,
        });
        let values = staged.map_or(span, |staged| Span::new(staged, None, 0, staged.len));
        let (payload, own) = self.payload_of(port, values, arithmetic, staged.is_some());
        let token = Token(handle.to_u64());
        let sent = self.send_operation(port, target.peer, &packet, payload, token);
        if sent != Ok(Transmitted::Pending)
            && let Some(own) = own
        {
            port.give_back(own.addr, own.len as u32);
        }
        match sent {
            Ok(sent) => {
                let Told { md, user_ptr } = Told::new(from.md, user_ptr, kept);
                self.transmitted(sent, md, span.len, ack, own, target, user_ptr);
                Ok(())
            }
            Err(error) => {
                if let Some(awaited) = awaited {
                    self.end(awaited);
                }
                self.links.release_reply(slots);
                Err(error.into())
            }
        }
    }

    /// The operand, if there is one, and the values, as one region; and that
    /// region again if the port has lent it.
    fn payload_of<P: Port>(
        &self,
        port: &mut P,
        values: Span,
        arithmetic: &Arithmetic,
        must_copy: bool,
    ) -> (Region, Option<Region>) {
        let operand = if arithmetic.op.has_operand() { arithmetic.datatype.bytes() } else { 0 };
        if let Some(flat) = values.flat()
            && operand == 0
            && !must_copy
        {
            return (flat, None);
        }
        let len = operand as u64 + values.len;
        if len == 0 {
            return (Region::EMPTY, None);
        }
        let own = Region { addr: port.lend(len as u32), len };
        port.store(own.addr, &arithmetic.operand[..operand]);
        let mut at = own.addr.offset(operand as u64);
        for piece in self.pieces(values) {
            port.copy(piece.addr, at, piece.len);
            at = at.offset(piece.len);
        }
        (own, Some(own))
    }

    /// Does an atomic operation that has arrived. False if no honest peer
    /// sends it.
    pub(crate) fn on_atomic<P: Port>(
        &mut self,
        port: &mut P,
        from: PeerId,
        atomic: &Atomic,
        payload_len: u32,
        held: Held,
    ) -> bool {
        let (op, datatype) = (atomic.op, atomic.datatype);
        let item = datatype.bytes() as u64;
        let operand_len = if op.has_operand() { item } else { 0 };
        let Some(rlength) = u64::from(payload_len).checked_sub(operand_len) else { return false };
        let fetches = matches!(atomic.answer, Answer::Fetch(_));
        let sound = arith::is_defined(op, datatype)
            && rlength.is_multiple_of(item)
            && (!op.has_operand() || rlength <= item)
            && (!op.is_swap() || fetches);
        if !sound {
            return false;
        }
        let request = Request {
            peer: from,
            pt_index: atomic.pt_index,
            match_bits: atomic.match_bits,
            hdr_data: atomic.hdr_data,
            user: 0,
            remote_offset: atomic.remote_offset,
            rlength,
            what: if fetches { What::Fetch(op, datatype) } else { What::Atomic(op, datatype) },
            rts: None,
        };
        let (mlength, place, status, kept, before) = match self.admit(port, &request) {
            Err(status) if self.is_turned_away(port, status) => {
                self.links.free(port, from, held);
                return true;
            }
            Err(status) => (0, Place::default(), status, false, None),
            Ok(entry) => {
                let (offset, fits) = self.mes.place(entry, request.remote_offset, rlength);
                // Whole items only.
                let mlength = fits - fits % item;
                let unlink = self.mes.consume(entry, mlength);
                let span = self.mes.span(entry, offset, mlength);
                let mut event = Ni::comm_event(&request, self.mes.at(entry));
                event.mlength = mlength;
                event.start = self.start_of(span);
                let mut before = None;
                event.outcome = if self.is_writable(port, span) {
                    if fetches && mlength > 0 {
                        before = Some(Region { addr: port.lend(mlength as u32), len: mlength });
                    }
                    self.combine(port, op, datatype, span, operand_len as u32, before);
                    Ok(())
                } else {
                    Err(NiFail::Segv)
                };
                let status = event.outcome.map_or_else(Status::from, |()| Status::Ok);
                let holds = self.limits.credits_until_matched;
                let slots = if holds { held.of_data() } else { 0 };
                let kept = self.keep_header_of(&request, entry, &event, false, slots).is_some();
                let handle = self.mes.handle(entry);
                if unlink {
                    self.unlink_from_list(entry);
                }
                self.tell_comm(entry, event);
                if unlink {
                    self.settle_entry(handle);
                }
                (mlength, Place { offset, list: event.list }, status, kept && holds, before)
            }
        };
        let held = if kept { Held::NONE } else { held };
        let Place { offset, list } = place;
        match atomic.answer {
            Answer::Ack(_, op) => {
                let ack = Ack { op, mlength, offset, list, status };
                self.answer(port, Owed { peer: from, ack, held });
            }
            Answer::Fetch(op) => {
                let payload = before.unwrap_or(Region::EMPTY);
                self.send_reply(port, from, Reply { op, offset, list, status }, payload, before);
                if !held.is_none() {
                    self.links.free(port, from, held);
                }
            }
            Answer::No if !held.is_none() => self.links.free(port, from, held),
            Answer::No => {}
        }
        true
    }

    /// Combines the payload of the packet being handled with the items of a
    /// writable span, and writes what they were before to `before`.
    fn combine<P: Port>(
        &self,
        port: &mut P,
        op: AtomicOp,
        datatype: Datatype,
        span: Span,
        values_at: u32,
        before: Option<Region>,
    ) {
        let width = datatype.bytes();
        let mut operand = [0; ITEM_BYTES_MAX];
        if op.has_operand() {
            port.payload(0, &mut operand[..width]);
        }
        let operand = &operand[..width];
        let mut value = [0; ITEM_BYTES_MAX];
        let mut was = [0; ITEM_BYTES_MAX];
        for at in (0..span.len).step_by(width) {
            port.payload(values_at + at as u32, &mut value[..width]);
            let item = span.part(at, width as u64);
            let piece = self.first_piece(item);
            let in_one_step = width <= 8
                && piece.len == width as u64
                && piece.addr.0.is_multiple_of(width as u64);
            if in_one_step {
                let new = |old: u64| {
                    let mut out = [0; 8];
                    let old = old.to_le_bytes();
                    let out_part = &mut out[..width];
                    arith::combine(op, datatype, &old[..width], &value[..width], operand, out_part);
                    u64::from_le_bytes(out)
                };
                let mut seen = [0; 8];
                port.load(piece.addr, &mut seen[..width]);
                let mut old = u64::from_le_bytes(seen);
                while let Err(found) =
                    port.compare_exchange(piece.addr, width as u32, old, new(old))
                {
                    old = found;
                }
                was[..width].copy_from_slice(&old.to_le_bytes()[..width]);
            } else {
                self.load_span(port, item, &mut was[..width]);
                let mut out = [0; ITEM_BYTES_MAX];
                let out = &mut out[..width];
                arith::combine(op, datatype, &was[..width], &value[..width], operand, out);
                self.store_span(port, item, out);
            }
            if let Some(before) = before {
                if mutants::is(Mutant::FetchesTheNewValue) {
                    self.load_span(port, item, &mut was[..width]);
                }
                port.store(before.addr.offset(at), &was[..width]);
            }
        }
    }
}
