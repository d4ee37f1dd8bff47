//! How processes come together: listening, the first contact with a peer, the opening of
//! rails, and what becomes of strangers.
//!
//! A process that wants to speak to a peer asks it at the host and port in its address. In
//! the handshake both tell their devices, so both know all rails between them from then
//! on. Both may ask at once: of two attempts for one rail that meet, the one of the
//! process with the lower key goes on. To open further rails is the affair of the process
//! with the lower key; the other one asks only if that has not happened in time.
//!
//! A stranger has a bounded time, a bounded number of them is waited for, and what they
//! may cost is bounded too ([`super::allowance`]).

use super::conn::Conn;
use super::handshake::{
    Accepted, Answered, Asked, Device, Established, HandshakeError, Hello, Initiator, Refusal,
    Responder,
};
use super::perform::REFUSED_MAX;
use super::remote::{Meeting, Met, Pair, Remote, Stage};
use super::ring::Ring;
use super::{Entry, Event, Net, OwnDevice, devices, sock};
use crate::address::Address;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SocketFlags, sockopt};
use sluice_link::PeerError;
use sluice_multirail::{Peer, RailId, RailSpec};
use sluice_wire::{Nanos, PeerId};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// How long a stranger may take to say who it is.
pub(super) const STRANGER_NS: u64 = 5_000_000_000;
/// Most strangers at once; the one that has been there longest goes.
pub(super) const STRANGERS_MAX: usize = 64;
/// Connections taken from a listening socket in one go.
const ACCEPTS_MAX: usize = 16;
/// Connections that the system keeps until they are taken.
const BACKLOG: i32 = 1024;
/// How long the process with the higher key leaves opening to the other.
const OPEN_LATER_NS: u64 = 20_000_000;
/// How long a first contact may take without a sign of life of the peer's host.
const CONTACT_NS: u64 = 2_000_000_000;
/// How long the system may take to connect over one of several rails. It sends the first
/// packet again only after a second, so another attempt is sooner.
const CONNECT_NS: u64 = 200_000_000;
const RETRY_NS_MIN: u64 = 10_000_000;
const RETRY_NS_MAX: u64 = 1_000_000_000;
/// What is expected from asking to the first byte, until it is measured.
const LATENCY_NS: u64 = 20_000;
/// So many strangers are named one by one; then only their number is said, now and then.
pub(super) const STRANGERS_NAMED: u64 = 10;
/// Bytes of a handshake that are taken in one go.
const HANDSHAKE_BYTES: usize = 2048;

/// A connection that is not open yet.
#[derive(Debug)]
pub(super) struct Joining {
    socket: OwnedFd,
    begun: Nanos,
    deadline: Nanos,
    /// What the socket has not taken yet.
    out: Vec<u8>,
    pub(super) side: Side,
}

#[derive(Debug)]
pub(super) enum Side {
    /// The system connects.
    Connecting(Attempt),
    /// The peer was asked.
    Asking(Attempt, Box<Initiator>),
    /// Somebody has connected to this device.
    Listening(u8, SocketAddr, Box<Responder>),
    /// It was answered, and has to prove who it is.
    Proving(PeerId, u8, SocketAddr, Box<Accepted>),
}

/// What this process wants to open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    peer: PeerId,
    /// `None` for the first contact.
    rail: Option<RailId>,
}

/// A listening socket.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) socket: OwnedFd,
    /// Of which device.
    pub(super) device: u8,
}

impl Joining {
    /// Whether the other side's kernel has lately acknowledged something.
    pub(super) fn is_alive(&self) -> bool {
        const FRESH_MS: u32 = 2_500;
        let is_asked = matches!(self.side, Side::Asking(..));
        is_asked
            && sock::health(&self.socket)
                .is_some_and(|health| health.acknowledged_ms_ago <= FRESH_MS)
    }

    /// Whether its first packet was lost, most likely.
    pub(super) fn is_stuck(&self, now: Nanos) -> bool {
        matches!(self.side, Side::Connecting(_)) && now.since(self.begun).0 >= CONNECT_NS
    }

