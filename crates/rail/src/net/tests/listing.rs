//! Connections that leave the system's list, and come back before they are needed there.

use super::gather::is_listed;
use super::glance::{first_glance, talking};
use super::{Process, until};
use crate::net::listing::Listing;
use crate::net::{Entry, Glance, Net};
use crate::waker::Haste;
use sluice_wire::{Nanos, PeerId};

fn is_unlisted(net: &Net, entry: usize) -> bool {
    match &net.entries[entry] {
        Entry::Conn(conn) => matches!(conn.listing, Listing::Unlisted),
        _ => panic!("it is a connection"),
    }
}

/// Two processes, of which the first says something again and again, and the other finds it by
/// short looks. The connection has left the second one's list after at most so many.
fn busy() -> (Process, Process, PeerId, Nanos, usize) {
    let (mut a, mut b, to_b, now) = talking();
    let entry = b.world.net().unwrap().hot[0];
    for seq in 0..1000 {
        if is_unlisted(b.world.net_mut(), entry) {
            return (a, b, to_b, now, entry);
        }
        let Process { world, .. } = &mut b;
        a.send(to_b, seq, b"again");
        let net = world.net_mut();
        assert_eq!(first_glance(net, now), Glance::Came);
        while net.next_event().is_some() {}
        a.poll();
    }
    panic!("a busy connection stays in the list");
}

#[test]
fn a_busy_connection_leaves_the_list_and_is_there_again_for_who_sleeps() {
    let (mut a, mut b, to_b, _, entry) = busy();
    // What comes while it is not there is listed when it comes back.
    a.send(to_b, 0, b"while nobody looks");
    assert!(!is_listed(&b.world.net().unwrap().sockets(), 0));
    b.world.rest_ns(Haste::FirstByte);
    assert!(!is_unlisted(b.world.net().unwrap(), entry));
    assert!(is_listed(&b.world.net().unwrap().sockets(), 20), "it wakes who sleeps");
    // From now on somebody may sleep at any time.
    let count = b.machine.packets.len();
    for seq in 0..600 {
        a.send(to_b, seq, b"again");
        until(&mut [&mut a, &mut b], "a packet", |all| {
            all[1].machine.packets.len() > count + seq as usize
        });
    }
    assert!(!is_unlisted(b.world.net().unwrap(), entry));
}

#[test]
fn one_that_is_silent_for_long_is_left_to_the_list() {
    let (mut a, mut b, to_b, now, entry) = busy();
    let net = b.world.net_mut();
    while net.hot.contains(&entry) {
        if net.glance(now) == Glance::Due {
            net.poll(now, &mut |_| None);
            while net.next_event().is_some() {}
        }
    }
    assert!(!is_unlisted(net, entry));
    a.send(to_b, 0, b"after long");
    assert!(is_listed(&net.sockets(), 20));
    let count = b.machine.packets.len();
    until(&mut [&mut a, &mut b], "the packet", |all| all[1].machine.packets.len() > count);
}

#[test]
fn one_that_takes_nothing_waits_in_the_list_until_it_does() {
    let (mut a, mut b, _, _, entry) = busy();
    let (count, mut sent) = (a.machine.packets.len(), 0);
    let to_a = PeerId(b.world.net().unwrap().active[0].0);
    while b.world.net().unwrap().blocked == 0 {
        b.send(to_a, sent, &[7; 4096]);
        sent += 1;
        assert!(sent < 100_000, "the socket takes everything");
    }
    assert!(!is_unlisted(b.world.net().unwrap(), entry));
    until(&mut [&mut a, &mut b], "all packets", |all| {
        all[0].machine.packets.len() == count + sent as usize
    });
    assert_eq!(b.world.net().unwrap().blocked, 0);
}
