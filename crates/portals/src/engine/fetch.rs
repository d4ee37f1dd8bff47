//! Data on its way here after its header: of a put that matched, or of a get that was
//! offered its bytes. It is read by its key where the rail can, else pulled in pieces.
//!
//! Invariant: every transfer ends, by its last byte, by a refusal, or by the
//! end of the peer; and its end is told once.

use crate::engine::ni::Ni;
use crate::objects::event::NiFail;
use crate::objects::operation::{
    AnswerBy, Done, Incoming, Operation, Place, Purpose, Stage, reply_slots,
};
use crate::objects::request::Owed;
use crate::objects::vector::Span;
use crate::table::Handle;
use sluice_link::mutants::{self, Mutant};
use sluice_link::{Held, Port, RailError, Remote, Token};
use sluice_wire::{
    Ack, Offer, Packet, Parsed, PeerId, PtIndex, Pull, Region, RemoteKey, Reply, Status,
};

/// Pieces of one transfer on their way at once: enough that the side asked has
/// the next at hand, few enough that several transfers share the reply region.
const CHUNKS_MAX: u32 = 4;

/// What a reply was asked for by.
struct Asked {
    into: Span,
    slots: u32,
    /// The transfer that it is a piece of.
    of: Option<Handle<Operation>>,
}

impl Ni {
    /// Fetches the data of a put that matched.
    pub(crate) fn fetch_put<P: Port>(
        &mut self,
        port: &mut P,
        done: Done,
        source: u64,
        direct: Option<RemoteKey>,
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
        let direct = direct.filter(|_| port.caps(peer).read);
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
        let Some(asked) = self.asked(peer, reply, payload_len) else { return false };
        let Asked { into, slots, of } = asked;
        let length = u64::from(payload_len);
        let operation = self.end(handle).expect("looked up above");
        Ni::revoke_of(port, &operation);
        self.links.release_reply(slots);
        self.has_freed_reply_slots = true;
        let mut into_part = into.part(0, length);
        if mutants::is(Mutant::LandsChunksTooFar) && length > 0 {
            into_part = into.part(1, length - 1);
        }
        let mut outcome = NiFail::check(status);
        if length > 0 {
            if !self.is_writable(port, into_part) {
                outcome = Err(NiFail::Segv);
            } else if !self.scatter(port, 0, into_part) {
                outcome = Err(NiFail::CUT);
            }
        }
        match of {
            None => self.replied(&operation, into, length, place, outcome),
            Some(of) => self.arrived(port, of, length, outcome),
        }
        true
    }

    /// What a reply answers. `None` if nothing that was asked of this peer, or with
    /// more bytes.
    #[inline(always)]
    fn asked(&self, peer: PeerId, reply: &Reply, payload_len: u32) -> Option<Asked> {
        let operation = self.operations.get(Handle::from_u64(reply.op))?;
        let (into, slots, of) = match operation.stage {
            Stage::Reply { into, slots, .. } => (into, slots, None),
            Stage::Chunk { of, into, slots } => (into, slots, Some(of)),
            _ => return None,
        };
        let length = u64::from(payload_len);
        let is_whole = of.is_none() || reply.status != Status::Ok || length == into.len;
        let fits = length <= into.len && reply_slots(length) <= slots;
        (operation.peer == peer && fits && is_whole).then_some(Asked { into, slots, of })
    }

    /// See [`Machine::placement`](sluice_link::Machine::placement): of replies.
    #[must_use]
    pub fn placement(&self, from: PeerId, packet: &Parsed) -> Option<Region> {
        let Packet::Reply(reply) = &packet.packet else { return None };
        let length = u64::from(packet.payload_len);
        if length == 0 || !self.links.is_next_reply(from, packet) {
            return None;
        }
        let asked = self.asked(from, reply, packet.payload_len)?;
        asked.into.part(0, length).flat()
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
            AnswerBy::Write(_) => true,
        };
        if !allowed || offer.mlength > into.len {
            return false;
        }
        // From now on the target has nothing more to write.
        Ni::revoke_of(port, operation);
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
                    outcome.map_err(NiFail::from),
                );
            }
            Stage::Incoming(incoming) => {
                match outcome {
                    Ok(()) => incoming.arrived = incoming.asked,
                    // What cannot be read by its key can be asked for.
                    Err(RailError::Forbidden) => {
                        incoming.asked = incoming.arrived;
                        incoming.direct = None;
                    }
                    Err(error) => incoming.outcome = Err(NiFail::from(error)),
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
                    let why = NiFail::from(error);
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
            let from = Remote { key: from, offset: at };
            port.read_remote(peer, from, piece, Token(handle.to_u64()));
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
                self.answer(port, Owed { peer: operation.peer, ack, held: Held::NONE });
            }
        }
    }
}
