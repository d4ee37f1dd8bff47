//! Processes for tests: the test program runs itself anew with a role.

use super::super::portions::LONG_PORTION_BYTES;
use super::super::{Address, Config, SegmentKind, Shm};
use super::environment;
use super::{
    KILL_AT, Noise, Recorder, STOP_AT, addr_of, at, grant_of, hex, poll_until, put, region_of,
    send, unhex,
};
use crate::hash::fnv1a;
use sluice_link::chunk_claims::{Side, chunks};
use sluice_link::{ClaimsId, SharedCopy, Token, Transport};
use sluice_wire::{Addr, MatchBits, Packet, PeerId, PtIndex, Put, Region, Rts, slots_for};
use std::io::{BufRead, BufReader, Write};
use std::num::NonZeroU32;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};

const ROLE: &str = "SLUICE_TEST_ROLE";
const PEER: &str = "SLUICE_TEST_PEER";
const NUMBER: &str = "SLUICE_TEST_NUMBER";
const DIR: &str = "SLUICE_TEST_DIR";
/// Longest payload of a streaming child.
const STREAM_BYTES_MAX: u64 = 12_000;
/// What a killed child sends before its last packet.
pub(super) const WHOLE_PACKETS: u64 = 3;
/// Payload of the packet that a killed child does not finish: four slots.
pub(super) const LAST_BYTES: usize = 3 * 64;
pub(super) const LAST_SLOTS: u64 = 4;
/// Payload of five long portions.
pub(super) const PORTIONED_BYTES: usize = 4 * LONG_PORTION_BYTES + 1;
/// What a child says before its address.
const READY: &str = "child is ready: ";
/// Bytes that a child offers to be read.
pub(super) const OFFERED_BYTES: usize = 3 << 20;

/// A process, killed and reaped when dropped.
pub(super) struct Child {
    pub(super) process: std::process::Child,
}

impl Child {
    /// Runs `role` with the mailbox `to` as its peer and a number to go by.
    /// With a directory its own mailbox is a file there.
    pub(super) fn run(role: &str, to: &Shm, number: i64, dir: Option<&Path>) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "shm::tests::child::run_role", "--nocapture"]);
        command.env(ROLE, role).env(PEER, hex(&to.address())).env(NUMBER, number.to_string());
        if let Some(dir) = dir {
            command.env(DIR, dir);
        }
        Child { process: command.stdout(Stdio::piped()).spawn().unwrap() }
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Waits until the child says that it is ready, and what it is called.
    pub(super) fn wait_ready(&mut self) -> Address {
        let lines = BufReader::new(self.process.stdout.as_mut().unwrap()).lines();
        let mut lines = lines.map(Result::unwrap);
        let address = lines.find_map(|line| line.split_once(READY).map(|(_, hex)| unhex(hex)));
        address.expect("the child got ready")
    }

    pub(super) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Not a test of its own: what a child runs.
#[test]
fn run_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    if role == "no memfd" {
        return environment::without_memfd(Path::new(&std::env::var_os(DIR).unwrap()));
    }
    if role == "no descriptors" {
        return environment::without_descriptors(Path::new(&std::env::var_os(DIR).unwrap()));
    }
    let mut config = Config::default();
    if let Some(dir) = std::env::var_os(DIR) {
        config.shm_dir = dir.into();
        config.segment = SegmentKind::File;
    }
    let mut shm = Shm::open(config).unwrap();
    let peer = shm.peer(&unhex(&std::env::var(PEER).unwrap())).unwrap();
    let number: i64 = std::env::var(NUMBER).unwrap().parse().unwrap();
    match role.as_str() {
        "stream" => stream(&mut shm, peer, number.unsigned_abs()),
        "die" => die(&mut shm, peer, number),
        "stop" => stop(&mut shm, peer, number),
        "die in portions" => in_portions(&mut shm, peer, &KILL_AT, number, 0),
        "die in miscounted portions" => in_portions(&mut shm, peer, &KILL_AT, number, 1_000),
        "stop in portions" => in_portions(&mut shm, peer, &STOP_AT, number, 0),
        "offer" => offer(&mut shm, peer),
        "share" => share(&mut shm, peer, number),
        "wait" => wait(&mut shm, peer),
        "silent" => silent(&mut shm),
        other => panic!("no such role: {other}"),
    }
}

/// Payload `n` of a stream: of random length, with its checksum.
pub(super) fn stream_packet(n: u64) -> (Vec<u8>, u64) {
    let mut noise = Noise(n);
    let most = if noise.below(4) == 0 { STREAM_BYTES_MAX } else { 64 };
    let len = noise.below(most + 1) as usize;
    let payload = noise.bytes(len);
    let check = fnv1a(&payload);
    (payload, check)
}

/// Slots of a put with this payload.
pub(super) fn put_slots(len: usize) -> u32 {
    slots_for(40, len as u64)
}

/// Sends `count` packets within the credits that come back.
fn stream(shm: &mut Shm, peer: PeerId, count: u64) {
    let grant = grant_of(shm, peer);
    let mut machine = Recorder { credits: u32::from(grant.data_slots), ..Recorder::default() };
    for n in 0..count {
        let (payload, check) = stream_packet(n);
        let slots = put_slots(payload.len());
        poll_until(shm, &mut machine, "credits", |_, machine| machine.credits >= slots);
        machine.credits -= slots;
        send(shm, peer, put(n, check), &payload);
    }
    let all = u32::from(grant.data_slots);
    poll_until(shm, &mut machine, "the last credits", |_, machine| machine.credits == all);
}

