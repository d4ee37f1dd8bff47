//! Appending, unlinking and searching (Portals 4, sections 3.11 and 3.12): how
//! entries and unexpected headers meet. `lists` finds them; this file says what
//! follows.

use crate::engine::admit::Owed;
use crate::engine::ni::Ni;
use crate::lists::Slab;
use crate::objects::event::{Event, EventKind, Hold, NiFail};
use crate::objects::limits::PtlError;
use crate::objects::me::{Me, MeSpec, place_in};
use crate::objects::pt::{Claim, Header};
use crate::table::Handle;
use sluice_link::Port;
use sluice_wire::{Ack, List, MatchBits, PeerId, PtIndex, Rts, Status};

/// No initiator: of events that an entry alone causes.
pub const NOBODY: PeerId = PeerId(u32::MAX);

/// What a search does with the headers it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchOp {
    /// Reports them and leaves them (`PTL_SEARCH_ONLY`).
    Only,
    /// Takes them, as an appended entry would (`PTL_SEARCH_DELETE`).
    Delete,
}

impl Ni {
    /// Appends an entry (`PtlMEAppend`, `PtlLEAppend`). One that is used up by
    /// unexpected headers is not linked, and `None` is returned. From then on its
    /// I/O vector is the entry's, and goes with it.
    ///
    /// # Errors
    /// [`PtlError::ArgInvalid`], [`PtlError::NoSpace`],
    /// [`PtlError::ListTooLong`].
    #[inline(always)]
    pub fn me_append<P: Port>(
        &mut self,
        port: &mut P,
        pt_index: PtIndex,
        list: List,
        spec: MeSpec,
    ) -> Result<Option<Handle<Me>>, PtlError> {
        if list == List::Overflow {
            return self.me_append_overflow(pt_index, spec).map(Some);
        }
        let pt = self
            .pts
            .get_mut(usize::from(pt_index.0))
            .and_then(Option::as_mut)
            .ok_or(PtlError::ArgInvalid("portal table index"))?;
        if self.mes.is_full() {
            return Err(PtlError::NoSpace("match list entries"));
        }
        if pt.priority.len() >= self.limits.list_size_max as usize {
            return Err(PtlError::ListTooLong);
        }
        if !pt.unexpected.is_empty() {
            return self.me_append_claiming(port, pt_index, spec);
        }
        // Nothing waits: the common case, and all of it.
        let slot = self.mes.add(&spec, pt_index, list, 0);
        let slot = slot.expect("room was checked above");
        pt.priority.push(&mut self.mes, slot);
        let handle = self.mes.handle(slot);
        if !spec.options.event_link_disable {
            let eq = pt.eq;
            self.post(eq, Event::new(EventKind::Link, pt_index, NOBODY, spec.user_ptr));
        }
        Ok(Some(handle))
    }

    /// Appends an entry to the priority list, if headers that wait do not use
    /// it up.
    #[inline(never)]
    fn me_append_claiming<P: Port>(
        &mut self,
        port: &mut P,
        pt_index: PtIndex,
        spec: MeSpec,
    ) -> Result<Option<Handle<Me>>, PtlError> {
        let mut offset = 0_u64;
        let mut arriving = Vec::new();
        while let Some(found) = self.find_unexpected(pt_index, &spec, offset) {
            if spec.options.manage_local && spec.options.inc_by_rlength {
                offset = offset.saturating_add(self.headers.at(found).rlength);
            }
            let left = spec.region.len.saturating_sub(offset);
            let exhausted = spec.options.manage_local && left < spec.min_free;
            let used_up = spec.options.use_once || exhausted;
            if let Some(header) = self.take_unexpected(port, pt_index, found, &spec, used_up) {
                arriving.push(header);
            }
            if used_up {
                if let Some(vector) = spec.vector {
                    self.vectors.discard(vector);
                }
                self.fire(port);
                return Ok(None);
            }
        }
        let handle = self.link(pt_index, List::Priority, &spec, offset)?;
        for found in arriving {
            if let Some(slot) = self.headers.locate(found) {
                self.headers.beside_mut(slot).claimer = Some(handle);
                self.hold_entry(handle);
            }
        }
        if !spec.options.event_link_disable {
            let eq = self.eq_of(pt_index);
            self.post(eq, Event::new(EventKind::Link, pt_index, NOBODY, spec.user_ptr));
        }
        self.fire(port);
        Ok(Some(handle))
    }