    /// Gives the socket what there is for it.
    fn flush(&mut self) -> io::Result<()> {
        while !self.out.is_empty() {
            let flags = rustix::net::SendFlags::NOSIGNAL | rustix::net::SendFlags::DONTWAIT;
            match rustix::net::send(&self.socket, &self.out, flags) {
                Ok(sent) => drop(self.out.drain(..sent)),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(cause) => return Err(cause.into()),
            }
        }
        Ok(())
    }
}

/// Listens at an address; the system chooses the port.
///
/// # Errors
/// The system's.
pub(super) fn listen(at: SocketAddr) -> io::Result<(OwnedFd, SocketAddr)> {
    let socket = sock::stream_socket(&at)?;
    if at.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    rustix::net::bind(&socket, &at)?;
    rustix::net::listen(&socket, BACKLOG)?;
    let bound = SocketAddr::try_from(rustix::net::getsockname(&socket)?)
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok((socket, bound))
}

impl Net {
    /// A peer of another host gets an id.
    pub fn introduce(&mut self, peer: PeerId, address: &Address) {
        if peer.index() >= self.remotes.len() {
            self.remotes.resize_with(peer.index() + 1, || None);
        }
        self.remotes[peer.index()].get_or_insert_with(|| {
            Box::new(Remote {
                address: *address,
                stage: Stage::Idle,
                is_wanted: false,
                is_seen: false,
                is_told: false,
            })
        });
    }

    /// Begins the first contact, if it has not begun.
    pub(super) fn meet(&mut self, peer: PeerId, now: Nanos) {
        let Some(remote) = self.remote_mut(peer) else { return };
        if !matches!(remote.stage, Stage::Idle) {
            return;
        }
        remote.stage = Stage::Meeting(Meeting {
            entry: None,
            since: now,
            retry_at: now,
            retry_ns: RETRY_NS_MIN,
            refused: 0,
        });
        self.active.push(peer);
        self.contact(peer);
    }

    /// Tries the first contact.
    fn contact(&mut self, peer: PeerId) {
        let Some(remote) = self.remote(peer) else { return };
        let Some(host) = remote.address.host() else {
            return self.lose(peer, PeerError::Unreachable);
        };
        let attempt = Attempt { peer, rail: None };
        match self.begin_attempt(attempt, None, host) {
            Ok(entry) => {
                if let Some(meeting) = self.meeting_mut(peer) {
                    meeting.entry = Some(entry);
                }
            }
            Err(cause) => self.attempt_failed(attempt, &cause),
        }
    }

    fn meeting_mut(&mut self, peer: PeerId) -> Option<&mut Meeting> {
        match &mut self.remote_mut(peer)?.stage {
            Stage::Meeting(meeting) => Some(meeting),
            _ => None,
        }
    }

    /// A rail is to be opened: now, or a little later, if the peer should do it.
    pub(super) fn open_soon(&mut self, peer: PeerId, rail: RailId) {
        let (now, own) = (self.now, self.identity.address());
        let Some(remote) = self.remote_mut(peer) else { return };
        let is_first = own.key() < remote.address.key();
        let Stage::Met(met) = &mut remote.stage else { return };
        if met.conns[rail.index()].is_some() {
            return;
        }
        if is_first {
            self.open_rail(peer, rail);
        } else {
            met.open_at[rail.index()] = Some(now.saturating_add(Nanos(OPEN_LATER_NS)));
        }
    }

    /// Opens the rails whose time has come.
    pub(super) fn open_due(&mut self, peer: PeerId) {
        let now = self.now;
        let Some(met) = self.met_mut(peer) else { return };
        for at in 0..met.open_at.len() {
            let Some(met) = self.met_mut(peer) else { return };
            if met.open_at[at].is_some_and(|due| due <= now) {
                met.open_at[at] = None;
                self.open_rail(peer, RailId(at as u8));
            }
        }
    }

    fn open_rail(&mut self, peer: PeerId, rail: RailId) {
        let Some(met) = self.met(peer) else { return };
        let at = rail.index();
        if met.conns[at].is_some() || met.attempts[at].is_some() {
            return;
        }
        let pair = met.pairs[at];
        let attempt = Attempt { peer, rail: Some(rail) };
        match self.begin_attempt(attempt, Some(pair), pair.at) {
            Ok(entry) => {
                if let Some(met) = self.met_mut(peer) {
                    met.attempts[at] = Some(entry);
                }
            }
            Err(cause) => self.attempt_failed(attempt, &cause),
        }
    }

