//! Peers that another rail reaches: shared memory keeps an id and an address for them,
//! and has nothing else to do with them.

use super::super::Copied;
use super::super::Shm;
use super::environment::over_files;
use super::files::Dir;
use super::{Recorder, advance_clock, at, open, put, region_of, settle};
use crate::address::{Address, AddressError};
use crate::shm::card::Card;
use crate::shm::drive;
use crate::shm::error::CardError;
use sluice_link::{
    ClaimsStart, PeerError, RailError, RemoteCaps, RemoteMemory, SharedCopy, Token, Transport,
};
use sluice_wire::{Addr, Credits, Nanos, PacketSeq, PeerId};

/// An address that nothing on this host has.
fn elsewhere(of: &Shm) -> Address {
    let address = of.address();
    Address::local(address.tag() ^ 1, address.key().map(|byte| !byte))
}

/// Lets all be looked after that is looked after now and then.
fn look_after_all(shm: &mut Shm, machine: &mut Recorder) {
    for _ in 0..3 {
        advance_clock(Nanos(1_000_000_000));
        for _ in 0..64 {
            drive::poll(shm, Nanos(0), machine, 16);
        }
    }
    settle(shm, machine);
}

#[test]
fn a_peer_elsewhere_has_an_id_an_address_and_nothing_more() {
    let (mut a, b) = (open(), open());
    let address = elsewhere(&a);
    let there = a.peer_elsewhere(&address).unwrap();
    let here = a.peer(&b.address()).unwrap();
    assert_eq!((there, here), (PeerId(1), PeerId(2)), "ids of one table");
    assert_eq!(a.peer_elsewhere(&address), Ok(there), "the same id each time");
    assert_eq!(a.peer_address(there), Some(address));
    assert_eq!(a.describe(there), format!("process {address}"));
    assert!(a.is_elsewhere(there) && !a.is_elsewhere(here) && !a.is_elsewhere(PeerId(9)));
    assert_eq!(a.connect(there), Err(PeerError::Unreachable));
    a.watch(there);
    a.refuse(there);
    let head = put(1, 2).emit(PacketSeq(0), Credits::default(), 4);
    assert!(!a.write_packet(there, &head, region_of(b"lost")));
    assert_eq!(a.caps(there), RemoteCaps::default());
    assert_eq!(a.open_claims(there, ClaimsStart::Free), None);
    let mut into = [0; 8];
    a.read_remote(there, at(Addr(64)), region_of(&into), Token(7));
    let mut machine = Recorder::default();
    look_after_all(&mut a, &mut machine);
    assert_eq!(machine.reads, [(Token(7), Err(RailError::Forbidden))]);
    assert!(machine.gone.is_empty(), "its end is not this rail's to tell");
    assert_eq!(a.connect(there), Err(PeerError::Unreachable));
    let stats = a.stats();
    assert_eq!((stats.packets_out, stats.peers_attached, stats.violations), (0, 0, 0));
    into[0] = 1;
    let to = Addr(into.as_mut_ptr().expose_provenance() as u64);
    assert_eq!(a.try_copy_payload(0, to, 1), Copied::NotHere);
    assert!(!a.try_payload(0, &mut into) && into[0] == 1, "no packet of this rail is handled");
}

#[test]
fn a_key_is_not_both_here_and_elsewhere() {
    let (mut a, b) = (open(), open());
    let far = elsewhere(&a);
    let there = a.peer_elsewhere(&far).unwrap();
    let here = a.peer(&b.address()).unwrap();
    assert_eq!(a.peer_elsewhere(&b.address()), Err(AddressError::Conflict));
    let moved = Address::local(far.tag() ^ 2, *far.key());
    assert_eq!(a.peer_elsewhere(&moved), Err(AddressError::Conflict));
    let near = Address::local(a.address().tag(), *far.key());
    assert_eq!(a.peer(&near), Err(AddressError::Conflict));
    assert_eq!(a.peer(&far), Err(AddressError::OtherHost));
    assert_eq!((a.peer_elsewhere(&far), a.peer(&b.address())), (Ok(there), Ok(here)));
}

/// Addresses are no secret, so anybody of this host may put the key of one into a card.
#[test]
fn nobody_here_speaks_for_a_peer_elsewhere() {
    let mut a = open();
    let far = elsewhere(&a);
    let there = a.peer_elsewhere(&far).unwrap();
    let card = Card { key: *far.key(), ..a.card };
    let refused = a.admit(&card);
    assert!(matches!(refused, Err(CardError::Address(AddressError::Conflict))), "{refused:?}");
    assert!(refused.is_err_and(|why| why.is_violation()));
    assert_eq!((a.peer_address(there), a.is_elsewhere(there)), (Some(far), true));
}

/// Nobody of this host reaches the process any more. Who is elsewhere still does.
#[test]
fn peers_elsewhere_outlive_a_mailbox_that_was_shortened() {
    let dir = Dir::new("outlived");
    let (mut a, b) = (over_files(&dir.0), over_files(&dir.0));
    let far = elsewhere(&a);
    let there = a.peer_elsewhere(&far).unwrap();
    let here = a.peer(&b.address()).unwrap();
    a.watch(there);
    rustix::fs::ftruncate(a.backing.fd(), 0).unwrap();
    let mut machine = Recorder::default();
    look_after_all(&mut a, &mut machine);
    assert_eq!(machine.gone, [(here, PeerError::Damaged)]);
    assert!(a.is_elsewhere(there));
}
