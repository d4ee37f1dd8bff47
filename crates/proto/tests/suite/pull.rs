//! Pulls by chunks: what they cost, who they leave alone, and their ends.

use crate::paced::{Paced, WIRES, Wires};
use crate::world::net::{Mode, layout, roomy};
use crate::world::{World, pattern, recv_from, send_to};
use sluice_link::{Layout, PeerError};
use sluice_proto::{Config, Failure, Refused};
use sluice_wire::{Addr, Credits, List, Packet, PeerId, Region, Reply, Status};
use std::collections::BTreeSet;

const MIB: u64 = 1 << 20;
/// A chunk at most: 256 slots less a header.
const CHUNK: u64 = 16_320;

fn by_gets() -> Mode {
    Mode { can_read: false, payloads: false, ..Mode::default() }
}

/// A mailbox whose reply region holds more than the budget.
fn vast() -> Layout {
    layout(8, 40, 64, 8, 40_000)
}

fn paced(mailbox: Layout, count: usize, mode: Mode, config: Config, wires: Wires) -> Paced {
    Paced::new(World::new(&vec![mailbox; count], mode, config, 1), wires)
}

/// A message of `len` bytes from `from` to `to`, of which nothing is ever looked at.
fn transfer(paced: &mut Paced, from: usize, to: usize, len: u64, context: u64) {
    let bytes = Region { addr: Addr(4096), len };
    let buf = Region { addr: Addr(1 << 40 | context << 32), len };
    paced.world.recv(to, &recv_from(from, buf, context, context)).unwrap();
    paced.world.send(from, &send_to(to, bytes, context, context)).unwrap();
}

/// When a message of `len` bytes is there.
fn time_alone(mailbox: Layout, mode: Mode, wires: Wires, len: u64) -> u64 {
    let mut paced = paced(mailbox, 2, mode, Config::default(), wires);
    transfer(&mut paced, 0, 1, len, 1);
    paced.run();
    paced.end_ns(1, 1)
}

#[test]
fn a_pull_costs_nothing_where_no_sink_is_slow() {
    for mailbox in [roomy(), vast()] {
        for latency_ns in [200, 1_000, 2_000] {
            for len in [MIB, 4 * MIB] {
                let wires = Wires { latency_ns, ..WIRES };
                let whole = time_alone(mailbox, Mode { can_read: true, ..by_gets() }, wires, len);
                let pulled = time_alone(mailbox, by_gets(), wires, len);
                assert!(
                    pulled * 100 <= whole * 102,
                    "{len} bytes at {latency_ns} ns: {pulled} ns by chunks, {whole} ns by one get"
                );
            }
        }
    }
}

/// The fast flow, 10 GB/s, has 16 MiB; the slow sinks take a few hundred MB/s.
#[test]
fn a_fast_flow_hardly_notices_slow_sinks_beside_it() {
    let len = 16 * MIB;
    for mailbox in [roomy(), vast()] {
        let alone = time_alone(mailbox, by_gets(), WIRES, len);
        // Time of a byte in each of so many slow sinks, each of a sender of its own.
        for (sinks, byte_ps) in [(1, 5_000), (1, 40_000), (3, 20_000)] {
            let mut paced = paced(mailbox, 2 + sinks, by_gets(), Config::default(), WIRES);
            let receiver = 1 + sinks;
            for slow in 1..=sinks {
                paced.set_sink(slow, receiver, byte_ps);
                transfer(&mut paced, slow, receiver, 2 * MIB, slow as u64);
            }
            // They are under way when the fast one begins.
            paced.run_until(1_500_000);
            let (began, slow_then) = (paced.now_ns(), paced.got[&(1, receiver)]);
            transfer(&mut paced, 0, receiver, len, 99);
            paced.run_while(|paced| !paced.ends.contains_key(&(receiver, 99)));
            let took = paced.end_ns(receiver, 99) - began;
            assert!(
                alone * 100 >= took * 95,
                "{took} ns beside {sinks} sinks of {byte_ps} ps, {alone} ns alone"
            );
            // Its sink is busy; what it has is seen a chunk at a time.
            let slow_got = paced.got[&(1, receiver)] - slow_then;
            let could = (took * 1000 / byte_ps).saturating_sub(CHUNK);
            assert!(slow_got * 100 >= could * 95, "the slow one got {slow_got} of {could}");
            paced.run();
            for slow in 1..=sinks {
                paced.end_ns(receiver, slow as u64);
            }
        }
    }
}

