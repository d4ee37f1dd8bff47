//! The receiver comes first: receives announced to their source (RTR), told as they
//! happen. And transfers that both sides copy, or the sender alone.

use crate::world::net::{Event, Mode, layout, roomy};
use crate::world::{World, pattern, recv_from, send_to};
use sluice_link::PeerError;
use sluice_proto::{Config, Failure, Recv, Refused, Send};
use sluice_wire::{
    Addr, Credits, MatchBits, Packet, PacketSeq, PtIndex, Put, Region, RemoteKey, Rts, Status,
    Written,
};
use std::num::NonZeroU32;

/// Longer than what is announced, shared and not eager here.
const LEN: u64 = 500;

const CONFIG: Config = Config {
    looking_bytes_max: 0,
    eager_bytes_max: 64,
    network_eager_bytes_max: 64,
    patience: sluice_wire::Nanos(20_000),
    regions_max: 8,
    requests_max: 1 << 10,
    inject_bytes_max: 1 << 20,
    announce_bytes_min: 100,
    share_bytes_min: 100,
    pull_bytes_max: 1 << 20,
};

fn pair() -> World {
    World::new(&[roomy(); 2], Mode { chunk_claims: true, ..Mode::default() }, CONFIG, 1)
}

/// A receive of process 1 from process 0.
fn post(world: &mut World, tag: u64, context: u64) -> Region {
    let buf = world.alloc(1, &[0; LEN as usize]);
    world.recv(1, &recv_from(0, buf, tag, context)).unwrap();
    buf
}

/// A message of process 0 to process 1.
fn send(world: &mut World, id: u64, len: u64, tag: u64) {
    let bytes = world.alloc(0, &pattern(id, len));
    world.send(0, &send_to(1, bytes, tag, id)).unwrap();
}

fn deliver_all_to(world: &mut World, from: usize, to: usize) {
    while world.on_their_way(from, to) > 0 {
        world.deliver(from, to);
    }
}

#[test]
fn a_late_sender_writes_while_the_receiver_does_nothing() {
    let mut world = pair();
    let buf = post(&mut world, 7, 70);
    assert_eq!(world.sent_packets(1, 0), ["rtr"]);
    deliver_all_to(&mut world, 1, 0);
    send(&mut world, 1, LEN, 7);
    world.move_by(0);
    // Process 1 has not been called since.
    assert_eq!(world.bytes(1, buf), pattern(1, LEN));
    assert_eq!(world.ends(0), [(1, Ok(()))]);
    assert_eq!(world.pending(0).sends, 0);
    world.run();
    assert_eq!(world.ends(1), [(70, Ok(()))]);
    assert_eq!(world.sent_packets(1, 0), [""; 0], "the sender knows that it is done");
    let stats = (world.processes[1].endpoint.stats(), world.processes[0].endpoint.stats());
    assert_eq!((stats.0.announced, stats.1.rtrs_used), (1, 1));
    assert_eq!(world.processes[0].port.net().claims.open_of(1), 0);
}

#[test]
fn both_copy_when_both_wait() {
    let mut world = pair();
    let buf = post(&mut world, 7, 70);
    deliver_all_to(&mut world, 1, 0);
    send(&mut world, 1, LEN, 7);
    deliver_all_to(&mut world, 0, 1);
    // Each takes a chunk before the other copies one.
    for at in [0, 1, 0, 1, 0, 1] {
        world.happen(Event::Share(at));
    }
    world.run();
    assert_eq!(world.bytes(1, buf), pattern(1, LEN));
    assert_eq!((world.ends(0), world.ends(1)), (vec![(1, Ok(()))], vec![(70, Ok(()))]));
    assert_eq!(world.sent_packets(1, 0), ["rtr", "fin"]);
}

