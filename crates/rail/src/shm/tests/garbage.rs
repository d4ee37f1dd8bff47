//! Whatever the shared memory holds, a poll returns.

use super::super::card::{Card, Place};
use super::super::ring::stamp;
use super::super::segment::{ENTRY_CARD_AT, Segment};
use super::super::{Config, Shm};
use super::{Noise, put, send};
use sluice_link::{Machine, Opened, PeerError, Port, RailError, Token, Transport};
use sluice_wire::{Nanos, Parsed, PeerId, Region, VERSION};
use std::sync::atomic::Ordering;

/// Copies whatever payload it is told of.
struct Sponge {
    buffer: Vec<u8>,
    packets: u64,
    gone: u64,
}

impl Machine for Sponge {
    fn on_packet<P: Port>(&mut self, _: Nanos, port: &mut P, from: PeerId, packet: &Parsed) {
        self.packets += 1;
        let to = super::addr_of(&mut self.buffer);
        assert!(packet.payload_len as usize <= self.buffer.len(), "bounded by the quotas");
        let _ = port.copy_payload(0, to, packet.payload_len);
        let _ = port.connect(from);
    }
    fn placement(&self, _: PeerId, _: &Parsed) -> Option<Region> {
        panic!("this rail does not ask");
    }

    fn on_connected<P: Port>(&mut self, _: Nanos, _: &mut P, _: PeerId, _: Opened) {}
    fn on_transmitted<P: Port>(&mut self, _: Nanos, _: &mut P, _: Token) {}
    fn on_moved<P: Port>(&mut self, _: Nanos, _: &mut P, _: Token, _: Result<(), RailError>) {}
    fn on_peer_gone<P: Port>(&mut self, _: Nanos, _: &mut P, _: PeerId, _: PeerError) {
        self.gone += 1;
    }
    fn on_idle<P: Port>(&mut self, _: Nanos, _: &mut P) {}
    fn deadline(&self) -> Option<Nanos> {
        None
    }
}

/// A card that is well formed and leads to nobody.
fn forged(noise: &mut Noise, own: &Card) -> Card {
    Card {
        key: noise.bytes(32).try_into().unwrap(),
        pid: 0x7fff_0000 + noise.below(0xffff) as u32,
        place: Place::Memfd { fd: noise.below(100) as u32 },
        ..*own
    }
}

fn scribble(shm: &Shm, noise: &mut Noise, senders_max: u64) {
    let entry = |index: u64| Segment::entry_offset(index as usize);
    let store = |at: usize, value: u64| {
        shm.segment.word_at(at).store(value, Ordering::Relaxed);
    };
    let index = noise.below(senders_max);
    match noise.below(100) {
        // Anything anywhere.
        0..10 => store(noise.below(shm.segment.bytes() as u64 / 8) as usize * 8, noise.next()),
        // The table of writers.
        10..14 => store(entry(index) + noise.below(32) as usize * 8, noise.next()),
        14..20 => {
            let card = forged(noise, &shm.card);
            for (i, chunk) in card.to_bytes().chunks_exact(8).enumerate() {
                let word = u64::from_le_bytes(chunk.try_into().unwrap());
                store(entry(index) + ENTRY_CARD_AT + i * 8, word);
            }
            store(entry(index), noise.below(4));
        }
        // An intent.
        20..24 => store(entry(index) + 128, noise.next()),
        24..30 => store(entry(index) + 128, 0),
        // The tail: a little off, or anywhere.
        30..34 => store(Segment::tail_offset(), shm.reader.head() + noise.below(2000)),
        34 => store(Segment::tail_offset(), noise.next()),
        // A slot near the head, published and more or less well formed.
        _ => {
            let position = shm.reader.head() + noise.below(3);
            let slots = u64::from(shm.layout().ring_slots);
            let at = shm.segment.ring_offset() + (position & (slots - 1)) as usize * 64;
            for i in 1..8 {
                let value = if noise.below(2) == 0 { 0 } else { noise.next() };
                store(at + i * 8, value);
            }
            // Payload lengths around what the quotas allow, and beyond.
            store(
                at + 16,
                [0, 8, 5000, 60_000, 70_000, u64::from(u32::MAX)][noise.below(6) as usize],
            );
            let stamp = u64::from(stamp(position, slots.ilog2()));
            let writer = noise.below(senders_max + 2) << 32;
            let kind = noise.below(8) << 56;
            store(at, stamp | writer | u64::from(VERSION) << 48 | kind);
        }
    }
}

#[test]
fn polling_garbage_neither_panics_nor_hangs() {
    // Senders are given up quickly, so many short runs see more than a long one.
    const SEEDS: u64 = 200;
    const ROUNDS: u64 = 400;
    const SENDERS: u16 = 8;
    let config = Config { senders_max: SENDERS, ..Config::default() };
    let mut machine = Sponge { buffer: vec![0; 128 << 10], packets: 0, gone: 0 };
    for seed in 0..SEEDS {
        let mut noise = Noise(seed);
        let mut shm = Shm::open(config.clone()).unwrap();
        let mut other = Shm::open(config.clone()).unwrap();
        let to = other.peer(&shm.address()).unwrap();
        other.connect(to).unwrap();
        for n in 0..ROUNDS {
            scribble(&shm, &mut noise, u64::from(SENDERS));
            if noise.below(8) == 0 {
                send(&mut other, to, put(n, 0), &[1; 200]);
            }
            for _ in 0..4 {
                shm.poll(shm.now(), &mut machine, 16);
            }
        }
        assert!(shm.stats().violations > 0);
    }
    assert!(machine.packets > SEEDS, "enough was well formed to get through");
    assert!(machine.gone > 0);
}

/// A mailbox whose header was overwritten is not attached to.
#[test]
fn a_damaged_header_is_refused() {
    let mut a = super::open();
    let mut noise = Noise(3);
    for word in 0..6 {
        for _ in 0..20 {
            let b = super::open();
            let value = noise.next() >> noise.below(64);
            let before = b.segment.word_at(word * 8).swap(value, Ordering::Relaxed);
            let peer = a.peer(&b.address()).unwrap();
            let connected = a.connect(peer);
            assert!(connected.is_err() || value == before, "word {word} {value:#x}");
        }
    }
}
