//! Moves between this process's memory and regions that a peer has published
//! (`published`), and the end of those of this process.
//!
//! A move is over when its call returns, so at any time a process uses one region of a peer
//! at most, and its entry in the peer's mailbox says which.

use super::Shm;
use super::bulk::{Direction, Transfer};
use super::identity::is_exiting;
use super::peers::Life;
use super::published::{Entry, Seen, places};
use super::segment::Standing;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use sluice_link::{Published, RailError, Rights, Token};
use sluice_wire::{PeerId, Region};
use std::hint::spin_loop;
use std::thread;
use std::time::{Duration, Instant};

/// Bytes that are moved before it is asked whether the region is still there.
const SLICE_BYTES: u64 = 1 << 20;
/// How often the end of a move is looked for before its process is looked at.
const SPINS: u32 = 1000;
/// How long a peer may say that it moves bytes. A call of the system that moves what there is
/// in a machine takes less; a peer that was stopped in the middle of one takes longer.
const PATIENCE: Duration = Duration::from_secs(30);

impl Shm {
    pub(super) fn publish_region(
        &mut self,
        key: u64,
        region: Region,
        first: u64,
        rights: Rights,
    ) -> Option<Published> {
        // A fork of the process has a copy of the rail, whose memory is not that of the card.
        if self.is_fork() {
            return None;
        }
        let place = self.own_published.take(key)?;
        self.segment.published(place).publish(&Entry { key, first, region, rights });
        Some(Published(place))
    }

    pub(super) fn withdraw_region(&mut self, published: Published) {
        if self.own_published.give_back(published.0) && !self.is_fork() {
            self.segment.published(published.0).withdraw();
            self.wait_until_unused(published.0);
        }
    }

    /// Takes back what is left, before the mailbox is closed.
    pub(super) fn withdraw_all(&mut self) {
        let taken: Vec<u16> = self.own_published.taken().collect();
        for place in taken {
            self.withdraw_region(Published(place));
        }
    }

    fn is_fork(&self) -> bool {
        self.card.pid != std::process::id()
    }

    /// Waits until no peer uses the region that was at `place`: until its move is over, or
    /// its process. A peer that says so for too long is given up.
    fn wait_until_unused(&mut self, place: u16) {
        let begin = Instant::now();
        for index in 0..self.segment.layout().senders_max {
            let mut spins = 0;
            while self.segment.in_use(index).is(place) {
                spins += 1;
                if spins < SPINS {
                    spin_loop();
                    continue;
                }
                // The claim of one that was refused names nobody.
                if self.segment.card_of(index).is_ok_and(|card| is_over(card.pid)) {
                    break;
                }
                if begin.elapsed() > PATIENCE {
                    self.give_up_entry(index);
                    break;
                }
                thread::yield_now();
            }
        }
    }

    /// Reads or writes bytes of a region of `peer`. `None`, and nothing has moved, if it has to be
    /// asked.
    pub(super) fn move_published(
        &mut self,
        peer: PeerId,
        key: u64,
        offset: u64,
        local: Region,
        direction: Direction,
    ) -> Option<Result<(), RailError>> {
        let known = self.peers.get(peer)?;
        if !known.direct || known.gone.is_some() || known.life != Life::Watched {
            return None;
        }
        let (segment, entry) = known.entry()?;
        let (place, seen) = places(key).find_map(|place| {
            let seen = segment.published(place).read()?;
            (seen.entry.key == key).then_some((place, seen))
        })?;
        let remote = seen.entry.place(offset, local.len, direction == Direction::Write)?;
        let transfer =
            Transfer { peer, direction, local, remote, done: 0, token: Token(0), share: None };
        segment.in_use(entry.index).begin(place);
        let moved = self.move_whole(&transfer, place, &seen);
        if let Some(segment) = self.peers.get(peer).and_then(|known| known.segment.as_ref()) {
            segment.in_use(entry.index).end();
        }
        if let Some(moved) = moved {
            self.stats.count_end(direction, moved.is_ok());
        }
        moved
    }

    /// Moves all of it, as long as the region is there. `None`, and nothing has moved, if it
    /// is not, or if the system cannot: the owner may reach memory of its own that others
    /// cannot, and says itself what is wrong.
    fn move_whole(
        &mut self,
        transfer: &Transfer,
        place: u16,
        seen: &Seen,
    ) -> Option<Result<(), RailError>> {
        let len = transfer.local.len;
        let mut at = 0;
        if !self.is_offered(transfer.peer, place, seen) {
            return None;
        }
        while at < len {
            if at > 0 && !self.is_offered(transfer.peer, place, seen) {
                return Some(Err(RailError::Fault));
            }
            match self.move_part(transfer, at, (len - at).min(SLICE_BYTES)) {
                Ok(moved) => {
                    self.stats.count_moved(transfer.direction, moved);
                    at += moved;
                }
                Err(RailError::Forbidden | RailError::Fault) if at == 0 => return None,
                Err(why) => return Some(Err(why)),
            }
        }
        // What was read may be of another process that got its pid.
        let is_foreign = transfer.direction == Direction::Read && self.has_ended(transfer.peer);
        Some(if is_foreign { Err(RailError::PeerGone) } else { Ok(()) })
    }

    /// Whether the owner still offers the region to this process.
    fn is_offered(&self, peer: PeerId, place: u16, seen: &Seen) -> bool {
        let Some(known) = self.peers.get(peer) else { return false };
        let Some((segment, entry)) = known.entry() else { return false };
        segment.published(place).is_still(seen)
            && segment.standing(entry) == Standing::Fine
            && !segment.is_closed()
    }
}

/// Whether a process moves nothing any more.
fn is_over(pid: u32) -> bool {
    let id = i32::try_from(pid).ok().and_then(Pid::from_raw);
    id.is_none_or(|id| test_kill_process(id) == Err(Errno::SRCH)) || is_exiting(pid)
}
