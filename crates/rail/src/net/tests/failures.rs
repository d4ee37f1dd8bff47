//! What networks do to connections, and what two processes then still do.

use super::relay::{Course, Cut, Relay};
use super::{Process, behind_relays, loopback, region, region_mut, until, until_by};
use crate::net::{Entry, NetConfig, sock};
use sluice_link::{Connect, PeerError, RailError, Remote, RemoteMemory, Rights, Token, Transport};
use sluice_multirail::{RailId, RailState, Timing};
use sluice_wire::{PeerId, RemoteKey};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

const MS: u64 = 1_000_000;
pub(super) const HOUR_NS: u64 = 3_600_000 * MS;

/// Short, so that a test is.
pub(super) const BRISK: Timing = Timing {
    suspect_ns: 5 * MS,
    suspect_alone_ns: 40 * MS,
    down_ns: 40 * MS,
    open_ns: 200 * MS,
    retry_ns_min: MS,
    retry_ns_max: 20 * MS,
    gone_ns: HOUR_NS,
    idle_probe_ns: 50 * MS,
};

pub(super) fn config(devices: u8, timing: Timing) -> NetConfig {
    NetConfig { timing, ..NetConfig::with_devices((1..=devices).map(loopback).collect()) }
}

/// Two that have met, with relays between them.
pub(super) struct Pair {
    pub(super) a: Process,
    pub(super) b: Process,
    /// First those before `a`, then those before `b`.
    pub(super) relays: Vec<Relay>,
    pub(super) to_a: PeerId,
    pub(super) to_b: PeerId,
}

impl Pair {
    pub(super) fn met(devices: u8, timing: Timing) -> Pair {
        Pair::with(config(devices, timing))
    }

    pub(super) fn with(config: NetConfig) -> Pair {
        let devices = config.devices.len() as u8;
        let mut pair = Pair::by_one_rail(config);
        pair.until("all rails", |pair| {
            pair.a.open_all();
            pair.b.open_all();
            (0..devices).all(|at| pair.states(RailId(at)) == [RailState::Up; 2])
        });
        pair
    }

    /// Two that have met by one rail, and have not opened others.
    pub(super) fn by_one_rail(config: NetConfig) -> Pair {
        let (mut a, mut relays) = behind_relays(config.clone());
        let (mut b, before_b) = behind_relays(config);
        relays.extend(before_b);
        let (to_b, to_a) = (a.knows(&b), b.knows(&a));
        assert_eq!(a.world.connect(to_b), Ok(Connect::Pending));
        assert!(matches!(b.world.connect(to_a), Ok(Connect::Pending)));
        let mut pair = Pair { a, b, relays, to_a, to_b };
        pair.until("the first rail", |pair| {
            let all = [&pair.a, &pair.b];
            all.iter().all(|process| !process.machine.connected.is_empty())
        });
        pair
    }

    pub(super) fn poll(&mut self) {
        self.a.poll();
        self.b.poll();
        self.relays.iter_mut().for_each(Relay::poll);
    }

