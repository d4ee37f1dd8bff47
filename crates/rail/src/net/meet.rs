//! How processes come together: the first contact with a peer, and the opening of rails.
//!
//! A process that wants to speak to a peer asks it at the port in its address, at one of the
//! two host addresses there: IPv4 first, then by turns. In
//! the handshake (`join`) both tell their devices, so both know all rails between them from
//! then on (`known`). Both may ask at once: of two attempts for one rail that meet, the one
//! of the process with the lower key goes on. Further rails are opened by whoever first has
//! something for them, or finds that another one cannot be used. To open one again is the
//! affair of the process with the lower key; the other one asks only if that has not happened
//! in time.

use super::devices::IpNet;
use super::join::{Attempt, CONTACT_NS, Joining, Side};
use super::perform::REFUSED_MAX;
use super::remote::{Meeting, Pair, Remote, Stage};
use super::{Entry, Net, OwnDevice, devices, sock};
use crate::address::Address;
use crate::shortage::{is_shortage_of_network, remedy};
use rustix::event::epoll;
use rustix::io::Errno;
use sluice_link::PeerError;
use sluice_multirail::RailId;
use sluice_wire::{Nanos, PeerId};
use std::io;
use std::net::SocketAddr;

/// How long the process with the higher key leaves opening to the other.
const OPEN_LATER_NS: u64 = 20_000_000;
/// How long the system may take to connect to one of several addresses of a peer: what leads
/// nowhere is found only by waiting.
const FAMILY_NS: u64 = 300_000_000;
const RETRY_NS_MIN: u64 = 10_000_000;
const RETRY_NS_MAX: u64 = 1_000_000_000;

