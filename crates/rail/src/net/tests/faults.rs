//! Memory that is not there when it is to be sent, or when what was asked for comes.

use super::failures::{config, directly_with};
use super::{MODES, Process, loopback, region, region_mut, until};
use crate::net::handshake::Security;
use crate::net::{NetConfig, fabric_offers};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use sluice_link::{RailError, Remote, RemoteMemory, Rights, Token};
use sluice_wire::{Addr, PeerId, Region};
use std::ptr;

const LEN: usize = 1 << 20;

/// Pages of which only the first ones may be used.
struct Broken {
    at: *mut std::ffi::c_void,
}

impl Broken {
    fn new(usable: usize) -> Broken {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: new pages at a place that the system chooses.
        let at = unsafe { mmap_anonymous(ptr::null_mut(), LEN, protection, MapFlags::PRIVATE) };
        let at = at.unwrap();
        // SAFETY: they are this value's own, and no reference to them exists.
        unsafe { mprotect(at.byte_add(usable), LEN - usable, MprotectFlags::empty()) }.unwrap();
        Broken { at }
    }

    fn region(&self) -> Region {
        Region { addr: Addr(self.at.expose_provenance() as u64), len: LEN as u64 }
    }
}

impl Drop for Broken {
    fn drop(&mut self) {
        // SAFETY: the pages are this value's own, and nobody uses them any more.
        unsafe { munmap(self.at, LEN) }.unwrap();
    }
}

/// A read of good memory, over all that the two have.
fn check_read(a: &mut Process, to_b: PeerId, b: &mut Process, to_a: PeerId) {
    let there = vec![7u8; LEN];
    let mut here = vec![0u8; LEN];
    let key = b.world.expose(to_a, region(&there), Rights::READ);
    a.world.read_remote(to_b, Remote::whole(key), region_mut(&mut here), Token(9));
    until(&mut [a, b], "a read", |all| !all[0].machine.moved.is_empty());
    assert_eq!(a.machine.moved.drain(..).as_slice(), [(Token(9), Ok(()))]);
    assert!(here == there);
    b.world.revoke(to_a, key);
    assert!(a.machine.gone.is_empty() && b.machine.gone.is_empty());
}

#[test]
fn memory_that_faults_is_a_fault_to_its_reader_and_is_not_asked_for_again() {
    let _ = fabric_offers("tcp", loopback(1).addresses.first());
    let usables = [(0, 0), (300 << 10, 2)];
    let modes = [Security::Auth, Security::Encrypt];
    let timing = NetConfig::with_devices(Vec::new()).timing;
    for ((usable, broken_max), security) in
        usables.into_iter().flat_map(|it| modes.map(|of| (it, of)))
    {
        let (mut a, to_b, mut b, to_a) = directly_with(NetConfig { security, ..config(2, timing) });
        let before = b.world.net().unwrap().stats().broken;
        let there = Broken::new(usable);
        let mut here = vec![0u8; LEN];
        let key = b.world.expose(to_a, there.region(), Rights::READ);
        a.world.read_remote(to_b, Remote::whole(key), region_mut(&mut here), Token(1));
        until(&mut [&mut a, &mut b], "the fault", |all| !all[0].machine.moved.is_empty());
        assert_eq!(a.machine.moved.drain(..).as_slice(), [(Token(1), Err(RailError::Fault))]);
        let broken = b.world.net().unwrap().stats().broken - before;
        assert!(broken <= broken_max, "{broken} connections for {usable} bytes");
        check_read(&mut a, to_b, &mut b, to_a);
        a.world.read_remote(to_b, Remote::whole(key), region_mut(&mut here), Token(2));
        until(&mut [&mut a, &mut b], "the end", |all| !all[0].machine.moved.is_empty());
        assert_eq!(a.machine.moved, [(Token(2), Err(RailError::Fault))]);
        b.world.revoke(to_a, key);
    }
}

/// The client has unmapped what it reads into: whether the system copies there or this process.
#[test]
fn a_place_that_is_not_there_ends_its_read_once_and_nothing_else() {
    // Tests beside this one have libfabric loaded, whose providers may handle faults.
    let _ = fabric_offers("tcp", loopback(1).addresses.first());
    let timing = NetConfig::with_devices(Vec::new()).timing;
    let cases = [(0, 1000), (0, LEN), (300 << 10, LEN), (LEN - 4096, LEN)];
    for security in MODES {
        let (mut a, to_b, mut b, to_a) = directly_with(NetConfig { security, ..config(2, timing) });
        let before = a.world.net().unwrap().stats().broken;
        let there = vec![7u8; LEN];
        let key = b.world.expose(to_a, region(&there), Rights::READ);
        for (usable, len) in cases {
            let here = Broken::new(usable);
            let into = Region { len: len as u64, ..here.region() };
            a.world.read_remote(to_b, Remote::whole(key), into, Token(1));
            until(&mut [&mut a, &mut b], "the fault", |all| !all[0].machine.moved.is_empty());
            assert_eq!(a.machine.moved.drain(..).as_slice(), [(Token(1), Err(RailError::Fault))]);
            check_read(&mut a, to_b, &mut b, to_a);
        }
        // A write is a read of the peer's, which tells how it has ended.
        let here = Broken::new(300 << 10);
        let to = a.world.expose(to_b, here.region(), Rights::WRITE);
        b.world.write_remote(to_a, region(&there), Remote::whole(to), Token(2));
        until(&mut [&mut a, &mut b], "the fault", |all| !all[1].machine.moved.is_empty());
        assert_eq!(b.machine.moved, [(Token(2), Err(RailError::Fault))]);
        check_read(&mut a, to_b, &mut b, to_a);
        assert_eq!(a.world.net().unwrap().stats().broken, before, "{security:?}");
        a.world.revoke(to_b, to);
    }
}
