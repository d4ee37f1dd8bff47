//! News of the network: a link that is gone or there again, an address that was given.
//!
//! The system tells of such changes by a netlink socket. Of what has changed only carriers
//! are read ([`super::carriers`]): that something has changed is reason enough to try again
//! soon what was tried in vain. Without the socket, which a sandbox may forbid, it is tried
//! when its time comes.
//!
//! A device that loses its carrier is acted on at once: its rails are closed at this end,
//! also those of which nothing is expected. Else this end would take such a rail for open
//! when the link returns, and leave it to the other end to open it anew.
//!
//! What returns is acted on only when it has settled: the two ends of a link do not begin to
//! work at the same time. A connection that is begun before both do loses its first packet,
//! or the ARP request before it, which the system repeats only after a second. So nothing is
//! begun until the news have settled, and then by both ends. The later of the two finds a
//! link that works, and its request tells the other end the way that this one may still ask
//! for in vain. Measured with one end that did not open: 400 ms to a second until the next
//! ARP request, or until the old connection sent something again.

use super::join::Side;
use super::remote::Pair;
use super::{Entry, Net, carriers};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use sluice_multirail::RailId;
use sluice_wire::{Nanos, PeerId};
use std::io;

/// Links, and addresses of both families (`RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR`,
/// `RTMGRP_IPV6_IFADDR`).
const GROUPS: u32 = 0x1 | 0x10 | 0x100;
/// News have settled when none has come for so long.
const SETTLE_NS: u64 = 20_000_000;
/// However often links change, they are waited for no longer than this.
const SETTLE_NS_MAX: u64 = 60_000_000;
/// For so long after news have settled both ends of a link open rails at once.
const HURRY_NS: u64 = 50_000_000;
/// What is read of one message: more than the beginning of it is not looked at.
const NEWS_BYTES: usize = 4096;
/// Most reads of one look: whatever comes meanwhile, it ends.
const READS_MAX: usize = 256;

/// News that have come, and when they are acted on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    /// When the first and the last came of those that have not been acted on.
    unsettled: Option<(Nanos, Nanos)>,
    /// When others were acted on last.
    settled: Option<Nanos>,
}

impl News {
    fn note(&mut self, now: Nanos) {
        let first = self.unsettled.map_or(now, |(first, _)| first);
        self.unsettled = Some((first, now));
    }

    /// When they are acted on; `None` if none have come.
    pub(super) fn due(&self) -> Option<Nanos> {
        let (first, last) = self.unsettled?;
        let settled = last.saturating_add(Nanos(SETTLE_NS));
        Some(settled.min(first.saturating_add(Nanos(SETTLE_NS_MAX))))
    }

    /// Whether they are to be acted on now, which is said once.
    fn take(&mut self, now: Nanos) -> bool {
        let is_due = self.due().is_some_and(|due| due <= now);
        if is_due {
            (self.unsettled, self.settled) = (None, Some(now));
        }
        is_due
    }

    /// Whether there are none, and others were acted on after that.
    #[cfg(test)]
    pub(super) fn is_settled_since(&self, then: Nanos) -> bool {
        self.unsettled.is_none() && self.settled.is_some_and(|settled| settled > then)
    }

    /// Whether they have settled a moment ago.
    pub(super) fn is_fresh(&self, now: Nanos) -> bool {
        self.settled.is_some_and(|settled| now.since(settled).0 <= HURRY_NS)
    }
}

/// The socket that tells of changes.
pub(super) fn open() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
    Ok(socket)
}

impl Net {
    /// The system has told of a change, perhaps.
    pub(super) fn on_change(&mut self, entry: usize) {
        let Some(Entry::Changes(socket)) = self.entries.get(entry) else { return };
        let mut bytes = [0; NEWS_BYTES];
        let mut is_news = false;
        for _ in 0..READS_MAX {
            match rustix::net::recv(socket, &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok((len, _)) if len > 0 => {
                    let said = &bytes[..len.min(NEWS_BYTES)];
                    is_news |= self.carriers.note(&self.config.devices, said);
                }
                // So much has changed that some of it was lost.
                Err(Errno::NOBUFS) => {
                    is_news = true;
                    self.carriers.forget();
                }
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => break,
            }
        }
        if is_news {
            self.news.note(self.now);
        }
        while let Some(device) = self.carriers.next_lost() {
            for peer in self.active.clone() {
                self.cut_rails(peer, device, None);
            }
        }
    }

