//! Puts and gets of every length, from and to every kind of memory.

use super::{PT, Stage, World, entry};
use crate::pair::net::random::Random;
use crate::pair::{open, pattern};
use sluice_portals::{Command, EventKind, Local, MdOptions, MeOptions, MeSpec, NiFail, PtlError};
use sluice_wire::{AckKind, Region};

use EventKind::{Ack, Get, Put, Reply, Send};

/// Lengths around everything that makes a difference: a slot, what travels
/// with its header, a page, a pull, a slice of a bulk move.
const LENGTHS: [usize; 16] =
    [0, 1, 7, 8, 63, 64, 65, 128, 1000, 4095, 4096, 4097, 20_000, 65_536, 300_000, 1_100_003];

pub fn puts_of_every_length_arrive_whole<W: World>(setting: W::Setting) {
    let mut stage = Stage::<W>::open(setting, 2);
    for len in LENGTHS {
        let memory = stage.room(1, len as u64 + 2);
        let inner = Region { addr: memory.addr.offset(1), len: len as u64 };
        let handle = stage.post(1, entry(inner, 7, 1)).unwrap();
        stage.put(0, 1, 7, &pattern(len, 1));
        stage.settle();
        let around = [&[0], &pattern(len, 1)[..], &[0]].concat();
        assert!(stage.bytes(1, memory) == around, "{len} bytes, and nothing else");
        let bytes = len as u64;
        assert_eq!(stage.sent(0), [(Send, bytes, Ok(())), (Ack, bytes, Ok(()))]);
        let events = stage.events(1);
        let [event] = events[..] else { panic!("{events:?}") };
        assert_eq!((event.kind, event.rlength, event.mlength), (Put, bytes, bytes));
        assert_eq!((event.hdr_data, event.match_bits.0, event.user_ptr), (1000 + bytes, 7, 1));
        assert_eq!((event.start, event.pt_index), (inner.addr, PT));
        assert_eq!(event.peer, stage.world.peer(1, 0));
        stage.ni(1).me_unlink(handle).unwrap();
        stage.assert_quiet();
    }
}

pub fn gets_of_every_length_bring_everything<W: World>(setting: W::Setting) {
    let mut stage = Stage::<W>::open(setting, 2);
    for len in LENGTHS {
        let memory = stage.alloc(1, &pattern(len + 3, 2));
        let handle = stage.post(1, entry(memory, 7, 1)).unwrap();
        let around = stage.room(0, len as u64 + 2);
        let inner = Region { addr: around.addr.offset(1), len: len as u64 };
        stage.get_into(0, 1, 7, 3, inner);
        stage.settle();
        let expected = [&[0], &pattern(len + 3, 2)[3..], &[0]].concat();
        assert!(stage.bytes(0, around) == expected, "{len} bytes, and nothing else");
        assert_eq!(stage.sent(0), [(Reply, len as u64, Ok(()))]);
        assert_eq!(stage.received(1), [(Get, len as u64, Ok(()))]);
        stage.ni(1).me_unlink(handle).unwrap();
        stage.assert_quiet();
    }
}

pub fn what_does_not_fit_is_cut<W: World>(setting: W::Setting) {
    for (room, len) in [(40, 60), (40, 3000), (2000, 3000), (70_000, 200_000)] {
        for offset in [0, room / 2, room, room + 1, u64::MAX] {
            let mut stage = Stage::<W>::open(setting, 2);
            let memory = stage.room(1, room + 100);
            let inner = Region { len: room, ..memory };
            stage.post(1, entry(inner, 7, 1));
            let fits = room.saturating_sub(offset);
            let bytes = pattern(len, 1);
            let source = stage.alloc(0, &bytes);
            stage.put_at(0, 1, 7, offset, source, Some(AckKind::Full));
            stage.settle();
            assert_eq!(stage.outcome_of(0, Ack), (fits, Ok(())));
            let event = stage.events(1)[0];
            assert_eq!((event.rlength, event.mlength), (len as u64, fits));
            let mut expected = vec![0; memory.len as usize];
            expected[(room - fits) as usize..room as usize]
                .copy_from_slice(&bytes[..fits as usize]);
            assert!(stage.bytes(1, memory) == expected);
            let into = stage.get(0, 1, 7, offset, len as u64);
            stage.settle();
            assert_eq!(stage.outcome_of(0, Reply), (fits, Ok(())));
            let found = stage.bytes(0, into);
            assert!(found[..fits as usize] == bytes[..fits as usize]);
            assert!(found[fits as usize..].iter().all(|&byte| byte == 0));
            stage.assert_quiet();
        }
    }
}

