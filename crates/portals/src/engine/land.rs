//! A plain put at its target: the path of nearly every message. One that meets an entry for
//! one message lands here, and its event is handed to the caller instead of a queue. All
//! others go on as any put ([`Ni::on_packet`]).

use crate::engine::ni::Ni;
use crate::objects::request::Taken;
use sluice_link::mutants::{self, Mutant};
use sluice_link::{Held, Port, Violation};
use sluice_wire::{PeerId, Plain, PlainParsed, Region};

/// A plain put that has landed in an entry for one message, which is gone: instead of a put
/// event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landed {
    /// The user pointer of the entry.
    pub user_ptr: u64,
    /// What the put said.
    pub plain: Plain,
    /// Length that was asked for, in bytes.
    pub rlength: u64,
}

impl Ni {
    /// Handles a plain put that has arrived, as [`Ni::on_packet`] would. What has landed is
    /// no event: it is given back. For a client that takes every event out before it calls
    /// again.
    #[inline(always)]
    pub fn on_plain<P: Port>(
        &mut self,
        port: &mut P,
        from: PeerId,
        packet: &PlainParsed,
    ) -> (Taken, Option<Landed>) {
        let arrival = match self.links.on_plain_arrival(from, packet) {
            Ok(arrival) => arrival,
            Err(Violation::Gone) => return (Taken::Fine { brought_credits: false }, None),
            Err(_) => {
                self.status.protocol_violations += 1;
                return (Taken::Violation, None);
            }
        };
        let landed = self.land(port, from, packet, arrival.slots);
        if landed.is_none() {
            self.put_like_any(port, from, packet, arrival.held());
        }
        if mutants::is_now(Mutant::DeliversTwice) {
            self.put_like_any(port, from, packet, Held::NONE);
        }
        (Taken::Fine { brought_credits: self.settle(port, from, &arrival) }, landed)
    }

    /// Puts into the first entry that accepts, if it is for one message and tells of
    /// nothing but the put. Else nothing is done.
    #[inline(always)]
    fn land<P: Port>(
        &mut self,
        port: &mut P,
        from: PeerId,
        packet: &PlainParsed,
        slots: u32,
    ) -> Option<Landed> {
        let plain = packet.plain;
        let pt = self.pts.get_mut(usize::from(plain.pt_index.0))?.as_mut()?;
        if pt.is_shut || pt.flow_control {
            return None;
        }
        let entry = pt.priority.find(&mut self.mes, plain.match_bits, from, |_, _| true)?;
        let me = self.mes.at(entry);
        if !me.flags.is_for_one_message() || me.has_cold() {
            return None;
        }
        let rlength = u64::from(packet.payload_len);
        let into = Region { addr: me.region.addr, len: rlength.min(me.region.len) };
        let user_ptr = me.user_ptr;
        if into.len > 0 {
            if !port.writable(into) {
                return None;
            }
            let left = u32::from(mutants::is(Mutant::CopiesTooLittle));
            if !port.copy_payload(0, into.addr, into.len as u32 - left) {
                return None;
            }
        }
        pt.priority.discard(&mut self.mes, entry);
        self.links.free_data(port, from, slots);
        Some(Landed { user_ptr, plain, rlength })
    }

    #[inline(never)]
    fn put_like_any<P: Port>(
        &mut self,
        port: &mut P,
        from: PeerId,
        packet: &PlainParsed,
        held: Held,
    ) {
        self.on_put(port, from, &packet.plain.put(), packet.payload_len, held);
    }
}
