//! The receiver's side of dynamic credits (EXTOLL paper, section 6): how much of
//! the data region each sender gets, and when freed slots go back.
//!
//! Each sender always owns its *static slots*: they are at the sender, hold its
//! messages, or are kept for it. What is beyond them belongs to everyone, and is in
//! the *pool* while nobody has it. So the slots of all senders, those kept for them
//! and the pool are the data region, always. What a sender that is gone has left
//! behind takes slots of the pool until it is freed. If the pool has fewer, it owes
//! the rest, and the next slots that are freed go there.
//!
//! The words of the paper and where they are here: *current credits*,
//! `Account::at_sender`; *retrieved packets*, `Account::owed`, counted when a slot
//! is freed; *available slots* for a sender, what is kept for it and the pool.
//!
//! Sans-IO like everything here: what a call says is to be returned is sent by
//! `Links`, and so are the requests to those that [`Dynamic::next_reduced`] names.

mod activity;
mod intended;
mod thresholds;

pub use activity::Activity;

use crate::account::Account;
use crate::equations::return_threshold;
use activity::ActivityLists;
use sluice_wire::PeerId;
use std::collections::VecDeque;
use thresholds::Thresholds;

/// What is remembered of one sender.
#[derive(Debug)]
struct Sender {
    peer: PeerId,
    thresholds: Thresholds,
    /// Thresholds crossed since the last monitoring point.
    crossings: u8,
    /// From the compulsory request until its response.
    blocked: bool,
    is_hungry: bool,
    intended: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Dynamic {
    static_slots: u16,
    dynamic_slots: u32,
    /// Places that a sender's mailbox has for credit packets, as long as it has
    /// not said so itself.
    credit_slots: u8,
    /// Dynamic slots that nobody has. Less than none while messages of senders that are
    /// gone hold more.
    pool: i32,
    /// Dynamic slots that are in nobody's intended quota, for lack of senders.
    unintended: u32,
    /// Senders by number. Numbers of senders that have gone are used again.
    senders: Vec<Option<Sender>>,
    vacant: Vec<u32>,
    lists: ActivityLists,
    /// Senders that have lost the last of their intended dynamic slots, and may
    /// have to be asked for credits.
    reduced: Vec<u32>,
    /// Senders that wait for the pool to have something, oldest first.
    hungry: VecDeque<(u32, PeerId)>,
    /// Slots of the pool that are left to those that wait: one each.
    spoken_for: u32,
}

impl Dynamic {
    /// Heap bytes of one sender.
    pub(crate) const SENDER_BYTES: usize = size_of::<Option<Sender>>()
        + ActivityLists::SENDER_BYTES
        + 2 * size_of::<u32>()
        + size_of::<(u32, PeerId)>();

    pub(crate) fn new(static_slots: u16, dynamic_slots: u32, credit_slots: u8) -> Dynamic {
        Dynamic {
            static_slots,
            dynamic_slots,
            credit_slots,
            pool: slots_in_pool(dynamic_slots),
            unintended: dynamic_slots,
            senders: Vec::new(),
            vacant: Vec::new(),
            lists: ActivityLists::new(),
            reduced: Vec::new(),
            hungry: VecDeque::new(),
            spoken_for: 0,
        }
    }

    /// Books for a sender that has its static slots.
    pub(crate) fn account(&self) -> Account {
        Account::dynamic(self.static_slots, self.credit_slots)
    }

    /// The mailbox of a sender has `credit_slots` places for credit packets. None
    /// has gone there yet, so its thresholds begin anew.
    pub(crate) fn set_places(&mut self, sender: u32, account: &mut Account, credit_slots: u8) {
        account.set_places(credit_slots);
        self.restart(sender, account, credit_slots);
    }

    /// `slots` of `account` have been freed.
    #[inline(always)]
    pub(crate) fn on_freed(&mut self, account: &Account, slots: u32) {
        // Who has its static slots at hand frees slots beyond them: the common case.
        let shared = match account.at_sender() >= self.static_slots {
            true => slots,
            false => self.beyond_static_of(account, slots),
        };
        self.pool += shared as i32;
    }