/// Sends some packets, then dies within one.
fn die(shm: &mut Shm, peer: PeerId, step: i64) {
    shm.connect(peer).unwrap();
    for n in 0..WHOLE_PACKETS {
        send(shm, peer, put(n, 0), &[7; 100]);
    }
    KILL_AT.store(step as i32, Ordering::Relaxed);
    send(shm, peer, put(WHOLE_PACKETS, 0), &[9; LAST_BYTES]);
    unreachable!("the write was to kill this process");
}

/// Sends by a buffer, then dies or stops while it stores what it sends next.
fn in_portions(shm: &mut Shm, peer: PeerId, ends_at: &AtomicI32, step: i64, miscounted: u64) {
    let mut machine = Recorder::default();
    shm.connect(peer).unwrap();
    send(shm, peer, put(0, 0), &[7; 100]);
    poll_until(shm, &mut machine, "an answer", |_, machine| !machine.packets.is_empty());
    send(shm, peer, put(1, 0), &[7; PORTIONED_BYTES]);
    shm.segment.portions().fetch_add(miscounted, Ordering::Relaxed);
    ends_at.store(step as i32, Ordering::Relaxed);
    send(shm, peer, put(2, 0), &[9; PORTIONED_BYTES]);
    poll_until(shm, &mut machine, "the end", |_, machine| machine.packets.len() == 2);
}

/// Sends some packets, of which it stops within the last but one.
fn stop(shm: &mut Shm, peer: PeerId, step: i64) {
    shm.connect(peer).unwrap();
    for n in 0..WHOLE_PACKETS {
        send(shm, peer, put(n, 0), &[7; 100]);
    }
    STOP_AT.store(step as i32, Ordering::Relaxed);
    send(shm, peer, put(WHOLE_PACKETS, 0), &[9; LAST_BYTES]);
    send(shm, peer, put(WHOLE_PACKETS + 1, 0), &[9; 10]);
    let mut machine = Recorder::default();
    poll_until(shm, &mut machine, "the end", |_, machine| !machine.packets.is_empty());
}

/// As [`offer`], and helps to copy the bytes to where it is told, until it is
/// told zero. It falls silent when it has taken chunk `number`, if it ever does; it
/// takes them from the last one on.
fn share(shm: &mut Shm, peer: PeerId, number: i64) {
    let mut machine = Recorder::default();
    let mut bytes = Noise(1).bytes(OFFERED_BYTES);
    shm.connect(peer).unwrap();
    announce(shm, peer, &mut bytes);
    loop {
        poll_until(shm, &mut machine, "a place", |_, machine| !machine.packets.is_empty());
        let told = machine.packets.remove(0).put();
        let Some(claims) = NonZeroU32::new(told.hdr_data as u32).map(ClaimsId) else { return };
        let len = told.hdr_data >> 32;
        if let Ok(silent_at) = u32::try_from(number) {
            let (line, generation) = shm.line_of(peer, claims).unwrap();
            let mut taken = None;
            while taken != Some(silent_at) {
                let _ = taken.map(|_| line.account(generation, Side::Peer, chunks(len), true));
                taken = Some(line.take(generation, Side::Peer, chunks(len)).unwrap());
            }
            send(shm, peer, put(0, 0), b"silent");
            continue;
        }
        let from = Region { len, ..region_of(&bytes) };
        shm.write_shared(peer, claims, from, at(Addr(told.match_bits.0)), Token(1));
        poll_until(shm, &mut machine, "its part", |_, machine| !machine.reads.is_empty());
        assert_eq!(machine.reads.remove(0).1, Ok(()));
        let alone = shm.was_written_alone(Some(peer), claims);
        send(shm, peer, put(u64::from(alone), 0), b"done");
    }
}

/// Announces bytes and stays until the reader has said that it has them.
fn offer(shm: &mut Shm, peer: PeerId) {
    shm.connect(peer).unwrap();
    let mut bytes = Noise(1).bytes(OFFERED_BYTES);
    announce(shm, peer, &mut bytes);
    let mut machine = Recorder::default();
    poll_until(shm, &mut machine, "the end", |_, machine| !machine.packets.is_empty());
    drop(bytes);
}

fn announce(shm: &mut Shm, peer: PeerId, bytes: &mut [u8]) {
    let rts = Rts {
        total_len: region_of(bytes).len,
        from: at(addr_of(bytes)).key,
        key: MatchBits(0),
        claims: None,
    };
    let announced = Packet::Put(Put {
        pt_index: PtIndex(0),
        match_bits: MatchBits(0),
        hdr_data: 0,
        user: 0,
        remote_offset: 0,
        ack: None,
        rts: Some(rts),
        bulk: None,
        by_control: false,
    });
    send(shm, peer, announced, &[]);
}

/// Sends one packet, says so, and stays until it is killed.
fn wait(shm: &mut Shm, peer: PeerId) {
    shm.connect(peer).unwrap();
    send(shm, peer, put(0, 0), b"here");
    get_ready(shm);
    let mut machine = Recorder::default();
    poll_until(shm, &mut machine, "the end", |_, machine| !machine.gone.is_empty());
}

/// Says what it is called to who started it and nothing to any mailbox, and stays
/// until it is killed.
fn silent(shm: &mut Shm) {
    get_ready(shm);
    let mut machine = Recorder::default();
    poll_until(shm, &mut machine, "the end", |_, _| false);
}

fn get_ready(shm: &Shm) {
    println!("{READY}{}", hex(&shm.address()));
    std::io::stdout().flush().unwrap();
}
