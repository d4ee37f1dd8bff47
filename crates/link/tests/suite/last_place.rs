//! The last place for a credit packet: whatever the first places went to, the sender of a packet
//! of half of the quota does not wait for ever.

use crate::net::random::Random;
use crate::net::{dynamic_layout, layout};
use crate::traffic::Traffic;
use sluice_link::{Grant, Layout};

/// Quota and places of a mailbox that is divided among as many senders as it can be.
const QUOTA: u16 = 160;
const PLACES: u8 = 4;
/// A put of 4 KiB with its header.
const LONG: u32 = 65;

fn trickle(traffic: &mut Traffic) {
    assert!(traffic.send(0, 1, 1));
    traffic.deliver_all();
    traffic.free_all(1);
    traffic.idle(1);
    traffic.deliver_all();
}

/// Nobody sends or has anything more to do than to take in what has come.
fn come_to_rest(traffic: &mut Traffic) {
    for _ in 0..20 {
        for who in 0..traffic.count() {
            traffic.free_all(who);
            traffic.idle(who);
        }
        traffic.deliver_all();
        traffic.check();
    }
}

/// Single credits take all places but the last, and what reaches the threshold that one: the
/// sender would have these few credits, and wait with a longer packet.
#[test]
fn a_trickle_does_not_leave_the_last_place_to_a_threshold() {
    let at = layout(2, QUOTA, 32, 2 * PLACES, 16);
    let mut traffic = Traffic::new(vec![at; 2], 1);
    // Its messages are kept until it has less than half of its quota.
    for _ in 0..=QUOTA / 2 {
        assert!(traffic.send(0, 1, 1));
    }
    traffic.deliver_all();
    traffic.free(1, 0);
    traffic.idle(1);
    traffic.deliver_all();
    let kept = std::mem::take(&mut traffic.processes[1].held);
    for _ in 1..PLACES {
        trickle(&mut traffic);
    }
    traffic.processes[1].held = kept;
    let credits = |traffic: &Traffic| traffic.ledger(0, 1).expect("linked").data_credits;
    // It spends what it has until it lacks one for the long packet, while all else is freed.
    traffic.free_all(1);
    traffic.deliver_all();
    for _ in 0..QUOTA {
        if u32::from(credits(&traffic)) < LONG {
            break;
        }
        assert!(traffic.send(0, 1, 1));
        traffic.deliver_all();
        traffic.free_all(1);
        traffic.deliver_all();
    }
    traffic.processes[0].queues[1].push_back(LONG);
    come_to_rest(&mut traffic);
    traffic.send_queued(0, 1, false);
    assert!(traffic.processes[0].queues[1].is_empty(), "waits with {} credits", credits(&traffic));
}

/// Traffic of any kind; in the end the longest packet that may be sent without an announcement
/// goes, from each to each.
fn half_goes_in_the_end(at: Layout, seed: u64) {
    let mut random = Random::new(seed);
    // The other may have fewer places, which is known once the connection is open.
    let least = if at.dynamic_slots > 0 { 4 } else { 2 };
    let other = Grant { credit_slots: least + 2 * (seed % 3) as u8, ..at.grant };
    let other = dynamic_layout(2, other, at.dynamic_slots, at.reply_slots);
    let mut traffic = Traffic::new(vec![at, other], seed);
    let half = u64::from(at.grant.data_slots / 2).max(1);
    for _ in 0..400 {
        let who = random.below(2) as usize;
        match random.below(12) {
            0..4 => {
                let slots = if random.percent(80) { 1 } else { random.between(1, half) };
                traffic.send(who, 1 - who, slots as u32);
            }
            4..7 => traffic.deliver_one(&mut random),
            7..10 if !traffic.processes[who].held.is_empty() => {
                let held = traffic.processes[who].held.len() as u64;
                traffic.free(who, random.below(held) as usize);
            }
            10 => traffic.idle(who),
            _ => {}
        }
        traffic.check();
    }
    come_to_rest(&mut traffic);
    for who in 0..2 {
        assert!(traffic.send(who, 1 - who, half as u32), "{who} of seed {seed} waits for ever");
    }
}

#[test]
fn half_of_the_quota_goes_in_the_end() {
    for seed in 0..2_000 {
        let places = 1 + (seed % 5) as u8;
        let data_slots = [4, 8, 30, QUOTA][(seed / 5 % 4) as usize];
        half_goes_in_the_end(layout(2, data_slots, 4, 2 * places, 16), seed);
    }
}

#[test]
fn half_of_the_static_slots_goes_in_the_end() {
    for seed in 0..4_000 {
        let places = 2 + (seed % 5) as u8;
        let data_slots = [2, 4, 8, 30][(seed / 5 % 4) as usize];
        let grant = Grant { data_slots, control_slots: 4, credit_slots: 2 * places };
        let dynamic_slots = [2, 20, 100][(seed / 20 % 3) as usize];
        half_goes_in_the_end(dynamic_layout(2, grant, dynamic_slots, 16), seed);
    }
}
