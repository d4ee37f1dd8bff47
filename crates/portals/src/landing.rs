//! Puts at the target: what lands in an entry, and what is kept of what nobody
//! waits for yet.

use crate::event::{EventKind, NiFail};
use crate::me::{List, Me};
use crate::ni::Ni;
use crate::operation::Done;
use crate::pt::Header;
use crate::table::Handle;
use crate::target::{Owed, Request};
use sluice_link::Port;
use sluice_wire::{Ack, Addr, PeerId, Put, Status};

impl Ni {
    #[inline(always)]
    pub(crate) fn on_put<P: Port>(
        &mut self,
        port: &mut P,
        from: PeerId,
        put: &Put,
        payload_len: u32,
        slots: u32,
    ) {
        let request = Request::put(from, put, payload_len);
        let (mlength, offset, status, slots) = match self.admit(port, &request) {
            Err(status) => (0, 0, status, slots),
            Ok(entry) => {
                let me = self.mes.get(entry).expect("just found");
                if me.list == List::Overflow && me.spec.options.lent {
                    self.put_lent(port, &request, put, payload_len, slots, entry);
                    return;
                }
                if put.bulk.is_some() {
                    self.put_bulk(port, &request, put, slots, entry);
                    return;
                }
                let (mlength, offset, outcome, kept) = self.put_entry(port, &request, slots, entry);
                let status = outcome.map_or_else(Status::from, |()| Status::Ok);
                (mlength, offset, status, if kept { 0 } else { slots })
            }
        };
        match put.ack {
            Some((_, op)) => {
                let ack = Ack { op, mlength, offset, status };
                self.answer(port, Owed { peer: from, ack, slots });
            }
            None if slots > 0 => self.links.free_data(port, from, slots),
            None => {}
        }
    }

    /// A put lands in the memory of an entry. Returns how many bytes did, where, how
    /// it went, and whether a header was kept that has the credits.
    #[inline(always)]
    fn put_entry<P: Port>(
        &mut self,
        port: &mut P,
        request: &Request,
        slots: u32,
        entry: Handle<Me>,
    ) -> (u64, u64, Result<(), NiFail>, bool) {
        let me = self.mes.get_mut(entry).expect("just found");
        let (offset, fits) = me.landing(request.remote_offset, request.rlength);
        // What is only announced has not moved.
        let mlength = if request.rts.is_some() { 0 } else { fits };
        let unlink = me.consume(mlength) || me.spec.options.use_once;
        let into = me.span(offset, mlength);
        let list = me.list;
        let mut event = Ni::comm_event(request, me);
        event.mlength = mlength;
        event.outcome = match into.flat() {
            Some(region) if mlength == 0 || port.writable(region) => {
                event.start = region.addr;
                if mlength > 0 {
                    port.copy_payload(0, region.addr, mlength as u32);
                }
                Ok(())
            }
            None if self.is_writable(port, into) => {
                event.start = self.start_of(into);
                self.scatter(port, 0, into);
                Ok(())
            }
            _ => Err(NiFail::Segv),
        };
        let outcome = event.outcome;
        let holds = list == List::Overflow && self.limits.credits_until_matched;
        let kept = if list == List::Overflow {
            let held = if holds { slots } else { 0 };
            self.keep_header_of(request, entry, &event, false, held).is_some()
        } else {
            false
        };
        if unlink {
            self.unlink_from_list(entry);
        }
        self.tell_comm(entry, event);
        if unlink {
            self.settle_entry(entry);
        }
        (mlength, offset, outcome, kept && holds)
    }

    /// A put whose data is to be fetched: what fits of it is, and the rest
    /// never moves.
    fn put_bulk<P: Port>(
        &mut self,
        port: &mut P,
        request: &Request,
        put: &Put,
        slots: u32,
        entry: Handle<Me>,
    ) {
        let (Some(bulk), Some((_, op))) = (put.bulk, put.ack) else { return };
        let me = self.mes.get_mut(entry).expect("just found");
        let (offset, mlength) = me.landing(request.remote_offset, request.rlength);
        let unlink = me.consume(mlength) || me.spec.options.use_once;
        let into = me.span(offset, mlength);
        let mut event = Ni::comm_event(request, me);
        event.mlength = mlength;
        event.start = self.start_of(into);
        let header = self.keep_header_of(request, entry, &event, true, 0);
        if unlink {
            self.unlink_from_list(entry);
        }
        self.start_moving(entry, request.pt_index);
        let done = Done { entry, header, event, offset, answer: Some(op), slots };
        let direct = Some(bulk.addr).filter(|&addr| addr != Addr(0));
        self.fetch_put(port, done, op, direct, into);
    }

    /// A put nobody waits for yet is kept in memory that the port lends, and
    /// keeps its credits. It is acknowledged when it is done with.
    fn put_lent<P: Port>(
        &mut self,
        port: &mut P,
        request: &Request,
        put: &Put,
        payload_len: u32,
        slots: u32,
        entry: Handle<Me>,
    ) {
        let start = if payload_len > 0 {
            let start = port.lend(payload_len);
            port.copy_payload(0, start, payload_len);
            start
        } else {
            Addr(0)
        };
        self.status.unexpected += 1;
        let kept = self.keep_unexpected(
            request.pt_index,
            Header {
                pt_index: request.pt_index,
                peer: request.peer,
                match_bits: request.match_bits,
                hdr_data: request.hdr_data,
                user: request.user,
                rlength: request.rlength,
                mlength: u64::from(payload_len),
                start,
                rts: request.rts,
                entry,
                lent: Some(payload_len),
                slots,
                ack: put.ack.map(|(_, op)| op),
                kind: EventKind::PutOverflow,
                atomic: None,
                remote_offset: request.remote_offset,
                outcome: Ok(()),
                arriving: false,
                claim: None,
                claimer: None,
                place: None,
            },
        );
        // Each header holds at least one credit, and the table's limit is no
        // less than the credits granted (`Ni::new`).
        assert!(kept.is_some(), "credits bound the unexpected headers");
    }
}
