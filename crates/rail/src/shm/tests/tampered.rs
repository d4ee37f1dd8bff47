//! Shared memory that somebody writes over while processes exchange messages and long transfers, which
//! are handed over where they are near: each exchange is completed, or ends with an error, nobody
//! waits for ever, and no byte beside a destination changes.
//!
//! All of a trial follows from its seed, but for what the system's clock adds to its time. What
//! stands in a packet behind its stamp is left alone: a packet that is forged whole cannot be told
//! from a true one (`garbage` forges them, and asks for less). Of a handed chunk it is not.

mod at_once;
mod place;

use super::super::{Config, Shm, Warn, looks};
use super::child::put_slots;
use super::reads::reads_work;
use super::{Noise, addr_of, advance_clock, at, grant_of, put, region_of};
use crate::hash::fnv1a;
use place::{OF_HANDED, PLACES, Place, tamper};
use sluice_link::{
    ClaimsId, ClaimsStart, Machine, Opened, PeerError, Port, RailError, SharedCopy, Token,
    Transport,
};
use sluice_wire::{Addr, Credits, Nanos, Packet, PacketSeq, Parsed, PeerId, PtIndex, Put, Region};
use std::collections::VecDeque;
use std::num::NonZeroU32;

/// Messages from each to each other.
const MESSAGES: u64 = 12;
/// After which of them the receiver asks for a transfer that both sides copy, and for how many, one
/// after the other. Of the last one nobody writes over anything.
const BULK_AFTER: u64 = 4;
const BULKS: u64 = 2;
/// Some end with a chunk that no buffer is for.
const BULK_BYTES: [usize; 4] = [300_000, (512 << 10) + 40, 1 << 20, 2 << 20];
/// What is before and behind the destination of one, and stays as it is: more than a chunk.
const MARGIN: usize = 300 << 10;
const MARGIN_BYTE: u8 = 0xa5;
/// What the bytes of every transfer follow from.
const SOURCE: u64 = 77;
/// What says where bytes are wanted has this portal table index.
const WANTED: PtIndex = PtIndex(1);
/// Virtual time of a round, and how many rounds an exchange may take: two seconds.
const ROUND: Nanos = Nanos(250_000);
const ROUNDS_MAX: u64 = 8_000;
/// Of processes that are near each other, in the first of so many rounds: less than one waits for another.
const NEAR_ROUND: Nanos = Nanos(500);
const NEAR_ROUNDS: u64 = 400;
/// In which rounds somebody writes, and until when there must have been something to write over.
const TAMPERED_ROUNDS: u64 = 40;
const TAMPERED_ROUNDS_MAX: u64 = 400;
/// One seed to replay, or how many there are.
const SEED: &str = "SLUICE_TEST_SEED";
const SEEDS: &str = "SLUICE_TEST_SEEDS";

/// What one process has of its exchange with another one.
struct Exchange {
    peer: PeerId,
    sent: u64,
    received: u64,
    credits: u32,
    credits_max: u32,
    owed: u16,
    next_in: PacketSeq,
    next_out: PacketSeq,
    source: Vec<u8>,
    target: Target,
    /// Transfers to this process that were begun, and how they have ended.
    asked: u64,
    reads: Vec<Result<(), RailError>>,
    /// The chunk claims of the one that is under way.
    claims: Option<ClaimsId>,
    /// Where the peer wants bytes, and has not been answered.
    wanted: VecDeque<(ClaimsId, Addr)>,
    /// Transfers from this process that were begun, and have ended.
    writing: u64,
    written: u64,
}

impl Exchange {
    fn new(peer: PeerId, credits: u32, len: usize) -> Exchange {
        Exchange {
            peer,
            sent: 0,
            received: 0,
            credits,
            credits_max: credits,
            owed: 0,
            next_in: PacketSeq(0),
            next_out: PacketSeq(0),
            source: Noise(SOURCE).bytes(len),
            target: Target(vec![MARGIN_BYTE; MARGIN + len + MARGIN]),
            asked: 0,
            reads: Vec::new(),
            claims: None,
            wanted: VecDeque::new(),
            writing: 0,
            written: 0,
        }
    }

