//! Peers that take nothing, strangers, endpoints that break and processes that fork, where
//! rails are libfabric's.

use super::fabric::{
    PROVIDERS, device, is_there, lanes, met, over, payload, process, read, read_until_lanes,
};
use super::{PATIENCE, Process, loopback, until};
use crate::ofi;
use crate::waker::Haste;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sluice_fabric::{Begun, Endpoint, Source, offers};
use sluice_link::Transport;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Instant;

/// Polls both until each has a lane.
fn until_lanes(a: &mut Process, b: &mut Process) {
    until(&mut [a, b], "lanes", |all| all.iter_mut().all(|process| !lanes(process).is_empty()));
}

/// One peer computes, and its provider takes nothing: others are spoken to as ever, and
/// nobody spins for it.
#[test]
fn a_peer_that_takes_nothing_keeps_back_its_own_lane_alone() {
    if !is_there("tcp") {
        return;
    }
    let mut all: Vec<Process> = (0..3).map(|_| process(&[over("tcp", 1)])).collect();
    let mut c = all.pop().unwrap();
    let mut b = all.pop().unwrap();
    let mut a = all.pop().unwrap();
    let (to_b, to_c) = (a.knows(&b), a.knows(&c));
    a.world.connect(to_b).unwrap();
    until_lanes(&mut a, &mut b);
    a.world.connect(to_c).unwrap();
    until(&mut [&mut a, &mut c], "both", |all| all[0].machine.connected.len() == 2);
    // From now on the first one computes.
    let begin = Instant::now();
    let mut count = 0;
    while !device(&mut a, 0).is_owing() {
        if count < 100 {
            a.send(to_b, count, &payload(count));
            count += 1;
        }
        a.poll();
        assert!(begin.elapsed() < PATIENCE, "its provider takes all");
    }
    for seq in 0..100 {
        a.send(to_c, seq, &payload(seq));
    }
    until(&mut [&mut a, &mut c], "the other", |all| all[1].machine.packets.len() == 100);
    assert!(device(&mut a, 0).is_owing(), "it still computes");
    let begin = Instant::now();
    loop {
        a.poll();
        let now = a.world.refresh_now();
        if a.world.net_mut().rest_ns(now, Haste::FirstByte) > 0 {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "it never sleeps");
    }
    assert!(device(&mut a, 0).is_owing(), "it still computes");
    until(&mut [&mut a, &mut b], "all of it", |all| all[1].machine.packets.len() == count as usize);
}

/// What cannot be received is dropped, however often that is.
#[test]
fn messages_that_cannot_be_received_break_nothing() {
    for provider in PROVIDERS {
        if !is_there(provider) {
            return;
        }
        let (mut a, to_b, mut b, to_a) = met(&[over(provider, 1)]);
        until_lanes(&mut a, &mut b);
        device(&mut b, 0).fail_receives(1_100);
        for seq in 0..100 {
            a.send(to_b, seq, &payload(seq));
        }
        until(&mut [&mut a, &mut b], "all packets", |all| all[1].machine.packets.len() == 100);
        read(&mut a, to_b, &mut b, to_a, 1 << 20);
        assert_eq!(b.world.net().unwrap().stats().broken, 0);
    }
}

/// An endpoint that breaks takes its lanes with it, for as long as it takes to open another.
#[test]
fn a_device_that_breaks_is_opened_anew() {
    for provider in PROVIDERS {
        if !is_there(provider) {
            return;
        }
        let (mut a, to_b, mut b, to_a) = met(&[loopback(1), over(provider, 1)]);
        read_until_lanes(&mut a, to_b, &mut b, to_a);
        let before = device(&mut a, 1).name().to_vec();
        for seq in 0..50 {
            a.send(to_b, seq, &payload(seq));
        }
        device(&mut a, 1).break_down();
        read(&mut a, to_b, &mut b, to_a, 1 << 20);
        until(&mut [&mut a, &mut b], "another", |all| device(all[0], 1).name() != before);
        read_until_lanes(&mut a, to_b, &mut b, to_a);
        until(&mut [&mut a, &mut b], "all packets", |all| all[1].machine.packets.len() == 50);
        assert!(a.machine.gone.is_empty() && b.machine.gone.is_empty());
    }
}