    /// `slots` that held messages of senders that are gone have been freed.
    pub(crate) fn on_departed_freed(&mut self, slots: u32) {
        self.pool += slots as i32;
    }

    /// Whether the current threshold is reached (section 6.5.2).
    #[inline]
    pub(crate) fn is_due(&self, sender: u32, account: &Account) -> bool {
        account.owed() >= self.sender(sender).thresholds.current()
    }

    /// Credits for a packet of their own: the threshold is reached in the regular
    /// way. As a message frees several slots at once, it may be reached several
    /// times. Zero: not reached, or nothing can be given.
    pub(crate) fn take_regular(&mut self, sender: u32, account: &mut Account) -> u16 {
        if self.sender(sender).blocked {
            let due = self.is_due(sender, account);
            return if due { self.give_blocked(account) } else { 0 };
        }
        let mut credits = 0;
        while self.is_due(sender, account) && self.available(account) > 0 {
            credits += self.cross(sender, account, Crossing::Regular);
        }
        credits
    }

    /// Credits to piggyback on a packet that goes anyway, if nothing else follows from it: the
    /// common case.
    #[inline(always)]
    pub(crate) fn take_piggyback_quickly(&mut self, account: &mut Account) -> Option<u16> {
        let owed = account.owed();
        // Of a sender that only listens nothing is looked at.
        if owed == 0 {
            return Some(0);
        }
        if !account.piggybacks_below_threshold() {
            return None;
        }
        let free = self.pool - self.spoken_for as i32;
        if account.at_sender() >= self.static_slots {
            // A sender that has nearly all there is may be owed more than that for long.
            let credits = i32::from(owed).min(free.max(0));
            self.pool -= credits;
            account.piggyback_slots(credits as u16);
            return Some(credits as u16);
        }
        let shared = self.beyond_static_of(account, u32::from(owed)) as i32;
        if shared > free {
            return None;
        }
        self.pool -= shared;
        account.piggyback_slots(owed);
        Some(owed)
    }

    /// Credits to piggyback on a packet that goes anyway. What was freed is piggybacked, and the
    /// threshold may be reached by it (section 6.6.1).
    pub(crate) fn take_piggyback(&mut self, sender: u32, account: &mut Account) -> u16 {
        let available = self.available(account);
        let Sender { thresholds, blocked, .. } = self.sender(sender);
        let progress = u32::from(account.owed()) + u32::from(account.piggybacked());
        if *blocked || progress >= u32::from(thresholds.current()) {
            return self.take_piggyback_across(sender, account);
        }
        let credits = u32::from(account.owed()).min(available) as u16;
        let before = self.beyond_static(account);
        account.piggyback_slots(credits);
        self.pool -= (self.beyond_static(account) - before) as i32;
        credits
    }

    /// As [`Dynamic::take_piggyback`], if the threshold is reached or the sender is
    /// blocked.
    #[cold]
    #[inline(never)]
    fn take_piggyback_across(&mut self, sender: u32, account: &mut Account) -> u16 {
        if self.sender(sender).blocked {
            return self.give_blocked(account);
        }
        let mut credits = 0;
        while self.would_cross(sender, account) {
            credits += self.cross(sender, account, Crossing::Piggybacked);
        }
        credits
    }

    /// Whether a receiver with nothing else to do should return something: slots of
    /// the sender are freed, and it has fewer than its static ones, or than half of
    /// what it should have.
    pub(crate) fn wants_when_idle(&self, sender: u32, account: &Account) -> bool {
        let Sender { intended, blocked, thresholds, .. } = self.sender(sender);
        let half = if *blocked { 0 } else { intended / 2 };
        let enough = half.max(u32::from(self.static_slots));
        let is_due = !blocked && account.owed() >= thresholds.current();
        account.owed() > 0 && (u32::from(account.at_sender()) < enough || is_due)
    }

