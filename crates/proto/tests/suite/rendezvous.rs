//! Messages that are announced and fetched, told as they happen.

use crate::world::net::{Event, Mode, layout, roomy};
use crate::world::{World, pattern, recv_from, send_to};
use sluice_proto::{Config, Failure, Probe, ProbeAction, Space};
use sluice_wire::{
    Addr, Credits, MatchBits, Nanos, Packet, PeerId, PtIndex, Put, Region, RemoteKey, Rts,
};

const LEN: u64 = 50_000;

fn by_gets() -> Mode {
    Mode { can_read: false, ..Mode::default() }
}

fn without_bytes() -> Mode {
    Mode { payloads: false, ..Mode::default() }
}

#[test]
fn a_long_message_is_read_directly_where_the_rail_can() {
    let mut world = World::pair(Mode::default());
    let bytes = world.alloc(0, &pattern(1, LEN));
    let buf = world.alloc(1, &vec![0; LEN as usize]);
    world.send(0, &send_to(1, bytes, 7, 10)).unwrap();
    world.deliver(0, 1);
    assert_eq!(world.processes[1].port.net().lent(1), (0, 0), "only the header waits");
    world.recv(1, &recv_from(0, buf, 7, 70)).unwrap();
    assert_eq!((world.pop(0), world.pop(1)), (None, None));
    world.run();
    assert_eq!(world.only(1).outcome, Ok(()));
    assert_eq!(world.only(0).outcome, Ok(()));
    assert_eq!(world.bytes(1, buf), pattern(1, LEN));
    assert_eq!(world.sent_packets(0, 1)[..1], ["rts"]);
}

#[test]
fn without_direct_reads_it_comes_in_replies_that_fit_the_reply_region() {
    let mut world = World::pair(by_gets());
    let bytes = world.alloc(0, &pattern(1, LEN));
    let buf = world.alloc(1, &vec![0; LEN as usize]);
    world.recv(1, &recv_from(0, buf, 7, 70)).unwrap();
    world.send(0, &send_to(1, bytes, 7, 10)).unwrap();
    world.run();
    assert_eq!(world.only(1).outcome, Ok(()));
    assert_eq!(world.only(0).outcome, Ok(()));
    assert_eq!(world.bytes(1, buf), pattern(1, LEN));
    // A chunk is the payload of 256 slots: 16,320 bytes.
    assert_eq!(world.sent_packets(1, 0), ["get", "get", "get", "get", "fin"]);
}

/// A rail that can read the memory of some is nothing to one who has exposed none.
#[test]
fn a_message_that_names_no_memory_is_asked_for() {
    let mut world = World::pair(Mode::default());
    let buf = world.alloc(1, &[0; 100]);
    world.recv(1, &recv_from(0, buf, 7, 70)).unwrap();
    let rts = Rts { total_len: 100, from: RemoteKey::NONE, key: MatchBits(1), claims: None };
    let put = Put {
        pt_index: PtIndex(0),
        match_bits: MatchBits(7),
        hdr_data: 0,
        user: 0,
        remote_offset: 0,
        ack: None,
        rts: Some(rts),
        bulk: None,
        by_control: false,
    };
    world.forge(0, 1, &Packet::Put(put), 0, Credits::default());
    assert!(world.processes[1].port.net().reads.is_empty());
    assert_eq!(world.sent_packets(1, 0), ["get"]);
}