    pub(super) fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Pair) -> bool) {
        let begin = Instant::now();
        while !is_so(self) {
            self.poll();
            if begin.elapsed() > super::PATIENCE {
                [&self.a, &self.b].iter().for_each(|process| process.show());
                panic!("waited in vain: {what}");
            }
        }
    }

    pub(super) fn states(&self, rail: RailId) -> [RailState; 2] {
        [(&self.a, self.to_b), (&self.b, self.to_a)].map(|(process, peer)| {
            let met = process.world.net().unwrap().met(peer);
            met.map_or(RailState::Down, |met| met.rails.state(rail))
        })
    }

    pub(super) fn cut(&mut self, how: Cut) {
        self.relays.iter_mut().for_each(|relay| relay.cut(how));
    }

    pub(super) fn set_course(&mut self, course: Course) {
        self.relays.iter_mut().for_each(|relay| relay.course = course);
    }

    /// The relays of one rail. It may have been opened from both sides.
    pub(super) fn of_rail(&mut self, rail: usize) -> impl Iterator<Item = &mut Relay> {
        let devices = self.relays.len() / 2;
        self.relays
            .iter_mut()
            .enumerate()
            .filter(move |(at, _)| at % devices == rail)
            .map(|(_, r)| r)
    }

    pub(super) fn carried(&mut self, rail: usize) -> u64 {
        self.of_rail(rail).map(|relay| relay.carried).sum()
    }

    /// Each sends the other the packet of a round, counted from zero, while the first reads
    /// what the other has exposed under `key`. Says whether it has read `there`.
    pub(super) fn exchange(&mut self, round: u32, key: RemoteKey, there: &[u8]) -> bool {
        let mut here = vec![0u8; there.len()];
        let (to_a, to_b, token) = (self.to_a, self.to_b, Token(round.into()));
        self.a.world.read_remote(to_b, Remote::whole(key), region_mut(&mut here), token);
        self.a.send(to_b, round, &payload(round));
        self.b.send(to_a, round, &payload(round));
        self.until("what was sent", |pair| {
            let count = round as usize + 1;
            !pair.a.machine.moved.is_empty()
                && pair.a.machine.packets.len() >= count
                && pair.b.machine.packets.len() >= count
        });
        assert_eq!(self.a.machine.moved.drain(..).as_slice(), [(token, Ok(()))]);
        here == there
    }

    /// Both have got `count` packets from each other, each once and in order.
    pub(super) fn check_packets(&self, count: u32) {
        for (process, from) in [(&self.a, self.to_b), (&self.b, self.to_a)] {
            assert_eq!(process.machine.packets.len(), count as usize);
            for (seq, got) in (0..count).zip(&process.machine.packets) {
                assert_eq!(*got, (from, seq, payload(seq)));
            }
            assert_eq!(process.machine.gone, []);
            assert_eq!(process.world.net().unwrap().stats().violations, 0);
        }
    }
}

pub(super) fn payload(seq: u32) -> Vec<u8> {
    (0..seq * 37 % 3000).map(|at| (at ^ seq) as u8).collect()
}

pub(super) fn pattern(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64).map(|at| ((at + seed).wrapping_mul(0x9e37_79b9) >> 13) as u8).collect()
}

#[test]
fn packets_arrive_once_and_in_order_while_connections_are_cut() {
    for how in [Cut::Rst, Cut::Fin] {
        for devices in [1, 3] {
            let mut pair = Pair::met(devices, BRISK);
            let before = pair.a.world.net().unwrap().stats().broken;
            for seq in 0..600 {
                let bytes = payload(seq);
                let (to_a, to_b) = (pair.to_a, pair.to_b);
                pair.a.send(to_b, seq, &bytes);
                pair.b.send(to_a, seq, &bytes);
                if seq % 3 == 0 {
                    pair.poll();
                }
                if seq % 50 == 49 {
                    let at = (seq / 50) as usize % devices as usize;
                    pair.of_rail(at).for_each(|relay| relay.cut(how));
                }
            }
            pair.until("all packets", |pair| {
                pair.a.machine.packets.len() >= 600 && pair.b.machine.packets.len() >= 600
            });
            pair.check_packets(600);
            assert!(pair.a.world.net().unwrap().stats().broken > before, "none was cut");
        }
    }
}

#[test]
fn how_often_a_stream_went_on_is_told_of_its_peer() {
    fn resumed(pair: &Pair) -> [u32; 2] {
        [(&pair.a, pair.to_b), (&pair.b, pair.to_a)]
            .map(|(process, peer)| process.world.net().unwrap().resumed(peer))
    }
    for devices in [1, 2] {
        let mut pair = Pair::met(devices, BRISK);
        assert_eq!(resumed(&pair), [0, 0], "a stream that has begun has gone on nowhere");
        for seq in 0..3 {
            let before = resumed(&pair);
            pair.cut(Cut::Rst);
            let (to_a, to_b) = (pair.to_a, pair.to_b);
            pair.a.send(to_b, seq, &payload(seq));
            pair.b.send(to_a, seq, &payload(seq));
            pair.until("what was sent", |pair| {
                let count = seq as usize + 1;
                pair.a.machine.packets.len() >= count && pair.b.machine.packets.len() >= count
            });
            let after = resumed(&pair);
            assert!(before.iter().zip(after).all(|(before, after)| after > *before), "{after:?}");
        }
        pair.check_packets(3);
        let nobody = PeerId(pair.to_b.0 + 7);
        assert_eq!(pair.a.world.net().unwrap().resumed(nobody), 0);
    }
}