    /// Credits for a packet that is sent because there is nothing else to do. Zero
    /// if nothing can be given.
    pub(crate) fn take_when_idle(&mut self, sender: u32, account: &mut Account) -> u16 {
        if self.sender(sender).blocked {
            let kept = self.kept(account).min(account.owed());
            if kept == 0 {
                return self.give_blocked(account);
            }
            self.give_freed(account, kept);
            return kept;
        }
        let regular = self.take_regular(sender, account);
        if regular > 0 {
            return regular;
        }
        match self.take_piggyback(sender, account) {
            // An adjustment by excess returns nothing, but what it left owed may go.
            0 => self.take_piggyback(sender, account),
            credits => credits,
        }
    }

    /// Credits that the next packet brings at the least, if it brings any and is topped up.
    pub(crate) fn gives_at_least(&self, sender: u32, account: &Account) -> u16 {
        let Sender { thresholds, blocked, intended, .. } = self.sender(sender);
        let progress = u32::from(account.owed()) + u32::from(account.piggybacked());
        let by_threshold = if *blocked {
            1
        } else if progress >= u32::from(thresholds.current()) {
            let intended = (*intended).min(u32::from(u16::MAX)) as u16;
            let computed = return_threshold(intended, thresholds.count() - 1);
            computed.saturating_sub(account.piggybacked())
        } else {
            account.owed()
        };
        let given = u32::from(by_threshold).min(self.available(account)) as u16;
        given.max(self.kept(account))
    }

    /// Returns more of what is kept for a sender than a threshold is worth, up to `wanted`.
    pub(crate) fn top_up(&mut self, account: &mut Account, wanted: u64) -> u16 {
        let credits = wanted.min(u64::from(self.kept(account))) as u16;
        account.piggyback_slots(credits);
        credits
    }

    /// A sender that could not be given anything waits: others leave it one slot
    /// of the pool.
    pub(crate) fn wait_for_pool(&mut self, number: u32) {
        let sender = self.sender_mut(number);
        if !std::mem::replace(&mut sender.is_hungry, true) {
            let peer = sender.peer;
            self.hungry.push_back((number, peer));
            self.spoken_for = self.hungry.len() as u32;
        }
    }

    /// The sender that has waited longest, if there is something for it, which it
    /// is to be given before the next is asked for.
    #[inline]
    pub(crate) fn next_hungry(&mut self) -> Option<PeerId> {
        if self.hungry.is_empty() { None } else { self.take_hungry() }
    }

    /// Whether nothing can be given to this sender.
    pub(crate) fn is_exhausted(&self, account: &Account) -> bool {
        self.available(account) == 0
    }

    /// A sender that has been deprived of all its intended dynamic slots and has
    /// more credits than it should have by `current`: it is blocked from now on,
    /// and is to be asked for them (section 6.5.2, figure 13). One that is blocked is
    /// not asked again.
    pub(crate) fn next_reduced(&mut self, current: impl Fn(PeerId) -> u16) -> Option<PeerId> {
        while let Some(sender) = self.reduced.pop() {
            let sender = self.sender_mut(sender);
            if !sender.blocked && u32::from(current(sender.peer)) > sender.intended {
                sender.blocked = true;
                return Some(sender.peer);
            }
        }
        None
    }

    /// A sender has answered with `slots`. False if it cannot have had so many;
    /// nothing has changed then.
    #[must_use]
    pub(crate) fn take_back(&mut self, sender: u32, account: &mut Account, slots: u64) -> bool {
        // The response itself was one of the static slots.
        let left = u64::from(account.at_sender()).checked_sub(slots);
        let least = if slots == 0 { 0 } else { u64::from(self.static_slots) - 1 };
        if left.is_none_or(|left| left < least) {
            return false;
        }
        let before = self.beyond_static(account);
        account.take_back(slots as u16);
        self.pool += (before - self.beyond_static(account)) as i32;
        self.sender_mut(sender).blocked = false;
        // It begins anew, with what it has. What was freed before is not owed to it
        // any more, but for its static slots.
        account.settle(account.owed() - self.kept(account));
        let credit_slots = self.sender(sender).thresholds.count() - 1;
        self.restart(sender, account, credit_slots);
        true
    }

    /// Whether there may be one.
    pub(crate) fn someone_reduced(&self) -> bool {
        !self.reduced.is_empty()
    }

    /// Dynamic slots that nobody has.
    pub(crate) fn pool(&self) -> u32 {
        self.pool.max(0) as u32
    }