pub fn memory_in_pieces_is_one<W: World>(setting: W::Setting) {
    const CUTS: [&[u64]; 4] = [&[9000], &[0, 7, 0, 8993], &[63, 1, 4000, 4936], &[3000; 3]];
    for from in CUTS {
        for to in CUTS {
            let mut stage = Stage::<W>::open(setting, 2);
            let bytes = pattern(9000, 1);
            let mut at = 0;
            let mut source = Vec::new();
            for &len in from {
                source.push(stage.alloc(0, &bytes[at..at + len as usize]));
                at += len as usize;
            }
            let memory: Vec<_> = to.iter().map(|&len| stage.room(1, len)).collect();
            let landing: Vec<_> = from.iter().map(|&len| stage.room(0, len)).collect();
            let spec = stage.pieces_entry(1, &memory, 7, 1);
            stage.post(1, spec);
            for (offset, length) in [(0, 9000), (60, 10), (2999, 4003)] {
                let whole = stage.pieces_md(0, &source);
                let target = stage.target(0, 1, 7, offset);
                let from = Local { offset, length, ..whole };
                let (ack, hdr_data, user_ptr) = (Some(AckKind::Full), 0, 1);
                let put = Command::Put { from, ack, target, hdr_data, user_ptr };
                stage.issue(0, &put).unwrap();
                stage.settle();
                assert_eq!(stage.sent(0), [(Send, length, Ok(())), (Ack, length, Ok(()))]);
                let into = Local { offset, length, ..stage.pieces_md(0, &landing) };
                stage.issue(0, &Command::Get { into, target, user_ptr }).unwrap();
                stage.settle();
                assert_eq!(stage.sent(0), [(Reply, length, Ok(()))]);
                assert!(stage.gathered(1, &memory) == bytes);
                assert!(stage.gathered(0, &landing) == bytes);
            }
            stage.assert_quiet();
        }
    }
}

pub fn short_and_long_puts_match_in_order<W: World>(setting: W::Setting) {
    let mut stage = Stage::<W>::open(setting, 2);
    let lengths: Vec<usize> = (0..60).map(|at| [5, 4000, 64, 65, 30_000, 0][at % 6] + at).collect();
    let once = MeOptions { use_once: true, ..open() };
    let mut memory = Vec::new();
    for (at, &len) in lengths.iter().enumerate() {
        let region = stage.room(1, len as u64);
        stage.post(
            1,
            MeSpec {
                options: MeOptions { event_link_disable: true, ..once },
                ..entry(region, 7, at as u64)
            },
        );
        memory.push(region);
    }
    for (at, &len) in lengths.iter().enumerate() {
        stage.put(0, 1, 7, &pattern(len, at));
        if at % 3 == 0 {
            stage.step();
        }
    }
    stage.settle();
    for (at, &len) in lengths.iter().enumerate() {
        assert!(stage.bytes(1, memory[at]) == pattern(len, at), "put {at}");
    }
    let sent = stage.sent(0);
    assert_eq!(sent.len(), 120);
    assert!(sent.iter().all(|event| event.2.is_ok()));
    assert_eq!(stage.received(1).len(), 120, "as many have unlinked themselves");
    stage.assert_quiet();
}

pub fn volatile_memory_is_free_at_once_and_credits_keep_the_order<W: World>(setting: W::Setting) {
    const PUTS: usize = 4000;
    let mut stage = Stage::<W>::open(setting, 2);
    let memory = stage.room(1, 50 * PUTS as u64);
    let managed = MeOptions { manage_local: true, ..open() };
    stage.post(1, crate::pair::entry(memory, 7, managed, 1));
    let md = stage.md(0, MdOptions { volatile: true, ..MdOptions::default() });
    let mut source = stage.room(0, 50);
    let mut expected = Vec::new();
    for at in 0..PUTS {
        if !W::copies_at_once(setting) {
            source = stage.room(0, 50);
        }
        stage.write(0, source, &pattern(50, at));
        expected.extend(pattern(50, at));
        let from = Local { md, offset: source.addr.0, length: 50 };
        let target = stage.target(0, 1, 7, 0);
        let hdr_data = at as u64;
        let put = Command::Put { from, ack: None, target, hdr_data, user_ptr: 1 };
        stage.issue(0, &put).unwrap();
    }
    assert!(stage.ni(0).waiting_now() > 0, "there are not that many credits");
    if W::copies_at_once(setting) {
        stage.write(0, source, &[0xEE; 50]);
    }
    stage.settle();
    assert!(stage.bytes(1, memory) == expected);
    let arrived: Vec<_> = stage.events(1).iter().map(|event| event.hdr_data).collect();
    assert!(arrived.into_iter().eq(0..PUTS as u64));
    assert_eq!(stage.sent(0).len(), PUTS);
    stage.ni(0).md_release(md).unwrap();
    stage.assert_quiet();
}

