//! What a machine may ask of the rail.

use super::bulk::{self, Direction, Share, Transfer};
use super::card::Card;
use super::client;
use super::guard;
use super::identity::{is_exiting, is_stopped, stat_of};
use super::looks;
use super::packets::Copied;
use super::peers::Life;
use super::portions;
use super::segment::Segment;
use super::shared_bytes::copy_shared;
use super::ways::wants_announced;
use super::{BulkKind, Shm, backing};
use crate::shm::watch::Watch;
use crate::shortage::is_shortage;
use sluice_link::chunk_claims::Side;
use sluice_link::{
    ClaimsId, ClaimsStart, Connect, LocalMemory, Opened, PeerError, Port, Published, RailError,
    Remote, RemoteCaps, RemoteMemory, Rights, SharedCopy, Token, Transmitted, Transport,
};
use sluice_wire::{Addr, HeadBuf, PeerId, Region, RemoteKey};
use std::io;
use std::ptr;
use std::sync::atomic::Ordering;

/// The longest payload that goes with its packet to a far receiver which is not in the middle of a
/// stream, whatever is known of the system's copies.
const FAR_BYTES_MAX: u64 = 128 << 10;

impl Transport for Shm {
    fn connect(&mut self, peer: PeerId) -> Result<Connect, PeerError> {
        self.open_mailbox(peer).map(Connect::Ready)
    }

    #[cold]
    #[inline(never)]
    fn watch(&mut self, peer: PeerId) {
        self.note_seen(peer);
        self.begin_watch(peer);
    }

    #[cold]
    fn refuse(&mut self, peer: PeerId) {
        self.give_up_later(peer, PeerError::Protocol);
    }

    #[inline(always)]
    fn transmit(
        &mut self,
        peer: PeerId,
        head: &HeadBuf,
        payload: Region,
        _token: Token,
    ) -> Transmitted {
        self.write_packet(peer, head, payload);
        Transmitted::Done
    }

    fn is_looking(&mut self, peer: PeerId, bytes: u64) -> bool {
        let now = self.refresh_now();
        let is_direct = self.is_direct(peer);
        let Some((_, segment)) = self.peers.mailbox_and_segment(peer) else { return false };
        segment.ways.note_sent();
        let Some(entry) = segment.bounces.entry else { return false };
        let wanted = self.segment.wanted(entry).load(Ordering::Relaxed);
        if is_direct && wants_announced(wanted, bytes) {
            return false;
        }
        let read = self.segment.bounces_read(entry).load(Ordering::Relaxed);
        let is_at_it = segment.bounces.has_just_read(read, now);
        // A single long one may get to a far receiver sooner if both sides have the system copy.
        let is_worth_it = bytes <= FAR_BYTES_MAX
            || is_at_it
            || !is_direct
            || segment.stores.is_worth_it(bytes as usize);
        let answers = segment.bounces.has_answered();
        is_worth_it && (is_at_it || looks::is_looking(segment.look(), answers))
    }

    /// A mailbox is opened by processes of its own user only.
    fn uid(&self, _peer: PeerId) -> u32 {
        self.identity.uid
    }
}

impl LocalMemory for Shm {
    #[inline(always)]
    fn copy_payload(&mut self, offset: u32, to: Addr, len: u32) -> bool {
        let copied = self.try_copy_payload(offset, to, len);
        assert_ne!(copied, Copied::NotHere, "a copy stays inside the payload");
        copied == Copied::Done
    }

    fn payload(&self, offset: u32, into: &mut [u8]) {
        assert!(self.try_payload(offset, into), "a copy stays inside the payload");
    }

    fn copy(&mut self, from: Addr, to: Addr, len: u64) {
        if len == 0 {
            return;
        }
        // SAFETY: the machine vouches for both regions, by the contract of
        // `copy`.
        unsafe {
            copy_shared(
                ptr::with_exposed_provenance(from.0 as usize),
                ptr::with_exposed_provenance_mut(to.0 as usize),
                len as usize,
            );
        }
    }