    /// Slots by which messages of senders that are gone exceed the pool.
    pub(crate) fn pool_owes(&self) -> u32 {
        self.pool.min(0).unsigned_abs()
    }

    /// Slots that are kept for a sender: static ones that it neither has nor fills.
    pub(crate) fn kept(&self, account: &Account) -> u16 {
        self.static_slots.saturating_sub(account.own())
    }

    pub(crate) fn is_blocked(&self, sender: u32) -> bool {
        self.sender(sender).blocked
    }

    pub(crate) fn intended(&self, sender: u32) -> u32 {
        self.sender(sender).intended
    }

    pub(crate) fn activity(&self, sender: u32) -> Activity {
        self.lists.of(sender)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.senders.capacity() * size_of::<Option<Sender>>()
            + (self.vacant.capacity() + self.reduced.capacity()) * size_of::<u32>()
            + self.hungry.capacity() * size_of::<(u32, PeerId)>()
            + self.lists.heap_bytes()
    }

    /// Panics unless every slot and every share is in exactly one place. `accounts`
    /// are the books of all senders, by their numbers; `departed` slots hold messages of
    /// senders that are gone.
    pub(crate) fn check_invariants<'a>(
        &self,
        departed: u32,
        accounts: impl Iterator<Item = (u32, &'a Account)> + Clone,
    ) {
        let beyond: u32 = accounts.clone().map(|(_, account)| self.beyond_static(account)).sum();
        let sum = (beyond + departed) as i32 + self.pool;
        assert!(sum == self.dynamic_slots as i32, "dynamic slots do not add up");
        let mut intended = self.unintended;
        let mut count = 0;
        for (number, account) in accounts {
            let sender = self.sender(number);
            intended += sender.intended - u32::from(self.static_slots);
            count += 1;
            let there = u32::from(account.own()) + u32::from(account.owed());
            assert!(sender.thresholds.sum() > there, "thresholds let too many packets go");
            assert!(self.kept(account) <= account.owed(), "static slots are lost");
            let is_null = self.lists.of(number) == Activity::Null;
            assert!(!is_null || sender.intended == u32::from(self.static_slots));
        }
        assert!(intended == self.dynamic_slots, "intended quotas do not add up");
        assert!(count == self.senders.iter().flatten().count());
        assert!(self.reduced.is_empty(), "a sender was not asked");
        assert!(self.hungry.len() <= count, "a sender waits twice");
        self.lists.check_invariants(count);
    }

    /// As [`Dynamic::next_hungry`], if one waits.
    #[cold]
    #[inline(never)]
    fn take_hungry(&mut self) -> Option<PeerId> {
        let next = if self.pool <= 0 { None } else { self.hungry.pop_front() };
        self.spoken_for = self.hungry.len() as u32;
        let (number, peer) = next?;
        self.sender_mut(number).is_hungry = false;
        self.spoken_for = self.spoken_for.min(self.pool() - 1);
        Some(peer)
    }

    /// The current threshold is removed and a new one computed, after what a
    /// monitoring point changes. Returns the credits to be sent now (section
    /// 6.6.2).
    ///
    /// The slots by which the threshold is exceeded stay owed. The paper loses
    /// them, which would let the thresholds outgrow the sender's credits.
    fn cross(&mut self, number: u32, account: &mut Account, crossing: Crossing) -> u16 {
        self.count_crossing(number);
        let Sender { thresholds, intended, .. } = self.sender(number);
        let reached = thresholds.current();
        let intended = (*intended).min(u32::from(u16::MAX)) as u16;
        let computed = return_threshold(intended, thresholds.count() - 1);
        // In the regular way what was piggybacked plays no part any more.
        let piggybacked = if crossing == Crossing::Piggybacked { account.piggybacked() } else { 0 };
        account.settle(reached - piggybacked);
        // Static slots that are kept for the sender are owed to it, or given now.
        let kept = self.kept(account).saturating_sub(account.owed());
        let wanted = computed.saturating_sub(piggybacked).max(kept);
        // The books of one sender count to 65,535.
        let room = u16::MAX - account.own() - account.owed();
        let credits = u32::from(wanted.min(room)).min(self.available(account)) as u16;
        let returned = piggybacked + credits;
        // By deficit: what has been returned in all is the new threshold. By
        // excess: what was too much delays the next.
        let new = if computed < piggybacked { computed } else { returned };
        let sender = self.sender_mut(number);
        sender.thresholds.cross(new, returned - new);
        account.forget_piggybacked();
        self.give(account, credits);
        self.note_limits(number, account);
        credits
    }

