//! Whole rails: in one process, between processes, and with processes that die.

mod bounce;
mod child;
mod closing;
mod elsewhere;
mod environment;
mod files;
mod garbage;
mod handover;
mod kill;
mod lookup;
mod named;
mod pair;
mod published;
mod reads;
mod shared;
mod shared_broken;
mod sleep;
mod stopped;
mod stress;
mod tampered;
mod unheard;
mod writes;

use super::ring::Step;
use super::{Address, Config, Host, SegmentKind, Shm, clock_now, drive};
use sluice_link::{
    Connect, Grant, Machine, Opened, PeerError, Port, RailError, Remote, Token, Transmitted,
    Transport,
};
use sluice_wire::{
    Addr, Credits, MatchBits, Nanos, Packet, PacketSeq, Parsed, PeerId, PtIndex, Put, Region,
    RemoteKey,
};
use std::cell::Cell;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up. Far more than needed.
const PATIENCE: Duration = Duration::from_secs(120);

/// The step at which this process stops itself once, as a code; none if negative.
static STOP_AT: AtomicI32 = AtomicI32::new(-1);

/// The step at which this process kills itself, as a code; none if negative.
static KILL_AT: AtomicI32 = AtomicI32::new(-1);

thread_local! {
    /// How far the clock of this thread's rails goes ahead of the system's.
    static CLOCK_AHEAD: Cell<u64> = const { Cell::new(0) };
    /// What the system's clock showed when this thread's was stopped.
    static CLOCK_STOPPED: Cell<Option<Nanos>> = const { Cell::new(None) };
}

/// Lets time pass for the rails of this thread.
pub(crate) fn advance_clock(by: Nanos) {
    CLOCK_AHEAD.set(CLOCK_AHEAD.get() + by.0);
}

/// How long a poll takes where the clock was stopped.
const POLL_TAKES: Nanos = Nanos(100);

/// From now on time passes for the rails of this thread with their polls and by [`advance_clock`],
/// however busy the machine is.
pub(super) fn stop_clock() {
    let now = clock_now();
    CLOCK_AHEAD.set(0);
    CLOCK_STOPPED.set(Some(now));
}

/// What a clock of this thread's rails shows, where the system's shows `now`.
pub(super) fn shown(now: Nanos) -> Nanos {
    CLOCK_STOPPED.get().unwrap_or(now).saturating_add(Nanos(CLOCK_AHEAD.get()))
}

/// What [`stores::ticks`](super::stores::ticks) shows where the clock was stopped.
pub(super) fn stopped_ticks() -> Option<u64> {
    CLOCK_STOPPED.get().map(|stopped| stopped.0 + CLOCK_AHEAD.get())
}

/// Called between the steps of every write in tests.
pub(super) fn step(step: Step) -> bool {
    if STOP_AT.load(Ordering::Relaxed) == code_of(step) {
        STOP_AT.store(-1, Ordering::Relaxed);
        // SAFETY: a process may stop itself.
        unsafe { libc::raise(libc::SIGSTOP) };
    }
    if KILL_AT.load(Ordering::Relaxed) == code_of(step) {
        loop {
            // SAFETY: a process may kill itself.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
    }
    true
}

fn code_of(step: Step) -> i32 {
    match step {
        Step::Intent => 0,
        Step::Reserved => 1,
        Step::Positioned => 2,
        Step::Unstamped => 3,
        Step::Published => 4,
        Step::Filled(slots) => 10 + slots.cast_signed(),
        Step::Portion(portions) => 1_000_000 + portions.cast_signed(),
    }
}

/// Shared memory alone: its own host.
impl Host for Shm {
    fn shm_mut(&mut self) -> &mut Shm {
        self
    }
}

impl Shm {
    fn poll<M: Machine>(&mut self, now: Nanos, machine: &mut M, budget: usize) -> usize {
        drive::poll(self, now, machine, budget)
    }
}

/// One packet, as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Arrived {
    from: PeerId,
    parsed: Parsed,
    payload: Vec<u8>,
}

impl Arrived {
    fn put(&self) -> Put {
        match self.parsed.packet {
            Packet::Put(put) => put,
            other => panic!("a put was expected, not {other:?}"),
        }
    }
}

/// A machine that writes down what it is told.
#[derive(Debug, Default)]
struct Recorder {
    packets: Vec<Arrived>,
    /// Packets whose payload was cut.
    cut: u64,
    /// The times that the packets came with.
    times: Vec<Nanos>,
    /// Credits that came back, by nobody in particular.
    credits: u32,
    reads: Vec<(Token, Result<(), RailError>)>,
    gone: Vec<(PeerId, PeerError)>,
    idles: u32,
    deadline: Option<Nanos>,
}

/// What a peer grants, which is known at once.
fn grant_of(shm: &mut Shm, peer: PeerId) -> Grant {
    match shm.connect(peer) {
        Ok(Connect::Ready(opened)) => opened.grant,
        other => panic!("not connected at once: {other:?}"),
    }
}

