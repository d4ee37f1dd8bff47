//! Match lists and unexpected headers: append, unlink, search (Portals 4,
//! section 3.12), and the walk that an arriving operation makes.
//!
//! Lists are walked in order; making that cost independent of their length is
//! a later step that changes only this file.

use crate::event::{Event, EventKind, Hold, NiFail};
use crate::limits::PtlError;
use crate::me::{List, Me, MeSpec};
use crate::ni::Ni;
use crate::pt::{Chain, Header};
use crate::table::{Handle, Table};
use crate::target::Owed;
use sluice_link::Port;
use sluice_wire::{Ack, MatchBits, PeerId, PtIndex, Status};

/// What a search does with the header it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchOp {
    /// Reports it and leaves it (`PTL_SEARCH_ONLY`).
    Only,
    /// Takes it, as an appended entry would (`PTL_SEARCH_DELETE`).
    Delete,
}

/// Which operation looks for an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Put,
    Get,
}

/// What an operation found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The first entry that matches, and it allows the operation.
    Entry(Handle<Me>),
    /// The first entry that matches does not allow the operation: it ends
    /// there (Portals 4, section 3.12: matching looks at bits and source only).
    Violation,
    /// No entry matches.
    Nothing,
}

impl Ni {
    /// Appends an entry (`PtlMEAppend`). A use-once entry that matches an
    /// unexpected header is not linked: its event is the overflow event, and
    /// `None` is returned.
    ///
    /// # Errors
    /// [`PtlError::ArgInvalid`], [`PtlError::NoSpace`].
    pub fn me_append<P: Port>(
        &mut self,
        port: &mut P,
        pt_index: PtIndex,
        list: List,
        spec: MeSpec,
    ) -> Result<Option<Handle<Me>>, PtlError> {
        let eq = self.pt(pt_index)?.eq;
        if self.mes.is_full() {
            return Err(PtlError::NoSpace("match list entries"));
        }
        if list == List::Priority && spec.options.op_put {
            while let Some(found) = self.find_unexpected(pt_index, &spec) {
                let event = self.take_unexpected(port, pt_index, found, spec.user_ptr);
                self.count_comm(&spec, event.mlength);
                if !spec.options.event_over_disable {
                    self.post(eq, event);
                } else if let Some(hold) = event.hold {
                    self.end_hold(port, hold);
                }
                if spec.options.use_once {
                    if !spec.options.event_unlink_disable {
                        self.post(
                            eq,
                            Event::new(EventKind::AutoUnlink, pt_index, event.peer, spec.user_ptr),
                        );
                    }
                    return Ok(None);
                }
            }
        }
        let handle = self
            .mes
            .insert(Me::new(spec, pt_index, list))
            .map_err(|_| PtlError::NoSpace("match list entries"))?;
        let pt = self.pts[usize::from(pt_index.0)].as_mut().expect("looked up above");
        let chain = match list {
            List::Priority => &mut pt.priority,
            List::Overflow => &mut pt.overflow,
        };
        link_last(chain, &mut self.mes, handle);
        if !spec.options.event_link_disable {
            // A link event has no initiator; the entry's own user pointer tells
            // the client which one it is.
            self.post(eq, Event::new(EventKind::Link, pt_index, PeerId(u32::MAX), spec.user_ptr));
        }
        Ok(Some(handle))
    }

    /// Unlinks an entry (`PtlMEUnlink`) and returns what it was made from.
    ///
    /// # Errors
    /// [`PtlError::ArgInvalid`] if it is not linked any more,
    /// [`PtlError::InUse`] while unexpected headers point into it.
    pub fn me_unlink(&mut self, handle: Handle<Me>) -> Result<MeSpec, PtlError> {
        let me = self.mes.get(handle).filter(|me| !me.zombie);
        let me = me.ok_or(PtlError::ArgInvalid("entry is not linked"))?;
        if me.headers > 0 {
            return Err(PtlError::InUse);
        }
        self.unlink_from_list(handle);
        Ok(self.mes.remove(handle).expect("looked up above").spec)
    }