    /// Has the system connect.
    fn begin_attempt(
        &mut self,
        attempt: Attempt,
        pair: Option<Pair>,
        to: SocketAddr,
    ) -> io::Result<usize> {
        let socket = sock::stream_socket(&to)?;
        sock::prepare(&socket, self.config.congestion.as_deref());
        if let Some(pair) = pair {
            let device = &self.config.devices[usize::from(pair.own)];
            rustix::net::bind(&socket, &SocketAddr::new(device.address, 0))?;
            if pair.is_one_network && self.is_chosen_by_system(pair) {
                // Where the system does not let a process choose, that is how it is.
                let _ = devices::bind_to_device(&socket, device.index);
            }
        }
        match rustix::net::connect(&socket, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(cause) => return Err(cause.into()),
        }
        let deadline = self.now.saturating_add(Nanos(CONTACT_NS));
        let side = Side::Connecting(attempt);
        let begun = self.now;
        let joining = Box::new(Joining { socket, begun, deadline, out: Vec::new(), side });
        self.add(Entry::Joining(joining))
    }

    /// Whether several devices of this process are in the network of a pair, of which the
    /// system would use the first for all, and the peer is on another host.
    fn is_chosen_by_system(&self, pair: Pair) -> bool {
        let devices = &self.config.devices;
        let network = |device: &OwnDevice| {
            ipnet::IpNet::new(device.address, device.prefix).map(|net| net.trunc())
        };
        let own = network(&devices[usize::from(pair.own)]);
        let shared = devices.iter().filter(|device| network(device) == own).count();
        shared > 1 && devices.iter().all(|device| device.address != pair.at.ip())
    }

    pub(super) fn add(&mut self, entry: Entry) -> io::Result<usize> {
        let at = self.entries.insert(entry);
        let listed = match &self.entries[at] {
            Entry::Conn(conn) => self.list(&conn.socket, at),
            Entry::Joining(joining) => self.list(&joining.socket, at),
            Entry::Listener(listener) => self.list(&listener.socket, at),
            Entry::Changes(socket) => self.list(socket, at),
            Entry::Taken => unreachable!("it is no descriptor"),
        };
        if let Err(cause) = listed {
            self.entries.remove(at);
            return Err(cause);
        }
        Ok(at)
    }

    /// Somebody has connected.
    pub(super) fn accept(&mut self, entry: usize) {
        for _ in 0..ACCEPTS_MAX {
            let Some(Entry::Listener(listener)) = self.entries.get(entry) else { return };
            let device = listener.device;
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let (socket, from) = match rustix::net::acceptfrom_with(&listener.socket, flags) {
                Ok(accepted) => accepted,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(Errno::AGAIN) => return,
                // Descriptors are short: the connection waits in the system's list.
                Err(_) => {
                    self.accept_later = Some(entry);
                    return;
                }
            };
            let Some(from) = from.and_then(|from| SocketAddr::try_from(from).ok()) else {
                continue;
            };
            if !self.allowances.may_ask(self.now, from.ip()) {
                self.count_stranger(Some(from), "too many came from there in vain");
                continue;
            }
            sock::prepare(&socket, self.config.congestion.as_deref());
            self.drop_oldest_stranger();
            let joining = Box::new(Joining {
                socket,
                begun: self.now,
                deadline: self.now.saturating_add(Nanos(STRANGER_NS)),
                out: Vec::new(),
                side: Side::Listening(
                    device,
                    from,
                    Box::new(Responder::new(&self.identity, self.config.security)),
                ),
            });
            if let Ok(entry) = self.add(Entry::Joining(joining)) {
                self.strangers.push_back(entry);
            }
        }
        // More wait, perhaps: the system says so only once.
        self.accept_again = Some(entry);
    }

    fn drop_oldest_stranger(&mut self) {
        if self.strangers.len() < STRANGERS_MAX {
            return;
        }
        if let Some(entry) = self.strangers.pop_front() {
            self.stranger(entry, "others wait");
        }
    }