    fn lend(&mut self, len: u32) -> Addr {
        self.lent.lend(len)
    }

    fn give_back(&mut self, addr: Addr, len: u32) {
        // SAFETY: the machine gives back what it was lent, once, by the
        // contract of `give_back`.
        unsafe { self.lent.give_back(addr, len) };
    }

    #[inline]
    fn readable(&self, region: Region) -> bool {
        !self.checks || guard::readable(region)
    }

    #[inline]
    fn writable(&self, region: Region) -> bool {
        !self.checks || guard::writable(region)
    }

    fn load(&self, from: Addr, into: &mut [u8]) {
        // SAFETY: the region is readable, by the contract of `load`.
        unsafe { client::load(ptr::with_exposed_provenance(from.0 as usize), into) };
    }

    fn store(&mut self, to: Addr, bytes: &[u8]) {
        // SAFETY: the region is writable, by the contract of `store`.
        unsafe { client::store(ptr::with_exposed_provenance_mut(to.0 as usize), bytes) };
    }

    fn compare_exchange(&mut self, at: Addr, width: u32, old: u64, new: u64) -> Result<(), u64> {
        let at = ptr::with_exposed_provenance_mut(at.0 as usize);
        // SAFETY: the region is writable, by the contract of
        // `compare_exchange`.
        unsafe { client::compare_exchange(at, width, old, new) }
    }
}

impl RemoteMemory for Shm {
    fn caps(&self, peer: PeerId) -> RemoteCaps {
        let direct = self.peers.get(peer).is_some_and(|known| known.direct);
        // The system asks for the same right for both directions.
        RemoteCaps { read: direct, write: direct, network: false }
    }

    /// What a process may touch the system decides, so the key is the address.
    #[inline(always)]
    fn expose(&mut self, _peer: PeerId, region: Region, _rights: Rights) -> RemoteKey {
        RemoteKey::from_bits(region.addr.0)
    }

    #[inline(always)]
    fn revoke(&mut self, _peer: PeerId, _key: RemoteKey) {}

    fn read_remote(&mut self, peer: PeerId, from: Remote, to: Region, token: Token) {
        self.start(peer, Direction::Read, to, from, token, None);
    }

    fn write_remote(&mut self, peer: PeerId, from: Region, to: Remote, token: Token) {
        self.start(peer, Direction::Write, from, to, token, None);
    }

    fn publish(
        &mut self,
        key: u64,
        region: Region,
        first: u64,
        rights: Rights,
    ) -> Option<Published> {
        self.publish_region(key, region, first, rights)
    }

    fn withdraw(&mut self, published: Published) {
        self.withdraw_region(published);
    }

    fn read_published(
        &mut self,
        peer: PeerId,
        key: u64,
        offset: u64,
        to: Region,
    ) -> Option<Result<(), RailError>> {
        self.move_published(peer, key, offset, to, Direction::Read)
    }

    fn write_published(
        &mut self,
        peer: PeerId,
        key: u64,
        offset: u64,
        from: Region,
    ) -> Option<Result<(), RailError>> {
        self.move_published(peer, key, offset, from, Direction::Write)
    }
}

impl Port for Shm {
    type Shared = Self;

    fn shared(&mut self) -> Option<&mut Self> {
        Some(self)
    }
}

impl SharedCopy for Shm {
    fn open_claims(&mut self, peer: PeerId, start: ClaimsStart) -> Option<ClaimsId> {
        self.open_own_claims(peer, start)
    }

    fn revoke_claims(&mut self, claims: ClaimsId) -> bool {
        self.revoke_own_claims(claims)
    }

    fn close_claims(&mut self, claims: ClaimsId) {
        self.close_own_claims(claims);
    }

    fn use_claims(&mut self, peer: PeerId, claims: ClaimsId) -> bool {
        self.line_of(peer, claims).is_some_and(|(line, generation)| line.try_use(generation))
    }

    fn are_claims_closed(&mut self, peer: PeerId, claims: ClaimsId) -> bool {
        self.line_of(peer, claims).is_none_or(|(line, generation)| line.is_closed(generation))
    }

