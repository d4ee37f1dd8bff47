//! Peers that end or break the protocol: every request on them ends with an
//! error that names them, at whatever stage it was, and nobody else's does.

use crate::world::net::{Event, Mode, layout, roomy};
use crate::world::{World, pattern, recv_from, send_to};
use sluice_link::{PeerError, RailError};
use sluice_proto::{Config, Delivery, Failure, Probe, ProbeAction, Send, Space};
use sluice_wire::{
    Ack, AckKind, Credits, GetDone, List, MatchBits, Nanos, Packet, PeerId, PtIndex, Put, Region,
    Reply, Status,
};

const LEN: u64 = 50_000;

fn gone(peer: u32) -> Result<(), Failure> {
    Err(Failure::PeerGone { peer: PeerId(peer), why: PeerError::Dead })
}

fn broke(peer: u32) -> Result<(), Failure> {
    Err(Failure::PeerGone { peer: PeerId(peer), why: PeerError::Protocol })
}

fn three(mode: Mode) -> World {
    World::new(&[roomy(); 3], mode, Config::default(), 1)
}

fn nothing_is_left(world: &World, who: usize) {
    assert_eq!(world.pending(who), Default::default());
    assert_eq!(world.processes[who].port.net().lent(who), (0, 0));
    assert_eq!(world.processes[who].endpoint.links().reply_slots_reserved(), 0);
}

#[test]
fn sends_end_queued_announced_or_acknowledged() {
    let layouts = [roomy(), layout(3, 20, 4, 4, 16)];
    let mut world = World::new(&layouts, Mode::default(), Config::default(), 1);
    let long = world.alloc(0, &pattern(1, LEN));
    // All twenty slots.
    let short = world.alloc(0, &pattern(1, 1130));
    world.send(0, &send_to(1, long, 7, 1)).unwrap();
    world
        .send(0, &Send { delivery: Some(Delivery::Arrived), ..send_to(1, Region::EMPTY, 7, 2) })
        .unwrap();
    world.send(0, &send_to(1, short, 7, 3)).unwrap();
    world.send(0, &send_to(1, Region::EMPTY, 7, 4)).unwrap();
    let inject = Send { inject: true, report: false, ..send_to(1, short, 7, 5) };
    world.send(0, &inject).unwrap();
    world.kill(1);
    world.peer_gone(0, 1, PeerError::Dead);
    let mut ends = world.ends(0);
    ends.sort_by_key(|(context, _)| *context);
    assert_eq!(ends, [(1, gone(1)), (2, gone(1)), (3, gone(1)), (4, gone(1)), (5, gone(1))]);
    nothing_is_left(&world, 0);

    world.send(0, &send_to(1, short, 7, 6)).unwrap();
    assert_eq!(world.only(0).outcome, gone(1));
}

#[test]
fn an_injected_message_that_waits_ends_and_its_copy_goes_back() {
    let layouts = [roomy(), layout(3, 4, 4, 4, 16)];
    let mut world = World::new(&layouts, Mode::default(), Config::default(), 1);
    let short = world.alloc(0, &pattern(1, 1200));
    world.send(0, &Send { inject: true, ..send_to(1, short, 7, 5) }).unwrap();
    assert_eq!(world.processes[0].port.net().lent(0), (0, 1200));
    world.kill(1);
    world.peer_gone(0, 1, PeerError::Dead);
    assert_eq!(world.ends(0), [(5, gone(1))]);
    nothing_is_left(&world, 0);
}

#[test]
fn receives_from_the_peer_end_and_others_go_on() {
    let mut world = three(Mode::default());
    let buf = world.alloc(0, &[0; 8]);
    let from_any = sluice_proto::Recv { source: None, ..recv_from(0, buf, 7, 3) };
    world.recv(0, &recv_from(1, buf, 7, 1)).unwrap();
    world.recv(0, &recv_from(2, buf, 7, 2)).unwrap();
    world.recv(0, &from_any).unwrap();
    world.kill(1);
    world.peer_gone(0, 1, PeerError::Dead);
    assert_eq!(world.ends(0), [(1, gone(1))]);
    world.recv(0, &recv_from(1, buf, 7, 4)).unwrap();
    assert_eq!(world.ends(0), [(4, gone(1))], "nobody can fill it any more");
    for _ in 0..2 {
        let bytes = world.alloc(2, b"from two");
        world.send(2, &send_to(0, bytes, 7, 9)).unwrap();
    }
    world.run();
    assert_eq!(world.ends(0), [(2, Ok(())), (3, Ok(()))]);
}

