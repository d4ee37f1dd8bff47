//! Peers that have proved who they are, and then break the rules.

use super::{Chance, MODES, Process, loopback, region, region_mut, until};
use crate::address::Address;
use crate::net::devices::IpNet;
use crate::net::handshake::{Cipher, Device, Hello, Identity, Initiator, Security};
use crate::net::{Entry, NetConfig};
use proptest::prelude::*;
use sluice_link::{
    Connect, Grant, Opened, PeerError, RailError, Remote, RemoteMemory, Rights, Token, Transport,
};
use sluice_wire::frame::{Ask, FRAME_HEAD_BYTES, FrameHead, FrameKind, RemoteWrite, WriteDone};
use sluice_wire::{PeerId, RemoteKey};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Instant;

/// A peer whose every byte is the test's.
struct Rogue {
    stream: TcpStream,
    address: Address,
    /// What has come and was not looked at.
    got: Vec<u8>,
    /// What it seals and opens with, and what of what came is not opened yet.
    cipher: Option<Cipher>,
    sealed: Vec<u8>,
}

impl Rogue {
    /// Connects to a process as a peer should. Says as whom that process knows it.
    fn join(a: &mut Process) -> (Rogue, PeerId) {
        let ip = IpAddr::V4(Ipv4Addr::new(127, 0, 1, 66));
        let identity = Identity::generate().unwrap().at(SocketAddr::new(ip, 9)).unwrap();
        let grant = Grant { data_slots: 1024, control_slots: 32, credit_slots: 8 };
        let hello = Hello {
            address: identity.address(),
            attempt: 1,
            user: 0,
            label: 0,
            opened: Opened { grant, dynamic_slots: 0 },
            own_device: 0,
            peer_device: None,
            devices: vec![Device {
                index: 0,
                addresses: IpNet::new(ip, 24).unwrap().into(),
                port: 9,
                mbit_per_s: 10_000,
            }],
            fabric: None,
        };
        let to = a.world.address();
        let mode = a.world.net().unwrap().config.security;
        let (mut initiator, ask) = Initiator::new(&identity, &to, mode, &hello).unwrap();
        let stream = TcpStream::connect(to.host().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream.set_nodelay(true).unwrap();
        let address = identity.address();
        let (got, sealed) = (Vec::new(), Vec::new());
        let mut rogue = Rogue { stream, address, got, cipher: None, sealed };
        rogue.say(a, &ask);
        let (proof, cipher) = loop {
            rogue.listen(a);
            let got = std::mem::take(&mut rogue.got);
            if let Some((answered, used)) = initiator.take(&got).unwrap() {
                rogue.sealed = got[used..].to_vec();
                break (answered.proof, answered.established.cipher);
            }
        };
        rogue.say(a, &proof);
        rogue.cipher = cipher;
        rogue.open();
        let peer = a.world.peer(&rogue.address).unwrap();
        until(&mut [a], "the peer", |all| all[0].world.net().unwrap().met(peer).is_some());
        assert!(matches!(a.world.connect(peer), Ok(Connect::Ready(_))));
        (rogue, peer)
    }

    /// Says all of it, unless the connection ends.
    fn say(&mut self, a: &mut Process, bytes: &[u8]) {
        let mut sealed = Vec::new();
        match &mut self.cipher {
            Some(cipher) => {
                cipher.sealer.seal(bytes, &mut sealed);
                self.say_bare(a, &sealed);
            }
            None => self.say_bare(a, bytes),
        }
    }

    /// The same, as it is.
    fn say_bare(&mut self, a: &mut Process, mut bytes: &[u8]) {
        let begin = Instant::now();
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(cause) if cause.kind() == ErrorKind::WouldBlock => a.poll(),
                Err(_) => return,
            }
            assert!(begin.elapsed() < super::PATIENCE);
        }
    }

    /// Takes what has come.
    fn listen(&mut self, a: &mut Process) {
        a.poll();
        let mut bytes = [0; 64 << 10];
        while let Ok(got) = self.stream.read(&mut bytes) {
            if got == 0 {
                break;
            }
            self.sealed.extend(&bytes[..got]);
        }
        self.open();
    }

    /// Opens what has come.
    fn open(&mut self) {
        let Some(cipher) = &mut self.cipher else {
            return self.got.append(&mut self.sealed);
        };
        let mut at = 0;
        while let Some(record) = cipher.opener.open(&mut self.sealed, at, at).unwrap() {
            self.got.extend(&self.sealed[at..at + record.plain]);
            at += record.used;
        }
        self.sealed.drain(..at);
    }

    /// The next frame of a kind, and its body.
    fn expect(&mut self, a: &mut Process, kind: FrameKind) -> (FrameHead, Vec<u8>) {
        let begin = Instant::now();
        loop {
            self.listen(a);
            while let Some(head) = self.got.first_chunk() {
                let head = FrameHead::parse(head).unwrap();
                let whole = FRAME_HEAD_BYTES + head.len as usize;
                if self.got.len() < whole {
                    break;
                }
                let frame: Vec<u8> = self.got.drain(..whole).collect();
                if head.kind == kind {
                    return (head, frame[FRAME_HEAD_BYTES..].to_vec());
                }
            }
            assert!(begin.elapsed() < super::PATIENCE, "no {kind:?}");
        }
    }
}