    /// Appends an entry to the overflow list, which looks at no headers.
    ///
    /// # Errors
    /// As [`Ni::me_append`].
    #[inline(never)]
    pub fn me_append_overflow(
        &mut self,
        pt_index: PtIndex,
        spec: MeSpec,
    ) -> Result<Handle<Me>, PtlError> {
        let pt = self.pt(pt_index)?;
        let eq = pt.eq;
        if pt.overflow.len() >= self.limits.list_size_max as usize {
            return Err(PtlError::ListTooLong);
        }
        let handle = self.link(pt_index, List::Overflow, &spec, 0)?;
        if !spec.options.event_link_disable {
            let mut event = Event::new(EventKind::Link, pt_index, NOBODY, spec.user_ptr);
            event.list = List::Overflow;
            self.post(eq, event);
        }
        Ok(handle)
    }

    /// A handle of an entry that is not linked any more: what a call that
    /// used its entry up gives back.
    pub fn me_spent(&mut self) -> Handle<Me> {
        let Some(slot) = self.mes.insert(Me::default()) else { return Handle::default() };
        let handle = self.mes.handle(slot);
        self.mes.discard(slot);
        handle
    }

    /// Unlinks an entry (`PtlMEUnlink`).
    ///
    /// # Errors
    /// [`PtlError::ArgInvalid`] if it is not linked any more,
    /// [`PtlError::InUse`] while unexpected headers point into it or data is on
    /// its way from or to it.
    pub fn me_unlink(&mut self, handle: Handle<Me>) -> Result<(), PtlError> {
        let slot = self.mes.locate(handle).filter(|&slot| self.mes.is_listed(slot));
        let slot = slot.ok_or(PtlError::ArgInvalid("entry is not linked"))?;
        let rare = self.mes.rare(slot);
        if rare.headers > 0 || rare.busy > 0 {
            return Err(PtlError::InUse);
        }
        self.unlink_from_list(slot);
        self.forget_entry(slot);
        Ok(())
    }

    /// Looks among the unexpected headers for what `spec` would match
    /// (`PtlMESearch`). The answers are events in the portal table entry's
    /// queue: search events, or, for [`SearchOp::Delete`] with a match, the
    /// overflow events that an append would have caused. An entry that is used
    /// once gets one answer; another, one for each header.
    ///
    /// # Errors
    /// [`PtlError::ArgInvalid`].
    pub fn me_search<P: Port>(
        &mut self,
        port: &mut P,
        pt_index: PtIndex,
        op: SearchOp,
        spec: &MeSpec,
    ) -> Result<(), PtlError> {
        let eq = self.pt(pt_index)?.eq;
        let once = spec.options.use_once;
        let mut found = 0_u32;
        match op {
            SearchOp::Only if once => {
                if let Some(header) = self.find_unexpected(pt_index, spec, 0) {
                    self.tell_found(pt_index, header, spec);
                    found = 1;
                }
            }
            SearchOp::Only => {
                let criteria = Me::criteria_of(spec);
                for header in self.pt(pt_index)?.unexpected.slots(&self.headers) {
                    let kept = self.headers.at(header);
                    if criteria.accept(kept.match_bits, kept.peer) && kept.fits(spec, 0) {
                        self.tell_found(pt_index, header, spec);
                        found += 1;
                    }
                }
            }
            SearchOp::Delete => {
                while let Some(header) = self.find_unexpected(pt_index, spec, 0) {
                    self.take_unexpected(port, pt_index, header, spec, false);
                    found += 1;
                    if once {
                        break;
                    }
                }
            }
        }
        if found == 0 && !spec.options.event_comm_disable {
            let mut event = Event::new(EventKind::Search, pt_index, NOBODY, spec.user_ptr);
            event.outcome = Err(NiFail::NoMatch);
            self.post(eq, event);
        }
        // A search that goes on until nothing is left ends with a miss.
        if spec.options.ct_overflow && (found == 0 || !once) {
            self.count(spec.ct, false, None);
        }
        self.fire(port);
        Ok(())
    }

