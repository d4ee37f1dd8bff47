//! The paper's figures, in its words: each of their arrows, and the traces.

use super::*;

/// A receiver and the books of its senders.
struct Receiver {
    dynamic: Dynamic,
    accounts: Vec<Account>,
}

impl Receiver {
    /// `senders` senders with equal intended quotas.
    fn new(senders: u32, static_slots: u16, dynamic_slots: u32, credit_slots: u8) -> Receiver {
        let mut dynamic = Dynamic::new(static_slots, dynamic_slots, credit_slots);
        dynamic.admit_all(senders);
        let accounts = (0..senders).map(|_| dynamic.account()).collect();
        Receiver { dynamic, accounts }
    }

    /// A packet of the sender arrives and is retrieved.
    fn packet(&mut self, of: u32) {
        let account = &mut self.accounts[of as usize];
        assert!(account.arrive(1));
        account.free(1);
        self.dynamic.on_freed(account, 1);
    }

    fn regular(&mut self, of: u32) -> u16 {
        self.dynamic.take_regular(of, &mut self.accounts[of as usize])
    }

    fn piggyback(&mut self, of: u32) -> u16 {
        self.dynamic.take_piggyback(of, &mut self.accounts[of as usize])
    }

    /// The sender crosses as many thresholds as make a monitoring point.
    fn monitoring_point(&mut self, of: u32) {
        for _ in 0..self.dynamic.sender(of).thresholds.count() {
            self.dynamic.count_crossing(of);
        }
    }

    /// Takes from one intended quota for another.
    fn shift_quota(&mut self, from: u32, to: u32, credits: u32) {
        self.dynamic.sender_mut(from).intended -= credits;
        self.dynamic.sender_mut(to).intended += credits;
    }

    /// Whom a steal makes the receiver ask for credits.
    fn asked(&mut self) -> Option<PeerId> {
        let accounts = &self.accounts;
        self.dynamic.next_reduced(|peer| accounts[peer.index()].at_sender())
    }

    fn thresholds(&self, of: u32) -> Vec<u16> {
        self.dynamic.sender(of).thresholds.list()
    }

    /// Thresholds, retrieved packets, piggybacked credits, credits of the sender.
    fn state(&self, of: u32) -> (Vec<u16>, u16, u16, u16) {
        let account = &self.accounts[of as usize];
        let piggybacked = account.piggybacked();
        (self.thresholds(of), account.owed(), piggybacked, account.at_sender())
    }

    /// High, medium, low, null.
    fn lists(&self) -> [Vec<u32>; 4] {
        [Activity::High, Activity::Medium, Activity::Low, Activity::Null]
            .map(|activity| self.dynamic.lists.iter(activity).collect())
    }

    fn intended(&self) -> Vec<u32> {
        (0..self.accounts.len() as u32).map(|of| self.dynamic.intended(of)).collect()
    }

    fn check(&self) {
        let accounts = self.accounts.iter().enumerate();
        self.dynamic.check_invariants(0, accounts.map(|(i, account)| (i as u32, account)));
    }
}

#[test]
fn section_6_3_the_beginning() {
    let receiver = Receiver::new(4, 2, 42, 2);
    receiver.check();
    assert_eq!(receiver.dynamic.pool(), 42);
    assert_eq!(receiver.lists(), [vec![], vec![], vec![0, 1, 2, 3], vec![]]);
    // A static partition of 50 slots; what does not divide goes to the first.
    assert_eq!(receiver.intended(), [13, 13, 12, 12]);
    for of in 0..4 {
        assert_eq!(receiver.state(of), (vec![1, 1, 1], 0, 0, 2));
        assert!(!receiver.dynamic.is_blocked(of));
    }
}