#[test]
fn a_pull_by_gets_ends_and_its_reply_room_is_free_again() {
    let mut world = three(Mode { can_read: false, ..Mode::default() });
    for from in [1, 2] {
        let bytes = world.alloc(from, &pattern(1, LEN));
        let buf = world.alloc(0, &vec![0; LEN as usize]);
        world.recv(0, &recv_from(from, buf, 7, from as u64)).unwrap();
        world.send(from, &send_to(0, bytes, 7, 9)).unwrap();
    }
    world.deliver(1, 0);
    world.deliver(2, 0);
    world.deliver(0, 1);
    assert!(world.processes[0].endpoint.links().reply_slots_reserved() > 0);
    world.kill(1);
    world.peer_gone(0, 1, PeerError::Dead);
    assert_eq!(world.ends(0), [(1, gone(1))]);
    world.run();
    assert_eq!(world.ends(0), [(2, Ok(()))]);
    nothing_is_left(&world, 0);
}

#[test]
fn a_direct_read_ends_with_the_peer() {
    let mut world = three(Mode::default());
    let bytes = world.alloc(1, &pattern(1, LEN));
    let buf = world.alloc(0, &vec![0; LEN as usize]);
    world.recv(0, &recv_from(1, buf, 7, 1)).unwrap();
    world.send(1, &send_to(0, bytes, 7, 9)).unwrap();
    world.deliver(1, 0);
    world.kill(1);
    world.peer_gone(0, 1, PeerError::Dead);
    assert_eq!(world.ends(0), [(1, gone(1))]);
    nothing_is_left(&world, 0);
}

#[test]
fn what_a_dead_peer_left_unexpected_is_received_or_said_to_be_lost() {
    let mut world = three(Mode::default());
    let short = world.alloc(1, b"last words");
    let long = world.alloc(1, &pattern(1, LEN));
    world.send(1, &send_to(0, short, 7, 1)).unwrap();
    world.send(1, &send_to(0, long, 8, 2)).unwrap();
    world.send(1, &send_to(0, long, 9, 3)).unwrap();
    world.send(1, &send_to(0, long, 10, 4)).unwrap();
    world.deliver_all();
    world.kill(1);
    world.peer_gone(0, 1, PeerError::Dead);
    assert_eq!(world.pop(0), None);

    let buf = world.alloc(0, &vec![0; LEN as usize]);
    world.recv(0, &recv_from(1, buf, 7, 70)).unwrap();
    assert_eq!(world.ends(0), [(70, Ok(()))]);
    assert_eq!(world.bytes(0, buf.truncated(10)), b"last words");
    world.recv(0, &recv_from(1, buf, 8, 80)).unwrap();
    assert_eq!(world.ends(0), [(80, gone(1))]);
    for (tag, action) in [(9, ProbeAction::Discard), (10, ProbeAction::Claim)] {
        let probe =
            Probe { space: Space::Tagged, source: None, tag, ignore: 0, context: tag, action };
        let process = &mut world.processes[0];
        process.endpoint.probe(Nanos(0), &mut process.port, &probe).unwrap();
        assert_eq!(world.ends(0), [(tag, Ok(()))]);
    }
    let process = &mut world.processes[0];
    process.endpoint.recv_claimed(Nanos(0), &mut process.port, 10, buf, true).unwrap();
    assert_eq!(world.ends(0), [(10, gone(1))]);
    world.run();
    nothing_is_left(&world, 0);
    assert_eq!(world.on_their_way(0, 1), 0, "nothing is sent to it any more");
}