fn frame(kind: FrameKind, id: u32, acknowledged: u64, body: &[u8]) -> Vec<u8> {
    let head = FrameHead { kind, len: body.len() as u32, id, acknowledged };
    [&head.emit()[..], body].concat()
}

fn head(kind: FrameKind, len: u32, id: u32) -> Vec<u8> {
    FrameHead { kind, len, id, acknowledged: 0 }.emit().to_vec()
}

fn ask(key: RemoteKey, len: u32) -> Vec<u8> {
    frame(FrameKind::Ask, 5, 0, &Ask { key, offset: 0, len }.emit())
}

fn write(token: u64, to: RemoteKey, len: u64) -> Vec<u8> {
    let write = RemoteWrite { token, to, offset: 0, len, from: RemoteKey::from_bits(3) };
    frame(FrameKind::Write, token as u32, 0, &write.emit())
}

/// The process that is attacked.
fn attacked(security: Security) -> Process {
    let config = NetConfig::with_devices(vec![loopback(1)]);
    Process::with(NetConfig { security, ..config })
}

/// What is said makes the process give this peer up, and only this one, however
/// connections are protected.
fn is_given_up(what: &str, mut said: impl FnMut(&mut Process, &mut Rogue, PeerId) -> Vec<u8>) {
    for security in MODES {
        let (mut a, mut rogue) = is_given_up_unheard(security, what, &mut said);
        let (close, _) = rogue.expect(&mut a, FrameKind::Close);
        assert_eq!(close.id, sluice_wire::frame::CloseReason::Protocol.id());
    }
}

/// The same, but it need not be told why.
fn is_given_up_unheard(
    security: Security,
    what: &str,
    said: impl FnOnce(&mut Process, &mut Rogue, PeerId) -> Vec<u8>,
) -> (Process, Rogue) {
    let mut a = attacked(security);
    let (_good, good_peer) = Rogue::join(&mut a);
    let (mut rogue, peer) = Rogue::join(&mut a);
    let bytes = said(&mut a, &mut rogue, peer);
    rogue.say(&mut a, &bytes);
    until(&mut [&mut a], what, |all| !all[0].machine.gone.is_empty());
    assert_eq!(a.machine.gone, [(peer, PeerError::Protocol)], "{what}");
    assert_eq!(a.world.net().unwrap().stats().violations, 1, "{what}");
    assert!(a.world.net().unwrap().met(good_peer).is_some());
    assert!(matches!(a.world.connect(peer), Err(PeerError::Protocol)));
    (a, rogue)
}