    fn is_over(&self) -> bool {
        self.sent == MESSAGES + BULKS
            && self.received == MESSAGES + BULKS
            && self.credits == self.credits_max
            && self.owed == 0
            && self.reads.len() as u64 == BULKS
            && self.written == BULKS
    }

    /// Whether it is time for the next transfer. `is_calm` says that nobody writes over anything more.
    fn wants_bulk(&self, is_calm: bool) -> bool {
        let is_due = self.asked + 1 < BULKS || is_calm;
        self.received > BULK_AFTER && self.claims.is_none() && self.asked < BULKS && is_due
    }
}

/// Where a transfer goes, between its margins.
struct Target(Vec<u8>);

impl Target {
    fn region(&mut self) -> Region {
        let len = self.0.len() - 2 * MARGIN;
        Region { addr: addr_of(&mut self.0[MARGIN..MARGIN + len]), len: len as u64 }
    }

    fn clear(&mut self) {
        let end = self.0.len() - MARGIN;
        self.0[MARGIN..end].fill(0);
    }

    /// It was written by the system, or through its address.
    fn is(&self, expected: &[u8]) -> bool {
        std::hint::black_box(&self.0)[MARGIN..][..expected.len()] == *expected
    }

    fn has_margins(&self) -> bool {
        let all = std::hint::black_box(&self.0);
        let (before, behind) = (&all[..MARGIN], &all[all.len() - MARGIN..]);
        before.iter().chain(behind).all(|&byte| byte == MARGIN_BYTE)
    }
}

/// A machine that exchanges messages with all others, and takes everything that
/// is not as it should be for an error.
#[derive(Default)]
struct Process {
    others: Vec<Exchange>,
    error: Option<String>,
    /// A payload was not what was sent.
    wrong: bool,
    /// Which transfers ended well, and not with the bytes of the source.
    faked: Vec<usize>,
    /// Chunks that it has handed over.
    handed: u64,
}

impl Process {
    fn with(&mut self, peer: PeerId) -> Option<&mut Exchange> {
        self.others.iter_mut().find(|other| other.peer == peer)
    }

    fn fail(&mut self, error: String) {
        self.error.get_or_insert(error);
    }

    fn has_ended(&self) -> bool {
        self.error.is_some() || self.others.iter().all(Exchange::is_over)
    }
}

impl Machine for Process {
    fn on_packet<P: Port>(&mut self, _: Nanos, port: &mut P, from: PeerId, parsed: &Parsed) {
        let Some(with) = self.with(from) else {
            return self.fail(format!("a packet of a stranger, {}", from.0));
        };
        if parsed.seq != with.next_in {
            return self.fail(format!("a packet of {} is missing", from.0));
        }
        with.next_in = with.next_in.next();
        with.credits += u32::from(parsed.credits.data);
        let put = match parsed.packet {
            Packet::Put(put) => put,
            Packet::Credit => return,
            _ => return self.fail(format!("no packet of this kind was sent by {}", from.0)),
        };
        let mut payload = vec![0; parsed.payload_len as usize];
        let is_whole = port.copy_payload(0, addr_of(&mut payload), parsed.payload_len);
        with.owed += put_slots(payload.len()) as u16;
        with.received += 1;
        if put.pt_index == WANTED {
            let claims = NonZeroU32::new(put.hdr_data as u32).map(ClaimsId);
            with.wanted.extend(claims.map(|claims| (claims, Addr(put.match_bits.0))));
        } else {
            // The sender of one that was cut is given up.
            self.wrong |= is_whole && fnv1a(&payload) != put.hdr_data;
        }
    }

    fn placement(&self, _: PeerId, _: &Parsed) -> Option<Region> {
        panic!("this rail does not ask");
    }

    fn on_connected<P: Port>(&mut self, _: Nanos, _: &mut P, _: PeerId, _: Opened) {
        panic!("this rail connects at once");
    }

    fn on_transmitted<P: Port>(&mut self, _: Nanos, _: &mut P, _: Token) {}

