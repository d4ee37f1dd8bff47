//! Listening, and what becomes of those who connect and have not said who they are.
//!
//! A stranger has a bounded time, a bounded number of them is waited for, and what they may
//! cost is bounded too ([`super::allowance`]).

use super::devices::Addresses;
use super::handshake::Responder;
use super::join::{Joining, Side};
use super::{Entry, Net, sock};
use crate::shortage::is_shortage_of_network;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SocketFlags, sockopt};
use sluice_wire::Nanos;
use std::io;
use std::net::SocketAddr;

/// How long a stranger may take to say who it is.
pub(super) const STRANGER_NS: u64 = 5_000_000_000;
/// Most strangers at once. The one that has been there longest goes, if it has had time to
/// say who it is; else those who come wait in the system's list.
pub(super) const STRANGERS_MAX: usize = 64;
/// So long nobody has to make room for another one. Processes of the job that all connect
/// at once get in one after the other, and who only hangs around holds nobody up for long.
pub(super) const GRACE_NS: u64 = 250_000_000;
/// So many strangers are named one by one; then only their number is said, now and then.
pub(super) const STRANGERS_NAMED: u64 = 10;
/// Connections taken from a listening socket in one go.
const ACCEPTS_MAX: usize = 16;
/// Connections that the system keeps until they are taken.
const BACKLOG: i32 = 1024;
/// Ports that are tried for a device of two addresses.
const PORTS_MAX: usize = 64;

/// A listening socket.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) socket: OwnedFd,
    /// Of which device.
    pub(super) device: u8,
}

/// Where a device is listened on.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) sockets: Vec<OwnedFd>,
    /// Those of its addresses that are there.
    pub(super) at: Addresses,
    pub(super) port: u16,
}

/// Listens at these addresses at one port: this one, if it is free there (zero: any).
///
/// # Errors
/// The system's; [`io::ErrorKind::AddrNotAvailable`] if no address is there.
pub(super) fn listen_at(addresses: Addresses, mut port: u16) -> io::Result<Listening> {
    for _ in 0..PORTS_MAX {
        match listen_at_port(addresses, port) {
            // Taken, at one of the two at least: the system chooses another one.
            Err(cause) if cause.kind() == io::ErrorKind::AddrInUse => port = 0,
            done => return done,
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

/// The same at this port and no other.
///
/// # Errors
/// As [`listen_at`].
pub(super) fn listen_at_port(addresses: Addresses, mut port: u16) -> io::Result<Listening> {
    let (mut sockets, mut there, mut missing) = (Vec::new(), Vec::new(), None);
    for net in addresses.iter() {
        match listen(SocketAddr::new(net.addr(), port)) {
            Ok((socket, bound)) => {
                port = bound.port();
                sockets.push(socket);
                there.push(net);
            }
            Err(cause) if cause.kind() == io::ErrorKind::AddrNotAvailable => missing = Some(cause),
            Err(cause) => return Err(cause),
        }
    }
    match Addresses::first_of_each(&there) {
        Some(at) => Ok(Listening { sockets, at, port }),
        None => Err(missing.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into())),
    }
}

/// Listens at an address; of port zero the system chooses one.
fn listen(at: SocketAddr) -> io::Result<(OwnedFd, SocketAddr)> {
    let socket = sock::stream_socket(&at)?;
    if at.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    if at.port() != 0 {
        // Connections of an earlier process at this port that have ended are in nobody's way.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    rustix::net::bind(&socket, &at)?;
    rustix::net::listen(&socket, BACKLOG)?;
    let bound = SocketAddr::try_from(rustix::net::getsockname(&socket)?)
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok((socket, bound))
}

/// Whether somebody has connected who was not taken yet.
fn is_waited_for(listener: &OwnedFd) -> bool {
    let mut asked = [PollFd::new(listener, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut asked, Some(&now)).is_ok_and(|found| found > 0)
}

impl Net {
    /// Somebody has connected.
    pub(super) fn accept(&mut self, entry: usize) {
        for _ in 0..ACCEPTS_MAX {
            let Some(Entry::Listener(listener)) = self.entries.get(entry) else { return };
            let device = listener.device;
            if self.strangers.len() >= STRANGERS_MAX {
                if !is_waited_for(&listener.socket) {
                    return;
                }
                if !self.makes_room() {
                    return self.accept_in_a_while(entry);
                }
            }
            let Some(Entry::Listener(listener)) = self.entries.get(entry) else { return };
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let (socket, from) = match rustix::net::acceptfrom_with(&listener.socket, flags) {
                Ok(accepted) => accepted,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(Errno::AGAIN) => return,
                Err(cause) => {
                    let cause = io::Error::from(cause);
                    // Descriptors may be short: the connection waits in the system's list. Or
                    // its network has failed meanwhile, which is told here as well.
                    if is_shortage_of_network(&cause) {
                        self.tell_shortage("take a connection", &cause);
                    }
                    return self.accept_in_a_while(entry);
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
            let joining = Box::new(Joining {
                socket,
                begun: self.now,
                deadline: self.now.saturating_add(Nanos(STRANGER_NS)),
                out: Vec::new(),
                token: None,
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
        self.accept_again.retain(|&other| other != entry);
        self.accept_again.push(entry);
    }

    fn accept_in_a_while(&mut self, entry: usize) {
        if !self.accept_later.contains(&entry) {
            self.accept_later.push(entry);
        }
    }

    /// Whether there is room for one more stranger: the oldest goes, if it has had its time.
    fn makes_room(&mut self) -> bool {
        let Some(&oldest) = self.strangers.front() else { return true };
        if let Some(Entry::Joining(joining)) = self.entries.get(oldest)
            && self.now.since(joining.begun).0 < GRACE_NS
        {
            return false;
        }
        self.strangers.pop_front();
        self.stranger(oldest, "others wait");
        true
    }

    /// A stranger: it goes, and is counted.
    pub(super) fn stranger(&mut self, entry: usize, why: &str) {
        let Some(Entry::Joining(joining)) = self.entries.get(entry) else { return };
        let from = match &joining.side {
            Side::Listening(_, from, _) => Some(*from),
            Side::Proving(peer, _, from, _) => {
                let (peer, from) = (*peer, *from);
                self.charge(peer, from.ip());
                Some(from)
            }
            Side::Connecting(_) | Side::Asking(..) => None,
        };
        self.count_stranger(from, why);
        self.drop_joining(entry);
    }

    pub(super) fn count_stranger(&mut self, from: Option<SocketAddr>, why: &str) {
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

    /// Drops those who have not said in time who they are.
    pub(super) fn look_after_strangers(&mut self) {
        let now = self.now;
        while let Some(&entry) = self.strangers.front() {
            match self.entries.get(entry) {
                Some(Entry::Joining(joining)) if joining.deadline > now => break,
                Some(Entry::Joining(_)) => self.stranger(entry, "it did not say who it is in time"),
                _ => drop(self.strangers.pop_front()),
            }
        }
    }
}