impl Net {
    /// A peer of another host gets an id.
    pub fn introduce(&mut self, peer: PeerId, address: &Address) {
        if peer.index() >= self.remotes.len() {
            self.remotes.resize_with(peer.index() + 1, || None);
        }
        self.remotes[peer.index()].get_or_insert_with(|| {
            Box::new(Remote {
                address: *address,
                label: 0,
                stage: Stage::Idle,
                is_wanted: false,
                is_seen: false,
                is_told: false,
                asks_in_vain: 0,
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
            attempts: 0,
            retry_at: now,
            retry_ns: RETRY_NS_MIN,
            refused: 0,
        });
        self.active.push(peer);
        self.contact(peer);
    }

    /// Tries the first contact.
    pub(super) fn contact(&mut self, peer: PeerId) {
        let Some(remote) = self.remote(peer) else { return };
        let Stage::Meeting(Meeting { attempts, .. }) = remote.stage else { return };
        let hosts: Vec<SocketAddr> = remote.address.hosts().collect();
        let attempt = Attempt { peer, rail: None };
        let mut failed = io::ErrorKind::NotFound.into();
        for tried in attempts..attempts + hosts.len() {
            // One to which this host has no way fails at once, so the next is tried at once.
            match self.begin_attempt(attempt, None, hosts[tried % hosts.len()]) {
                Ok(entry) => return self.contact_begun(peer, entry, tried + 1, hosts.len()),
                Err(cause) => failed = cause,
            }
        }
        if hosts.is_empty() {
            return self.lose(peer, PeerError::Unreachable);
        }
        self.attempt_failed(attempt, &failed);
    }

    /// A first contact is being tried, at one of so many addresses.
    fn contact_begun(&mut self, peer: PeerId, entry: usize, attempts: usize, addresses: usize) {
        if let Some(meeting) = self.meeting_mut(peer) {
            (meeting.entry, meeting.attempts) = (Some(entry), attempts);
        }
        if addresses > 1
            && let Some(Entry::Joining(joining)) = self.entries.get_mut(entry)
        {
            joining.deadline = joining.begun.saturating_add(Nanos(FAMILY_NS));
        }
    }

    pub(super) fn meeting_mut(&mut self, peer: PeerId) -> Option<&mut Meeting> {
        match &mut self.remote_mut(peer)?.stage {
            Stage::Meeting(meeting) => Some(meeting),
            _ => None,
        }
    }

    /// A rail is to be opened: now, or a little later, if the peer should do it, or while
    /// the network changes. One that was never open is opened at once: the peer may not want it.
    pub(super) fn open_soon(&mut self, peer: PeerId, rail: RailId) {
        let (now, news) = (self.now, self.news);
        let is_first = self.goes_first(peer);
        let Some(met) = self.met_mut(peer) else { return };
        if met.conns[rail.index()].is_some() {
            return;
        }
        match news.due() {
            _ if met.rails.is_fresh(rail) => self.open_rail(peer, rail),
            // The first contact is not followed by a wait.
            Some(due) if met.stream_on.is_some() => met.open_at[rail.index()] = Some(due),
            _ if is_first || news.is_fresh(now) => self.open_rail(peer, rail),
            _ => met.open_at[rail.index()] = Some(now.saturating_add(Nanos(OPEN_LATER_NS))),
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

    pub(super) fn open_rail(&mut self, peer: PeerId, rail: RailId) {
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
    pub(super) fn begin_attempt(
        &mut self,
        attempt: Attempt,
        pair: Option<Pair>,
        to: SocketAddr,
    ) -> io::Result<usize> {
        crate::faults::on_connect()?;
        let socket = sock::stream_socket(&to)?;
        sock::prepare(&socket, self.config.congestion.as_deref());
        if let Some(pair) = pair {
            let device = &self.config.devices[usize::from(pair.own)];
            rustix::net::bind(&socket, &SocketAddr::new(pair.from, 0))?;
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
        let token = None;
        let joining = Box::new(Joining { socket, begun, deadline, out: Vec::new(), side, token });
        self.add(Entry::Joining(joining))
    }

    /// Whether several devices of this process are in the network of a pair, of which the
    /// system would use the first for all, and the peer is on another host.
    pub(super) fn is_chosen_by_system(&self, pair: Pair) -> bool {
        let devices = &self.config.devices;
        let network_of = |device: &OwnDevice, is_it: &dyn Fn(&IpNet) -> bool| {
            device.addresses.iter().find(is_it).map(|net| net.trunc())
        };
        let own = &devices[usize::from(pair.own)];
        let own = network_of(own, &|net| net.addr() == pair.from);
        let is_shared = |device: &&OwnDevice| {
            own.is_some() && network_of(device, &|net| Some(net.trunc()) == own).is_some()
        };
        let shared = devices.iter().filter(is_shared).count();
        shared > 1 && devices.iter().all(|device| !device.addresses.contains(pair.at.ip()))
    }

    pub(super) fn add(&mut self, entry: Entry) -> io::Result<usize> {
        let at = self.entries.insert(entry);
        let listed = match &self.entries[at] {
            Entry::Conn(conn) => self.list(&conn.lane, at),
            Entry::Joining(joining) => self.list(&joining.socket, at),
            Entry::Listener(listener) => self.list(&listener.socket, at),
            Entry::Changes(socket) => self.list(socket, at),
            Entry::Matching(descriptor) => {
                let data = epoll::EventData::new_u64(at as u64);
                let listed = epoll::add(&self.epoll, descriptor, data, epoll::EventFlags::IN);
                listed.map_err(io::Error::from)
            }
            Entry::Fabric(_) | Entry::Taken => unreachable!("it is listed elsewhere, or is none"),
        };
        if let Err(cause) = listed {
            self.entries.remove(at);
            return Err(cause);
        }
        Ok(at)
    }

    pub(super) fn give_up_attempt(&mut self, entry: usize, cause: &io::Error) {
        let Some(Entry::Joining(joining)) = self.entries.get(entry) else { return };
        let (Side::Connecting(attempt) | Side::Asking(attempt, _)) = joining.side else { return };
        self.remove(entry);
        self.attempt_failed(attempt, cause);
    }

    /// Says, once, what this process lacks.
    pub(super) fn tell_shortage(&mut self, what: &str, cause: &io::Error) {
        if !std::mem::replace(&mut self.is_shortage_told, true) {
            (self.warn.0)(&format!(
                "cannot {what}: {cause}; {}; it is tried again meanwhile",
                remedy(cause, "see what this process lacks"),
            ));
        }
    }

    pub(super) fn attempt_failed(&mut self, attempt: Attempt, cause: &io::Error) {
        let now = self.now;
        let is_refused = u32::from(cause.kind() == io::ErrorKind::ConnectionRefused);
        let Attempt { peer, rail } = attempt;
        if is_shortage_of_network(cause) {
            let who = self.describe(peer);
            self.tell_shortage(&format!("connect to {who}"), cause);
        }
        let Some(rail) = rail else {
            let gone_ns = self.config.timing.gone_ns;
            let Some(meeting) = self.meeting_mut(peer) else { return };
            meeting.entry = None;
            meeting.refused += is_refused;
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

    /// Does for first contacts what is due.
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
    }

    /// A contact goes on as long as the peer's host lives.
    pub(super) fn look_after_contact(&mut self, entry: usize) {
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