    fn is_written(&mut self, claims: ClaimsId, len: u64) -> bool {
        self.is_own_transfer_written(claims, len)
    }

    fn read_shared(
        &mut self,
        peer: PeerId,
        claims: ClaimsId,
        from: Remote,
        to: Region,
        token: Token,
    ) {
        let share = Share::new(claims, Side::Owner);
        self.start(peer, Direction::Read, to, from, token, Some(share));
    }

    fn write_shared(
        &mut self,
        peer: PeerId,
        claims: ClaimsId,
        from: Region,
        to: Remote,
        token: Token,
    ) {
        let share = Share::new(claims, Side::Peer);
        self.start(peer, Direction::Write, from, to, token, Some(share));
    }

    fn leave_shared(&mut self, token: Token) -> bool {
        let left = self.transfers.leave(token);
        if left {
            self.stats.count_end(Direction::Write, true);
        }
        left
    }

    fn was_written_alone(&mut self, peer: Option<PeerId>, claims: ClaimsId) -> bool {
        match peer {
            Some(peer) => self.has_written_alone(peer, claims),
            None => self.own_claims.is_alone(claims),
        }
    }
}

impl Shm {
    /// Opens the mailbox of `peer`, if that has not been done.
    fn open_mailbox(&mut self, peer: PeerId) -> Result<Opened, PeerError> {
        self.note_seen(peer);
        let known = self.peers.get_mut(peer).ok_or(PeerError::Unreachable)?;
        if let Some(why) = known.gone {
            return Err(why);
        }
        if let Some(segment) = &known.segment {
            return Ok(segment.layout().opened());
        }
        if known.life == Life::Named {
            self.look_up(peer)?;
        }
        self.begin_watch(peer);
        match self.peers.get(peer).map(|known| known.life) {
            Some(Life::Watched) => {}
            Some(Life::Quiet | Life::Elsewhere) => return Err(PeerError::Unreachable),
            _ => return self.connect_ended(peer),
        }
        match self.attach(peer) {
            Ok(opened) => Ok(opened),
            // What this process lacks says nothing about that one.
            Err(_) if self.has_ended(peer) || self.peers.is_lost(peer) && self.is_exiting(peer) => {
                self.begin_end(peer);
                self.connect_ended(peer)
            }
            Err(why) => Err(why),
        }
    }

    fn start(
        &mut self,
        peer: PeerId,
        direction: Direction,
        local: Region,
        remote: Remote,
        token: Token,
        share: Option<Share>,
    ) {
        // A place beyond all addresses is made their end, where every byte faults.
        let Remote { key, offset } = remote;
        let remote = Addr(key.bits().saturating_add(offset));
        self.transfers.push(Transfer { peer, direction, local, remote, done: 0, token, share });
        self.attend();
    }

    /// Somebody above knows this peer: its end is reported, also if it has come.
    pub(super) fn note_seen(&mut self, peer: PeerId) {
        let Some(known) = self.peers.get_mut(peer) else { return };
        known.seen = true;
        if known.gone.is_some() && !known.told && !self.ending.contains(&peer) {
            self.ending.push(peer);
            self.attend();
        }
    }

    /// Starts to watch a peer and finds out whether it can be read, if that
    /// has not been done.
    pub(super) fn begin_watch(&mut self, peer: PeerId) {
        if self.peers.get(peer).is_none_or(|known| known.life != Life::Quiet) {
            return;
        }
        let Some(card) = self.card_of(peer) else { return };
        let (own, uid) = (self.card, self.identity.uid);
        let Some(known) = self.peers.get_mut(peer) else { return };
        // Looking for the card may have found that it has spoken.
        if known.life != Life::Quiet {
            return;
        }
        match Watch::new(&card, &own, uid, &self.shm_dir) {
            // Nothing is known of it.
            Err(_) => {
                if !self.unwatched.contains(&peer) {
                    self.unwatched.push(peer);
                }
            }
            Ok(Some(watch)) => {
                known.life = Life::Watched;
                known.watch = Some(Box::new(watch));
                known.direct = self.bulk != BulkKind::Ring
                    && card.pid_ns == own.pid_ns
                    && bulk::probe(card.pid, card.probe_addr, card.mark());
                self.housekeeping.watches_changed = true;
            }
            Ok(None) => {
                self.begin_end(peer);
            }
        }
    }

