//! Which receives are worth announcing: those whose messages use that.
//!
//! An announcement costs a packet. A receive that is always met by short messages,
//! or by ones that were under way already, never profits. After a few of a kind in
//! a row have not, most of that kind are not announced any more; one in
//! [`REST`] still is, and if that one profits, all are again. The kinds are few
//! and shared by chance: it is a guess about the future in any case.

use crate::api::{Recv, Space};
use sluice_wire::PeerId;

/// Kinds told apart.
const KINDS: usize = 64;
/// Announcements in vain, in a row, before a kind rests.
const MISSES_MAX: u8 = 4;
/// Receives of a kind that are not announced, for one that is.
const REST: u8 = 63;

/// What an announcement was good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Its message was written where it said.
    Used,
    /// Nothing.
    InVain,
    /// Nothing this time, because its receiver looked when the message was sent.
    Spared,
}

#[derive(Clone, Copy, Debug, Default)]
struct Throttled {
    misses: u8,
    rest: u8,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct RtrThrottle {
    kinds: [Throttled; KINDS],
}

impl Default for RtrThrottle {
    fn default() -> RtrThrottle {
        RtrThrottle { kinds: [Throttled::default(); KINDS] }
    }
}

impl RtrThrottle {
    /// Whether a receive from `peer` is to be announced.
    pub fn may_announce(&mut self, peer: PeerId, recv: &Recv) -> bool {
        let kind = self.of(peer, recv);
        match kind.rest.checked_sub(1) {
            None => true,
            Some(rest) => {
                kind.rest = rest;
                false
            }
        }
    }

    /// What the announcement of a receive was good for that has met its message.
    pub fn note(&mut self, peer: PeerId, recv: &Recv, used: Use) {
        let kind = self.of(peer, recv);
        match used {
            Use::Used => *kind = Throttled::default(),
            Use::Spared => {}
            Use::InVain => {
                kind.misses = kind.misses.saturating_add(1).min(MISSES_MAX);
                if kind.misses == MISSES_MAX {
                    kind.rest = REST;
                }
            }
        }
    }

    fn of(&mut self, peer: PeerId, recv: &Recv) -> &mut Throttled {
        let space = u64::from(recv.space == Space::Untagged);
        let envelope = recv.tag ^ u64::from(peer.0) << 40 ^ space << 63;
        // Fibonacci hashing; the top six bits are the kind.
        let nth = envelope.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        &mut self.kinds[nth as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_wire::Region;

    #[test]
    fn a_kind_that_never_profits_rests_and_tries_again() {
        let recv = Recv {
            space: Space::Tagged,
            source: Some(PeerId(1)),
            buf: Region::EMPTY,
            tag: 7,
            ignore: 0,
            context: 0,
            report: true,
        };
        let mut throttle = RtrThrottle::default();
        let peer = PeerId(1);
        let mut announced = 0;
        for _ in 0..1000 {
            if throttle.may_announce(peer, &recv) {
                announced += 1;
                throttle.note(peer, &recv, Use::InVain);
            }
        }
        assert_eq!(announced, 4 + (1000 - 4) / 64);
        // The next one that is tried profits, and all are announced again.
        while !throttle.may_announce(peer, &recv) {}
        throttle.note(peer, &recv, Use::Used);
        assert!((0..10).all(|_| throttle.may_announce(peer, &recv)));
        // A receiver that looks may find use for it when it does not.
        (0..10).for_each(|_| throttle.note(peer, &recv, Use::Spared));
        assert!(throttle.may_announce(peer, &recv));
        // Another tag was never touched.
        assert!(throttle.may_announce(peer, &Recv { tag: 8, ..recv }));
    }
}