#[test]
fn several_pulls_have_their_turns() {
    // One chunk of 24 bytes at a time has room in the reply region.
    let layouts = [roomy(), roomy(), layout(3, 40, 4, 4, 1)];
    let mut world = World::new(&layouts, by_gets(), Config::default(), 1);
    let len = 9000;
    let mut bufs = Vec::new();
    for from in 0..2 {
        let bytes = world.alloc(from, &pattern(from as u64, len));
        let buf = world.alloc(2, &vec![0; len as usize]);
        world.recv(2, &recv_from(from, buf, 7, from as u64)).unwrap();
        world.send(from, &send_to(2, bytes, 7, 10)).unwrap();
        bufs.push(buf);
    }
    let mut asked = [0u32; 2];
    // How far one was ahead when the other began.
    let mut ahead = None;
    world.run_each(|world| {
        for (from, asked) in asked.iter_mut().enumerate() {
            let net = world.processes[0].port.net();
            *asked = net
                .log
                .iter()
                .filter(|(f, t, p, _)| {
                    (*f, *t) == (2, from) && matches!(p, sluice_wire::Packet::Get(_))
                })
                .count() as u32;
        }
        let [left, right] = asked;
        if left.min(right) > 0 && left.max(right) < 374 {
            let now = i64::from(left) - i64::from(right);
            let turns = now - *ahead.get_or_insert(now);
            assert!(turns.abs() <= 1, "{left} gets of one, {right} of the other");
        }
    });
    // 9,000 bytes in pieces of 24.
    assert_eq!(asked, [375, 375]);
    for (from, buf) in bufs.into_iter().enumerate() {
        assert_eq!(world.bytes(2, buf), pattern(from as u64, len));
    }
}

#[test]
fn a_slow_peer_does_not_hold_up_the_end_of_another_ones_message() {
    // 0 and 1 grant a single control credit each, and 0 reads nothing.
    let narrow = layout(3, 40, 1, 4, 8);
    let layouts = [narrow, narrow, roomy()];
    let mut world = World::new(&layouts, Mode::default(), Config::default(), 1);
    for from in [0, 0, 1, 1] {
        let bytes = world.alloc(from, &pattern(1, LEN));
        let buf = world.alloc(2, &vec![0; LEN as usize]);
        world.recv(2, &recv_from(from, buf, 7, 70)).unwrap();
        world.send(from, &send_to(2, bytes, 7, 10)).unwrap();
        world.deliver(from, 2);
        world.happen(Event::Read(0));
    }
    assert_eq!(world.pending(2).answers, 2, "the second get-done to each waits for a credit");
    for _ in 0..2 {
        while world.on_their_way(2, 1) > 0 {
            world.deliver(2, 1);
        }
        world.idle(1);
        while world.on_their_way(1, 2) > 0 {
            world.deliver(1, 2);
        }
    }
    assert_eq!(world.ends(1), [(10, Ok(())), (10, Ok(()))], "1 need not wait for 0");
    assert_eq!(world.pop(0), None);
    world.run();
    assert_eq!(world.ends(0), [(10, Ok(())), (10, Ok(()))]);
    assert_eq!(world.pending(2).answers, 0);
}

#[test]
fn the_excess_of_an_announced_message_never_travels() {
    for mode in [Mode::default(), by_gets()] {
        let mut world = World::pair(mode);
        let bytes = world.alloc(0, &pattern(1, LEN));
        let buf = world.alloc(1, &vec![0; 20_000]);
        world.recv(1, &recv_from(0, buf.truncated(16_000), 7, 70)).unwrap();
        world.send(0, &send_to(1, bytes, 7, 10)).unwrap();
        world.run();
        let got = world.only(1);
        let excess = LEN - 16_000;
        assert_eq!((got.len, got.outcome), (16_000, Err(Failure::Truncated { excess })));
        assert_eq!(world.bytes(1, buf)[..16_000], pattern(1, LEN)[..16_000]);
        assert_eq!(world.bytes(1, buf)[16_000..], [0; 4000]);
        assert_eq!(world.only(0).outcome, Ok(()));
    }
}

#[test]
fn nothing_is_asked_of_a_message_received_into_no_buffer() {
    let mut world = World::pair(by_gets());
    let bytes = world.alloc(0, &pattern(1, LEN));
    world.recv(1, &recv_from(0, Region::EMPTY, 7, 70)).unwrap();
    world.send(0, &send_to(1, bytes, 7, 10)).unwrap();
    world.run();
    assert_eq!(world.only(1).outcome, Err(Failure::Truncated { excess: LEN }));
    assert_eq!(world.sent_packets(1, 0), ["fin"]);
    assert_eq!(world.only(0).outcome, Ok(()));
}

