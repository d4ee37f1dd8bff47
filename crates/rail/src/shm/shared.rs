//! Transfers that both sides copy, each the chunks that it claims
//! (`sluice_link::chunk_claims`; `docs/decisions/0007-large-messages.md`).
//!
//! A turn takes one chunk, copies all of it and accounts for it, so between
//! turns this side owes nothing: what it has taken is accounted for. The writer
//! is done when it finds no chunk left. The reader is done when all that were
//! taken are accounted for, also if one of them failed, and what was handed over (`handover`)
//! is read: before that the writer may still write into the reader's memory. Only the end of the writer's
//! process ends that waiting.
//!
//! Invariants:
//! - This side copies at most as many chunks as the transfer has, each inside
//!   it, whatever the chunk claims say; those that are handed over (`handover`) are inside it too.
//! - One word of them that anybody else writes makes a transfer end with an error or
//!   be done by one side. The place is not used again while a suspect may write there
//!   (`chunk_claims`). A peer that lies about what it has copied can leave out bytes, as it
//!   can in what it sends.
//! - Both sides agree on whether the writer has copied all alone, by what each
//!   knows itself: the reader that it took nothing, the writer that it took
//!   everything.

use super::Shm;
use super::bulk::{Direction, Share, Transfer, Turn};
use super::chunk_claims::parts;
use super::claims_line::Line;
use super::handover::Handover;
use super::looks;
use super::peers::Life;
use super::stores::ticks;
use crate::faults;
use sluice_link::chunk_claims::{Accounted, Settled, Side, chunk, chunks};
use sluice_link::{ClaimsId, ClaimsStart, RailError};
use sluice_wire::{Nanos, PeerId};

/// How long claims and the record of their peer may contradict each other. An honest
/// peer changes one right after the other.
const DOUBT_PATIENCE: Nanos = Nanos(500_000_000);

impl Shm {
    /// Opens chunk claims for a transfer from `peer`.
    pub(super) fn open_own_claims(&mut self, peer: PeerId, start: ClaimsStart) -> Option<ClaimsId> {
        let known = self.peers.get(peer)?;
        if known.gone.is_some() || known.is_elsewhere() || faults::on_claims() {
            return None;
        }
        let claims = self.own_claims.open(peer)?;
        let (line, generation) = self.own_line(claims).expect("it was just opened");
        line.unsay();
        line.open(generation, start);
        Some(claims)
    }

    /// Closes chunk claims of this process if they are free.
    pub(super) fn revoke_own_claims(&mut self, claims: ClaimsId) -> bool {
        let revoked =
            self.own_line(claims).is_some_and(|(line, generation)| line.revoke(generation));
        if revoked {
            self.give_back_claims(claims);
        }
        revoked
    }

    /// Closes chunk claims of this process.
    pub(super) fn close_own_claims(&mut self, claims: ClaimsId) {
        debug_assert!(self.transfers.shared_read(claims).is_none(), "no read names it");
        let Some((line, generation)) = self.own_line(claims) else { return };
        line.close(generation);
        self.give_back_claims(claims);
    }

    fn give_back_claims(&mut self, claims: ClaimsId) {
        let peer = self.own_claims.peer_of(claims).and_then(|peer| self.peers.get(peer));
        let may_write = peer.is_some_and(|peer| peer.life != Life::Ended);
        let given_up = peer.is_some_and(|peer| peer.gone.is_some());
        self.own_claims.close(claims, may_write, given_up);
    }

    /// Open chunk claims of this process, and their generation.
    pub(super) fn own_line(&self, claims: ClaimsId) -> Option<(&Line, u32)> {
        let (place, generation) = self.own_claims.find(claims)?;
        Some((self.segment.claims_line(place), generation))
    }

    /// What a peer calls `claims`, and the generation that it means. `None` if its
    /// mailbox is not mapped, or it cannot have said that.
    pub(super) fn line_of(&self, peer: PeerId, claims: ClaimsId) -> Option<(&Line, u32)> {
        let segment = self.peers.get(peer)?.segment.as_ref()?;
        let (place, generation) = parts(claims)?;
        Some((segment.claims_line(place), generation))
    }