    fn on_moved<P: Port>(
        &mut self,
        _: Nanos,
        _: &mut P,
        token: Token,
        outcome: Result<(), RailError>,
    ) {
        let other = &mut self.others[token.0 as usize / 2];
        if token.0.is_multiple_of(2) {
            assert!((other.reads.len() as u64) < other.asked, "a read ends once");
            if outcome.is_ok() && !other.target.is(&other.source) {
                self.faked.push(other.reads.len());
            }
            other.reads.push(outcome);
        } else {
            assert!(other.written < other.writing, "a write ends once");
            other.written += 1;
        }
    }

    fn on_peer_gone<P: Port>(&mut self, _: Nanos, _: &mut P, peer: PeerId, why: PeerError) {
        self.fail(format!("peer {} is gone: {why}", peer.0));
    }

    fn on_idle<P: Port>(&mut self, _: Nanos, _: &mut P) {}

    fn deadline(&self) -> Option<Nanos> {
        None
    }
}

/// Does what one process does in one round.
fn step(shm: &mut Shm, process: &mut Process, is_calm: bool, noise: &mut Noise) {
    for _ in 0..[1, 2, 40][noise.below(3) as usize] {
        shm.poll(shm.now(), process, 1 + noise.below(4) as usize);
    }
    process.handed = shm.stats().chunks_handed;
    for (index, with) in process.others.iter_mut().enumerate() {
        if shm.peers.get(with.peer).is_some_and(|peer| peer.gone.is_some()) {
            continue;
        }
        if with.owed > 0 && noise.below(3) == 0 {
            emit(shm, with, Packet::Credit, &[]);
        }
        if with.reads.len() as u64 == with.asked
            && let Some(claims) = with.claims.take()
        {
            shm.close_claims(claims);
        }
        if with.wants_bulk(is_calm) {
            ask(shm, with, index);
        }
        answer(shm, with, index);
        if with.sent < MESSAGES + with.asked && noise.below(3) == 0 {
            let len = [0, 8, 100, 700, 3_000, 30_000][noise.below(6) as usize];
            let payload = noise.bytes(len);
            transmit(shm, with, put(0, fnv1a(&payload)), &payload);
        }
    }
}

/// Takes part in what the peer has asked for.
fn answer(shm: &mut Shm, with: &mut Exchange, index: usize) {
    while let Some((claims, to)) = with.wanted.pop_front() {
        let token = Token(index as u64 * 2 + 1);
        with.writing += 1;
        shm.write_shared(with.peer, claims, region_of(&with.source), at(to), token);
    }
}

fn transmit(shm: &mut Shm, with: &mut Exchange, packet: Packet, payload: &[u8]) {
    let slots = put_slots(payload.len());
    if with.credits >= slots {
        with.credits -= slots;
        with.sent += 1;
        emit(shm, with, packet, payload);
    }
}

/// Sends a packet with its number, and the credits that are owed.
fn emit(shm: &mut Shm, with: &mut Exchange, packet: Packet, payload: &[u8]) {
    let credits = Credits { data: std::mem::take(&mut with.owed), control: 0 };
    let head = packet.emit(with.next_out, credits, payload.len() as u32);
    with.next_out = with.next_out.next();
    shm.transmit(with.peer, &head, region_of(payload), Token(0));
}

/// Opens chunk claims for a transfer from a peer, says so, and takes part in it.
fn ask(shm: &mut Shm, with: &mut Exchange, index: usize) {
    if with.credits < put_slots(0) {
        return;
    }
    let Some(claims) = shm.open_claims(with.peer, ClaimsStart::Used) else { return };
    with.claims = Some(claims);
    with.asked += 1;
    with.target.clear();
    let to = with.target.region();
    let Packet::Put(wanted) = put(to.addr.0, u64::from(claims.0.get())) else { return };
    let wanted = Packet::Put(Put { pt_index: WANTED, ..wanted });
    transmit(shm, with, wanted, &[]);
    // The peer's are the same, and in this process too.
    let from = region_of(&with.source).addr;
    shm.read_shared(with.peer, claims, at(from), to, Token(index as u64 * 2));
}