    /// Something happened to a connection that is not open yet.
    pub(super) fn drive_joining(
        &mut self,
        entry: usize,
        intern: &mut dyn FnMut(&Address) -> Option<PeerId>,
    ) {
        let Some(Entry::Joining(joining)) = self.entries.get_mut(entry) else { return };
        if let Side::Connecting(attempt) = joining.side {
            match sockopt::socket_error(&joining.socket) {
                Ok(Ok(())) => {}
                Ok(Err(cause)) | Err(cause) => return self.give_up_attempt(entry, &cause.into()),
            }
            // Writable, or not connected yet.
            if rustix::net::getpeername(&joining.socket).is_err() {
                return;
            }
            if let Err(cause) = self.ask_peer(entry, attempt) {
                return self.give_up_attempt(entry, &io::Error::other(cause));
            }
        }
        let Some(Entry::Joining(joining)) = self.entries.get_mut(entry) else { return };
        if let Err(cause) = joining.flush() {
            return self.joining_failed(entry, &cause);
        }
        loop {
            let Some(Entry::Joining(joining)) = self.entries.get_mut(entry) else { return };
            let mut bytes = [0; HANDSHAKE_BYTES];
            let got = match rustix::net::recv(
                &joining.socket,
                &mut bytes[..],
                rustix::net::RecvFlags::DONTWAIT,
            ) {
                Ok((0, _)) => return self.joining_ended(entry),
                Ok((got, _)) => got,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => continue,
                Err(cause) => return self.joining_failed(entry, &cause.into()),
            };
            self.take_handshake(entry, &bytes[..got], intern);
        }
    }

    /// The system has connected: the peer is asked.
    fn ask_peer(&mut self, entry: usize, attempt: Attempt) -> Result<(), HandshakeError> {
        let Some(Entry::Joining(joining)) = self.entries.get(entry) else { return Ok(()) };
        let Some(remote) = self.remote(attempt.peer) else { return Ok(()) };
        let address = remote.address;
        let (own, other) = match (attempt.rail, &remote.stage) {
            (Some(rail), Stage::Met(met)) => {
                let pair = met.pairs[rail.index()];
                (pair.own, Some(pair.other))
            }
            _ => (self.device_of(&joining.socket), None),
        };
        let hello = self.hello(own, other);
        let (initiator, ask) =
            Initiator::new(&self.identity, &address, self.config.security, &hello)?;
        if let Some(Entry::Joining(joining)) = self.entries.get_mut(entry) {
            joining.out = ask;
            joining.side = Side::Asking(attempt, Box::new(initiator));
        }
        Ok(())
    }

    /// The device that a connection goes by.
    fn device_of(&self, socket: &OwnedFd) -> u8 {
        let local = rustix::net::getsockname(socket).ok();
        let local = local.and_then(|local| SocketAddr::try_from(local).ok());
        let is_it = |ip| local.is_some_and(|local: SocketAddr| local.ip() == ip);
        let at = self.config.devices.iter().position(|device| is_it(device.address));
        at.unwrap_or(0) as u8
    }

    fn hello(&mut self, own_device: u8, peer_device: Option<u8>) -> Hello {
        self.attempts = self.attempts.wrapping_add(1);
        let devices = self.config.devices.iter().zip(&self.ports).zip(0..);
        Hello {
            address: self.identity.address(),
            attempt: self.attempts,
            user: self.config.uid,
            label: self.config.label,
            opened: self.opened,
            own_device,
            peer_device,
            devices: devices
                .map(|((device, &port), index)| Device {
                    index,
                    ip: device.address,
                    prefix_bits: device.prefix,
                    port,
                    mbit_per_s: device.mbit_per_s,
                })
                .collect(),
        }
    }

