//! Processes that know of each other what they are called, where they listen, and the key of
//! their job.

use super::{Process, loopback, until};
use crate::net::handshake::{JobKey, Member};
use crate::net::remote::Stage;
use crate::net::{NetConfig, OwnDevice};
use crate::shm::{Config, OpenError};
use crate::world::World;
use sluice_wire::PeerId;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4, TcpListener};

fn ip_of(device: &OwnDevice) -> Ipv4Addr {
    match device.addresses.first() {
        IpAddr::V4(ip) => ip,
        IpAddr::V6(_) => panic!("a loopback device of the tests has IPv4"),
    }
}

/// A process that is to be found by its first device, at a port that is free, and who it is.
fn member(label: u64, devices: &[u8]) -> (NetConfig, Member) {
    let devices: Vec<OwnDevice> = devices.iter().map(|&at| loopback(at)).collect();
    let ip = ip_of(&devices[0]);
    let free = TcpListener::bind((ip, 0)).unwrap();
    let member = Member { label, at: SocketAddrV4::new(ip, free.local_addr().unwrap().port()) };
    (NetConfig::with_devices(devices), member)
}

fn open((config, member): (NetConfig, Member), key: &JobKey) -> Process {
    let net = NetConfig { known_as: Some((key.clone(), member)), ..config };
    Process::with_both(Config { label: member.label, ..Config::default() }, net)
}

fn find(from: &mut Process, member: Member, key: &JobKey) -> PeerId {
    let address = key.address(member).unwrap();
    from.world.peer_beyond(&address).unwrap()
}

#[test]
fn a_key_leads_to_a_process_that_has_told_nothing_and_back() {
    let key = JobKey::new(b"the key of this test");
    let (of_a, of_b) = (member(7, &[1, 2]), member(8, &[1, 2]));
    let (a_is, b_is) = (of_a.1, of_b.1);
    let (mut a, mut b) = (open(of_a, &key), open(of_b, &key));
    let to_b = find(&mut a, b_is, &key);
    assert!(sluice_link::Transport::connect(&mut a.world, to_b).is_ok());
    until(&mut [&mut a, &mut b], "both rails", |all| {
        all.iter_mut().for_each(|process| process.open_all());
        all.iter().all(|process| process.world.net().unwrap().stats().opened >= 2)
    });
    // Whoever was asked has the one that asked under the address that follows from the key.
    let to_a = find(&mut b, a_is, &key);
    let remote = b.world.net().unwrap().remote(to_a).unwrap();
    assert!(matches!(remote.stage, Stage::Met(_)));
    assert_eq!((a.world.peer_label(to_b), b.world.peer_label(to_a)), (8, 7));
    // What came of it before its end may be asked for later.
    drop(b);
    until(&mut [&mut a], "the end", |all| all[0].machine.gone.iter().any(|gone| gone.0 == to_b));
    assert_eq!(a.world.peer_label(to_b), 8);
}

#[test]
fn another_key_leads_nowhere() {
    let [key, other] =
        [b"the key of this test", b"that of another test"].map(|key| JobKey::new(key));
    let (of_a, of_b) = (member(7, &[1]), member(8, &[1]));
    let b_is = of_b.1;
    let (mut a, mut b) = (open(of_a, &other), open(of_b, &key));
    let to_b = find(&mut a, b_is, &other);
    assert!(sluice_link::Transport::connect(&mut a.world, to_b).is_ok());
    until(&mut [&mut a, &mut b], "a stranger", |all| {
        all[1].world.net().unwrap().stats().strangers > 0
    });
    assert_eq!(b.world.net().unwrap().stats().opened, 0);
}

#[test]
fn a_port_that_another_process_has_is_told() {
    let (config, member) = member(7, &[1]);
    let taken = TcpListener::bind(member.at).unwrap();
    let known_as = Some((JobKey::new(b"the key of this test"), member));
    let config = NetConfig { known_as, ..config };
    let failed = World::open_with_net(Config::default(), config.clone(), false).unwrap_err();
    assert!(matches!(&failed, OpenError::Net(why) if why.is_port_taken()), "{failed}");
    drop(taken);
    assert!(World::open_with_net(Config::default(), config, false).is_ok());
}

/// Peers look for it at an address that no device has.
#[test]
fn a_process_is_where_it_is_looked_for_or_nowhere() {
    let (config, mut member) = member(7, &[1]);
    member.at.set_ip(ip_of(&loopback(3)));
    let known_as = Some((JobKey::new(b"the key of this test"), member));
    let config = NetConfig { known_as, ..config };
    let failed = World::open_with_net(Config::default(), config, false).unwrap_err();
    assert!(failed.to_string().contains("no network device"), "{failed}");
}
