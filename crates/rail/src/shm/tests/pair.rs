//! Two rails in one process.

use super::super::{BulkKind, Config, Shm, bytes_per_idle_peer};
use super::{
    Noise, Recorder, grant_of, open, open_memfd, poll, poll_until, put, region_of, send, settle,
};
use crate::address::{Address, AddressError, Secret};
use crate::shm::Warn;
use crate::shm::card::{Card, Place};
use crate::shm::error::CardError;
use sluice_link::{LocalMemory, PeerError, RemoteMemory, Token, Transport};
use sluice_wire::{
    Credits, List, Nanos, Packet, PacketSeq, PeerId, Region, Reply, Status, slots_for,
};
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

#[test]
fn packets_of_every_length_arrive_whole() {
    let (mut a, mut b) = (open(), open());
    let to_b = a.peer(&b.address()).unwrap();
    let grant = grant_of(&mut a, to_b);
    assert_eq!(grant, b.layout().grant);
    let mut machine = Recorder::default();
    let mut noise = Noise(7);
    for len in (0..600).chain([4095, 8192, 30_000, 50_000]) {
        let payload = noise.bytes(len);
        assert!(slots_for(40, len as u64) <= u32::from(grant.data_slots));
        send(&mut a, to_b, put(len as u64, 5), &payload);
        assert_eq!(poll(&mut b, &mut machine), 1);
        let arrived = machine.packets.pop().unwrap();
        assert_eq!(arrived.put().match_bits.0, len as u64);
        assert_eq!(arrived.payload, payload, "length {len}");
        assert_eq!(b.peer_address(arrived.from), Some(a.address()));
    }
    assert_eq!(a.stats().packets_out, b.stats().packets_in);
    assert_eq!(b.stats().violations, 0);
}

#[test]
fn an_answer_finds_its_way_back() {
    let (mut a, mut b) = (open(), open());
    let to_b = a.peer(&b.address()).unwrap();
    a.connect(to_b).unwrap();
    send(&mut a, to_b, put(1, 0), b"question");
    let mut machine = Recorder::default();
    poll(&mut b, &mut machine);
    let to_a = machine.packets[0].from;
    assert_eq!(b.peer(&a.address()), Ok(to_a), "the same id as by address");
    b.connect(to_a).unwrap();
    send(&mut b, to_a, put(2, 0), b"answer");
    let mut machine = Recorder::default();
    poll(&mut a, &mut machine);
    assert_eq!((machine.packets[0].from, &machine.packets[0].payload[..]), (to_b, &b"answer"[..]));
}

/// By the caller's coarse clock, chunks that took a while seem to come at once.
#[test]
fn a_long_answer_comes_with_the_time_of_its_arrival() {
    let (mut a, mut b) = (open(), open());
    let to_b = a.peer(&b.address()).unwrap();
    a.connect(to_b).unwrap();
    let reply = Packet::Reply(Reply { op: 1, offset: 0, list: List::Priority, status: Status::Ok });
    send(&mut a, to_b, reply, &[1; 15_000]);
    send(&mut a, to_b, reply, &[1; 15]);
    let mut machine = Recorder::default();
    b.poll(Nanos(5), &mut machine, 16);
    let [long, short] = machine.times[..] else { panic!("two answers: {:?}", machine.times) };
    assert!(long > Nanos(5) && long <= b.refresh_now());
    assert_eq!(short, Nanos(5), "a short one costs no look at the clock");
}

#[test]
fn a_process_can_send_to_itself() {
    let mut shm = open();
    let own = shm.own_peer();
    assert_eq!(shm.peer(&shm.address()), Ok(own));
    shm.connect(own).unwrap();
    let mut machine = Recorder::default();
    send(&mut shm, own, put(1, 2), &[3; 500]);
    poll(&mut shm, &mut machine);
    assert_eq!((machine.packets[0].from, &machine.packets[0].payload), (own, &vec![3; 500]));
}