#[test]
fn who_breaks_the_rules_of_frames_is_given_up() {
    is_given_up("a number left out", |_, _, _| write(1, RemoteKey::from_bits(1), 1));
    is_given_up("a number of long ago", |_, _, _| write(0x9000_0000, RemoteKey::from_bits(1), 1));
    is_given_up("acknowledged before it was sent", |_, _, _| frame(FrameKind::Probe, 0, 1, &[]));
    is_given_up("an end for no reason", |_, _, _| frame(FrameKind::Close, 77, 0, &[]));
    is_given_up("an ask for nothing", |_, _, _| ask(RemoteKey::from_bits(1), 0));
    is_given_up("a packet that is too long", |_, _, _| head(FrameKind::Packet, u32::MAX, 0));
    is_given_up("a packet of nothing", |_, _, _| frame(FrameKind::Packet, 0, 0, &[]));
    is_given_up("a packet of garbage", |_, _, _| frame(FrameKind::Packet, 0, 0, &[9; 100]));
    is_given_up("the end of no write", |_, _, _| {
        frame(FrameKind::Written, 0, 0, &WriteDone { token: 1, is_done: true }.emit())
    });
}

#[test]
fn who_sends_another_length_than_was_asked_for_is_given_up_and_writes_nothing_beyond() {
    for len in [1001, u32::MAX] {
        let mut into = vec![0xdb_u8; 3000];
        let here = region_mut(&mut into[1000..2000]);
        is_given_up("another length", |a, rogue, peer| {
            a.world.read_remote(peer, Remote::whole(RemoteKey::from_bits(1)), here, Token(1));
            let (asked, _) = rogue.expect(a, FrameKind::Ask);
            [head(FrameKind::Data, len, asked.id), vec![1; 2000]].concat()
        });
        assert!(into[..1000].iter().chain(&into[2000..]).all(|&byte| byte == 0xdb));
    }
}

/// What is no frame may have been altered by somebody else.
#[test]
fn a_connection_with_what_is_no_frame_is_closed_and_counted() {
    for (security, is_sealed) in [(Security::Auth, true), (Security::Encrypt, true)]
        .into_iter()
        .chain(MODES.map(|mode| (mode, false)))
    {
        let mut a = attacked(security);
        let (_good, good_peer) = Rogue::join(&mut a);
        let (mut rogue, peer) = Rogue::join(&mut a);
        let bytes = [7; 3000];
        if is_sealed {
            rogue.say(&mut a, &bytes)
        } else {
            rogue.say_bare(&mut a, &bytes)
        }
        until(&mut [&mut a], "its end", |all| all[0].world.net().unwrap().conn_count(peer) == 0);
        let stats = a.world.net().unwrap().stats();
        assert_eq!((stats.altered, stats.violations), (1, 0));
        assert_eq!(a.world.net().unwrap().conn_count(good_peer), 1);
        assert!(a.machine.packets.is_empty());
    }
}

#[test]
fn who_asks_or_writes_without_end_is_given_up() {
    let bytes = vec![1u8; 1 << 20];
    is_given_up("asks", |a, _, peer| {
        let key = a.world.expose(peer, region(&bytes), Rights::READ);
        ask(key, 1 << 20).repeat(10_000)
    });
    let mut into = vec![0u8; 100];
    is_given_up("writes", |a, _, peer| {
        let key = a.world.expose(peer, region_mut(&mut into), Rights::WRITE);
        (0..10_000).flat_map(|at| write(at, key, 100)).collect()
    });
}

