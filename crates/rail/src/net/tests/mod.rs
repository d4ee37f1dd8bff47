//! Two or more processes that speak over loopback: each a world of its own, polled in
//! turn by the test.

mod carried;
mod changes;
mod crossing;
mod exactly_once;
mod fabric;
mod fabric_faults;
mod fabric_reads;
mod failures;
mod families;
mod faults;
mod gather;
mod glance;
mod injected;
mod intruders;
mod known_as;
mod listening;
mod listing;
mod matching;
mod memory;
mod pair;
mod processes;
mod relay;
mod rogues;
mod spares;
mod taken_back;
mod tampered;
mod unmapped;

use crate::net::devices::{Addresses, IpNet};
use crate::net::handshake::Security;
use crate::net::{Entry, NetConfig, OwnDevice};
use crate::shm::Config;
use crate::world::World;
use ipnet::Ipv4Net;
use relay::Relay;
use sluice_link::{Machine, Opened, PeerError, Port, RailError, TaggedEnd, Token, Transport};
use sluice_wire::{
    Addr, Credits, List, Nanos, Packet, PacketSeq, Parsed, PeerId, Region, Reply, Status,
};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up. Far more than needed.
const PATIENCE: Duration = Duration::from_secs(20);

/// All ways to protect connections.
const MODES: [Security; 3] = [Security::Auth, Security::Encrypt, Security::None];

/// A machine that writes down what it is told.
#[derive(Debug, Default)]
struct Recorder {
    connected: Vec<PeerId>,
    packets: Vec<(PeerId, u32, Vec<u8>)>,
    moved: Vec<(Token, Result<(), RailError>)>,
    gone: Vec<(PeerId, PeerError)>,
    ended: Vec<(Token, TaggedEnd)>,
    idles: usize,
}

impl Machine for Recorder {
    fn on_packet<P: Port>(&mut self, _: Nanos, port: &mut P, from: PeerId, packet: &Parsed) {
        let mut bytes = vec![0; packet.payload_len as usize];
        let to = Addr(bytes.as_mut_ptr().expose_provenance() as u64);
        assert!(port.copy_payload(0, to, packet.payload_len), "a network cuts nothing");
        self.packets.push((from, packet.seq.0, bytes));
    }

    fn placement(&self, _: PeerId, _: &Parsed) -> Option<Region> {
        None
    }

    fn on_connected<P: Port>(&mut self, _: Nanos, _: &mut P, peer: PeerId, _: Opened) {
        self.connected.push(peer);
    }

    fn on_transmitted<P: Port>(&mut self, _: Nanos, _: &mut P, _: Token) {
        unreachable!("packets are copied");
    }

    fn on_moved<P: Port>(&mut self, _: Nanos, _: &mut P, token: Token, how: Result<(), RailError>) {
        self.moved.push((token, how));
    }

    fn on_tagged<P: Port>(&mut self, _: Nanos, _: &mut P, token: Token, end: TaggedEnd) {
        self.ended.push((token, end));
    }

    fn on_peer_gone<P: Port>(&mut self, _: Nanos, _: &mut P, peer: PeerId, why: PeerError) {
        self.gone.push((peer, why));
    }

    fn on_idle<P: Port>(&mut self, _: Nanos, _: &mut P) {
        self.idles += 1;
    }

    fn deadline(&self) -> Option<Nanos> {
        None
    }
}

/// A process.
struct Process {
    world: World,
    machine: Recorder,
}

impl Process {
    /// One that listens at so many addresses of this host, and shares no memory.
    fn new(devices: u8) -> Process {
        Process::with(NetConfig::with_devices((1..=devices).map(loopback).collect()))
    }

    fn with(config: NetConfig) -> Process {
        Process::with_both(Config::default(), config)
    }

    fn with_both(config: Config, net: NetConfig) -> Process {
        let world = World::open_with_net(config, net, false).unwrap();
        Process { world, machine: Recorder::default() }
    }

    fn knows(&mut self, other: &Process) -> PeerId {
        self.world.peer(&other.world.address()).unwrap()
    }

    /// For who wants to know why a test waits in vain.
    fn show(&self) {
        let net = self.world.net().unwrap();
        eprintln!("{:?} {:?} {:#?} {:#?}", net.stats, net.hot, net.remotes, net.entries);
    }

    /// Opens all rails to all peers that it has met, as if there were something to stripe.
    fn open_all(&mut self) {
        let net = self.world.net_mut();
        for peer in net.active.clone() {
            let now = net.now;
            net.with_rails(peer, |rails, below| rails.open_spares(now, below));
        }
    }

    fn poll(&mut self) {
        let now = self.world.refresh_now();
        self.world.poll(now, &mut self.machine, 64);
    }

    fn send(&mut self, to: PeerId, seq: u32, payload: &[u8]) {
        let packet = Reply { op: 1, offset: 0, list: List::Priority, status: Status::Ok };
        let head =
            Packet::Reply(packet).emit(PacketSeq(seq), Credits::default(), payload.len() as u32);
        self.world.transmit(to, &head, region(payload), Token(0));
    }
}

/// Addresses of the loopback device, each as if it were a device of its own.
pub(super) fn loopback(at: u8) -> OwnDevice {
    OwnDevice {
        name: format!("lo{at}"),
        index: 1,
        addresses: IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(127, 0, at, 1), 24)).into(),
        mbit_per_s: 10_000,
        fabric: None,
    }
}

/// An address and its network.
fn one(net: &str) -> Addresses {
    net.parse::<IpNet>().unwrap().into()
}

fn region(bytes: &[u8]) -> Region {
    Region { addr: Addr(bytes.as_ptr().expose_provenance() as u64), len: bytes.len() as u64 }
}

fn region_mut(bytes: &mut [u8]) -> Region {
    Region { addr: Addr(bytes.as_mut_ptr().expose_provenance() as u64), len: bytes.len() as u64 }
}

/// Polls all in turn until something is so.
fn until(all: &mut [&mut Process], what: &str, is_so: impl FnMut(&mut [&mut Process]) -> bool) {
    until_by(all, &mut [], what, is_so);
}

/// The same, where relays stand between them.
fn until_by(
    all: &mut [&mut Process],
    relays: &mut [Relay],
    what: &str,
    mut is_so: impl FnMut(&mut [&mut Process]) -> bool,
) {
    let begin = Instant::now();
    while !is_so(all) {
        all.iter_mut().for_each(|process| process.poll());
        relays.iter_mut().for_each(Relay::poll);
        assert!(begin.elapsed() < PATIENCE, "waited in vain: {what}");
    }
}

/// A process behind relays, one before each of its devices.
fn behind_relays(config: NetConfig) -> (Process, Vec<Relay>) {
    let mut relays: Vec<Relay> =
        config.devices.iter().map(|device| Relay::new(device.addresses.first())).collect();
    let told_ports = relays.iter().map(|relay| relay.at.port()).collect();
    let process = Process::with(NetConfig { told_ports, ..config });
    for (_, entry) in &process.world.net().unwrap().entries {
        if let Entry::Listener(listener) = entry {
            let at = rustix::net::getsockname(&listener.socket).unwrap();
            relays[usize::from(listener.device)].lead_to(at.try_into().unwrap());
        }
    }
    (process, relays)
}

/// Chance that is the same each time for one seed.
#[derive(Debug)]
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

impl crate::net::Net {
    /// How many connections to a peer are open.
    fn conn_count(&self, peer: PeerId) -> usize {
        self.met(peer).map_or(0, |met| met.conns.iter().flatten().count())
    }
}