/// The paper's trace as its text tells it: two credit slots, intended quota 10.
#[test]
fn figure_14_the_trace() {
    let mut receiver = Receiver::new(2, 2, 16, 2);
    assert_eq!(receiver.intended(), [10, 10]);
    assert_eq!(receiver.state(0), (vec![1, 1, 1], 0, 0, 2));

    // Block 1: the threshold is reached by the first packet.
    receiver.packet(0);
    assert_eq!(receiver.regular(0), 4);
    assert_eq!(receiver.state(0), (vec![1, 1, 4], 0, 0, 5));

    // Block 2: not all four are available.
    let taken = receiver.dynamic.pool() as u16 - 1;
    receiver.dynamic.give(&mut receiver.accounts[1], taken);
    receiver.packet(0);
    assert_eq!(receiver.regular(0), 2);
    assert_eq!(receiver.state(0), (vec![1, 4, 2], 0, 0, 6));
    let account = &mut receiver.accounts[1];
    account.take_back(taken);
    receiver.dynamic.pool += i32::from(taken);

    // Block 3: as block 1.
    receiver.packet(0);
    assert_eq!(receiver.regular(0), 4);
    assert_eq!(receiver.state(0), (vec![4, 2, 4], 0, 0, 9));

    // Block 4: the quota has been reduced for a more active sender.
    receiver.shift_quota(0, 1, 5);
    for _ in 0..4 {
        assert_eq!(receiver.regular(0), 0);
        receiver.packet(0);
    }
    assert_eq!(receiver.regular(0), 2);
    assert_eq!(receiver.state(0), (vec![2, 4, 2], 0, 0, 7));

    // Block 5: by piggybacking, the second time with adjustment by deficit.
    receiver.packet(0);
    assert_eq!(receiver.piggyback(0), 1);
    assert_eq!(receiver.state(0), (vec![2, 4, 2], 0, 1, 7));
    receiver.packet(0);
    assert_eq!(receiver.piggyback(0), 1);
    assert_eq!(receiver.state(0), (vec![4, 2, 2], 0, 0, 7));

    // Block 6: adjustment by excess. Two should be returned, three were.
    for piggybacked in 1..4 {
        receiver.packet(0);
        assert_eq!(receiver.piggyback(0), 1);
        assert_eq!(receiver.state(0), (vec![4, 2, 2], 0, piggybacked, 7));
    }
    receiver.packet(0);
    assert_eq!(receiver.piggyback(0), 0);
    assert_eq!(receiver.state(0), (vec![3, 2, 2], 0, 0, 6));

    // Block 7: the regular way, with a credit piggybacked before.
    receiver.packet(0);
    assert_eq!(receiver.piggyback(0), 1);
    for _ in 0..3 {
        assert_eq!(receiver.regular(0), 0);
        receiver.packet(0);
    }
    assert_eq!(receiver.state(0), (vec![3, 2, 2], 3, 1, 3));
    assert_eq!(receiver.regular(0), 2);
    assert_eq!(receiver.state(0), (vec![2, 2, 2], 0, 0, 5));

    // Block 8: as block 1.
    receiver.packet(0);
    assert_eq!(receiver.regular(0), 0);
    receiver.packet(0);
    assert_eq!(receiver.regular(0), 2);
    assert_eq!(receiver.state(0), (vec![2, 2, 2], 0, 0, 5));
    receiver.check();
}

#[test]
fn a_message_of_several_slots_may_cross_several_thresholds_and_the_rest_stays_owed() {
    let mut receiver = Receiver::new(1, 8, 40, 1);
    assert_eq!(receiver.thresholds(0), [5, 4]);
    let account = &mut receiver.accounts[0];
    assert!(account.arrive(8));
    account.free(8);
    receiver.dynamic.on_freed(account, 8);
    // All eight are kept for the sender; 48 / 2 + 1 are due.
    assert_eq!(receiver.regular(0), 25);
    assert_eq!(receiver.state(0), (vec![4, 25], 3, 0, 25));
    let account = &mut receiver.accounts[0];
    assert!(account.arrive(2));
    account.free(2);
    receiver.dynamic.on_freed(account, 2);
    assert_eq!(receiver.regular(0), 25);
    assert_eq!(receiver.state(0), (vec![25, 25], 1, 0, 48));
    receiver.check();
}

#[test]
fn what_is_piggybacked_beyond_the_threshold_stays_owed() {
    let mut receiver = Receiver::new(1, 5, 0, 1);
    assert_eq!(receiver.thresholds(0), [3, 3]);
    receiver.packet(0);
    receiver.packet(0);
    assert_eq!(receiver.piggyback(0), 2);
    let account = &mut receiver.accounts[0];
    assert!(account.arrive(4));
    account.free(4);
    receiver.dynamic.on_freed(account, 4);
    // Six freed since, of which the threshold is three.
    assert_eq!(receiver.piggyback(0), 4);
    assert_eq!(receiver.state(0), (vec![3, 3], 0, 0, 5));
    receiver.check();
}