/// The same where there is no other rail.
#[test]
fn a_device_that_breaks_alone_loses_nothing() {
    if !is_there("tcp") {
        return;
    }
    let (mut a, to_b, mut b, to_a) = met(&[over("tcp", 1)]);
    until_lanes(&mut a, &mut b);
    for seq in 0..50 {
        a.send(to_b, seq, &payload(seq));
    }
    device(&mut a, 0).break_down();
    until(&mut [&mut a, &mut b], "all packets", |all| all[1].machine.packets.len() == 50);
    read(&mut a, to_b, &mut b, to_a, 1 << 20);
    assert!(a.machine.gone.is_empty() && b.machine.gone.is_empty());
}

/// Sends something that no lane wants.
fn stray(stranger: &mut Endpoint, to: sluice_fabric::Peer) -> bool {
    while let Some(done) = stranger.poll().unwrap() {
        stranger.give_back(done.buffer);
    }
    let buffer = stranger.take().unwrap();
    let is_begun = stranger.send(buffer, 100, to).unwrap() == Begun::Yes;
    if !is_begun {
        stranger.give_back(buffer);
    }
    is_begun
}

/// What strangers send to a device that has no lanes any more wakes nobody.
#[test]
fn a_device_without_lanes_wakes_nobody() {
    if !is_there("tcp") {
        return;
    }
    let (mut a, _, mut b, _) = met(&[over("tcp", 1)]);
    until_lanes(&mut a, &mut b);
    let offer = offers("tcp", Source::Ip(loopback(1).addresses.first())).unwrap().remove(0);
    let mut stranger = Endpoint::open(offer, 8).unwrap();
    let to = stranger.insert(device(&mut a, 0).name()).unwrap();
    let begin = Instant::now();
    while !stray(&mut stranger, to) {
        a.poll();
        assert!(begin.elapsed() < PATIENCE, "it takes nothing");
    }
    drop(b);
    until(&mut [&mut a], "the end", |all| lanes(all[0]).is_empty());
    for _ in 0..10 {
        stray(&mut stranger, to);
    }
    let begin = Instant::now();
    loop {
        a.poll();
        let now = a.world.refresh_now();
        let net = a.world.net_mut();
        let rest_ns = net.rest_ns(now, Haste::FirstByte);
        let mut polled = [PollFd::from_borrowed_fd(net.sockets(), PollFlags::IN)];
        let wait = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        if rest_ns > 0 && poll(&mut polled, Some(&wait)).unwrap() == 0 {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "it is woken again and again");
    }
}

/// A fork that ends by itself ends, whatever the threads of its parent were doing.
#[test]
fn a_fork_calls_nothing() {
    if !is_there("tcp") {
        return;
    }
    let (mut a, to_b, mut b, _) = met(&[over("tcp", 1)]);
    until_lanes(&mut a, &mut b);
    let held = Arc::clone(&a.world.net_mut().fabrics[0].as_ref().unwrap().device);
    let (say, hear) = channel();
    let (end, wait) = channel::<()>();
    let other = std::thread::spawn(move || {
        let locked = ofi::lock(&held);
        say.send(()).unwrap();
        let _ = wait.recv();
        drop(locked);
    });
    hear.recv().unwrap();
    // SAFETY: the child only lets go of its copy and ends at once; the parent's is not
    // touched by that.
    let child = unsafe {
        let child = libc::fork();
        if child == 0 {
            drop(std::ptr::read(&raw const a));
            libc::_exit(0);
        }
        child
    };
    assert!(child > 0);
    let (begin, mut status) = (Instant::now(), -1);
    // SAFETY: a child of this process, which is waited for here alone.
    while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
        if begin.elapsed() > PATIENCE {
            // SAFETY: as above.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        std::thread::yield_now();
    }
    drop(end);
    other.join().unwrap();
    assert_eq!(status, 0, "it hangs");
    a.send(to_b, 0, b"still here");
    until(&mut [&mut a, &mut b], "a packet", |all| all[1].machine.packets.len() == 1);
}
