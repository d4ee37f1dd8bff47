//! What is looked after now and then: slots that nobody publishes, new writers,
//! and whether peers live and still have their mailboxes.

use super::Shm;
use super::peers::Life;
use super::ring::Stuck;
use super::segment::{Claim, Standing};
use super::watch::{Watch, poll_now};
use sluice_link::{PeerError, RailError};
use sluice_wire::{Nanos, PeerId};

/// Time between two looks for stuck slots and new writers.
const PERIOD: Nanos = Nanos(1_000_000);
/// Time between two looks at whether peers live.
const WATCH_PERIOD: Nanos = Nanos(5_000_000);
/// The same for peers that only `/proc` or a lock tells about.
const SLOW_WATCH_PERIOD: Nanos = Nanos(100_000_000);
/// How many mailboxes that are not mapped are looked at in one slow look. Each is
/// opened for that.
const UNMAPPED_LOOKS: usize = 4;
/// Abandoned packets skipped in one go.
const SKIPS_MAX: u32 = 1024;

/// When what was last looked after.
#[derive(Debug, Default)]
pub(super) struct Housekeeping {
    next: Nanos,
    next_watch: Nanos,
    next_slow_watch: Nanos,
    claims_seen: u64,
    pub(super) watches_changed: bool,
    /// The pidfds of all watched peers, and whose they are.
    polled: Vec<libc::pollfd>,
    polled_peers: Vec<PeerId>,
    /// Watched peers without a pidfd.
    slow: Vec<PeerId>,
    /// Peers whose mailbox is mapped.
    mapped: Vec<PeerId>,
    /// Watched peers whose mailbox is not: somebody may wait for one that has closed
    /// its own and lives on. The ones looked at last are last.
    unmapped: Vec<PeerId>,
    /// Entries seen half claimed, by whom, and since when.
    pub(super) half_claimed: Vec<(u16, u32, Nanos)>,
}

impl Shm {
    /// Whether it is time to look after what is looked after now and then.
    #[inline]
    pub(super) fn is_housekeeping_due(&mut self) -> bool {
        self.refresh_now() >= self.housekeeping.next
    }

    /// Looks for stuck slots, new writers and ended peers, as their times come.
    pub(super) fn look_after(&mut self) {
        let now = self.clock;
        self.housekeeping.next = now.saturating_add(PERIOD);
        self.unstick();
        self.look_at_claims();
        if now >= self.housekeeping.next_watch {
            self.housekeeping.next_watch = now.saturating_add(WATCH_PERIOD);
            self.look_at_watches(now);
        }
    }

    /// Looks at the entries of the mailbox if one has changed hands.
    pub(super) fn look_at_claims(&mut self) {
        let claims = self.segment.claims();
        if claims != self.housekeeping.claims_seen {
            self.housekeeping.claims_seen = claims;
            self.adopt_senders();
        }
    }

    fn look_at_watches(&mut self, now: Nanos) {
        if self.housekeeping.watches_changed {
            self.rebuild_watches();
        }
        let mut keeping = std::mem::take(&mut self.housekeeping);
        poll_now(&mut keeping.polled);
        for (polled, &peer) in keeping.polled.iter().zip(&keeping.polled_peers) {
            if polled.revents != 0 && self.has_ended(peer) {
                self.begin_end(peer);
            }
        }
        let slow = now >= keeping.next_slow_watch;
        if slow {
            keeping.next_slow_watch = now.saturating_add(SLOW_WATCH_PERIOD);
            self.look_slowly(&mut keeping);
        }
        keeping.watches_changed |= self.housekeeping.watches_changed;
        self.housekeeping = keeping;
        if slow {
            self.adopt_senders();
            self.free_half_claimed(now);
            self.look_for_missed();
        }
    }

