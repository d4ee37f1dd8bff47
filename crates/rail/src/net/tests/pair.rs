//! What two processes do to each other when nothing fails.

use super::{Process, loopback, one, region, region_mut, until};
use crate::net::{NetConfig, NetStats, OWN_WRITES_MAX, OwnDevice, Striping, WRITES_MAX};
use sluice_link::{Connect, RailError, Remote, RemoteMemory, Rights, Token, Transport};
use sluice_wire::{PeerId, RemoteKey};

/// Two that have met, and how each knows the other.
fn met(devices: u8) -> (Process, PeerId, Process, PeerId) {
    let (mut a, mut b) = (Process::new(devices), Process::new(devices));
    let (to_b, to_a) = (a.knows(&b), b.knows(&a));
    assert_eq!(a.world.connect(to_b), Ok(Connect::Pending));
    until(&mut [&mut a, &mut b], "the connection", |all| all[0].machine.connected == [to_b]);
    assert!(matches!(a.world.connect(to_b), Ok(Connect::Ready(_))));
    (a, to_b, b, to_a)
}

fn payload(seq: u32) -> Vec<u8> {
    (0..seq * 37 % 5000).map(|at| (at ^ seq) as u8).collect()
}

#[test]
fn packets_arrive_once_and_in_order() {
    for devices in [1, 3] {
        let (mut a, to_b, mut b, to_a) = met(devices);
        for seq in 0..1000 {
            a.send(to_b, seq, &payload(seq));
            if seq % 7 == 0 {
                a.poll();
                b.poll();
            }
        }
        until(&mut [&mut a, &mut b], "all packets", |all| all[1].machine.packets.len() == 1000);
        for (seq, got) in (0..).zip(&b.machine.packets) {
            assert_eq!(*got, (to_a, seq, payload(seq)));
        }
        // Known by what it has sent.
        assert!(matches!(b.world.connect(to_a), Ok(Connect::Ready(_))));
        b.send(to_a, 0, b"answer");
        until(&mut [&mut a, &mut b], "the answer", |all| !all[0].machine.packets.is_empty());
        assert_eq!(a.machine.packets, [(to_b, 0, b"answer".to_vec())]);
        assert!(a.machine.gone.is_empty() && b.machine.gone.is_empty());
    }
}

#[test]
fn both_may_begin_at_once() {
    for _ in 0..20 {
        let (mut a, mut b) = (Process::new(2), Process::new(2));
        let (to_b, to_a) = (a.knows(&b), b.knows(&a));
        assert_eq!(a.world.connect(to_b), Ok(Connect::Pending));
        assert_eq!(b.world.connect(to_a), Ok(Connect::Pending));
        until(&mut [&mut a, &mut b], "both connections", |all| {
            all.iter().all(|process| !process.machine.connected.is_empty())
        });
        a.send(to_b, 0, b"one");
        b.send(to_a, 0, b"two");
        until(&mut [&mut a, &mut b], "both packets", |all| {
            all.iter().all(|process| !process.machine.packets.is_empty())
        });
        assert_eq!(a.machine.packets, [(to_b, 0, b"two".to_vec())]);
        assert_eq!(b.machine.packets, [(to_a, 0, b"one".to_vec())]);
    }
}

/// The system chooses by which device a first contact leaves. Where both begin at once,
/// the one that comes second may be by two devices that are no rail.
#[test]
fn both_may_begin_at_once_by_devices_that_are_no_rail() {
    for _ in 0..30 {
        let network = |devices: [u8; 2]| devices.map(loopback).to_vec();
        // What contacts leave by on loopback.
        let any = OwnDevice { addresses: one("127.0.0.1/24"), ..loopback(0) };
        let of_a = [network([1, 2]), vec![any]].concat();
        let mut a = Process::with(NetConfig::with_devices(of_a));
        let mut b = Process::with(NetConfig::with_devices(network([2, 1])));
        let (to_b, to_a) = (a.knows(&b), b.knows(&a));
        assert_eq!(a.world.connect(to_b), Ok(Connect::Pending));
        assert_eq!(b.world.connect(to_a), Ok(Connect::Pending));
        until(&mut [&mut a, &mut b], "both connections", |all| {
            assert!(all.iter().all(|process| process.machine.gone.is_empty()));
            all.iter().all(|process| !process.machine.connected.is_empty())
        });
        a.send(to_b, 0, b"one");
        b.send(to_a, 0, b"two");
        until(&mut [&mut a, &mut b], "both packets", |all| {
            all.iter().all(|process| !process.machine.packets.is_empty())
        });
        assert!(a.machine.gone.is_empty() && b.machine.gone.is_empty());
    }
}

