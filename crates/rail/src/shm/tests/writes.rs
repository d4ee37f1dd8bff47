//! Direct writes, and values in the memory of the client.

use super::child::{Child, OFFERED_BYTES};
use super::reads::reads_work;
use super::{Noise, Recorder, addr_of, at, open, poll, poll_until, put, region_of, send};
use sluice_link::{LocalMemory, RailError, Remote, RemoteMemory, Token, Transport};
use sluice_wire::{Addr, Region};

#[test]
fn memory_of_another_process_is_written() {
    if !reads_work() {
        return;
    }
    let mut shm = open();
    let mut machine = Recorder::default();
    let _child = Child::run("offer", &shm, 0, None);
    poll_until(&mut shm, &mut machine, "an offer", |_, machine| !machine.packets.is_empty());
    let (from, rts) = (machine.packets[0].from, machine.packets[0].put().rts.unwrap());
    assert!(shm.caps(from).write, "known before anything is sent to it");
    // All but the first and the last byte.
    let bytes = Noise(2).bytes(OFFERED_BYTES - 2);
    shm.write_remote(from, region_of(&bytes), Remote { key: rts.from, offset: 1 }, Token(1));
    let small = [7; 100];
    shm.write_remote(from, region_of(&small), at(Addr(16)), Token(2));
    shm.write_remote(from, Region::EMPTY, Remote::whole(rts.from), Token(3));
    let nowhere = Region { addr: Addr(16), len: 100 };
    shm.write_remote(from, nowhere, Remote::whole(rts.from), Token(4));
    let beyond = Region { addr: Addr(u64::MAX - 10), len: 100 };
    shm.write_remote(from, beyond, Remote::whole(rts.from), Token(5));
    poll_until(&mut shm, &mut machine, "the writes", |_, machine| machine.reads.len() == 5);
    assert_eq!(
        machine.reads,
        [
            (Token(2), Err(RailError::Fault)),
            (Token(3), Ok(())),
            (Token(4), Err(RailError::Fault)),
            (Token(5), Err(RailError::Fault)),
            (Token(1), Ok(())),
        ]
    );
    let stats = shm.stats();
    assert_eq!((stats.writes_done, stats.writes_failed), (2, 3));
    assert_eq!(stats.written_bytes, OFFERED_BYTES as u64 - 2);
    let mut back = vec![0; OFFERED_BYTES];
    let to = Region { addr: addr_of(&mut back), len: rts.total_len };
    shm.read_remote(from, Remote::whole(rts.from), to, Token(6));
    poll_until(&mut shm, &mut machine, "the read", |_, machine| machine.reads.len() == 6);
    let (back, before) = (std::hint::black_box(back), Noise(1).bytes(OFFERED_BYTES));
    assert_eq!(back[1..OFFERED_BYTES - 1], bytes);
    assert_eq!((back[0], back.last()), (before[0], before.last()));
    shm.connect(from).unwrap();
    send(&mut shm, from, put(0, 0), b"done");
    poll_until(&mut shm, &mut machine, "its end", |_, machine| !machine.gone.is_empty());
}

/// A pid may be somebody else's by then: nothing is written once the process
/// is known to have ended, even before its end is told.
#[test]
fn nothing_is_written_to_the_dead() {
    let mut shm = open();
    let mut machine = Recorder::default();
    let mut child = Child::run("wait", &shm, 0, None);
    poll_until(&mut shm, &mut machine, "a packet", |_, machine| !machine.packets.is_empty());
    let from = machine.packets[0].from;
    child.kill();
    let bytes = [1; 64];
    shm.write_remote(from, region_of(&bytes), at(Addr(16)), Token(5));
    poll_until(&mut shm, &mut machine, "the write", |_, machine| !machine.reads.is_empty());
    let gone_or_forbidden = [RailError::PeerGone, RailError::Forbidden].map(Err);
    assert!(gone_or_forbidden.contains(&machine.reads[0].1), "{:?}", machine.reads);
    poll_until(&mut shm, &mut machine, "its end", |_, machine| !machine.gone.is_empty());
    assert_eq!(machine.reads.len(), 1);
}

#[test]
fn own_memory_is_written_within_the_poll_that_queued_it() {
    if !reads_work() {
        return;
    }
    let mut shm = open();
    let own = shm.own_peer();
    shm.connect(own).unwrap();
    let source = Noise(9).bytes(64 << 10);
    let mut target = vec![0; source.len()];
    let mut machine = Recorder::default();
    shm.write_remote(own, region_of(&source), at(addr_of(&mut target)), Token(8));
    poll(&mut shm, &mut machine);
    assert_eq!(machine.reads, [(Token(8), Ok(()))]);
    assert_eq!(std::hint::black_box(target), source);
}

#[test]
fn values_of_the_client_are_loaded_stored_and_exchanged() {
    let mut shm = open();
    let mut memory = [1_u64, 2, 3];
    let at = Addr((&raw mut memory).expose_provenance() as u64);
    let mut bytes = [0; 9];
    shm.load(at.offset(7), &mut bytes);
    assert_eq!(bytes, [0, 2, 0, 0, 0, 0, 0, 0, 0]);
    shm.store(at.offset(15), &[5, 6]);
    assert_eq!(shm.compare_exchange(at, 8, 0, 9), Err(1));
    assert_eq!(shm.compare_exchange(at, 8, 1, 9), Ok(()));
    assert_eq!(shm.compare_exchange(at.offset(16), 1, 6, 4), Ok(()));
    assert_eq!(std::hint::black_box(memory), [9, 2 | 5 << 56, 4]);
}
