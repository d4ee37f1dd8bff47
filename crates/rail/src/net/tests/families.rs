//! Devices with addresses of IPv4, of IPv6 and of both.

use super::fabric::{lanes, over, read_until_lanes};
use super::{Process, loopback, region, region_mut, until};
use crate::net::devices::{Addresses, IpNet};
use crate::net::{Entry, NetConfig, OwnDevice};
use sluice_link::{Connect, Remote, RemoteMemory, Rights, Token, Transport};
use sluice_wire::PeerId;
use std::net::{IpAddr, SocketAddr, TcpListener};

const FOUR: &str = "127.0.1.1/24";
const SIX: &str = "::1/128";
/// An address that no host has.
const NOWHERE: &str = "2001:db8::1/64";

fn process(nets: &[&str]) -> Process {
    let nets: Vec<IpNet> = nets.iter().map(|net| net.parse().unwrap()).collect();
    let addresses = Addresses::first_of_each(&nets).unwrap();
    Process::with(NetConfig::with_devices(vec![OwnDevice { addresses, ..loopback(1) }]))
}

/// Hosts may be without it.
fn is_there() -> bool {
    let is_there = TcpListener::bind("[::1]:0").is_ok();
    if !is_there {
        eprintln!("not tried: this host has no IPv6");
    }
    is_there
}

/// The two addresses of the only rail.
fn ends(process: &Process, peer: PeerId) -> (IpAddr, SocketAddr) {
    let met = process.world.net().unwrap().met(peer).unwrap();
    assert_eq!(met.pairs.len(), 1);
    (met.pairs[0].from, met.pairs[0].at)
}

/// The first contact, and a rail that is opened anew, which goes by the pair's addresses.
fn meet_and_read(a: &mut Process, b: &mut Process) -> [(IpAddr, SocketAddr); 2] {
    let (to_b, to_a) = (a.knows(b), b.knows(a));
    assert_eq!(a.world.connect(to_b), Ok(Connect::Pending));
    until(&mut [a, b], "the connection", |all| all[0].machine.connected == [to_b]);
    until(&mut [a, b], "the peer's end", |all| all[1].world.net().unwrap().conn_count(to_a) == 1);
    for process in [&mut *a, &mut *b] {
        let net = process.world.net_mut();
        let is_conn = |(at, entry): (usize, &Entry)| matches!(entry, Entry::Conn(_)).then_some(at);
        let conns: Vec<usize> = net.entries.iter().filter_map(is_conn).collect();
        conns.into_iter().for_each(|at| net.broke(at, None));
    }
    let there = vec![7u8; 1 << 20];
    let mut here = vec![0u8; 1 << 20];
    let key = b.world.expose(to_a, region(&there), Rights::READ);
    a.world.read_remote(to_b, Remote::whole(key), region_mut(&mut here), Token(1));
    until(&mut [a, b], "the read", |all| !all[0].machine.moved.is_empty());
    assert_eq!(a.machine.moved.drain(..).as_slice(), [(Token(1), Ok(()))]);
    assert!(here == there);
    b.world.revoke(to_a, key);
    [ends(a, to_b), ends(b, to_a)]
}

#[test]
fn two_that_have_a_family_in_common_have_a_rail_by_it() {
    if !is_there() {
        return;
    }
    let cases: [(&[&str], &[&str], bool); 7] = [
        (&[FOUR, SIX], &[SIX], false),
        (&[SIX], &[FOUR, SIX], false),
        (&[SIX], &[SIX], false),
        (&[FOUR], &[FOUR, SIX], true),
        (&[FOUR, SIX], &[FOUR], true),
        // IPv4 first, and one rail.
        (&[FOUR, SIX], &[FOUR, SIX], true),
        // One of the two is not there (yet).
        (&[FOUR, NOWHERE], &[FOUR, SIX], true),
    ];
    for (of_a, of_b, is_four) in cases {
        let (mut a, mut b) = (process(of_a), process(of_b));
        for (from, at) in meet_and_read(&mut a, &mut b) {
            assert_eq!((from.is_ipv4(), at.is_ipv4()), (is_four, is_four), "{of_a:?} {of_b:?}");
        }
        assert!(a.machine.gone.is_empty() && b.machine.gone.is_empty());
    }
}

#[test]
fn a_device_of_both_families_is_listened_on_at_one_port() {
    if !is_there() {
        return;
    }
    let a = process(&[FOUR, SIX]);
    let hosts: Vec<SocketAddr> = a.world.address().hosts().collect();
    let [four, six] = hosts[..] else { panic!("{hosts:?}") };
    assert_eq!((four.ip().to_string(), six.ip().to_string()), ("127.0.1.1".into(), "::1".into()));
    assert_eq!(four.port(), six.port());
    let listeners: Vec<SocketAddr> = listeners(&a).into_iter().map(|(_, at)| at).collect();
    assert_eq!(listeners, hosts);
}

