//! What processes do when the system tells of changes of the network.

use super::failures::{BRISK, HOUR_NS, Pair};
use super::relay::Cut;
use super::{Process, loopback, one, until};
use crate::net::remote::Stage;
use crate::net::{Entry, Net, NetConfig, OwnDevice, carriers, changes::News, sock};
use rustix::fd::OwnedFd;
use sluice_link::{Connect, Transport};
use sluice_multirail::{RailId, RailState, Timing};
use sluice_wire::PeerId;
use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;

/// Something that stands in place of the system's socket, by which others' links would tell of
/// themselves in the middle of a test, and what tells by it.
fn tell_tale(process: &mut Process) -> (usize, UnixDatagram) {
    let (tells, hears) = UnixDatagram::pair().unwrap();
    let net = process.world.net_mut();
    let systems: Vec<usize> = net
        .entries
        .iter()
        .filter(|(_, entry)| matches!(entry, Entry::Changes(_)))
        .map(|(at, _)| at)
        .collect();
    systems.into_iter().for_each(|at| net.remove(at));
    // What it has told so far.
    net.news = News::default();
    let entry = net.add(Entry::Changes(OwnedFd::from(hears))).unwrap();
    net.changes = Some(entry);
    (entry, tells)
}

#[test]
fn only_what_was_told_is_news() {
    let mut a = Process::new(1);
    let (entry, tells) = tell_tale(&mut a);
    let net = a.world.net_mut();
    // It can be written, which the system may wake somebody for.
    net.on_change(entry);
    assert_eq!(net.news.due(), None);
    tells.send(b"a link").unwrap();
    net.on_change(entry);
    let due = net.news.due().expect("news");
    net.on_change(entry);
    assert_eq!(net.news.due(), Some(due));
}

/// Either end may know no way to the other until it has asked for it, so both open.
#[test]
fn rails_are_opened_when_news_have_settled_and_not_before() {
    let mut pair = Pair::met(2, BRISK);
    for process in [&mut pair.a, &mut pair.b] {
        let (entry, tells) = tell_tale(process);
        tells.send(b"a link").unwrap();
        process.poll();
        process.world.net_mut().on_change(entry);
    }
    pair.cut(Cut::Rst);
    pair.until("the rails' ends", |pair| {
        (0..2).all(|at| pair.states(RailId(at)).iter().all(|state| *state != RailState::Up))
    });
    pair.until("all rails", |pair| {
        for (process, peer) in [(&pair.a, pair.to_b), (&pair.b, pair.to_a)] {
            let net = process.world.net().unwrap();
            let begun = net.met(peer).unwrap().attempts.iter().flatten().count();
            assert!(net.news.due().is_none() || begun == 0, "nothing is begun meanwhile");
        }
        (0..2).all(|at| pair.states(RailId(at)) == [RailState::Up; 2])
    });
}

/// Two processes that two rails join, the second of which is opened by news alone once it is
/// closed.
pub(super) fn two_hosts(timing: Timing) -> [Process; 2] {
    let timing = Timing { retry_ns_min: HOUR_NS, retry_ns_max: HOUR_NS, ..timing };
    let host = |host: u8| {
        let device = |at: u8| OwnDevice {
            index: 1_000_000 + u32::from(at),
            addresses: one(&format!("127.0.{at}.{host}/24")),
            ..loopback(at)
        };
        let devices = (1..=2).map(device).collect();
        Process::with(NetConfig { timing, ..NetConfig::with_devices(devices) })
    };
    [host(1), host(2)]
}

/// The same when they have met.
fn on_two_hosts() -> [(Process, PeerId, UnixDatagram); 2] {
    let [mut a, mut b] = two_hosts(BRISK);
    let (to_b, to_a) = (a.knows(&b), b.knows(&a));
    assert_eq!(a.world.connect(to_b), Ok(Connect::Pending));
    until(&mut [&mut a, &mut b], "both rails", |all| {
        all.iter_mut().for_each(|process| process.open_all());
        all.iter().all(|process| {
            process.world.net().unwrap().active.iter().any(|&peer| process.is_up(peer, [0, 1]))
        })
    });
    let ((_, tells_a), (_, tells_b)) = (tell_tale(&mut a), tell_tale(&mut b));
    [(a, to_b, tells_a), (b, to_a, tells_b)]
}

impl Process {
    pub(super) fn is_up<const N: usize>(&self, peer: PeerId, rails: [u8; N]) -> bool {
        let met = self.world.net().unwrap().met(peer);
        let is_up = |rail| met.is_some_and(|met| met.rails.state(RailId(rail)) == RailState::Up);
        rails.into_iter().all(is_up)
    }
}

