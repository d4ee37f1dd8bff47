//! Messages that fit the mailbox, told as they happen.

use crate::world;
use crate::world::net::{Mode, roomy};
use crate::world::{World, recv_from, send_to};
use sluice_proto::{Config, Delivery, Failure, Kind, Refused, Send, Space};
use sluice_wire::{PeerId, Region};

#[test]
fn an_expected_message_goes_into_its_buffer_in_one_packet() {
    let mut world = World::pair(Mode::default());
    let buf = world.alloc(1, &[0; 8]);
    world.recv(1, &recv_from(0, buf, 7, 70)).unwrap();
    let bytes = world.alloc(0, b"eight by");
    world.send(0, &Send { data: Some(99), ..send_to(1, bytes, 7, 10) }).unwrap();
    let sent = world.only(0);
    assert_eq!((sent.kind, sent.context, sent.outcome), (Kind::Send, 10, Ok(())));

    world.deliver(0, 1);
    let got = world.only(1);
    assert_eq!((got.kind, got.context, got.len, got.tag), (Kind::Recv, 70, 8, 7));
    assert_eq!((got.data, got.peer), (Some(99), Some(PeerId(0))));
    assert_eq!(world.bytes(1, buf), b"eight by");
    assert_eq!(world.sent_packets(0, 1), ["put"]);
    assert_eq!(world.processes[1].endpoint.stats().unexpected, 0);
}

#[test]
fn an_unexpected_message_waits_in_lent_memory_and_keeps_its_credit() {
    let mut world = World::pair(Mode::default());
    let bytes = world.alloc(0, b"early");
    world.send(0, &send_to(1, bytes, 7, 10)).unwrap();
    world.run();
    assert_eq!(world.processes[1].endpoint.stats().unexpected_now, 1);
    assert_eq!(world.processes[1].port.net().lent(1), (5, 0));
    assert_eq!(world.processes[1].endpoint.links().slots_held(), 1);

    let buf = world.alloc(1, &[0; 5]);
    world.recv(1, &recv_from(0, buf, 7, 70)).unwrap();
    assert_eq!(world.only(1).outcome, Ok(()));
    assert_eq!(world.bytes(1, buf), b"early");
    assert_eq!(world.processes[1].port.net().lent(1), (0, 0));
    assert_eq!(world.processes[1].endpoint.links().slots_held(), 0);
}

#[test]
fn a_message_of_no_bytes_lends_nothing_and_arrives() {
    let mut world = World::pair(Mode::default());
    world.send(0, &send_to(1, Region::EMPTY, 7, 10)).unwrap();
    world.run();
    assert_eq!(world.processes[1].port.net().lent(1), (0, 0));
    world.recv(1, &recv_from(0, Region::EMPTY, 7, 70)).unwrap();
    let got = world.only(1);
    assert_eq!((got.len, got.outcome), (0, Ok(())));
}

#[test]
fn what_does_not_fit_is_cut_off_and_said() {
    for early in [false, true] {
        let mut world = World::pair(Mode::default());
        let bytes = world.alloc(0, b"too long");
        let whole = world.alloc(1, &[0; 8]);
        if early {
            world.send(0, &send_to(1, bytes, 7, 10)).unwrap();
            world.run();
            world.recv(1, &recv_from(0, whole.truncated(3), 7, 70)).unwrap();
        } else {
            world.recv(1, &recv_from(0, whole.truncated(3), 7, 70)).unwrap();
            world.send(0, &send_to(1, bytes, 7, 10)).unwrap();
            world.run();
        }
        let got = world.only(1);
        assert_eq!((got.len, got.outcome), (3, Err(Failure::Truncated { excess: 5 })));
        assert_eq!(world.bytes(1, whole), b"too\0\0\0\0\0");
        assert_eq!(world.only(0).outcome, Ok(()), "MPI calls that sent");
    }
}

#[test]
fn the_two_spaces_do_not_meet() {
    let mut world = World::pair(Mode::default());
    let buf = world.alloc(1, &[0; 1]);
    world.recv(1, &recv_from(0, buf, 0, 70)).unwrap();
    let bytes = world.alloc(0, b"u");
    world.send(0, &Send { space: Space::Untagged, ..send_to(1, bytes, 0, 10) }).unwrap();
    world.run();
    assert_eq!(world.pop(1), None);
    assert_eq!(world.processes[1].endpoint.stats().unexpected_now, 1);
}