#[test]
fn memory_is_read_and_written_over_all_rails() {
    for devices in [1, 4] {
        let (mut a, to_b, mut b, to_a) = met(devices);
        for len in [1, 100, 4096, 1 << 20, (5 << 20) + 3] {
            let mut there: Vec<u8> = (0..len).map(|at| (at * 7 % 251) as u8).collect();
            let mut here = vec![0u8; len];
            let key = b.world.expose(to_a, region(&there), Rights::READ);
            a.world.read_remote(to_b, Remote::whole(key), region_mut(&mut here), Token(1));
            until(&mut [&mut a, &mut b], "the read", |all| !all[0].machine.moved.is_empty());
            assert_eq!(a.machine.moved.drain(..).as_slice(), [(Token(1), Ok(()))]);
            assert!(here == there, "{len} bytes");
            b.world.revoke(to_a, key);

            here.reverse();
            let key = b.world.expose(to_a, region_mut(&mut there), Rights::WRITE);
            a.world.write_remote(to_b, region(&here), Remote::whole(key), Token(2));
            until(&mut [&mut a, &mut b], "the write", |all| !all[0].machine.moved.is_empty());
            assert_eq!(a.machine.moved.drain(..).as_slice(), [(Token(2), Ok(()))]);
            assert!(here == there, "{len} bytes");
            b.world.revoke(to_a, key);
        }
    }
}

/// Of a chunk no more is copied than what came with its header.
#[test]
fn chunks_are_received_straight_into_their_place() {
    const BYTES: usize = 4 << 20;
    let config = || NetConfig {
        striping: Striping::Fragments { bytes: 1 << 20 },
        ..NetConfig::with_devices(vec![loopback(1)])
    };
    let (mut a, mut b) = (Process::with(config()), Process::with(config()));
    let (to_b, to_a) = (a.knows(&b), b.knows(&a));
    assert_eq!(a.world.connect(to_b), Ok(Connect::Pending));
    until(&mut [&mut a, &mut b], "the connection", |all| all[0].machine.connected == [to_b]);
    let there: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
    let mut here = vec![0u8; BYTES];
    let key = b.world.expose(to_a, region(&there), Rights::READ);
    a.world.read_remote(to_b, Remote::whole(key), region_mut(&mut here), Token(1));
    until(&mut [&mut a, &mut b], "the read", |all| !all[0].machine.moved.is_empty());
    assert!(here == there);
    let NetStats { placed, copied, .. } = a.world.net().unwrap().stats();
    assert_eq!(placed + copied, BYTES as u64);
    assert!(copied * 8 <= placed, "{copied} bytes were copied, {placed} were not");
}

#[test]
fn a_key_that_does_not_reach_is_a_fault_and_nothing_else() {
    let (mut a, to_b, mut b, to_a) = met(2);
    let there = vec![1u8; 100];
    let mut here = vec![0u8; 100];
    let key = b.world.expose(to_a, region(&there), Rights::READ);
    let reads = [
        Remote::whole(RemoteKey::from_bits(77)),
        Remote { key, offset: 1 },
        Remote { key, offset: u64::MAX },
    ];
    for (at, from) in (0..).zip(reads) {
        a.world.read_remote(to_b, from, region_mut(&mut here), Token(at));
    }
    a.world.write_remote(to_b, region(&here), Remote::whole(key), Token(3));
    until(&mut [&mut a, &mut b], "the ends", |all| all[0].machine.moved.len() == 4);
    assert!(a.machine.moved.iter().all(|(_, how)| *how == Err(RailError::Fault)));
    assert!(here.iter().all(|&byte| byte == 0) && a.machine.gone.is_empty());
}