#[test]
fn without_a_dynamic_region_it_is_the_static_protocol() {
    for (quota, credit_slots) in [(20, 2), (5, 1), (11, 3), (2, 2), (99, 4)] {
        let mut receiver = Receiver::new(3, quota, 0, credit_slots);
        let mut account = Account::new(quota, credit_slots);
        for step in 0..500 {
            receiver.packet(1);
            assert!(account.arrive(1));
            account.free(1);
            let credits = match account.packet_due() {
                true => account.take_for_packet(u16::MAX),
                false => 0,
            };
            assert_eq!(receiver.regular(1), credits, "{quota} {credit_slots} {step}");
            assert_eq!(receiver.accounts[1].at_sender(), account.at_sender());
            receiver.dynamic.reduced.clear();
            receiver.check();
        }
    }
}

mod figure_12 {
    use super::*;

    #[test]
    fn from_low_to_medium_to_high() {
        let mut receiver = Receiver::new(4, 2, 40, 2);
        receiver.monitoring_point(2);
        receiver.monitoring_point(0);
        assert_eq!(receiver.lists(), [vec![], vec![0, 2], vec![1, 3], vec![]]);
        receiver.monitoring_point(2);
        receiver.monitoring_point(0);
        assert_eq!(receiver.lists(), [vec![0, 2], vec![], vec![1, 3], vec![]]);
        assert_eq!(receiver.intended(), [12; 4], "nothing is stolen on the way up");
        receiver.check();
    }

    #[test]
    fn fewer_crossings_are_no_monitoring_point() {
        let mut receiver = Receiver::new(2, 2, 20, 2);
        receiver.dynamic.count_crossing(0);
        receiver.dynamic.count_crossing(0);
        assert_eq!(receiver.lists(), [vec![], vec![], vec![0, 1], vec![]]);
        receiver.dynamic.count_crossing(0);
        assert_eq!(receiver.lists(), [vec![], vec![0], vec![1], vec![]]);
    }

    #[test]
    fn high_with_senders_in_low_steals_and_nothing_shifts() {
        let mut receiver = Receiver::new(4, 2, 40, 2);
        for of in [0, 1, 0, 1] {
            receiver.monitoring_point(of);
        }
        assert_eq!(receiver.lists(), [vec![1, 0], vec![], vec![2, 3], vec![]]);
        receiver.monitoring_point(0);
        assert_eq!(receiver.lists(), [vec![0, 1], vec![3], vec![2], vec![]]);
        assert_eq!(receiver.intended(), [15, 12, 12, 9]);
        receiver.check();
    }

    #[test]
    fn high_with_nobody_in_low_shifts_the_lists() {
        let mut receiver = Receiver::new(4, 2, 40, 2);
        for of in [0, 1, 0, 1, 3, 2] {
            receiver.monitoring_point(of);
        }
        assert_eq!(receiver.lists(), [vec![1, 0], vec![2, 3], vec![], vec![]]);
        receiver.monitoring_point(1);
        // Medium has become low, and its last is robbed; high has become medium.
        assert_eq!(receiver.lists(), [vec![1], vec![3, 0], vec![2], vec![]]);
        assert_eq!(receiver.intended(), [12, 15, 12, 9]);
        receiver.check();
    }

    #[test]
    fn null_is_treated_as_high() {
        let mut receiver = Receiver::new(3, 2, 12, 2);
        receiver.shift_quota(2, 0, 4);
        for of in [0, 0, 0] {
            receiver.monitoring_point(of);
        }
        assert_eq!(receiver.lists(), [vec![0], vec![], vec![1], vec![2]]);
        assert_eq!(receiver.asked(), None);
        receiver.monitoring_point(2);
        // Half of the difference of 6 and 2, less than a credit for each threshold.
        assert_eq!(receiver.lists(), [vec![2, 0], vec![1], vec![], vec![]]);
        assert_eq!(receiver.intended(), [10, 3, 5]);
        receiver.check();
    }

    #[test]
    fn null_with_nobody_in_low_shifts_too() {
        let mut receiver = Receiver::new(2, 2, 8, 2);
        receiver.shift_quota(1, 0, 4);
        for of in [0, 0, 0] {
            receiver.monitoring_point(of);
        }
        assert_eq!(receiver.lists(), [vec![0], vec![], vec![], vec![1]]);
        assert_eq!(receiver.asked(), None);
        receiver.monitoring_point(1);
        assert_eq!(receiver.lists(), [vec![1], vec![0], vec![], vec![]]);
        assert_eq!(receiver.intended(), [10, 2], "low is empty: nothing to steal");
        receiver.monitoring_point(1);
        assert_eq!(receiver.lists(), [vec![1], vec![0], vec![], vec![]]);
        assert_eq!(receiver.intended(), [6, 6]);
    }
}