/// What it is answered would fill the memory, if it does not listen.
#[test]
fn who_does_not_listen_to_answers_is_given_up() {
    let mode = Security::Auth;
    is_given_up_unheard(mode, "probes", |_, _, _| {
        frame(FrameKind::Probe, 0, 0, &[]).repeat(2_000_000)
    });
    is_given_up_unheard(mode, "faults", |_, _, _| {
        ask(RemoteKey::from_bits(1), 1).repeat(2_000_000)
    });
    is_given_up_unheard(mode, "failed writes", |_, _, _| {
        (0..1_000_000).flat_map(|at| write(at, RemoteKey::from_bits(1), 1)).collect()
    });
}

#[test]
fn what_was_not_asked_for_is_dropped() {
    let mut a = attacked(Security::Auth);
    let (mut rogue, peer) = Rogue::join(&mut a);
    for len in [0, 1, 100, 1 << 20] {
        let data = [head(FrameKind::Data, len, 77), vec![1; len as usize]].concat();
        rogue.say(&mut a, &data);
    }
    rogue.say(&mut a, &frame(FrameKind::Fault, 77, 0, &[]));
    rogue.say(&mut a, &frame(FrameKind::Answer, 77, 0, &[]));
    rogue.say(&mut a, &frame(FrameKind::Probe, 0, 0, &[]));
    rogue.expect(&mut a, FrameKind::Answer);
    assert!(a.machine.gone.is_empty() && a.world.net().unwrap().met(peer).is_some());
    // Nor does the name of a chunk help that is asked for only later.
    let mut into = vec![0xdb_u8; 3000];
    rogue.say(&mut a, &[head(FrameKind::Data, 5000, 256), vec![1; 2000]].concat());
    for _ in 0..100 {
        a.poll();
    }
    let from = Remote::whole(RemoteKey::from_bits(1));
    a.world.read_remote(peer, from, region_mut(&mut into[1000..2000]), Token(1));
    let (asked, _) = rogue.expect(&mut a, FrameKind::Ask);
    rogue.say(&mut a, &vec![2; 3000]);
    rogue.say(&mut a, &[head(FrameKind::Data, 1000, asked.id), vec![3; 1000]].concat());
    until(&mut [&mut a], "the read", |all| {
        !all[0].machine.moved.is_empty() || !all[0].machine.gone.is_empty()
    });
    assert!(into[..1000].iter().chain(&into[2000..]).all(|&byte| byte == 0xdb));
}

#[test]
fn a_fault_ends_a_read_and_what_comes_of_it_later_is_dropped() {
    let mut a = attacked(Security::Auth);
    let (mut rogue, peer) = Rogue::join(&mut a);
    let mut into = vec![0u8; 1000];
    let from = Remote::whole(RemoteKey::from_bits(1));
    a.world.read_remote(peer, from, region_mut(&mut into), Token(1));
    let (asked, _) = rogue.expect(&mut a, FrameKind::Ask);
    rogue.say(&mut a, &frame(FrameKind::Fault, asked.id, 0, &[]));
    until(&mut [&mut a], "the fault", |all| !all[0].machine.moved.is_empty());
    assert_eq!(a.machine.moved, [(Token(1), Err(RailError::Fault))]);
    rogue.say(&mut a, &[head(FrameKind::Data, 1000, asked.id), vec![1; 1000]].concat());
    rogue.say(&mut a, &frame(FrameKind::Probe, 0, 0, &[]));
    rogue.expect(&mut a, FrameKind::Answer);
    assert!(into.iter().all(|&byte| byte == 0) && a.machine.gone.is_empty());
}

