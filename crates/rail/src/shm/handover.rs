//! Chunks that are handed over: a writer that shares a transfer with a reader in the library stores
//! a chunk that it has taken in a bounce buffer, by portions, and its reader copies it out
//! meanwhile.
//!
//! Two plain copies at once, between cores that are near, may take less time than one by the system, which
//! looks up every page (`docs/decisions/0024-chunks-handed-over.md`). The writer knows whether copies to a far reader
//! are worth it (`stores`), and the reader chooses what took less time (`ways`). A handed chunk is a packet of the rail, which no
//! machine sees, in a slot that no credit pays for. So buffers, their order, cut payloads and the
//! death of either side are those of packets. The writer accounts for the chunk when all of it
//! is stored, and between turns owes nothing, as with a chunk that it has copied.
//!
//! The reader says in the line of the claims whether it takes chunks in, and takes none by
//! itself while some come. When nothing has come for [`PATIENCE`] it says that it does not any more, and
//! copies as ever. What was handed over by then it takes in all the same. A writer looks whether
//! the reader is in the library before each chunk, so one that leaves costs little: the writer copies
//! what is left by the system.
//!
//! Invariants:
//! - A packet is published before its chunk is accounted for. So a reader that finds all chunks
//!   accounted for ends when it has read what was reserved of its ring by then (`Share::handed_until`).
//!   It counts nothing, so there is no count to be forged, and a writer that was stopped holds up
//!   no more than the ring behind its packet. A tail that somebody has lowered comes to that position without
//!   what was handed over: the writer's last packet tells (`Shm::has_missed_of`).
//! - No more than [`HANDOVER_SLOTS`] chunks to one reader wait to be taken in.
//! - A handed chunk of no transfer that goes on is dropped: that has ended otherwise, and what it wants is
//!   moved anew.
//!
//! [`HANDOVER_SLOTS`]: sluice_link::HANDOVER_SLOTS

use super::bounce::{self, PAYLOAD_BYTES_MAX, may_bounce};
use super::bulk::{Direction, Share, Transfer};
use super::packets::Copied;
use super::ring::WORDS;
use super::segment::Segment;
use super::ways::{Way, class_of};
use super::{Shm, looks};
use sluice_link::chunk_claims::{Side, chunk, chunk_bytes, chunks};
use sluice_link::{ClaimsId, HANDOVER_SLOTS, RailError};
use sluice_wire::{Addr, Nanos, PeerId, Region, slots_for};
use std::num::NonZeroU32;

/// The version and the kind of such a packet, above stamp and writer in its first word. No machine
/// has such a kind.
const MARK: u64 = 0xfe00;
const MARK_SHIFT: u32 = 48;
/// The prefix, claims and chunk, the length.
pub(super) const HEADER_BYTES: u32 = 24;
/// How long a reader waits for the next chunk, and a writer for the reader to say that it takes
/// them in: what it takes to notice that, to find and to begin a chunk, a few times over.
const PATIENCE: Nanos = Nanos(5_000);
/// How long the other side is looked for: it may be between two calls, which take some
/// microseconds where long copies have taken its caches. A chunk that is copied by the system takes
/// ten times as long.
const GRACE: Nanos = Nanos(6_000);
/// The same where it was looked for in vain the last time: it may compute.
const GRACE_SHORT: Nanos = Nanos(2_000);
/// As [`PATIENCE`], where the other side is seen to be in the library, and has said that it takes part.
const PATIENCE_LONG: Nanos = Nanos(200_000);
/// Most transfers without it after one in which it was waited for in vain. After the first such one it is one, and
/// with each further one in a row twice as many.
const VAIN_REST_MAX: u8 = 16;

/// What a packet says of the chunk that it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handed {
    pub(super) claims: ClaimsId,
    pub(super) chunk: u32,
    pub(super) len: u32,
}