#[test]
fn a_sender_that_came_first_is_invited_and_may_come_too_late() {
    for invited in [false, true] {
        let mut world = pair();
        send(&mut world, 1, LEN, 7);
        deliver_all_to(&mut world, 0, 1);
        let buf = post(&mut world, 7, 70);
        assert_eq!(world.sent_packets(1, 0), ["cts"], "what is here is not announced");
        if invited {
            world.deliver(1, 0);
            world.move_by(0);
            assert_eq!(world.ends(0), [(1, Ok(()))], "it has copied all of it");
        } else {
            world.move_by(1);
            assert_eq!(world.ends(1), [(70, Ok(()))]);
        }
        world.run();
        assert_eq!(world.bytes(1, buf), pattern(1, LEN));
        let fins: &[&str] = if invited { &[] } else { &["fin"] };
        assert_eq!(world.sent_packets(1, 0), fins);
        assert_eq!(world.processes[0].port.net().claims.open_of(1), 0);
    }
}

/// A process 1 whose two slots for process 0 are full; no injected message may wait.
fn pair_without_credits(receives: u64) -> (World, Vec<Region>) {
    let config = Config { inject_bytes_max: 0, ..CONFIG };
    let layouts = [roomy(), layout(2, 2, 8, 4, 12)];
    let mut world = World::new(&layouts, Mode { chunk_claims: true, ..Mode::default() }, config, 1);
    let bufs = (0..receives).map(|nth| post(&mut world, 7, 70 + nth)).collect();
    deliver_all_to(&mut world, 1, 0);
    for id in [1, 2] {
        send(&mut world, id, 8, 9);
    }
    assert_eq!(world.ends(0), [(1, Ok(())), (2, Ok(()))]);
    (world, bufs)
}

fn inject(world: &mut World, id: u64, tag: u64) -> Result<(), Refused> {
    let bytes = world.alloc(0, &pattern(id, 8));
    world.send(0, &Send { inject: true, report: false, ..send_to(1, bytes, tag, id) })
}

#[test]
fn a_refused_inject_does_not_use_up_the_announcement_of_a_receive() {
    let (mut world, _) = pair_without_credits(1);
    for _ in 0..3 {
        assert_eq!(inject(&mut world, 3, 7), Err(Refused::Again));
    }
    assert!(world.cancel(1, 70), "nothing has used it");
    assert_eq!(world.ends(1), [(70, Err(Failure::Cancelled))]);
}

/// It used the announcement of the second, and met the first.
#[test]
fn a_large_message_after_a_refused_inject_uses_the_receive_that_it_meets() {
    let (mut world, bufs) = pair_without_credits(2);
    assert_eq!(inject(&mut world, 3, 7), Err(Refused::Again));
    let other = world.alloc(1, &[0; 8]);
    for context in [90, 91] {
        world.recv(1, &recv_from(0, other, 9, context)).unwrap();
    }
    world.run();
    assert_eq!(world.ends(1), [(90, Ok(())), (91, Ok(()))]);
    send(&mut world, 4, LEN, 7);
    world.move_by(0);
    assert_eq!(world.bytes(1, bufs[0]), pattern(4, LEN));
    inject(&mut world, 3, 7).unwrap();
    world.run();
    assert_eq!(world.ends(1), [(70, Ok(())), (71, Ok(()))]);
    assert_eq!(world.ends(0), [(4, Ok(()))]);
    assert_eq!(world.bytes(1, bufs[1].truncated(8)), pattern(3, 8));
    assert_eq!(world.processes[1].endpoint.stats().violations, 0);
}

/// Its bytes end beyond all memory.
#[test]
fn a_message_that_fails_here_does_not_use_up_the_announcement_of_a_receive() {
    let mut world = pair();
    post(&mut world, 7, 70);
    deliver_all_to(&mut world, 1, 0);
    let beyond = Region { addr: Addr(u64::MAX - 4), len: 8 };
    world.send(0, &send_to(1, beyond, 7, 1)).unwrap();
    assert_eq!(world.ends(0), [(1, Err(Failure::Fault))]);
    assert!(world.cancel(1, 70), "nothing has used it");
}

#[test]
fn a_cancelled_receive_is_passed_over() {
    let mut world = pair();
    post(&mut world, 7, 70);
    let second = post(&mut world, 7, 71);
    deliver_all_to(&mut world, 1, 0);
    assert!(world.cancel(1, 70), "without a word to its source");
    assert_eq!(world.ends(1), [(70, Err(Failure::Cancelled))]);
    send(&mut world, 1, LEN, 7);
    world.move_by(0);
    assert_eq!(world.bytes(1, second), pattern(1, LEN));
    world.run();
    assert_eq!(world.ends(1), [(71, Ok(()))]);
}