mod figure_13 {
    use super::*;

    /// Sender 0 has reached high, and steals from 1, which has these credits.
    fn steal(intended: u32, credits: u16) -> Receiver {
        let mut receiver = Receiver::new(2, 2, 40, 2);
        let quota = receiver.dynamic.intended(1);
        receiver.shift_quota(1, 0, quota - intended);
        receiver.dynamic.give(&mut receiver.accounts[1], credits - 2);
        receiver.dynamic.sender_mut(1).thresholds = Thresholds::spread(credits, 2);
        for _ in 0..3 {
            receiver.monitoring_point(0);
        }
        receiver
    }

    #[test]
    fn nobody_in_low_nothing_stolen() {
        let mut receiver = Receiver::new(1, 2, 40, 2);
        for _ in 0..5 {
            receiver.monitoring_point(0);
            assert_eq!(receiver.intended(), [42]);
        }
    }

    #[test]
    fn a_victim_with_dynamic_credits_left_goes_first_into_medium() {
        let mut receiver = steal(20, 2);
        assert_eq!(receiver.intended(), [27, 17]);
        assert_eq!(receiver.lists(), [vec![0], vec![1], vec![], vec![]]);
        assert_eq!(receiver.asked(), None);
        receiver.check();
    }

    #[test]
    fn a_victim_with_more_credits_than_that_is_not_asked_yet() {
        let mut receiver = steal(20, 30);
        assert_eq!(receiver.lists(), [vec![0], vec![1], vec![], vec![]]);
        assert_eq!(receiver.asked(), None);
    }

    #[test]
    fn a_victim_with_static_credits_left_goes_to_null() {
        let mut receiver = steal(7, 2);
        assert_eq!(receiver.intended(), [42, 2]);
        assert_eq!(receiver.lists(), [vec![0], vec![], vec![], vec![1]]);
        assert_eq!(receiver.asked(), None, "it has no more than these");
        assert!(!receiver.dynamic.is_blocked(1));
        receiver.check();
    }

    #[test]
    fn a_victim_with_more_than_static_credits_is_asked_and_blocked() {
        let mut receiver = steal(7, 9);
        assert_eq!(receiver.lists(), [vec![0], vec![], vec![], vec![1]]);
        assert_eq!(receiver.asked(), Some(PeerId(1)));
        assert_eq!(receiver.asked(), None, "once");
        assert!(receiver.dynamic.is_blocked(1));
        receiver.check();
    }
}

mod blocked {
    use super::*;

    /// Sender 1 is asked for credits while it has six.
    fn receiver() -> Receiver {
        let mut receiver = Receiver::new(2, 2, 8, 2);
        receiver.dynamic.give(&mut receiver.accounts[1], 4);
        receiver.dynamic.sender_mut(1).thresholds = Thresholds::spread(6, 2);
        receiver.shift_quota(1, 0, 4);
        for _ in 0..3 {
            receiver.monitoring_point(0);
        }
        assert_eq!(receiver.asked(), Some(PeerId(1)));
        receiver.check();
        receiver
    }