impl Handed {
    /// The first slot of its packet.
    pub(super) fn slot(self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        words[0] = MARK << MARK_SHIFT;
        words[1] = u64::from(self.claims.0.get()) | u64::from(self.chunk) << 32;
        words[2] = self.len.into();
        words
    }

    /// The chunk in the packet that begins so. `None` if it is a packet of a machine.
    #[inline]
    pub(super) fn of(slot: &[u64; WORDS]) -> Option<Result<Handed, Malformed>> {
        (slot[0] >> MARK_SHIFT == MARK).then(|| {
            let claims = NonZeroU32::new(slot[1] as u32).ok_or(Malformed)?;
            let len = u32::try_from(slot[2]).map_err(|_| Malformed)?;
            Ok(Handed { claims: ClaimsId(claims), chunk: (slot[1] >> 32) as u32, len })
        })
    }

    /// Where it goes, if the transfer has such a chunk.
    fn place_in(self, transfer: &Transfer) -> Option<Addr> {
        let len = transfer.local.len;
        let is_one = self.chunk < chunks(len) && !transfer.wraps();
        let (at, bytes) = is_one.then(|| chunk(len, self.chunk))?;
        (bytes == u64::from(self.len)).then(|| Addr(transfer.local.addr.0 + at))
    }

    /// Slots that it would take with its payload in the ring.
    pub(super) fn slots(self) -> u32 {
        slots_for(HEADER_BYTES.into(), self.len.into())
    }
}

/// No process of this version writes such a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// How far a side of a transfer is with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handover {
    /// It was not thought of yet.
    Unasked,
    /// The other side is looked for in the library.
    Asking,
    /// Since then chunks are to be handed over, as far as this side has a say.
    On(Nanos),
    /// No more are, or none.
    Over,
}

/// What is known of handing over with one peer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tried {
    /// When a chunk was handed over last.
    last: Nanos,
    /// Transfers to be copied as ever before it is tried again.
    rest: u8,
    /// How many they were the last time that it was waited for in vain; zero after one that was not.
    rest_before: u8,
    /// It was looked for in the library in vain.
    was_away: bool,
}

impl Tried {
    /// Whether it is worth trying now. To ask counts as a transfer.
    pub(super) fn is_worth_it(&mut self) -> bool {
        let is_worth_it = self.rest == 0;
        self.rest = self.rest.saturating_sub(1);
        is_worth_it
    }

    /// It was waited for in vain.
    pub(super) fn was_vain(&mut self) {
        self.rest_before = (2 * self.rest_before).clamp(1, VAIN_REST_MAX);
        self.rest = self.rest_before;
    }

    /// The reader has said something.
    pub(super) fn was_not_vain(&mut self) {
        self.rest_before = 0;
    }
}

impl Shm {
    /// Whether the next chunk of a transfer that this process writes is to be handed over. `None`
    /// if that is not known yet.
    pub(super) fn hands_over(&mut self, transfer: &Transfer, share: &mut Share) -> Option<bool> {
        let (peer, now) = (transfer.peer, self.refresh_now());
        let since = match share.handover {
            Handover::Over => return Some(false),
            Handover::On(since) => since,
            Handover::Unasked if !self.may_hand_over(peer, transfer.local.len) => {
                return Some(self.hands_no_more(peer, share));
            }
            Handover::Unasked | Handover::Asking => match self.is_here_lately(peer, share, now) {
                Some(true) => {
                    self.say_of(peer, share, true);
                    now
                }
                Some(false) => return Some(self.hands_no_more(peer, share)),
                None => {
                    share.handover = Handover::Asking;
                    return None;
                }
            },
        };
        share.handover = Handover::On(since);
        let waited = now.since(since);
        let said = self
            .line_of(peer, share.claims)
            .map(|(line, generation)| line.said(Side::Owner, generation));
        if let (Some(Some(_)), Some((_, segment))) = (said, self.peers.mailbox_and_segment(peer)) {
            segment.handed_over.was_not_vain();
        }
        match said {
            Some(Some(true)) => {
                if !self.is_here_lately(peer, share, now)? {
                    return Some(false);
                }
                let waiting = self.waiting_at(peer);
                let is_full = waiting.is_some_and(|waiting| waiting >= HANDOVER_SLOTS);
                if is_full && waited <= PATIENCE_LONG {
                    return None;
                }
                return Some(waiting.is_some() && !is_full);
            }
            Some(None) if waited <= PATIENCE => return None,
            // Where others are handed over it is at work with one of them.
            Some(None) if waited <= PATIENCE_LONG && self.has_just_handed(peer, now) => {
                return None;
            }
            Some(None) => {
                if let Some((_, segment)) = self.peers.mailbox_and_segment(peer) {
                    segment.handed_over.was_vain();
                }
            }
            Some(Some(false)) | None => {}
        }
        Some(self.hands_no_more(peer, share))
    }

