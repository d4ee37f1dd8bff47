//! One region of this process's mailbox, as granted to one sender: where each
//! of its slots is, and when freed ones go back.
//!
//! Every slot granted is in one of three places: at the sender (unspent, or
//! spent and on its way here), *held* (arrived, its message not done with), or
//! *owed* (freed, not yet returned). With a fixed quota their sum is the quota,
//! always. The data region of a dynamic mailbox is shared: there `owed` counts what
//! was freed, and [`crate::dynamic::Dynamic`] decides what goes back.

use crate::equations::return_threshold;
use crate::mutants::{self, Mutant};

/// Most credit packets of one region that may be unread at once: the places
/// kept for them in the sender's mailbox.
pub(crate) const CREDIT_PACKETS_MAX: usize = 8;

/// The slots of one region and one sender.
#[derive(Clone, Debug)]
pub struct Account {
    /// Owed slots that are worth a packet of their own (EXTOLL paper, equation
    /// 1). In a dynamic account what [`crate::dynamic::Dynamic`] has said last; zero
    /// until then, so that every freed slot is looked at.
    threshold: u16,
    /// Once there is nothing else to do, a sender with fewer slots than this is
    /// given back whatever is owed to it.
    ///
    /// The paper cuts messages into packets, so a sender always gets to the
    /// threshold in the end. Here credits are held until a message is matched and
    /// a message goes whole, so a sender may wait for fewer credits than the
    /// threshold: an idle receiver gives back what it has.
    low: u16,
    /// In a dynamic account, the static slots.
    quota: u16,
    is_dynamic: bool,
    /// Of a dynamic account: slots that were piggybacked since the last threshold.
    piggybacked: u16,
    at_sender: u16,
    held: u16,
    owed: u16,
    /// Slots that have ever arrived.
    arrived_total: u64,
    /// For each credit packet that may still lie unread in the sender's
    /// mailbox, oldest first: once more than this many slots have arrived, the
    /// sender has spent credits of that packet, so it has read it.
    unread: [u64; CREDIT_PACKETS_MAX],
    unread_count: u8,
    unread_max: u8,
}

impl Account {
    /// An account whose whole quota is at the sender.
    ///
    /// # Panics
    /// If a region without slots or without places for its credit packets is
    /// asked for: the layout was checked before.
    #[must_use]
    pub fn new(quota: u16, credit_slots: u8) -> Account {
        assert!(quota > 0 && credit_slots > 0);
        Account {
            threshold: return_threshold(quota, credit_slots),
            low: quota / 2,
            quota,
            is_dynamic: false,
            piggybacked: 0,
            at_sender: quota,
            held: 0,
            owed: 0,
            arrived_total: 0,
            unread: [0; CREDIT_PACKETS_MAX],
            unread_count: 0,
            unread_max: credit_slots.min(CREDIT_PACKETS_MAX as u8),
        }
    }

    /// The data region of a dynamic mailbox toward one sender, with its static
    /// slots at the sender.
    ///
    /// # Panics
    /// As [`Account::new`].
    pub(crate) fn dynamic(static_slots: u16, credit_slots: u8) -> Account {
        Account {
            threshold: 0,
            low: u16::MAX,
            is_dynamic: true,
            ..Account::new(static_slots, credit_slots)
        }
    }

    /// Of a dynamic region: slots that were piggybacked since the last threshold.
    #[inline]
    pub(crate) fn piggybacked(&self) -> u16 {
        self.piggybacked
    }

    /// A threshold is crossed, or thresholds begin anew.
    pub(crate) fn forget_piggybacked(&mut self) {
        self.piggybacked = 0;
    }

    /// Returns freed slots of a dynamic region before the threshold.
    #[inline]
    pub(crate) fn piggyback_slots(&mut self, slots: u16) {
        self.owed -= slots;
        self.at_sender += slots;
        self.piggybacked += slots;
    }

    /// Whether all that is owed may be piggybacked without reaching the threshold. Never while
    /// the limits are zero.
    #[inline]
    pub(crate) fn piggybacks_below_threshold(&self) -> bool {
        u32::from(self.owed) + u32::from(self.piggybacked) < u32::from(self.threshold)
    }

    /// Of a dynamic region: how many owed slots matter now, and below how many at the
    /// sender any matters in an idle moment. Who asks then looks closer.
    #[inline]
    pub(crate) fn note_limits(&mut self, threshold: u16, low: u16) {
        self.threshold = threshold;
        self.low = low;
    }

    /// Takes in `slots` that have arrived. False if the sender had no credit
    /// for them; nothing has changed then.
    #[inline]
    #[must_use]
    pub fn arrive(&mut self, slots: u32) -> bool {
        if slots > u32::from(self.at_sender) {
            return false;
        }
        self.at_sender -= slots as u16;
        self.held += slots as u16;
        self.arrived_total += u64::from(slots);
        true
    }

    /// Frees `slots` that were held.
    ///
    /// # Panics
    /// If fewer are held: each slot is freed once.
    #[inline]
    pub fn free(&mut self, slots: u32) {
        assert!(slots <= u32::from(self.held), "slots freed that were not held");
        self.held -= slots as u16;
        self.owed += slots as u16;
    }