#[test]
fn what_has_met_its_message_cannot_be_cancelled_any_more() {
    for len in [8, LEN] {
        let mut world = pair();
        let buf = post(&mut world, 7, 70);
        deliver_all_to(&mut world, 1, 0);
        send(&mut world, 1, len, 7);
        assert!(!world.cancel(1, 70), "{len}");
        world.run();
        assert_eq!(world.ends(1), [(70, Ok(()))]);
        assert_eq!(world.bytes(1, buf.truncated(len)), pattern(1, len));
    }
}

#[test]
fn a_short_message_uses_up_the_receive_that_it_meets() {
    let mut world = pair();
    let first = post(&mut world, 7, 70);
    let second = post(&mut world, 7, 71);
    deliver_all_to(&mut world, 1, 0);
    send(&mut world, 1, 8, 7);
    send(&mut world, 2, LEN, 7);
    world.move_by(0);
    assert_eq!(world.bytes(1, second), pattern(2, LEN));
    world.run();
    assert_eq!(world.bytes(1, first.truncated(8)), pattern(1, 8));
    assert_eq!(world.ends(1), [(70, Ok(())), (71, Ok(()))]);
}

#[test]
fn a_message_that_crosses_the_announcement_blocks_it_and_what_overlaps() {
    let mut world = pair();
    // A first announcement: from now on the sender remembers what it sends.
    post(&mut world, 1, 69);
    deliver_all_to(&mut world, 1, 0);
    let first = post(&mut world, 7, 70);
    let other = post(&mut world, 8, 72);
    send(&mut world, 1, LEN, 7);
    let second = post(&mut world, 7, 71);
    deliver_all_to(&mut world, 1, 0);
    assert_eq!(world.sent_packets(1, 0), ["rtr", "rtr", "rtr", "rtr"]);
    send(&mut world, 2, LEN, 7);
    // The message with the other tag is known to be the first of its kind.
    send(&mut world, 3, LEN, 8);
    world.move_by(0);
    assert_eq!(world.bytes(1, second), vec![0; LEN as usize], "which message meets it is unknown");
    assert_eq!(world.bytes(1, other), pattern(3, LEN));
    world.run();
    for (buf, id) in [(first, 1), (second, 2), (other, 3)] {
        assert_eq!(world.bytes(1, buf), pattern(id, LEN));
    }
    // What was blocked is over; a new one is as good as any.
    let third = post(&mut world, 7, 73);
    deliver_all_to(&mut world, 1, 0);
    send(&mut world, 4, LEN, 7);
    world.move_by(0);
    assert_eq!(world.bytes(1, third), pattern(4, LEN));
    world.run();
}

#[test]
fn an_older_receive_that_was_not_announced_keeps_a_newer_one_from_it() {
    // From anybody; too short to be announced; of any tag.
    let cases = [(None, LEN, 7, 0), (Some(0), 50, 7, 0), (Some(0), 50, 0, u64::MAX)];
    for (source, len, tag, ignore) in cases {
        let mut world = pair();
        let buf = world.alloc(1, &vec![0; len as usize]);
        let older = recv_from(0, buf, tag, 70);
        let source = source.map(sluice_wire::PeerId);
        world.recv(1, &Recv { source, ignore, ..older }).unwrap();
        let newer = post(&mut world, 7, 71);
        assert_eq!(world.sent_packets(1, 0), [""; 0]);
        send(&mut world, 1, 8, 7);
        send(&mut world, 2, LEN, 7);
        world.run();
        assert_eq!(world.ends(1), [(70, Ok(())), (71, Ok(()))]);
        assert_eq!(world.bytes(1, newer), pattern(2, LEN));
    }
}

#[test]
fn a_receive_of_another_tag_or_source_keeps_nothing_back() {
    let mut world = pair();
    let buf = world.alloc(1, &[0; 50]);
    world.recv(1, &recv_from(0, buf, 8, 70)).unwrap();
    world.recv(1, &recv_from(1, buf, 7, 71)).unwrap();
    post(&mut world, 7, 72);
    assert_eq!(world.sent_packets(1, 0), ["rtr"]);
}