    /// The reader of a transfer is not to wait for more. It may take part, and know nothing of this yet.
    fn hands_no_more(&self, peer: PeerId, share: &mut Share) -> bool {
        self.say_of(peer, share, false);
        share.handover = Handover::Over;
        false
    }

    /// Tells the reader of a transfer whether it is handed chunks.
    fn say_of(&self, peer: PeerId, share: &Share, will: bool) {
        if let Some((line, generation)) = self.line_of(peer, share.claims) {
            line.say(Side::Peer, generation, will);
        }
    }

    /// Whether it is worth handing chunks of a transfer of so many bytes over to a peer. What a
    /// machine wants to be looked at before it is copied is copied by the system.
    fn may_hand_over(&mut self, peer: PeerId, len: u64) -> bool {
        let bytes = chunk_bytes(len).min(len);
        if self.checks || bytes > PAYLOAD_BYTES_MAX as u64 {
            return false;
        }
        let Some((_, segment)) = self.peers.mailbox_and_segment(peer) else { return false };
        segment.bounces.entry.is_some()
            && segment.handed_over.is_worth_it()
            && segment.stores.is_worth_it(bytes as usize)
    }

    /// Whether a peer is in the library. It may ask the same at the same time, so this process is seen
    /// to be here meanwhile.
    fn is_here(&self, peer: PeerId) -> bool {
        looks::note_work(self.segment.look());
        let is_here = self
            .peers
            .segment(peer)
            .is_some_and(|segment| looks::is_looking(segment.look(), false));
        self.note_look();
        is_here
    }

    /// Whether the other side of a transfer is in the library. `None` for a moment after it was not
    /// seen there.
    fn is_here_lately(&mut self, peer: PeerId, share: &mut Share, now: Nanos) -> Option<bool> {
        let is_here = self.is_here(peer);
        let Some((_, segment)) = self.peers.mailbox_and_segment(peer) else { return Some(false) };
        let tried = &mut segment.handed_over;
        if is_here {
            share.absent_since = None;
            tried.was_away = false;
            return Some(true);
        }
        let grace = if tried.was_away { GRACE_SHORT } else { GRACE };
        let is_away = now.since(*share.absent_since.get_or_insert(now)) > grace;
        is_away.then(|| {
            tried.was_away = true;
            false
        })
    }

    /// Whether a peer that is here was handed chunks a moment ago.
    fn has_just_handed(&self, peer: PeerId, now: Nanos) -> bool {
        let is_recent = |segment: &Segment| now.since(segment.handed_over.last) <= PATIENCE_LONG;
        self.peers.segment(peer).is_some_and(is_recent) && self.is_here(peer)
    }

    /// How many chunks that were handed over wait at a peer. `None` if it takes in no buffers.
    fn waiting_at(&mut self, peer: PeerId) -> Option<u32> {
        let Shm { peers, own_bounces, segment: own, .. } = self;
        let (_, segment) = peers.mailbox_and_segment(peer)?;
        let entry = segment.bounces.entry?;
        Some(own_bounces.handed_to(&mut segment.bounces, own.bounces_read(entry)))
    }