    /// Takes up to `max` owed credits to travel with a packet that goes anyway.
    #[inline]
    pub fn piggyback(&mut self, max: u16) -> u16 {
        let credits = self.owed.min(max);
        self.owed -= credits;
        self.at_sender += credits;
        credits
    }

    /// Whether a credit packet should go now, and may.
    #[inline]
    #[must_use]
    pub fn packet_due(&mut self) -> bool {
        self.may_be_due() && self.packet_may_bring(self.owed)
    }

    /// Whether a credit packet should go now; whether it may is another
    /// question ([`Account::packet_due`]).
    #[inline]
    #[must_use]
    pub fn may_be_due(&self) -> bool {
        self.owed >= self.threshold
    }

    /// Whether a credit packet should go, and may, if there is nothing else to
    /// do.
    #[inline]
    #[must_use]
    pub fn packet_due_when_idle(&mut self) -> bool {
        self.wanted_when_idle() && self.packet_may_bring(self.owed)
    }

    /// Whether an idle moment should look at this account.
    #[inline]
    #[must_use]
    pub fn wanted_when_idle(&self) -> bool {
        self.owed > 0 && self.at_sender < self.low
    }

    /// Takes up to `max` owed credits for a credit packet and remembers that
    /// it takes a place in the sender's mailbox.
    ///
    /// # Panics
    /// If there is no place: ask [`Account::packet_due`] first.
    pub fn take_for_packet(&mut self, max: u16) -> u16 {
        assert!(self.packet_fits(), "credit packet without a place");
        self.note_packet(self.granted_total());
        self.piggyback(max)
    }

    /// Says how many places the sender's mailbox has for credit packets of
    /// this account. It has given them, so it knows better than
    /// [`Account::new`] did.
    ///
    /// # Panics
    /// If there is no place at all, or if a credit packet has gone already.
    pub fn set_places(&mut self, credit_slots: u8) {
        assert!(credit_slots > 0 && self.unread_count == 0);
        if !self.is_dynamic {
            self.threshold = return_threshold(self.quota, credit_slots);
        }
        self.unread_max = credit_slots.min(CREDIT_PACKETS_MAX as u8);
    }

    /// Slots that the sender has ever had.
    pub(crate) fn granted_total(&self) -> u64 {
        self.arrived_total + u64::from(self.at_sender)
    }

    /// A credit packet takes a place in the sender's mailbox; before it, the
    /// sender had had `granted_before` slots.
    ///
    /// # Panics
    /// If there is no place.
    pub(crate) fn note_packet(&mut self, granted_before: u64) {
        assert!(self.unread_count < self.unread_max, "credit packet without a place");
        self.unread[usize::from(self.unread_count)] = granted_before;
        self.unread_count += 1;
    }

    /// Slots that the sender has, or had and are not freed.
    pub(crate) fn own(&self) -> u16 {
        self.at_sender + self.held
    }

    /// `credits` go to the sender, out of what is shared.
    pub(crate) fn give(&mut self, credits: u16) {
        self.at_sender += credits;
    }

    /// `slots` of those that were freed are dealt with.
    pub(crate) fn settle(&mut self, slots: u16) {
        self.owed -= slots;
    }

    /// The sender gives back `slots` unused. They count as spent: it has them
    /// from packets that it has read.
    pub(crate) fn take_back(&mut self, slots: u16) {
        self.at_sender -= slots;
        self.arrived_total += u64::from(slots);
    }

    /// Slots that have arrived and are not freed.
    #[must_use]
    pub fn held(&self) -> u16 {
        self.held
    }

    /// Slots that are freed and not yet returned.
    #[must_use]
    pub fn owed(&self) -> u16 {
        self.owed
    }

    /// Slots that the sender has, or that are on their way.
    #[must_use]
    pub fn at_sender(&self) -> u16 {
        self.at_sender
    }

    /// Panics unless every slot is in exactly one place.
    pub fn check_invariants(&self) {
        let sum = u32::from(self.at_sender) + u32::from(self.held) + u32::from(self.owed);
        assert!(
            sum == u32::from(self.quota) || self.is_dynamic,
            "slots of an account do not add up to its quota"
        );
        assert!(self.unread_count <= self.unread_max);
        let is_only = self.is_dynamic && self.unread_max == 1;
        let is_full = self.unread_count == self.unread_max && !is_only;
        assert!(!is_full || self.brought() >= self.enough(), "the last place went for too little");
    }

    /// A place for one more credit packet exists once the sender has used
    /// credits that an earlier one brought.
    pub(crate) fn packet_fits(&mut self) -> bool {
        let read = self.unread[..usize::from(self.unread_count)]
            .iter()
            .take_while(|&&granted_before| self.arrived_total > granted_before)
            .count();
        if read > 0 {
            self.unread.copy_within(read..usize::from(self.unread_count), 0);
            self.unread_count -= read as u8;
        }
        self.unread_count < self.unread_max
    }