/// However many events a caller leaves lying, and however often it polls.
#[test]
fn a_connection_waits_once_for_its_turn() {
    let (mut a, _, mut b, to_a) = met(3);
    a.open_all();
    until(&mut [&mut a, &mut b], "all rails", |all| {
        all[1].world.net().unwrap().conn_count(to_a) == 3
    });
    let net = b.world.net_mut();
    for at in 0..1000 {
        let now = net.now;
        net.poll(now, &mut |_| None);
        net.end_poll();
        assert!(net.turn.len() <= 3, "{} after poll {at}", net.turn.len());
    }
    // None is left out.
    let there = vec![7u8; 1 << 20];
    let mut here = vec![0u8; 1 << 20];
    let key = a.world.expose(a.world.net().unwrap().active[0], region(&there), Rights::READ);
    b.world.read_remote(to_a, Remote::whole(key), region_mut(&mut here), Token(1));
    until(&mut [&mut a, &mut b], "the read", |all| !all[1].machine.moved.is_empty());
    assert!(here == there);
}

/// Who computes after a call does not keep what it has asked for.
#[test]
fn what_is_sent_or_asked_for_between_polls_goes_at_once() {
    let (mut a, to_b, mut b, to_a) = met(2);
    let waits = |process: &Process| !process.world.net().unwrap().dirty.is_empty();
    for seq in 0..100 {
        a.send(to_b, seq, b"a burst");
        assert!(!waits(&a), "packet {seq}");
    }
    let there = vec![7u8; 1 << 20];
    let mut here = vec![0u8; 1 << 20];
    let key = b.world.expose(to_a, region(&there), Rights::READ);
    a.world.read_remote(to_b, Remote::whole(key), region_mut(&mut here), Token(1));
    assert!(!waits(&a), "asks for chunks");
    until(&mut [&mut a, &mut b], "the read", |all| !all[0].machine.moved.is_empty());
    assert!(here == there && b.machine.packets.len() == 100);
}

/// A peer takes so many writes at once, and gives up who sends it more.
#[test]
fn more_writes_than_a_peer_takes_at_once_wait_for_each_other() {
    const COUNT: usize = 3 * WRITES_MAX;
    let (mut a, to_b, mut b, to_a) = met(2);
    let here: Vec<u8> = (0..COUNT).map(|at| (at % 251) as u8 + 1).collect();
    let mut there = vec![0u8; COUNT];
    let key = b.world.expose(to_a, region_mut(&mut there), Rights::WRITE);
    for at in 0..COUNT {
        let to = Remote { key, offset: at as u64 };
        a.world.write_remote(to_b, region(&here[at..=at]), to, Token(at as u64));
    }
    let under_way = a.world.net().unwrap().met(to_b).unwrap().writes.len();
    assert_eq!(under_way, OWN_WRITES_MAX);
    until(&mut [&mut a, &mut b], "the writes", |all| all[0].machine.moved.len() == COUNT);
    assert!(a.machine.moved.iter().all(|(_, how)| how.is_ok()) && here == there);
    assert_eq!((a.machine.gone.len(), b.machine.gone.len()), (0, 0));
    // Those that wait end with their peer, too.
    a.machine.moved.clear();
    for at in 0..COUNT {
        a.world.write_remote(to_b, region(&here[..1]), Remote::whole(key), Token(at as u64));
    }
    drop(b);
    until(&mut [&mut a], "the ends", |all| all[0].machine.moved.len() == COUNT);
    let tokens: std::collections::BTreeSet<u64> =
        a.machine.moved.iter().map(|(token, _)| token.0).collect();
    assert_eq!(tokens.len(), COUNT);
}
