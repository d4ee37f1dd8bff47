//! News of the network: a link that is there again, an address that was given.
//!
//! The system tells of such changes by a netlink socket. What has changed is not read:
//! that something has is reason enough to try again at once what was tried in vain.
//! Without the socket, which a sandbox may forbid, it is tried when its time comes.

use super::join::Side;
use super::{Entry, Net, Stage};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};
use sluice_wire::Nanos;
use std::io;

/// Links, and addresses of both families (`RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR`,
/// `RTMGRP_IPV6_IFADDR`).
const GROUPS: u32 = 0x1 | 0x10 | 0x100;
/// Between two times that everything is tried anew, however often links change.
const RETRY_NS_MIN: u64 = 5_000_000;

/// The socket that tells of changes.
pub(super) fn open() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
    Ok(socket)
}

impl Net {
    /// The system has told of a change.
    pub(super) fn on_change(&mut self, entry: usize) {
        let Some(Entry::Changes(socket)) = self.entries.get(entry) else { return };
        let mut bytes = [0; 4096];
        // What is lost because so much has changed is of no matter.
        while !matches!(
            rustix::net::recv(socket, &mut bytes[..], RecvFlags::DONTWAIT),
            Err(Errno::AGAIN) | Ok((0, _))
        ) {}
        self.retry_at = self.retry_at.or(Some(self.retried.saturating_add(Nanos(RETRY_NS_MIN))));
    }

    /// Tries anew what was tried in vain, if the network has changed.
    pub(super) fn retry_after_change(&mut self) {
        if self.retry_at.is_none_or(|due| due > self.now) {
            return;
        }
        (self.retry_at, self.retried) = (None, self.now);
        for peer in self.active.clone() {
            // An attempt whose first packet was lost waits a second for the next.
            let Some(met) = self.met(peer) else { continue };
            for entry in met.attempts.clone().into_iter().flatten() {
                if self.is_connecting(entry) {
                    self.give_up_attempt(entry, &io::ErrorKind::TimedOut.into());
                }
            }
            if let Some(met) = self.met_mut(peer) {
                met.rails.retry();
            }
        }
        let now = self.now;
        for remote in self.remotes.iter_mut().flatten() {
            if let Stage::Meeting(meeting) = &mut remote.stage {
                meeting.retry_at = meeting.retry_at.min(now);
            }
        }
    }

    /// Whether the system still connects.
    fn is_connecting(&self, entry: usize) -> bool {
        matches!(
            self.entries.get(entry),
            Some(Entry::Joining(joining)) if matches!(joining.side, Side::Connecting(_))
        )
    }
}