#[test]
fn three_transfers_get_the_same() {
    let mut paced = paced(roomy(), 4, by_gets(), Config::default(), WIRES);
    for from in 0..3 {
        transfer(&mut paced, from, 3, 4 * MIB, from as u64);
    }
    paced.run_while(|paced| paced.ends.keys().all(|(who, _)| *who != 3));
    for from in 0..3 {
        let got = paced.got[&(from, 3)];
        assert!(got * 100 >= 4 * MIB * 95, "{got} bytes from {from} when the first is done");
    }
    paced.run();
}

/// The budget is what bounds them: three chunks.
#[test]
fn a_sender_of_many_messages_gets_what_a_sender_of_one_gets() {
    let config = Config { pull_bytes_max: 3 * CHUNK, ..Config::default() };
    let wires = Wires { latency_ns: 20_000, ..WIRES };
    let mut paced = paced(roomy(), 3, by_gets(), config, wires);
    for context in 0..4 {
        transfer(&mut paced, 0, 2, MIB, context);
    }
    transfer(&mut paced, 1, 2, MIB, 9);
    paced.run_while(|paced| !paced.ends.contains_key(&(2, 9)));
    let (many, one) = (paced.got[&(0, 2)], paced.got[&(1, 2)]);
    assert!(one == MIB && many * 100 <= one * 115, "{many} bytes of four, {one} of one");
    paced.run();
}

#[test]
fn the_window_shrinks_with_a_slow_sink_and_recovers() {
    let mut paced = paced(vast(), 2, by_gets(), Config::default(), WIRES);
    let peak = |paced: &mut Paced, for_ns: u64| {
        paced.out_peak.clear();
        let until = paced.now_ns() + for_ns;
        paced.run_until(until);
        paced.out_peak.get(&(0, 1)).copied().unwrap_or(0)
    };
    transfer(&mut paced, 0, 1, 64 * MIB, 1);
    peak(&mut paced, 300_000);
    let fast = peak(&mut paced, 300_000);
    // A byte in 10 ns: 100 MB/s.
    paced.set_sink(0, 1, 10_000);
    peak(&mut paced, 4_000_000);
    let slow = peak(&mut paced, 2_000_000);
    paced.set_sink(0, 1, 0);
    peak(&mut paced, 300_000);
    let then = paced.got[&(0, 1)];
    let again = peak(&mut paced, 300_000);
    let rate = (paced.got[&(0, 1)] - then) / 300;
    assert!(fast >= 35_000 && slow <= 5_000 && again >= 35_000, "{fast}, {slow}, {again} bytes");
    assert!(rate >= 9_700, "{rate} MB/s of 10,000 again");
}

#[test]
fn the_budget_is_never_exceeded_and_is_enough_at_any_size() {
    for budget in [0, 1, 100, 5_000, 40_000] {
        let config = Config { pull_bytes_max: budget, ..Config::default() };
        let mut paced = paced(roomy(), 4, by_gets(), config, WIRES);
        for from in 0..3 {
            transfer(&mut paced, from, 3, 4_500 + 20 * budget, from as u64);
        }
        paced.set_sink(1, 3, 3_000);
        loop {
            let out: u64 = (0..3).map(|from| paced.out(from, 3)).sum();
            assert!(out <= budget.max(1), "{out} bytes out of {budget}");
            let before = (paced.now_ns(), paced.got.clone());
            let until = paced.now_ns() + 200;
            paced.run_until(until);
            if (paced.now_ns(), &paced.got) == (before.0, &before.1) {
                paced.run_until(until + 20_000);
                if paced.got == before.1 {
                    break;
                }
            }
        }
        paced.run();
        for from in 0..3 {
            paced.end_ns(3, from);
        }
        let stats = paced.world.processes[3].endpoint.stats();
        assert_eq!((stats.pull_bytes_now, stats.pull_bytes_peak <= budget.max(1)), (0, true));
    }
}