    /// Whether what was freed and what was piggybacked reach the threshold, and
    /// there is something to make a new one of.
    fn would_cross(&self, sender: u32, account: &Account) -> bool {
        let progress = u32::from(account.owed()) + u32::from(account.piggybacked());
        progress >= u32::from(self.sender(sender).thresholds.current())
            && (account.piggybacked() > 0 || self.available(account) > 0)
    }

    /// Credits for a blocked sender, of which slots are freed: one, if it has fewer
    /// than its static slots. It does not count as piggybacked: the thresholds begin
    /// anew with the response, however long that takes.
    fn give_blocked(&mut self, account: &mut Account) -> u16 {
        let is_short = account.at_sender() < self.static_slots;
        let credits = u16::from(is_short && account.owed() > 0 && self.available(account) > 0);
        self.give_freed(account, credits);
        credits
    }

    /// Returns slots that were freed, whatever the thresholds say.
    #[inline]
    fn give_freed(&mut self, account: &mut Account, credits: u16) {
        account.settle(credits);
        self.give(account, credits);
    }

    #[inline]
    fn give(&mut self, account: &mut Account, credits: u16) {
        let before = self.beyond_static(account);
        account.give(credits);
        self.pool -= (self.beyond_static(account) - before) as i32;
    }

    /// What can be given to a sender: what is kept for it and the pool, but for one
    /// slot for each sender that waits.
    #[inline]
    fn available(&self, account: &Account) -> u32 {
        let free = self.pool().saturating_sub(self.spoken_for);
        u32::from(self.kept(account)) + free
    }

    #[inline]
    fn beyond_static(&self, account: &Account) -> u32 {
        u32::from(account.own().saturating_sub(self.static_slots))
    }

    /// How many of `slots`, freed of a sender or to be given to it, are not its static
    /// ones.
    #[inline]
    fn beyond_static_of(&self, account: &Account, slots: u32) -> u32 {
        let own = u32::from(account.own());
        let floor = u32::from(self.static_slots);
        (own + slots).saturating_sub(floor) - own.saturating_sub(floor)
    }

    /// New thresholds for what belongs to a sender now.
    fn restart(&mut self, number: u32, account: &mut Account, credit_slots: u8) {
        let thresholds = Thresholds::spread(account.own() + account.owed(), credit_slots);
        let sender = self.sender_mut(number);
        sender.thresholds = thresholds;
        sender.crossings = 0;
        account.forget_piggybacked();
        self.note_limits(number, account);
    }

    /// Tells the account when to look here again. What changes without it, by what
    /// other senders do, makes it look too often, or not before the static slots are
    /// short.
    fn note_limits(&self, sender: u32, account: &mut Account) {
        let Sender { thresholds, intended, .. } = self.sender(sender);
        let low = (intended / 2).max(u32::from(self.static_slots)).min(u32::from(u16::MAX));
        account.note_limits(thresholds.current(), low as u16);
    }

    #[inline]
    fn sender(&self, sender: u32) -> &Sender {
        self.senders[sender as usize].as_ref().expect("a number in use")
    }

    #[inline]
    fn sender_mut(&mut self, sender: u32) -> &mut Sender {
        self.senders[sender as usize].as_mut().expect("a number in use")
    }
}

/// A ring has far fewer slots than a count of the pool has room for.
fn slots_in_pool(slots: u32) -> i32 {
    i32::try_from(slots).expect("a dynamic region of fewer than 2³¹ slots")
}

/// How a threshold is reached (section 6.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crossing {
    /// By freed slots alone.
    Regular,
    /// By freed slots and those that were piggybacked before.
    Piggybacked,
}

#[cfg(test)]
mod tests;
