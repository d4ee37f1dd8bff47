//! Connections that are not open yet: the handshake, on both sides, and whether the other
//! one may join.

use super::handshake::{
    Accepted, Answered, Asked, Device, HandshakeError, Hello, Initiator, Refusal, Responder,
};
use super::remote::{Pair, Stage};
use super::{Entry, LaneToken, Net, sock};
use crate::address::Address;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::sockopt;
use sluice_link::PeerError;
use sluice_multirail::RailId;
use sluice_wire::{Nanos, PeerId};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// How long a first contact may take without a sign of life of the peer's host.
pub(super) const CONTACT_NS: u64 = 2_000_000_000;
/// How long the system may take to connect over one of several rails. It sends the first
/// packet again only after a second, so another attempt is sooner.
const CONNECT_NS: u64 = 200_000_000;
/// How long a peer that was answered may take to prove itself, until this process asks too.
const PROOF_NS: u64 = 50_000_000;
/// So many asks of a peer may come to nothing before it proves who it is: one for each rail.
pub(super) const EXCUSED_MAX: usize = RailId::COUNT_MAX;
/// Most addresses of devices that are remembered of peers that have ended.
const FAMILIAR_MAX: usize = 256;
/// Bytes of a handshake that are taken in one go.
const HANDSHAKE_BYTES: usize = 2048;

/// A connection that is not open yet.
#[derive(Debug)]
pub(super) struct Joining {
    pub(super) socket: OwnedFd,
    pub(super) begun: Nanos,
    pub(super) deadline: Nanos,
    /// What the socket has not taken yet.
    pub(super) out: Vec<u8>,
    pub(super) side: Side,
    /// What the peer was told that messages to this process carry, where libfabric is what
    /// will carry them.
    pub(super) token: Option<LaneToken>,
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
    pub(super) peer: PeerId,
    /// `None` for the first contact.
    pub(super) rail: Option<RailId>,
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
    pub(super) fn flush(&mut self) -> io::Result<()> {
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

impl Net {
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
            if self.awaits_proof(attempt) {
                return self.refused(entry, attempt, Refusal::OwnFirst);
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
    pub(super) fn ask_peer(
        &mut self,
        entry: usize,
        attempt: Attempt,
    ) -> Result<(), HandshakeError> {
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
        let token = hello.token();
        let (initiator, ask) =
            Initiator::new(&self.identity, &address, self.config.security, &hello)?;
        if let Some(Entry::Joining(joining)) = self.entries.get_mut(entry) {
            joining.out = ask;
            joining.token = token;
            joining.side = Side::Asking(attempt, Box::new(initiator));
        }
        Ok(())
    }

    /// The device that a connection goes by.
    pub(super) fn device_of(&self, socket: &OwnedFd) -> u8 {
        let local = rustix::net::getsockname(socket).ok();
        let local = local.and_then(|local| SocketAddr::try_from(local).ok());
        let is_it = |ip| local.is_some_and(|local: SocketAddr| local.ip() == ip);
        let at = self
            .config
            .devices
            .iter()
            .position(|device| device.addresses.iter().any(|net| is_it(net.addr())));
        at.unwrap_or(0) as u8
    }

    pub(super) fn hello(&mut self, own_device: u8, peer_device: Option<u8>) -> Hello {
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
                    addresses: self.told_addresses(usize::from(index)),
                    port,
                    mbit_per_s: device.mbit_per_s,
                })
                .collect(),
            fabric: self.fabric_hello(own_device),
        }
    }