#[test]
fn a_chunk_that_is_cut_in_the_middle_comes_again() {
    const LEN: usize = 1 << 20;
    for devices in [1, 2] {
        let mut pair = Pair::met(devices, BRISK);
        let (to_a, to_b) = (pair.to_a, pair.to_b);
        let there = pattern(LEN, 1);
        let key = pair.b.world.expose(to_a, region(&there), Rights::READ);
        for bytes in [1, 23, 24, 25, 5_000, 70_001, 400_000] {
            let mut here = vec![0u8; LEN];
            pair.relays.iter_mut().for_each(|relay| relay.left = Some(bytes));
            pair.a.world.read_remote(to_b, Remote::whole(key), region_mut(&mut here), Token(bytes));
            pair.until("the cut", |pair| pair.relays.iter().any(|relay| relay.left == Some(0)));
            assert_eq!(pair.a.machine.moved, []);
            pair.cut(Cut::Rst);
            pair.relays.iter_mut().for_each(|relay| relay.left = None);
            pair.until("the read", |pair| !pair.a.machine.moved.is_empty());
            assert_eq!(pair.a.machine.moved.drain(..).as_slice(), [(Token(bytes), Ok(()))]);
            assert!(here == there, "cut after {bytes} bytes");
        }
        pair.check_packets(0);
    }
}

#[test]
fn all_connections_may_be_away_for_a_while() {
    let mut pair = Pair::met(3, BRISK);
    let (to_a, to_b) = (pair.to_a, pair.to_b);
    let there = pattern(1 << 20, 2);
    let mut here = vec![0u8; there.len()];
    let key = pair.b.world.expose(to_a, region(&there), Rights::READ);
    pair.a.world.read_remote(to_b, Remote::whole(key), region_mut(&mut here), Token(1));
    pair.set_course(Course::Slam);
    pair.cut(Cut::Rst);
    for seq in 0..100 {
        pair.a.send(to_b, seq, &payload(seq));
        pair.b.send(to_a, seq, &payload(seq));
        pair.poll();
    }
    pair.until("many attempts", |pair| {
        pair.relays.iter().map(|relay| relay.slammed).sum::<u32>() > 30
    });
    assert_eq!((pair.a.machine.packets.len(), pair.a.machine.moved.len()), (0, 0));
    pair.set_course(Course::Pass);
    pair.until("all packets and the read", |pair| {
        pair.a.machine.packets.len() == 100
            && pair.b.machine.packets.len() == 100
            && !pair.a.machine.moved.is_empty()
    });
    assert_eq!(pair.a.machine.moved, [(Token(1), Ok(()))]);
    assert!(here == there);
    pair.check_packets(100);
}

#[test]
fn a_rail_that_is_refused_for_a_while_carries_bytes_again() {
    let mut pair = Pair::met(2, BRISK);
    let (to_a, to_b) = (pair.to_a, pair.to_b);
    let there = pattern(1 << 20, 3);
    let key = pair.b.world.expose(to_a, region(&there), Rights::READ);
    let read = |pair: &mut Pair, token| {
        let mut here = vec![0u8; there.len()];
        pair.a.world.read_remote(to_b, Remote::whole(key), region_mut(&mut here), Token(token));
        pair.until("the read", |pair| !pair.a.machine.moved.is_empty());
        assert_eq!(pair.a.machine.moved.drain(..).as_slice(), [(Token(token), Ok(()))]);
        assert!(here == there);
    };
    pair.of_rail(1).for_each(|relay| {
        relay.refuse();
        relay.cut(Cut::Rst);
    });
    for token in 0..5 {
        read(&mut pair, token);
    }
    pair.until("the rail's end", |pair| {
        pair.states(RailId(1)).iter().all(|state| *state != RailState::Up)
    });
    pair.of_rail(1).for_each(Relay::listen);
    pair.until("the rail", |pair| pair.states(RailId(1)) == [RailState::Up; 2]);
    let before = pair.carried(1);
    for token in 10.. {
        read(&mut pair, token);
        if pair.carried(1) > before + (256 << 10) {
            break;
        }
    }
    pair.check_packets(0);
}

