//! Direct reads.

use super::child::{Child, OFFERED_BYTES};
use super::{Noise, Recorder, addr_of, at, open, poll, poll_until, put, region_of, send};
use crate::shm::probe;
use sluice_link::{PeerError, RailError, Remote, RemoteMemory, Rights, Token, Transport};
use sluice_wire::{Addr, Region};
use std::path::Path;

/// Whether this system allows what these tests test.
pub(super) fn reads_work() -> bool {
    let report = probe::report(Path::new("/dev/shm"));
    report.probe("direct reads").is_some_and(|probe| probe.status == probe::Status::Ok)
}

#[test]
fn memory_of_another_process_is_read() {
    if !reads_work() {
        return;
    }
    let mut shm = open();
    let mut machine = Recorder::default();
    let _child = Child::run("offer", &shm, 0, None);
    poll_until(&mut shm, &mut machine, "an offer", |_, machine| !machine.packets.is_empty());
    let (from, rts) = (machine.packets[0].from, machine.packets[0].put().rts.unwrap());
    assert!(shm.caps(from).read, "known before anything is sent to it");
    let mut bytes = vec![0; OFFERED_BYTES];
    let to = Region { addr: addr_of(&mut bytes), len: rts.total_len };
    shm.read_remote(from, Remote::whole(rts.from), to, Token(1));
    let mut small = [0; 100];
    let to_small = Region { addr: addr_of(&mut small), len: 100 };
    shm.read_remote(from, Remote { key: rts.from, offset: 50 }, to_small, Token(2));
    shm.read_remote(from, at(Addr(16)), to_small, Token(3));
    shm.read_remote(from, Remote::whole(rts.from), Region::EMPTY, Token(4));
    poll_until(&mut shm, &mut machine, "the reads", |_, machine| machine.reads.len() == 4);
    assert_eq!(
        machine.reads,
        [
            (Token(2), Ok(())),
            (Token(3), Err(RailError::Fault)),
            (Token(4), Ok(())),
            (Token(1), Ok(())),
        ]
    );
    let bytes = std::hint::black_box(bytes);
    assert_eq!(bytes, Noise(1).bytes(OFFERED_BYTES));
    assert_eq!(std::hint::black_box(small)[..], bytes[50..150]);
    assert_eq!(shm.stats().read_bytes, rts.total_len + 100);
    shm.connect(from).unwrap();
    send(&mut shm, from, put(0, 0), b"done");
    poll_until(&mut shm, &mut machine, "its end", |_, machine| !machine.gone.is_empty());
}

/// The place is beyond all addresses, and must not come round to one that is mapped.
#[test]
fn an_offset_past_the_end_of_the_address_space_is_a_fault() {
    if !reads_work() {
        return;
    }
    let mut shm = open();
    let own = shm.own_peer();
    shm.connect(own).unwrap();
    let source = Noise(9).bytes(64);
    let mut target = vec![0; source.len()];
    let mut machine = Recorder::default();
    let key = shm.expose(own, region_of(&source), Rights::READ);
    let from = Remote { key, offset: u64::MAX - 15 };
    shm.read_remote(own, from, Region { addr: addr_of(&mut target), len: 32 }, Token(8));
    shm.write_remote(own, region_of(&source).truncated(32), from, Token(9));
    poll(&mut shm, &mut machine);
    let fault = Err(RailError::Fault);
    assert_eq!(machine.reads, [(Token(8), fault), (Token(9), fault)]);
    shm.revoke(own, key);
    assert_eq!(std::hint::black_box(target), [0; 64]);
}

#[test]
fn a_read_of_the_dead_ends_before_their_end_is_told() {
    let mut shm = open();
    let mut machine = Recorder::default();
    let mut child = Child::run("wait", &shm, 0, None);
    poll_until(&mut shm, &mut machine, "a packet", |_, machine| !machine.packets.is_empty());
    let from = machine.packets[0].from;
    child.kill();
    let mut bytes = [0; 64];
    let to = Region { addr: addr_of(&mut bytes), len: 64 };
    shm.read_remote(from, at(Addr(16)), to, Token(5));
    poll_until(&mut shm, &mut machine, "its end", |_, machine| {
        assert!(machine.gone.is_empty() || !machine.reads.is_empty());
        !machine.gone.is_empty()
    });
    assert_eq!(machine.gone, [(from, PeerError::Dead)]);
    assert_eq!(machine.reads.len(), 1);
    assert!(machine.reads[0].1.is_err());
}

#[test]
fn own_memory_is_read_within_the_poll_that_queued_it() {
    if !reads_work() {
        return;
    }
    let mut shm = open();
    let own = shm.own_peer();
    shm.connect(own).unwrap();
    let source = Noise(9).bytes(64 << 10);
    let mut target = vec![0; source.len()];
    let mut machine = Recorder::default();
    let to = Region { addr: addr_of(&mut target), len: source.len() as u64 };
    shm.read_remote(own, at(region_of(&source).addr), to, Token(8));
    poll(&mut shm, &mut machine);
    assert_eq!(machine.reads, [(Token(8), Ok(()))]);
    assert_eq!(std::hint::black_box(target), source);
}