    fn why_not_opened(&self, peer: PeerId, card: &Card, cause: &io::Error) -> String {
        let path = card.path(&self.shm_dir);
        format!("cannot open the mailbox of {}, {}: {cause}", self.describe(peer), path.display())
    }

    /// Whether a peer has ended, asked of the system now.
    pub(super) fn has_ended(&self, peer: PeerId) -> bool {
        self.peers.get(peer).is_none_or(|known| match known.life {
            Life::Named | Life::Quiet | Life::Elsewhere => false,
            Life::Watched => known
                .watch
                .as_ref()
                .zip(known.card.as_ref())
                .is_some_and(|(watch, card)| watch.has_ended(card)),
            Life::Ending { .. } | Life::Ended => true,
        })
    }

    /// What a peer does that has told of a payload which is not whole.
    #[cold]
    pub(super) fn sender_does(&self, peer: PeerId) -> portions::Sender {
        let card = self.peers.get(peer).and_then(|known| known.card.as_ref());
        if self.has_ended(peer) {
            portions::Sender::Ended
        } else if card.is_some_and(|card| is_stopped(card.pid)) {
            portions::Sender::Stopped
        } else {
            portions::Sender::Runs
        }
    }

    /// Whether another process has closed its mailbox.
    pub(super) fn has_left(&self, peer: PeerId) -> bool {
        let is_mapped = self.peers.segment(peer).is_some();
        peer != self.own_peer()
            && if is_mapped { self.peers.has_closed(peer) } else { self.has_no_mailbox(peer) }
    }

