//! Operations whose data moves after they matched: what they keep busy meanwhile, and
//! how their end is told at the target.

use crate::engine::ni::Ni;
use crate::objects::event::NiFail;
use crate::objects::me::Me;
use crate::objects::operation::Done;
use crate::objects::pt::ColdHeader;
use crate::objects::request::Owed;
use crate::table::Handle;
use sluice_link::Port;
use sluice_wire::{Ack, PtIndex, Status};

impl Ni {
    /// The data of an operation on an entry has begun to move: the entry and
    /// its portal table entry are busy until [`Ni::finish`].
    pub(crate) fn start_moving(&mut self, entry: Handle<Me>, pt_index: PtIndex) {
        let mut events = 0;
        if let Some(slot) = self.mes.locate(entry) {
            self.mes.cold_mut(slot).busy += 1;
            events = self.mes.events_of_move(slot);
        }
        if let Some(pt) = self.pts[usize::from(pt_index.0)].as_mut() {
            pt.active += 1;
            if pt.flow_control
                && let Some(eq) = pt.eq.and_then(|eq| self.eqs.get_mut(eq))
            {
                eq.keep(events);
            }
        }
    }

    /// The data of an operation on an entry has moved, or will not.
    pub(crate) fn finish<P: Port>(
        &mut self,
        port: &mut P,
        done: Done,
        outcome: Result<(), NiFail>,
    ) {
        let Done { entry, header, mut event, offset, answer, held } = done;
        event.outcome = outcome;
        let (peer, pt_index) = (event.peer, event.pt_index);
        if let Some(op) = answer {
            let status = outcome.map_or_else(Status::from, |()| Status::Ok);
            let (mlength, list) = (event.mlength, event.list);
            let ack = Ack { op, mlength, offset, list, status };
            self.answer(port, Owed { peer, ack, held });
        } else if !held.is_none() {
            self.links.free(port, peer, held);
        }
        let mut events = 0;
        if let Some(slot) = self.mes.locate(entry) {
            self.mes.cold_mut(slot).busy -= 1;
            events = self.mes.events_of_move(slot);
        }
        if let Some(pt) = self.pts[usize::from(pt_index.0)].as_mut() {
            pt.active -= 1;
            if pt.flow_control
                && let Some(eq) = pt.eq.and_then(|eq| self.eqs.get_mut(eq))
            {
                eq.give_back(events);
            }
        }
        if let Some(slot) = self.mes.locate(entry) {
            self.tell_comm(slot, event);
        }
        if let Some(slot) = header.and_then(|header| self.headers.locate(header)) {
            let header = self.headers.at_mut(slot);
            header.arriving = false;
            header.outcome = outcome;
            let ColdHeader { claim, claimer, .. } = *self.headers.beside(slot);
            if let Some(claim) = claim {
                self.tell_taken(port, slot, claimer, claim);
            }
        }
        self.settle_entry(entry);
        self.tell_disabled(pt_index);
    }
}