#[test]
fn a_label_travels_with_the_address_and_with_the_packets() {
    let mut reader = open();
    let mut writer = Shm::open(Config { label: 0xabcd, ..Config::default() }).unwrap();
    assert_eq!(writer.peer_label(writer.own_peer()), 0xabcd);
    let to_reader = writer.peer(&reader.address()).unwrap();
    writer.connect(to_reader).unwrap();
    assert_eq!(writer.peer_label(to_reader), 0);
    send(&mut writer, to_reader, put(1, 0), b"x");
    let mut machine = Recorder::default();
    poll(&mut reader, &mut machine);
    assert_eq!(reader.peer_label(machine.packets[0].from), 0xabcd);
    assert_eq!(reader.peer_label(PeerId(77)), 0);
}

#[test]
fn a_full_mailbox_says_so() {
    let config = Config { senders_max: 2, ..Config::default() };
    let target = Shm::open(config).unwrap();
    let mut senders = [open(), open(), open()];
    let answers = senders.each_mut().map(|sender| {
        let peer = sender.peer(&target.address()).unwrap();
        sender.connect(peer).map(drop)
    });
    assert_eq!(answers, [Ok(()), Ok(()), Err(PeerError::Full)]);
}

#[test]
fn peers_are_named_once_and_only_on_this_machine() {
    let (mut a, b) = (open_memfd(), open_memfd());
    let peer = a.peer(&b.address()).unwrap();
    assert_eq!(a.peer(&b.address()), Ok(peer));
    assert_eq!(a.peer_address(peer), Some(b.address()));
    assert_eq!(a.describe(peer), format!("process {}", b.address()));
    a.connect(peer).unwrap();
    assert_eq!(a.describe(peer), format!("pid {}", std::process::id()));
    let elsewhere = Address::local(b.address().tag() ^ 1, [1; 32]);
    assert_eq!(a.peer(&elsewhere), Err(AddressError::OtherHost));
    assert_eq!(a.admit(&b.card).unwrap(), peer);
    let other = Card { start_time: b.card.start_time + 1, ..b.card };
    assert!(matches!(a.admit(&other), Err(CardError::Conflict { .. })));
    let fresh = Card { key: [3; 32], ..b.card };
    let ns = Card { pid_ns: fresh.pid_ns + 1, ..fresh };
    assert!(matches!(a.admit(&ns), Err(CardError::PidNamespace { .. })));
    // A boot that has the same tag.
    let boot = Card { host: fresh.host ^ 0x0001_0001, ..fresh };
    assert_eq!(boot.address().tag(), fresh.address().tag());
    assert!(matches!(a.admit(&boot), Err(CardError::OtherHost)));
    let uid = a.identity.uid;
    let foreign = Card { place: Place::File { uid: uid + 1 }, ..fresh };
    assert!(matches!(a.admit(&foreign), Err(CardError::OtherUser { owner }) if owner == uid + 1));
    assert_eq!(a.stats().peers_known, 2, "who is refused is not known");
}

/// An address on the network of the process with this rail's tag.
fn on_network(rail: &Shm, key: u8) -> Address {
    let host = "127.0.0.1:4660".parse().unwrap();
    Address::local(rail.address().tag(), [key; 32]).with_network(host, Secret([9; 6])).unwrap()
}

#[test]
fn an_address_that_was_made_elsewhere_is_the_mailbox_s() {
    let mut a = open();
    let address = on_network(&a, 7);
    let mut b = Shm::open(Config { address: Some(address), ..Config::default() }).unwrap();
    assert_eq!(b.address(), address);
    assert_eq!(b.peer(&address), Ok(b.own_peer()));
    assert_eq!(b.peer_address(b.own_peer()), Some(address));
    assert_eq!(b.stats().peers_known, 1);
    let peer = a.peer(&address).unwrap();
    a.connect(peer).unwrap();
    assert_eq!(a.describe(peer), format!("pid {}", std::process::id()));
    assert_eq!(a.peer_address(peer), Some(address));
}

