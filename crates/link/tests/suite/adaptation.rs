//! Where the slots of a dynamic region go: to who spends them.

use crate::net::dynamic_layout;
use crate::traffic;
use crate::traffic::Traffic;
use sluice_link::{Activity, Grant, Layout, Links};
use sluice_wire::{Credits, Packet, PeerId};

const SENDERS: usize = 16;
const STATIC_SLOTS: u16 = 2;
const DYNAMIC_SLOTS: u32 = 300;
/// The data region, of which the receiver itself is one sender.
const REGION: u32 = DYNAMIC_SLOTS + (SENDERS as u32 + 1) * STATIC_SLOTS as u32;

fn mailbox(dynamic_slots: u32) -> Layout {
    let grant = Grant { data_slots: STATIC_SLOTS, control_slots: 4, credit_slots: 4 };
    dynamic_layout(SENDERS as u16 + 1, grant, dynamic_slots, 0)
}

/// Process 0 receives from all others; it has admitted them all.
fn many_to_one(dynamic_slots: u32) -> Traffic {
    let mut traffic = Traffic::new(vec![mailbox(dynamic_slots); SENDERS + 1], 1);
    traffic.processes[0].links.admit_all(SENDERS as u16 + 1);
    traffic
}

/// These send as fast as they get credits, so many times.
fn stream(traffic: &mut Traffic, senders: &[usize], rounds: usize) {
    for _ in 0..rounds {
        for &from in senders {
            while traffic.send(from, 0, 1) {}
        }
        while !traffic.processes[0].port.net().events().is_empty() {
            for from in 0..traffic.count() {
                if traffic.processes[0].port.net().flights(from, 0).next().is_some() {
                    traffic.deliver(from, 0).unwrap();
                    traffic.free_all(0);
                }
                if traffic.processes[0].port.net().flights(0, from).next().is_some() {
                    traffic.deliver(0, from).unwrap();
                }
            }
        }
        for who in 0..traffic.count() {
            traffic.idle(who);
        }
        traffic.deliver_all();
        traffic.check();
    }
}

/// Intended quota and current credits.
fn quota(traffic: &Traffic, from: usize) -> (u32, u16) {
    let ledger = traffic.ledger(0, from).unwrap();
    (ledger.dynamic.unwrap().intended_quota, ledger.data_at_sender)
}

#[test]
fn one_sender_alone_gets_nearly_everything() {
    let mut traffic = many_to_one(DYNAMIC_SLOTS);
    let fair = quota(&traffic, 5).0;
    assert!((REGION / (SENDERS as u32 + 1)).abs_diff(fair) <= 1);
    stream(&mut traffic, &[5], 200);
    let least = REGION - SENDERS as u32 * u32::from(STATIC_SLOTS);
    assert_eq!(quota(&traffic, 5).0, least);
    // Of three parts of a quota two are always at the sender (equation 3); what is
    // freed has not come to the threshold of the third.
    let ledger = traffic.ledger(0, 5).unwrap();
    assert_eq!(u32::from(ledger.data_at_sender + ledger.data_owed), least);
    assert!(u32::from(ledger.data_at_sender) >= least * 2 / 3);
    for other in (1..=SENDERS).filter(|&other| other != 5) {
        assert_eq!(quota(&traffic, other), (u32::from(STATIC_SLOTS), STATIC_SLOTS));
        let ledger = traffic.ledger(0, other).unwrap();
        assert_eq!(ledger.dynamic.unwrap().activity, Activity::Null);
    }
}

#[test]
fn senders_that_are_equally_active_keep_equal_shares() {
    let mut traffic = many_to_one(DYNAMIC_SLOTS);
    let all: Vec<usize> = (1..=SENDERS).collect();
    stream(&mut traffic, &all, 100);
    for &from in &all {
        let fair = REGION / SENDERS as u32;
        let (intended, _) = quota(&traffic, from);
        assert!(intended > fair / 2 && intended < fair * 2, "{from}: {intended} of {fair}");
    }
}

