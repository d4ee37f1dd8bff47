//! The senders into the own mailbox: who writes with which of its entries, who has
//! written its last, and when an entry is free for the next writer. The claims here are
//! of entries, not of chunks.
//!
//! Invariant: an entry is freed only when everything that was written with it
//! has been read, so a packet is never taken for one of the next writer.

use super::Shm;
use super::peers::Life;
use super::segment::{Claim, Standing, is_same_claim};
use super::watch::{has_ended_by_stat, pid_is_free};
use sluice_link::PeerError;
use sluice_wire::{Nanos, PeerId};

/// How long an entry may be half claimed before its claimer is looked for.
const CLAIM_PATIENCE: Nanos = Nanos(10_000_000_000);

/// Who writes with one entry of the mailbox: a peer, with marks; or nobody
/// known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender {
    who: u32,
    /// Where the packet began that was read last (low bits of the position).
    read: u32,
}

impl Sender {
    /// Not known yet.
    pub(super) const NOBODY: Sender = Sender { who: Sender::UNKNOWN, read: u32::MAX };
    const UNKNOWN: u32 = u32::MAX;
    /// Its card was refused.
    const INVALID: u32 = u32::MAX - 1;
    /// Known, but nothing of it has been delivered yet.
    const UNSEEN: u32 = 1 << 31;
    /// Given up; its packets are dropped.
    const GONE: u32 = 1 << 30;
    const ID: u32 = Sender::GONE - 1;

    /// The peer whose packets are to be delivered, without more ado.
    #[inline]
    pub(super) fn plain(self) -> Option<PeerId> {
        if self.who <= Sender::ID { Some(PeerId(self.who)) } else { None }
    }

    pub(super) fn is_nobody(self) -> bool {
        self.who == Sender::UNKNOWN
    }

    /// A packet of it is at `position`.
    #[inline]
    pub(super) fn note_read(&mut self, position: u64) {
        self.read = position as u32;
    }

    pub(super) fn is_gone(self) -> bool {
        self.who & Sender::GONE != 0
    }

    /// Something of it is about to be delivered.
    pub(super) fn mark_seen(&mut self) {
        self.who &= !Sender::UNSEEN;
    }

    /// Its packets are dropped from now on.
    pub(super) fn mark_gone(&mut self) {
        self.who |= Sender::GONE;
    }

    pub(super) fn peer(self) -> Option<PeerId> {
        let known = self.who != Sender::UNKNOWN && self.who != Sender::INVALID;
        known.then_some(PeerId(self.who & Sender::ID))
    }
}

const _: () = assert!(super::limits::PEERS_MAX < Sender::ID as usize);

impl Shm {
    /// Finds out who the writers are that have claimed entries, and which have
    /// written their last.
    pub(super) fn adopt_senders(&mut self) {
        for writer in 0..self.segment.layout().senders_max {
            let word = self.segment.claim_word(writer);
            let claim = Claim::from_word(word);
            if self.senders[usize::from(writer)].is_nobody()
                && matches!(claim, Claim::Ready | Claim::Closed)
            {
                self.adopt(writer);
            }
            let peer = self.senders[usize::from(writer)].peer();
            if peer.is_some() && !is_same_claim(self.entry_claims[usize::from(writer)], word) {
                self.claim_was_overwritten(writer);
                continue;
            }
            let was_reclaimed =
                |peer| self.peers.get(peer).is_some_and(|known| known.life == Life::Ended);
            match peer {
                // It claimed this after its end was seen, or what was seen was none. What it
                // writes it writes before it ends, so that is asked first.
                Some(peer)
                    if claim != Claim::Closed
                        && was_reclaimed(peer)
                        && self.process_is_over(peer)
                        && !self.reader.is_behind() =>
                {
                    self.release(writer);
                    self.own_claims.release(peer);
                    self.own_bounces.release(peer);
                }
                _ if claim != Claim::Closed => {}
                Some(peer) if !was_reclaimed(peer) => self.writes_no_more(peer),
                // Nobody ends with whom it would be freed. What it wrote it
                // wrote before it closed; if that is not read yet, the next
                // look frees it.
                _ if !self.reader.is_behind() => {
                    self.release(writer);
                    // Who has closed has unmapped what it read here.
                    if let Some(peer) = peer {
                        self.own_claims.release(peer);
                        self.own_bounces.release(peer);
                    }
                }
                _ => {}
            }
        }
    }