#[test]
fn a_peer_known_by_its_card_gets_the_network_of_its_address() {
    let mut a = open();
    let address = on_network(&a, 7);
    let peer = a.admit(&Card { key: *address.key(), ..a.card }).unwrap();
    assert_eq!(a.peer_address(peer).unwrap().host(), None);
    assert_eq!(a.peer(&address), Ok(peer));
    assert_eq!(a.peer_address(peer), Some(address));
    let local = Address::local(address.tag(), *address.key());
    assert_eq!(a.peer(&local), Ok(peer));
    assert_eq!(a.peer_address(peer), Some(address), "what is known stays");
}

#[test]
fn a_mailbox_that_is_no_more_is_unreachable_and_a_dead_process_dead() {
    let warn = Warn(|line| panic!("nothing is to be warned of: {line}"));
    let mut a = Shm::open(Config { warn, ..Config::default() }).expect("a rail opens here");
    let gone = open();
    let closed = a.peer(&gone.address()).unwrap();
    a.watch(closed);
    drop(gone);
    assert_eq!(a.connect(closed), Err(PeerError::Unreachable));
    let dead = Card { key: [3; 32], start_time: a.card.start_time + 1, ..a.card };
    let peer = a.admit(&dead).unwrap();
    assert_eq!(a.connect(peer), Err(PeerError::Dead));
    let mut machine = Recorder::default();
    send(&mut a, peer, put(0, 0), b"swallowed");
    poll_until(&mut a, &mut machine, "both ends", |_, machine| machine.gone.len() == 2);
    settle(&mut a, &mut machine);
    machine.gone.sort_by_key(|(peer, _)| *peer);
    let ends = [(closed, PeerError::Dead), (peer, PeerError::Dead)];
    assert_eq!(machine.gone, ends, "who waits for one of them is told");
}