/// Each packet is one that no Sluice process would send here.
#[test]
fn a_peer_that_breaks_the_protocol_is_given_up() {
    let put = Put {
        pt_index: PtIndex(0),
        match_bits: MatchBits(7),
        hdr_data: 0,
        user: 0,
        remote_offset: 0,
        ack: None,
        rts: None,
        bulk: None,
        by_control: false,
    };
    let nothing = Credits::default();
    let ack = Ack { op: 1 << 32, mlength: 0, offset: 0, list: List::Priority, status: Status::Ok };
    let fetched = Put {
        ack: Some((sluice_wire::AckKind::Silent, 1)),
        bulk: Some(sluice_wire::Bulk { len: 1, from: sluice_wire::RemoteKey::NONE }),
        ..put
    };
    let pull = sluice_wire::Pull { source: 1 << 32, op: 1, offset: 0, length: 1 };
    let offer =
        sluice_wire::Offer { op: 1 << 32, mlength: 0, offset: 0, list: List::Priority, source: 0 };
    let by_control = Put { ack: Some((sluice_wire::AckKind::Full, 1)), by_control: true, ..put };
    let wrong: [(&str, Packet, u32, Credits); 10] = [
        ("a message in the control region", Packet::Put(by_control), 0, nothing),
        ("a put that endpoints do not send", Packet::Put(fetched), 0, nothing),
        ("a pull", Packet::Pull(pull), 0, nothing),
        ("an offer", Packet::Offer(offer), 0, nothing),
        ("a number twice", Packet::Credit, 1, nothing),
        ("more data credits than spent", Packet::Credit, 0, Credits { data: 1, control: 0 }),
        ("more control credits", Packet::Credit, 0, Credits { data: 0, control: 1 }),
        (
            "a reply to nothing",
            Packet::Reply(Reply {
                op: 1 << 32,
                offset: 0,
                list: List::Priority,
                status: Status::Ok,
            }),
            0,
            nothing,
        ),
        ("an acknowledgement of nothing", Packet::Ack(ack), 0, nothing),
        ("a put of another's number", Packet::Put(put), 77, nothing),
    ];
    for (what, packet, seq, credits) in wrong {
        let mut world = three(Mode::default());
        let buf = world.alloc(0, &[0; 8]);
        world.recv(0, &recv_from(1, buf, 1, 1)).unwrap();
        world.recv(0, &recv_from(2, buf, 1, 2)).unwrap();
        world.forge(1, 0, &packet, seq, credits);
        assert_eq!(world.ends(0), [(1, broke(1))], "{what}");
        assert_eq!(world.processes[0].endpoint.stats().violations, 1, "{what}");
        assert!(world.processes[0].port.net().has_refused(0, 1), "{what}: the rail knows");
        // It is heard no more, and nothing goes to it, though the port would.
        world.forge(1, 0, &Packet::Credit, seq + 1, nothing);
        world.forget_packets();
        world.send(0, &send_to(1, buf, 1, 3)).unwrap();
        assert_eq!(world.ends(0), [(3, broke(1))], "{what}");
        assert_eq!(world.sent_packets(0, 1), [""; 0], "{what}");
        let bytes = world.alloc(2, &[5; 8]);
        world.send(2, &send_to(0, bytes, 1, 9)).unwrap();
        world.run();
        assert_eq!(world.ends(0), [(2, Ok(()))], "{what}");
    }
}

/// The rail goes on with what it was given: it reads memory that must stay the send's.
#[test]
fn a_send_to_a_peer_that_is_given_up_stays_while_its_bytes_are_written() {
    for chunk_claims in [false, true] {
        let mode =
            Mode { can_read: chunk_claims, only_writes: true, chunk_claims, ..Mode::default() };
        let config = Config { share_bytes_min: 100, ..Config::default() };
        let mut world = World::new(&[layout(8, 8, 8, 4, 64); 2], mode, config, 1);
        let bytes = world.alloc(0, &pattern(1, LEN));
        world.send(0, &send_to(1, bytes, 7, 1)).unwrap();
        world.deliver(0, 1);
        let buf = world.alloc(1, &vec![0; LEN as usize]);
        world.recv(1, &recv_from(0, buf, 7, 2)).unwrap();
        world.deliver(1, 0);
        assert_eq!(world.pending(0).sends, 1, "it writes");
        world.forge(1, 0, &Packet::Credit, 77, Credits::default());
        assert_eq!((world.ends(0), world.pending(0).sends), (vec![], 1));
        world.run();
        assert_eq!(world.ends(0), [(1, broke(1))]);
        assert_eq!(world.pending(0).sends, 0);
    }
}

/// As above, of a message that goes eagerly.
#[test]
fn a_send_to_a_lost_peer_stays_while_its_packet_is_written() {
    for delivery in [None, Some(Delivery::Arrived)] {
        let mode = Mode { pending_percent: 100, ..Mode::default() };
        let mut world = World::new(&[layout(8, 8, 8, 4, 64); 2], mode, Config::default(), 1);
        let bytes = world.alloc(0, b"eager");
        world.send(0, &Send { delivery, ..send_to(1, bytes, 7, 1) }).unwrap();
        world.kill(1);
        world.peer_gone(0, 1, PeerError::Dead);
        assert_eq!((world.ends(0), world.pending(0).sends), (vec![], 1), "its memory is read");
        world.run();
        assert_eq!(world.ends(0), [(1, gone(1))]);
        nothing_is_left(&world, 0);
    }
}

