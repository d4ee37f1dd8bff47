//! Two worlds over shared memory, and what a machine gets as its port.

mod shown;

use super::*;
use crate::address::ADDRESS_BYTES;
use sluice_link::{Opened, RailError};
use sluice_wire::{Credits, List, Packet, PacketSeq, Parsed, Reply, Status};
use std::any::type_name;
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up. Far more than needed.
const PATIENCE: Duration = Duration::from_secs(120);

/// A machine that writes down which inputs it got, and of which port.
#[derive(Debug, Default)]
struct Inputs {
    got: Vec<(&'static str, &'static str)>,
    /// Whether whoever sends a packet is given up.
    refuses: bool,
}

impl Machine for Inputs {
    fn on_packet<P: Port>(&mut self, _: Nanos, port: &mut P, from: PeerId, packet: &Parsed) {
        self.got.push(("packet", type_name::<P>()));
        let mut bytes = vec![0; packet.payload_len as usize];
        port.payload(0, &mut bytes);
        assert_eq!(bytes, *b"payload");
        if self.refuses {
            port.refuse(from);
        }
    }

    fn placement(&self, _: PeerId, _: &Parsed) -> Option<Region> {
        None
    }

    fn on_connected<P: Port>(&mut self, _: Nanos, _: &mut P, _: PeerId, _: Opened) {
        self.got.push(("connected", type_name::<P>()));
    }

    fn on_transmitted<P: Port>(&mut self, _: Nanos, _: &mut P, _: Token) {
        self.got.push(("transmitted", type_name::<P>()));
    }

    fn on_moved<P: Port>(&mut self, _: Nanos, _: &mut P, _: Token, _: Result<(), RailError>) {
        self.got.push(("moved", type_name::<P>()));
    }

    fn on_peer_gone<P: Port>(&mut self, _: Nanos, _: &mut P, _: PeerId, _: PeerError) {
        self.got.push(("gone", type_name::<P>()));
    }

    fn on_idle<P: Port>(&mut self, _: Nanos, _: &mut P) {
        self.got.push(("idle", type_name::<P>()));
    }

    fn deadline(&self) -> Option<Nanos> {
        None
    }
}

impl Inputs {
    /// Which inputs, each once; all of them had the world as their port.
    fn kinds(&self) -> Vec<&'static str> {
        let mut kinds: Vec<_> = self
            .got
            .iter()
            .map(|&(kind, port)| {
                assert_eq!(port, type_name::<World>(), "{kind}");
                kind
            })
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }
}

fn poll_until(world: &mut World, machine: &mut Inputs, kind: &str) {
    let begin = Instant::now();
    while machine.got.iter().all(|&(got, _)| got != kind) {
        world.poll(world.now(), machine, 16);
        assert!(begin.elapsed() < PATIENCE, "waited in vain: {kind}");
    }
}

fn region(bytes: &[u8]) -> Region {
    Region { addr: Addr(bytes.as_ptr().expose_provenance() as u64), len: bytes.len() as u64 }
}

fn say(from: &mut World, to: &World) -> PeerId {
    let to = from.peer(&to.address()).unwrap();
    from.connect(to).unwrap();
    let head = Packet::Reply(Reply { op: 1, offset: 0, list: List::Priority, status: Status::Ok })
        .emit(PacketSeq(0), Credits::default(), 7);
    assert_eq!(from.transmit(to, &head, region(b"payload"), Token(0)), Transmitted::Done);
    to
}

#[test]
fn a_machine_gets_the_world_as_its_port_with_every_input() {
    let config = Config::default();
    let mut worlds = [(); 2].map(|()| World::open(config.clone()).unwrap());
    let [a, b] = &mut worlds;
    let to_b = say(a, b);
    let mut machine = Inputs::default();
    let into = [0; 8];
    a.read_remote(to_b, Remote::whole(RemoteKey::from_bits(1)), region(&into), Token(1));
    poll_until(a, &mut machine, "moved");
    poll_until(a, &mut machine, "idle");
    let mut refusing = Inputs { refuses: true, ..Inputs::default() };
    b.take_in(b.now(), &mut refusing, 16);
    assert_eq!(refusing.kinds(), ["packet"]);
    poll_until(b, &mut refusing, "gone");
    poll_until(a, &mut machine, "gone");
    assert_eq!(machine.kinds(), ["gone", "idle", "moved"]);
    refusing.kinds();
}

#[test]
fn an_address_of_another_host_is_refused_and_takes_no_id() {
    let mut world = World::open(Config::default()).unwrap();
    let mut bytes: [u8; ADDRESS_BYTES] = world.address().to_bytes();
    // The tag of the host, and the key.
    bytes[2] ^= 1;
    bytes[ADDRESS_BYTES - 1] ^= 1;
    let address = Address::from_bytes(&bytes).unwrap();
    assert_eq!(world.peer(&address), Err(AddressError::OtherHost));
    assert_eq!(world.stats().peers_known, 1);
}