    /// A peer has closed its entry: it has ended, or closed its rail, or it lives and
    /// takes nothing more from this process.
    fn writes_no_more(&mut self, peer: PeerId) {
        let is_known = self.peers.get(peer).is_some_and(|known| known.gone.is_some());
        if !is_known && self.peers.renew(peer) == Standing::Refused {
            self.give_up_later(peer, PeerError::Refused);
        } else {
            self.begin_end(peer);
        }
    }

    /// Somebody has written over the claim of a known writer. Neither that one nor
    /// who calls itself the entry's now can be told from others.
    #[cold]
    fn claim_was_overwritten(&mut self, writer: u16) {
        if let Some(peer) = self.senders[usize::from(writer)].peer() {
            self.give_up_damaged(peer);
        }
        self.give_up_entry(writer);
    }

    /// Gives up who has an entry by its own account, and lets it know.
    pub(super) fn give_up_entry(&mut self, writer: u16) {
        let now = self.segment.card_of(writer);
        if let Ok(peer) = now.and_then(|card| self.admit(&card)) {
            self.give_up_damaged(peer);
        }
        self.segment.take_back(writer);
        self.entry_claims[usize::from(writer)] = self.segment.claim_word(writer);
    }

    /// Lets the writer with an entry know that nothing of it is delivered.
    pub(super) fn refuse_entry(&mut self, writer: u16) {
        self.segment.refuse(writer);
        self.entry_claims[usize::from(writer)] = self.segment.claim_word(writer);
    }

    /// Gives up the peers with whom something was lost that was written into the
    /// mailbox.
    pub(super) fn look_for_missed(&mut self) {
        for writer in 0..self.segment.layout().senders_max {
            let sender = self.senders[usize::from(writer)];
            if let Some(peer) = sender.peer()
                && !sender.is_gone()
                && self.reader.has_missed(self.segment.intent(writer), sender.read)
            {
                self.give_up_damaged(peer);
            }
        }
    }

    /// Whether the last packet of a peer lies where nobody reads.
    pub(super) fn has_missed_of(&self, peer: PeerId) -> bool {
        let known = self.peers.segment(peer).and_then(|segment| segment.bounces.entry);
        known.or_else(|| self.entry_of(peer)).is_some_and(|writer| {
            let read = self.senders[usize::from(writer)].read;
            self.reader.has_missed(self.segment.intent(writer), read)
        })
    }

    /// Finds out who writes with an entry.
    pub(super) fn adopt(&mut self, writer: u16) {
        if !matches!(self.segment.claim_of(writer), Claim::Ready | Claim::Closed) {
            return;
        }
        let peer = self.segment.card_of(writer).and_then(|card| self.admit(&card));
        self.entry_claims[usize::from(writer)] = self.segment.claim_word(writer);
        self.senders[usize::from(writer)].who = match peer {
            Ok(peer) => {
                let is_gone = self.peers.get(peer).is_some_and(|known| known.gone.is_some());
                let mark = if is_gone { Sender::GONE } else { Sender::UNSEEN };
                // It was given up before it first wrote. If it lives it learns of it.
                if is_gone {
                    self.refuse_entry(writer);
                }
                self.begin_watch(peer);
                self.peers.set_entry_here(peer, Some(writer));
                peer.0 | mark
            }
            Err(why) => {
                self.stats.violations += 1;
                self.warn.0(&format!("a writer of this mailbox is refused: {why}"));
                self.refuse_entry(writer);
                Sender::INVALID
            }
        };
    }

    /// Whether a peer has an entry in this mailbox.
    pub(super) fn is_sender(&self, peer: PeerId) -> bool {
        self.entry_of(peer).is_some()
    }

