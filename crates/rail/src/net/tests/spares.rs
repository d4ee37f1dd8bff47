//! Rails that are opened only when they are needed.

use super::failures::{BRISK, HOUR_NS, Pair, config, pattern, payload};
use super::relay::Cut;
use super::{Process, region, region_mut};
use crate::net::NetConfig;
use sluice_link::{Remote, RemoteMemory, Rights, Token};
use sluice_multirail::Timing;
use std::time::Instant;

fn conns(process: &Process) -> usize {
    let net = process.world.net().unwrap();
    net.active.iter().map(|&peer| net.conn_count(peer)).sum()
}

fn opened(pair: &Pair) -> [usize; 2] {
    [&pair.a, &pair.b].map(conns)
}

#[test]
fn rails_are_opened_when_there_is_something_to_stripe() {
    // However busy the machine is, nobody is taken for silent.
    let timing = Timing { suspect_alone_ns: HOUR_NS, ..BRISK };
    let mut pair = Pair::by_one_rail(config(4, timing));
    let (to_a, to_b) = (pair.to_a, pair.to_b);
    let there = pattern(4 << 20, 9);
    let key = pair.b.world.expose(to_a, region(&there), Rights::READ);
    for seq in 0..200 {
        pair.a.send(to_b, seq, &payload(seq));
        pair.b.send(to_a, seq, &payload(seq));
    }
    let mut here = vec![0u8; there.len()];
    let short = region_mut(&mut here[..64 << 10]);
    pair.a.world.read_remote(to_b, Remote::whole(key), short, Token(1));
    pair.until("packets and a short read", |pair| {
        let all = [&pair.a, &pair.b];
        all.iter().all(|process| process.machine.packets.len() == 200)
            && !pair.a.machine.moved.is_empty()
    });
    assert_eq!(opened(&pair), [1, 1], "nothing was to be striped");
    pair.a.machine.moved.clear();
    pair.a.world.read_remote(to_b, Remote::whole(key), region_mut(&mut here), Token(2));
    pair.until("all rails and the read", |pair| {
        opened(pair) == [4, 4] && !pair.a.machine.moved.is_empty()
    });
    assert!(here == there);
    pair.check_packets(200);
}

#[test]
fn when_the_only_open_rail_is_cut_the_others_are_opened() {
    let timing = NetConfig::with_devices(Vec::new()).timing;
    for how in [Cut::Rst, Cut::Fin] {
        let mut pair = Pair::by_one_rail(config(3, timing));
        let (to_a, to_b) = (pair.to_a, pair.to_b);
        pair.cut(how);
        let begin = Instant::now();
        pair.a.send(to_b, 0, &payload(0));
        pair.b.send(to_a, 0, &payload(0));
        pair.until("the packets", |pair| {
            [&pair.a, &pair.b].iter().all(|process| process.machine.packets.len() == 1)
        });
        println!("{how:?}: back after {:?}", begin.elapsed());
        pair.until("all rails", |pair| opened(pair) == [3, 3]);
        pair.check_packets(1);
    }
}
