//! Processes on different hosts: what an engine wants of rails, and what comes of it. Rails break,
//! fall silent, lose and repeat frames, and processes are stopped; nothing takes so long that a
//! process gives a peer up.

use super::setup::Stop;
use super::trace::What;
use super::world::{Event, Turn, World};
use crate::rails::{self, Effect, Kind, Note, Rails};
use sluice_link::RailError;
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
            Effect::Deliver { to, flight } => {
                self.met.by_rails = 1;
                self.mailboxes[to].push_back(flight);
                self.rouse(to);
                None
            }
            Effect::Moved { who, what, outcome } => {
                let peer = what.peer.index();
                assert_ne!(outcome, Err(RailError::PeerGone), "{who} gives up {peer}");
                self.note(who, What::Moved(peer, what.local.len, outcome.is_ok()));
                self.step(who, &[], |ni, port| ni.on_moved(port, what.token, outcome));
                self.rouse(who);
                Some(Turn::Called(who))
            }
            Effect::Connected { who, peer } => {
                self.hosts.opened(who, peer);
                self.far_asked.remove(&(who, peer)).then(|| {
                    self.tell_connected(who, peer);
                    Turn::Called(who)
                })
            }
            Effect::Gone { who, peer } => panic!("{who} gives up {peer}, which is well"),
            Effect::Drop { to, .. } => panic!("a packet for {to} is dropped, and nobody is gone"),
        }
    }
}