#[test]
fn any_length_up_to_the_end_of_the_address_space_can_be_sent() {
    for len in [1 << 40, (1 << 63) - 1] {
        let mut world = World::pair(without_bytes());
        let bytes = Region { addr: Addr(4096), len };
        let buf = Region { addr: Addr(8192), len };
        world.recv(1, &recv_from(0, buf, 7, 70)).unwrap();
        world.send(0, &send_to(1, bytes, 7, 10)).unwrap();
        world.run();
        let got = world.only(1);
        assert_eq!((got.len, got.outcome), (len, Ok(())));
        assert_eq!((world.only(0).len, world.pending(0).sends), (len, 0));
    }
}

#[test]
fn a_short_buffer_takes_its_part_of_the_longest_message_by_gets() {
    let mut world = World::pair(Mode { can_read: false, ..without_bytes() });
    let bytes = Region { addr: Addr(4096), len: (1 << 63) - 1 };
    let buf = Region { addr: Addr(8192), len: 1 << 20 };
    world.recv(1, &recv_from(0, buf, 7, 70)).unwrap();
    world.send(0, &send_to(1, bytes, 7, 10)).unwrap();
    world.run();
    let got = world.only(1);
    let excess = (1 << 63) - 1 - (1 << 20);
    assert_eq!((got.len, got.outcome), (1 << 20, Err(Failure::Truncated { excess })));
}

#[test]
fn a_rail_that_may_not_read_after_all_falls_back_to_gets() {
    let mut world = World::pair(Mode { forbidden_percent: 100, ..Mode::default() });
    let bytes = world.alloc(0, &pattern(1, LEN));
    let buf = world.alloc(1, &vec![0; LEN as usize]);
    world.recv(1, &recv_from(0, buf, 7, 70)).unwrap();
    world.send(0, &send_to(1, bytes, 7, 10)).unwrap();
    world.run();
    assert_eq!(world.only(1).outcome, Ok(()));
    assert_eq!(world.bytes(1, buf), pattern(1, LEN));
    assert_eq!(world.sent_packets(1, 0), ["get", "get", "get", "get", "fin"]);
}

#[test]
fn memory_that_is_not_mapped_is_told_on_both_sides() {
    let mut world = World::pair(Mode::default());
    let nowhere = Region { addr: Addr(1 << 40), len: LEN };
    let buf = world.alloc(1, &vec![0; LEN as usize]);
    world.recv(1, &recv_from(0, buf, 7, 70)).unwrap();
    world.send(0, &send_to(1, nowhere, 7, 10)).unwrap();
    world.run();
    assert_eq!(world.only(1).outcome, Err(Failure::Fault));
    assert_eq!(world.only(0).outcome, Err(Failure::Fault));
}

#[test]
fn a_claimed_announcement_is_fetched_into_the_buffer_that_claims_it() {
    let mut world = World::pair(by_gets());
    let bytes = world.alloc(0, &pattern(1, LEN));
    world.send(0, &send_to(1, bytes, 7, 10)).unwrap();
    world.run();
    let probe = Probe {
        space: Space::Tagged,
        source: Some(PeerId(0)),
        tag: 7,
        ignore: 0,
        context: 55,
        action: ProbeAction::Claim,
    };
    let buf = world.alloc(1, &vec![0; LEN as usize]);
    let process = &mut world.processes[1];
    process.endpoint.probe(Nanos(0), &mut process.port, &probe).unwrap();
    assert_eq!(process.endpoint.pop().unwrap().len, LEN);
    process.endpoint.recv_claimed(Nanos(0), &mut process.port, 55, buf, true).unwrap();
    world.run();
    assert_eq!(world.only(1).outcome, Ok(()));
    assert_eq!(world.bytes(1, buf), pattern(1, LEN));
    assert_eq!(world.only(0).outcome, Ok(()));
}