fn listeners(process: &Process) -> Vec<(usize, SocketAddr)> {
    let entries = process.world.net().unwrap().entries.iter();
    let listeners = entries.filter_map(|(at, entry)| match entry {
        Entry::Listener(listener) => Some((at, &listener.socket)),
        _ => None,
    });
    let name = |socket| rustix::net::getsockname(socket).unwrap().try_into().unwrap();
    listeners.map(|(at, socket)| (at, name(socket))).collect()
}

/// A process of two addresses of which one leads to nobody is asked at the other.
#[test]
fn a_first_contact_goes_on_by_the_other_family() {
    if !is_there() {
        return;
    }
    for is_four in [true, false] {
        let (mut a, mut b) = (process(&[FOUR, SIX]), process(&[FOUR, SIX]));
        let shut = listeners(&b).into_iter().find(|(_, at)| at.is_ipv4() == is_four).unwrap().0;
        b.world.net_mut().remove(shut);
        let to_b = a.knows(&b);
        assert_eq!(a.world.connect(to_b), Ok(Connect::Pending));
        until(&mut [&mut a, &mut b], "the connection", |all| all[0].machine.connected == [to_b]);
        a.send(to_b, 0, b"hello");
        until(&mut [&mut a, &mut b], "the packet", |all| !all[1].machine.packets.is_empty());
        assert!(a.machine.gone.is_empty() && b.machine.gone.is_empty());
    }
}

/// The system takes its time to say that there is nobody; the other address is not kept
/// waiting for that.
#[test]
fn an_address_that_says_nothing_does_not_hold_up_the_other() {
    if !is_there() {
        return;
    }
    let (mut a, mut b) = (process(&[FOUR, SIX]), process(&[FOUR, SIX]));
    let to_b = a.knows(&b);
    assert_eq!(a.world.connect(to_b), Ok(Connect::Pending));
    let net = a.world.net_mut();
    let meeting = *net.meeting_mut(to_b).unwrap();
    let attempt = meeting.entry.expect("an attempt");
    let Some(Entry::Joining(joining)) = net.entries.get(attempt) else { panic!("it is begun") };
    let deadline = joining.deadline;
    assert!(deadline.since(joining.begun).0 < 1_000_000_000);
    // As if nothing came until then.
    net.set_now(deadline);
    net.look_after_contact(attempt);
    assert_eq!(net.meeting_mut(to_b).unwrap().entry, None);
    net.contact(to_b);
    let second = net.meeting_mut(to_b).unwrap().entry.expect("another attempt");
    let Some(Entry::Joining(joining)) = net.entries.get(second) else { panic!("it is begun") };
    let local: SocketAddr = rustix::net::getsockname(&joining.socket).unwrap().try_into().unwrap();
    assert!(local.is_ipv6());
    until(&mut [&mut a, &mut b], "the connection", |all| all[0].machine.connected == [to_b]);
}

/// An endpoint has one family: where those of two processes differ no rail is tried by them.
#[test]
fn endpoints_of_two_families_have_no_rail() {
    if !is_there() || !super::fabric::is_there("tcp") {
        return;
    }
    let with_fabric = |nets: &[&str]| {
        let nets: Vec<IpNet> = nets.iter().map(|net| net.parse().unwrap()).collect();
        let addresses = Addresses::first_of_each(&nets).unwrap();
        let devices = [loopback(1), over("tcp", 1)].map(|own| OwnDevice { addresses, ..own });
        Process::with(NetConfig::with_devices(devices.to_vec()))
    };
    for (nets, rails) in [(&[FOUR, SIX][..], 2), (&[SIX][..], 1)] {
        let (mut a, mut b) = (with_fabric(&[FOUR, SIX]), with_fabric(nets));
        let (to_b, to_a) = (a.knows(&b), b.knows(&a));
        assert_eq!(a.world.connect(to_b), Ok(Connect::Pending));
        until(&mut [&mut a, &mut b], "it", |all| all[0].machine.connected == [to_b]);
        assert_eq!(a.world.net().unwrap().met(to_b).unwrap().pairs.len(), rails);
        if rails == 2 {
            read_until_lanes(&mut a, to_b, &mut b, to_a);
        } else {
            assert!(lanes(&mut a).is_empty());
        }
    }
}
