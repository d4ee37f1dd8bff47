//! Transfers that two processes share: each chunk is taken in one event and copied
//! in another, so anything may happen in between.

use super::events::Event;
use super::trace::What;
use super::world::World;
use crate::chunk_claims::{Share, Turn as Step};
use crate::port::Move;
use sluice_link::{Machine as _, RailError};
use sluice_wire::PeerId;

impl World<'_> {
    /// The side of a shared transfer that has a turn, unless one of both is dead:
    /// then nothing comes of it, and whoever is alive is told that later.
    fn living_share(&self, part: u32) -> Option<Share> {
        let share = self.claims.share(part)?;
        let is_dead = [share.who, share.peer].into_iter().any(|one| self.is_dead(one as usize));
        (!is_dead).then_some(share)
    }

    /// A side of a shared transfer has its turn. Who, if that is its end.
    pub(super) fn turn(&mut self, part: u32) -> Option<usize> {
        let share = self.living_share(part)?;
        let who = share.who as usize;
        match self.claims.turn(part) {
            Step::Wait => None,
            Step::Copy(_, len) => {
                let late_ns = self.draw.below(self.setup.jitter_ns + 1);
                let taken_ns = len.div_ceil(1024) * self.setup.kib_ns;
                let at = self.now_ns + self.setup.latency_ns + taken_ns + late_ns;
                self.queue.add(at, Event::Copied { part });
                None
            }
            Step::End(outcome, written_alone) => {
                self.note(who, What::Moved(share.peer as usize, share.local.len, outcome.is_ok()));
                self.step(who, &[], |endpoint, now, port| {
                    port.written_alone = written_alone;
                    endpoint.on_moved(now, port, share.token, outcome);
                });
                self.rouse(who);
                Some(who)
            }
        }
    }

    /// A side of a shared transfer has copied a chunk, or was refused.
    pub(super) fn copied(&mut self, part: u32) {
        let Some(share) = self.living_share(part) else { return };
        let Some((local, remote)) = self.claims.chunk(part) else { return };
        let (who, peer) = (share.who as usize, share.peer as usize);
        let outcome = if self.forbidden[who][peer] {
            self.unreadable[who][peer] = true;
            Err(RailError::Forbidden)
        } else {
            // Who wants no bytes does not wait for the chunk without any: its key may be
            // revoked by now.
            if local.len > 0 {
                let Share { is_write, token, .. } = share;
                self.copy(who, &Move { peer: PeerId(share.peer), local, remote, is_write, token });
            }
            Ok(())
        };
        let waiting = self.claims.copied(part, outcome);
        for part in waiting.into_iter().chain([part]) {
            self.queue.add(self.now_ns, Event::Turn { part });
        }
    }

    pub fn open_claims(&self, who: usize) -> usize {
        self.claims.open_of(who as u32)
    }

    /// Whether receives can be announced.
    pub fn has_chunk_claims(&self) -> bool {
        self.setup.chunk_claims.is_some()
    }
}
