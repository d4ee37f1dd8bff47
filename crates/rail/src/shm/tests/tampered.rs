//! Shared memory that somebody writes over while processes exchange messages: each
//! exchange is completed, or ends with an error, and nobody waits for ever.
//!
//! All of a trial follows from its seed, time included. What stands in a packet
//! behind its stamp is left alone: a packet that is forged whole cannot be told
//! from a true one (`garbage` forges them, and asks for less).

use super::super::card::CARD_BYTES;
use super::super::chunk_claims::parts;
use super::super::segment::{ENTRY_CARD_AT, Segment};
use super::super::{Config, Shm, Warn};
use super::child::put_slots;
use super::reads::reads_work;
use super::{Noise, addr_of, advance_clock, at, grant_of, put, region_of};
use crate::hash::fnv1a;
use sluice_link::{
    ClaimsId, ClaimsStart, Machine, Opened, PeerError, Port, RailError, SharedCopy, Token,
    Transport,
};
use sluice_wire::{Addr, Credits, Nanos, Packet, PacketSeq, Parsed, PeerId, PtIndex, Put, Region};
use std::num::NonZeroU32;
use std::sync::atomic::Ordering;

/// Messages from each to each other.
const MESSAGES: u64 = 12;
/// After which of them the receiver asks for a transfer that both sides copy.
const BULK_AFTER: u64 = 4;
const BULK_BYTES: usize = 2 << 20;
/// What the bytes of every transfer follow from.
const SOURCE: u64 = 77;
/// What says where bytes are wanted has this portal table index.
const WANTED: PtIndex = PtIndex(1);
/// Virtual time of a round, and how many rounds an exchange may take: two seconds.
const ROUND: Nanos = Nanos(250_000);
const ROUNDS_MAX: u64 = 8_000;
/// In which rounds somebody writes.
const TAMPERED_ROUNDS: u64 = 40;
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
    target: Vec<u8>,
    /// The chunk claims of the transfer to this process.
    claims: Option<ClaimsId>,
    wanted: Option<(ClaimsId, Addr)>,
    read: Option<Result<(), RailError>>,
    written: bool,
}

