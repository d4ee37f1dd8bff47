//! Memory that is taken back while a peer reads or writes it, and memory that was never given.

use super::failures::{BRISK, HOUR_NS, Pair, config, directly, pattern};
use super::relay::{Course, Relay};
use super::{Process, region, region_mut, until};
use sluice_link::{
    ClaimsId, Connect, RailError, Remote, RemoteMemory, Rights, SharedCopy, Token, Transport,
};
use sluice_multirail::Timing;
use std::num::NonZeroU32;

#[test]
fn memory_that_is_taken_back_from_a_writer_is_not_written_any_more() {
    const LEN: usize = 2 << 20;
    let mut pair = Pair::met(2, BRISK);
    let (to_a, to_b) = (pair.to_a, pair.to_b);
    let from = pattern(LEN, 8);
    for (at, bytes) in (0..).zip([30_000, 100_000, 300_000]) {
        let mut into = vec![0u8; LEN];
        let key = pair.b.world.expose(to_a, region_mut(&mut into), Rights::WRITE);
        pair.relays.iter_mut().for_each(|relay| relay.left = Some(bytes));
        pair.a.world.write_remote(to_b, region(&from), Remote::whole(key), Token(at));
        pair.until("a part of it", |pair| pair.relays.iter().any(|relay| relay.left == Some(0)));
        for _ in 0..100 {
            pair.poll();
        }
        pair.b.world.revoke(to_a, key);
        into.fill(0xdb);
        pair.relays.iter_mut().for_each(|relay| relay.left = None);
        pair.until("the end", |pair| !pair.a.machine.moved.is_empty());
        assert_eq!(pair.a.machine.moved.drain(..).as_slice(), [(Token(at), Err(RailError::Fault))]);
        for _ in 0..1000 {
            pair.poll();
        }
        assert!(into.iter().all(|&byte| byte == 0xdb), "written after {bytes} bytes");
    }
    pair.check_packets(0);
}

#[test]
fn a_read_of_memory_that_is_taken_back_meanwhile_ends() {
    const LEN: usize = 2 << 20;
    let mut pair = Pair::met(2, BRISK);
    let (to_a, to_b) = (pair.to_a, pair.to_b);
    for (at, bytes) in (0..).zip([0, 30, 30_000, 300_000]) {
        let from = pattern(LEN, 9);
        let mut into = vec![0u8; LEN];
        let key = pair.b.world.expose(to_a, region(&from), Rights::READ);
        // Little fits the system's buffers, so chunks wait that were asked for.
        pair.b.shrink_buffers();
        pair.relays.iter_mut().for_each(Relay::shrink_buffers);
        pair.a.world.read_remote(to_b, Remote::whole(key), region_mut(&mut into), Token(at));
        pair.relays.iter_mut().for_each(|relay| relay.left = Some(bytes));
        pair.until("a part of it", |pair| pair.relays.iter().any(|relay| relay.left == Some(0)));
        for _ in 0..100 {
            pair.poll();
        }
        pair.b.world.revoke(to_a, key);
        drop(from);
        pair.relays.iter_mut().for_each(|relay| relay.left = None);
        pair.until("the end", |pair| !pair.a.machine.moved.is_empty());
        assert_eq!(pair.a.machine.moved.drain(..).as_slice(), [(Token(at), Err(RailError::Fault))]);
    }
    pair.check_packets(0);
}

#[test]
fn a_chunk_that_waits_to_be_sent_when_its_memory_is_taken_back_is_a_fault() {
    const LEN: usize = 256 << 10;
    let mut pair = Pair::met(1, Timing { suspect_alone_ns: HOUR_NS, ..BRISK });
    let (to_a, to_b) = (pair.to_a, pair.to_b);
    let from = pattern(LEN, 9);
    let mut into = vec![0u8; LEN];
    let key = pair.b.world.expose(to_a, region(&from), Rights::READ);
    pair.b.shrink_buffers();
    pair.relays.iter_mut().for_each(Relay::shrink_buffers);
    pair.a.world.read_remote(to_b, Remote::whole(key), region_mut(&mut into), Token(1));
    pair.until("a part of the first chunk", |pair| {
        pair.relays.iter_mut().for_each(|relay| {
            if relay.carried > 10_000 {
                relay.course = Course::Hold;
            }
        });
        pair.relays.iter().any(|relay| relay.course == Course::Hold)
    });
    pair.b.world.revoke(to_a, key);
    drop(from);
    pair.set_course(Course::Pass);
    pair.until("the end", |pair| !pair.a.machine.moved.is_empty());
    assert_eq!(pair.a.machine.moved, [(Token(1), Err(RailError::Fault))]);
    pair.check_packets(0);
}

#[test]
fn the_key_of_one_peer_is_of_no_use_to_another() {
    let (mut a, to_b, mut b, to_a) = directly(1, BRISK);
    let mut c = Process::with(config(1, BRISK));
    let c_to_b = c.knows(&b);
    assert_eq!(c.world.connect(c_to_b), Ok(Connect::Pending));
    until(&mut [&mut b, &mut c], "the connection", |all| !all[1].machine.connected.is_empty());
    let mut there = pattern(100, 10);
    let mut here = vec![0u8; 100];
    let key = b.world.expose(to_a, region_mut(&mut there), Rights { read: true, write: true });
    c.world.read_remote(c_to_b, Remote::whole(key), region_mut(&mut here), Token(1));
    c.world.write_remote(c_to_b, region(&here), Remote::whole(key), Token(2));
    until(&mut [&mut b, &mut c], "both faults", |all| all[1].machine.moved.len() == 2);
    assert!(c.machine.moved.iter().all(|(_, how)| *how == Err(RailError::Fault)));
    assert!(here.iter().all(|&byte| byte == 0) && there == pattern(100, 10));
    a.world.read_remote(to_b, Remote::whole(key), region_mut(&mut here), Token(3));
    until(&mut [&mut a, &mut b], "the read", |all| !all[0].machine.moved.is_empty());
    assert_eq!(a.machine.moved, [(Token(3), Ok(()))]);
    assert_eq!(here, there);
}

#[test]
fn chunk_claims_that_a_peer_elsewhere_names_reach_no_shared_memory() {
    let (mut a, to_b, mut b, _) = directly(1, BRISK);
    let bytes = pattern(1 << 20, 11);
    for bits in [1, 2, 1 << 16, u32::MAX] {
        let claims = ClaimsId(NonZeroU32::new(bits).unwrap());
        let into = Remote::whole(sluice_wire::RemoteKey::from_bits(7));
        let shm = a.world.shm_mut();
        assert!(!shm.use_claims(to_b, claims) && shm.are_claims_closed(to_b, claims));
        assert!(shm.open_claims(to_b, sluice_link::ClaimsStart::Free).is_none());
        shm.write_shared(to_b, claims, region(&bytes), into, Token(u64::from(bits)));
        until(&mut [&mut a, &mut b], "the end", |all| !all[0].machine.moved.is_empty());
        let moved = a.machine.moved.drain(..).collect::<Vec<_>>();
        assert_eq!(moved, [(Token(u64::from(bits)), Err(RailError::PeerGone))]);
    }
    assert_eq!((a.machine.gone.len(), b.machine.gone.len()), (0, 0));
}
