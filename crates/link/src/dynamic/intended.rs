//! The intended quotas: who gets a share of the region when senders come, go, and
//! reach monitoring points (EXTOLL paper, sections 6.4 and 6.5.2). Their sum is the
//! data region of the senders that there are, always.

use super::{Activity, Dynamic, Sender, Thresholds};
use crate::account::Account;
use crate::equations::stolen_credits;
use crate::mutants::{self, Mutant};
use sluice_wire::PeerId;

/// Senders that are looked at to find one that shares with a new one.
const DONORS_MAX: u32 = 4;

impl Dynamic {
    /// A new sender, with the number that it is known by here. The first one gets
    /// everything; a later one half of what the richest of a few others has.
    pub(crate) fn admit(&mut self, peer: PeerId) -> u32 {
        let number = self.vacant.pop().unwrap_or(self.senders.len() as u32);
        let share = match std::mem::take(&mut self.unintended) {
            0 => self.take_from_donor(number),
            unintended => unintended,
        };
        self.enter(number, peer, share);
        number
    }

    /// The first `count` senders, with equal shares (section 6.3), numbered as they
    /// are.
    ///
    /// # Panics
    /// If there is a sender already.
    pub(crate) fn admit_all(&mut self, count: u32) {
        assert!(self.senders.is_empty(), "all senders are admitted first or one by one");
        if count == 0 {
            return;
        }
        let (each, more) = (self.dynamic_slots / count, self.dynamic_slots % count);
        self.unintended = 0;
        for peer in 0..count {
            self.enter(peer, PeerId(peer), each + u32::from(peer < more));
        }
    }

    /// A sender is gone, and `account` with it. What holds its messages stays taken. Its
    /// share goes to the most active sender, one of the three lists before one with static
    /// slots only.
    pub(crate) fn leave(&mut self, sender: u32, account: &Account) {
        self.pool += self.beyond_static(account) as i32;
        if !mutants::is(Mutant::GivesAwayTheDead) {
            self.pool -= i32::from(account.held());
        }
        self.lists.remove(sender);
        let gone = self.senders[sender as usize].take().expect("a number in use");
        self.vacant.push(sender);
        self.hungry.retain(|&(number, _)| number != sender);
        self.spoken_for = self.hungry.len() as u32;
        let share = gone.intended - u32::from(self.static_slots);
        let by_activity = [Activity::High, Activity::Medium, Activity::Low, Activity::Null];
        match by_activity.into_iter().find_map(|activity| self.lists.first(activity)) {
            None => self.unintended += share,
            Some(heir) => {
                self.sender_mut(heir).intended += share;
                // Null is for those that have static slots only.
                if share > 0 && self.lists.of(heir) == Activity::Null {
                    self.lists.move_first(heir, Activity::Low);
                }
            }
        }
    }

    /// Counts a crossing; with as many as there are thresholds the sender is at a
    /// monitoring point (figure 12).
    pub(super) fn count_crossing(&mut self, number: u32) {
        let sender = self.sender_mut(number);
        sender.crossings += 1;
        if sender.crossings < sender.thresholds.count() {
            return;
        }
        sender.crossings = 0;
        match self.lists.of(number) {
            Activity::Low => self.lists.move_first(number, Activity::Medium),
            Activity::Medium => self.lists.move_first(number, Activity::High),
            Activity::High | Activity::Null => {
                if self.lists.last(Activity::Low).is_none() {
                    self.lists.shift();
                }
                self.lists.move_first(number, Activity::High);
                self.steal_for(number);
            }
        }
    }

    /// The last sender of the low list gives a part of its intended quota (figure
    /// 13).
    fn steal_for(&mut self, monitored: u32) {
        let Some(victim) = self.lists.last(Activity::Low) else {
            return;
        };
        let credit_slots = self.sender(monitored).thresholds.count() - 1;
        let stolen = stolen_credits(
            credit_slots,
            self.sender(monitored).intended,
            self.sender(victim).intended,
            self.static_slots,
        );
        self.sender_mut(monitored).intended += stolen;
        self.sender_mut(victim).intended -= stolen;
        if self.sender(victim).intended > u32::from(self.static_slots) {
            self.lists.move_first(victim, Activity::Medium);
        } else {
            self.lists.move_first(victim, Activity::Null);
            self.reduced.push(victim);
        }
    }

    /// Half of the dynamic share of one sender, for number `new`.
    ///
    /// Those that are looked at begin with `new` less its highest bit. So while
    /// nobody has been active, everyone is halved in turn before anyone is halved
    /// again, and shares differ by a factor of two at the most.
    fn take_from_donor(&mut self, new: u32) -> u32 {
        let count = self.senders.len() as u32;
        let first = new ^ new.checked_ilog2().map_or(0, |bit| 1 << bit);
        let looked_at = (0..DONORS_MAX.min(count)).map(|step| (first + step) % count);
        let intended = |number: u32| self.senders[number as usize].as_ref().map(|s| s.intended);
        // Of equals, the one looked at first.
        let richest = looked_at.rev().max_by_key(|&number| intended(number));
        let Some(donor) = richest.and_then(|number| self.senders[number as usize].as_mut()) else {
            return 0;
        };
        let share = (donor.intended - u32::from(self.static_slots)) / 2;
        donor.intended -= share;
        share
    }

    fn enter(&mut self, number: u32, peer: PeerId, share: u32) {
        let sender = Some(Sender {
            peer,
            thresholds: Thresholds::spread(self.static_slots, self.credit_slots),
            crossings: 0,
            blocked: false,
            is_hungry: false,
            intended: u32::from(self.static_slots) + share,
        });
        match self.senders.get_mut(number as usize) {
            Some(vacant) => *vacant = sender,
            None => self.senders.push(sender),
        }
        self.lists.add_last(number, Activity::Low);
        // What is done for each packet allocates nothing: there is room for every
        // sender in every queue.
        let count = self.senders.len();
        self.reduced.reserve(count);
        self.vacant.reserve(count.saturating_sub(self.vacant.len()));
        self.hungry.reserve(count.saturating_sub(self.hungry.len()));
    }
}
