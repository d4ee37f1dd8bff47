//! What processes do when the system tells of changes of the network.

use super::failures::{BRISK, Pair};
use super::relay::Cut;
use super::{Process, loopback};
use crate::net::{Entry, Net, NetConfig, changes::News, sock};
use rustix::fd::OwnedFd;
use sluice_link::{Connect, Transport};
use sluice_multirail::{RailId, RailState};
use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;

/// Something that stands for the system's socket, and what tells by it.
fn tell_tale(process: &mut Process) -> (usize, UnixDatagram) {
    let (tells, hears) = UnixDatagram::pair().unwrap();
    let entry = process.world.net_mut().add(Entry::Changes(OwnedFd::from(hears))).unwrap();
    (entry, tells)
}

#[test]
fn only_what_was_told_is_news() {
    let mut a = Process::new(1);
    let (entry, tells) = tell_tale(&mut a);
    let net = a.world.net_mut();
    net.news = News::default();
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

/// A listening socket whose queue is full: the system drops what asks to connect.
struct Full {
    at: SocketAddr,
    _held: Vec<OwnedFd>,
}

impl Full {
    fn new() -> Full {
        let any = SocketAddr::new(loopback(1).address, 0);
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
