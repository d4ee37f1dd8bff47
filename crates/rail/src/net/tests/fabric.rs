//! Two or more processes that speak over providers of libfabric. Where libfabric is not
//! installed there is nothing to try, and each test says so, also where it is not asked for
//! its output.

use super::{MODES, PATIENCE, Process, loopback, region, region_mut, until};
use crate::net::handshake::Security;
use crate::net::{Entry, FabricDevice, NetConfig, OwnDevice, fabric_offers};
use crate::ofi::{self, Device};
use sluice_fabric::FabricError;
use sluice_link::{Connect, PeerError, RailError, Remote, RemoteMemory, Rights, Token, Transport};
use sluice_multirail::Timing;
use sluice_wire::{Addr, PeerId, Region, RemoteKey};
use std::io::Write;
use std::sync::MutexGuard;
use std::time::Instant;

pub(super) const PROVIDERS: [&str; 2] = ["tcp", "udp;ofi_rxd"];

/// A device of a provider's, at an address of the loopback device.
pub(super) fn over(provider: &str, at: u8) -> OwnDevice {
    let fabric = FabricDevice { provider: provider.to_owned(), place: 0 };
    OwnDevice { fabric: Some(fabric), name: format!("{provider}{at}"), ..loopback(at) }
}

pub(super) fn is_there(provider: &str) -> bool {
    match fabric_offers(provider, loopback(1).addresses.first()) {
        Ok(offers) => !offers.is_empty(),
        Err(FabricError::Missing(why)) => {
            skipped(&why);
            false
        }
        Err(why) => panic!("{why}"),
    }
}

/// Says so beside what is kept of the output of tests that pass.
fn skipped(why: &str) {
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    let _ = writeln!(std::io::stderr(), "skipped: {name}: {why}");
}

pub(super) fn process(devices: &[OwnDevice]) -> Process {
    Process::with(NetConfig::with_devices(devices.to_vec()))
}

/// Two that have met by these devices.
pub(super) fn met(devices: &[OwnDevice]) -> (Process, PeerId, Process, PeerId) {
    met_with(&NetConfig::with_devices(devices.to_vec()))
}

fn met_with(config: &NetConfig) -> (Process, PeerId, Process, PeerId) {
    let (mut a, mut b) = (Process::with(config.clone()), Process::with(config.clone()));
    let (to_b, to_a) = (a.knows(&b), b.knows(&a));
    assert_eq!(a.world.connect(to_b), Ok(Connect::Pending));
    until(&mut [&mut a, &mut b], "the connection", |all| all[0].machine.connected == [to_b]);
    (a, to_b, b, to_a)
}

pub(super) fn payload(seq: u32) -> Vec<u8> {
    (0..seq * 37 % 5000).map(|at| (at ^ seq) as u8).collect()
}

pub(super) fn lanes(process: &mut Process) -> Vec<usize> {
    let entries = process.world.net_mut().entries.iter_mut();
    let lanes = entries.filter_map(|(at, entry)| match entry {
        Entry::Conn(conn) => conn.lane.fabric().map(|_| at),
        _ => None,
    });
    lanes.collect()
}

#[test]
fn packets_arrive_once_and_in_order() {
    for provider in PROVIDERS {
        if !is_there(provider) {
            return;
        }
        let (mut a, to_b, mut b, to_a) = met(&[over(provider, 1)]);
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
        b.send(to_a, 0, b"answer");
        until(&mut [&mut a, &mut b], "the answer", |all| !all[0].machine.packets.is_empty());
        assert_eq!(a.machine.packets, [(to_b, 0, b"answer".to_vec())]);
        assert!(a.machine.gone.is_empty() && b.machine.gone.is_empty());
        assert_eq!((lanes(&mut a).len(), lanes(&mut b).len()), (1, 1));
    }
}

pub(super) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 % 251) as u8).collect()
}

pub(super) fn read(a: &mut Process, to_b: PeerId, b: &mut Process, to_a: PeerId, len: usize) {
    read_and(a, to_b, b, to_a, len, |_, _| ());
}

/// Reads; `and` is done when it has begun.
pub(super) fn read_and(
    a: &mut Process,
    to_b: PeerId,
    b: &mut Process,
    to_a: PeerId,
    len: usize,
    and: impl FnOnce(&mut Process, &mut Process),
) {
    let (there, mut here) = (pattern(len), vec![0u8; len]);
    let key = b.world.expose(to_a, region(&there), Rights::READ);
    a.world.read_remote(to_b, Remote::whole(key), region_mut(&mut here), Token(1));
    and(a, b);
    until(&mut [a, b], "the read", |all| !all[0].machine.moved.is_empty());
    assert_eq!(a.machine.moved.drain(..).as_slice(), [(Token(1), Ok(()))]);
    assert!(here == there, "{len} bytes");
    b.world.revoke(to_a, key);
}