    #[test]
    fn with_its_static_credits_it_gets_nothing_with_less_one() {
        let mut receiver = receiver();
        assert_eq!(receiver.accounts[1].at_sender(), 6);
        let mut given = Vec::new();
        for _ in 0..8 {
            receiver.packet(1);
            given.push(receiver.regular(1));
            receiver.check();
        }
        // Nothing down to two; one for each from there.
        assert_eq!(given, [0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!(receiver.accounts[1].at_sender(), 2);
    }

    #[test]
    fn it_may_take_as_long_as_it_likes() {
        let mut receiver = receiver();
        for _ in 0..70_000 {
            receiver.packet(1);
            receiver.regular(1);
        }
        assert_eq!(receiver.accounts[1].at_sender(), 2);
        receiver.check();
    }

    #[test]
    fn no_more_rides_either() {
        let mut receiver = receiver();
        for _ in 0..4 {
            receiver.packet(1);
            assert_eq!(receiver.piggyback(1), 0);
        }
        receiver.packet(1);
        assert_eq!(receiver.piggyback(1), 1);
        receiver.check();
    }

    #[test]
    fn its_answer_unblocks_it_and_its_thresholds_begin_anew() {
        let mut receiver = receiver();
        let pool = receiver.dynamic.pool();
        // The response arrives, and is retrieved.
        receiver.packet(1);
        let account = &mut receiver.accounts[1];
        assert!(receiver.dynamic.take_back(1, account, 4));
        assert_eq!(receiver.state(1), (vec![1, 1, 1], 1, 0, 1));
        assert_eq!(receiver.dynamic.pool(), pool + 4);
        assert!(!receiver.dynamic.is_blocked(1));
        assert_eq!(receiver.regular(1), 1);
        receiver.check();
    }

    #[test]
    fn it_is_not_asked_again_when_it_inherits_and_loses_a_share() {
        let mut receiver = receiver();
        let account = receiver.accounts.remove(0);
        receiver.dynamic.leave(0, &account);
        assert_eq!(receiver.dynamic.intended(1), 10);
        assert_eq!(receiver.dynamic.activity(1), Activity::Low);
        let thief = receiver.dynamic.admit(PeerId(5));
        receiver.dynamic.sender_mut(1).intended = 3;
        receiver.dynamic.sender_mut(thief).intended = 9;
        for _ in 0..3 {
            receiver.monitoring_point(thief);
        }
        assert_eq!(receiver.dynamic.activity(1), Activity::Null);
        assert_eq!(receiver.dynamic.next_reduced(|_| 6), None);
        assert!(receiver.dynamic.is_blocked(1));
    }

    #[test]
    fn it_cannot_give_back_what_it_cannot_have() {
        for slots in [5, 6, 1000, u64::MAX] {
            let mut receiver = receiver();
            receiver.packet(1);
            let account = &mut receiver.accounts[1];
            assert!(!receiver.dynamic.take_back(1, account, slots), "{slots}");
        }
    }
}

#[test]
fn senders_that_come_one_by_one_share_within_a_factor_of_two() {
    let mut dynamic = Dynamic::new(4, 1 << 16, 2);
    for count in 1..300 {
        dynamic.admit(PeerId(count));
        let quotas = dynamic.senders.iter().flatten().map(|sender| sender.intended - 4);
        let (least, most) = (quotas.clone().min().unwrap(), quotas.clone().max().unwrap());
        assert_eq!(quotas.sum::<u32>(), 1 << 16);
        assert!(most <= 2 * least, "{least} to {most} of {count}");
    }
}

#[test]
fn the_share_of_one_that_leaves_goes_to_the_most_active() {
    let mut receiver = Receiver::new(3, 2, 30, 2);
    receiver.monitoring_point(1);
    let account = receiver.accounts[0].clone();
    receiver.dynamic.leave(0, &account);
    assert_eq!((receiver.dynamic.intended(1), receiver.dynamic.intended(2)), (22, 12));
    let account = receiver.accounts[1].clone();
    receiver.dynamic.leave(1, &account);
    assert_eq!(receiver.dynamic.intended(2), 32);
    let account = receiver.accounts[2].clone();
    receiver.dynamic.leave(2, &account);
    // Whoever comes next gets all of it.
    let next = receiver.dynamic.admit(PeerId(7));
    assert_eq!(receiver.dynamic.intended(next), 32);
}

#[test]
fn a_crossing_returns_at_least_the_static_slots() {
    let mut receiver = Receiver::new(2, 20, 100, 2);
    // Sender 0 had 31 slots, thirty of them for its next threshold, and is to have no
    // more than the static ones now.
    receiver.dynamic.give(&mut receiver.accounts[0], 11);
    let mut thresholds = Thresholds::spread(2, 2);
    thresholds.cross(1, 29);
    receiver.dynamic.sender_mut(0).thresholds = thresholds;
    assert_eq!(receiver.thresholds(0), [30, 1, 1]);
    let share = receiver.dynamic.intended(0) - 20;
    receiver.shift_quota(0, 1, share);
    let account = &mut receiver.accounts[0];
    assert!(account.arrive(30));
    account.free(30);
    receiver.dynamic.on_freed(account, 30);
    // Equation 1 says seven.
    assert_eq!(receiver.regular(0), 19);
    assert_eq!(receiver.state(0), (vec![1, 1, 19], 0, 0, 20));
    let accounts = &receiver.accounts;
    assert_eq!(receiver.dynamic.kept(&accounts[0]), 0);
}

#[test]
fn of_two_that_wait_the_first_is_served_first() {
    let mut receiver = Receiver::new(3, 2, 4, 2);
    // Senders 0 and 1 hold two slots too many each, and one of them is freed.
    for of in 0..2 {
        receiver.dynamic.give(&mut receiver.accounts[of], 2);
        assert!(receiver.accounts[of].arrive(4));
        receiver.dynamic.sender_mut(of as u32).thresholds = Thresholds::spread(5, 2);
        receiver.accounts[of].free(1);
        receiver.dynamic.on_freed(&receiver.accounts[of], 1);
    }
    receiver.dynamic.give(&mut receiver.accounts[2], 2);
    receiver.dynamic.sender_mut(2).thresholds = Thresholds::spread(4, 2);
    receiver.dynamic.wait_for_pool(1);
    receiver.dynamic.wait_for_pool(0);
    receiver.packet(2);
    // One slot for two.
    assert_eq!((receiver.dynamic.pool(), receiver.regular(2)), (1, 0));
    assert_eq!(receiver.dynamic.next_hungry(), Some(PeerId(1)));
    let account = &mut receiver.accounts[1];
    assert_eq!(receiver.dynamic.take_when_idle(1, account), 1);
    assert_eq!(receiver.dynamic.next_hungry(), None);
    receiver.check();
}

#[test]
fn one_that_waits_is_left_a_slot_of_the_pool() {
    let mut receiver = Receiver::new(2, 2, 4, 2);
    // Sender 0 holds all but one slot in messages that are not matched.
    receiver.dynamic.give(&mut receiver.accounts[0], 4);
    assert!(receiver.accounts[0].arrive(6));
    receiver.accounts[0].free(1);
    let account = &receiver.accounts[0];
    receiver.dynamic.on_freed(account, 1);
    receiver.dynamic.sender_mut(0).thresholds = Thresholds::spread(6, 2);
    receiver.dynamic.give(&mut receiver.accounts[1], 1);
    receiver.dynamic.sender_mut(1).thresholds = Thresholds::spread(3, 2);
    assert!(receiver.dynamic.wants_when_idle(0, &receiver.accounts[0]));
    assert!(receiver.dynamic.is_exhausted(&receiver.accounts[0]));
    receiver.dynamic.wait_for_pool(0);
    receiver.dynamic.wait_for_pool(0);
    assert_eq!(receiver.dynamic.next_hungry(), None, "the pool is empty");
    // What sender 1 frees comes to sender 0 first.
    receiver.packet(1);
    assert_eq!(receiver.dynamic.pool(), 1);
    assert_eq!(receiver.regular(1), 0);
    assert_eq!(receiver.dynamic.next_hungry(), Some(PeerId(0)));
    let account = &mut receiver.accounts[0];
    assert_eq!(receiver.dynamic.take_when_idle(0, account), 1);
    assert_eq!(receiver.dynamic.next_hungry(), None);
    receiver.check();
}

/// In step with one that never takes the quick way, whatever comes; where the sender has nearly
/// all there is, too, and is owed more than the pool has.
#[test]
fn the_quick_way_gives_what_the_long_one_does() {
    let mut quick = 0;
    for seed in 0..50_u32 {
        let new = || Receiver::new(1 + seed % 3, 4, 40 + seed % 7, 2);
        let (mut short, mut long) = (new(), new());
        let mut random = seed;
        for _ in 0..400 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let of = (random >> 16) % (1 + seed % 3);
            let slots = 1 + (random >> 20) % 4;
            for receiver in [&mut short, &mut long] {
                let account = &mut receiver.accounts[of as usize];
                if account.arrive(slots) {
                    account.free(slots);
                    receiver.dynamic.on_freed(account, slots);
                }
            }
            let account = &mut short.accounts[of as usize];
            let given = short.dynamic.take_piggyback_quickly(account);
            quick += u32::from(given.is_some_and(|credits| credits > 0));
            let given = given.unwrap_or_else(|| short.piggyback(of));
            assert_eq!(given, long.piggyback(of), "seed {seed}");
            assert_eq!(short.state(of), long.state(of), "seed {seed}");
            assert_eq!(short.dynamic.pool(), long.dynamic.pool(), "seed {seed}");
            while let Some(peer) = short.asked() {
                assert_eq!(Some(peer), long.asked());
                // As `Links` does: what is blocked is looked at each time.
                short.accounts[peer.index()].note_limits(0, u16::MAX);
            }
            short.check();
        }
    }
    assert!(quick > 5_000, "{quick}");
}