#[test]
fn the_oldest_receive_of_a_context_is_cancelled_first_and_only_once() {
    let mut world = World::pair(Mode::default());
    let first = world.alloc(1, &[0; 4]);
    let second = world.alloc(1, &[0; 4]);
    world.recv(1, &recv_from(0, first, 7, 70)).unwrap();
    world.recv(1, &recv_from(0, second, 7, 70)).unwrap();
    assert!(world.cancel(1, 70));
    let cancelled = world.only(1);
    assert_eq!((cancelled.buf, cancelled.outcome), (first.addr, Err(Failure::Cancelled)));

    let bytes = world.alloc(0, b"here");
    world.send(0, &send_to(1, bytes, 7, 10)).unwrap();
    world.run();
    assert_eq!(world.only(1).buf, second.addr);
    assert!(!world.cancel(1, 70), "it has met its message");
    assert_eq!(world.bytes(1, first), [0; 4]);
}

#[test]
fn what_nobody_waits_for_is_delivered_as_soon_as_it_is_kept() {
    let mut world = World::pair(Mode::default());
    let bytes = world.alloc(0, b"sure");
    world.send(0, &Send { delivery: Some(Delivery::Arrived), ..send_to(1, bytes, 7, 10) }).unwrap();
    assert_eq!(world.pop(0), None, "it is on its way");
    world.run();
    assert_eq!(world.only(0).outcome, Ok(()));
    assert_eq!(world.processes[1].endpoint.stats().unexpected_now, 1);
    world.processes[0].port.fill(bytes, 0);

    let buf = world.alloc(1, &[0; 4]);
    world.forget_packets();
    world.recv(1, &recv_from(0, buf, 7, 70)).unwrap();
    assert_eq!(world.only(1).outcome, Ok(()));
    assert_eq!(world.bytes(1, buf), b"sure");
    world.run();
    assert_eq!(world.pop(0), None, "it is told once");
    assert_eq!(world.sent_packets(1, 0), Vec::<&str>::new(), "nothing more is said");
}

#[test]
fn a_match_is_told_when_the_receiver_has_the_message_in_its_buffer() {
    let mut world = World::pair(Mode::default());
    let bytes = world.alloc(0, b"sure");
    world.send(0, &Send { delivery: Some(Delivery::Matched), ..send_to(1, bytes, 7, 10) }).unwrap();
    world.run();
    assert_eq!(world.pop(0), None, "it has arrived, but nobody has received it");

    let buf = world.alloc(1, &[0; 4]);
    world.recv(1, &recv_from(0, buf, 7, 70)).unwrap();
    assert_eq!(world.only(1).outcome, Ok(()));
    assert_eq!(world.pop(0), None, "the acknowledgement is on its way");
    world.run();
    assert_eq!(world.only(0).outcome, Ok(()));
}

#[test]
fn a_pending_transmission_ends_its_send_and_not_before() {
    let mut world = World::pair(Mode { pending_percent: 100, ..Mode::default() });
    let buf = world.alloc(1, &[0; 4]);
    world.recv(1, &recv_from(0, buf, 7, 70)).unwrap();
    let bytes = world.alloc(0, b"slow");
    world.send(0, &send_to(1, bytes, 7, 10)).unwrap();
    world.idle(0);
    assert_eq!(world.pop(0), None);
    world.run();
    assert_eq!(world.only(0).outcome, Ok(()));
    assert_eq!(world.bytes(1, buf), b"slow");
}

/// A rail may hear of the end of its own write after the target has answered.
#[test]
fn an_acknowledgement_may_come_before_the_rail_is_done_with_the_memory() {
    let mut world = World::pair(Mode { pending_percent: 100, ..Mode::default() });
    let buf = world.alloc(1, &[0; 4]);
    world.recv(1, &recv_from(0, buf, 7, 70)).unwrap();
    let bytes = world.alloc(0, b"fast");
    world.send(0, &Send { delivery: Some(Delivery::Arrived), ..send_to(1, bytes, 7, 10) }).unwrap();
    world.happen(world::net::Event::Write(0, 1));
    world.deliver(0, 1);
    assert_eq!(world.only(1).outcome, Ok(()));
    world.deliver(1, 0);
    assert_eq!(world.pop(0), None, "the rail still has the memory");
    world.run();
    assert_eq!(world.only(0).outcome, Ok(()));
    assert_eq!(world.processes[0].endpoint.stats().violations, 0);
}

