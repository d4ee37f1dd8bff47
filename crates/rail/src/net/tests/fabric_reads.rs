//! Chunks that devices of libfabric's read by themselves. Those that there are for tests copy
//! in the process, and are told to do it nevertheless: the memory is there in these tests.

use super::fabric::{
    PROVIDERS, device, gone, is_there, met, over, pattern, read, read_and, read_until_lanes,
    read_while_lanes_break, write,
};
use super::{Process, loopback, region, region_mut, until};
use sluice_link::{RailError, Remote, RemoteMemory, Rights, Token};
use sluice_wire::PeerId;

/// Two that have met by this provider, whose device is the last of each.
fn reading(provider: &str, with_tcp: bool) -> (Process, PeerId, Process, PeerId) {
    let tcp = with_tcp.then(|| loopback(1));
    let devices: Vec<_> = tcp.into_iter().chain([over(provider, 1)]).collect();
    let (mut a, to_b, mut b, to_a) = met(&devices);
    for process in [&mut a, &mut b] {
        device(process, devices.len() - 1).always_read();
    }
    read_until_lanes(&mut a, to_b, &mut b, to_a);
    (a, to_b, b, to_a)
}

#[test]
fn memory_is_read_by_the_device_itself() {
    for provider in PROVIDERS {
        if !is_there(provider) {
            return;
        }
        let (mut a, to_b, mut b, to_a) = reading(provider, false);
        for len in [1, 100, 4096, 1 << 20, (5 << 20) + 3] {
            read_and(&mut a, to_b, &mut b, to_a, len, |a, b| {
                let is_found = |all: &mut [&mut Process]| device(all[1], 0).exposed() == 1;
                until(&mut [a, b], "it is read there", is_found);
            });
            assert_eq!(device(&mut b, 0).exposed(), 0);
            write(&mut a, to_b, &mut b, to_a, len);
            assert_eq!(device(&mut a, 0).exposed(), 0);
        }
    }
}

/// A key that is revoked while it is read by reaches nothing any more, and the read ends.
#[test]
fn what_is_revoked_is_not_read_on() {
    const LEN: usize = 16 << 20;
    if !is_there("tcp") {
        return;
    }
    let (mut a, to_b, mut b, to_a) = reading("tcp", false);
    for polls in [0, 1, 3, 10] {
        let there = pattern(LEN);
        let mut here = vec![0u8; LEN];
        let key = b.world.expose(to_a, region(&there), Rights::READ);
        a.world.read_remote(to_b, Remote::whole(key), region_mut(&mut here), Token(1));
        let is_found = |all: &mut [&mut Process]| device(all[1], 0).exposed() == 1;
        until(&mut [&mut a, &mut b], "somebody reads", is_found);
        for _ in 0..polls {
            a.poll();
            b.poll();
        }
        b.world.revoke(to_a, key);
        assert_eq!(device(&mut b, 0).exposed(), 0);
        until(&mut [&mut a, &mut b], "the end", |all| !all[0].machine.moved.is_empty());
        assert_eq!(a.machine.moved.drain(..).as_slice(), [(Token(1), Err(RailError::Fault))]);
        read(&mut a, to_b, &mut b, to_a, 1 << 20);
    }
    assert!(a.machine.gone.is_empty() && b.machine.gone.is_empty());
}

/// Lanes break while chunks are read: others take over.
#[test]
fn lanes_that_break_while_they_read_lose_nothing() {
    for provider in PROVIDERS {
        if !is_there(provider) {
            return;
        }
        let (mut a, to_b, mut b, to_a) = reading(provider, true);
        for round in 0..6 {
            read_while_lanes_break(&mut a, to_b, &mut b, to_a, round);
        }
        assert!(a.machine.gone.is_empty() && b.machine.gone.is_empty());
    }
}

/// A place that is gone is a fault of its read, and of nothing else.
#[test]
fn a_place_that_is_gone_is_a_fault() {
    const LEN: usize = 300_000;
    for provider in PROVIDERS {
        if !is_there(provider) {
            return;
        }
        let (mut a, to_b, mut b, to_a) = reading(provider, false);
        let there = pattern(LEN);
        let key = b.world.expose(to_a, region(&there), Rights::READ);
        a.world.read_remote(to_b, Remote::whole(key), gone(LEN), Token(1));
        until(&mut [&mut a, &mut b], "the fault", |all| !all[0].machine.moved.is_empty());
        assert_eq!(a.machine.moved.drain(..).as_slice(), [(Token(1), Err(RailError::Fault))]);
        b.world.revoke(to_a, key);
        read(&mut a, to_b, &mut b, to_a, LEN);
        assert!(a.machine.gone.is_empty() && b.machine.gone.is_empty());
    }
}

/// A peer whose device lets nobody read is asked, and sends.
#[test]
fn what_the_peer_does_not_register_is_sent() {
    for provider in PROVIDERS {
        if !is_there(provider) {
            return;
        }
        let (mut a, to_b, mut b, to_a) = met(&[over(provider, 1)]);
        device(&mut a, 0).always_read();
        read(&mut a, to_b, &mut b, to_a, (5 << 20) + 3);
        read(&mut b, to_a, &mut a, to_b, (5 << 20) + 3);
        assert_eq!((device(&mut a, 0).exposed(), device(&mut b, 0).exposed()), (0, 0));
        assert_eq!(a.world.net().unwrap().stats().broken, 0);
    }
}