#[test]
fn a_sender_that_is_away_holds_up_nobody_else() {
    let mut paced = paced(roomy(), 3, by_gets(), Config::default(), WIRES);
    for context in 0..20 {
        transfer(&mut paced, 0, 2, MIB, context);
    }
    paced.run_until(2_000);
    paced.away.push(0);
    paced.run_until(100_000);
    let held = paced.out(0, 2);
    transfer(&mut paced, 1, 2, MIB, 99);
    paced.run();
    let region = 8 * CHUNK;
    assert!(held > 0 && held * 3 <= region * 2, "{held} bytes are out at the one that is away");
    paced.end_ns(2, 99);
    paced.away.clear();
    paced.run();
    for context in 0..20 {
        paced.end_ns(2, context);
    }
}

#[test]
fn a_sender_that_dies_in_the_midst_gives_its_room_back() {
    let mut paced = paced(roomy(), 3, by_gets(), Config::default(), WIRES);
    for from in 0..2 {
        transfer(&mut paced, from, 2, 4 * MIB, from as u64);
        transfer(&mut paced, from, 2, 4 * MIB, 10 + from as u64);
    }
    paced.run_until(50_000);
    assert!(paced.out(0, 2) > 0 && paced.out(1, 2) > 0);
    paced.kill(0, 2);
    paced.run();
    let gone = Failure::PeerGone { peer: PeerId(0), why: PeerError::Dead };
    for context in [0, 10] {
        assert_eq!(paced.ends[&(2, context)].1, Err(gone));
    }
    paced.end_ns(2, 1);
    paced.end_ns(2, 11);
    let stats = paced.world.processes[2].endpoint.stats();
    assert_eq!(stats.pull_bytes_now, 0);
    assert_eq!(paced.world.pending(2), Default::default());
}

#[test]
fn a_receive_that_pulls_cannot_be_cancelled() {
    let mut world = World::new(
        &[roomy(); 2],
        Mode { can_read: false, ..Mode::default() },
        Config::default(),
        1,
    );
    let len = 20 * CHUNK;
    let bytes = world.alloc(0, &pattern(1, len));
    let buf = world.alloc_filled(1, len, 0);
    world.recv(1, &recv_from(0, buf, 7, 70)).unwrap();
    world.send(0, &send_to(1, bytes, 7, 10)).unwrap();
    world.deliver(0, 1);
    world.deliver(1, 0);
    assert!(world.processes[1].endpoint.stats().pull_bytes_now > 0);
    assert!(!world.cancel(1, 70), "its message has come");
    world.run();
    assert_eq!(world.only(1).outcome, Ok(()));
    assert_eq!(world.bytes(1, buf), pattern(1, len));
    assert_eq!(world.only(0).outcome, Ok(()));
}

/// The sender's memory is gone from the third chunk on.
#[test]
fn a_refused_chunk_ends_its_message_and_no_other() {
    let mode = Mode { can_read: false, ..Mode::default() };
    let mut world = World::new(&[roomy(); 3], mode, Config::default(), 1);
    let len = 40 * CHUNK;
    let mut bufs = Vec::new();
    for from in 0..2 {
        let bytes = world.alloc(from, &pattern(from as u64, len));
        let buf = world.alloc_filled(2, len, 0);
        world.recv(2, &recv_from(from, buf, 7, from as u64)).unwrap();
        world.send(from, &send_to(2, bytes, 7, 10)).unwrap();
        if from == 0 {
            let rest = Region { addr: bytes.addr.offset(2 * CHUNK), len: len - 2 * CHUNK };
            world.processes[0].port.unmap(rest);
        }
        bufs.push(buf);
    }
    world.run();
    let mut ends = world.ends(2);
    ends.sort_by_key(|(context, _)| *context);
    assert_eq!(ends, [(0, Err(Failure::Fault)), (1, Ok(()))]);
    assert_eq!(world.ends(0), [(10, Err(Failure::Fault))]);
    assert_eq!(world.ends(1), [(10, Ok(()))]);
    assert_eq!(world.bytes(2, bufs[1]), pattern(1, len));
    assert_eq!(world.processes[2].endpoint.stats().pull_bytes_now, 0);
    assert_eq!(world.pending(2), Default::default());
}