    fn take_handshake(
        &mut self,
        entry: usize,
        bytes: &[u8],
        intern: &mut dyn FnMut(&Address) -> Option<PeerId>,
    ) {
        let Some(Entry::Joining(joining)) = self.entries.get_mut(entry) else { return };
        match &mut joining.side {
            Side::Connecting(_) => {}
            Side::Asking(attempt, initiator) => {
                let attempt = *attempt;
                match initiator.take(bytes) {
                    Ok(None) => {}
                    Ok(Some((Answered { established, proof }, used))) => {
                        joining.out.extend(proof);
                        if let Err(cause) = joining.flush() {
                            return self.give_up_attempt(entry, &cause);
                        }
                        self.establish(entry, attempt.peer, established, &bytes[used..]);
                    }
                    Err(HandshakeError::Refused(why)) => self.refused(entry, attempt, why),
                    Err(why) => {
                        let who = self.describe(attempt.peer);
                        (self.warn.0)(&format!("{who} cannot be connected to: {why}"));
                        self.give_up_attempt(entry, &io::Error::other(why));
                    }
                }
            }
            Side::Listening(device, from, responder) => {
                let (device, from) = (*device, *from);
                match responder.take(bytes) {
                    Ok(None) => {}
                    Ok(Some((asked, used))) => {
                        self.answer(entry, device, from, asked, intern);
                        if used < bytes.len() {
                            self.take_handshake(entry, &bytes[used..], intern);
                        }
                    }
                    Err(why) => {
                        if let Some(parting) = responder.parting(&why) {
                            joining.out.extend(parting);
                            let _ = joining.flush();
                        }
                        if matches!(why, HandshakeError::Stranger | HandshakeError::OtherAddress) {
                            self.allowances.spend(self.now, from.ip());
                        }
                        self.stranger(entry, &why.to_string());
                    }
                }
            }
            Side::Proving(peer, _, _, accepted) => {
                let peer = *peer;
                match accepted.take(bytes) {
                    Ok(None) => {}
                    Ok(Some((established, used))) => {
                        self.establish(entry, peer, established, &bytes[used..]);
                    }
                    Err(why) => self.stranger(entry, &why.to_string()),
                }
            }
        }
    }

    /// Answers one that has asked.
    fn answer(
        &mut self,
        entry: usize,
        device: u8,
        from: SocketAddr,
        asked: Asked,
        intern: &mut dyn FnMut(&Address) -> Option<PeerId>,
    ) {
        let address = asked.hello().address;
        let peer = intern(&address);
        if let Some(peer) = peer {
            self.introduce(peer, &address);
        }
        let peer = peer.ok_or(Refusal::NoRoom);
        let verdict = peer.and_then(|peer| {
            self.may_join(peer, device, asked.hello().own_device)?;
            Ok(peer)
        });
        let hello = self.hello(device, Some(asked.hello().own_device));
        let said = match verdict {
            Ok(peer) => {
                asked.accept(&hello).map(|(accepted, bytes)| (Some((peer, accepted)), bytes))
            }
            Err(why) => asked.refuse(why).map(|bytes| (None, bytes)),
        };
        let (accepted, bytes) = match said {
            Ok(said) => said,
            Err(why) => return self.stranger(entry, &why.to_string()),
        };
        let Some(Entry::Joining(joining)) = self.entries.get_mut(entry) else { return };
        joining.out.extend(bytes);
        let flushed = joining.flush();
        match accepted {
            Some((peer, accepted)) if flushed.is_ok() => {
                joining.side = Side::Proving(peer, device, from, Box::new(accepted));
            }
            _ => self.drop_joining(entry),
        }
    }

    /// Whether a peer may join that asks from its device `other` at the device `own`.
    fn may_join(&self, peer: PeerId, own: u8, other: u8) -> Result<(), Refusal> {
        let Some(remote) = self.remote(peer) else { return Err(Refusal::NoRoom) };
        let goes_first = self.identity.address().key() < remote.address.key();
        let attempt = match &remote.stage {
            Stage::Gone(_) => return Err(Refusal::GivenUp),
            Stage::Idle => None,
            Stage::Meeting(meeting) => meeting.entry,
            Stage::Met(met) => match met.rail_of_pair(own, other) {
                Some(rail) => met.attempts[rail.index()],
                // They have met by other devices meanwhile, as the peer is about to learn.
                None => return Err(Refusal::OwnFirst),
            },
        };
        let is_new = !matches!(remote.stage, Stage::Met(_));
        if is_new && self.met_count >= self.peers_max {
            return Err(Refusal::NoRoom);
        }
        let asks = attempt.is_some_and(|entry| {
            matches!(self.entries.get(entry), Some(Entry::Joining(joining)) if matches!(joining.side, Side::Asking(..)))
        });
        if goes_first && asks { Err(Refusal::OwnFirst) } else { Ok(()) }
    }