/// A process goes on without its mailbox, and opens other files.
#[test]
fn another_file_behind_the_descriptor_of_a_closed_mailbox_is_not_told_of() {
    let warn = Warn(|line| panic!("nothing is to be warned of: {line}"));
    let mut a = Shm::open(Config { warn, ..Config::default() }).expect("a rail opens here");
    let path = std::env::temp_dir().join(format!("sluice-reused-{}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let (socket, _other) = UnixStream::pair().unwrap();
    let (pipe, _writer) = std::io::pipe().unwrap();
    let mailbox = open();
    let Place::Memfd { fd: another } = mailbox.card.place else { panic!("no file was asked for") };
    let fds = [file.as_raw_fd(), socket.as_raw_fd(), pipe.as_raw_fd()].map(RawFd::cast_unsigned);
    for (i, fd) in fds.into_iter().chain([another]).enumerate() {
        let card = Card { key: [100 + i as u8; 32], place: Place::Memfd { fd }, ..a.card };
        let peer = a.admit(&card).unwrap();
        a.watch(peer);
        assert!(a.has_no_mailbox(peer), "file {i}");
        assert_eq!(a.connect(peer), Err(PeerError::Unreachable), "file {i}");
    }
}

#[test]
fn an_unparsable_packet_gives_its_sender_up() {
    let (mut a, mut b) = (open(), open());
    let to_b = a.peer(&b.address()).unwrap();
    a.connect(to_b).unwrap();
    send(&mut a, to_b, put(1, 0), b"fine");
    // A payload longer than any quota, of which nothing is there.
    let head = put(2, 0).emit(PacketSeq(0), Credits::default(), u32::MAX);
    a.transmit(to_b, &head, Region::EMPTY, Token(0));
    send(&mut a, to_b, put(3, 0), b"too late");
    let mut machine = Recorder::default();
    for _ in 0..100 {
        poll(&mut b, &mut machine);
    }
    assert_eq!(machine.packets.len(), 1);
    let from = machine.packets[0].from;
    assert_eq!(machine.gone, [(from, PeerError::Protocol)]);
    assert_eq!(b.stats().violations, 1);
}

#[test]
fn lies_about_the_ring_do_not_stop_it() {
    let (mut a, mut b) = (open(), open());
    let to_b = a.peer(&b.address()).unwrap();
    a.connect(to_b).unwrap();
    let tail = b.segment.word_at(super::super::segment::Segment::tail_offset());
    tail.store(1 << 40, std::sync::atomic::Ordering::Relaxed);
    let mut machine = Recorder::default();
    poll_until(&mut b, &mut machine, "the jump", |b, _| b.stats().violations == 1);
    send(&mut a, to_b, put(1, 0), b"after");
    poll_until(&mut b, &mut machine, "a packet", |_, machine| machine.packets.len() == 1);
}

#[test]
fn idle_comes_when_the_mailbox_turns_empty_and_when_it_is_due() {
    let (mut a, mut b) = (open(), open());
    let to_b = a.peer(&b.address()).unwrap();
    a.connect(to_b).unwrap();
    let mut machine = Recorder::default();
    send(&mut a, to_b, put(1, 0), b"x");
    poll(&mut b, &mut machine);
    let before = machine.idles;
    poll(&mut b, &mut machine);
    assert_eq!(machine.idles, before + 1);
    machine.deadline = Some(Nanos(0));
    for _ in 0..5 {
        poll(&mut b, &mut machine);
    }
    assert_eq!(machine.idles, before + 6);
}

#[test]
fn a_budget_is_kept() {
    let (mut a, mut b) = (open(), open());
    let to_b = a.peer(&b.address()).unwrap();
    a.connect(to_b).unwrap();
    for n in 0..10 {
        send(&mut a, to_b, put(n, 0), b"x");
    }
    let mut machine = Recorder::default();
    assert_eq!(b.poll(Nanos(0), &mut machine, 4), 4);
    assert_eq!(b.poll(Nanos(0), &mut machine, 100), 6);
    assert_eq!(b.poll(Nanos(0), &mut machine, 100), 0);
}

#[test]
fn without_direct_reads_nothing_can_be_read() {
    let mut a = Shm::open(Config { bulk: BulkKind::Ring, ..Config::default() }).unwrap();
    let b = open();
    let to_b = a.peer(&b.address()).unwrap();
    a.connect(to_b).unwrap();
    a.connect(a.own_peer()).unwrap();
    assert!(!a.caps(to_b).read && !a.caps(a.own_peer()).read);
    assert!(!a.caps(to_b).write && !a.caps(a.own_peer()).write);
}

#[test]
fn lent_memory_is_counted() {
    let mut shm = open();
    let block = shm.lend(1000);
    shm.copy(region_of(&[5; 1000]).addr, block, 1000);
    assert_eq!(shm.stats().lent_now_bytes, 1000);
    shm.give_back(block, 1000);
    assert_eq!((shm.stats().lent_now_bytes, shm.stats().lent_peak_bytes), (0, 1000));
}

#[test]
fn a_peer_that_is_only_known_costs_little() {
    // With the 16 bytes of an endpoint above it this is less than 256.
    assert!(bytes_per_idle_peer() <= 240, "{}", bytes_per_idle_peer());
    let mut shm = open_memfd();
    let own = shm.address();
    for n in 1..1000 {
        let mut key = *own.key();
        key[..4].copy_from_slice(&u32::to_le_bytes(n));
        shm.peer(&Address::local(own.tag(), key)).unwrap();
    }
    let stats = shm.stats();
    assert_eq!((stats.peers_known, stats.peers_attached), (1000, 0));
    // An untouched mailbox occupies its first pages only.
    assert!(stats.resident_bytes <= 64 << 10, "{stats:?}");
}

#[test]
fn a_credit_packet_is_one_slot() {
    let head = Packet::Credit.emit(PacketSeq(0), Credits { data: 3, control: 1 }, 0);
    assert_eq!(slots_for(head.len() as u64, 0), 1);
}
