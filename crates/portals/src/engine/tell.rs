//! Telling: events go to queues, and counters count (Portals 4, sections 3.13 and
//! 3.14).

use crate::engine::ni::Ni;
use crate::objects::ct::Ct;
use crate::objects::eq::Eq;
use crate::objects::event::{Event, EventKind, NOBODY, NiFail};
use crate::objects::me::Me;
use crate::objects::request::{Request, What};
use crate::table::Handle;
use sluice_link::mutants::{self, Mutant};
use sluice_wire::PtIndex;

impl Ni {
    #[inline(always)]
    pub(crate) fn post(&mut self, eq: Option<Handle<Eq>>, event: Event) {
        if let Some(eq) = eq.and_then(|eq| self.eqs.get_mut(eq)) {
            eq.push(event);
        }
    }

    /// As [`Ni::post`], of an operation of this process.
    #[inline(always)]
    pub(crate) fn post_own(&mut self, eq: Option<Handle<Eq>>, event: Event) {
        if let Some(eq) = eq.and_then(|eq| self.eqs.get_mut(eq)) {
            eq.push_own(event);
        }
    }

    #[inline]
    pub(crate) fn count(&mut self, ct: Option<Handle<Ct>>, ok: bool, bytes: Option<u64>) {
        let Some(handle) = ct else { return };
        if let Some(ct) = self.cts.get_mut(handle) {
            ct.value.count(ok, bytes);
            if ct.threshold.is_some() {
                self.note_ripe(handle);
            }
        }
    }

    /// The event of an operation on an entry, but for how it went.
    #[inline(always)]
    pub(crate) fn comm_event(request: &Request, me: &Me) -> Event {
        let kind = match request.what {
            What::Put => EventKind::Put,
            What::Get => EventKind::Get,
            What::Atomic(..) => EventKind::Atomic,
            What::Fetch(..) => EventKind::FetchAtomic,
        };
        let mut event = Event::new(kind, request.pt_index, request.peer, me.user_ptr);
        event.match_bits = request.match_bits;
        event.hdr_data = request.hdr_data;
        event.user = request.user;
        event.rlength = request.rlength;
        event.remote_offset = request.remote_offset;
        event.list = me.list();
        event.atomic = match request.what {
            What::Atomic(op, datatype) | What::Fetch(op, datatype) => Some((op, datatype)),
            What::Put | What::Get => None,
        };
        event
    }

    /// Counts and tells what happened on an entry.
    #[inline(always)]
    pub(crate) fn tell_comm(&mut self, entry: u32, event: Event) {
        let me = self.mes.at(entry);
        let flags = me.flags;
        let ok = event.outcome.is_ok();
        if flags.ct_comm() {
            let ct = self.mes.cold(entry).ct;
            self.note_header(ct, &event);
            let asked = mutants::is(Mutant::CountsWhatWasAskedFor);
            let bytes = if asked { event.rlength } else { event.mlength };
            self.count(ct, ok, flags.ct_bytes().then_some(bytes));
        }
        let unwanted = flags.event_comm_disable() || (ok && flags.event_success_disable());
        if !unwanted {
            let eq = self.eq_of(event.pt_index);
            self.post(eq, event);
        }
    }

    /// Tells that a portal table entry is disabled, once nothing is under way
    /// there any more.
    pub(crate) fn tell_disabled(&mut self, pt_index: PtIndex) {
        let Some(pt) = self.pts[usize::from(pt_index.0)].as_mut() else { return };
        if pt.active > 0 || !pt.event_owed {
            return;
        }
        pt.event_owed = false;
        let mut event = Event::new(EventKind::PtDisabled, pt_index, NOBODY, 0);
        event.outcome = Err(NiFail::PtDisabled);
        if let Some(eq) = pt.eq.and_then(|eq| self.eqs.get_mut(eq)) {
            eq.push_over(event);
        }
    }
}