pub fn an_interface_reaches_itself<W: World>(setting: W::Setting) {
    let mut stage = Stage::<W>::open(setting, 2);
    for len in [0, 30, 5000, 200_000] {
        let memory = stage.room(0, len);
        let handle = stage.post(0, entry(memory, 7, 1)).unwrap();
        stage.put(0, 0, 7, &pattern(len as usize, 4));
        stage.settle();
        let into = stage.get(0, 0, 7, 0, len);
        stage.settle();
        assert!(stage.bytes(0, into) == pattern(len as usize, 4));
        assert_eq!(stage.received(0), [(Put, len, Ok(())), (Get, len, Ok(()))]);
        let sent = [(Send, len, Ok(())), (Ack, len, Ok(())), (Reply, len, Ok(()))];
        assert_eq!(stage.sent(0), sent);
        stage.ni(0).me_unlink(handle).unwrap();
        stage.assert_quiet();
    }
}

pub fn three_move_data_at_once<W: World>(setting: W::Setting) {
    const EACH: u64 = 40;
    let mut stage = Stage::<W>::open(setting, 3);
    let mut draw = Random::new(11);
    // Puts from `from` land in an entry of their own; gets find what is there.
    let mut puts = Vec::new();
    let mut gets = Vec::new();
    for round in 0..EACH {
        for from in 0..3 {
            let to = draw.below(3) as usize;
            let len = *draw.pick(&[3, 64, 100, 2000, 50_000]);
            let bits = round * 10 + from as u64;
            let bytes = pattern(len as usize, bits as usize);
            let once = MeOptions { use_once: true, ..open() };
            if draw.percent(50) {
                let memory = stage.room(to, len);
                stage.post(to, crate::pair::entry(memory, bits, once, 1));
                stage.put(from, to, bits, &bytes);
                puts.push((to, memory, bytes));
            } else {
                let memory = stage.alloc(to, &bytes);
                stage.post(to, crate::pair::entry(memory, bits, once, 1));
                gets.push((from, stage.get(from, to, bits, 0, len), bytes));
            }
            for _ in 0..draw.below(3) {
                stage.step();
            }
        }
    }
    stage.settle();
    for (who, memory, bytes) in puts.iter().chain(&gets) {
        assert!(stage.bytes(*who, *memory) == *bytes);
    }
    let sent: Vec<_> = (0..3).flat_map(|who| stage.sent(who)).collect();
    assert_eq!(sent.len(), 2 * puts.len() + gets.len());
    let received: Vec<_> = (0..3).flat_map(|who| stage.received(who)).collect();
    assert_eq!(received.len(), 2 * (puts.len() + gets.len()));
    assert!(sent.iter().chain(&received).all(|event| event.2.is_ok()));
    stage.assert_quiet();
}

pub fn the_end_of_an_interface_ends_what_it_was_to_answer<W: World>(setting: W::Setting) {
    let mut stage = Stage::<W>::open(setting, 3);
    let memory = [0, 1, 2].map(|who| stage.room(who, 5000));
    for (who, &region) in memory.iter().enumerate() {
        stage.post(who, entry(region, 7, 1));
        // Everybody knows everybody.
        stage.put(who, (who + 1) % 3, 7, b"hello");
        stage.put(who, (who + 2) % 3, 7, b"hello");
    }
    stage.settle();
    for who in 0..3 {
        assert_eq!((stage.sent(who).len(), stage.received(who).len()), (4, 2));
    }
    stage.put(1, 0, 7, b"short");
    stage.put(1, 0, 7, &[1; 5000]);
    stage.get(2, 0, 7, 0, 10);
    stage.get(2, 0, 7, 0, 5000);
    stage.end(0);
    stage.settle();
    let lost = |outcome: &Result<(), NiFail>| matches!(outcome, Err(NiFail::Undeliverable(_)));
    let sent = stage.sent(1);
    assert_eq!(sent.iter().filter(|event| event.0 == Send).count(), 2);
    let acks: Vec<_> = sent.iter().filter(|event| event.0 == Ack).collect();
    assert!(acks.len() == 2 && acks.iter().all(|ack| lost(&ack.2)), "{sent:?}");
    let replies = stage.sent(2);
    assert!(replies.len() == 2 && replies.iter().all(|reply| reply.0 == Reply && lost(&reply.2)));
    // From now on it is known at once; the others go on.
    let region = stage.alloc(1, b"late");
    let target = stage.target(1, 0, 7, 0);
    let (ack, from) = (Some(AckKind::Full), stage.local(1, region));
    let put = Command::Put { from, ack, target, hdr_data: 0, user_ptr: 1 };
    assert!(matches!(stage.issue(1, &put), Ok(()) | Err(PtlError::Peer(_))));
    stage.settle();
    assert!(stage.sent(1).iter().filter(|event| event.0 == Ack).all(|event| lost(&event.2)));
    for (from, to) in [(1, 2), (2, 1)] {
        stage.put(from, to, 7, &pattern(5000, from));
        stage.settle();
        assert!(stage.bytes(to, memory[to]) == pattern(5000, from));
    }
    let all = stage.md(1, MdOptions::default());
    stage.ni(1).md_release(all).unwrap();
    stage.assert_quiet();
}