    /// The entry of a peer in this mailbox.
    pub(super) fn entry_of(&self, peer: PeerId) -> Option<u16> {
        let at = self.senders.iter().position(|sender| sender.peer() == Some(peer))?;
        u16::try_from(at).ok()
    }

    /// Lets another writer have the entries of a peer that writes no more. If it may
    /// after all, it is refused instead, and the next looks find its end. Says whether
    /// all of it is over.
    pub(super) fn release_all_of(&mut self, peer: PeerId) -> bool {
        let mut all_over = true;
        let has_ended = self.is_of_another_namespace(peer) || self.process_is_over(peer);
        let may_be_freed = self.is_of_another_namespace(peer) || !self.reader.is_behind();
        for writer in 0..self.segment.layout().senders_max {
            if self.senders[usize::from(writer)].peer() != Some(peer) {
                continue;
            }
            let is_over = has_ended || self.segment.claim_of(writer) == Claim::Closed;
            if is_over && may_be_freed {
                self.release(writer);
            } else {
                self.refuse_entry(writer);
            }
            all_over &= is_over;
        }
        all_over
    }

    /// Whether a peer that was taken for ended may read its mailbox still: of one in another pid
    /// namespace only its own word is believed.
    pub(super) fn may_read_still(&self, peer: PeerId) -> bool {
        let is_open = |writer: u16| {
            self.senders[usize::from(writer)].peer() == Some(peer)
                && self.segment.claim_of(writer) != Claim::Closed
        };
        self.is_of_another_namespace(peer) && (0..self.segment.layout().senders_max).any(is_open)
    }

    /// Whether a peer that was taken for ended may write with an entry still.
    pub(super) fn may_write_still(&self, writer: u16, peer: PeerId) -> bool {
        self.peers.get(peer).is_some_and(|known| known.life == Life::Ended)
            && self.segment.claim_of(writer) != Claim::Closed
            && !self.is_of_another_namespace(peer)
            && !self.process_is_over(peer)
    }

    /// Of such a process nothing tells but its mailbox, which may be gone while it lives: a
    /// program that closes all descriptors has closed that, too.
    fn is_of_another_namespace(&self, peer: PeerId) -> bool {
        let card = self.peers.get(peer).and_then(|known| known.card.as_deref());
        card.is_some_and(|card| card.pid_ns != self.card.pid_ns)
    }

    /// Whether `/proc` says that the process of a peer has ended; not if it is of another
    /// pid namespace.
    fn process_is_over(&self, peer: PeerId) -> bool {
        let card = self.peers.get(peer).and_then(|known| known.card.as_deref());
        card.is_none_or(|card| card.pid_ns == self.card.pid_ns && has_ended_by_stat(card))
    }

    fn release(&mut self, writer: u16) {
        if let Some(peer) = self.senders[usize::from(writer)].peer() {
            self.peers.set_entry_here(peer, None);
        }
        self.senders[usize::from(writer)] = Sender::NOBODY;
        self.segment.free(writer);
    }

    /// Frees entries whose claimers died between claiming and writing their
    /// card. A claimer in another pid namespace looks like a dead one, so
    /// it is given far more time than it needs.
    pub(super) fn free_half_claimed(&mut self, now: Nanos) {
        let mut seen = std::mem::take(&mut self.housekeeping.half_claimed);
        seen.retain(|&(writer, pid, _)| self.segment.claim_of(writer) == Claim::Taken { pid });
        for writer in 0..self.segment.layout().senders_max {
            let Claim::Taken { pid } = self.segment.claim_of(writer) else { continue };
            match seen.iter().find(|&&(one, ..)| one == writer) {
                None => seen.push((writer, pid, now)),
                Some(&(.., since)) => {
                    if now.since(since) > CLAIM_PATIENCE && pid_is_free(pid) {
                        self.segment.free(writer);
                    }
                }
            }
        }
        self.housekeeping.half_claimed = seen;
    }
}
