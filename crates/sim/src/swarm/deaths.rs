//! What the end of a process does to the others.
//!
//! It ends between two calls into the machines, and nobody notices: what is sent
//! to it is swallowed, and what it had written still arrives. What the rail had
//! taken and not read yet is lost, and what comes behind it. Each survivor is
//! told at a time of its own, after the end of every read from the dead; what it
//! has not read of it by then is lost. Survivors on other hosts give it up when none of
//! their rails to it has been up for long (`apart`).

use super::trace::What;
use super::world::World;
use crate::flight::Flight;
use sluice_link::{Machine as _, PeerError, RailError};
use sluice_wire::PeerId;

/// Most that a survivor takes to notice, in nanoseconds.
const NOTICE_NS: [u64; 3] = [1, 3_000, 200_000];

impl World<'_> {
    pub fn is_dead(&self, who: usize) -> bool {
        self.losses.dead() == Some(who)
    }

    /// The process whose end has come, ended.
    pub(super) fn next_death(&mut self) -> Option<usize> {
        let (who, steps) = self.setup.death?;
        if self.losses.dead().is_some() || self.steps < steps {
            return None;
        }
        self.note(who, What::Dies);
        self.losses.end(who);
        self.books.close(who);
        self.end_nic(who);
        for late in self.lates.iter().flatten().filter(|late| late.who == who && !late.is_written) {
            self.losses.leave_unwritten(late.to, late.flight.seq());
        }
        for flight in std::mem::take(&mut self.hosts[who].mailbox) {
            self.drop_flight(who, flight);
        }
        let most = self.draw_death.pick(&NOTICE_NS);
        self.on_rails(|rails, cx| rails.die(cx, who));
        // Those on other hosts find out by their rails.
        let near = |other: &usize| *other != who && !self.are_apart(who, *other);
        for other in (0..self.hosts.len()).filter(near).collect::<Vec<_>>() {
            let at = self.now_ns + self.draw_death.below(most) + 1;
            self.tell(other, who, at);
        }
        Some(who)
    }

    /// Whether a packet that would arrive now does not.
    pub(super) fn is_lost(&self, to: usize, flight: Flight) -> bool {
        self.losses.is_lost(flight.from().index(), to, flight.seq())
    }

    /// Nobody will read this packet.
    pub(super) fn drop_flight(&mut self, to: usize, flight: Flight) {
        let (packet, _) = flight.unpack(&mut self.store);
        self.books.read(flight.from().index(), to, &packet);
    }

    /// What a process has not read of a peer is lost.
    pub(super) fn drop_unread(&mut self, who: usize, peer: usize) {
        for flight in std::mem::take(&mut self.hosts[who].mailbox) {
            if flight.from().index() == peer {
                self.drop_flight(who, flight);
            } else {
                self.hosts[who].mailbox.push_back(flight);
            }
        }
    }

    /// A survivor is told.
    pub(super) fn lose(&mut self, who: usize, peer: usize) {
        for place in 0..self.transfers.len() {
            let is_of_both = |(reader, what): &mut (usize, crate::port::Move)| {
                *reader == who && what.peer.index() == peer
            };
            if let Some((_, what)) = self.transfers[place].take_if(is_of_both) {
                self.moved(who, what);
            }
        }
        for token in self.claims.end_with(who as u32, peer as u32) {
            self.note(who, What::Moved(peer, 0, false));
            self.step(who, &[], |endpoint, now, port| {
                endpoint.on_moved(now, port, token, Err(RailError::PeerGone));
            });
        }
        self.drop_unread(who, peer);
        self.losses.tell(who);
        if let Some(connections) = &mut self.connections {
            connections.forget(who as u32, peer as u32);
        }
        self.befall(crate::rails::Kind::Died);
        self.coverage.deaths = 1;
        self.note(who, What::Loses(peer));
        self.step(who, &[], |endpoint, now, port| {
            endpoint.on_peer_gone(now, port, PeerId(peer as u32), PeerError::Dead);
        });
        self.rouse(who);
    }
}