/// What they meet by carries something, whatever the system says. The other rail is begun
/// when it says so.
#[test]
fn processes_meet_though_no_device_is_said_to_carry_anything() {
    let [mut a, mut b] = two_hosts(BRISK);
    for process in [&mut a, &mut b] {
        let (entry, tells) = tell_tale(process);
        for index in [1_000_001, 1_000_002] {
            tells.send(&carriers::told(index, false)).unwrap();
        }
        process.world.net_mut().on_change(entry);
    }
    let to_b = a.knows(&b);
    assert_eq!(a.world.connect(to_b), Ok(Connect::Pending));
    until(&mut [&mut a, &mut b], "the connection", |all| all[0].machine.connected == [to_b]);
    a.send(to_b, 0, b"hello");
    until(&mut [&mut a, &mut b], "a packet", |all| !all[1].machine.packets.is_empty());
    assert!(a.is_up(to_b, [0]) && !a.is_up(to_b, [1]));
}

/// Nothing is expected of it. At the other end something may be, which opens it in vain
/// until this end does too.
#[test]
fn a_rail_whose_device_loses_its_carrier_is_closed_and_opened_when_that_returns() {
    let mut both = on_two_hosts();
    for carries in [false, true] {
        for (_, _, tells) in &both {
            tells.send(&carriers::told(1_000_002, carries)).unwrap();
        }
        let [(a, to_b, _), (b, to_a, _)] = &mut both;
        until(&mut [&mut *a, &mut *b], "the rail's end, and its return", |all| {
            let [a, b] = all else { unreachable!("two") };
            assert!(a.is_up(*to_b, [0]) && b.is_up(*to_a, [0]), "the other rail stays");
            a.is_up(*to_b, [1]) == carries && b.is_up(*to_a, [1]) == carries
        });
        if !carries {
            // News of something else do not open it.
            let now = a.world.refresh_now();
            for (_, _, tells) in &both {
                tells.send(&carriers::told(1_000_003, true)).unwrap();
            }
            let [(a, _, _), (b, _, _)] = &mut both;
            until(&mut [&mut *a, &mut *b], "these to be acted on", |all| {
                let acted = |process: &Process| {
                    let net = process.world.net().unwrap();
                    net.now > now && net.news.is_settled_since(now)
                };
                all.iter().all(|process| acted(process))
            });
        }
        let begun = |process: &Process| {
            let met = process.world.net().unwrap().remotes.iter().flatten();
            let met = met.filter_map(|remote| match &remote.stage {
                Stage::Met(met) => Some(met),
                _ => None,
            });
            met.flat_map(|met| met.attempts.iter().flatten()).count()
        };
        assert_eq!(both.each_ref().map(|(process, _, _)| begun(process)), [0, 0], "{carries}");
    }
}

/// The system may hold back what it would tell, and answers whoever asks.
#[test]
fn a_device_whose_rail_falls_silent_is_asked_for() {
    let [(mut a, to_b, tells), (b, ..)] = on_two_hosts();
    // The stream is on the first rail, and nobody reads it.
    a.send(to_b, 0, b"hello");
    tells.set_nonblocking(true).unwrap();
    let mut asked = [0; 64];
    until(&mut [&mut a], "the question", |_| tells.recv(&mut asked).is_ok());
    assert_eq!(asked[..32], carriers::question(1_000_001));
    tells.send(&carriers::answered(1_000_001, true)).unwrap();
    tells.send(&carriers::answered(1_000_001, false)).unwrap();
    until(&mut [&mut a], "the answer", |all| all[0].world.net().unwrap().carriers.is_lost(0));
    assert!(!a.is_up(to_b, [0]));
    drop(b);
}

/// A listening socket whose queue is full: the system drops what asks to connect.
struct Full {
    at: SocketAddr,
    _held: Vec<OwnedFd>,
}

impl Full {
    fn new() -> Full {
        let any = SocketAddr::new(loopback(1).addresses.first(), 0);
        let listener = sock::stream_socket(&any).unwrap();
        rustix::net::bind(&listener, &any).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let at = SocketAddr::try_from(rustix::net::getsockname(&listener).unwrap()).unwrap();
        let ask = |_| {
            let socket = sock::stream_socket(&at).unwrap();
            let _ = rustix::net::connect(&socket, &at);
            socket
        };
        let mut held: Vec<OwnedFd> = (0..4).map(ask).collect();
        held.push(listener);
        Full { at, _held: held }
    }
}

#[test]
fn a_first_contact_that_was_lost_is_tried_again_when_the_network_has_changed() {
    let full = Full::new();
    let config = NetConfig::with_devices(vec![loopback(1)]);
    let b = Process::with(NetConfig { told_ports: vec![full.at.port()], ..config });
    let mut a = Process::new(1);
    let to_b = a.knows(&b);
    assert_eq!(a.world.connect(to_b), Ok(Connect::Pending));
    let (entry, tells) = tell_tale(&mut a);
    tells.send(b"a link").unwrap();
    let net = a.world.net_mut();
    net.on_change(entry);
    let attempt = net.meeting_mut(to_b).unwrap().entry.expect("an attempt");
    let is_there = |net: &Net| matches!(net.entries.get(attempt), Some(Entry::Joining(_)));
    assert!(is_there(net));
    net.set_now(net.news.due().expect("news"));
    net.retry_after_change();
    let now = net.now;
    assert!(!is_there(net) && net.meeting_mut(to_b).unwrap().retry_at <= now);
}
