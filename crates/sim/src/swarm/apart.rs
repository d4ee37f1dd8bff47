//! Processes on different hosts: what a machine wants of rails, and what comes of it.

use super::events::Turn;
use super::trace::What;
use super::world::World;
use crate::port::Outbox;
use crate::rails::Effect;
use sluice_link::{Machine as _, PeerError, RailError};
use sluice_wire::PeerId;

impl World<'_> {
    /// Whether two processes are on different hosts.
    pub fn are_apart(&self, one: usize, other: usize) -> bool {
        self.hosts_of.are_apart(one as u32, other as u32)
    }

    /// A process asks for the connection to a peer elsewhere.
    pub(super) fn asks_for(&mut self, who: usize, peer: usize) {
        self.far_asked.insert((who, peer));
        self.on_rails(|rails, cx| rails.begin(cx, who, peer));
    }

    /// What else a machine wants of rails.
    pub(super) fn flush_rails(&mut self, who: usize, outbox: &mut Outbox) {
        for peer in outbox.watches.drain(..) {
            self.on_rails(|rails, cx| rails.begin(cx, who, peer.index()));
        }
        for (peer, key) in outbox.revoked.drain(..) {
            if self.draw_stale.percent(self.rails.stale_key_percent()) {
                self.on_rails(|rails, cx| rails.use_stale_key(cx, peer.index(), who, key));
            }
        }
    }

    /// Something has come of rails. What that is for the program.
    pub(super) fn rails_have(&mut self, effect: Effect) -> Option<Turn> {
        match effect {
            Effect::Deliver { to, flight } if self.is_dead(to) => {
                self.drop_flight(to, flight);
                None
            }
            Effect::Deliver { to, flight } => {
                self.hosts[to].mailbox.push_back(flight);
                self.rouse(to);
                None
            }
            Effect::Drop { to, flight } => {
                self.drop_flight(to, flight);
                None
            }
            Effect::Moved { who, what, outcome } if !self.is_dead(who) => {
                let peer = what.peer.index();
                if outcome == Err(RailError::PeerGone) {
                    self.part(who, peer);
                }
                self.note(who, What::Moved(peer, what.local.len, outcome.is_ok()));
                self.tell_moved(who, what.token, outcome);
                Some(Turn::Moved(who))
            }
            Effect::Connected { who, peer } if !self.is_dead(who) => {
                self.hosts_of.opened(who, peer);
                self.far_asked.remove(&(who, peer)).then(|| {
                    self.tell_connected(who, peer);
                    Turn::Connected(who)
                })
            }
            Effect::Gone { who, peer } if !self.is_dead(who) => {
                self.part(who, peer);
                self.lose_apart(who, peer);
                Some(Turn::Lost(who, peer))
            }
            Effect::Moved { .. } | Effect::Connected { .. } | Effect::Gone { .. } => None,
        }
    }

    /// A process has given up a peer elsewhere.
    fn part(&mut self, who: usize, peer: usize) {
        assert!(self.rails.may_be_gone(who, peer), "{who} gives up {peer}, which is well");
        self.losses.part(who, peer);
        self.books.part(who, peer);
    }

    /// A process is told that a peer elsewhere does not answer any more.
    fn lose_apart(&mut self, who: usize, peer: usize) {
        self.coverage.peers_given_up = 1;
        if self.is_dead(peer) {
            self.befall(crate::rails::Kind::Died);
        }
        self.drop_unread(who, peer);
        self.note(who, What::Loses(peer));
        self.step(who, &[], |endpoint, now, port| {
            endpoint.on_peer_gone(now, port, PeerId(peer as u32), PeerError::Unreachable);
        });
        self.rouse(who);
    }

    /// Whether what one process sends never gets to the other, as far as it is known
    /// anywhere.
    pub fn is_cut(&self, one: usize, other: usize) -> bool {
        self.is_dead(one) || self.is_dead(other) || self.losses.is_parted(one, other)
    }

    /// Whether a process may be told in this way that another is lost. A read or a write
    /// that ends so knows no reason, and counts it as dead.
    pub fn may_be_told(&self, who: usize, peer: usize, why: PeerError) -> bool {
        why == PeerError::Dead || (why == PeerError::Unreachable && self.are_apart(who, peer))
    }

    /// Whether a process will never be told of the end of another, because it knows nothing
    /// of it. Nothing has come of it then.
    pub fn knows_nothing_of(&self, who: usize, peer: usize) -> bool {
        self.are_apart(who, peer) && !self.rails.has_side(who, peer)
    }

    /// How often somebody has lost somebody.
    pub fn losses(&self) -> usize {
        self.losses.count()
    }
}