/// What a trial is, beside what is written over in it.
#[derive(Clone, Copy, Debug)]
struct Kind {
    processes: usize,
    bulk_bytes: usize,
    /// Each finds the others in the library when it looks.
    is_near: bool,
}

impl Kind {
    fn draw(noise: &mut Noise) -> Kind {
        Kind {
            processes: 2 + noise.below(2) as usize,
            bulk_bytes: BULK_BYTES[noise.below(4) as usize],
            is_near: noise.below(4) > 0,
        }
    }

    /// The time of a round.
    fn round(self, round: u64) -> Nanos {
        if self.is_near && round < NEAR_ROUNDS { NEAR_ROUND } else { ROUND }
    }
}

type All = Vec<(Option<Shm>, Process)>;

fn open(kind: Kind) -> All {
    let config = Config {
        senders_max: 4,
        slots_max: 16_384,
        sleeps: true,
        warn: Warn(|_| {}),
        ..Config::default()
    };
    let mut rails: Vec<Shm> =
        (0..kind.processes).map(|_| Shm::open(config.clone()).unwrap()).collect();
    let addresses: Vec<_> = rails.iter().map(Shm::address).collect();
    let mut all = Vec::new();
    for (me, mut shm) in rails.drain(..).enumerate() {
        let mut process = Process::default();
        for address in addresses.iter().enumerate().filter(|(at, _)| *at != me) {
            let peer = shm.peer(address.1).unwrap();
            let credits = u32::from(grant_of(&mut shm, peer).data_slots);
            process.others.push(Exchange::new(peer, credits, kind.bulk_bytes));
        }
        all.push((Some(shm), process));
    }
    all
}

/// What is known of a trial that went as it should.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// Somebody was told of an error.
    failed: bool,
    /// Chunks that were handed over.
    handed: u64,
}

fn trial(seed: u64) -> Result<Told, String> {
    let mut noise = Noise(seed);
    let kind = Kind::draw(&mut noise);
    // Half of the trials are about handing over; one of eight is left alone.
    let from: &[Place] = if noise.below(2) == 0 { &OF_HANDED } else { &PLACES };
    let places: Vec<Place> =
        (0..noise.below(8).min(3)).map(|_| from[noise.below(from.len() as u64) as usize]).collect();
    trial_at(&places, kind, noise)
}

/// One in which these places are written over, in rounds that are drawn.
fn trial_at(places: &[Place], kind: Kind, mut noise: Noise) -> Result<Told, String> {
    let mut all = open(kind);
    let mut rounds: Vec<(u64, Place)> =
        places.iter().map(|&place| (noise.below(TAMPERED_ROUNDS), place)).collect();
    rounds.sort_by_key(|&(round, _)| round);
    for round in 0..ROUNDS_MAX {
        advance_clock(kind.round(round));
        rounds.retain(|&(at, place)| {
            let (shm, process) = &all[noise.below(all.len() as u64) as usize];
            let is_done = at <= round
                && shm.as_ref().is_none_or(|shm| tamper(shm, process, place, &mut noise));
            !is_done && round < TAMPERED_ROUNDS_MAX
        });
        for at in 0..all.len() {
            if kind.is_near {
                show_at_work(&all, at, true);
            }
            step_of(&mut all[at], rounds.is_empty(), &mut noise);
            if kind.is_near {
                show_at_work(&all, at, false);
            }
        }
        if all.iter().all(|(_, process)| process.has_ended()) {
            return judge(&all, places);
        }
    }
    Err(format!("somebody waits for ever after {rounds:?}: {:#?}", states(&all)))
}

/// A step, after which a program that was told of an error ends.
fn step_of((rail, process): &mut (Option<Shm>, Process), is_calm: bool, noise: &mut Noise) {
    let Some(shm) = rail else { return };
    step(shm, process, is_calm, noise);
    if process.error.is_some() {
        *rail = None;
    }
}

