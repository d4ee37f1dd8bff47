//! Where every credit and slot of a world is.

use super::bulk::Cargo;
use super::{Event, World};
use crate::library::Library;
use sluice_link::MailboxRegion;
use sluice_wire::{Packet, PeerId};
use std::collections::BTreeMap;

impl<L: Library> World<L> {
    /// Panics unless every book is in order, and every credit of every pair is
    /// in exactly one place.
    pub fn check_invariants(&self) {
        // By receiver and sender.
        let mut slots: BTreeMap<(u32, PeerId), u64> = BTreeMap::new();
        let mut credits: BTreeMap<(u32, PeerId), u64> = BTreeMap::new();
        let on_their_way = self.queue.iter().filter_map(|event| match event {
            Event::Arrive { to, flight } => Some((*to, *flight)),
            _ => None,
        });
        let in_fabric = self.fabric.iter().flat_map(|fabric| fabric.cargoes());
        let in_fabric = in_fabric.filter_map(|(to, cargo)| match cargo {
            Cargo::Flight(flight) => Some((to as u32, *flight)),
            Cargo::Asked(_) | Cargo::Moved(_) => None,
        });
        if let Some(fabric) = &self.fabric {
            fabric.check_invariants();
        }
        let grant = self.around.layout.grant;
        let unread = (0u32..)
            .zip(&self.hosts)
            .flat_map(|(to, host)| host.mailbox.iter().map(move |&flight| (to, flight)));
        for (to, flight) in on_their_way.chain(in_fabric).chain(unread) {
            let parsed = flight.peek(&self.store);
            *credits.entry((to, flight.from())).or_default() += u64::from(parsed.credits.data);
            if let Packet::ReturnResponse(response) = parsed.packet {
                *slots.entry((to, flight.from())).or_default() += response.slots;
            }
            if MailboxRegion::of(&parsed.packet) == MailboxRegion::Data {
                *slots.entry((to, flight.from())).or_default() += u64::from(parsed.slots());
            }
        }
        for (me, library) in (0u32..).zip(&self.libraries) {
            library.check_invariants();
            let exposed = &self.around.exposures[me as usize];
            let is_clean = library.has_pending() || exposed.is_empty();
            assert!(is_clean, "{me} has nothing pending, and exposes {}", exposed.len());
            let mut own = 0;
            let mut senders = 0;
            for other in 0..self.hosts.len() as u32 {
                // What `other` may write into this mailbox, as both sides see it.
                let Some(ours) = library.links().ledger(PeerId(other)) else { continue };
                senders += 1;
                own += u64::from(ours.data_at_sender) + u64::from(ours.data_held);
                let theirs = self.libraries[other as usize].links().ledger(PeerId(me));
                let theirs = theirs.filter(|theirs| theirs.granted.is_some());
                let there = theirs.map_or(u64::from(grant.data_slots), |theirs| {
                    u64::from(theirs.data_credits) + u64::from(theirs.data_credits_kept)
                });
                let sum = there
                    + slots.get(&(me, PeerId(other))).copied().unwrap_or(0)
                    + credits.get(&(other, PeerId(me))).copied().unwrap_or(0);
                let known = u64::from(ours.data_at_sender);
                assert_eq!(sum, known, "credits of {other} toward {me}");
                if self.around.layout.dynamic_slots == 0 {
                    let all = known + u64::from(ours.data_held) + u64::from(ours.data_owed);
                    assert_eq!(all, u64::from(grant.data_slots), "slots of {other} at {me}");
                }
            }
            if self.around.layout.dynamic_slots > 0 {
                let region = senders * u64::from(grant.data_slots)
                    + u64::from(self.around.layout.dynamic_slots);
                assert_eq!(own + library.links().slots_available(), region, "slots of {me}");
            }
        }
    }
}
