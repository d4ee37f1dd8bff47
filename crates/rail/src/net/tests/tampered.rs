//! Somebody between two processes who alters what passes.

use super::failures::{BRISK, Pair, config, pattern, payload};
use super::relay::Alters;
use super::{Chance, region};
use crate::net::NetConfig;
use crate::net::handshake::Security;
use crate::net::take_in::ALTERED_MAX;
use sluice_link::{PeerError, RemoteMemory, Rights};

fn pair(devices: u8, security: Security) -> Pair {
    Pair::with(NetConfig { security, ..config(devices, BRISK) })
}

/// How often both have noticed.
fn altered(pair: &Pair) -> u64 {
    [&pair.a, &pair.b].map(|process| process.world.net().unwrap().stats().altered).iter().sum()
}

/// Whichever byte it is of what is sealed: its length, what it holds, its tag.
#[test]
fn whatever_is_altered_of_what_is_sealed_is_found_and_nothing_is_lost() {
    const ROUNDS: u32 = 40;
    for devices in [1, 2] {
        let mut pair = pair(devices, Security::Encrypt);
        let mut chance = Chance(u64::from(devices));
        let there = pattern(200_000, 3);
        let key = pair.b.world.expose(pair.to_a, region(&there), Rights::READ);
        for round in 0..ROUNDS {
            let before = altered(&pair);
            for relay in &mut pair.relays {
                // Also a single bit of what is not full.
                let (behind, from) = (chance.below(60_000), chance.below(2) as usize);
                let behind = if chance.below(3) == 0 { behind % 50 } else { behind };
                relay.alters = Some(Alters { from, behind, bits: 1 << chance.below(8) });
            }
            let is_whole = pair.exchange(round, key, &there);
            assert!(is_whole, "round {round}: {} were altered", altered(&pair) - before);
        }
        pair.check_packets(ROUNDS);
        assert!(altered(&pair) > u64::from(ROUNDS) / 4, "{} were altered", altered(&pair));
    }
}

/// What is not sealed has a check over the header of each frame.
#[test]
fn a_header_that_is_altered_is_found_and_nothing_is_lost() {
    for security in [Security::Auth, Security::None] {
        let mut pair = pair(1, security);
        let (to_a, to_b) = (pair.to_a, pair.to_b);
        for at in 0..24 {
            // Whoever has connected, both directions are altered: all is quiet, so what comes
            // next is a header.
            for relay in &mut pair.relays {
                relay.alters = Some(Alters { from: at as usize % 2, behind: at, bits: 0x10 });
            }
            pair.a.send(to_b, at as u32, &payload(at as u32));
            pair.b.send(to_a, at as u32, &payload(at as u32));
            pair.until("what was sent", |pair| {
                let count = at as usize + 1;
                pair.a.machine.packets.len() >= count && pair.b.machine.packets.len() >= count
            });
            pair.relays.iter_mut().for_each(|relay| relay.alters = None);
            pair.until("quiet", |pair| {
                let kept = |net: &crate::net::Net, peer| net.met(peer).unwrap().rails.kept();
                let (a, b) = (pair.a.world.net().unwrap(), pair.b.world.net().unwrap());
                kept(a, to_b) == 0 && kept(b, to_a) == 0
            });
        }
        pair.check_packets(24);
        assert!(altered(&pair) >= 12, "{} were altered", altered(&pair));
    }
}

/// Whoever alters all that passes has nobody connect for ever.
#[test]
fn who_alters_everything_ends_it() {
    let mut pair = pair(1, Security::Encrypt);
    let (to_a, to_b) = (pair.to_a, pair.to_b);
    // All but the last times.
    const LEFT: u32 = 3;
    for (process, peer) in [(&mut pair.a, to_b), (&mut pair.b, to_a)] {
        process.world.net_mut().met_mut(peer).unwrap().altered = ALTERED_MAX - LEFT;
    }
    let mut seq = 0;
    pair.until("the end", |pair| {
        let net = pair.a.world.net().unwrap();
        let kept = net.met(to_b).map_or(0, |met| met.rails.kept());
        if kept < 20 {
            pair.a.send(to_b, seq, &[7; 2000]);
            seq += 1;
        }
        for relay in &mut pair.relays {
            // Mostly behind the handshake.
            let from = seq as usize % 2;
            relay.alters.get_or_insert(Alters { from, behind: 3000, bits: 1 });
        }
        !pair.a.machine.gone.is_empty() || !pair.b.machine.gone.is_empty()
    });
    // It is for this reason, of one of the two, and neither sooner nor later.
    let ends = [(&pair.a, to_b), (&pair.b, to_a)].map(|(process, peer)| {
        let stats = process.world.net().unwrap().stats();
        let is_it = process.machine.gone == [(peer, PeerError::Protocol)] && stats.violations == 1;
        assert!(is_it || stats.violations == 0, "{:?}", process.machine.gone);
        let count = stats.altered;
        assert!(if is_it { count == u64::from(LEFT) } else { count < u64::from(LEFT) }, "{count}");
        is_it
    });
    assert!(ends.contains(&true));
}
