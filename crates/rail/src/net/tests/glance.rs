//! Short looks: what they find, and that they put nothing else off.

use super::{MODES, PATIENCE, Process, loopback, until};
use crate::net::glance::AT_ONCE_NS;
use crate::net::handshake::Security;
use crate::net::{Entry, Event, Glance, LIST_NS, Net, NetConfig, ROUND_NS};
use sluice_link::Transport;
use sluice_wire::{Nanos, PeerId};
use std::net::TcpStream;
use std::time::Instant;

/// Two processes that have just spoken; the second one's network has looked at everything at
/// the time that is returned.
pub(super) fn talking() -> (Process, Process, PeerId, Nanos) {
    talking_by(Security::Auth)
}

/// As [`talking`], protected so.
fn talking_by(security: Security) -> (Process, Process, PeerId, Nanos) {
    let config = || NetConfig { security, ..NetConfig::with_devices(vec![loopback(1)]) };
    let (mut a, mut b) = (Process::with(config()), Process::with(config()));
    let to_b = a.knows(&b);
    assert!(a.world.connect(to_b).is_ok());
    until(&mut [&mut a, &mut b], "they meet", |all| !all[0].machine.connected.is_empty());
    a.send(to_b, 0, b"first");
    until(&mut [&mut a, &mut b], "a packet", |all| !all[1].machine.packets.is_empty());
    let now = settle(b.world.net_mut());
    (a, b, to_b, now)
}

/// Looks at everything until nothing is left to be done, at a time when a round is due.
fn settle(net: &mut Net) -> Nanos {
    let mut now = net.next_round.max(net.next_list).max(net.now);
    for _ in 0..1000 {
        net.poll(now, &mut |_| None);
        while net.next_event().is_some() {}
        if net.glance(now) == Glance::Quiet {
            return now;
        }
        now = Nanos(now.0 + ROUND_NS);
    }
    panic!("there is always something to be done");
}

/// The first look at this time that does not find quiet.
pub(super) fn first_glance(net: &mut Net, now: Nanos) -> Glance {
    let begin = Instant::now();
    loop {
        let found = net.glance(now);
        if found != Glance::Quiet {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "nothing comes");
        // However long it takes, it is not left to the list.
        for at in net.hot.clone() {
            let Entry::Conn(conn) = &mut net.entries[at] else { panic!("it is a connection") };
            conn.polls_in_vain = 0;
        }
    }
}

#[test]
fn the_list_is_looked_at_and_deadlines_are_within_their_bounds() {
    let (_a, mut b, _, now) = talking();
    let net = b.world.net_mut();
    // A list without anything needs no whole poll.
    net.next_list = now;
    assert_eq!(net.glance(now), Glance::Quiet);
    assert_eq!(net.next_list, Nanos(now.0 + LIST_NS));
    let listening = net.address().host().expect("it listens");
    let _stranger = TcpStream::connect(listening).expect("it listens");
    assert_eq!(net.glance(Nanos(now.0 + LIST_NS - 1)), Glance::Quiet);
    let now = Nanos(now.0 + LIST_NS);
    assert_eq!(net.glance(now), Glance::Due);
    // That poll is the one that looks at what was listed.
    net.poll(now, &mut |_| None);
    assert!(net.listed.is_empty());
    let now = settle(net);
    // Also where the list is looked at for other reasons.
    net.next_list = Nanos(u64::MAX);
    assert_eq!(net.glance(Nanos(now.0 + ROUND_NS - 1)), Glance::Quiet);
    assert_eq!(net.glance(Nanos(now.0 + ROUND_NS)), Glance::Due);
}

#[test]
fn a_short_look_takes_in_what_has_come() {
    for security in MODES {
        let (mut a, mut b, to_b, now) = talking_by(security);
        a.send(to_b, 1, b"second");
        let net = b.world.net_mut();
        assert_eq!(first_glance(net, now), Glance::Came);
        let Some(Event::Packet(..)) = net.next_event() else { panic!("{security:?}: a packet") };
        assert_eq!(net.payload(), b"second");
        assert!(net.next_event().is_none());
        assert_eq!(net.glance(now), Glance::Quiet);
    }
}

/// Waits until the system has something for the only connection.
fn await_bytes(net: &Net) {
    let begin = Instant::now();
    let Entry::Conn(conn) = &net.entries[net.hot[0]] else { panic!("it is a connection") };
    while !conn.lane.has_something() {
        assert!(begin.elapsed() < PATIENCE, "nothing comes");
    }
}

#[test]
fn who_asks_at_once_whether_there_is_more_is_answered_without_a_look() {
    let (mut a, mut b, to_b, now) = talking();
    let net = b.world.net_mut();
    let mut came = |net: &mut Net, seq, now| {
        a.send(to_b, seq, b"one more");
        await_bytes(net);
        let found = net.glance(now);
        if found == Glance::Came {
            assert!(matches!(net.next_event(), Some(Event::Packet(..))));
            assert!(net.next_event().is_none());
        }
        found
    };
    assert_eq!(came(net, 1, now), Glance::Came);
    // Once, however much there is.
    let soon = Nanos(now.0 + AT_ONCE_NS);
    assert_eq!(came(net, 2, soon), Glance::Quiet);
    assert_eq!(net.glance(soon), Glance::Came);
    while net.next_event().is_some() {}
    // Who comes later is not told to come again.
    assert_eq!(came(net, 3, Nanos(soon.0 + AT_ONCE_NS + 1)), Glance::Came);
}

#[test]
fn what_is_left_to_be_done_takes_a_whole_poll() {
    let (a, mut b, _, now) = talking();
    let net = b.world.net_mut();
    let entry = net.hot[0];
    net.mark_dirty(entry);
    assert_eq!(net.glance(now), Glance::Due);
    net.flush_dirty();
    assert_eq!(net.glance(now), Glance::Quiet);
    net.looks_at_list = true;
    assert_eq!(net.glance(now), Glance::Due);
    net.looks_at_list = false;
    let Entry::Conn(conn) = &mut net.entries[entry] else { panic!("it is a connection") };
    conn.partial.push(0);
    assert_eq!(net.glance(now), Glance::Due);
    let Entry::Conn(conn) = &mut net.entries[entry] else { panic!("it is a connection") };
    conn.partial.clear();
    assert_eq!(net.glance(now), Glance::Quiet);
    // The end of a connection is found by one, which knows what follows of it.
    drop(a);
    let mut is_gone = false;
    let mut look = |net: &mut Net| {
        while let Some(event) = net.next_event() {
            is_gone |= matches!(event, Event::Gone(..));
        }
        is_gone
    };
    while first_glance(net, now) == Glance::Came && !look(net) {}
    net.poll(now, &mut |_| None);
    assert!(look(net), "its end was found");
}

/// While another rail is looked at in each poll, what shared memory looks after has its turn.
#[test]
fn polls_that_find_nothing_look_at_all_else_now_and_then() {
    let (_a, mut b, _, _) = talking();
    let before = b.machine.idles;
    for _ in 0..128 {
        b.poll();
    }
    // One in 32, and those behind what may have come.
    assert!(b.machine.idles >= before + 4);
    assert!(b.machine.idles < before + 64, "{} of 128", b.machine.idles - before);
}