    /// Whether the peer has copied all of a transfer by chunk claims of this process.
    pub(super) fn is_own_transfer_written(&mut self, claims: ClaimsId, len: u64) -> bool {
        let is_whole = self.own_line(claims).is_some_and(|(line, generation)| {
            // What is handed over has not come yet.
            line.settled(generation, chunks(len), 0) == Settled::Whole
                && line.said(Side::Peer, generation) != Some(true)
        });
        if is_whole {
            self.own_claims.set_alone(claims);
            self.stats.count_end(Direction::Read, true);
        }
        is_whole
    }

    /// Whether this process has copied all of the transfer by `claims` of `peer` that
    /// has just ended. They may be closed by now, and their place used again.
    pub(super) fn has_written_alone(&self, peer: PeerId, claims: ClaimsId) -> bool {
        self.written_alone == Some((peer, claims))
    }

    /// One chunk of a transfer that both sides copy, if one is left.
    pub(super) fn turn_shared(&mut self, transfer: Transfer, share: Share) -> Turn {
        match share.side {
            Side::Owner => self.turn_of_reader(transfer, share),
            Side::Peer => self.turn_of_writer(transfer, share),
        }
    }

    fn turn_of_writer(&mut self, mut transfer: Transfer, mut share: Share) -> Turn {
        let count = chunks(transfer.local.len);
        // An owner that has closed its rail and lives on may use the memory
        // otherwise before its end is noticed here.
        let segment = self.peers.get(transfer.peer).and_then(|peer| peer.segment.as_ref());
        if segment.is_none_or(|segment| segment.is_closed()) {
            return Turn::End(Err(RailError::PeerGone));
        }
        let claims = self.line_of(transfer.peer, share.claims);
        if claims.is_none_or(|(line, generation)| line.is_closed(generation)) {
            return Turn::End(Ok(()));
        }
        let Some(hands_over) = self.hands_over(&transfer, &mut share) else {
            transfer.share = Some(share);
            return Turn::More(transfer);
        };
        let here = self.line_of(transfer.peer, share.claims).filter(|_| share.own < count);
        let taken = here.and_then(|(line, generation)| line.take(generation, Side::Peer, count));
        let Some(taken) = taken else { return Turn::End(Ok(())) };
        let copied = if hands_over && self.hand_over(&transfer, share.claims, taken) {
            share.handover = Handover::On(self.refresh_now());
            Ok(())
        } else {
            self.copy_chunk(&transfer, taken)
        };
        let Some((line, generation)) = self.line_of(transfer.peer, share.claims) else {
            return Turn::End(Err(RailError::PeerGone));
        };
        let accounted = line.account(generation, Side::Peer, count, copied.is_ok());
        if copied.is_err() {
            return Turn::End(copied);
        }
        share.own += 1;
        transfer.share = Some(share);
        match accounted {
            Accounted::More => return Turn::More(transfer),
            Accounted::NoMore if share.own == count => {
                self.written_alone = Some((transfer.peer, share.claims));
            }
            Accounted::NoMore | Accounted::Late => {}
        }
        Turn::End(Ok(()))
    }

