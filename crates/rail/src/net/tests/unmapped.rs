//! Memory that the client names and has not: a fault of one operation, found before the
//! network uses it, where looks are wanted ([`Guard::Check`]).

use super::{Process, loopback, region_mut, until};
use crate::net::NetConfig;
use crate::shm::{Config, Guard};
use sluice_link::{Connect, RailError, Remote, RemoteMemory, Rights, Token, Transport};
use sluice_wire::{Addr, PeerId, Region};

const LEN: usize = 1 << 20;

/// Two that look at memory, and have met.
fn met() -> (Process, PeerId, Process, PeerId) {
    let one = || {
        let config = Config { guard: Guard::Check, ..Config::default() };
        Process::with_both(config, NetConfig::with_devices(vec![loopback(1)]))
    };
    let (mut a, mut b) = (one(), one());
    let (to_b, to_a) = (a.knows(&b), b.knows(&a));
    assert_eq!(a.world.connect(to_b), Ok(Connect::Pending));
    until(&mut [&mut a, &mut b], "the connection", |all| all[0].machine.connected == [to_b]);
    (a, to_b, b, to_a)
}

/// Addresses at which no program has anything.
fn nowhere() -> Region {
    Region { addr: Addr(64), len: LEN as u64 }
}

#[test]
fn memory_that_is_not_there_is_a_fault_on_either_side() {
    let (mut a, to_b, mut b, to_a) = met();
    let (mut here, mut there) = (vec![1u8; LEN], vec![2u8; LEN]);
    let to_read = b.world.expose(to_a, nowhere(), Rights::READ);
    let to_write = b.world.expose(to_a, nowhere(), Rights::WRITE);
    a.world.read_remote(to_b, Remote::whole(to_read), region_mut(&mut here), Token(1));
    a.world.write_remote(to_b, region_mut(&mut here), Remote::whole(to_write), Token(2));
    let to_read = b.world.expose(to_a, region_mut(&mut there), Rights::READ);
    let to_write = b.world.expose(to_a, region_mut(&mut there), Rights::WRITE);
    a.world.read_remote(to_b, Remote::whole(to_read), nowhere(), Token(3));
    a.world.write_remote(to_b, nowhere(), Remote::whole(to_write), Token(4));
    until(&mut [&mut a, &mut b], "the ends", |all| all[0].machine.moved.len() == 4);
    assert!(a.machine.moved.iter().all(|(_, how)| *how == Err(RailError::Fault)));
    assert!(here == vec![1u8; LEN] && there == vec![2u8; LEN]);

    // The connection has not suffered.
    a.machine.moved.clear();
    a.world.read_remote(to_b, Remote::whole(to_read), region_mut(&mut here), Token(5));
    until(&mut [&mut a, &mut b], "the read", |all| !all[0].machine.moved.is_empty());
    assert_eq!(a.machine.moved, [(Token(5), Ok(()))]);
    assert!(here == there);
    assert_eq!(a.world.net().unwrap().stats().broken, 0);
}