/// A frame of any kind with fields of any value.
fn any_frame(chance: &mut Chance, keys: [RemoteKey; 2], number: &mut u32) -> Vec<u8> {
    const KINDS: [FrameKind; 11] = [
        FrameKind::Packet,
        FrameKind::Write,
        FrameKind::Written,
        FrameKind::Ask,
        FrameKind::Data,
        FrameKind::Fault,
        FrameKind::Probe,
        FrameKind::Answer,
        FrameKind::Seek,
        FrameKind::Found,
        FrameKind::Close,
    ];
    // Most do not end the connection.
    let kinds = if chance.below(20) == 0 { 11 } else { 10 };
    let kind = KINDS[chance.below(kinds) as usize];
    let key = match chance.below(8) {
        0 => RemoteKey::from_bits(chance.next()),
        at => keys[at as usize % 2],
    };
    let odd = |chance: &mut Chance, usual: u64| match chance.below(12) {
        0 => chance.next(),
        1 => u64::MAX - chance.below(100),
        _ => usual,
    };
    let (offset, len) = (chance.below(100), 1 + chance.below(900));
    let (offset, len) = (odd(chance, offset), odd(chance, len));
    let body = match kind {
        FrameKind::Write => {
            let write = RemoteWrite { token: chance.next(), to: key, offset, len, from: key };
            write.emit().to_vec()
        }
        FrameKind::Written => {
            WriteDone { token: chance.below(3), is_done: chance.below(2) == 0 }.emit().to_vec()
        }
        FrameKind::Ask | FrameKind::Seek => Ask { key, offset, len: len as u32 }.emit().to_vec(),
        FrameKind::Found => [key.bits().to_le_bytes(), offset.to_le_bytes()].concat(),
        FrameKind::Data => vec![1; [1000, 500, len.min(3000) as usize][chance.below(3) as usize]],
        FrameKind::Packet => (0..chance.below(100)).map(|_| chance.next() as u8).collect(),
        _ => Vec::new(),
    };
    let id = if kind.is_of_stream() {
        *number += 1;
        *number - 1
    } else {
        // Names of chunks: a place and a generation.
        (chance.below(4) << 8 | chance.below(4)) as u32
    };
    let id = if chance.below(30) == 0 { chance.next() as u32 } else { id };
    let acknowledged = if chance.below(30) == 0 { chance.below(5) } else { 0 };
    let mut bytes = frame(kind, id, acknowledged, &body);
    if chance.below(30) == 0 {
        let at = chance.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << chance.below(8);
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Whatever a peer sends, nothing but its own reads is written and nobody panics.
    #[test]
    fn whatever_a_peer_sends_only_what_is_its_own_is_touched(seed in any::<u64>()) {
        let mut chance = Chance(seed);
        let mut a = attacked(MODES[chance.below(3) as usize]);
        let (mut rogue, peer) = Rogue::join(&mut a);
        let mut memory = vec![0xdb_u8; 6000];
        let (read, rest) = memory.split_at_mut(3000);
        let from = Remote::whole(RemoteKey::from_bits(1));
        for at in 0..2 {
            let into = region_mut(&mut read[1000 + 500 * at..1500 + 500 * at]);
            a.world.read_remote(peer, from, into, Token(at as u64));
        }
        a.world.write_remote(peer, region(&rest[..100]), from, Token(9));
        let readable = a.world.expose(peer, region(&rest[1000..2000]), Rights::READ);
        let writable = a.world.expose(peer, region_mut(&mut rest[1000..2000]), Rights::WRITE);
        let mut number = 0;
        for _ in 0..chance.below(60) {
            let bytes = if chance.below(40) == 0 {
                (0..chance.below(5000)).map(|_| chance.next() as u8).collect()
            } else {
                any_frame(&mut chance, [readable, writable], &mut number)
            };
            rogue.say(&mut a, &bytes);
            if chance.below(3) == 0 {
                rogue.listen(&mut a);
            }
        }
        drop(rogue);
        for _ in 0..50 {
            a.poll();
        }
        let guards = [&memory[..1000], &memory[2000..4000], &memory[5000..]];
        prop_assert!(guards.iter().all(|guard| guard.iter().all(|&byte| byte == 0xdb)));
        prop_assert!(a.machine.gone.len() <= 1);
        let conns = a.world.net().unwrap().entries.iter();
        prop_assert!(conns.filter(|(_, entry)| matches!(entry, Entry::Conn(_))).count() <= 1);
    }
}
