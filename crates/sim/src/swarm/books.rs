//! Where every credit, slot and lent byte is, and that nothing stays exposed.
//!
//! What is on its way or unread is counted by pair as it leaves and as it is
//! read, so that one look at a process costs as much as it has peers.

use sluice_link::{Layout, Ledger, Links, MailboxRegion};
use sluice_wire::{Packet, Parsed, PeerId};

/// What is between one process and another, on its way or unread.
#[derive(Clone, Copy, Debug, Default)]
struct InFlight {
    /// Slots of the data region, and credits of it that are given back.
    data_slots: u64,
    data_returned: u64,
    control_slots: u64,
    /// Credits for the sender of the other direction.
    data_credits: u64,
    control_credits: u64,
    /// Slots of any region.
    slots: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Books {
    count: usize,
    /// By sender, then receiver.
    in_flight: Vec<InFlight>,
    /// Who has ended: no book is kept of what it has a part in.
    dead: Vec<bool>,
    /// By pair: no book is kept of what is between them.
    parted: Vec<bool>,
}

impl Books {
    pub fn new(count: usize) -> Books {
        Books {
            count,
            in_flight: vec![InFlight::default(); count * count],
            dead: vec![false; count],
            parted: vec![false; count * count],
        }
    }

    /// A process has ended.
    pub fn close(&mut self, who: usize) {
        self.dead[who] = true;
    }

    /// One of two processes has given up the other.
    pub fn part(&mut self, one: usize, other: usize) {
        self.parted[one * self.count + other] = true;
        self.parted[other * self.count + one] = true;
    }

    /// Whether a book is kept of what is between two processes.
    fn is_kept(&self, one: usize, other: usize) -> bool {
        !self.dead[one] && !self.dead[other] && !self.parted[one * self.count + other]
    }

    /// A packet leaves. The slots that it takes.
    pub fn send(&mut self, from: usize, to: usize, packet: &Parsed) -> u32 {
        let what = InFlight::of(packet);
        let between = self.between_mut(from, to);
        *between = between.with(&what, u64::checked_add);
        what.slots as u32
    }

    /// A packet is read, or lost.
    pub fn read(&mut self, from: usize, to: usize, packet: &Parsed) {
        let between = self.between_mut(from, to);
        *between = between.with(&InFlight::of(packet), u64::checked_sub);
    }

    /// Whether a book is kept of a process.
    pub fn has(&self, who: usize) -> bool {
        !self.dead[who]
    }

    /// Panics unless all credits and slots that `who` has a part in are in order. `links`
    /// gives those of each process.
    pub fn check<'a>(&self, who: usize, layouts: &[Layout], links: impl Fn(usize) -> &'a Links) {
        if self.dead[who] {
            return;
        }
        let layout = &layouts[who];
        for other in (0..self.count).filter(|other| self.is_kept(who, *other)) {
            self.check_pair((who, links(who)), (other, links(other)), &layouts[other]);
            self.check_pair((other, links(other)), (who, links(who)), layout);
            self.check_ring(other, &layouts[other], links(other));
        }
        if layout.dynamic_slots > 0 {
            self.check_dynamic(who, layout, links(who));
        }
    }

    /// Panics unless, at rest, every sender without credits has been given what there
    /// is to be given. The only place for a credit packet is left to half of the quota.
    pub fn check_rest(&self, to: usize, links: &Links, layout: &Layout) {
        let living = (0..self.count).filter(|from| self.is_kept(to, *from));
        let kept_of = |ledger: &Ledger| ledger.dynamic.map_or(0, |dynamic| u64::from(dynamic.kept));
        let all = (0..self.count).filter_map(|from| links.ledger(PeerId(from as u32)));
        let kept: u64 = all.map(|ledger| kept_of(&ledger)).sum();
        for from in living {
            let Some(ledger) = links.ledger(PeerId(from as u32)) else { continue };
            let free = match ledger.dynamic {
                Some(_) => links.slots_available() - kept + kept_of(&ledger),
                None => u64::from(ledger.data_owed),
            };
            let places = ledger.granted.unwrap_or(layout.grant).credit_slots / 2;
            let is_free = places > 1 || ledger.dynamic.is_some();
            let least = if is_free { 1 } else { (layout.grant.data_slots / 2).max(1) };
            let waits = ledger.data_at_sender == 0 && ledger.data_owed >= least;
            assert!(!waits || free == 0, "{to} owes {from} slots and keeps them: {ledger:?}");
        }
    }