impl Machine for Recorder {
    fn on_packet<P: Port>(&mut self, now: Nanos, port: &mut P, from: PeerId, packet: &Parsed) {
        assert!(self.gone.iter().all(|&(peer, _)| peer != from), "nothing after the end");
        self.credits += u32::from(packet.credits.data);
        if packet.packet == Packet::Credit {
            return;
        }
        let mut payload = vec![0; packet.payload_len as usize];
        // In two pieces, so that odd offsets are copied too.
        let half = packet.payload_len / 3;
        let to = addr_of(&mut payload).offset(u64::from(half));
        let is_whole = port.copy_payload(0, addr_of(&mut payload), half)
            & port.copy_payload(half, to, packet.payload_len - half);
        if !is_whole {
            self.cut += 1;
            return;
        }
        let mut taken = vec![0; payload.len()];
        let (front, back) = taken.split_at_mut(half as usize);
        port.payload(0, front);
        port.payload(half, back);
        assert_eq!(taken, payload, "the machine sees the bytes that the client gets");
        self.times.push(now);
        self.packets.push(Arrived { from, parsed: *packet, payload });
    }

    fn placement(&self, _: PeerId, _: &Parsed) -> Option<Region> {
        panic!("this rail does not ask");
    }

    fn on_connected<P: Port>(&mut self, _: Nanos, _: &mut P, _: PeerId, _: Opened) {
        panic!("this rail connects at once");
    }

    fn on_transmitted<P: Port>(&mut self, _: Nanos, _: &mut P, _: Token) {
        panic!("this rail writes at once");
    }

    fn on_moved<P: Port>(
        &mut self,
        _: Nanos,
        _: &mut P,
        token: Token,
        outcome: Result<(), RailError>,
    ) {
        self.reads.push((token, outcome));
    }

    fn on_peer_gone<P: Port>(&mut self, _: Nanos, port: &mut P, peer: PeerId, why: PeerError) {
        assert!(self.gone.iter().all(|&(one, _)| one != peer), "an end is reported once");
        assert_eq!(port.connect(peer), Err(why));
        assert!(!port.caps(peer).read && !port.caps(peer).write);
        self.gone.push((peer, why));
    }

    fn on_idle<P: Port>(&mut self, _: Nanos, _: &mut P) {
        self.idles += 1;
    }

    fn deadline(&self) -> Option<Nanos> {
        self.deadline
    }
}

fn addr_of(bytes: &mut [u8]) -> Addr {
    Addr(bytes.as_mut_ptr().expose_provenance() as u64)
}

/// A place in the memory of another process: on this rail the key is the address.
fn at(addr: Addr) -> Remote {
    Remote::whole(RemoteKey::from_bits(addr.0))
}

fn region_of(bytes: &[u8]) -> Region {
    Region { addr: Addr(bytes.as_ptr().expose_provenance() as u64), len: bytes.len() as u64 }
}

fn put(match_bits: u64, hdr_data: u64) -> Packet {
    Packet::Put(Put {
        pt_index: PtIndex(0),
        match_bits: MatchBits(match_bits),
        hdr_data,
        user: 0,
        remote_offset: 0,
        ack: None,
        rts: None,
        bulk: None,
        by_control: false,
    })
}

fn send(shm: &mut Shm, to: PeerId, packet: Packet, payload: &[u8]) {
    let head = packet.emit(PacketSeq(0), Credits::default(), payload.len() as u32);
    assert_eq!(shm.transmit(to, &head, region_of(payload), Token(0)), Transmitted::Done);
}

fn send_credit(shm: &mut Shm, to: PeerId, slots: u16) {
    let credits = Credits { data: slots, control: 0 };
    let head = Packet::Credit.emit(PacketSeq(0), credits, 0);
    shm.transmit(to, &head, Region::EMPTY, Token(0));
}

fn poll(shm: &mut Shm, machine: &mut Recorder) -> usize {
    if CLOCK_STOPPED.get().is_some() {
        advance_clock(POLL_TAKES);
    }
    shm.poll(shm.now(), machine, 16)
}

/// Lets a rail notice and report whose claims have changed by now.
fn settle(shm: &mut Shm, machine: &mut Recorder) {
    let begin = Instant::now();
    while shm.has_work() {
        poll(shm, machine);
        assert!(begin.elapsed() < PATIENCE, "always work; {:?}", shm.stats());
    }
}

/// Polls until `done`, and fails the test if that takes too long.
fn poll_until(
    shm: &mut Shm,
    machine: &mut Recorder,
    what: &str,
    mut done: impl FnMut(&mut Shm, &mut Recorder) -> bool,
) {
    let begin = Instant::now();
    while !done(shm, machine) {
        if poll(shm, machine) == 0 {
            std::thread::yield_now();
        }
        assert!(begin.elapsed() < PATIENCE, "waited in vain: {what}; {:?}", shm.stats());
    }
}

fn open() -> Shm {
    Shm::open(Config::default()).expect("a rail opens here")
}

/// With anonymous memory even where files would be chosen.
fn open_memfd() -> Shm {
    let config = Config { segment: SegmentKind::Memfd, ..Config::default() };
    Shm::open(config).expect("a rail opens here")
}

/// Deterministic noise (splitmix64).
#[derive(Clone, Debug)]
pub(super) struct Noise(pub(super) u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(super) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        for chunk in bytes.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
        bytes
    }
}

fn hex(address: &Address) -> String {
    address.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Address {
    let bytes: Vec<u8> = (0..text.len() / 2)
        .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
        .collect();
    Address::from_bytes(&bytes).unwrap()
}
