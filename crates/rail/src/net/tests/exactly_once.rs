//! Whatever the network does, in turn and at once: everything arrives exactly once.

use super::failures::{BRISK, Pair, pattern, payload};
use super::relay::{Course, Cut};
use super::{Chance, region_mut};
use sluice_link::{Remote, RemoteMemory, Rights, Token};
use std::time::Instant;

/// What is under way in the loop below.
struct Move {
    token: u64,
    is_write: bool,
    by_a: bool,
    there: Vec<u8>,
    here: Vec<u8>,
    key: sluice_wire::RemoteKey,
}

/// Packets, reads and writes both ways, while relays do what they can.
fn go_through_faults(seed: u64) {
    eprintln!("seed {seed}");
    let mut chance = Chance(seed);
    let devices = 1 + chance.below(4) as u8;
    let mut pair = Pair::met(devices, BRISK);
    let (to_a, to_b) = (pair.to_a, pair.to_b);
    let mut moves: Vec<Move> = Vec::new();
    let (mut sent, mut ended) = ([0u32; 2], 0);
    for step in 0..1500 {
        match chance.below(100) {
            0..40 => {
                for (by, next) in sent.iter_mut().enumerate() {
                    for _ in 0..chance.below(4) {
                        let seq = *next;
                        *next += 1;
                        match by {
                            0 => pair.a.send(to_b, seq, &payload(seq)),
                            _ => pair.b.send(to_a, seq, &payload(seq)),
                        }
                    }
                }
            }
            40..50 if moves.len() < 8 => {
                let (len, is_write) = (1 + chance.below(300_000) as usize, chance.below(2) == 0);
                let by_a = chance.below(2) == 0;
                let token = step;
                let (mut here, mut there) = (vec![0; len], vec![0; len]);
                if is_write { &mut here } else { &mut there }.copy_from_slice(&pattern(len, step));
                let (here_at, there_at) = (region_mut(&mut here), region_mut(&mut there));
                let rights = if is_write { Rights::WRITE } else { Rights::READ };
                let Pair { a, b, .. } = &mut pair;
                let (own, peer, other, back) =
                    if by_a { (a, to_b, b, to_a) } else { (b, to_a, a, to_b) };
                let key = other.world.expose(back, there_at, rights);
                if is_write {
                    own.world.write_remote(peer, here_at, Remote::whole(key), Token(token));
                } else {
                    own.world.read_remote(peer, Remote::whole(key), here_at, Token(token));
                }
                moves.push(Move { token, is_write, by_a, there, here, key });
            }
            50..54 => {
                let at = chance.below(pair.relays.len() as u64) as usize;
                let how = if chance.below(2) == 0 { Cut::Fin } else { Cut::Rst };
                pair.relays[at].cut(how);
            }
            54..58 => {
                let at = chance.below(pair.relays.len() as u64) as usize;
                pair.relays[at].course = match chance.below(5) {
                    0 => Course::Hold,
                    1 => Course::Slow(1 + chance.below(5000) as usize),
                    2 => Course::Slam,
                    _ => Course::Pass,
                };
            }
            58..60 => {
                let at = chance.below(pair.relays.len() as u64) as usize;
                pair.relays[at].left = (chance.below(2) == 0).then(|| chance.below(100_000));
            }
            _ => pair.poll(),
        }
        ended += end_moves(&mut pair, &mut moves);
    }
    for relay in &mut pair.relays {
        (relay.course, relay.left) = (Course::Pass, None);
    }
    let begin = Instant::now();
    while !moves.is_empty()
        || pair.b.machine.packets.len() < sent[0] as usize
        || pair.a.machine.packets.len() < sent[1] as usize
    {
        pair.poll();
        ended += end_moves(&mut pair, &mut moves);
        assert!(
            begin.elapsed() < super::PATIENCE,
            "seed {seed}: {} moves, {ended} ended",
            moves.len()
        );
    }
    for (process, from, count) in [(&pair.b, to_a, sent[0]), (&pair.a, to_b, sent[1])] {
        assert_eq!(process.machine.packets.len(), count as usize, "seed {seed}");
        for (seq, got) in (0..).zip(&process.machine.packets) {
            assert_eq!(*got, (from, seq, payload(seq)), "seed {seed}");
        }
        assert_eq!(process.machine.gone, [], "seed {seed}");
        assert_eq!(process.world.net().unwrap().stats().violations, 0, "seed {seed}");
    }
}

/// Checks the moves that have ended. Says how many.
fn end_moves(pair: &mut Pair, moves: &mut Vec<Move>) -> usize {
    let mut count = 0;
    for by_a in [true, false] {
        let machine = if by_a { &mut pair.a.machine } else { &mut pair.b.machine };
        for (token, how) in std::mem::take(&mut machine.moved) {
            let at = moves.iter().position(|known| (known.token, known.by_a) == (token.0, by_a));
            let ended = moves.swap_remove(at.expect("it ends once"));
            assert_eq!(how, Ok(()), "{token:?}");
            assert!(ended.here == ended.there && ended.here == pattern(ended.here.len(), token.0));
            let _ = ended.is_write;
            let (other, peer) =
                if by_a { (&mut pair.b, pair.to_a) } else { (&mut pair.a, pair.to_b) };
            other.world.revoke(peer, ended.key);
            count += 1;
        }
    }
    count
}

#[test]
fn everything_arrives_exactly_once_whatever_the_network_does() {
    for seed in 0..12 {
        go_through_faults(seed);
    }
}
