//! The simulated port itself: memory that faults, and moves in both directions.

mod net;

use net::{Mode, NetPort};
use sluice_link::{LocalMemory, RailError, RemoteMemory, Token};
use sluice_wire::{PeerId, Region};

fn pair() -> [NetPort; 2] {
    let mut ports = NetPort::network(vec![net::roomy(); 2], Mode::default(), 1);
    let second = ports.pop().unwrap();
    [ports.pop().unwrap(), second]
}

fn part(region: Region, begin: u64, len: u64) -> Region {
    Region { addr: region.addr.offset(begin), len }
}

#[test]
fn a_write_moves_bytes_there_and_a_read_here() {
    let [mut a, b] = pair();
    let (here, there) = (a.alloc(b"from a"), b.alloc(b"from b"));
    assert!(a.caps(PeerId(1)).write);
    a.write_remote(PeerId(1), part(here, 0, 4), there.addr.offset(2), Token(1));
    let (ended, outcome) = a.net_mut().end_read(0);
    assert_eq!((ended.token, ended.is_write, outcome), (Token(1), true, Ok(())));
    assert_eq!(b.bytes(there), b"frfrom");
    assert_eq!(a.bytes(here), b"from a");
    a.read_remote(PeerId(1), there.addr, here, Token(2));
    let (ended, outcome) = a.net_mut().end_read(0);
    assert_eq!((ended.token, ended.is_write, outcome), (Token(2), false, Ok(())));
    assert_eq!(a.bytes(here), b"frfrom");
}

#[test]
fn what_is_barred_faults_here_and_there() {
    let [mut a, b] = pair();
    let (here, there) = (a.alloc(&[1; 8]), b.alloc(&[2; 8]));
    a.protect(part(here, 4, 2));
    assert!(a.readable(here) && !a.writable(here));
    assert!(a.writable(part(here, 0, 4)) && a.writable(part(here, 6, 2)));
    b.unmap(part(there, 6, 1));
    assert!(!b.readable(there) && !b.writable(there));
    let end = |port: &NetPort| port.net_mut().end_read(0).1;
    a.read_remote(PeerId(1), there.addr, here, Token(1));
    assert_eq!(end(&a), Err(RailError::Fault));
    assert_eq!(a.bytes(here), [2, 2, 2, 2, 1, 1, 1, 1], "what lies before it is moved");
    a.write_remote(PeerId(1), here, there.addr, Token(2));
    assert_eq!(end(&a), Err(RailError::Fault));
    b.map(there);
    assert_eq!(b.bytes(there), [2, 2, 2, 2, 1, 1, 2, 2]);
    a.write_remote(PeerId(1), here, there.addr, Token(3));
    assert_eq!(end(&a), Ok(()));
    let beyond = part(there, 1 << 40, 4);
    assert!(!b.readable(beyond));
    a.write_remote(PeerId(1), part(here, 0, 4), beyond.addr, Token(4));
    assert_eq!(end(&a), Err(RailError::Fault));
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
