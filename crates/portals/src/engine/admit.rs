//! Which entry takes an operation that has arrived (Portals 4, section 3.12), or why
//! none does.

use crate::engine::ni::Ni;
use crate::lists::Slab;
use crate::objects::me::Me;
use crate::objects::recovery::Shortage;
use crate::objects::request::{Request, What};
use sluice_link::Port;
use sluice_link::mutants::{self, Mutant};
use sluice_wire::{List, Status};

impl Ni {
    /// The slot of the entry that takes an operation.
    ///
    /// # Errors
    /// What the initiator is told if none does.
    #[inline(always)]
    pub(crate) fn admit<P: Port>(&mut self, port: &P, request: &Request) -> Result<u32, Status> {
        let slot = self.pts.get_mut(usize::from(request.pt_index.0));
        let Some(pt) = slot.and_then(Option::as_mut) else {
            return Err(self.nowhere(request));
        };
        if pt.is_shut {
            self.at_gate(request.peer, request.pt_index)
                .inspect_err(|_| self.status.dropped += 1)?;
        }
        let slot = self.pts.get_mut(usize::from(request.pt_index.0));
        let Some(pt) = slot.and_then(Option::as_mut) else {
            return Err(self.nowhere(request));
        };
        let (remote_offset, rlength) = (request.remote_offset, request.rlength);
        let fits = |mes: &Slab<Me>, slot: u32| {
            !mes.at(slot).flags.no_truncate()
                || mutants::is(Mutant::TruncatesAnyway)
                || mes.place(slot, remote_offset, rlength).1 == rlength
        };
        let (bits, peer) = (request.match_bits, request.peer);
        let (mut first, mut second) = (&mut pt.priority, &mut pt.overflow);
        if mutants::is(Mutant::PrefersTheOverflowList) {
            std::mem::swap(&mut first, &mut second);
        }
        let found = match first.find(&mut self.mes, bits, peer, fits) {
            Some(found) => Some(found),
            None => second.find(&mut self.mes, bits, peer, fits),
        };
        let Some(slot) = found else {
            return Err(self.refuse(request, true, None));
        };
        let me = self.mes.at(slot);
        let flags = me.flags;
        let list = me.list();
        if me.has_cold() && self.mes.cold(slot).uid.is_some_and(|uid| uid != port.uid(peer)) {
            self.status.permission_violations += 1;
            return Err(Status::PermViolation);
        }
        let allowed = match request.what {
            What::Put | What::Atomic(..) => flags.op_put(),
            What::Get => flags.op_get(),
            What::Fetch(..) => flags.op_put() && flags.op_get(),
        };
        if !allowed && !mutants::is(Mutant::OverlooksPermissions) {
            self.status.operation_violations += 1;
            return Err(Status::OpViolation);
        }
        let keeps_header = list == List::Overflow && !flags.unexpected_hdr_disable();
        let tells = !flags.event_flowctrl_disable();
        if keeps_header && self.headers.is_full() {
            return Err(self.refuse(request, tells, Some(Shortage::Headers)));
        }
        if pt.flow_control {
            let events = self.mes.events_due(slot, remote_offset, rlength);
            let has_room =
                pt.eq.and_then(|eq| self.eqs.get(eq)).is_none_or(|eq| eq.has_room(events));
            if !has_room {
                return Err(self.refuse(request, tells, Some(Shortage::Events { need: events })));
            }
        }
        Ok(slot)
    }

    /// Something has run out, or nothing matches: with flow control the portal table
    /// entry is disabled, else the operation is dropped.
    #[cold]
    fn refuse(&mut self, request: &Request, tells: bool, shortage: Option<Shortage>) -> Status {
        let pt_index = request.pt_index;
        self.status.dropped += 1;
        let Some(pt) = self.pts[usize::from(pt_index.0)].as_mut() else { return Status::NoMatch };
        if !pt.flow_control {
            return Status::NoMatch;
        }
        if self.recovery.is_some() {
            self.note_shortage(request, shortage);
            return Status::PtDisabled;
        }
        if !mutants::is(Mutant::StaysEnabled) {
            (pt.enabled, pt.is_shut) = (false, true);
        }
        pt.event_owed = tells;
        self.status.exhaustions += u64::from(shortage.is_some());
        self.tell_disabled(pt_index);
        Status::PtDisabled
    }

    /// There is no such portal table entry.
    #[cold]
    fn nowhere(&mut self, request: &Request) -> Status {
        self.status.dropped += 1;
        let (peer, pt_index) = (request.peer, request.pt_index);
        // One that was freed may have refused this initiator, who begins with that again.
        let was_refused =
            self.recovery.as_ref().is_some_and(|it| it.refusals.contains_key(&(pt_index, peer)));
        if was_refused { Status::PtDisabled } else { Status::NoMatch }
    }
}
