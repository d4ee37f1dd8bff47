//! The simulated port itself: memory that faults, and moves in both directions.

use crate::net;
use crate::net::{Mode, NetPort};
use sluice_link::{KeyError, LocalMemory, RailError, Remote, RemoteMemory, Rights, Token};
use sluice_wire::{PeerId, Region, RemoteKey};

fn pair() -> [NetPort; 2] {
    let mut ports = NetPort::network(vec![net::roomy(); 2], Mode::default(), 1);
    let second = ports.pop().unwrap();
    [ports.pop().unwrap(), second]
}

const BOTH: Rights = Rights { read: true, write: true };

fn part(region: Region, begin: u64, len: u64) -> Region {
    Region { addr: region.addr.offset(begin), len }
}

#[test]
fn a_write_moves_bytes_there_and_a_read_here() {
    let [mut a, mut b] = pair();
    let (here, there) = (a.alloc(b"from a"), b.alloc(b"from b"));
    let key = b.expose(PeerId(0), there, BOTH);
    assert!(a.caps(PeerId(1)).write);
    a.write_remote(PeerId(1), part(here, 0, 4), Remote { key, offset: 2 }, Token(1));
    let (ended, outcome) = a.net_mut().end_read(0);
    assert_eq!((ended.token, ended.is_write, outcome), (Token(1), true, Ok(())));
    assert_eq!(b.bytes(there), b"frfrom");
    assert_eq!(a.bytes(here), b"from a");
    a.read_remote(PeerId(1), Remote::whole(key), here, Token(2));
    let (ended, outcome) = a.net_mut().end_read(0);
    assert_eq!((ended.token, ended.is_write, outcome), (Token(2), false, Ok(())));
    assert_eq!(a.bytes(here), b"frfrom");
}

#[test]
fn what_is_barred_faults_here_and_there() {
    let [mut a, mut b] = pair();
    let (here, there) = (a.alloc(&[1; 8]), b.alloc(&[2; 8]));
    let there_key = Remote::whole(b.expose(PeerId(0), there, BOTH));
    a.protect(part(here, 4, 2));
    assert!(a.readable(here) && !a.writable(here));
    assert!(a.writable(part(here, 0, 4)) && a.writable(part(here, 6, 2)));
    b.unmap(part(there, 6, 1));
    assert!(!b.readable(there) && !b.writable(there));
    let end = |port: &NetPort| port.net_mut().end_read(0).1;
    a.read_remote(PeerId(1), there_key, here, Token(1));
    assert_eq!(end(&a), Err(RailError::Fault));
    assert_eq!(a.bytes(here), [2, 2, 2, 2, 1, 1, 1, 1], "what lies before it is moved");
    a.write_remote(PeerId(1), here, there_key, Token(2));
    assert_eq!(end(&a), Err(RailError::Fault));
    b.map(there);
    assert_eq!(b.bytes(there), [2, 2, 2, 2, 1, 1, 2, 2]);
    a.write_remote(PeerId(1), here, there_key, Token(3));
    assert_eq!(end(&a), Ok(()));
    let beyond = part(there, 1 << 40, 4);
    assert!(!b.readable(beyond));
    let beyond = Remote::whole(b.expose(PeerId(0), beyond, BOTH));
    a.write_remote(PeerId(1), part(here, 0, 4), beyond, Token(4));
    assert_eq!(end(&a), Err(RailError::Fault));
    assert!(a.net().misused.is_empty(), "the memory was exposed");
    assert!(a.readable(Region::EMPTY) && a.writable(Region::EMPTY));
}

#[test]
#[should_panic(expected = "cannot be written")]
fn a_machine_that_does_not_ask_is_found_out() {
    let [mut a, _] = pair();
    let here = a.alloc(&[0; 8]);
    a.unmap(here);
    a.store(here.addr, &[1]);
}

#[test]
fn a_value_is_exchanged_if_it_is_the_old_one() {
    let [mut a, _] = pair();
    let here = a.alloc(&[1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(a.compare_exchange(here.addr, 2, 0, 0), Err(0x0201));
    assert_eq!(a.compare_exchange(here.addr, 2, 0xff_0201, 0xff_0000), Ok(()));
    let mut bytes = [0; 4];
    a.load(here.addr, &mut bytes);
    assert_eq!(bytes, [0, 0, 3, 4]);
}

#[test]
fn a_key_that_is_not_valid_is_a_fault_and_is_noted() {
    let [mut a, mut b] = pair();
    let (here, there) = (a.alloc(&[1; 8]), b.alloc(&[2; 8]));
    let of_a = PeerId(0);
    let (read, write) = (b.expose(of_a, there, Rights::READ), b.expose(of_a, there, Rights::WRITE));
    let (of_b, revoked) =
        (b.expose(PeerId(1), there, BOTH), b.expose(of_a, part(there, 0, 1), BOTH));
    b.revoke(of_a, revoked);
    let end = |port: &NetPort| {
        let mut net = port.net_mut();
        (net.end_read(0).1, net.misused.pop())
    };
    for (key, offset, why) in [
        (write, 0, KeyError::Right),
        (read, 1, KeyError::Bounds),
        (read, u64::MAX, KeyError::Bounds),
        (of_b, 0, KeyError::Peer),
        (revoked, 0, KeyError::Unknown),
        (RemoteKey::NONE, 0, KeyError::Unknown),
    ] {
        a.read_remote(PeerId(1), Remote { key, offset }, here, Token(1));
        assert_eq!(end(&a), (Err(RailError::Fault), Some((0, 1, why))));
    }
    a.write_remote(PeerId(1), here, Remote::whole(read), Token(2));
    assert_eq!(end(&a), (Err(RailError::Fault), Some((0, 1, KeyError::Right))));
    assert_eq!((a.bytes(here), b.bytes(there)), (vec![1; 8], vec![2; 8]), "no byte was moved");
}

#[test]
#[should_panic(expected = "revoked once")]
fn a_key_that_is_revoked_twice_is_found_out() {
    let [mut a, _] = pair();
    let key = a.expose(PeerId(1), Region::EMPTY, Rights::READ);
    a.revoke(PeerId(1), key);
    a.revoke(PeerId(1), key);
}

#[test]
#[should_panic(expected = "exposes 1 regions")]
fn memory_that_stays_exposed_is_found_out() {
    let [mut a, _] = pair();
    a.expose(PeerId(1), Region::EMPTY, Rights::READ);
    a.net().check_exposures(0, true);
    a.net().check_exposures(0, false);
}

#[test]
#[should_panic(expected = "0 used a key of 1")]
fn a_use_of_a_revoked_key_is_found_out() {
    let [mut a, mut b] = pair();
    let key = b.expose(PeerId(0), Region::EMPTY, Rights::READ);
    b.revoke(PeerId(0), key);
    a.read_remote(PeerId(1), Remote::whole(key), Region::EMPTY, Token(1));
    let _ = a.net_mut().end_read(0);
    a.net().check_exposures(0, true);
}
