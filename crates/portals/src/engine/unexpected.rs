//! Headers of messages that came before their entries: kept, found, taken, forgotten.

use crate::engine::arrive::is_no_credit;
use crate::engine::ni::Ni;
use crate::objects::event::{Event, EventKind, Hold};
use crate::objects::me::{Me, MeSpec};
use crate::objects::pt::{Claim, Header};
use crate::objects::request::{Owed, Request, What};
use crate::table::Handle;
use sluice_link::mutants::{self, Mutant};
use sluice_link::{Held, Port};
use sluice_wire::{Ack, List, Packet, PeerId, PtIndex, Rts, Status};

impl Ni {
    /// Puts a header at the end of its list. `None` if the table is full.
    pub(crate) fn keep_unexpected(
        &mut self,
        pt_index: PtIndex,
        header: Header,
        rts: Option<Rts>,
    ) -> Option<Handle<Header>> {
        let entry = header.entry;
        let pt = self.pts[usize::from(pt_index.0)].as_mut()?;
        let slot = self.headers.add(header, rts)?;
        self.unexpected_bytes.add(header.lent_len());
        pt.unexpected.push(&mut self.headers, slot);
        if let Some(slot) = self.mes.locate(entry) {
            self.mes.cold_mut(slot).headers += 1;
        }
        Some(self.headers.handle(slot))
    }

    /// A message of `peer` has come before its entry.
    #[inline]
    pub(crate) fn count_unexpected(&mut self, peer: PeerId) {
        self.status.unexpected += 1;
        self.links.note_unexpected(peer);
    }

    /// Tells the initiator of a put in lent memory that it is kept, unless it has met an entry
    /// since and is told so. False if that has to wait for a control credit.
    pub(crate) fn tell_kept<P: Port>(&mut self, port: &mut P, kept: Handle<Header>) -> bool {
        let Some(slot) = self.headers.locate(kept) else { return true };
        let header = self.headers.at(slot);
        let (peer, mlength) = (header.peer, header.mlength);
        let Some(op) = header.ack else { return true };
        let (list, status) = (List::Overflow, Status::Ok);
        let ack = Ack { op, mlength, offset: 0, list, status };
        let sent = self.links.send_control(port, peer, &Packet::Ack(ack));
        let goes = !sent.is_err_and(|error| is_no_credit(&error));
        let is_over = goes || mutants::is(Mutant::ForgetsAcknowledgements);
        if is_over {
            self.headers.at_mut(slot).ack = None;
        }
        is_over
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
        self.count_unexpected(request.peer);
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

    #[inline]
    pub(crate) fn find_unexpected(
        &mut self,
        pt_index: PtIndex,
        spec: &MeSpec,
        offset: u64,
    ) -> Option<u32> {
        let pt = self.pts.get_mut(usize::from(pt_index.0))?.as_mut()?;
        if pt.unexpected.is_empty() {
            return None;
        }
        let fits = |kept: &Header| kept.fits(spec, offset);
        pt.unexpected.find(&self.headers, &Me::criteria_of(spec), fits)
    }

    /// Takes a header out of its list for `spec`, and tells of it, at once or
    /// when its data is there. Its bytes and credits stay held if they lie in
    /// lent memory, until [`Ni::end_hold`]; else they are done with. Returns the
    /// header if its data is not there yet.
    pub(crate) fn take_unexpected<P: Port>(
        &mut self,
        port: &mut P,
        pt_index: PtIndex,
        slot: u32,
        spec: &MeSpec,
        used_up: bool,
    ) -> Option<Handle<Header>> {
        let claim = Claim {
            user_ptr: spec.user_ptr,
            event: !spec.options.event_over_disable,
            unlink_event: used_up && !spec.options.event_unlink_disable,
            ct: spec.ct.filter(|_| spec.options.ct_overflow),
            ct_bytes: spec.options.ct_bytes,
        };
        if let Some(pt) = self.pts[usize::from(pt_index.0)].as_mut() {
            pt.unexpected.remove(&mut self.headers, slot);
        }
        if self.headers.at(slot).arriving {
            self.headers.beside_mut(slot).claim = Some(claim);
            return Some(self.headers.handle(slot));
        }
        self.tell_taken(port, slot, None, claim);
        None
    }

    /// The data of a header is there, and an entry has taken it.
    pub(crate) fn tell_taken<P: Port>(
        &mut self,
        port: &mut P,
        slot: u32,
        claimer: Option<Handle<Me>>,
        claim: Claim,
    ) {
        let header = self.headers.at(slot);
        let (pt_index, peer, entry) = (header.pt_index, header.peer, header.entry);
        let is_lent = header.is_lent;
        let mut event = header.event(header.kind, claim.user_ptr);
        event.announce(self.headers.rts(slot));
        let (outcome, mlength) = (header.outcome, header.mlength);
        self.note_header(claim.ct, &event);
        self.count(claim.ct, outcome.is_ok(), claim.ct_bytes.then_some(mlength));
        let eq = self.eq_of(pt_index);
        if is_lent && claim.event {
            event.hold = Some(Hold::of(self.headers.handle(slot)));
        } else {
            self.forget_header(port, slot);
        }
        if claim.event {
            self.post(eq, event);
        }
        if claim.unlink_event {
            self.post(eq, Event::new(EventKind::AutoUnlink, pt_index, peer, claim.user_ptr));
        }
        if let Some(claimer) = claimer
            && let Some(slot) = self.mes.locate(claimer)
        {
            self.mes.cold_mut(slot).busy -= 1;
            self.settle_entry(claimer);
        }
        if let Some(slot) = self.mes.locate(entry) {
            let cold = self.mes.cold_mut(slot);
            cold.headers -= 1;
            if cold.headers == 0 {
                self.settle_entry(entry);
            }
        }
    }

    pub(crate) fn hold_entry(&mut self, entry: Handle<Me>) {
        if let Some(slot) = self.mes.locate(entry) {
            self.mes.cold_mut(slot).busy += 1;
        }
    }

    /// Ends the client's use of lent memory: the memory goes back to the port
    /// and the credits to the sender. A stale hold is ignored.
    #[inline]
    pub fn end_hold<P: Port>(&mut self, port: &mut P, hold: Hold) {
        if let Some(slot) = self.headers.locate(hold.record()) {
            self.forget_header(port, slot);
        }
    }

    /// Forgets a header that is in no list, with what it holds.
    #[inline]
    fn forget_header<P: Port>(&mut self, port: &mut P, slot: u32) {
        let header = self.headers.at(slot);
        self.unexpected_bytes.remove(header.lent_len());
        let Header { start, mlength, peer, slots, .. } = *header;
        let (is_lent, ack) = (header.is_lent, header.ack);
        self.headers.discard(slot);
        if let Some(recovery) = &mut self.recovery {
            recovery.needs_attention |= recovery.lacks_headers();
        }
        if is_lent && mlength > 0 && !mutants::is(Mutant::KeepsLentMemory) {
            // It came with one packet.
            port.give_back(start, mlength as u32);
        }
        match ack {
            None if slots > 0 && !mutants::is(Mutant::KeepsSlots) => {
                self.links.free_data(port, peer, slots)
            }
            None => {}
            Some(op) => {
                let list = List::Overflow;
                let ack = Ack { op, mlength, offset: 0, list, status: Status::Ok };
                self.answer(port, Owed { peer, ack, held: Held::data(slots) });
            }
        }
    }
}