pub(super) fn write(a: &mut Process, to_b: PeerId, b: &mut Process, to_a: PeerId, len: usize) {
    let (here, mut there) = (pattern(len), vec![0u8; len]);
    let key = b.world.expose(to_a, region_mut(&mut there), Rights::WRITE);
    a.world.write_remote(to_b, region(&here), Remote::whole(key), Token(2));
    until(&mut [a, b], "the write", |all| !all[0].machine.moved.is_empty());
    assert_eq!(a.machine.moved.drain(..).as_slice(), [(Token(2), Ok(()))]);
    assert!(here == there, "{len} bytes");
    b.world.revoke(to_a, key);
}

/// Reads while all lanes of one side break, a moment later in each round, and waits until
/// there are others.
pub(super) fn read_while_lanes_break(
    a: &mut Process,
    to_b: PeerId,
    b: &mut Process,
    to_a: PeerId,
    round: usize,
) {
    read_and(a, to_b, b, to_a, 4 << 20, |a, b| {
        for _ in 0..round * 5 {
            a.poll();
            b.poll();
        }
        let side = if round.is_multiple_of(2) { a } else { b };
        for entry in lanes(side) {
            side.world.net_mut().broke(entry, None);
        }
    });
    read_until_lanes(a, to_b, b, to_a);
}

#[test]
fn memory_is_read_and_written() {
    for provider in PROVIDERS {
        if !is_there(provider) {
            return;
        }
        let (mut a, to_b, mut b, to_a) = met(&[over(provider, 1), over(provider, 2)]);
        for len in [1, 100, 4096, 1 << 20, (5 << 20) + 3] {
            read(&mut a, to_b, &mut b, to_a, len);
            write(&mut a, to_b, &mut b, to_a, len);
        }
        let mut here = vec![0; 8];
        let nowhere = Remote::whole(RemoteKey::from_bits(77));
        a.world.read_remote(to_b, nowhere, region_mut(&mut here), Token(3));
        until(&mut [&mut a, &mut b], "the fault", |all| !all[0].machine.moved.is_empty());
        assert_eq!(a.machine.moved, [(Token(3), Err(RailError::Fault))]);
    }
}

/// One of a process's devices of libfabric's.
pub(super) fn device(process: &mut Process, at: usize) -> MutexGuard<'_, Device> {
    ofi::lock(&process.world.net_mut().fabrics[at].as_ref().unwrap().device)
}

/// Gives all rails something to do until both have a lane.
pub(super) fn read_until_lanes(a: &mut Process, to_b: PeerId, b: &mut Process, to_a: PeerId) {
    let begin = Instant::now();
    while lanes(a).is_empty() || lanes(b).is_empty() {
        read(a, to_b, b, to_a, 1 << 20);
        assert!(begin.elapsed() < PATIENCE, "there is no lane");
    }
}

/// TCP and libfabric beside each other carry chunks together; when lanes break while data
/// moves, TCP takes over, and the lanes come back.
#[test]
fn lanes_that_break_lose_nothing() {
    for provider in PROVIDERS {
        if !is_there(provider) {
            return;
        }
        let (mut a, to_b, mut b, to_a) = met(&[loopback(1), over(provider, 1)]);
        read_until_lanes(&mut a, to_b, &mut b, to_a);
        let mut seq = 0;
        for round in 0..6 {
            for _ in 0..50 {
                a.send(to_b, seq, &payload(seq));
                seq += 1;
            }
            read_while_lanes_break(&mut a, to_b, &mut b, to_a, round);
        }
        until(&mut [&mut a, &mut b], "all packets", |all| {
            all[1].machine.packets.len() == seq as usize
        });
        for (seq, got) in (0..).zip(&b.machine.packets) {
            assert_eq!(*got, (to_a, seq, payload(seq)));
        }
        assert!(a.machine.gone.is_empty() && b.machine.gone.is_empty());
    }
}

/// What was sent before the end arrives, and the end is told.
#[test]
fn a_process_that_ends_loses_nothing_of_what_it_sent() {
    for provider in PROVIDERS {
        if !is_there(provider) {
            return;
        }
        for security in MODES {
            end_after_sending(provider, security);
        }
    }
}

fn end_after_sending(provider: &str, security: Security) {
    let devices = vec![over(provider, 1)];
    let config = NetConfig { security, drain: PATIENCE, ..NetConfig::with_devices(devices) };
    let (mut a, to_b, mut b, to_a) = met_with(&config);
    a.send(to_b, 0, b"hello");
    until(&mut [&mut a, &mut b], "the first", |all| !all[1].machine.packets.is_empty());
    b.world.watch(to_a);
    for seq in 1..20 {
        a.send(to_b, seq, &payload(seq));
    }
    // The other side polls in a thread, as a process of its own would.
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            until(&mut [&mut b], "the end", |all| !all[0].machine.gone.is_empty());
        });
        drop(a);
        other.join().unwrap();
    });
    assert_eq!(b.machine.packets.len(), 20);
    assert_eq!(b.machine.gone, [(to_a, PeerError::Dead)]);
}