/// Nobody who announced as much answers so.
#[test]
fn an_answer_shorter_than_its_chunk_ends_the_message() {
    let mut world = World::pair(Mode { can_read: false, ..Mode::default() });
    let bytes = world.alloc(0, &pattern(1, 9000));
    let buf = world.alloc_filled(1, 9000, 0);
    world.recv(1, &recv_from(0, buf, 7, 70)).unwrap();
    world.send(0, &send_to(1, bytes, 7, 10)).unwrap();
    world.deliver(0, 1);
    let op = world.processes[1].port.net().log.iter().find_map(|(.., packet, _)| match packet {
        Packet::Get(get) => Some(get.op),
        _ => None,
    });
    let reply = Packet::Reply(Reply {
        op: op.unwrap(),
        offset: 0,
        list: List::Priority,
        status: Status::Ok,
    });
    world.forge(0, 1, &reply, 1, Credits::default());
    let why = PeerError::Protocol;
    assert_eq!(world.only(1).outcome, Err(Failure::PeerGone { peer: PeerId(0), why }));
    assert_eq!(world.processes[1].endpoint.stats().pull_bytes_now, 0);
}

/// The death of the sender has not been noticed otherwise, so the cut itself must name it.
#[test]
fn a_chunk_that_is_cut_says_that_its_sender_has_ended() {
    let mut world = World::pair(Mode { can_read: false, ..Mode::default() });
    let bytes = world.alloc(0, &pattern(1, 9000));
    let buf = world.alloc_filled(1, 9000, 0);
    world.recv(1, &recv_from(0, buf, 7, 70)).unwrap();
    world.send(0, &send_to(1, bytes, 7, 10)).unwrap();
    world.processes[1].port.net_mut().cut(1, true);
    world.run();
    let why = PeerError::Dead;
    assert_eq!(world.only(1).outcome, Err(Failure::PeerGone { peer: PeerId(0), why }));
    assert_eq!(world.processes[1].endpoint.stats().pull_bytes_now, 0);
}

/// The key of an announced message, which its gets carry, tells it from all others
/// that are pending, whatever their tags.
#[test]
fn messages_alike_are_fetched_by_their_keys_and_when_none_is_left_a_send_waits() {
    let config = Config { requests_max: 3, ..Config::default() };
    let mode = Mode { can_read: false, ..Mode::default() };
    let mut world = World::new(&[roomy(); 2], mode, config, 1);
    let len = 50_000;
    let mut contents = Vec::new();
    let mut keys = BTreeSet::new();
    for round in 0..4 {
        let mut sends = Vec::new();
        for nth in 0..4 {
            let id = 10 * round + nth;
            let bytes = world.alloc(0, &pattern(id, len));
            sends.push((id, world.send(0, &send_to(1, bytes, 7, id))));
        }
        let refused = sends.pop();
        assert_eq!(refused, Some((10 * round + 3, Err(Refused::Again))), "there is no fourth key");
        assert!(sends.iter().all(|(_, sent)| *sent == Ok(())));
        contents.extend(sends.iter().map(|(id, _)| *id));
        let log = std::mem::take(&mut world.processes[0].port.net_mut().log);
        keys.extend(log.iter().filter_map(|(.., packet, _)| match packet {
            Packet::Put(put) => put.rts.map(|rts| rts.key.0),
            _ => None,
        }));
        assert_eq!(keys.len(), contents.len(), "none is used a second time");
        let bufs: Vec<_> = sends
            .iter()
            .map(|(id, _)| {
                let buf = world.alloc_filled(1, len, 0);
                world.recv(1, &recv_from(0, buf, 7, *id)).unwrap();
                buf
            })
            .collect();
        world.run();
        assert_eq!((world.ends(0).len(), world.ends(1).len()), (3, 3));
        for ((id, _), buf) in sends.iter().zip(bufs) {
            assert_eq!(world.bytes(1, buf), pattern(*id, len), "message {id}");
        }
    }
}

/// A rail that has a header first asks where the payload goes, and puts it there.
#[test]
fn chunks_are_put_where_they_are_wanted() {
    let mode = Mode { can_read: false, placing_percent: 100, ..Mode::default() };
    let mut world = World::pair(mode);
    let len = 5 * CHUNK + 7;
    let bytes = world.alloc(0, &pattern(1, len));
    let buf = world.alloc_filled(1, len, 0);
    world.recv(1, &recv_from(0, buf, 7, 70)).unwrap();
    world.send(0, &send_to(1, bytes, 7, 1)).unwrap();
    world.run();
    assert_eq!(world.only(1).outcome, Ok(()));
    assert_eq!(world.bytes(1, buf), pattern(1, len));
    assert!(world.processes[0].port.net().placed >= 6, "each of its chunks");
}
