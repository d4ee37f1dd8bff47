//! What the end of a process does to the others.
//!
//! It ends between two calls into the engines, and nobody notices: what is sent to it is
//! swallowed, and what it had written still arrives. What the rail had taken and not read yet is
//! lost, and what comes behind it. Each survivor on its host is told at a time of its own; what
//! it has not read of the dead by then is lost, and reads and writes of its memory that are under
//! way end. Survivors on other hosts find out by their rails (`apart`).

use super::trace::What;
use super::world::{Event, World};
use crate::flight::Flight;
use crate::port::Move;
use crate::rails::{Kind, Note};
use sluice_link::{PeerError, RailError};
use sluice_wire::PeerId;

/// Most that a survivor takes to notice, in nanoseconds.
const NOTICE_NS: [u64; 3] = [1, 3_000, 200_000];
/// Of a hundred reads and writes that end between the end of a process and the moment at which
/// that is known, how many fail.
const FAILING_PERCENT: u64 = 50;

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
        self.note(who, What::Rails(Note::Fault(Kind::Died, who, 0)));
        self.losses.end(who);
        self.books.close(who);
        for late in self.lates.iter().filter(|late| late.who == who && !late.is_written) {
            self.losses.leave_unwritten(late.to, late.flight.seq());
        }
        for flight in std::mem::take(&mut self.mailboxes[who]) {
            self.drop_flight(who, flight);
        }
        let most = self.draw_death.pick(&NOTICE_NS);
        self.on_rails(|rails, cx| rails.die(cx, who));
        let near = |other: &usize| *other != who && !self.are_apart(who, *other);
        for other in (0..self.mailboxes.len()).filter(near).collect::<Vec<_>>() {
            let at = self.now_ns + self.draw_death.below(most) + 1;
            self.queue.add(at, Event::Lost { who: other, peer: who });
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
        for flight in std::mem::take(&mut self.mailboxes[who]) {
            if flight.from().index() == peer {
                self.drop_flight(who, flight);
            } else {
                self.mailboxes[who].push_back(flight);
            }
        }
    }

    /// Whether a process cannot reach the memory of one that has ended. It cannot once it was
    /// told; before, the memory may still be there.
    pub(super) fn fails_to_move(&mut self, who: usize, peer: usize) -> bool {
        self.nis_know(who, peer) || self.draw_death.percent(FAILING_PERCENT)
    }

    fn nis_know(&self, who: usize, peer: usize) -> bool {
        self.ni(who).links().gone(PeerId(peer as u32)).is_some()
    }

    /// A read or a write of the memory of a process that has ended fails.
    pub(super) fn fail_move(&mut self, who: usize, what: &Move) {
        self.met.moves_failed = 1;
        self.note(who, What::Moved(what.peer.index(), 0, false));
        let token = what.token;
        self.step(who, &[], |ni, port| ni.on_moved(port, token, Err(RailError::PeerGone)));
        self.rouse(who);
    }

    /// A survivor on the same host is told.
    pub(super) fn lose(&mut self, who: usize, peer: usize) {
        for place in 0..self.transfers.len() {
            let is_of_both =
                |(mover, what): &mut (usize, Move)| *mover == who && what.peer.index() == peer;
            if let Some((_, what)) = self.transfers[place].take_if(is_of_both) {
                self.fail_move(who, &what);
            }
        }
        self.drop_unread(who, peer);
        self.losses.tell(who);
        if let Some(connections) = &mut self.connections {
            connections.forget(who as u32, peer as u32);
        }
        self.note_death();
        self.note(who, What::Loses(peer));
        self.step(who, &[], |ni, port| {
            ni.on_peer_gone(port, PeerId(peer as u32), PeerError::Dead);
        });
        self.rouse(who);
    }

    /// Somebody has learnt of the end of a process.
    pub(super) fn note_death(&mut self) {
        self.met.deaths = 1;
        self.rails.fault_counts.note(Kind::Died);
        self.trace.set_faults(self.rails.fault_counts);
    }
}