/// What comes on a connection is dropped by the system from now on, so that nothing is
/// acknowledged either; or no more.
fn deafen(socket: &impl AsFd, is_deaf: bool) {
    let mut drop_all =
        libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut drop_all };
    let option = if is_deaf { libc::SO_ATTACH_FILTER } else { libc::SO_DETACH_FILTER };
    // SAFETY: the system reads one program of one instruction there.
    let done = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

impl Process {
    pub(super) fn shrink_buffers(&self) {
        self.set_send_buffers(4096);
    }

    /// The system takes so much of what its connections send, before the peer has said that
    /// it has come.
    pub(super) fn set_send_buffers(&self, bytes: usize) {
        for (_, entry) in &self.world.net().unwrap().entries {
            if let Entry::Conn(conn) = entry {
                rustix::net::sockopt::set_socket_send_buffer_size(&conn.lane, bytes).unwrap();
            }
        }
    }

    /// The cable of a device is pulled, or put in again.
    fn set_deaf(&self, device: u8, is_deaf: bool) {
        for (_, entry) in &self.world.net().unwrap().entries {
            match entry {
                Entry::Listener(listener) if listener.device == device => {
                    deafen(&listener.socket, is_deaf);
                }
                Entry::Conn(conn) if conn.rail.0 == device => deafen(&conn.lane, is_deaf),
                _ => {}
            }
        }
    }
}

/// Two that have met, with nothing between them.
pub(super) fn directly(devices: u8, timing: Timing) -> (Process, PeerId, Process, PeerId) {
    directly_with(config(devices, timing))
}

/// As [`directly`], of two that are set up so.
pub(super) fn directly_with(config: NetConfig) -> (Process, PeerId, Process, PeerId) {
    let devices = u8::try_from(config.devices.len()).unwrap();
    let mut a = Process::with(config.clone());
    let mut b = Process::with(config);
    let (to_b, to_a) = (a.knows(&b), b.knows(&a));
    assert_eq!(a.world.connect(to_b), Ok(Connect::Pending));
    assert_eq!(b.world.connect(to_a), Ok(Connect::Pending));
    until(&mut [&mut a, &mut b], "all rails", |all| {
        all.iter_mut().for_each(|process| process.open_all());
        (0..devices).all(|at| {
            all.iter().all(|process| {
                let net = process.world.net().unwrap();
                net.active.iter().all(|&peer| {
                    net.met(peer).is_some_and(|met| met.rails.state(RailId(at)) == RailState::Up)
                })
            })
        })
    });
    (a, to_b, b, to_a)
}

#[test]
fn what_a_silent_rail_owes_comes_by_the_others_before_it_is_down() {
    // Whatever waits for the end of the silent rail waits for an hour.
    let timing = Timing { suspect_alone_ns: HOUR_NS, down_ns: HOUR_NS, ..BRISK };
    let (mut a, to_b, mut b, to_a) = directly(3, timing);
    let there = pattern(8 << 20, 4);
    let mut here = vec![0u8; there.len()];
    let key = b.world.expose(to_a, region(&there), Rights::READ);
    let rail = RailId(1);
    let state =
        |process: &Process, peer| process.world.net().unwrap().met(peer).unwrap().rails.state(rail);
    for round in 0..5 {
        here.fill(0);
        a.world.read_remote(to_b, Remote::whole(key), region_mut(&mut here), Token(round));
        for process in [&a, &b] {
            process.set_deaf(1, true);
        }
        until(&mut [&mut a, &mut b], "the read", |all| !all[0].machine.moved.is_empty());
        assert_eq!(a.machine.moved.drain(..).as_slice(), [(Token(round), Ok(()))]);
        assert!(here == there);
        for process in [&a, &b] {
            process.set_deaf(1, false);
        }
        until(&mut [&mut a, &mut b], "the rail", |all| {
            state(all[0], to_b) == RailState::Up && state(all[1], to_a) == RailState::Up
        });
    }
    assert_eq!(
        (a.world.net().unwrap().stats().broken, b.world.net().unwrap().stats().broken),
        (0, 0)
    );
}