    /// Asks the system whether a device carries anything: a rail by it has fallen silent.
    pub(super) fn ask_for_carrier(&self, device: u8) {
        let entry = self.changes.and_then(|entry| self.entries.get(entry));
        let (Some(Entry::Changes(socket)), Some(device)) =
            (entry, self.config.devices.get(usize::from(device)))
        else {
            return;
        };
        // Whoever gets no answer waits for the news.
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let _ = rustix::net::send(socket, &carriers::question(device.index), flags);
    }

    /// The rails of a peer that go by a device which carries nothing are cut, but for one.
    pub(super) fn cut_rails(&mut self, peer: PeerId, device: u8, but: Option<RailId>) {
        let now = self.now;
        for rail in self.rails_by(peer, device).into_iter().filter(|&rail| Some(rail) != but) {
            self.with_rails(peer, |rails, below| rails.cut(now, below, rail));
        }
    }

    /// The rails to a peer that go by a device. Those to a peer on this host do not, whatever
    /// their addresses say.
    fn rails_by(&self, peer: PeerId, device: u8) -> Vec<RailId> {
        let Some(met) = self.met(peer) else { return Vec::new() };
        let is_here = |pair: &Pair| {
            self.config.devices.iter().any(|device| device.addresses.contains(pair.at.ip()))
        };
        let pairs = met.pairs.iter().zip(0..);
        let by_device = pairs.filter(|(pair, _)| pair.own == device && !is_here(pair));
        by_device.map(|(_, at)| RailId(at)).collect()
    }

    /// Tries anew what was tried in vain, if the network has changed.
    pub(super) fn retry_after_change(&mut self) {
        if !self.news.take(self.now) {
            return;
        }
        while let Some(device) = self.carriers.next_back() {
            for peer in self.active.clone() {
                let mended = self.rails_by(peer, device);
                let Some(met) = self.met_mut(peer) else { continue };
                mended.into_iter().for_each(|rail| met.rails.mended(rail));
            }
        }
        for peer in self.active.clone() {
            match self.met(peer) {
                Some(_) => self.retry_rails(peer),
                None => self.retry_contact(peer),
            }
        }
    }

    fn retry_rails(&mut self, peer: PeerId) {
        // An attempt whose first packet was lost waits a second for the next.
        let attempts = self.met(peer).map(|met| met.attempts.clone()).unwrap_or_default();
        for entry in attempts.into_iter().flatten() {
            self.give_up_connecting(entry);
        }
        if let Some(met) = self.met_mut(peer) {
            met.rails.retry();
        }
    }

    fn retry_contact(&mut self, peer: PeerId) {
        if let Some(entry) = self.meeting_mut(peer).and_then(|meeting| meeting.entry) {
            self.give_up_connecting(entry);
        }
        let now = self.now;
        if let Some(meeting) = self.meeting_mut(peer) {
            meeting.retry_at = meeting.retry_at.min(now);
        }
    }

    /// Gives an attempt up if the system still connects.
    fn give_up_connecting(&mut self, entry: usize) {
        let joining = self.entries.get(entry);
        let connects = matches!(
            joining,
            Some(Entry::Joining(joining)) if matches!(joining.side, Side::Connecting(_))
        );
        if connects {
            self.give_up_attempt(entry, &io::ErrorKind::TimedOut.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Nanos {
        Nanos(ms * MS)
    }

    #[test]
    fn news_are_acted_on_once_when_they_have_settled() {
        let mut news = News::default();
        assert!(!news.take(at(5)) && news.due().is_none() && !news.is_fresh(at(5)));
        news.note(at(5));
        news.note(at(15));
        assert_eq!(news.due(), Some(at(35)));
        assert!(!news.take(at(34)) && !news.is_fresh(at(34)));
        assert!(news.take(at(35)) && !news.take(at(35)));
        assert!(news.is_fresh(at(36)) && !news.is_fresh(at(500)) && news.due().is_none());
    }

    #[test]
    fn links_that_change_all_the_time_are_not_waited_for_without_end() {
        let mut news = News::default();
        let (mut taken, mut first) = (0, None);
        for ms in 0..600 {
            news.note(at(ms));
            if news.take(at(ms)) {
                first.get_or_insert(ms);
                taken += 1;
            }
        }
        assert_eq!(first, Some(SETTLE_NS_MAX / MS));
        assert!((9..=10).contains(&taken), "{taken}");
    }
}