impl Exchange {
    fn is_over(&self) -> bool {
        self.sent == MESSAGES + 1
            && self.received == MESSAGES + 1
            && self.credits == self.credits_max
            && self.owed == 0
            && self.read.is_some()
            && self.written
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
        let _ = port.copy_payload(0, addr_of(&mut payload), parsed.payload_len);
        with.owed += put_slots(payload.len()) as u16;
        with.received += 1;
        if put.pt_index == WANTED {
            let claims = NonZeroU32::new(put.hdr_data as u32).map(ClaimsId);
            with.wanted = claims.map(|claims| (claims, Addr(put.match_bits.0)));
        } else {
            self.wrong |= fnv1a(&payload) != put.hdr_data;
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
            assert!(other.read.is_none(), "a read ends once");
            other.read = Some(outcome);
        } else {
            assert!(!other.written, "a write ends once");
            other.written = true;
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
fn step(shm: &mut Shm, process: &mut Process, noise: &mut Noise) {
    for _ in 0..[1, 2, 40][noise.below(3) as usize] {
        shm.poll(shm.now(), process, 1 + noise.below(4) as usize);
    }
    for (index, with) in process.others.iter_mut().enumerate() {
        if shm.peers.get(with.peer).is_some_and(|peer| peer.gone.is_some()) {
            continue;
        }
        if with.owed > 0 && noise.below(3) == 0 {
            emit(shm, with, Packet::Credit, &[]);
        }
        if with.received > BULK_AFTER && with.claims.is_none() {
            ask(shm, with, index);
        }
        if let Some((claims, to)) = with.wanted.take() {
            let token = Token(index as u64 * 2 + 1);
            shm.write_shared(with.peer, claims, region_of(&with.source), at(to), token);
        }
        if with.sent < MESSAGES + u64::from(with.claims.is_some()) && noise.below(3) == 0 {
            let len = [0, 8, 100, 700][noise.below(4) as usize];
            let payload = noise.bytes(len);
            transmit(shm, with, put(0, fnv1a(&payload)), &payload);
        }
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
    let to = Region { addr: addr_of(&mut with.target), len: BULK_BYTES as u64 };
    let Packet::Put(wanted) = put(to.addr.0, u64::from(claims.0.get())) else { return };
    let wanted = Packet::Put(Put { pt_index: WANTED, ..wanted });
    transmit(shm, with, wanted, &[]);
    // The peer's are the same, and in this process too.
    let from = region_of(&with.source).addr;
    shm.read_shared(with.peer, claims, at(from), to, Token(index as u64 * 2));
}

/// Where somebody writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Header,
    EntryClaims,
    Closed,
    Tail,
    Bell,
    ChunkClaims,
    EntryClaim,
    Address,
    Intent,
    Unused,
    Stamp,
}

const PLACES: [Place; 11] = [
    Place::Header,
    Place::EntryClaims,
    Place::Closed,
    Place::Tail,
    Place::Bell,
    Place::ChunkClaims,
    Place::EntryClaim,
    Place::Address,
    Place::Intent,
    Place::Unused,
    Place::Stamp,
];

/// Writes over one word of a process's mailbox. False if there is nothing of the kind
/// now.
fn tamper(shm: &Shm, process: &Process, place: Place, noise: &mut Noise) -> bool {
    let entry = Segment::entry_offset(noise.below(4) as usize);
    let slots = u64::from(shm.layout().ring_slots);
    let ahead = shm.reader.head() + noise.below(20);
    let at = match place {
        Place::Header => noise.below(16) as usize * 8,
        Place::EntryClaims => 128,
        Place::Closed => 192,
        Place::Tail => Segment::tail_offset(),
        Place::Bell => 384,
        // The claims, or the peer's record.
        Place::ChunkClaims => {
            let under_way = process.others.iter().filter(|with| with.read.is_none());
            let mut open = under_way.filter_map(|with| parts(with.claims?));
            let Some((place, _)) = open.next() else { return false };
            Segment::claims_line_offset(place) + noise.below(2) as usize * 8
        }
        Place::EntryClaim => entry,
        Place::Address => entry + ENTRY_CARD_AT + noise.below(CARD_BYTES as u64 / 8) as usize * 8,
        Place::Intent => entry + 128,
        Place::Unused => [400, 448, 1024, 4032][noise.below(4) as usize],
        Place::Stamp => shm.segment.ring_offset() + (ahead & (slots - 1)) as usize * 64,
    };
    let word = shm.segment.word_at(at);
    let now = word.load(Ordering::Relaxed);
    let any = noise.next();
    let value = match noise.below(8) {
        0 => 0,
        1 => u64::MAX,
        2 => now.wrapping_add(1 + noise.below(30)),
        3 => now.wrapping_sub(1 + noise.below(30)),
        4 => now ^ 1 << noise.below(64),
        5 => now.wrapping_add(noise.below(2 * slots)),
        6 => noise.below(4),
        _ => any,
    };
    // Of a slot only the stamp and the writer.
    let mask = if place == Place::Stamp { 0xffff_ffff_ffff } else { u64::MAX };
    word.store(now & !mask | value & mask, Ordering::Relaxed);
    true
}

fn open(count: usize) -> Vec<(Option<Shm>, Process)> {
    let config = Config {
        senders_max: 4,
        slots_max: 4096,
        sleeps: true,
        warn: Warn(|_| {}),
        ..Config::default()
    };
    let mut rails: Vec<Shm> = (0..count).map(|_| Shm::open(config.clone()).unwrap()).collect();
    let addresses: Vec<_> = rails.iter().map(Shm::address).collect();
    let mut all = Vec::new();
    for (me, mut shm) in rails.drain(..).enumerate() {
        let mut process = Process::default();
        for address in addresses.iter().enumerate().filter(|(at, _)| *at != me) {
            let peer = shm.peer(address.1).unwrap();
            let credits = u32::from(grant_of(&mut shm, peer).data_slots);
            process.others.push(Exchange {
                peer,
                sent: 0,
                received: 0,
                credits,
                credits_max: credits,
                owed: 0,
                next_in: PacketSeq(0),
                next_out: PacketSeq(0),
                source: Noise(SOURCE).bytes(BULK_BYTES),
                target: vec![0; BULK_BYTES],
                claims: None,
                wanted: None,
                read: None,
                written: false,
            });
        }
        all.push((Some(shm), process));
    }
    all
}

/// One trial: whether somebody was told of an error, or what is not as it should be.
fn trial(seed: u64) -> Result<bool, String> {
    let mut noise = Noise(seed);
    let count = 2 + noise.below(2) as usize;
    // One trial of eight is left alone.
    let places: Vec<Place> = (0..noise.below(8).min(3))
        .map(|_| PLACES[noise.below(PLACES.len() as u64) as usize])
        .collect();
    trial_at(&places, count, noise)
}

/// One in which these places are written over, in rounds that are drawn.
fn trial_at(places: &[Place], count: usize, mut noise: Noise) -> Result<bool, String> {
    let mut all = open(count);
    let mut rounds: Vec<(u64, Place)> =
        places.iter().map(|&place| (noise.below(TAMPERED_ROUNDS), place)).collect();
    rounds.sort_by_key(|&(round, _)| round);
    for round in 0..ROUNDS_MAX {
        advance_clock(ROUND);
        rounds.retain(|&(at, place)| {
            let (shm, process) = &all[noise.below(all.len() as u64) as usize];
            let is_done = at <= round
                && shm.as_ref().is_none_or(|shm| tamper(shm, process, place, &mut noise));
            !is_done
        });
        for (rail, process) in &mut all {
            if let Some(shm) = rail {
                step(shm, process, &mut noise);
                // A program that is told of an error ends.
                if process.error.is_some() {
                    *rail = None;
                }
            }
        }
        if all.iter().all(|(_, process)| process.has_ended()) {
            return judge(&all, places);
        }
    }
    let states: Vec<String> = all
        .iter()
        .map(|(rail, process)| {
            let others: Vec<_> = process
                .others
                .iter()
                .map(|with| {
                    (with.sent, with.received, with.credits, with.owed, with.read, with.written)
                })
                .collect();
            format!("{:?} {others:?} {:?}", process.error, rail.as_ref().map(Shm::stats))
        })
        .collect();
    Err(format!("somebody waits for ever after {rounds:?}: {states:#?}"))
}

/// Whether somebody was told of an error.
fn judge(all: &[(Option<Shm>, Process)], places: &[Place]) -> Result<bool, String> {
    let failed = all.iter().any(|(_, process)| process.error.is_some());
    if failed && places.iter().all(|&place| place == Place::Unused) {
        let errors: Vec<_> = all.iter().map(|(_, process)| &process.error).collect();
        return Err(format!("an error without a cause: {errors:?}"));
    }
    for (_, process) in all {
        // Two writers whom an overwritten tail sends to the same slots write over
        // each other's bytes.
        if process.wrong && !places.iter().any(|place| matches!(place, Place::Tail | Place::Stamp))
        {
            return Err("a payload is wrong".to_owned());
        }
        for with in &process.others {
            let is_whole = with.target == with.source;
            if with.read == Some(Ok(())) && !is_whole {
                return Err(format!("a transfer is not whole: {places:?}"));
            }
        }
    }
    Ok(failed)
}

#[test]
fn whoever_writes_over_shared_memory_leaves_nobody_waiting() {
    if !reads_work() {
        return;
    }
    let one = std::env::var(SEED).ok().map(|seed| seed.parse::<u64>().unwrap());
    let count = std::env::var(SEEDS).map_or(200, |count| count.parse().unwrap());
    let seeds = one.map_or(0..count, |seed| seed..seed + 1);
    let (mut failed, mut bad) = (0, Vec::new());
    for seed in seeds.clone() {
        match trial(seed) {
            Ok(told) => failed += u32::from(told),
            Err(what) => bad.push(format!(
                "{what}\nreplay: {SEED}={seed} cargo test -p sluice-rail --lib \
                 whoever_writes_over_shared_memory"
            )),
        }
    }
    assert!(bad.is_empty(), "{} trials:\n{}", bad.len(), bad.join("\n"));
    assert!(one.is_some() || failed > 20, "most errors were never told: {failed}");
}

/// One word of chunk claims, again and again.
#[test]
fn whoever_writes_over_claims_neither_stalls_nor_fakes_a_transfer() {
    if !reads_work() {
        return;
    }
    for seed in 0..400 {
        if let Err(what) = trial_at(&[Place::ChunkClaims], 2, Noise(seed)) {
            panic!("seed {seed}: {what}");
        }
    }
}
