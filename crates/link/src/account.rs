//! One region of this process's mailbox, as granted to one sender: where each
//! of its slots is, and when freed ones go back.
//!
//! Every slot granted is in one of three places: at the sender (unspent, or
//! spent and on its way here), *held* (arrived, its message not done with), or
//! *owed* (freed, not yet returned). Their sum is the quota, always.

/// How freed slots are returned. The static policy of the EXTOLL paper's
/// section 5 is [`StaticReturn`]; a dynamic one takes the same seat.
pub trait ReturnPolicy {
    /// A policy for a region of `quota` slots whose credit packets have
    /// `credit_slots` places in the sender's mailbox.
    fn new(quota: u16, credit_slots: u8) -> Self;
    /// Whether `owed` freed slots are worth a packet of their own, with
    /// `at_sender` left at the sender.
    fn packet_due(&self, owed: u16, at_sender: u16) -> bool;
    /// Whether they are, once there is nothing else to do.
    fn packet_due_when_idle(&self, owed: u16, at_sender: u16) -> bool;
}

/// Equal, fixed quotas: a credit packet each time the freed slots reach a
/// threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticReturn {
    threshold: u16,
    low: u16,
}

impl StaticReturn {
    /// EXTOLL paper, equation 1.
    #[must_use]
    pub fn threshold(quota: u16, credit_slots: u8) -> u16 {
        quota / (u16::from(credit_slots) + 1) + 1
    }
}

impl ReturnPolicy for StaticReturn {
    fn new(quota: u16, credit_slots: u8) -> Self {
        StaticReturn { threshold: StaticReturn::threshold(quota, credit_slots), low: quota / 2 }
    }

    #[inline]
    fn packet_due(&self, owed: u16, _at_sender: u16) -> bool {
        owed >= self.threshold
    }

    /// The paper cuts messages into packets, so a sender always gets to the
    /// threshold in the end. Here credits are held until a message is matched
    /// and a message goes whole, so a sender may wait for fewer credits than
    /// the threshold: an idle receiver gives back what it has.
    #[inline]
    fn packet_due_when_idle(&self, owed: u16, at_sender: u16) -> bool {
        owed > 0 && at_sender < self.low
    }
}

/// Most credit packets of one region that may be unread at once: the places
/// kept for them in the sender's mailbox.
const CREDIT_PACKETS_MAX: usize = 8;

/// The slots of one region and one sender.
#[derive(Clone, Debug)]
pub struct Account<R: ReturnPolicy = StaticReturn> {
    policy: R,
    quota: u16,
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

impl<R: ReturnPolicy> Account<R> {
    /// An account whose whole quota is at the sender.
    ///
    /// # Panics
    /// If a region without slots or without places for its credit packets is
    /// asked for: the layout was checked before.
    #[must_use]
    pub fn new(quota: u16, credit_slots: u8) -> Account<R> {
        assert!(quota > 0 && credit_slots > 0);
        Account {
            policy: R::new(quota, credit_slots),
            quota,
            at_sender: quota,
            held: 0,
            owed: 0,
            arrived_total: 0,
            unread: [0; CREDIT_PACKETS_MAX],
            unread_count: 0,
            unread_max: credit_slots.min(CREDIT_PACKETS_MAX as u8),
        }
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
        self.policy.packet_due(self.owed, self.at_sender) && self.packet_fits()
    }

    /// Whether a credit packet should go now; whether it may is another
    /// question ([`Account::packet_due`]).
    #[inline]
    #[must_use]
    pub fn may_be_due(&self) -> bool {
        self.policy.packet_due(self.owed, self.at_sender)
    }

    /// Whether a credit packet should go, and may, if there is nothing else to
    /// do.
    #[inline]
    #[must_use]
    pub fn packet_due_when_idle(&mut self) -> bool {
        self.wanted_when_idle() && self.packet_fits()
    }

    /// Whether an idle moment should look at this account.
    #[inline]
    #[must_use]
    pub fn wanted_when_idle(&self) -> bool {
        self.policy.packet_due_when_idle(self.owed, self.at_sender)
    }

    /// Takes up to `max` owed credits for a credit packet and remembers that
    /// it takes a place in the sender's mailbox.
    ///
    /// # Panics
    /// If there is no place: ask [`Account::packet_due`] first.
    pub fn take_for_packet(&mut self, max: u16) -> u16 {
        assert!(self.packet_fits(), "credit packet without a place");
        let granted_before = self.arrived_total + u64::from(self.at_sender);
        self.unread[usize::from(self.unread_count)] = granted_before;
        self.unread_count += 1;
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
        self.policy = R::new(self.quota, credit_slots);
        self.unread_max = credit_slots.min(CREDIT_PACKETS_MAX as u8);
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
        assert!(sum == u32::from(self.quota), "slots of an account do not add up to its quota");
        assert!(self.unread_count <= self.unread_max);
    }

    /// A place for one more credit packet exists once the sender has used
    /// credits that an earlier one brought.
    fn packet_fits(&mut self) -> bool {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EXTOLL paper, table 1, column of equation 1.
    #[test]
    fn threshold_is_the_papers() {
        let rows = [
            (100, 1, 51),
            (100, 2, 34),
            (100, 3, 26),
            (100, 4, 21),
            (100, 5, 17),
            (60, 2, 21),
            (40, 2, 14),
            (20, 2, 7),
            (10, 2, 4),
            (3, 2, 2),
        ];
        for (quota, credit_slots, threshold) in rows {
            assert_eq!(StaticReturn::threshold(quota, credit_slots), threshold);
        }
    }

    #[test]
    fn a_packet_is_due_at_the_threshold_and_not_before() {
        let mut account: Account = Account::new(20, 2);
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
        let mut account: Account = Account::new(6, 2);
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
    fn slots_without_credit_are_refused() {
        let mut account: Account = Account::new(4, 1);
        assert!(account.arrive(3));
        assert!(!account.arrive(2));
        assert!(account.arrive(1));
        account.check_invariants();
    }
}
