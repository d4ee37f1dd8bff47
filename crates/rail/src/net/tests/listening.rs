//! Listening at several devices.

use super::{Process, loopback, one, until};
use crate::net::{Entry, NetConfig, OwnDevice};
use crate::shm::Config;
use crate::world::World;
use std::net::TcpStream;

/// More than are taken from one device in one go.
const WAITING: usize = 20;

#[test]
fn whoever_waits_at_one_device_is_taken_also_while_others_wait_at_another() {
    let mut a = Process::new(2);
    let ports = a.world.net().unwrap().ports.clone();
    let ask =
        |at: u8| TcpStream::connect((loopback(at).addresses.first(), ports[usize::from(at) - 1]));
    let asking = (0..WAITING).flat_map(|_| [1, 2]).map(|at| ask(at).unwrap());
    let _asking: Vec<TcpStream> = asking.collect();
    until(&mut [&mut a], "all of them", |all| {
        let entries = &all[0].world.net().unwrap().entries;
        entries.iter().filter(|(_, entry)| matches!(entry, Entry::Joining(_))).count()
            == 2 * WAITING
    });
}

/// An address that no host has.
fn nowhere() -> OwnDevice {
    OwnDevice { addresses: one("192.0.2.1/24"), ..loopback(9) }
}

#[test]
fn a_device_whose_address_is_not_there_is_left_out() {
    let devices = vec![loopback(1), nowhere(), loopback(2)];
    let mut a = Process::with(NetConfig::with_devices(devices));
    let net = a.world.net().unwrap();
    assert_eq!(net.config.devices, [loopback(1), loopback(2)]);
    assert_eq!(net.ports.len(), 2);
    // The others are rails as ever.
    let mut b = Process::new(2);
    let to_b = a.knows(&b);
    assert!(sluice_link::Transport::connect(&mut a.world, to_b).is_ok());
    until(&mut [&mut a, &mut b], "both rails", |all| {
        all.iter_mut().for_each(|process| process.open_all());
        all.iter().all(|process| process.world.net().unwrap().stats().opened >= 2)
    });
}

#[test]
fn without_any_address_that_is_there_nothing_is_opened() {
    let config = NetConfig::with_devices(vec![nowhere()]);
    let error = World::open_with_net(Config::default(), config, false).expect_err("no address");
    assert!(error.to_string().contains("192.0.2.1"), "{error}");
}