#[test]
fn a_longer_message_fills_the_buffer_and_no_more() {
    let mut world = pair();
    let whole = world.alloc(1, &[0xEE; 400]);
    let buf = whole.truncated(300);
    world.recv(1, &recv_from(0, buf, 7, 70)).unwrap();
    deliver_all_to(&mut world, 1, 0);
    send(&mut world, 1, LEN, 7);
    world.run();
    assert_eq!(world.ends(1), [(70, Err(Failure::Truncated { excess: 200 }))]);
    assert_eq!(world.ends(0), [(1, Ok(()))]);
    let bytes = world.bytes(1, whole);
    assert_eq!(bytes[..300], pattern(1, LEN)[..300]);
    assert_eq!(bytes[300..], [0xEE; 100]);
}

#[test]
fn a_sender_without_credits_lets_go_of_what_it_was_told() {
    // Two slots: a message that nobody wants takes both.
    let layouts = [layout(2, 2, 8, 4, 40); 2];
    let mode = Mode { chunk_claims: true, ..Mode::default() };
    let mut world = World::new(&layouts, mode, CONFIG, 1);
    let buf = post(&mut world, 7, 70);
    deliver_all_to(&mut world, 1, 0);
    for (id, tag) in [(1, 1), (2, 1), (3, 7), (4, 7)] {
        send(&mut world, id, LEN, tag);
    }
    world.move_by(0);
    assert_eq!(world.bytes(1, buf), vec![0; LEN as usize]);
    let second = post(&mut world, 7, 71);
    for context in [72, 73] {
        post(&mut world, 1, context);
    }
    world.run();
    assert_eq!(world.bytes(1, buf), pattern(3, LEN));
    assert_eq!(world.bytes(1, second), pattern(4, LEN));
    assert_eq!(world.pending(1).recvs, 0);
    assert_eq!(world.processes[0].port.net().claims.open_of(1), 0);
}

#[test]
fn a_side_that_cannot_copy_leaves_it_to_the_receiver() {
    for writer_fails in [false, true] {
        let mut world = pair();
        let buf = post(&mut world, 7, 70);
        deliver_all_to(&mut world, 1, 0);
        send(&mut world, 1, LEN, 7);
        let (who, peer) = if writer_fails { (0, 1) } else { (1, 0) };
        deliver_all_to(&mut world, 0, 1);
        world.processes[0].port.net_mut().forbid(who, peer);
        world.run();
        assert_eq!(world.ends(1), [(70, Ok(()))], "{writer_fails}");
        assert_eq!(world.ends(0), [(1, Ok(()))]);
        assert_eq!(world.bytes(1, buf), pattern(1, LEN));
    }
}

#[test]
fn a_buffer_that_is_not_mapped_is_a_fault_of_its_owner() {
    let mut world = pair();
    let buf = post(&mut world, 7, 70);
    world.processes[1].port.unmap(buf);
    deliver_all_to(&mut world, 1, 0);
    send(&mut world, 1, LEN, 7);
    world.run();
    assert_eq!(world.ends(1), [(70, Err(Failure::Fault))]);
    assert_eq!(world.ends(0).len(), 1);
    assert_eq!(world.pending(0).sends, 0);
}

#[test]
fn a_sender_that_dies_in_the_middle_fails_the_receive() {
    let mut world = pair();
    post(&mut world, 7, 70);
    post(&mut world, 8, 71);
    deliver_all_to(&mut world, 1, 0);
    send(&mut world, 1, LEN, 7);
    deliver_all_to(&mut world, 0, 1);
    world.happen(Event::Share(0));
    world.kill(0);
    world.peer_gone(1, 0, PeerError::Dead);
    world.run();
    let gone = Failure::PeerGone { peer: sluice_wire::PeerId(0), why: PeerError::Dead };
    let mut ends = world.ends(1);
    ends.sort_by_key(|(context, _)| *context);
    assert_eq!(ends, [(70, Err(gone)), (71, Err(gone))]);
    assert_eq!(world.processes[0].port.net().claims.open_of(1), 0);
}

