//! The credits of one link, whatever both sides do and however slowly they
//! read.

use proptest::prelude::*;
use sluice_link::Account;
use std::collections::VecDeque;

/// What a step of the two sides is.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The sender spends up to so many credits on one packet.
    Send(u32),
    /// The oldest packet arrives.
    Arrive,
    /// The receiver frees up to so many slots, and returns credits if due.
    Free(u32),
    /// The receiver is idle.
    Idle,
    /// Credits are piggybacked on a packet that goes anyway, at most so many.
    Piggyback(u16),
    /// The sender reads the oldest packet in its mailbox.
    Read,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (1u32..30).prop_map(Step::Send),
        4 => Just(Step::Arrive),
        4 => (1u32..30).prop_map(Step::Free),
        2 => Just(Step::Idle),
        1 => (0u16..20).prop_map(Step::Piggyback),
        2 => Just(Step::Read),
    ];
    prop::collection::vec(step, 1..400)
}

/// The sender's end of one region, and what is on the way.
struct Link {
    account: Account,
    quota: u16,
    places: u8,
    credits: u32,
    coming: VecDeque<u32>,
    /// Credits on their way, and whether they take a place of their own.
    returning: VecDeque<(u16, bool)>,
}

impl Link {
    fn return_credits(&mut self) {
        let credits = self.account.take_for_packet(u16::MAX);
        self.returning.push_back((credits, true));
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Send(slots) => {
                let slots = slots.min(self.credits);
                if slots > 0 {
                    self.credits -= slots;
                    self.coming.push_back(slots);
                }
            }
            Step::Arrive => {
                if let Some(slots) = self.coming.pop_front() {
                    assert!(self.account.arrive(slots), "an honest sender has its credits");
                }
            }
            Step::Free(slots) => {
                self.account.free(slots.min(u32::from(self.account.held())));
                if self.account.packet_due() {
                    self.return_credits();
                }
            }
            Step::Idle => {
                if self.account.packet_due_when_idle() {
                    self.return_credits();
                }
            }
            Step::Piggyback(max) => {
                let credits = self.account.piggyback(max);
                self.returning.push_back((credits, false));
            }
            Step::Read => self.read(),
        }
        self.check();
    }

    fn read(&mut self) {
        if let Some((credits, _)) = self.returning.pop_front() {
            self.credits += u32::from(credits);
        }
    }

    fn check(&self) {
        self.account.check_invariants();
        let unread = self.returning.iter().filter(|(_, own)| *own).count();
        assert!(unread <= usize::from(self.places), "{unread} credit packets unread");
        let coming: u32 = self.coming.iter().sum();
        let returning: u32 = self.returning.iter().map(|(credits, _)| u32::from(*credits)).sum();
        let there = u32::from(self.account.held()) + u32::from(self.account.owed());
        assert_eq!(self.credits + coming + returning + there, u32::from(self.quota));
        let at_sender = self.credits + coming + returning;
        assert_eq!(u32::from(self.account.at_sender()), at_sender);
    }

    /// The sender spends nothing more, and waits for half of the quota: it comes, whatever has
    /// been returned before in which packets.
    fn rest(&mut self) {
        for _ in 0..20 {
            while !self.coming.is_empty() {
                self.step(Step::Arrive);
            }
            self.step(Step::Free(u32::MAX));
            self.step(Step::Idle);
            while !self.returning.is_empty() {
                self.step(Step::Read);
            }
        }
        assert_eq!(self.account.held(), 0);
        assert!(self.credits >= u32::from(self.quota / 2), "{} credits", self.credits);
    }

    /// Once the sender has spent all it has and reads what comes, whatever was
    /// freed comes back: nobody waits for ever.
    fn drain(&mut self) {
        for _ in 0..20 {
            self.step(Step::Send(self.credits));
            while !self.coming.is_empty() {
                self.step(Step::Arrive);
            }
            self.step(Step::Free(u32::MAX));
            self.step(Step::Idle);
            while !self.returning.is_empty() {
                self.step(Step::Read);
            }
        }
        assert_eq!(self.account.held(), 0);
        assert!(self.credits >= u32::from(self.quota / 2).max(1), "{} credits", self.credits);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn credits_are_conserved_and_their_packets_have_places(
        quota in 1u16..100,
        places in 1u8..9,
        steps in steps(),
    ) {
        let mut link = Link {
            account: Account::new(quota, places),
            quota,
            places,
            credits: u32::from(quota),
            coming: VecDeque::new(),
            returning: VecDeque::new(),
        };
        for step in steps {
            link.step(step);
        }
        link.rest();
        link.drain();
    }

    #[test]
    fn a_sender_without_credit_is_refused_and_nothing_changes(
        quota in 1u16..100,
        spent in 0u32..100,
        slots in 1u32..200,
    ) {
        let mut account: Account = Account::new(quota, 2);
        let spent = spent.min(u32::from(quota));
        prop_assert!(account.arrive(spent));
        let fits = slots <= u32::from(quota) - spent;
        prop_assert_eq!(account.arrive(slots), fits);
        let held = if fits { spent + slots } else { spent };
        prop_assert_eq!(u32::from(account.held()), held);
        account.check_invariants();
    }
}
