//! Two processes for real, one of which is killed or stopped by the system.

use super::failures::BRISK;
use super::{PATIENCE, Process, loopback, region, region_mut, until};
use crate::address::Address;
use crate::net::NetConfig;
use rustix::process::{Pid, Signal, kill_process};
use sluice_link::{Connect, PeerError, Remote, RemoteMemory, Rights, Token, Transport};
use sluice_multirail::Timing;
use sluice_wire::{PeerId, RemoteKey};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PEER: &str = "SLUICE_TEST_NET_PEER";
const READY: &str = "child is ready: ";
const BYTES: usize = 8 << 20;
const TIMING: Timing = Timing { suspect_alone_ns: 100_000_000, gone_ns: 400_000_000, ..BRISK };

fn process(timing: Timing) -> Process {
    let devices = (1..=2).map(loopback).collect();
    Process::with(NetConfig { timing, ..NetConfig::with_devices(devices) })
}

fn pattern() -> Vec<u8> {
    (0..BYTES as u64).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 11) as u8).collect()
}

/// Killed and reaped when dropped.
struct Child {
    process: std::process::Child,
    key: RemoteKey,
    address: Address,
}

impl Child {
    /// A process that offers bytes, and sends back each packet.
    fn run(a: &Process) -> Child {
        let address = a.world.address().to_bytes();
        let hex: String = address.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "net::tests::processes::run_child", "--nocapture"]);
        let mut process = command.env(PEER, hex).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.as_mut().unwrap()).lines();
        let mut lines = lines.map(Result::unwrap);
        let told = lines.find_map(|line| line.split_once(READY).map(|(_, told)| told.to_string()));
        let told = told.expect("the child got ready");
        let (key, address) = told.split_once(' ').unwrap();
        let key = RemoteKey::from_bits(key.parse().unwrap());
        Child { process, key, address: unhex(address) }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn unhex(text: &str) -> Address {
    let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap();
    Address::from_bytes(&(0..text.len() / 2).map(byte).collect::<Vec<_>>()).unwrap()
}

/// Not a test of its own: what a child runs.
#[test]
fn run_child() {
    let Ok(peer) = std::env::var(PEER) else { return };
    let mut b = process(TIMING);
    let peer = b.world.peer(&unhex(&peer)).unwrap();
    let bytes = pattern();
    let key = b.world.expose(peer, region(&bytes), Rights::READ);
    assert_eq!(b.world.connect(peer), Ok(Connect::Pending));
    let address = b.world.address().to_bytes();
    let hex: String = address.iter().map(|byte| format!("{byte:02x}")).collect();
    println!("{READY}{} {hex}", key.bits());
    let begin = Instant::now();
    while b.machine.gone.is_empty() && begin.elapsed() < 3 * PATIENCE {
        b.poll();
        for (from, seq, payload) in std::mem::take(&mut b.machine.packets) {
            b.send(from, seq, &payload);
        }
    }
}

/// A process, its child, and how it knows it.
fn with_child(timing: Timing) -> (Process, Child, PeerId) {
    let mut a = process(timing);
    let child = Child::run(&a);
    let peer = a.world.peer(&child.address).unwrap();
    assert!(matches!(a.world.connect(peer), Ok(Connect::Pending | Connect::Ready(_))));
    until(&mut [&mut a], "the child", |all| {
        matches!(all[0].world.connect(peer), Ok(Connect::Ready(_)))
    });
    (a, child, peer)
}

#[test]
fn a_process_that_is_killed_in_the_middle_of_a_read_is_known_to_have_ended() {
    // The deadline for a peer out of reach is far away.
    let (mut a, child, peer) = with_child(Timing { gone_ns: 3_600_000_000_000, ..TIMING });
    let mut into = vec![0u8; BYTES];
    let from = Remote::whole(child.key);
    for token in 0..2 {
        a.world.read_remote(peer, from, region_mut(&mut into), Token(token));
    }
    a.send(peer, 0, b"in vain");
    until(&mut [&mut a], "the first bytes", |_| into[..1000].iter().any(|&byte| byte != 0));
    child.signal(Signal::KILL);
    until(&mut [&mut a], "its end", |all| !all[0].machine.gone.is_empty());
    assert_eq!(a.machine.gone, [(peer, PeerError::Dead)]);
    until(&mut [&mut a], "the ends of the reads", |all| all[0].machine.moved.len() == 2);
}

#[test]
fn a_process_that_is_stopped_for_longer_than_all_deadlines_loses_nothing() {
    let (mut a, child, peer) = with_child(TIMING);
    let mut into = vec![0u8; BYTES];
    a.world.read_remote(peer, Remote::whole(child.key), region_mut(&mut into), Token(1));
    until(&mut [&mut a], "the first bytes", |_| into[..1000].iter().any(|&byte| byte != 0));
    child.signal(Signal::STOP);
    for seq in 0..200 {
        a.send(peer, seq, &seq.to_le_bytes());
    }
    let begin = Instant::now();
    until(&mut [&mut a], "several times all deadlines", |_| {
        begin.elapsed() > Duration::from_nanos(4 * TIMING.gone_ns)
    });
    assert_eq!(a.machine.gone, []);
    child.signal(Signal::CONT);
    until(&mut [&mut a], "all", |all| {
        !all[0].machine.moved.is_empty() && all[0].machine.packets.len() == 200
    });
    assert_eq!(a.machine.moved, [(Token(1), Ok(()))]);
    assert!(into == pattern());
    for (seq, got) in (0..200_u32).zip(&a.machine.packets) {
        assert_eq!(*got, (peer, seq, seq.to_le_bytes().to_vec()));
    }
    assert_eq!(a.machine.gone, []);
}