    /// A connection is open.
    fn establish(&mut self, entry: usize, peer: PeerId, established: Established, rest: &[u8]) {
        self.strangers.retain(|&other| other != entry);
        let Some(Entry::Joining(joining)) = self.entries.get(entry) else { return };
        let by_me = matches!(joining.side, Side::Asking(..));
        let own = match &joining.side {
            Side::Proving(_, device, ..) => *device,
            Side::Asking(Attempt { rail: Some(rail), .. }, _) => {
                self.met(peer).map_or(0, |met| met.pairs[rail.index()].own)
            }
            _ => self.device_of(&joining.socket),
        };
        let hello = established.hello;
        if self.met(peer).is_none() && !self.become_met(peer, entry, own, &hello) {
            return self.drop_joining(entry);
        }
        let Some(rail) = self.met(peer).and_then(|met| met.rail_of_pair(own, hello.own_device))
        else {
            return self.drop_joining(entry);
        };
        let at = rail.index();
        // Its own attempt, and an older connection, make room.
        let Some(met) = self.met_mut(peer) else { return };
        met.open_at[at] = None;
        if let Some(attempt) = met.attempts[at].take().filter(|&other| other != entry) {
            self.remove(attempt);
        }
        let older = self.met(peer).and_then(|met| met.conns[at]).filter(|&older| older != entry);
        if let Some(older) = older {
            if by_me {
                return self.drop_joining(entry);
            }
            self.broke(older, None);
        }
        let Entry::Joining(joining) = std::mem::replace(&mut self.entries[entry], Entry::Taken)
        else {
            return;
        };
        let mut conn = Conn::new(joining.socket, peer, rail);
        conn.partial = rest.to_vec();
        self.entries[entry] = Entry::Conn(Box::new(conn));
        let now = self.now;
        if let Some(met) = self.met_mut(peer) {
            met.conns[at] = Some(entry);
            met.refused = 0;
        }
        let wanted = self.with_rails(peer, |rails, below| rails.opened(now, below, rail));
        if wanted != Some(true) {
            if let Some(met) = self.met_mut(peer) {
                met.conns[at] = None;
            }
            return self.remove(entry);
        }
        self.stats.opened += 1;
        self.warm(entry);
        // What came with the handshake is not told again.
        if !rest.is_empty() {
            self.unread.push(entry);
        }
    }

    /// Both know each other now, and all rails between them.
    fn become_met(&mut self, peer: PeerId, entry: usize, own: u8, hello: &Hello) -> bool {
        let pairs = self.pairs_with(own, hello);
        let specs: Vec<RailSpec> = pairs
            .iter()
            .map(|pair| RailSpec { bytes_per_s: pair.bytes_per_s, latency_ns: LATENCY_NS })
            .collect();
        let now = self.now;
        let rails = Peer::new(&specs, self.config.timing, self.config.striping, now);
        let count = pairs.len();
        let mut met = Met {
            rails,
            opened: hello.opened,
            label: hello.label,
            uid: hello.user,
            pairs,
            conns: vec![None; count],
            attempts: vec![None; count],
            open_at: vec![None; count],
            ring: Ring::default(),
            stream_on: None,
            expected: 0,
            reads: Vec::new(),
            writes: Vec::new(),
            refused: 0,
        };
        // The rail by which they have met is not opened once more.
        let Some(rail) = met.rail_of_pair(own, hello.own_device) else { return false };
        met.conns[rail.index()] = Some(entry);
        let Some(remote) = self.remote_mut(peer) else { return false };
        let is_wanted = std::mem::take(&mut remote.is_wanted);
        match std::mem::replace(&mut remote.stage, Stage::Met(Box::new(met))) {
            Stage::Idle => self.active.push(peer),
            Stage::Meeting(meeting) => {
                let others = meeting.entry.filter(|&other| other != entry);
                others.into_iter().for_each(|other| self.remove(other));
            }
            stage @ (Stage::Gone(_) | Stage::Met(_)) => {
                if let Some(remote) = self.remote_mut(peer) {
                    remote.stage = stage;
                }
                return false;
            }
        }
        self.met_count += 1;
        if is_wanted {
            self.events.push_back(Event::Connected(peer, hello.opened));
        }
        self.with_rails(peer, |rails, below| rails.advance(now, below));
        true
    }

