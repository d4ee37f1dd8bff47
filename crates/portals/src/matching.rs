//! Appending, unlinking and searching (Portals 4, sections 3.11 and 3.12): how
//! entries and unexpected headers meet. `lists` finds them; this file says what
//! follows.

use crate::event::{Event, EventKind, Hold, NiFail};
use crate::limits::PtlError;
use crate::me::{List, Me, MeSpec};
use crate::ni::Ni;
use crate::pt::{Claim, Header};
use crate::table::Handle;
use crate::target::Owed;
use sluice_link::Port;
use sluice_wire::{Ack, PeerId, PtIndex, Status};

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
    #[inline]
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
        let pt = self.pt(pt_index)?;
        let eq = pt.eq;
        if self.mes.is_full() {
            return Err(PtlError::NoSpace("match list entries"));
        }
        if pt.priority.len() >= self.limits.list_size_max as usize {
            return Err(PtlError::ListTooLong);
        }
        let mut offset = 0_u64;
        let mut arriving = Vec::new();
        while let Some(found) = self.find_unexpected(pt_index, &spec, offset) {
            let header = self.headers.get(found).expect("just found");
            if spec.options.manage_local && spec.options.inc_by_rlength {
                offset = offset.saturating_add(header.rlength);
            }
            let left = spec.region.len.saturating_sub(offset);
            let exhausted = spec.options.manage_local && left < spec.min_free;
            let used_up = spec.options.use_once || exhausted;
            if !self.take_unexpected(port, pt_index, found, &spec, used_up) {
                arriving.push(found);
            }
            if used_up {
                if let Some(vector) = spec.vector {
                    self.vectors.discard(vector);
                }
                self.fire(port);
                return Ok(None);
            }
        }
        let handle = self.link(pt_index, list, spec, offset)?;
        for found in arriving {
            if let Some(header) = self.headers.get_mut(found) {
                header.claimer = Some(handle);
                self.hold_entry(handle);
            }
        }
        if !spec.options.event_link_disable {
            self.post(eq, Event::new(EventKind::Link, pt_index, NOBODY, spec.user_ptr));
        }
        self.fire(port);
        Ok(Some(handle))
    }

    /// Appends an entry to the overflow list, which looks at no headers.
    ///
    /// # Errors
    /// As [`Ni::me_append`].
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
        let handle = self.link(pt_index, List::Overflow, spec, 0)?;
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
        match self.mes.insert(Me::new(MeSpec::default(), PtIndex(0), List::Priority)) {
            Ok(handle) => {
                self.mes.discard(handle);
                handle
            }
            Err(_) => Handle::from_u64(0),
        }
    }

    /// Unlinks an entry (`PtlMEUnlink`) and returns what it was made from.
    ///
    /// # Errors
    /// [`PtlError::ArgInvalid`] if it is not linked any more,
    /// [`PtlError::InUse`] while unexpected headers point into it or data is on
    /// its way from or to it.
    pub fn me_unlink(&mut self, handle: Handle<Me>) -> Result<MeSpec, PtlError> {
        let me = self.mes.get(handle).filter(|me| me.place.is_some());
        let me = me.ok_or(PtlError::ArgInvalid("entry is not linked"))?;
        if me.headers > 0 || me.busy > 0 {
            return Err(PtlError::InUse);
        }
        let spec = me.spec;
        self.unlink_from_list(handle);
        self.forget_entry(handle);
        Ok(spec)
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
                let criteria = Me::criteria(spec);
                let pt = self.pt(pt_index)?;
                let all: Vec<_> = pt.unexpected.iter().map(|(_, &header)| header).collect();
                for header in all {
                    let matches = self.headers.get(header).is_some_and(|kept| {
                        criteria.accept(kept.match_bits, kept.peer) && kept.fits(spec, 0)
                    });
                    if matches {
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

    /// Ends the client's use of lent memory: the memory goes back to the port
    /// and the credits to the sender. A stale hold is ignored.
    #[inline]
    pub fn end_hold<P: Port>(&mut self, port: &mut P, hold: Hold) {
        let Some(header) = self.headers.remove(hold) else {
            return;
        };
        if let Some(len) = header.lent.filter(|&len| len > 0) {
            port.give_back(header.start, len);
        }
        match header.ack {
            None if header.slots > 0 => self.links.free_data(port, header.peer, header.slots),
            None => {}
            Some(op) => {
                let ack = Ack { op, mlength: header.mlength, offset: 0, status: Status::Ok };
                self.answer(port, Owed { peer: header.peer, ack, slots: header.slots });
            }
        }
    }

    /// Puts a header at the end of its list. `None` if the table is full.
    pub(crate) fn keep_unexpected(
        &mut self,
        pt_index: PtIndex,
        header: Header,
    ) -> Option<Handle<Header>> {
        let (bits, peer, entry) = (header.match_bits, header.peer, header.entry);
        let handle = self.headers.insert(header).ok()?;
        let pt = self.pts[usize::from(pt_index.0)].as_mut()?;
        let place = pt.unexpected.push(bits, peer, handle);
        self.headers.get_mut(handle)?.place = Some(place);
        if let Some(me) = self.mes.get_mut(entry) {
            me.headers += 1;
        }
        Some(handle)
    }

    #[inline(always)]
    pub(crate) fn unlink_from_list(&mut self, handle: Handle<Me>) {
        let Some(me) = self.mes.get_mut(handle) else { return };
        let Some(place) = me.place.take() else { return };
        let (list, index) = (me.list, me.pt_index);
        if let Some(pt) = self.pts.get_mut(usize::from(index.0)).and_then(Option::as_mut) {
            pt.list(list).remove(place);
        }
    }

    /// Tells of what has become of an unlinked entry as far as that is settled,
    /// and forgets the entry when nothing refers to it any more.
    pub(crate) fn settle_entry(&mut self, entry: Handle<Me>) {
        let Some(me) = self.mes.get_mut(entry) else { return };
        if me.place.is_some() || me.busy > 0 {
            return;
        }
        let told = std::mem::replace(&mut me.unlink_told, true);
        let free = me.headers == 0;
        let (pt_index, list, user_ptr) = (me.pt_index, me.list, me.spec.user_ptr);
        let silent = me.spec.options.event_unlink_disable;
        if free {
            self.forget_entry(entry);
        }
        if silent {
            return;
        }
        let eq = self.eq_of(pt_index);
        let mut event = Event::new(EventKind::AutoUnlink, pt_index, NOBODY, user_ptr);
        event.list = list;
        if !told {
            self.post(eq, event);
        }
        if free && list == List::Overflow {
            event.kind = EventKind::AutoFree;
            self.post(eq, event);
        }
    }

    /// Forgets an entry that nothing refers to any more, with its I/O vector.
    #[inline]
    fn forget_entry(&mut self, entry: Handle<Me>) {
        if let Some(vector) = self.mes.get(entry).and_then(|me| me.spec.vector) {
            self.vectors.discard(vector);
        }
        self.mes.discard(entry);
    }

    /// Takes a header out of its list for `spec`, and tells of it, at once or
    /// when its data is there. Its bytes and credits stay held if they lie in
    /// lent memory, until [`Ni::end_hold`]; else they are done with. False if the
    /// data is not there yet.
    fn take_unexpected<P: Port>(
        &mut self,
        port: &mut P,
        pt_index: PtIndex,
        handle: Handle<Header>,
        spec: &MeSpec,
        used_up: bool,
    ) -> bool {
        let header = self.headers.get_mut(handle).expect("found in the list");
        let claim = Claim {
            user_ptr: spec.user_ptr,
            event: !spec.options.event_over_disable,
            unlink_event: used_up && !spec.options.event_unlink_disable,
            ct: spec.ct.filter(|_| spec.options.ct_overflow),
            ct_bytes: spec.options.ct_bytes,
        };
        if let Some(place) = header.place.take()
            && let Some(pt) = self.pts[usize::from(pt_index.0)].as_mut()
        {
            pt.unexpected.remove(place);
        }
        if header.arriving {
            header.claim = Some(claim);
            return false;
        }
        self.tell_taken(port, handle, claim);
        true
    }

    fn hold_entry(&mut self, entry: Handle<Me>) {
        if let Some(me) = self.mes.get_mut(entry) {
            me.busy += 1;
        }
    }

    /// The data of a header is there, and an entry has taken it.
    pub(crate) fn tell_taken<P: Port>(
        &mut self,
        port: &mut P,
        handle: Handle<Header>,
        claim: Claim,
    ) {
        let Some(header) = self.headers.get(handle) else { return };
        let (pt_index, peer, entry) = (header.pt_index, header.peer, header.entry);
        let claimer = header.claimer;
        let lent = header.lent.is_some();
        let mut event = header.event(header.kind, claim.user_ptr);
        let (outcome, mlength) = (header.outcome, header.mlength);
        self.count(claim.ct, outcome.is_ok(), claim.ct_bytes.then_some(mlength));
        let eq = self.eq_of(pt_index);
        if lent && claim.event {
            event.hold = Some(handle);
        } else {
            self.end_hold(port, handle);
        }
        if claim.event {
            self.post(eq, event);
        }
        if claim.unlink_event {
            self.post(eq, Event::new(EventKind::AutoUnlink, pt_index, peer, claim.user_ptr));
        }
        if let Some(claimer) = claimer
            && let Some(me) = self.mes.get_mut(claimer)
        {
            me.busy -= 1;
            self.settle_entry(claimer);
        }
        if let Some(me) = self.mes.get_mut(entry) {
            me.headers -= 1;
            if me.headers == 0 {
                self.settle_entry(entry);
            }
        }
    }

    fn tell_found(&mut self, pt_index: PtIndex, found: Handle<Header>, spec: &MeSpec) {
        let Some(header) = self.headers.get(found) else { return };
        let mut event = header.event(EventKind::Search, spec.user_ptr);
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
    fn find_unexpected(
        &mut self,
        pt_index: PtIndex,
        spec: &MeSpec,
        offset: u64,
    ) -> Option<Handle<Header>> {
        let pt = self.pts.get_mut(usize::from(pt_index.0))?.as_mut()?;
        if pt.unexpected.is_empty() {
            return None;
        }
        let headers = &self.headers;
        let fits = |handle| headers.get(handle).is_some_and(|kept| kept.fits(spec, offset));
        pt.unexpected.find(&Me::criteria(spec), fits).map(|(_, handle)| handle)
    }

    fn link(
        &mut self,
        pt_index: PtIndex,
        list: List,
        spec: MeSpec,
        offset: u64,
    ) -> Result<Handle<Me>, PtlError> {
        let mut me = Me::new(spec, pt_index, list);
        me.local_offset = offset;
        let handle = self.mes.insert(me).map_err(|_| PtlError::NoSpace("match list entries"))?;
        let pt = self.pts[usize::from(pt_index.0)].as_mut().expect("looked up by the caller");
        let place = pt.list(list).push(Me::criteria(&spec), handle);
        if let Some(me) = self.mes.get_mut(handle) {
            me.place = Some(place);
        }
        Ok(handle)
    }
}

impl Header {
    /// Whether an entry that refuses truncation would have taken the whole.
    fn fits(&self, spec: &MeSpec, offset: u64) -> bool {
        let from = if spec.options.manage_local { offset } else { self.remote_offset };
        !spec.options.no_truncate
            || from.checked_add(self.rlength).is_some_and(|end| end <= spec.region.len)
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
        event.rts = self.rts;
        event.outcome = self.outcome;
        event
    }
}