#[test]
fn the_stream_leaves_a_silent_rail_before_it_is_down() {
    let timing = Timing { suspect_alone_ns: HOUR_NS, down_ns: HOUR_NS, ..BRISK };
    let (mut a, to_b, mut b, to_a) = directly(2, timing);
    let there = pattern(64 << 10, 5);
    let key = b.world.expose(to_a, region(&there), Rights::READ);
    let stream_on = a.world.net().unwrap().met(to_b).unwrap().stream_on.unwrap();
    for process in [&a, &b] {
        process.set_deaf(stream_on.0, true);
    }
    for seq in 0..100 {
        a.send(to_b, seq, &payload(seq));
    }
    // Reads keep the other rail talking, by which this one's silence is known.
    let mut token = 0;
    let mut here = vec![0u8; there.len()];
    while b.machine.packets.len() < 100 {
        token += 1;
        a.world.read_remote(to_b, Remote::whole(key), region_mut(&mut here), Token(token));
        until(&mut [&mut a, &mut b], "a read", |all| !all[0].machine.moved.is_empty());
        assert_eq!(a.machine.moved.drain(..).as_slice(), [(Token(token), Ok(()))]);
    }
    for (seq, got) in (0..).zip(&b.machine.packets) {
        assert_eq!(*got, (to_a, seq, payload(seq)));
    }
    assert_ne!(a.world.net().unwrap().met(to_b).unwrap().stream_on, Some(stream_on));
}

#[test]
fn all_that_waits_for_a_peer_ends_when_it_is_given_up_and_its_end_is_told_once() {
    let timing = Timing { gone_ns: 300 * MS, ..BRISK };
    let (mut a, to_b, mut b, to_a) = directly(2, timing);
    let there = pattern(1 << 20, 6);
    let mut heres = vec![vec![0u8; there.len()]; 4];
    let key = b.world.expose(to_a, region(&there), Rights { read: true, write: true });
    b.world.watch(to_a);
    for process in [&a, &b] {
        process.set_deaf(0, true);
        process.set_deaf(1, true);
    }
    a.send(to_b, 0, b"in vain");
    for (token, here) in (0..).zip(&mut heres) {
        if token % 2 == 0 {
            a.world.read_remote(to_b, Remote::whole(key), region_mut(here), Token(token));
        } else {
            a.world.write_remote(to_b, region(here), Remote::whole(key), Token(token));
        }
    }
    until(&mut [&mut a, &mut b], "both ends", |all| {
        // What opens in the meantime is deaf too.
        all.iter().all(|process| !process.machine.gone.is_empty())
    });
    let mut moved = a.machine.moved.clone();
    moved.sort_by_key(|(token, _)| token.0);
    assert_eq!(moved, [0, 1, 2, 3].map(|at| (Token(at), Err(RailError::PeerGone))));
    a.world.read_remote(to_b, Remote::whole(key), region_mut(&mut heres[0]), Token(9));
    a.world.write_remote(to_b, region(&heres[1]), Remote::whole(key), Token(10));
    a.send(to_b, 1, b"in vain");
    until(&mut [&mut a], "the last ends", |all| all[0].machine.moved.len() == 6);
    assert_eq!(a.world.connect(to_b), Err(PeerError::Unreachable));
    for _ in 0..100 {
        a.poll();
        b.poll();
    }
    assert_eq!(a.machine.gone, [(to_b, PeerError::Unreachable)]);
    assert_eq!(b.machine.gone, [(to_a, PeerError::Unreachable)]);
}

/// Nothing had been under way before, and no other rail is there to be compared with.
#[test]
fn a_read_over_a_single_rail_that_is_silent_ends() {
    let (mut a, to_b, mut b, to_a) = directly(1, Timing { gone_ns: 300 * MS, ..BRISK });
    let there = pattern(1000, 12);
    let mut here = vec![0u8; there.len()];
    let key = b.world.expose(to_a, region(&there), Rights::READ);
    for process in [&a, &b] {
        process.set_deaf(0, true);
    }
    // The last sign of life is not fresh any more.
    until(&mut [&mut a, &mut b], "time", |all| {
        let net = all[0].world.net().unwrap();
        net.entries.iter().all(|(_, entry)| match entry {
            Entry::Conn(conn) => sock::health(&conn.lane).unwrap().acknowledged_ms_ago > 50,
            _ => true,
        })
    });
    a.world.read_remote(to_b, Remote::whole(key), region_mut(&mut here), Token(1));
    until(&mut [&mut a, &mut b], "its end", |all| !all[0].machine.moved.is_empty());
    assert_eq!(a.machine.moved, [(Token(1), Err(RailError::PeerGone))]);
}