    /// Whether the mailbox of a peer, which is not mapped, is no more.
    pub(super) fn has_no_mailbox(&self, peer: PeerId) -> bool {
        let Some(known) = self.peers.get(peer) else { return false };
        if known.segment.is_some() || known.life != Life::Watched {
            return false;
        }
        let Some(card) = &known.card else { return false };
        let opened = backing::open_peer(card, self.identity.uid, &self.shm_dir);
        match opened.and_then(|(fd, _)| Segment::is_closed_behind(&fd, card.mark())) {
            Ok(is_closed) => is_closed,
            // It was closed, and its descriptor is another file's by now. Whatever
            // else keeps this process from opening it says nothing about it.
            Err(cause) => {
                matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData)
            }
        }
    }

    /// Whether a mailbox is not there because its owner has closed it, as one does that ends
    /// before others: then its descriptor is not there either, or another file's by now, though
    /// the system shows the process.
    fn may_have_closed(&self, peer: PeerId, card: &Card, cause: &io::Error) -> bool {
        matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData)
            && !card.is_file()
            && card.pid_ns == self.card.pid_ns
            && (stat_of(card.pid).is_ok() || self.has_ended(peer))
    }

    fn open_segment(&self, card: &Card) -> io::Result<Segment> {
        let (fd, bytes) = backing::open_peer(card, self.identity.uid, &self.shm_dir)?;
        Segment::attach(&fd, card.is_file(), bytes, card.mark())
    }

    /// Whether a peer whose mailbox could not be opened is about to end: a process
    /// closes its descriptors, the last thing that it does with its mailbox, a moment
    /// before it has ended.
    pub(super) fn is_exiting(&self, peer: PeerId) -> bool {
        let card = self.peers.get(peer).and_then(|known| known.card.as_deref());
        let card = card.filter(|card| card.pid_ns == self.card.pid_ns);
        card.is_some_and(|card| is_exiting(card.pid))
    }

    /// What connecting to a peer that has ended answers. While packets of it
    /// may wait in the mailbox it is treated as if it lived, so that they are
    /// handled first; what is sent to it is swallowed. Its end is reported by the
    /// next poll that has read them.
    fn connect_ended(&mut self, peer: PeerId) -> Result<Opened, PeerError> {
        self.adopt_senders();
        if self.is_sender(peer) {
            return Ok(self.segment.layout().opened());
        }
        Err(PeerError::Dead)
    }

    fn attach(&mut self, peer: PeerId) -> Result<Opened, PeerError> {
        let known = self.peers.get(peer).and_then(|known| known.card.as_deref());
        let card = *known.ok_or(PeerError::Unreachable)?;
        let segment = match self.open_segment(&card) {
            Ok(segment) if !segment.is_closed() => segment,
            Ok(_) => {
                self.peers.lose(peer);
                return Err(PeerError::Unreachable);
            }
            Err(cause) => {
                if is_shortage(&cause) {
                    self.tell_shortage(peer, "the mailbox", &cause);
                    return Err(PeerError::Unreachable);
                }
                if !self.peers.is_lost(peer) && !self.may_have_closed(peer, &card, &cause) {
                    self.warn.0(&self.why_not_opened(peer, &card, &cause));
                }
                // Nothing is there, or anything else by now: descriptors are
                // used again.
                self.peers.lose(peer);
                return Err(PeerError::Unreachable);
            }
        };
        let entry = segment.claim(&self.card).ok_or(PeerError::Full)?;
        let opened = segment.layout().opened();
        let entry_here = self.entry_of(peer);
        self.peers.attach(peer, Box::new(segment), entry);
        self.peers.set_entry_here(peer, entry_here);
        self.housekeeping.watches_changed = true;
        Ok(opened)
    }

    /// One slice of a transfer that this side does alone.
    ///
    /// # Errors
    /// As [`bulk::step`].
    pub(super) fn move_slice(&mut self, transfer: &Transfer, len: u64) -> Result<u64, RailError> {
        let moved = self.move_part(transfer, transfer.done, len);
        let last = transfer.done + len == transfer.local.len;
        if moved.is_ok() && last && self.has_ended(transfer.peer) {
            return Err(RailError::PeerGone);
        }
        moved
    }

    /// Moves up to `len` bytes of a transfer from `at` on, which are inside it.
    /// Whoever reads asks afterwards whether the peer has ended: the bytes may
    /// be of another process that got its pid.
    ///
    /// # Errors
    /// As [`bulk::step`].
    pub(super) fn move_part(
        &mut self,
        transfer: &Transfer,
        at: u64,
        len: u64,
    ) -> Result<u64, RailError> {
        assert!(at.checked_add(len).is_some_and(|end| end <= transfer.local.len));
        let known = self.peers.get(transfer.peer).ok_or(RailError::PeerGone)?;
        if known.gone.is_some() || matches!(known.life, Life::Ending { .. } | Life::Ended) {
            return Err(RailError::PeerGone);
        }
        let card = known.card.as_ref().filter(|_| known.direct);
        let pid = card.ok_or(RailError::Forbidden)?.pid;
        if transfer.wraps() {
            return Err(RailError::Fault);
        }
        // The pid may have passed to another process. Bytes read from that one
        // are discarded; bytes written could not be taken back.
        if transfer.direction == Direction::Write && self.has_ended(transfer.peer) {
            return Err(RailError::PeerGone);
        }
        let (local, remote) = (transfer.local.addr.offset(at), transfer.remote.offset(at));
        // SAFETY: the machine lets the local memory be used until the transfer
        // ends, by the contracts of `read_remote` and `write_remote` and their
        // shared kinds; the part is inside it, by the assertion.
        let moved = unsafe { bulk::step(transfer.direction, pid, local, remote, len) };
        // A process whose first thread has ended lives without memory that others
        // could reach by its pid.
        let moved = match moved {
            Err(RailError::PeerGone) if !self.has_ended(transfer.peer) => Err(RailError::Forbidden),
            moved => moved,
        };
        if moved == Err(RailError::Forbidden)
            && let Some(known) = self.peers.get_mut(transfer.peer)
        {
            known.direct = false;
        }
        moved
    }
}