/// Whether all but one are seen in the library.
fn show_at_work(all: &All, but: usize, are_there: bool) {
    let others = all.iter().enumerate().filter(|(at, _)| *at != but);
    for shm in others.filter_map(|(_, (rail, _))| rail.as_ref()) {
        if are_there {
            looks::note_work(shm.segment.look());
        } else {
            shm.note_look();
        }
    }
}

fn states(all: &All) -> Vec<String> {
    let state = |with: &Exchange| {
        let Exchange { sent, received, credits, owed, asked, writing, written, .. } = with;
        format!(
            "sent {sent}, received {received}, credits {credits}, owed {owed}, asked {asked}, \
             writing {writing}, written {written}, {:?}",
            with.reads
        )
    };
    let of = |(rail, process): &(Option<Shm>, Process)| {
        let others: Vec<_> = process.others.iter().map(state).collect();
        format!("{:?} {others:?} {:?}", process.error, rail.as_ref().map(Shm::stats))
    };
    all.iter().map(of).collect()
}

/// What is known of a trial, or what is not as it should be.
fn judge(all: &All, places: &[Place]) -> Result<Told, String> {
    let exchanges = || all.iter().flat_map(|(_, process)| &process.others);
    let failed = all.iter().any(|(_, process)| process.error.is_some())
        || exchanges().any(|with| with.reads.iter().any(Result::is_err));
    if failed && places.iter().all(|place| place.is_a_hint()) {
        return Err(format!("an error without a cause: {:#?}", states(all)));
    }
    if exchanges().any(|with| !with.target.has_margins()) {
        return Err(format!("something was written beside a destination: {places:?}"));
    }
    for (_, process) in all {
        if process.wrong && !places.iter().any(|place| place.changes_payloads()) {
            return Err(format!("a payload is wrong: {places:?}"));
        }
        let may_be_faked = places.iter().any(|place| place.changes_transfers());
        let is_last = |which: &usize| *which as u64 + 1 == BULKS;
        if !process.faked.is_empty() && !may_be_faked || process.faked.iter().any(is_last) {
            return Err(format!("a transfer is not whole: {places:?} {:?}", process.faked));
        }
    }
    Ok(Told { failed, handed: all.iter().map(|(_, process)| process.handed).sum() })
}

#[test]
fn whoever_writes_over_shared_memory_leaves_nobody_waiting() {
    if !reads_work() {
        return;
    }
    let one = std::env::var(SEED).ok().map(|seed| seed.parse::<u64>().unwrap());
    let count = std::env::var(SEEDS).map_or(200, |count| count.parse().unwrap());
    let seeds = one.map_or(0..count, |seed| seed..seed + 1);
    let (mut failed, mut near, mut handed, mut bad) = (0, 0, 0, Vec::new());
    for seed in seeds.clone() {
        match trial(seed) {
            Ok(told) => {
                failed += u64::from(told.failed);
                near += u64::from(told.handed > 0);
                handed += told.handed;
            }
            Err(what) => bad.push(format!(
                "{what}\nreplay: {SEED}={seed} cargo test -p sluice-rail --lib \
                 whoever_writes_over_shared_memory"
            )),
        }
    }
    println!("{failed} trials failed, {near} handed {handed} chunks over");
    assert!(bad.is_empty(), "{} trials:\n{}", bad.len(), bad.join("\n"));
    let trials = seeds.end - seeds.start;
    assert!(one.is_some() || failed > trials / 10, "most errors were never told: {failed}");
    assert!(one.is_some() || near > trials / 10, "hardly any chunk was handed over: {handed}");
}

/// One word of chunk claims, again and again.
#[test]
fn whoever_writes_over_claims_neither_stalls_nor_fakes_a_transfer() {
    if !reads_work() {
        return;
    }
    for seed in 0..400 {
        let mut noise = Noise(seed);
        let kind = Kind { processes: 2, ..Kind::draw(&mut noise) };
        if let Err(what) = trial_at(&[Place::ChunkClaims], kind, noise) {
            panic!("seed {seed}: {what}");
        }
    }
}