#[test]
fn when_another_becomes_active_it_gains_and_the_silent_one_is_asked() {
    let mut traffic = many_to_one(DYNAMIC_SLOTS);
    stream(&mut traffic, &[1], 200);
    let before = quota(&traffic, 2);
    let alone = quota(&traffic, 1);
    assert_eq!(before, (u32::from(STATIC_SLOTS), STATIC_SLOTS));
    stream(&mut traffic, &[2], 400);
    assert_eq!(quota(&traffic, 2).0, alone.0);
    assert_eq!(quota(&traffic, 1).0, u32::from(STATIC_SLOTS));
    let net = traffic.processes[0].port.net();
    let requests = net
        .log
        .iter()
        .filter(|(from, to, packet, _)| (*from, *to) == (0, 1) && *packet == Packet::ReturnRequest);
    assert_eq!(requests.count(), 1);
    let returned: u64 = net.log.iter().map(|(_, _, packet, _)| returned(packet)).sum();
    assert!(returned > u64::from(alone.1) / 2, "{returned} given back");
    drop(net);
    // What it gave back has gone to who needs it; it keeps its static slots.
    assert!(u32::from(quota(&traffic, 2).1) > alone.0 / 2);
    let ledger = traffic.ledger(0, 1).unwrap();
    assert!(ledger.data_at_sender <= STATIC_SLOTS, "{ledger:?}");
}

#[test]
fn a_request_without_credit_waits_and_the_next_credit_is_its() {
    let mut layouts = vec![mailbox(DYNAMIC_SLOTS); SENDERS + 1];
    layouts[1] = mailbox(0);
    let mut traffic = Traffic::new(layouts, 1);
    traffic.processes[0].links.admit_all(SENDERS as u16 + 1);
    stream(&mut traffic, &[1], 200);
    // Process 0 has no credit left toward process 1, which keeps what came.
    while traffic.send(0, 1, 1) {}
    traffic.processes[0].queues[1].push_back(1);
    stream(&mut traffic, &[2], 400);
    let requests = |traffic: &Traffic| {
        let net = traffic.processes[0].port.net();
        net.log.iter().filter(|(_, _, packet, _)| *packet == Packet::ReturnRequest).count()
    };
    assert!(traffic.ledger(0, 1).unwrap().dynamic.unwrap().is_blocked);
    assert_eq!(requests(&traffic), 0);
    // One credit comes: it is not for the message.
    traffic.free(1, 0);
    traffic.idle(1);
    traffic.answers_at_once = false;
    traffic.deliver_all();
    let ledger = traffic.ledger(0, 1).unwrap();
    assert_eq!((ledger.data_credits, ledger.data_credits_kept), (0, 1));
    traffic.send_queued(0, 1, true);
    assert_eq!(traffic.processes[0].queues[1].len(), 1);
    traffic.idle(0);
    assert_eq!(requests(&traffic), 1);
    traffic.drain(true);
    assert_eq!(traffic.processes[1].arrived[0], u64::from(STATIC_SLOTS) + 1);
}

#[test]
fn without_piggybacking_only_credit_packets_carry_credits() {
    for dynamic_slots in [0, DYNAMIC_SLOTS] {
        for piggyback in [false, true] {
            let grant = Grant { data_slots: 20, control_slots: 4, credit_slots: 4 };
            let layout = dynamic_layout(2, grant, dynamic_slots, 0);
            let mut traffic = Traffic::new(vec![layout; 2], 1);
            for process in &mut traffic.processes {
                process.links.set_piggyback(piggyback);
            }
            for _ in 0..50 {
                for (from, to) in [(1, 0), (0, 1)] {
                    traffic.send(from, to, 1);
                    traffic.send_control(from, to);
                    traffic.deliver_all();
                    traffic.free_all(to);
                }
                traffic.idle(0);
                traffic.idle(1);
                traffic.check();
            }
            let net = traffic.processes[0].port.net();
            let ridden = net.log.iter().any(|(_, _, packet, credits)| {
                *packet != Packet::Credit && *credits != Credits::default()
            });
            assert_eq!(ridden, piggyback);
        }
    }
}

#[test]
fn one_sender_gets_no_more_than_its_books_can_count() {
    let grant = Grant { data_slots: 2, control_slots: 4, credit_slots: 4 };
    let layout = dynamic_layout(2, grant, 200_000, 0);
    let mut traffic = Traffic::new(vec![layout; 2], 1);
    let mut most = 0;
    for _ in 0..100 {
        let credits = traffic.ledger(1, 0).map_or(1, |ledger| ledger.data_credits);
        assert!(traffic.send(1, 0, u32::from(credits)));
        traffic.deliver_all();
        traffic.free_all(0);
        traffic.deliver_all();
        traffic.idle(0);
        traffic.deliver_all();
        traffic.check();
        most = most.max(traffic.ledger(0, 1).unwrap().data_at_sender);
    }
    assert!(most > u16::MAX / 3 * 2, "{most}");
}

fn returned(packet: &Packet) -> u64 {
    match packet {
        Packet::ReturnResponse(response) => response.slots,
        _ => 0,
    }
}