    pub(super) fn take_handshake(
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
                        // What is wrong is not proved to be of the peer. One that has been
                        // met has proved itself, and is not given up for it.
                        if why.is_for_good() && attempt.rail.is_none() {
                            self.remove(entry);
                            return self.lose(attempt.peer, PeerError::Refused);
                        }
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
    pub(super) fn answer(
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
            self.agrees_on_matching(peer, asked.hello())?;
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
        joining.token = hello.token();
        let flushed = joining.flush();
        match accepted {
            Some((peer, accepted)) if flushed.is_ok() => {
                joining.side = Side::Proving(peer, device, from, Box::new(accepted));
            }
            _ => self.drop_joining(entry),
        }
    }

    /// Whether a peer may join that asks from its device `other` at the device `own`.
    pub(super) fn may_join(&self, peer: PeerId, own: u8, other: u8) -> Result<(), Refusal> {
        let Some(remote) = self.remote(peer) else { return Err(Refusal::NoRoom) };
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
        let asks = attempt.and_then(|entry| self.entries.get(entry)).is_some_and(|entry| {
            matches!(entry, Entry::Joining(joining) if matches!(joining.side, Side::Asking(..)))
        });
        if asks && self.goes_first(peer) { Err(Refusal::OwnFirst) } else { Ok(()) }
    }

    /// Whether of two attempts at once this process's is the one that counts.
    pub(super) fn goes_first(&self, peer: PeerId) -> bool {
        let own = self.identity.address();
        self.remote(peer).is_some_and(|remote| own.key() < remote.address.key())
    }

    /// Whether the peer, whose attempts count, has asked for the same a moment ago, was
    /// answered, and is to prove itself. One that takes long is not waited for any more, and
    /// what it has asked for is dropped: then this process asks. Whoever repeats what it has
    /// heard keeps nobody from asking for longer than that.
    fn awaits_proof(&mut self, Attempt { peer, rail }: Attempt) -> bool {
        if self.goes_first(peer) {
            return false;
        }
        let own = rail.and_then(|rail| Some(self.met(peer)?.pairs[rail.index()].own));
        let proving = |(at, entry): (usize, &Entry)| {
            let Entry::Joining(joining) = entry else { return None };
            let Side::Proving(other, device, ..) = joining.side else { return None };
            let is_it = other == peer && own.is_none_or(|own| own == device);
            is_it.then_some((at, joining.begun))
        };
        let found: Vec<(usize, Nanos)> = self.entries.iter().filter_map(proving).collect();
        let is_late = found.iter().any(|&(_, begun)| self.now.since(begun).0 >= PROOF_NS);
        let has_failed = self.remote(peer).is_some_and(|remote| remote.asks_in_vain > 0);
        if !is_late && !has_failed {
            return !found.is_empty();
        }
        for (entry, _) in found {
            self.drop_joining(entry);
        }
        if let Some(remote) = self.remote_mut(peer) {
            remote.asks_in_vain = remote.asks_in_vain.max(1);
        }
        false
    }

    /// The peer does not want this attempt.
    pub(super) fn refused(&mut self, entry: usize, attempt: Attempt, why: Refusal) {
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
            Refusal::Matching => {
                self.remove(entry);
                self.refuse_matching(attempt.peer);
            }
        }
    }

    pub(super) fn joining_ended(&mut self, entry: usize) {
        self.joining_failed(entry, &io::ErrorKind::UnexpectedEof.into());
    }

    pub(super) fn joining_failed(&mut self, entry: usize, cause: &io::Error) {
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
            Side::Proving(..) => self.asked_in_vain(entry, "has not proved to be it"),
        }
    }

    /// Somebody who asked as a peer has not become it. An honest one loses an ask for a rail
    /// when both ask at once; whoever repeats what it has heard does so again and again.
    pub(super) fn asked_in_vain(&mut self, entry: usize, why: &str) {
        let Some(Entry::Joining(joining)) = self.entries.get(entry) else { return };
        if let Side::Proving(peer, _, from, _) = joining.side
            && self.charge(peer, from.ip())
        {
            let who = self.describe(peer);
            self.count_stranger(Some(from), &format!("it asked as {who}, and {why}"));
        }
        self.drop_joining(entry);
    }

    /// An ask of a peer has come to nothing. Whether it is held against the host that it came from:
    /// the first ones may have lost to others.
    pub(super) fn charge(&mut self, peer: PeerId, from: IpAddr) -> bool {
        let is_excused = self.remote_mut(peer).is_some_and(|remote| {
            remote.asks_in_vain += 1;
            remote.asks_in_vain <= EXCUSED_MAX
        });
        if !is_excused {
            self.allowances.spend(self.now, from);
        }
        !is_excused
    }

    /// Whether a peer has this address, or had it before its end.
    pub(super) fn is_of_peer(&self, ip: IpAddr) -> bool {
        self.familiar.contains(&ip)
            || self.remotes.iter().flatten().any(|remote| match &remote.stage {
                Stage::Met(met) if met.pairs.iter().any(|pair| pair.at.ip() == ip) => true,
                _ => remote.address.hosts().any(|host| host.ip() == ip),
            })
    }

    /// A peer has ended that had these devices: what it had begun to open may be found only
    /// later.
    pub(super) fn remember(&mut self, pairs: &[Pair]) {
        for pair in pairs {
            let ip = pair.at.ip();
            if self.familiar.contains(&ip) {
                continue;
            }
            if self.familiar.len() == FAMILIAR_MAX {
                self.familiar.pop_front();
            }
            self.familiar.push_back(ip);
        }
    }

    /// A connection that is no rail: the two have no pair of devices that it joins. Whoever
    /// has asked tries again, until the peer has been out of reach for too long.
    pub(super) fn no_rail(&mut self, entry: usize) {
        let Some(Entry::Joining(joining)) = self.entries.get(entry) else { return };
        if matches!(joining.side, Side::Asking(..)) {
            self.give_up_attempt(entry, &io::Error::other("the two have no such rail in common"));
        } else {
            self.drop_joining(entry);
        }
    }

    pub(super) fn drop_joining(&mut self, entry: usize) {
        self.strangers.retain(|&other| other != entry);
        self.remove(entry);
    }
}