#[test]
fn a_put_beyond_the_credits_is_refused() {
    let mut world = World::new(&[layout(2, 2, 2, 2, 2); 2], Mode::default(), Config::default(), 1);
    let put = |len: u32, seq: u32| {
        let put = Put {
            pt_index: PtIndex(0),
            match_bits: MatchBits(7),
            hdr_data: 0,
            user: 0,
            remote_offset: 0,
            ack: Some((AckKind::Full, 0)),
            rts: None,
            bulk: None,
            by_control: false,
        };
        Packet::Put(put).emit(sluice_wire::PacketSeq(seq), Credits::default(), len)
    };
    let port = world.processes[0].port.clone();
    // The second of two slots holds 64 bytes of payload.
    port.net_mut().forge(1, 0, &put(64, 0), &[1; 64]);
    world.deliver(1, 0);
    assert_eq!(world.processes[0].endpoint.stats().violations, 0);
    port.net_mut().forge(1, 0, &put(0, 1), &[]);
    world.deliver(1, 0);
    assert_eq!(world.processes[0].endpoint.stats().violations, 1);
}

#[test]
fn a_get_done_of_nothing_is_no_fault() {
    let mut world = three(Mode::default());
    let done = GetDone {
        pt_index: PtIndex(2),
        match_bits: MatchBits(1 << 32),
        length: 8,
        status: Status::Ok,
    };
    world.forge(1, 0, &Packet::GetDone(done), 0, Credits::default());
    assert_eq!(world.processes[0].endpoint.stats().violations, 0);
}

/// A reader that asks for 4 GiB of a long message gets an answer, no panic.
#[test]
fn a_get_longer_than_any_reply_region_is_refused() {
    let mut world = three(Mode { payloads: false, ..Mode::default() });
    let long = Region { addr: sluice_wire::Addr(0), len: 1 << 40 };
    world.send(0, &send_to(1, long, 7, 1)).unwrap();
    let key = match world.processes[0].port.net().log[0].2 {
        Packet::Put(put) => put.rts.unwrap().key,
        _ => unreachable!("it was announced"),
    };
    for (seq, length) in [u64::from(u32::MAX), u64::MAX, 4_200_000].into_iter().enumerate() {
        let get = sluice_wire::Get {
            pt_index: PtIndex(2),
            match_bits: key,
            op: 1,
            remote_offset: 0,
            length,
            into: sluice_wire::RemoteKey::NONE,
        };
        world.forget_packets();
        world.forge(1, 0, &Packet::Get(get), seq as u32, Credits::default());
        let net = world.processes[0].port.net();
        let (.., reply, _) = net.log.iter().find(|(from, to, ..)| (*from, *to) == (0, 1)).unwrap();
        assert_eq!(
            *reply,
            Packet::Reply(Reply {
                op: 1,
                offset: 0,
                list: List::Priority,
                status: Status::OpViolation
            })
        );
    }
}

/// The rail still writes into the buffer of a receive: it is not the caller's
/// before that ends.
#[test]
fn a_read_that_runs_when_its_peer_breaks_the_protocol_ends_first() {
    let mut world = three(Mode::default());
    let bytes = world.alloc(1, &pattern(1, LEN));
    let buf = world.alloc(0, &vec![0; LEN as usize]);
    world.recv(0, &recv_from(1, buf, 7, 1)).unwrap();
    world.send(1, &send_to(0, bytes, 7, 9)).unwrap();
    world.deliver(1, 0);
    world.forge(1, 0, &Packet::Credit, 99, Credits::default());
    assert_eq!(world.pop(0), None, "the read is under way");
    world.happen(Event::Read(0));
    assert_eq!(world.ends(0), [(1, broke(1))]);
    nothing_is_left(&world, 0);
}

/// Whoever is given up keeps nothing waiting: here one read has failed while
/// others of the same peer had not begun.
#[test]
fn a_rail_that_loses_the_peer_fails_the_pull() {
    let mut world = three(Mode::default());
    let bytes = world.alloc(1, &pattern(1, LEN));
    let buf = world.alloc(0, &vec![0; LEN as usize]);
    world.recv(0, &recv_from(1, buf, 7, 1)).unwrap();
    world.send(1, &send_to(0, bytes, 7, 9)).unwrap();
    world.deliver(1, 0);
    let read = world.processes[0].port.net_mut().reads.pop().unwrap();
    let (now, process) = (world.now, &mut world.processes[0]);
    use sluice_link::Machine;
    let lost = Err(RailError::PeerGone);
    process.endpoint.on_moved(now, &mut process.port, read.token, lost);
    assert_eq!(world.ends(0), [(1, gone(1))]);
}