    /// The user pointer of the entry of the priority list that an operation with
    /// these bits from `peer` would meet. Nothing changes.
    pub fn me_that_matches(
        &mut self,
        pt_index: PtIndex,
        bits: MatchBits,
        peer: PeerId,
    ) -> Option<u64> {
        let pt = self.pts.get_mut(usize::from(pt_index.0))?.as_mut()?;
        let slot = pt.priority.find(&mut self.mes, bits, peer, |_, _| true)?;
        Some(self.mes.at(slot).user_ptr)
    }

    /// Whether `holds` is true of the user pointers of all entries of the priority
    /// list that an operation with these bits from this peer would match, asked
    /// in list order until it is not.
    pub fn all_that_match(
        &mut self,
        pt_index: PtIndex,
        bits: MatchBits,
        peer: PeerId,
        mut holds: impl FnMut(u64) -> bool,
    ) -> bool {
        let Some(Some(pt)) = self.pts.get_mut(usize::from(pt_index.0)) else { return true };
        let fails = |mes: &Slab<Me>, slot| !holds(mes.at(slot).user_ptr);
        pt.priority.find(&mut self.mes, bits, peer, fails).is_none()
    }

    /// How many entries the priority list has.
    #[must_use]
    pub fn priority_len(&self, pt_index: PtIndex) -> usize {
        let pt = self.pts.get(usize::from(pt_index.0)).and_then(Option::as_ref);
        pt.map_or(0, |pt| pt.priority.len())
    }