    /// Hands a chunk over that was taken. False if there is no buffer for it.
    pub(super) fn hand_over(&mut self, transfer: &Transfer, claims: ClaimsId, taken: u32) -> bool {
        let (at, len) = chunk(transfer.local.len, taken);
        // A last chunk may be shorter than what a buffer is for.
        if transfer.wraps() || !may_bounce(HEADER_BYTES as usize, len) {
            return false;
        }
        let payload = Region { addr: Addr(transfer.local.addr.0 + at), len };
        let Ok(chunk_len) = u32::try_from(len) else { return false };
        let mut first = Handed { claims, chunk: taken, len: chunk_len }.slot();
        looks::note_work(self.segment.look());
        let is_done = self.write_by_buffer(transfer.peer, &mut first, payload, true);
        self.note_look();
        if is_done && let Some((_, segment)) = self.peers.mailbox_and_segment(transfer.peer) {
            segment.bounces.hand_over();
            segment.handed_over.last = self.clock;
            self.stats.count_moved(transfer.direction, len);
            self.stats.chunks_handed += 1;
        }
        is_done
    }

    /// Whether the reader of a transfer waits for chunks to be handed over, and takes none.
    pub(super) fn awaits_handed(
        &mut self,
        transfer: &Transfer,
        share: &mut Share,
        place: u16,
        generation: u32,
    ) -> bool {
        if share.handover == Handover::Over {
            return false;
        }
        let now = self.refresh_now();
        let peer = transfer.peer;
        let may_take_in = share.handover != Handover::Unasked || self.chooses(transfer, share, now);
        let segment = self.peers.segment(peer).filter(|_| may_take_in);
        let came = segment.map(|segment| segment.came);
        let waits = match (share.handover, came) {
            (_, None) | (Handover::Over, _) => false,
            (Handover::On(since), Some(came)) => {
                let waited = now.since(came.max(since));
                let said = self.segment.claims_line(place).said(Side::Peer, generation);
                // Of others it may be handed chunks without end.
                let is_at_it = said.is_some()
                    || now.since(came) <= PATIENCE_LONG && now.since(since) <= PATIENCE_LONG;
                said != Some(false)
                    && (waited <= PATIENCE && (is_at_it || now.since(since) <= PATIENCE)
                        // It may be at work with another one, or with a first portion that takes long.
                        || waited <= PATIENCE_LONG
                            && is_at_it
                            && self.is_here_lately(peer, share, now) != Some(false))
            }
            (Handover::Unasked | Handover::Asking, _) => {
                match self.is_here_lately(peer, share, now) {
                    Some(true) => {
                        self.segment.claims_line(place).say(Side::Owner, generation, true);
                        share.handover = Handover::On(now);
                        true
                    }
                    None => {
                        share.handover = Handover::Asking;
                        true
                    }
                    Some(false) => false,
                }
            }
        };
        if !waits {
            self.segment.claims_line(place).say(Side::Owner, generation, false);
            share.handover = Handover::Over;
        }
        waits
    }

    /// Whether a peer would hand over chunks of a transfer of so many bytes, as far as is known of
    /// copies to it.
    fn may_take_in(&mut self, peer: PeerId, len: u64) -> bool {
        let Some((_, segment)) = self.peers.mailbox_and_segment(peer) else { return false };
        !self.checks && segment.stores.is_worth_it(chunk_bytes(len).min(len) as usize)
    }

    /// Whether the reader of a transfer, which has its first turn now, wants chunks of it handed over.
    fn chooses(&mut self, transfer: &Transfer, share: &mut Share, now: Nanos) -> bool {
        let len = transfer.local.len;
        let is_first = !self.is_under_way(transfer);
        let may_take_in = self.may_take_in(transfer.peer, len);
        let Some((_, segment)) = self.peers.mailbox_and_segment(transfer.peer) else {
            return false;
        };
        let way = segment.ways.begin(len, may_take_in, is_first, now);
        share.way = Some(way);
        way == Way::HandedOver
    }