    /// Whether a packet of so many credits has a place. The last one is left to what brings,
    /// with all that unread packets and others since have brought, half of the quota: the sender
    /// may have spent everything else, and wait for a packet that needs half.
    pub(crate) fn packet_may_bring(&mut self, credits: u16) -> bool {
        self.packet_fits() && u64::from(credits) >= self.lacking()
    }

    /// Credits that the next packet has to bring at the least.
    pub(crate) fn lacking(&self) -> u64 {
        let is_last = self.unread_count + 1 == self.unread_max;
        // Of a dynamic region, one that has nothing may have to answer a request, and announces
        // what it has. Nothing is unread then, so this is about an only place.
        let has_nothing = self.is_dynamic && self.at_sender == 0;
        if is_last && !has_nothing && !mutants::is(Mutant::GivesTheLastPlaceAway) {
            self.enough().saturating_sub(self.brought())
        } else {
            0
        }
    }

    /// Credits that the sender has got since the oldest packet that may be unread: it has so many
    /// at least until that packet's place is free.
    fn brought(&self) -> u64 {
        match self.unread_count {
            0 => 0,
            _ => self.granted_total() - self.unread[0],
        }
    }

    /// Credits that the longest packet needs that is sent without an announcement.
    fn enough(&self) -> u64 {
        u64::from(self.quota / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_due_at_the_threshold_and_not_before() {
        let mut account = Account::new(20, 2);
        assert!(account.arrive(7));
        account.free(6);
        assert!(!account.packet_due());
        account.free(1);
        assert!(account.packet_due());
        assert_eq!(account.take_for_packet(u16::MAX), 7);
        account.check_invariants();
    }

    #[test]
    fn credit_packets_never_exceed_their_places() {
        // Whatever the sender reads or not: with two places, a third packet
        // goes only after credits of the first have come back as slots.
        let mut account = Account::new(6, 2);
        let mut packets = 0;
        for _ in 0..6 {
            assert!(account.arrive(1));
            account.free(1);
            if account.packet_fits() {
                account.take_for_packet(u16::MAX);
                packets += 1;
            }
        }
        assert_eq!(packets, 2);
        // The sender spends a credit that only the first packet can have
        // brought: its place is free again.
        assert!(account.arrive(1));
        account.free(1);
        assert!(account.packet_fits());
        account.check_invariants();
    }

    #[test]
    fn an_idle_receiver_returns_to_who_has_less_than_half() {
        let mut account = Account::new(8, 1);
        assert!(account.arrive(4));
        account.free(4);
        assert!(!account.packet_due() && !account.packet_due_when_idle(), "it has half");
        assert!(account.arrive(1));
        assert!(!account.packet_due() && account.packet_due_when_idle());
    }

    /// With two packets of a credit each in both places, a sender of two credits would wait for
    /// ever that needs four.
    #[test]
    fn the_last_place_is_left_to_what_brings_half_of_the_quota() {
        let mut account = Account::dynamic(8, 2);
        account.note_limits(u16::MAX, 8);
        let mut brought = Vec::new();
        for slots in [1, 1, 2, 3] {
            assert!(account.arrive(slots));
            account.free(slots);
            if account.packet_due_when_idle() {
                brought.push(account.owed());
                account.note_packet(account.granted_total());
                account.give(account.owed());
                account.settle(account.owed());
            }
        }
        assert_eq!((brought, account.at_sender()), (vec![1, 3], 5));
    }

    #[test]
    fn fewer_places_mean_a_higher_threshold() {
        let mut account = Account::new(20, 2);
        account.set_places(1);
        assert!(account.arrive(11));
        account.free(10);
        assert!(!account.packet_due());
        account.free(1);
        assert!(account.packet_due());
    }

    #[test]
    fn what_reaches_the_threshold_does_not_ride_below_it() {
        let mut account = Account::dynamic(4, 1);
        account.note_limits(3, 4);
        assert!(account.arrive(3));
        account.free(2);
        assert!(account.piggybacks_below_threshold());
        account.free(1);
        assert!(!account.piggybacks_below_threshold());
    }

    #[test]
    fn a_place_is_free_once_a_credit_of_its_packet_was_spent_and_not_before() {
        let mut account = Account::new(6, 1);
        assert!(account.arrive(4));
        account.free(4);
        assert_eq!(account.take_for_packet(u16::MAX), 4);
        // The two that the sender had besides say nothing of the packet.
        assert!(account.arrive(2));
        account.free(2);
        assert!(!account.packet_fits(), "it may lie unread");
        assert!(account.arrive(1));
        assert!(account.packet_fits(), "the sender has read it");
    }

    #[test]
    fn what_comes_back_unused_frees_the_place_of_its_packet() {
        let mut account = Account::dynamic(2, 1);
        assert!(account.arrive(1));
        account.free(1);
        account.note_packet(account.granted_total());
        account.settle(1);
        account.give(3);
        assert!(!account.packet_fits());
        // Two of the four that it has: one at the least is of that packet.
        account.take_back(2);
        assert!(account.packet_fits());
    }

    #[test]
    fn slots_without_credit_are_refused() {
        let mut account = Account::new(4, 1);
        assert!(account.arrive(3));
        assert!(!account.arrive(2));
        assert!(account.arrive(1));
        account.check_invariants();
    }
}