    /// Ends the client's use of lent memory: the memory goes back to the port
    /// and the credits to the sender. A stale hold is ignored.
    #[inline]
    pub fn end_hold<P: Port>(&mut self, port: &mut P, hold: Hold) {
        if let Some(slot) = self.headers.locate(hold) {
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
        if is_lent && mlength > 0 {
            // It came with one packet.
            port.give_back(start, mlength as u32);
        }
        match ack {
            None if slots > 0 => self.links.free_data(port, peer, slots),
            None => {}
            Some(op) => {
                let list = List::Overflow;
                let ack = Ack { op, mlength, offset: 0, list, status: Status::Ok };
                self.answer(port, Owed { peer, ack, slots });
            }
        }
    }

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
            self.mes.rare_mut(slot).headers += 1;
        }
        Some(self.headers.handle(slot))
    }

    /// Takes an entry out of the list that it is in.
    #[inline(always)]
    pub(crate) fn unlink_from_list(&mut self, slot: u32) {
        let me = self.mes.at(slot);
        let (list, index) = (me.list(), me.pt_index);
        if let Some(pt) = self.pts.get_mut(usize::from(index.0)).and_then(Option::as_mut) {
            pt.list(list).remove(&mut self.mes, slot);
        }
    }

    /// Tells of what has become of an unlinked entry as far as that is settled,
    /// and forgets the entry when nothing refers to it any more.
    pub(crate) fn settle_entry(&mut self, entry: Handle<Me>) {
        let Some(slot) = self.mes.locate(entry) else { return };
        let rare = self.mes.rare(slot);
        if self.mes.is_listed(slot) || rare.busy > 0 {
            return;
        }
        let me = self.mes.at_mut(slot);
        let tells = me.tell_unlink();
        let free = rare.headers == 0;
        let (pt_index, list, user_ptr) = (me.pt_index, me.list(), me.user_ptr);
        let silent = me.flags.event_unlink_disable();
        if free {
            self.forget_entry(slot);
        }
        if silent {
            return;
        }
        let eq = self.eq_of(pt_index);
        let mut event = Event::new(EventKind::AutoUnlink, pt_index, NOBODY, user_ptr);
        event.list = list;
        if tells {
            self.post(eq, event);
        }
        if free && list == List::Overflow {
            event.kind = EventKind::AutoFree;
            self.post(eq, event);
        }
    }

    /// Forgets an entry that nothing refers to any more, with its I/O vector.
    #[inline]
    pub(crate) fn forget_entry(&mut self, slot: u32) {
        if let Some(vector) = self.mes.rare(slot).vector {
            self.vectors.discard(vector);
        }
        self.mes.discard(slot);
    }

    /// Takes a header out of its list for `spec`, and tells of it, at once or
    /// when its data is there. Its bytes and credits stay held if they lie in
    /// lent memory, until [`Ni::end_hold`]; else they are done with. Returns the
    /// header if its data is not there yet.
    fn take_unexpected<P: Port>(
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

    fn hold_entry(&mut self, entry: Handle<Me>) {
        if let Some(slot) = self.mes.locate(entry) {
            self.mes.rare_mut(slot).busy += 1;
        }
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
            event.hold = Some(self.headers.handle(slot));
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
            self.mes.rare_mut(slot).busy -= 1;
            self.settle_entry(claimer);
        }
        if let Some(slot) = self.mes.locate(entry) {
            let rare = self.mes.rare_mut(slot);
            rare.headers -= 1;
            if rare.headers == 0 {
                self.settle_entry(entry);
            }
        }
    }

    fn tell_found(&mut self, pt_index: PtIndex, found: u32, spec: &MeSpec) {
        let header = self.headers.at(found);
        let mut event = header.event(EventKind::Search, spec.user_ptr);
        event.announce(self.headers.rts(found));
        event.outcome = Ok(());
        if spec.options.ct_overflow {
            self.count(spec.ct, true, spec.options.ct_bytes.then_some(event.mlength));
        }
        if !spec.options.event_comm_disable {
            let eq = self.eq_of(pt_index);
            self.post(eq, event);
        }
    }

    #[inline]
    fn find_unexpected(&mut self, pt_index: PtIndex, spec: &MeSpec, offset: u64) -> Option<u32> {
        let pt = self.pts.get_mut(usize::from(pt_index.0))?.as_mut()?;
        if pt.unexpected.is_empty() {
            return None;
        }
        let fits = |kept: &Header| kept.fits(spec, offset);
        pt.unexpected.find(&self.headers, &Me::criteria_of(spec), fits)
    }

    fn link(
        &mut self,
        pt_index: PtIndex,
        list: List,
        spec: &MeSpec,
        offset: u64,
    ) -> Result<Handle<Me>, PtlError> {
        let slot = self.mes.add(spec, pt_index, list, offset);
        let slot = slot.ok_or(PtlError::NoSpace("match list entries"))?;
        let pt = self.pts[usize::from(pt_index.0)].as_mut().expect("looked up by the caller");
        pt.list(list).push(&mut self.mes, slot);
        Ok(self.mes.handle(slot))
    }
}

impl Header {
    /// Bytes in memory that the port has lent.
    #[inline]
    pub(crate) fn lent_len(&self) -> u64 {
        if self.is_lent { self.mlength } else { 0 }
    }

    /// Whether an entry that refuses truncation would have taken the whole.
    fn fits(&self, spec: &MeSpec, offset: u64) -> bool {
        let from = if spec.options.manage_local { offset } else { self.remote_offset };
        !spec.options.no_truncate || place_in(spec.region.len, from, self.rlength).1 == self.rlength
    }

    fn event(&self, kind: EventKind, user_ptr: u64) -> Event {
        let mut event = Event::new(kind, self.pt_index, self.peer, user_ptr);
        event.match_bits = self.match_bits;
        event.hdr_data = self.hdr_data;
        event.user = self.user;
        event.rlength = self.rlength;
        event.mlength = self.mlength;
        event.remote_offset = self.remote_offset;
        event.list = List::Overflow;
        event.atomic = self.atomic;
        event.start = self.start;
        event.outcome = self.outcome;
        event
    }
}