    /// The rails between this process and one that tells its devices, in an order that
    /// both compute. The one by which they have met is among them.
    fn pairs_with(&self, own: u8, hello: &Hello) -> Vec<Pair> {
        use super::devices::{Offer, pair};
        let offer = |ip, prefix, mbit: u32| Offer {
            addresses: ipnet::IpNet::new(ip, prefix).into_iter().collect(),
            speed_mbit: (mbit > 0).then_some(mbit),
        };
        let here: Vec<Offer> = self
            .config
            .devices
            .iter()
            .map(|device| offer(device.address, device.prefix, device.mbit_per_s))
            .collect();
        let there: Vec<Offer> = hello
            .devices
            .iter()
            .map(|device| offer(device.ip, device.prefix_bits, device.mbit_per_s))
            .collect();
        let found = pair(&here, &there).into_iter();
        let mut found: Vec<(usize, usize, bool)> =
            found.map(|pair| (pair.own, pair.peer, pair.same_network)).collect();
        let met_at = hello.devices.iter().position(|device| device.index == hello.own_device);
        let met_by = (usize::from(own), met_at.unwrap_or(0));
        let is_among = found.iter().any(|&(own, other, _)| (own, other) == met_by);
        if !is_among && found.len() < RailId::COUNT_MAX {
            found.push((met_by.0, met_by.1, false));
        }
        let as_pair = |(own, other, is_one_network): (usize, usize, bool)| {
            let (here, there) = (&self.config.devices[own], &hello.devices[other]);
            let known = [here.mbit_per_s, there.mbit_per_s].into_iter().filter(|&mbit| mbit > 0);
            let mbit = known.min().unwrap_or(1000);
            Pair {
                own: own as u8,
                other: there.index,
                at: SocketAddr::new(there.ip, there.port),
                is_one_network,
                bytes_per_s: u64::from(mbit) * 125_000,
            }
        };
        found.into_iter().map(as_pair).collect()
    }

    /// The peer does not want this attempt.
    fn refused(&mut self, entry: usize, attempt: Attempt, why: Refusal) {
        match why {
            // Its own attempt is on its way.
            Refusal::OwnFirst => self.give_up_attempt(entry, &io::ErrorKind::WouldBlock.into()),
            Refusal::GivenUp => {
                self.remove(entry);
                self.lose(attempt.peer, PeerError::Refused);
            }
            Refusal::NoRoom => {
                self.remove(entry);
                self.lose(attempt.peer, PeerError::Full);
            }
        }
    }

    fn joining_ended(&mut self, entry: usize) {
        self.joining_failed(entry, &io::ErrorKind::UnexpectedEof.into());
    }

    fn joining_failed(&mut self, entry: usize, cause: &io::Error) {
        let Some(Entry::Joining(joining)) = self.entries.get(entry) else { return };
        match &joining.side {
            Side::Connecting(_) | Side::Asking(..) => self.give_up_attempt(entry, cause),
            Side::Listening(_, from, responder) => {
                let (from, why) = (from.ip(), responder.ended());
                // Both had begun to ask at once, most likely, and it has given up its own.
                if why == (HandshakeError::Ended { got: 0 }) && self.is_of_peer(from) {
                    return self.drop_joining(entry);
                }
                self.stranger(entry, &why.to_string());
            }
            // The same, and it had asked rightly.
            Side::Proving(_, _, from, _) => {
                self.allowances.spend(self.now, from.ip());
                self.drop_joining(entry);
            }
        }
    }

    /// Whether a peer has this address, or had it before its end.
    fn is_of_peer(&self, ip: IpAddr) -> bool {
        self.remotes.iter().flatten().any(|remote| match &remote.stage {
            Stage::Met(met) if met.pairs.iter().any(|pair| pair.at.ip() == ip) => true,
            _ => remote.address.host().is_some_and(|host| host.ip() == ip),
        })
    }