    /// Credits at the sender, on their way, and held or owed at the receiver add
    /// up to what was granted.
    fn check_pair(
        &self,
        (from, sender): (usize, &Links),
        (to, receiver): (usize, &Links),
        layout: &Layout,
    ) {
        let grant = layout.grant;
        let theirs = sender.ledger(PeerId(to as u32));
        let theirs = theirs.filter(|ledger| ledger.granted.is_some());
        let ours = receiver.ledger(PeerId(from as u32));
        let (there, back) = (self.between(from, to), self.between(to, from));

        let data = theirs.map_or(grant.data_slots, |ledger| ledger.data_credits);
        let data_kept = theirs.map_or(0, |ledger| ledger.data_credits_kept);
        let sum = u64::from(data)
            + u64::from(data_kept)
            + there.data_slots
            + there.data_returned
            + back.data_credits;
        let known = ours.map_or(grant.data_slots, |ledger| ledger.data_at_sender);
        assert_eq!(sum, u64::from(known), "data credits of {from} toward {to}");
        if layout.dynamic_slots == 0
            && let Some(ours) = ours
        {
            let all = u64::from(known) + u64::from(ours.data_held) + u64::from(ours.data_owed);
            assert_eq!(all, u64::from(grant.data_slots), "data slots of {from} at {to}");
        }

        let granted = u16::from(grant.control_slots);
        let control = theirs.map_or(granted, |ledger| ledger.control_credits);
        let control_here = ours
            .map_or(0, |ledger| u64::from(ledger.control_held) + u64::from(ledger.control_owed));
        let sum = u64::from(control) + there.control_slots + control_here + back.control_credits;
        assert_eq!(sum, u64::from(granted), "control credits of {from} toward {to}");
    }

    /// What is unread and what is held fits the ring: the sum of its regions.
    fn check_ring(&self, to: usize, layout: &Layout, links: &Links) {
        let senders = (0..self.count).filter(|from| !self.parted[from * self.count + to]);
        let unread: u64 = senders.map(|from| self.between(from, to).slots).sum();
        let taken = unread + links.slots_held();
        let regions = u64::from(layout.senders_max) * u64::from(layout.grant.total())
            + u64::from(layout.dynamic_slots)
            + u64::from(layout.reply_slots);
        assert!(taken <= regions, "{taken} slots of {regions} of {to}'s mailbox are taken");
    }

    /// The slots of a mailbox with a dynamic region are the senders', held, or
    /// available.
    fn check_dynamic(&self, who: usize, layout: &Layout, links: &Links) {
        let ledgers: Vec<_> =
            (0..self.count).filter_map(|other| links.ledger(PeerId(other as u32))).collect();
        let own = |ledger: &Ledger| u64::from(ledger.data_at_sender) + u64::from(ledger.data_held);
        let own: u64 = ledgers.iter().map(own).sum();
        let region = ledgers.len() as u64 * u64::from(layout.grant.data_slots)
            + u64::from(layout.dynamic_slots);
        let taken = own + links.slots_departed() + links.slots_available();
        assert_eq!(taken, region + links.slots_overdrawn(), "slots of {who}");
    }

    fn between(&self, from: usize, to: usize) -> &InFlight {
        &self.in_flight[from * self.count + to]
    }

    fn between_mut(&mut self, from: usize, to: usize) -> &mut InFlight {
        &mut self.in_flight[from * self.count + to]
    }
}

impl InFlight {
    /// What one packet counts for.
    fn of(packet: &Parsed) -> InFlight {
        let slots = u64::from(packet.slots());
        let region = MailboxRegion::of(&packet.packet);
        InFlight {
            data_slots: if region == MailboxRegion::Data { slots } else { 0 },
            data_returned: match packet.packet {
                Packet::ReturnResponse(response) => response.slots,
                _ => 0,
            },
            control_slots: if region == MailboxRegion::Control { slots } else { 0 },
            data_credits: u64::from(packet.credits.data),
            control_credits: u64::from(packet.credits.control),
            slots,
        }
    }

    fn with(&self, what: &InFlight, sum: fn(u64, u64) -> Option<u64>) -> InFlight {
        let sum = |a, b| sum(a, b).expect("what is read was sent");
        InFlight {
            data_slots: sum(self.data_slots, what.data_slots),
            data_returned: sum(self.data_returned, what.data_returned),
            control_slots: sum(self.control_slots, what.control_slots),
            data_credits: sum(self.data_credits, what.data_credits),
            control_credits: sum(self.control_credits, what.control_credits),
            slots: sum(self.slots, what.slots),
        }
    }
}