    /// All of a transfer to this process is there.
    pub(super) fn note_way(&mut self, transfer: &Transfer, share: &Share) {
        let Some(way) = share.way else { return };
        let (len, is_last) = (transfer.local.len, !self.is_under_way(transfer));
        self.note_arrival(transfer.peer, |ways, now| ways.end(len, way, is_last, now));
    }

    /// Whether another transfer is that is timed together with one which has its turn.
    fn is_under_way(&self, transfer: &Transfer) -> bool {
        let class = class_of(transfer.local.len);
        self.transfers.begun_of(transfer.peer).any(|len| class_of(len) == class)
    }

    /// Takes in a chunk that `peer` has handed over by the packet at the head. False if no peer that
    /// keeps to the rules has sent it.
    pub(super) fn take_in_handed(
        &mut self,
        copy: &[u64; WORDS],
        peer: PeerId,
        handed: Handed,
    ) -> bool {
        let is_by_buffer = may_bounce(HEADER_BYTES as usize, handed.len.into())
            && bounce::named(copy, HEADER_BYTES).is_some();
        if !is_by_buffer {
            return false;
        }
        let to = match self.transfers.shared_read(handed.claims) {
            Some(transfer) => match handed.place_in(transfer) {
                Some(to) if transfer.peer == peer => Some(to),
                _ => return false,
            },
            // Claims that nobody reads by yet are open: the reader has not said that it takes in.
            None if self.own_claims.find(handed.claims).is_some() => return false,
            None => None,
        };
        let Some(slots) = self.take_up(copy, peer, handed.slots(), HEADER_BYTES, handed.len) else {
            return false;
        };
        // It is no message.
        self.current.begun = None;
        if let Some(to) = to {
            if self.try_copy_payload(0, to, handed.len) == Copied::Done {
                self.stats.count_moved(Direction::Read, handed.len.into());
                let now = self.refresh_now();
                if let Some((_, segment)) = self.peers.mailbox_and_segment(peer) {
                    segment.came = now;
                }
            } else {
                // It was cut.
                self.transfers.fail_read(handed.claims, RailError::PeerGone);
            }
        }
        self.put_down(slots);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_names_the_chunk_and_is_none_of_a_machine() {
        let claims = ClaimsId(NonZeroU32::new(0x0123_4567).unwrap());
        let handed = Handed { claims, chunk: 65_534, len: 256 << 10 };
        let slot = handed.slot();
        assert_eq!(slot[..4], [0xfe00 << 48, 65_534 << 32 | 0x0123_4567, 256 << 10, 0]);
        assert_eq!(Handed::of(&slot), Some(Ok(handed)));
        // Stamp and writer are the ring's.
        let mut sent = slot;
        sent[0] |= 0xffff_ffff_ffff;
        assert_eq!(Handed::of(&sent), Some(Ok(handed)));
        assert!(sluice_wire::Packet::parse(super::super::copy::slot_bytes(&slot)).is_err());
        for (at, word) in [(1, 7 << 32), (2, 1 << 32)] {
            let mut bad = slot;
            bad[at] = word;
            assert_eq!(Handed::of(&bad), Some(Err(Malformed)));
        }
        assert_eq!(Handed::of(&[0; WORDS]), None);
    }

    #[test]
    fn what_was_tried_in_vain_rests() {
        let mut tried = Tried::default();
        assert!(tried.is_worth_it() && tried.is_worth_it());
        let rest_of = |tried: &mut Tried| {
            tried.was_vain();
            (0..100).position(|_| tried.is_worth_it())
        };
        let rests = [(); 6].map(|()| rest_of(&mut tried));
        assert_eq!(rests, [1, 2, 4, 8, 16, 16].map(Some));
        tried.was_not_vain();
        assert_eq!(rest_of(&mut tried), Some(1));
    }
}
