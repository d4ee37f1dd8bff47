//! Processes on different hosts: what an engine wants of rails, and what comes of it. Rails break,
//! fall silent, lose and repeat frames, and processes are stopped; nothing takes so long that a
//! process gives a peer up that is well.

use super::setup::Stop;
use super::trace::What;
use super::world::{Event, Turn, World};
use crate::rails::{self, Effect, Kind, Note, Rails};
use sluice_link::{PeerError, RailError};
use sluice_wire::PeerId;

impl World<'_> {
    /// Whether two processes are on different hosts.
    pub(super) fn are_apart(&self, one: usize, other: usize) -> bool {
        self.hosts.are_apart(one as u32, other as u32)
    }

    /// Whether nothing lies in any mailbox, and nothing is on its way.
    pub(super) fn is_quiet(&self) -> bool {
        self.queue.len() == self.rail_events && self.rails.is_settled()
    }

    /// Stops the processes whose time has come.
    pub(super) fn begin_stops(&mut self) {
        while let Some(&Stop { who, after_steps, ns }) = self.setup.stops.get(self.stops_begun) {
            if self.steps < after_steps {
                return;
            }
            self.stops_begun += 1;
            if self.is_dead(who) {
                continue;
            }
            self.rails.stop(who, self.now_ns + ns);
            self.rails.fault_counts.note(Kind::Stopped);
            self.trace.set_faults(self.rails.fault_counts);
            self.note(who, What::Rails(Note::Fault(Kind::Stopped, who, ns)));
            self.rouse(who);
        }
    }

    /// Calls what is between hosts.
    pub(super) fn on_rails<R>(
        &mut self,
        call: impl FnOnce(&mut Rails, &mut rails::Cx<'_>) -> R,
    ) -> R {
        let (memories, exposures) = (&mut self.memories[..], &mut self.exposures[..]);
        let mut cx = rails::Cx { now: self.now_ns, memories, exposures };
        let result = call(&mut self.rails, &mut cx);
        for (at, event) in std::mem::take(&mut self.rails.later) {
            self.rail_events += 1;
            self.queue.add(at, Event::Rails(event));
        }
        self.trace.set_faults(self.rails.fault_counts);
        for (who, note) in std::mem::take(&mut self.rails.notes) {
            self.note(who, What::Rails(note));
        }
        result
    }

    /// A process asks for the connection to a peer elsewhere.
    pub(super) fn asks_for(&mut self, who: usize, peer: usize) {
        self.met.pending_connections = 1;
        self.far_asked.insert((who, peer));
        self.on_rails(|rails, cx| rails.begin(cx, who, peer));
    }

    /// Memory that was exposed to a peer is not any more. Now and then its key is used once more.
    pub(super) fn revoked(&mut self, who: usize, peer: PeerId, key: sluice_wire::RemoteKey) {
        if self.draw_stale.percent(self.rails.stale_key_percent()) {
            self.on_rails(|rails, cx| rails.use_stale_key(cx, peer.index(), who, key));
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
                self.met.by_rails = 1;
                self.mailboxes[to].push_back(flight);
                self.rouse(to);
                None
            }
            Effect::Drop { to, flight } => {
                self.drop_flight(to, flight);
                None
            }
            Effect::Moved { who, what, outcome } if !self.is_dead(who) => {
                let peer = what.peer.index();
                let is_gone = outcome == Err(RailError::PeerGone);
                if is_gone {
                    self.part(who, peer);
                    self.met.moves_failed = 1;
                }
                self.note(who, What::Moved(peer, what.local.len, outcome.is_ok()));
                self.step(who, &[], |ni, port| ni.on_moved(port, what.token, outcome));
                self.rouse(who);
                Some(if is_gone { Turn::Doubts(who, peer) } else { Turn::Called(who) })
            }
            Effect::Connected { who, peer } if !self.is_dead(who) => {
                self.hosts.opened(who, peer);
                self.far_asked.remove(&(who, peer)).then(|| {
                    self.tell_connected(who, peer);
                    Turn::Called(who)
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
        if self.is_dead(peer) {
            self.note_death();
        } else {
            self.met.peers_given_up = 1;
        }
        self.drop_unread(who, peer);
        self.far_asked.remove(&(who, peer));
        self.note(who, What::Loses(peer));
        self.step(who, &[], |ni, port| {
            ni.on_peer_gone(port, PeerId(peer as u32), PeerError::Unreachable);
        });
        self.rouse(who);
    }
}