#[test]
fn an_injected_message_without_credit_is_refused_beyond_the_memory_for_such() {
    let mut world = World::pair(Mode::default());
    let quota = world.data_credits(0, 1);
    for context in 0..u64::from(quota) {
        world.send(0, &Send { inject: true, ..send_to(1, Region::EMPTY, 7, context) }).unwrap();
    }
    assert_eq!(world.processes[0].endpoint.stats().injected_bytes_now, 0);
    let one_more = Send { inject: true, ..send_to(1, Region::EMPTY, 7, 9999) };
    world.send(0, &one_more).unwrap();
    let each = world.processes[0].endpoint.stats().injected_bytes_now;
    for _ in 1..(64 << 20) / each {
        world.checks = false;
        world.send(0, &one_more).unwrap();
    }
    assert_eq!(world.send(0, &one_more), Err(Refused::Again));
    let long = Region { len: 8193, ..Region::EMPTY };
    let too_long = Send { buf: long, ..one_more };
    assert_eq!(world.send(0, &too_long), Err(Refused::TooLong { len: 8193, max: 8192 }));
}

#[test]
fn memory_past_the_end_of_the_address_space_is_a_fault() {
    let mut world = World::pair(Mode::default());
    let buf = Region { addr: sluice_wire::Addr(u64::MAX - 3), len: 100 };
    world.send(0, &send_to(1, buf, 7, 10)).unwrap();
    assert_eq!(world.only(0).outcome, Err(Failure::Fault));
}

/// Whether a message of this length was sent eagerly, and arrived as it was.
fn is_eager(mode: Mode, config: Config, len: usize, inject: bool) -> bool {
    let mut world = World::new(&[roomy(); 2], mode, config, 1);
    let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
    let from = world.alloc(0, &bytes);
    let to = world.alloc(1, &vec![0; len]);
    world.recv(1, &recv_from(0, to, 7, 70)).unwrap();
    world.run();
    world.send(0, &Send { inject, ..send_to(1, from, 7, 10) }).unwrap();
    world.run();
    assert_eq!(world.bytes(1, to), bytes);
    world.processes[0].endpoint.stats().eager_sent == 1
}

#[test]
fn over_a_network_longer_messages_are_eager_and_injected_ones_in_any_case() {
    let network = Mode { is_network: true, ..Mode::default() };
    // Half of a share in this mailbox holds no more.
    let (eager_bytes_max, network_eager_bytes_max) = (16 << 10, 32 << 10);
    let config = Config { eager_bytes_max, network_eager_bytes_max, ..Config::default() };
    assert!(is_eager(network, config, 32 << 10, false));
    assert!(!is_eager(network, config, (32 << 10) + 1, false));
    assert!(!is_eager(Mode::default(), config, 16385, false));
    // The shorter limit of the two is no limit of the other.
    let short = Config { network_eager_bytes_max: 100, ..config };
    assert!(is_eager(network, short, 100, false) && !is_eager(network, short, 101, false));
    assert!(is_eager(Mode::default(), short, 4096, false));
    assert!(is_eager(network, short, 4096, true));
}

/// The half of a share that is kept for announcements is never granted to it.
#[test]
fn a_message_that_only_the_whole_share_holds_is_announced_at_once() {
    let network = Mode { is_network: true, ..Mode::default() };
    let mut world = World::new(&[roomy(); 2], network, Config::default(), 1);
    let quota = world.data_credits(0, 1);
    assert!(quota >= 1024, "as many slots as 60 KiB take");
    let (short, long) = (world.alloc(0, &[1; 8]), world.alloc(0, &vec![2; 60_000]));
    let to = world.alloc(1, &vec![0; 60_000]);
    world.send(0, &send_to(1, short, 7, 10)).unwrap();
    world.run();
    world.send(0, &send_to(1, long, 8, 11)).unwrap();
    let stats = world.processes[0].endpoint.stats();
    assert_eq!((stats.eager_sent, stats.rendezvous_sent), (1, 1));
    world.recv(1, &recv_from(0, to, 8, 70)).unwrap();
    world.run();
    assert_eq!(world.bytes(1, to), [2; 60_000]);
}