#[test]
fn a_process_that_does_nothing_for_long_is_not_given_up() {
    let timing = Timing { suspect_alone_ns: 100 * MS, gone_ns: 400 * MS, ..BRISK };
    let (mut a, to_b, mut b, to_a) = directly(2, timing);
    let there = pattern(1 << 20, 7);
    let mut here = vec![0u8; there.len()];
    let key = b.world.expose(to_a, region(&there), Rights::READ);
    a.world.watch(to_b);
    for seq in 0..50 {
        a.send(to_b, seq, &payload(seq));
    }
    a.world.read_remote(to_b, Remote::whole(key), region_mut(&mut here), Token(1));
    let begin = Instant::now();
    until(&mut [&mut a], "several times all deadlines", |_| {
        begin.elapsed() > Duration::from_nanos(4 * timing.gone_ns)
    });
    assert_eq!((a.machine.gone.len(), a.machine.moved.len()), (0, 0));
    until(&mut [&mut a, &mut b], "the read and all packets", |all| {
        !all[0].machine.moved.is_empty() && all[1].machine.packets.len() == 50
    });
    assert_eq!(a.machine.moved, [(Token(1), Ok(()))]);
    assert!(here == there && a.machine.gone.is_empty() && b.machine.gone.is_empty());
}

/// The frames that ask for signs of life end soon, so as not to fill the peer's socket.
#[test]
fn the_system_asks_the_hosts_of_silent_peers_for_signs_of_life() {
    use rustix::net::sockopt;
    let (a, _, b, _) = directly(2, BRISK);
    for process in [&a, &b] {
        let net = process.world.net().unwrap();
        let conns = net.entries.iter().filter_map(|(_, entry)| match entry {
            Entry::Conn(conn) => Some(&conn.lane),
            _ => None,
        });
        let mut count = 0;
        for socket in conns {
            count += 1;
            assert!(sockopt::socket_keepalive(socket).unwrap());
            let fresh = Duration::from_millis(u64::from(crate::net::perform::FRESH_ALONE_MS));
            assert!(2 * sockopt::tcp_keepidle(socket).unwrap() < fresh);
            assert!(2 * sockopt::tcp_keepintvl(socket).unwrap() < fresh);
        }
        assert_eq!(count, 2);
    }
}

#[test]
fn a_process_that_ends_is_known_to_have_at_once() {
    // No port tells of it: what is asked there is asked in vain for an hour.
    let timing = Timing { retry_ns_min: HOUR_NS, retry_ns_max: HOUR_NS, ..BRISK };
    for devices in [1, 3] {
        let Pair { mut a, b, mut relays, to_b, to_a } = Pair::met(devices, timing);
        drop(b);
        until_by(&mut [&mut a], &mut relays, "its end", |all| !all[0].machine.gone.is_empty());
        assert_eq!(a.machine.gone, [(to_b, PeerError::Dead)]);
        let _ = to_a;
    }
}

#[test]
fn what_a_process_has_sent_arrives_before_its_end() {
    for devices in [1, 3] {
        let Pair { mut a, mut b, mut relays, to_b, to_a } = Pair::met(devices, BRISK);
        for seq in 0..100 {
            b.send(to_a, seq, &payload(seq));
        }
        drop(b);
        until_by(&mut [&mut a], &mut relays, "its end", |all| !all[0].machine.gone.is_empty());
        assert_eq!(a.machine.packets.len(), 100);
        for (seq, got) in (0..).zip(&a.machine.packets) {
            assert_eq!(*got, (to_b, seq, payload(seq)));
        }
    }
}

#[test]
fn a_port_that_nobody_listens_at_any_more_is_the_end_of_a_peer() {
    let Pair { mut a, b, mut relays, to_b, .. } = Pair::met(2, BRISK);
    for relay in &mut relays {
        relay.refuse();
        relay.cut(Cut::Rst);
    }
    until_by(&mut [&mut a], &mut relays, "its end", |all| !all[0].machine.gone.is_empty());
    assert_eq!(a.machine.gone, [(to_b, PeerError::Dead)]);
    drop(b);
}
