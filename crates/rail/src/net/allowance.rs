//! What strangers may cost: to find that an ask for a connection is no good takes a
//! Diffie-Hellman exchange or two, some 80 us.
//!
//! Each source address has an allowance of handshakes that come to nothing, which grows
//! back with time. A source without any is not listened to, so whoever floods a process
//! starves itself only. Handshakes that end well cost nothing. The table of sources is
//! bounded; those that find no room in it share one allowance.

use sluice_wire::Nanos;
use std::net::{IpAddr, Ipv6Addr};

/// Handshakes of one source that may come to nothing in a row. More than all processes of
/// a large host lose to each other when all connect to all at once.
pub(super) const BURST: u32 = 512;
/// After this time there is one more.
pub(super) const REFILL_NS: u64 = 50_000_000;
/// Most sources that are told apart.
pub(super) const SOURCES_MAX: usize = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct Allowances {
    sources: Vec<(IpAddr, Bucket)>,
    /// Of all that are not in the table.
    others: Bucket,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: u32,
    /// When it was filled last.
    filled: Nanos,
}

impl Default for Allowances {
    fn default() -> Allowances {
        Allowances { sources: Vec::new(), others: Bucket::FULL }
    }
}

impl Allowances {
    /// Whether a source may ask.
    pub(super) fn may_ask(&mut self, now: Nanos, from: IpAddr) -> bool {
        self.bucket(now, from).is_none_or(|bucket| bucket.left > 0)
    }

    /// Whether a source has spent nothing.
    #[cfg(test)]
    pub(super) fn has_all(&mut self, now: Nanos, from: IpAddr) -> bool {
        self.bucket(now, from).is_none()
    }

    /// A handshake of a source has come to nothing.
    pub(super) fn spend(&mut self, now: Nanos, from: IpAddr) {
        if self.bucket(now, from).is_none() {
            self.sources.push((source(from), Bucket { filled: now, ..Bucket::FULL }));
        }
        if let Some(bucket) = self.bucket(now, from) {
            bucket.left = bucket.left.saturating_sub(1);
        }
    }

    /// What a source has left; `None` if it has all, and would find room in the table.
    fn bucket(&mut self, now: Nanos, from: IpAddr) -> Option<&mut Bucket> {
        let from = source(from);
        let Allowances { sources, others } = self;
        if let Some(at) = sources.iter().position(|(known, _)| *known == from) {
            let bucket = &mut sources[at].1;
            bucket.fill(now);
            return Some(bucket);
        }
        if sources.len() == SOURCES_MAX {
            // Those that have all are known by not being there.
            sources.retain_mut(|(_, bucket)| {
                bucket.fill(now);
                bucket.left < BURST
            });
        }
        if sources.len() < SOURCES_MAX {
            return None;
        }
        others.fill(now);
        Some(others)
    }
}

impl Bucket {
    const FULL: Bucket = Bucket { left: BURST, filled: Nanos(0) };

    fn fill(&mut self, now: Nanos) {
        let more = now.since(self.filled).0 / REFILL_NS;
        self.filled = self.filled.saturating_add(Nanos(more * REFILL_NS));
        self.left = u64::from(self.left).saturating_add(more).min(u64::from(BURST)) as u32;
    }
}

/// A host has all addresses of an IPv6 network at its disposal.
fn source(from: IpAddr) -> IpAddr {
    match from {
        IpAddr::V4(_) => from,
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from(network))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(at: u32) -> IpAddr {
        IpAddr::V4(at.into())
    }

    fn spend_all(allowances: &mut Allowances, now: Nanos, from: IpAddr) -> u32 {
        let mut count = 0;
        while allowances.may_ask(now, from) {
            allowances.spend(now, from);
            count += 1;
        }
        count
    }

    #[test]
    fn a_source_that_has_spent_all_gets_it_back_with_time_and_others_have_theirs() {
        let mut allowances = Allowances::default();
        let now = Nanos(7);
        assert_eq!(spend_all(&mut allowances, now, v4(1)), BURST);
        assert!(allowances.may_ask(now, v4(2)));
        let soon = Nanos(now.0 + REFILL_NS - 1);
        assert!(!allowances.may_ask(soon, v4(1)));
        assert_eq!(spend_all(&mut allowances, Nanos(now.0 + 3 * REFILL_NS), v4(1)), 3);
        let late = Nanos(now.0 + 1_000_000 * REFILL_NS);
        assert_eq!(spend_all(&mut allowances, late, v4(1)), BURST);
        // Time that goes back gives nothing.
        assert!(!allowances.may_ask(Nanos(0), v4(1)));
    }

    #[test]
    fn the_table_is_bounded_and_those_who_spend_nothing_are_not_in_it() {
        let mut allowances = Allowances::default();
        let mut now = Nanos(0);
        for at in 0..100_000 {
            assert!(allowances.may_ask(now, v4(at)));
        }
        assert_eq!(allowances.sources.len(), 0);
        for at in 0..SOURCES_MAX as u32 {
            assert_eq!(spend_all(&mut allowances, now, v4(at)), BURST);
        }
        // All that follow have one allowance together.
        let mut count = 0;
        for at in 1_000..100_000 {
            if allowances.may_ask(now, v4(at)) {
                allowances.spend(now, v4(at));
                count += 1;
            }
        }
        assert_eq!((count, allowances.sources.len()), (BURST, SOURCES_MAX));
        now = Nanos(u64::from(BURST) * REFILL_NS);
        assert_eq!(spend_all(&mut allowances, now, v4(77_777)), BURST);
        assert_eq!(allowances.sources.len(), 1);
    }

    #[test]
    fn all_addresses_of_an_ipv6_network_are_one_source() {
        let mut allowances = Allowances::default();
        let at = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(spend_all(&mut allowances, Nanos(0), at("2001:db8::1")), BURST);
        assert!(!allowances.may_ask(Nanos(0), at("2001:db8::ffff:1:2")));
        assert!(allowances.may_ask(Nanos(0), at("2001:db8:0:1::1")));
    }
}