    /// What costs a system call for each peer, or is seldom of use.
    fn look_slowly(&mut self, keeping: &mut Housekeeping) {
        self.keep_card();
        self.look_for_watchers();
        if self.segment.is_lost() {
            self.give_up_all();
        }
        for &peer in &keeping.slow {
            if self.has_ended(peer) {
                self.begin_end(peer);
            }
        }
        // This process lacked descriptors when these were to be watched.
        for peer in std::mem::take(&mut self.unwatched) {
            self.begin_watch(peer);
        }
        for &peer in &keeping.mapped {
            if self.peers.has_closed(peer) {
                self.begin_end(peer);
                continue;
            }
            match self.peers.renew(peer) {
                Standing::Fine => {}
                Standing::Refused => self.give_up_later(peer, PeerError::Refused),
                Standing::Overwritten => self.give_up_later(peer, PeerError::Damaged),
            }
        }
        for _ in 0..UNMAPPED_LOOKS.min(keeping.unmapped.len()) {
            keeping.unmapped.rotate_left(1);
            let peer = keeping.unmapped[0];
            if !self.has_no_mailbox(peer) || self.is_exiting(peer) {
                continue;
            }
            if self.is_sender(peer) {
                // It may write still, and no credit ever gets back to it.
                self.give_up_later(peer, PeerError::Unreachable);
            } else {
                self.begin_end(peer);
            }
        }
    }

    /// Nobody can reach this process any more.
    #[cold]
    fn give_up_all(&mut self) {
        let own = self.own_peer();
        let all: Vec<PeerId> = self.peers.iter().map(|(peer, _)| peer).collect();
        for peer in all {
            // One to which nothing was said, and which has said nothing, may wait.
            if peer != own || self.is_sender(peer) {
                self.give_up_damaged(peer);
            }
        }
    }

    fn rebuild_watches(&mut self) {
        self.housekeeping.watches_changed = false;
        self.housekeeping.polled.clear();
        self.housekeeping.polled_peers.clear();
        self.housekeeping.slow.clear();
        self.housekeeping.mapped.clear();
        self.housekeeping.unmapped.clear();
        for (peer, known) in self.peers.iter() {
            if known.segment.is_some() {
                self.housekeeping.mapped.push(peer);
            } else if known.watch.is_some() && known.seen && peer != self.own_peer() {
                self.housekeeping.unmapped.push(peer);
            }
            match known.watch.as_deref() {
                Some(Watch::Own) | None => {}
                Some(watch) => match watch.pidfd() {
                    Some(pollfd) => {
                        self.housekeeping.polled.push(pollfd);
                        self.housekeeping.polled_peers.push(peer);
                    }
                    None => self.housekeeping.slow.push(peer),
                },
            }
        }
    }

    /// Skips what dead writers left unpublished at the head of the ring.
    pub(super) fn unstick(&mut self) {
        if !self.reader.is_behind() {
            return;
        }
        self.adopt_senders();
        for _ in 0..SKIPS_MAX {
            let stuck = self.reader.stuck(self.segment.intents(), |writer| {
                let sender = self.senders[writer];
                match sender.peer() {
                    Some(peer) => {
                        !self.has_ended(peer) || self.may_write_still(writer as u16, peer)
                    }
                    // It claimed its entry since: known next time.
                    None => {
                        sender.is_nobody() && self.segment.claim_of(writer as u16) == Claim::Ready
                    }
                }
            });
            match stuck {
                Stuck::No | Stuck::Held => return,
                Stuck::Abandoned(slots) => {
                    self.reader.skip(slots);
                    self.stats.holes_skipped += u64::from(slots);
                }
                Stuck::Overwritten => {
                    self.stats.violations += 1;
                    self.reader.restart();
                    self.forget_positions();
                    self.transfers.fail_handed(RailError::PeerGone);
                    // Whose packets lie where nobody reads any more is given up;
                    // who writes one just now is found by the next slow look.
                    self.look_for_missed();
                    return;
                }
            }
        }
        // There may be more: go on in the next poll, not after a period.
        self.housekeeping.next = Nanos(0);
        self.attend();
    }

    fn forget_positions(&mut self) {
        let until = self.reader.head();
        for &peer in &self.ending {
            if let Some(known) = self.peers.get_mut(peer)
                && matches!(known.life, Life::Ending { .. })
            {
                known.life = Life::Ending { until };
            }
        }
    }
}