#[test]
fn two_that_are_active_share_what_the_others_do_not_use() {
    let mut traffic = many_to_one(DYNAMIC_SLOTS);
    stream(&mut traffic, &[3, 9], 300);
    let least = REGION - (SENDERS as u32 - 1) * u32::from(STATIC_SLOTS);
    let (one, other) = (quota(&traffic, 3).0, quota(&traffic, 9).0);
    assert_eq!(one + other, least);
    assert!(one.min(other) > least / 4, "{one} and {other}");
}

#[test]
fn without_a_dynamic_region_nothing_moves() {
    let mut traffic = many_to_one(0);
    stream(&mut traffic, &[1, 2], 50);
    for from in 1..=SENDERS {
        let ledger = traffic.ledger(0, from).unwrap();
        assert_eq!(ledger.dynamic, None);
        assert_eq!(ledger.data_at_sender + ledger.data_held + ledger.data_owed, STATIC_SLOTS);
    }
    let net = traffic.processes[0].port.net();
    assert!(net.log.iter().all(|(_, _, packet, _)| *packet != Packet::ReturnRequest));
}

#[test]
fn one_that_is_gone_gives_back_everything() {
    let mut traffic = many_to_one(DYNAMIC_SLOTS);
    stream(&mut traffic, &[1], 200);
    for from in [1, 2] {
        assert!(traffic.send(from, 0, 1));
    }
    traffic.deliver_all();
    assert_eq!(traffic.processes[0].held.len(), 2);
    traffic.kill(1);
    traffic.check();
    assert_eq!(traffic.ledger(0, 1), None);
    let static_slots = u64::from(STATIC_SLOTS);
    let others = (SENDERS as u64) * static_slots;
    let intended = |who: usize| u64::from(quota(&traffic, who).0);
    let sum: u64 = (0..=SENDERS).filter(|&who| who != 1).map(intended).sum();
    assert_eq!(sum, others + u64::from(DYNAMIC_SLOTS));
    // Its message stays, and holds its slot until it is freed.
    assert_eq!(traffic.processes[0].links.slots_departed(), 1);
    traffic.free_all(0);
    assert_eq!(traffic.processes[0].links.slots_departed(), 0);
    traffic.check();
    stream(&mut traffic, &[2], 400);
    assert_eq!(intended_of(&traffic, 2), u64::from(DYNAMIC_SLOTS) + static_slots);
}

fn intended_of(traffic: &Traffic, who: usize) -> u64 {
    u64::from(quota(traffic, who).0)
}

#[test]
fn memory_grows_with_peers_that_talk() {
    for named in [10u32, 100_000] {
        for (dynamic_slots, each_dynamic) in [(0, 0), (DYNAMIC_SLOTS, Links::DYNAMIC_PEER_BYTES)] {
            let layouts = vec![mailbox(dynamic_slots); 1];
            let traffic = Traffic::new(layouts, 1);
            let process = &traffic.processes[0];
            let mut port = process.port.clone();
            let mut links = Links::new(mailbox(dynamic_slots));
            let empty = links.heap_bytes();
            assert!(empty < 400, "{empty} bytes without peers");
            // The last one named speaks: all below are named by that.
            port.net_mut().refuse_connect = Some(sluice_link::PeerError::Dead);
            let (packet, _) = traffic::put(1);
            let head = packet.emit(sluice_wire::PacketSeq(0), Default::default(), 0);
            let parsed = Packet::parse(head.bytes()).unwrap();
            let mut speak = |peer: u32| {
                let arrival = links.on_arrival(PeerId(peer), &parsed).unwrap();
                links.free_data(&mut port, PeerId(peer), arrival.slots);
                links.heap_bytes() - empty
            };
            // Vectors grow to four at least.
            let queues = 4 * (each_dynamic + size_of::<PeerId>());
            let one = speak(named - 1);
            let idle = named as usize * Links::IDLE_PEER_BYTES;
            let active = Links::ACTIVE_PEER_BYTES - Links::IDLE_PEER_BYTES;
            assert!(one >= idle + active);
            assert!(one <= idle + active + queues, "{one} bytes for one of {named}");
            let all = (0..9).map(&mut speak).last().unwrap();
            // And double when they are full.
            assert!(all <= idle + 10 * active + 16 * (each_dynamic + size_of::<PeerId>()));
        }
    }
}

const _: () = {
    assert!(Links::IDLE_PEER_BYTES == 8);
    assert!(Links::ACTIVE_PEER_BYTES <= 232);
    assert!(Links::DYNAMIC_PEER_BYTES <= 64);
};