    pub(super) fn give_up_attempt(&mut self, entry: usize, cause: &io::Error) {
        let Some(Entry::Joining(joining)) = self.entries.get(entry) else { return };
        let (Side::Connecting(attempt) | Side::Asking(attempt, _)) = joining.side else { return };
        self.remove(entry);
        self.attempt_failed(attempt, cause);
    }

    fn attempt_failed(&mut self, attempt: Attempt, cause: &io::Error) {
        let now = self.now;
        let is_refused = u32::from(cause.kind() == io::ErrorKind::ConnectionRefused);
        let Attempt { peer, rail } = attempt;
        let Some(rail) = rail else {
            let gone_ns = self.config.timing.gone_ns;
            let Some(meeting) = self.meeting_mut(peer) else { return };
            meeting.entry = None;
            meeting.refused = (meeting.refused + 1) * is_refused;
            meeting.retry_at = now.saturating_add(Nanos(meeting.retry_ns));
            meeting.retry_ns = (meeting.retry_ns * 2).min(RETRY_NS_MAX);
            if meeting.refused >= REFUSED_MAX {
                self.lose(peer, PeerError::Dead);
            } else if now.since(meeting.since).0 >= gone_ns {
                self.lose(peer, PeerError::Unreachable);
            }
            return;
        };
        let Some(met) = self.met_mut(peer) else { return };
        met.attempts[rail.index()] = None;
        met.refused += is_refused;
        let is_alone = met.conns.iter().all(Option::is_none);
        if is_alone && met.refused >= REFUSED_MAX {
            // Its host lives and knows nobody who listens there: a port is of one process.
            return self.lose(peer, PeerError::Dead);
        }
        self.with_rails(peer, |rails, below| rails.broke(now, below, rail));
    }

    /// A stranger: it goes, and is counted.
    fn stranger(&mut self, entry: usize, why: &str) {
        let Some(Entry::Joining(joining)) = self.entries.get(entry) else { return };
        let from = match &joining.side {
            Side::Listening(_, from, _) => Some(*from),
            Side::Proving(_, _, from, _) => {
                self.allowances.spend(self.now, from.ip());
                Some(*from)
            }
            Side::Connecting(_) | Side::Asking(..) => None,
        };
        self.count_stranger(from, why);
        self.drop_joining(entry);
    }

    fn count_stranger(&mut self, from: Option<SocketAddr>, why: &str) {
        let from = from.map_or_else(|| String::from("somewhere"), |from| from.to_string());
        self.stats.strangers += 1;
        let count = self.stats.strangers;
        if count <= STRANGERS_NAMED {
            (self.warn.0)(&format!("a connection from {from} was refused: {why}"));
        } else if count.is_power_of_two() {
            (self.warn.0)(&format!(
                "{count} connections were refused, the last from {from}: {why}"
            ));
        }
    }

    fn drop_joining(&mut self, entry: usize) {
        self.strangers.retain(|&other| other != entry);
        self.remove(entry);
    }

    /// Does for first contacts and strangers what is due.
    pub(super) fn look_after_meetings(&mut self) {
        let now = self.now;
        for at in (0..self.active.len()).rev() {
            let Some(&peer) = self.active.get(at) else { continue };
            let Some(&mut meeting) = self.meeting_mut(peer) else { continue };
            match meeting.entry {
                None if meeting.retry_at <= now => self.contact(peer),
                None => {}
                Some(entry) => self.look_after_contact(entry),
            }
        }
        while let Some(&entry) = self.strangers.front() {
            match self.entries.get(entry) {
                Some(Entry::Joining(joining)) if joining.deadline > now => break,
                Some(Entry::Joining(_)) => self.stranger(entry, "it did not say who it is in time"),
                _ => drop(self.strangers.pop_front()),
            }
        }
    }

    /// A contact goes on as long as the peer's host lives.
    fn look_after_contact(&mut self, entry: usize) {
        let now = self.now;
        let Some(Entry::Joining(joining)) = self.entries.get_mut(entry) else { return };
        if joining.deadline > now {
            return;
        }
        if joining.is_alive() {
            joining.deadline = now.saturating_add(Nanos(CONTACT_NS));
        } else {
            self.give_up_attempt(entry, &io::ErrorKind::TimedOut.into());
        }
    }
}