#[test]
fn many_peers_share_one_device() {
    const PEERS: usize = 12;
    for provider in PROVIDERS {
        if !is_there(provider) {
            return;
        }
        let mut a = process(&[over(provider, 1)]);
        let mut others: Vec<Process> = (0..PEERS).map(|_| process(&[over(provider, 1)])).collect();
        let own = a.world.address();
        let mut back = Vec::new();
        for other in &mut others {
            let to_a = other.world.peer(&own).unwrap();
            other.world.connect(to_a).unwrap();
            back.push(to_a);
        }
        let all_met = |all: &mut [&mut Process]| {
            all[1..].iter().all(|process| !process.machine.connected.is_empty())
        };
        let mut all: Vec<&mut Process> = std::iter::once(&mut a).chain(&mut others).collect();
        until(&mut all, "all connections", all_met);
        for (process, to_a) in all[1..].iter_mut().zip(&back) {
            for seq in 0..30 {
                process.send(*to_a, seq, &payload(seq + 100));
            }
        }
        until(&mut all, "all packets", |all| all[0].machine.packets.len() == 30 * PEERS);
        assert!(all[0].machine.gone.is_empty());
    }
}

/// A provider that is not there is an error with a next step, and so is Sluice itself.
#[test]
fn what_cannot_be_a_rail_says_why() {
    use crate::shm::Config;
    use crate::world::World;
    for (provider, word) in [("nonesuch", "fi_info"), ("sluice", "itself")] {
        if !is_there("tcp") {
            return;
        }
        let config = NetConfig::with_devices(vec![over(provider, 1)]);
        let why = World::open_with_net(Config::default(), config, false).unwrap_err();
        assert!(why.to_string().contains(word), "{why}");
    }
}

/// A lane that is silent while its peer answers beside it is not taken for a process that
/// computes: it is closed and opened anew.
#[test]
fn a_silent_lane_is_noticed() {
    if !is_there("tcp") {
        return;
    }
    let timing = Timing { suspect_alone_ns: 50_000_000, down_ns: 100_000_000, ..Timing::default() };
    let config = NetConfig { timing, ..NetConfig::with_devices(vec![over("tcp", 1)]) };
    let (mut a, mut b) = (Process::with(config.clone()), Process::with(config));
    let (to_b, _) = (a.knows(&b), b.knows(&a));
    a.world.connect(to_b).unwrap();
    until(&mut [&mut a, &mut b], "the connection", |all| all[0].machine.connected == [to_b]);
    a.send(to_b, 0, b"one");
    until(&mut [&mut a, &mut b], "a packet", |all| all[1].machine.packets.len() == 1);
    // The peer's side of the lane forgets it: what comes for it is of no lane.
    device(&mut b, 0).forget_tokens();
    a.send(to_b, 1, b"two");
    until(&mut [&mut a, &mut b], "the other", |all| all[1].machine.packets.len() == 2);
    assert!(a.world.net().unwrap().stats().broken >= 1);
    assert!(a.machine.gone.is_empty() && b.machine.gone.is_empty());
}

/// Memory that may be neither read nor written; as what was unmapped, but nothing else comes
/// to be there.
pub(super) fn gone(len: usize) -> Region {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let nothing = ProtFlags::empty();
    // SAFETY: a new mapping, which nobody has.
    let at = unsafe { mmap_anonymous(std::ptr::null_mut(), len, nothing, MapFlags::PRIVATE) };
    Region { addr: Addr(at.unwrap().expose_provenance() as u64), len: len as u64 }
}

/// Memory that the client has unmapped is an error of what wanted it, and of nothing else.
#[test]
fn memory_that_is_gone_is_a_fault() {
    const LEN: usize = 300_000;
    for provider in PROVIDERS {
        if !is_there(provider) {
            return;
        }
        let (mut a, to_b, mut b, to_a) = met(&[over(provider, 1)]);
        let there = vec![7u8; LEN];
        let key = b.world.expose(to_a, region(&there), Rights::READ);
        a.world.read_remote(to_b, Remote::whole(key), gone(LEN), Token(1));
        until(&mut [&mut a, &mut b], "the fault here", |all| !all[0].machine.moved.is_empty());
        assert_eq!(a.machine.moved.drain(..).as_slice(), [(Token(1), Err(RailError::Fault))]);
        read(&mut a, to_b, &mut b, to_a, LEN);
        assert!(a.machine.gone.is_empty() && b.machine.gone.is_empty());
    }
}