    fn turn_of_reader(&mut self, mut transfer: Transfer, mut share: Share) -> Turn {
        let count = chunks(transfer.local.len);
        let Some((place, generation)) = self.own_claims.find(share.claims) else {
            return Turn::End(Err(RailError::Shared));
        };
        let awaits_handed = self.awaits_handed(&transfer, &mut share, place, generation);
        if !awaits_handed
            && share.failed.is_none()
            && share.own < count
            && let Some(taken) =
                self.segment.claims_line(place).take(generation, Side::Owner, count)
        {
            let copied = self.copy_chunk(&transfer, taken);
            let line = self.segment.claims_line(place);
            line.account(generation, Side::Owner, count, copied.is_ok());
            share.own += 1;
            share.is_vouched = false;
            share.failed = copied.err();
        }
        // A process that has ended, or is given up, is not waited for: what it handed over may be lost.
        if share.failed == Some(RailError::PeerGone) || self.is_condemned(transfer.peer) {
            return Turn::End(Err(RailError::PeerGone));
        }
        let mut settled = self.segment.claims_line(place).settled(generation, count, share.own);
        if settled == Settled::Doubtful {
            let now = self.refresh_now();
            if now.since(*share.doubted_since.get_or_insert(now)) > DOUBT_PATIENCE {
                settled = Settled::Spoiled;
            }
        } else {
            share.doubted_since = None;
        }
        if share.own > 0
            && !share.is_vouched
            && matches!(settled, Settled::Waiting | Settled::Doubtful | Settled::Whole)
        {
            // What was read may be of another process that got the pid. The system is
            // asked while the writer's chunks are waited for, if they are.
            share.is_vouched = !self.has_ended(transfer.peer);
        }
        if settled == Settled::Whole && share.failed.is_none() {
            if !self.has_read_handed(&mut share) {
                transfer.share = Some(share);
                return Turn::Wait(transfer);
            }
            // Where somebody has written over the tail nobody reads what was handed over.
            if share.handover != Handover::Unasked && self.has_missed_of(transfer.peer) {
                self.give_up_damaged(transfer.peer);
                return Turn::End(Err(RailError::PeerGone));
            }
        }
        transfer.share = Some(share);
        match (settled, share.failed) {
            (Settled::Left, None) if awaits_handed => self.wait_for_writer(transfer),
            (Settled::Waiting | Settled::Doubtful, _) => self.wait_for_writer(transfer),
            (Settled::Broken, failed) => Turn::End(Err(failed.unwrap_or(RailError::Shared))),
            (Settled::Left, None) => Turn::More(transfer),
            (Settled::Whole, None) => {
                self.note_way(&transfer, &share);
                Turn::End(self.whole(&share))
            }
            (Settled::Spoiled | Settled::Left | Settled::Whole, failed) => {
                self.stats.violations += u64::from(self.own_claims.set_spoiled(share.claims));
                let is_given_up = self.segment.claims_line(place).give_up(generation, count);
                if !is_given_up && share.own == 0 {
                    let has_read = self.has_read_handed(&mut share);
                    transfer.share = Some(share);
                    return if has_read {
                        Turn::End(self.whole(&share))
                    } else {
                        Turn::Wait(transfer)
                    };
                }
                Turn::End(Err(failed.unwrap_or(RailError::Shared)))
            }
        }
    }

    /// Whether all is read that was in the ring when all chunks were accounted for first: what was
    /// handed over is among it.
    fn has_read_handed(&self, share: &mut Share) -> bool {
        let reserved = self.reader.reserved_until();
        let until = *share.handed_until.get_or_insert(reserved);
        until.wrapping_sub(self.reader.head()).cast_signed() <= 0
    }

    /// All chunks of a transfer to this process are accounted for.
    fn whole(&mut self, share: &Share) -> Result<(), RailError> {
        if share.own == 0 {
            self.own_claims.set_alone(share.claims);
        } else if !share.is_vouched {
            return Err(RailError::PeerGone);
        }
        Ok(())
    }

    /// No chunk is left, but the writer has not accounted for all of its.
    fn wait_for_writer(&self, transfer: Transfer) -> Turn {
        let gone = self.peers.get(transfer.peer).is_none_or(|peer| peer.gone.is_some());
        // Its end has been told already, so nothing else ends this.
        if gone { Turn::End(Err(RailError::PeerGone)) } else { Turn::Wait(transfer) }
    }

    /// Copies a whole chunk.
    fn copy_chunk(&mut self, transfer: &Transfer, taken: u32) -> Result<(), RailError> {
        looks::note_work(self.segment.look());
        let copied = self.copy_chunk_at_work(transfer, taken);
        self.note_look();
        copied
    }

    fn copy_chunk_at_work(&mut self, transfer: &Transfer, taken: u32) -> Result<(), RailError> {
        let (mut at, len) = chunk(transfer.local.len, taken);
        let end = at + len;
        // At least once, so that an empty transfer with nobody fails as well.
        loop {
            let begin = ticks();
            let moved = self.move_part(transfer, at, end - at)?;
            let took = ticks().saturating_sub(begin);
            if let Some((_, segment)) = self.peers.mailbox_and_segment(transfer.peer) {
                segment.stores.note_system(took, moved);
            }
            self.stats.count_moved(transfer.direction, moved);
            at += moved;
            if at == end {
                return Ok(());
            }
        }
    }
}