    /// Looks among the unexpected headers for what `spec` would match
    /// (`PtlMESearch`). The answer is an event in the portal table entry's
    /// queue: a search event, or, for [`SearchOp::Delete`] with a match, the
    /// overflow event that an append would have caused.
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
        let event = match (self.find_unexpected(pt_index, spec), op) {
            (None, _) => {
                let mut event =
                    Event::new(EventKind::Search, pt_index, PeerId(u32::MAX), spec.user_ptr);
                event.outcome = Err(NiFail::NoMatch);
                event
            }
            (Some(found), SearchOp::Only) => {
                let header = self.headers.get(found).expect("just found");
                header.event(EventKind::Search, spec.user_ptr)
            }
            (Some(found), SearchOp::Delete) => {
                self.take_unexpected(port, pt_index, found, spec.user_ptr)
            }
        };
        self.post(eq, event);
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
            None => self.links.free_data(port, header.peer, header.slots),
            Some(op) => {
                let ack = Ack { op, mlength: header.mlength, status: Status::Ok };
                self.answer(port, Owed { peer: header.peer, ack, slots: header.slots });
            }
        }
    }

    /// The first entry that an operation matches: the priority list, then the
    /// overflow list.
    #[inline(always)]
    pub(crate) fn find_entry(
        &self,
        pt_index: PtIndex,
        op: Op,
        peer: PeerId,
        bits: MatchBits,
        remote_offset: u64,
        rlength: u64,
    ) -> Found {
        let Some(pt) = self.pts.get(usize::from(pt_index.0)).and_then(Option::as_ref) else {
            return Found::Nothing;
        };
        for head in [pt.priority.head, pt.overflow.head] {
            let mut at = head;
            while let Some(handle) = at {
                let Some(me) = self.mes.get(handle) else { break };
                if me.matches(peer, bits, remote_offset, rlength) {
                    let options = &me.spec.options;
                    let allowed = match op {
                        Op::Put => options.op_put,
                        Op::Get => options.op_get,
                    };
                    return if allowed { Found::Entry(handle) } else { Found::Violation };
                }
                at = me.next;
            }
        }
        Found::Nothing
    }

    pub(crate) fn keep_unexpected(&mut self, pt_index: PtIndex, header: Header) -> Option<Hold> {
        let handle = self.headers.insert(header).ok()?;
        let pt = self.pts[usize::from(pt_index.0)].as_mut()?;
        match pt.unexpected.tail {
            None => pt.unexpected.head = Some(handle),
            Some(tail) => self.headers.get_mut(tail)?.next = Some(handle),
        }
        self.headers.get_mut(handle)?.prev = pt.unexpected.tail;
        pt.unexpected.tail = Some(handle);
        pt.unexpected_count += 1;
        Some(handle)
    }

    #[inline(always)]
    pub(crate) fn unlink_from_list(&mut self, handle: Handle<Me>) {
        let Some(me) = self.mes.get(handle) else { return };
        let (prev, next, list, index) = (me.prev, me.next, me.list, me.pt_index);
        let Some(pt) = self.pts.get_mut(usize::from(index.0)).and_then(Option::as_mut) else {
            return;
        };
        let chain = match list {
            List::Priority => &mut pt.priority,
            List::Overflow => &mut pt.overflow,
        };
        match prev {
            None => chain.head = next,
            Some(prev) => {
                if let Some(me) = self.mes.get_mut(prev) {
                    me.next = next;
                }
            }
        }
        match next {
            None => chain.tail = prev,
            Some(next) => {
                if let Some(me) = self.mes.get_mut(next) {
                    me.prev = prev;
                }
            }
        }
    }

    #[inline]
    pub(crate) fn count_comm(&mut self, spec: &MeSpec, mlength: u64) {
        if spec.options.ct_comm {
            self.count(spec.ct, true, spec.options.ct_bytes.then_some(mlength));
        }
    }

    #[inline]
    fn find_unexpected(&self, pt_index: PtIndex, spec: &MeSpec) -> Option<Handle<Header>> {
        let pt = self.pts.get(usize::from(pt_index.0))?.as_ref()?;
        let mut at = pt.unexpected.head;
        while let Some(handle) = at {
            let header = self.headers.get(handle)?;
            let fits = !spec.options.no_truncate || header.rlength <= spec.region.len;
            if fits
                && spec.match_bits.accepts(spec.ignore_bits, header.match_bits)
                && spec.source.is_none_or(|source| source == header.peer)
            {
                return Some(handle);
            }
            at = header.next;
        }
        None
    }

    /// Takes a header out of its list. Its bytes and credits stay held if they
    /// lie in lent memory, until [`Ni::end_hold`]; else they are done with.
    fn take_unexpected<P: Port>(
        &mut self,
        port: &mut P,
        pt_index: PtIndex,
        handle: Handle<Header>,
        user_ptr: u64,
    ) -> Event {
        let header = self.headers.get(handle).expect("found in the list");
        let (prev, next, entry) = (header.prev, header.next, header.entry);
        let lent = header.lent.is_some();
        let mut event = header.event(EventKind::PutOverflow, user_ptr);
        if let Some(pt) = self.pts[usize::from(pt_index.0)].as_mut() {
            match prev {
                None => pt.unexpected.head = next,
                Some(prev) => {
                    if let Some(header) = self.headers.get_mut(prev) {
                        header.next = next;
                    }
                }
            }
            match next {
                None => pt.unexpected.tail = prev,
                Some(next) => {
                    if let Some(header) = self.headers.get_mut(next) {
                        header.prev = prev;
                    }
                }
            }
            pt.unexpected_count -= 1;
        }
        if lent {
            event.hold = Some(handle);
        } else {
            self.end_hold(port, handle);
        }
        self.leave_entry(pt_index, entry);
        event
    }

    /// One header fewer points into an overflow entry; the last one out of an
    /// unlinked entry frees it.
    fn leave_entry(&mut self, pt_index: PtIndex, entry: Handle<Me>) {
        let Some(me) = self.mes.get_mut(entry) else { return };
        me.headers -= 1;
        if me.headers == 0 && me.zombie {
            let spec = me.spec;
            self.mes.remove(entry);
            if !spec.options.event_unlink_disable {
                let eq = self.pts[usize::from(pt_index.0)].as_ref().and_then(|pt| pt.eq);
                self.post(
                    eq,
                    Event::new(EventKind::AutoFree, pt_index, PeerId(u32::MAX), spec.user_ptr),
                );
            }
        }
    }
}