#[test]
fn receives_that_never_profit_are_announced_seldom() {
    let mut world = pair();
    for id in 0..200 {
        post(&mut world, 7, id);
        send(&mut world, id, 8, 7);
        world.run();
    }
    assert_eq!(world.processes[1].endpoint.stats().announced, 4 + 196 / 64);
}

#[test]
fn a_rail_that_only_writes_puts() {
    let mode = Mode { can_read: false, only_writes: true, ..Mode::default() };
    let mut world = World::new(&[roomy(); 2], mode, CONFIG, 1);
    send(&mut world, 1, LEN, 7);
    let buf = post(&mut world, 7, 70);
    world.run();
    assert_eq!(world.sent_packets(1, 0), ["cts"], "no get, and no get-done");
    assert_eq!(world.bytes(1, buf), pattern(1, LEN));
    assert_eq!((world.ends(0), world.ends(1)), (vec![(1, Ok(()))], vec![(70, Ok(()))]));
}

#[test]
fn a_put_that_is_forbidden_is_asked_for_by_gets() {
    let mode = Mode { can_read: false, only_writes: true, ..Mode::default() };
    let mut world = World::new(&[roomy(); 2], mode, CONFIG, 1);
    let buf = post(&mut world, 7, 70);
    send(&mut world, 1, LEN, 7);
    deliver_all_to(&mut world, 0, 1);
    world.processes[0].port.net_mut().forbid(0, 1);
    world.run();
    assert_eq!(world.bytes(1, buf), pattern(1, LEN));
    assert_eq!((world.ends(0), world.ends(1)), (vec![(1, Ok(()))], vec![(70, Ok(()))]));
}

/// A packet of process 0 that an honest one would not send.
fn assert_given_up(world: &mut World, packet: &Packet, seq: u32) {
    world.forge(0, 1, packet, seq, Credits::default());
    assert_eq!(world.processes[1].endpoint.stats().violations, 1, "{packet:?}");
    world.run();
    assert_eq!(world.pending(1).recvs, 0, "{packet:?}");
}

#[test]
fn a_message_that_names_the_claims_of_another_receive_breaks_the_protocol() {
    let rts = |claims| Rts {
        total_len: LEN,
        from: RemoteKey::NONE,
        key: MatchBits(1),
        claims: NonZeroU32::new(claims),
    };
    let put = |claims| {
        Packet::Put(Put {
            pt_index: PtIndex(0),
            match_bits: MatchBits(7),
            hdr_data: 0,
            user: 0,
            remote_offset: 0,
            ack: None,
            rts: Some(rts(claims)),
            bulk: None,
            by_control: false,
        })
    };
    for claims in [2, 9] {
        let mut world = pair();
        post(&mut world, 7, 70);
        post(&mut world, 8, 71);
        assert_given_up(&mut world, &put(claims), 0);
    }
}

#[test]
fn words_about_transfers_that_are_not_there_break_the_protocol() {
    let written = Written { op: 1 << 32, len: LEN, status: Status::Ok };
    let cts =
        sluice_wire::Cts { key: MatchBits(1), into: RemoteKey::NONE, len: 1, op: 0, claims: None };
    for packet in [Packet::Written(written), Packet::Cts(cts)] {
        let mut world = pair();
        post(&mut world, 7, 70);
        assert_given_up(&mut world, &packet, 0);
    }
}

#[test]
fn too_many_announcements_break_the_protocol() {
    let mut world = pair();
    for tag in 0..16 {
        post(&mut world, tag, tag);
    }
    post(&mut world, 16, 16);
    assert_eq!(world.on_their_way(1, 0), 16, "no more are announced");
    deliver_all_to(&mut world, 1, 0);
    let net = world.processes[0].port.clone();
    let claims = net.net_mut().claims.open(1, 0, sluice_link::ClaimsStart::Free);
    let rtr = sluice_wire::Rtr {
        pt_index: PtIndex(0),
        match_bits: MatchBits(99),
        ignore_bits: 0,
        into: RemoteKey::NONE,
        len: LEN,
        seen: PacketSeq(0),
        claims: claims.0,
    };
    world.forge(1, 0, &Packet::Rtr(rtr), 16, Credits::default());
    assert_eq!(world.processes[0].endpoint.stats().violations, 1);
}