impl Me {
    #[inline]
    fn matches(&self, peer: PeerId, bits: MatchBits, remote_offset: u64, rlength: u64) -> bool {
        let spec = &self.spec;
        spec.match_bits.accepts(spec.ignore_bits, bits)
            && spec.source.is_none_or(|source| source == peer)
            && (!spec.options.no_truncate || self.landing(remote_offset, rlength).1 == rlength)
    }
}

impl Header {
    fn event(&self, kind: EventKind, user_ptr: u64) -> Event {
        let mut event = Event::new(kind, self.pt_index, self.peer, user_ptr);
        event.match_bits = self.match_bits;
        event.hdr_data = self.hdr_data;
        event.user = self.user;
        event.rlength = self.rlength;
        event.mlength = self.mlength;
        event.start = self.start;
        event.rts = self.rts;
        event
    }
}

fn link_last(chain: &mut Chain<Me>, mes: &mut Table<Me>, handle: Handle<Me>) {
    match chain.tail {
        None => chain.head = Some(handle),
        Some(tail) => {
            if let Some(me) = mes.get_mut(tail) {
                me.next = Some(handle);
            }
        }
    }
    if let Some(me) = mes.get_mut(handle) {
        me.prev = chain.tail;
    }
    chain.tail = Some(handle);
}
