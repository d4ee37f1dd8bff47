//! Packets: how one is written into a mailbox, and where the payload of the one being handled is.
//!
//! Payload lies in the first slot behind the header, in the further slots, in a buffer of the
//! sender's (`bounce`), or, if the ring would not have it much longer, in memory of its own.

use super::Shm;
use super::ahead;
use super::bounce::{self, BOUNCE_WORD, may_bounce, worth_bytes_min};
use super::copy::{byte_at, copy_small, fill, slot_bytes, take};
use super::looks;
use super::peers::RemoteMailbox;
use super::portions::{Until, portion_bytes, whole_bytes_max};
use super::prefetch::prefetch;
use super::ring::{Step, WORDS, writer_of};
use super::segment::Segment;
use super::shared_bytes::{Behind, copy_before, copy_shared};
use super::stores::{Parts, TIMED_BYTES_MIN, ticks};
use super::ways::{Ways, is_compared};
use sluice_wire::{Addr, HeadBuf, Nanos, PeerId, Region, SLOT_BYTES, slots_for};
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// The shortest payload of whose portions the lines behind are fetched while one is read.
const FETCHED_BYTES_MIN: usize = 32 << 10;

/// The packet being handled.
#[derive(Debug)]
pub(super) struct Current {
    /// A private copy of its first slot.
    pub(super) first: [u64; WORDS],
    pub(super) payload_offset: u32,
    pub(super) payload_len: u32,
    /// Where the payload of a packet of several slots is.
    pub(super) place: Place,
    /// Whether its payload is cut (`portions`).
    is_cut: Cell<bool>,
    /// When it was taken up, if it is a message that is long enough to be compared with announced ones.
    pub(super) begun: Option<Nanos>,
}

impl Current {
    pub(super) fn none() -> Current {
        Current {
            first: [0; WORDS],
            payload_offset: 0,
            payload_len: 0,
            place: Place::Ring,
            is_cut: Cell::new(false),
            begun: None,
        }
    }
}

/// What became of copying payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copied {
    Done,
    /// The payload is cut: what was copied is nothing.
    Cut,
    /// The packet has no such bytes, or came by another rail.
    NotHere,
}

/// Where the payload of a packet of several slots is.
#[derive(Debug)]
pub(super) enum Place {
    /// In its further slots.
    Ring,
    /// Here: the ring does not have it any more as it came.
    Kept(Box<[u8]>),
    /// In a buffer of its sender's, which begins here, is stored until then, and has this behind
    /// it.
    Bounce(PeerId, u32, Option<Until>, Behind),
}

impl Shm {
    /// Writes one packet into the mailbox of `peer`, as [`Transport::transmit`] says. False
    /// if shared memory has none that takes it: the peer has ended, or is elsewhere.
    #[inline(always)]
    pub(crate) fn write_packet(&mut self, peer: PeerId, head: &HeadBuf, payload: Region) -> bool {
        let Some(mailbox) = self.peers.mailbox(peer) else { return false };
        self.stats.packets_out += 1;
        let is_stream = self.ahead.note_packet(self.polls);
        let mut first = *head.words();
        let at = head.len();
        let from: *const u8 = ptr::with_exposed_provenance(payload.addr.0 as usize);
        let room = SLOT_BYTES - at;
        if payload.len <= room as u64 {
            // SAFETY: the machine vouches for the payload, by the contract of
            // `transmit`; it fits behind the head.
            unsafe { copy_small(from, byte_at(&mut first, at), payload.len as usize) };
            mailbox.writer.write(1, &first, |_, _| {}, step);
            mailbox.ring();
            if is_stream {
                ahead::fetch_slot_behind(mailbox.writer.last_packet().end);
            }
            return true;
        }
        self.write_slots(peer, &mut first, at, payload, is_stream)
    }

    /// Writes a packet with this first slot, behind whose header the payload has no room.
    #[inline(never)]
    fn write_slots(
        &mut self,
        peer: PeerId,
        first: &mut [u64; WORDS],
        header_bytes: usize,
        payload: Region,
        is_stream: bool,
    ) -> bool {
        if may_bounce(header_bytes, payload.len) && payload.len >= worth_bytes_min() {
            if self.own_bounces.is_look_due() {
                self.peers.take_back_bounces(&mut self.own_bounces, &self.segment);
            }
            if !is_stream && self.own_bounces.is_round_over() {
                self.begin_bounce_round(peer);
            }
            if self.write_by_buffer(peer, first, payload, is_stream) {
                return true;
            }
        }
        let Some((mailbox, segment)) = self.peers.mailbox_and_segment(peer) else { return false };
        let stores = &mut segment.stores;
        let slots = slots_for(header_bytes as u64, payload.len);
        let count = u16::try_from(slots).unwrap_or(u16::MAX);
        assert!(u32::from(count) == slots, "no quota is that large");
        let from: *const u8 = ptr::with_exposed_provenance(payload.addr.0 as usize);
        let len = payload.len as usize;
        mailbox.writer.write(
            count,
            first,
            |slot, run| {
                let begin = slot * SLOT_BYTES;
                let part = (len - begin).min(run.len() * SLOT_BYTES);
                // SAFETY: the further slots hold the payload, so what begins with one of
                // them is inside it, and `part` bytes of it are left. Only this writer
                // touches slots that it holds.
                unsafe { fill(stores, run, from.add(begin), part) };
            },
            step,
        );
        mailbox.ring();
        if !stores.streams(len) {
            let last = mailbox.writer.last_packet();
            if !is_stream && len <= whole_bytes_max() {
                self.ahead.hand_on(last.clone(), self.stats.packets_in);
            }
            // The reader looks at the first slot behind it.
            let next = last.end + SLOT_BYTES..last.end + SLOT_BYTES + len;
            let next = mailbox.writer.in_ring(next);
            self.expect_to_write(next, is_stream);
        }
        true
    }

    /// Writes a packet with this first slot, whose payload goes by a buffer. False if there is
    /// none for it, or the ring does as well.
    #[inline]
    pub(super) fn write_by_buffer(
        &mut self,
        peer: PeerId,
        first: &mut [u64; WORDS],
        payload: Region,
        is_stream: bool,
    ) -> bool {
        let Some((mailbox, segment)) = self.peers.mailbox_and_segment(peer) else { return false };
        let Some(entry) = segment.bounces.entry else { return false };
        let len = payload.len as usize;
        if len <= whole_bytes_max() && segment.stores.streams(len) {
            return false;
        }
        let read = self.segment.bounces_read(entry);
        let Some(buffer) = self.own_bounces.take(&mut segment.bounces, read, len) else {
            return false;
        };
        self.stats.bounces_out += 1;
        if is_stream {
            self.own_bounces.note_stream();
        }
        let from: *const u8 = ptr::with_exposed_provenance(payload.addr.0 as usize);
        let to = self.segment.bounce(buffer.at(), len).as_ptr();
        if len > whole_bytes_max()
            && let Some(parts) = segment.stores.in_parts(len)
        {
            let stored = &mut self.own_bounces.portions;
            first[BOUNCE_WORD] = buffer.named(Some(Until::after(*stored, len)));
            let count = (stored, self.segment.portions());
            // SAFETY: the machine vouches for the payload; no honest peer reads a portion of
            // this buffer before the count says so, for it was free.
            let took = unsafe { store_portions(mailbox, first, count, parts, (from, to, len)) };
            segment.stores.end(parts, took, len - portion_bytes(len), len);
            if !parts.streams() {
                self.expect_to_bounce(len, is_stream);
            }
            if len >= TIMED_BYTES_MIN {
                self.note_written(peer);
            }
            return true;
        }
        // SAFETY: the machine vouches for the payload; no honest peer reads this buffer, for it
        // was free.
        unsafe { segment.stores.copy(from, to, len, Behind::next_if(is_stream)) };
        first[BOUNCE_WORD] = buffer.named(None);
        mailbox.writer.write(1, first, |_, _| {}, step);
        mailbox.ring();
        if !segment.stores.streams(len) {
            if !is_stream && len <= whole_bytes_max() {
                let at = to.addr();
                self.ahead.hand_on(at..at + len, self.stats.packets_in);
            }
            self.expect_to_bounce(len, is_stream);
        }
        true
    }

    /// A part of the bounce memory was gone through, and a packet for `peer` comes next.
    #[cold]
    fn begin_bounce_round(&mut self, peer: PeerId) {
        self.peers.take_back_bounces(&mut self.own_bounces, &self.segment);
        if let Some((_, segment)) = self.peers.mailbox_and_segment(peer) {
            self.own_bounces.begin_round(&segment.bounces);
        }
    }

    /// The next payload is likely to be as long, and to go by the buffer behind the last one.
    fn expect_to_bounce(&mut self, len: usize, is_stream: bool) {
        let Some(at) = self.own_bounces.next_at(len) else { return };
        let at = self.segment.bounce(at, len).addr().get();
        self.expect_to_write(at..at + len, is_stream);
    }

    /// A long message of a peer is here. What is known of its ways is told, and the peer how the
    /// next ones had better come.
    #[cold]
    pub(super) fn note_arrival(&mut self, peer: PeerId, tell: impl FnOnce(&mut Ways, Nanos)) {
        let now = self.refresh_now();
        let Some((_, segment)) = self.peers.mailbox_and_segment(peer) else { return };
        tell(&mut segment.ways, now);
        segment.say_wanted();
    }

    /// Whether the memory of a peer can be read from here.
    pub(super) fn is_direct(&self, peer: PeerId) -> bool {
        self.peers.get(peer).is_some_and(|peer| peer.direct)
    }

    /// A long payload was stored for a peer, just now.
    #[inline(never)]
    fn note_written(&mut self, peer: PeerId) {
        let now = self.refresh_now();
        if let Some((_, segment)) = self.peers.mailbox_and_segment(peer) {
            segment.bounces.written_at = now;
        }
    }

    /// Copies payload of the packet being handled, as [`LocalMemory::copy_payload`] says.
    #[inline(always)]
    #[must_use]
    pub(crate) fn try_copy_payload(&self, offset: u32, to: Addr, len: u32) -> Copied {
        // SAFETY: the machine vouches for the destination, by the contract of
        // `copy_payload`.
        unsafe { self.take_payload(offset, ptr::with_exposed_provenance_mut(to.0 as usize), len) }
    }

    /// The same into the machine, as [`LocalMemory::payload`] says. It wants values of short
    /// packets, which are never cut: an atomic operation has at most 4 KiB, and a portion has as
    /// much. Of others there are zeros.
    #[inline]
    #[must_use]
    pub(crate) fn try_payload(&self, offset: u32, into: &mut [u8]) -> bool {
        let Ok(len) = u32::try_from(into.len()) else { return false };
        // SAFETY: the destination is the slice.
        let copied = unsafe { self.take_payload(offset, into.as_mut_ptr(), len) };
        if copied == Copied::Cut {
            into.fill(0);
        }
        copied != Copied::NotHere
    }

    /// The packet at the head is about to be handled. It takes so many slots, or one if its
    /// payload is in a buffer of `peer`, its sender. Says how many; `None` if there is no such
    /// buffer.
    #[inline(always)]
    pub(super) fn take_up(
        &mut self,
        copy: &[u64; WORDS],
        peer: PeerId,
        slots: u32,
        payload_offset: u32,
        payload_len: u32,
    ) -> Option<u32> {
        let named = if slots > 1 { bounce::named(copy, payload_offset) } else { None };
        if let Some(named) = named {
            let at = bounce::place(named.unit, payload_len, self.peers.bounces_len(peer))?;
            // Who has told of another packet has stored this one, and its count need not be asked.
            let is_whole = self.reader.writer_behind() == Some(writer_of(copy));
            let until = named.until.filter(|_| !is_whole);
            if until.is_some() {
                prefetch(std::ptr::from_ref(self.peers.segment(peer)?.portions()));
            }
            if is_compared(payload_len.into()) && self.is_direct(peer) {
                self.current.begun = Some(self.refresh_now());
            }
            let behind = Behind::next_if(is_whole);
            self.current.place = Place::Bounce(peer, at, until, behind);
        }
        self.current.first = *copy;
        self.current.payload_offset = payload_offset;
        self.current.payload_len = payload_len;
        self.stats.packets_in += 1;
        if named.is_some() {
            return Some(1);
        }
        if slots > 1 {
            self.expect_to_read(slots);
            if self.reader.is_scrub_due(slots) {
                // Before anybody gets credits back for these slots.
                self.keep_payload();
                self.reader.scrub(slots);
            }
        }
        Some(slots)
    }

    /// It has been handled: there is no payload to copy any more.
    #[inline(always)]
    pub(super) fn put_down(&mut self, slots: u32) {
        let payload_len = std::mem::take(&mut self.current.payload_len);
        match std::mem::replace(&mut self.current.place, Place::Ring) {
            Place::Ring | Place::Kept(_) => {}
            Place::Bounce(peer, ..) => {
                self.peers.note_bounce_read(peer);
                let begun = self.current.begun.take();
                if self.current.is_cut.take() {
                    self.end_cut(peer);
                } else if let Some(begun) = begun {
                    self.note_arrival(peer, |ways, now| {
                        ways.note_eager(payload_len.into(), begun, now);
                    });
                }
            }
        }
        self.reader.advance(slots);
    }

    /// Copies `len` payload bytes of the packet being handled, from `offset`
    /// on, to `to`.
    ///
    /// # Safety
    /// `to` is writable for `len` bytes.
    #[inline(always)]
    unsafe fn take_payload(&self, offset: u32, to: *mut u8, len: u32) -> Copied {
        let current = &self.current;
        let within = offset.checked_add(len).is_some_and(|end| end <= current.payload_len);
        if !within {
            return Copied::NotHere;
        }
        let (at, skip, len) = (current.payload_offset as usize, offset as usize, len as usize);
        if at + current.payload_len as usize <= SLOT_BYTES {
            // From the private copy: what was checked is what is used.
            // SAFETY: `skip + len` is inside the payload, which is inside the copy of the
            // slot; the caller vouches for the destination.
            unsafe { copy_small(slot_bytes(&current.first).as_ptr().add(at + skip), to, len) };
            return Copied::Done;
        }
        if matches!(current.place, Place::Ring)
            && let Some(payload) = self.reader.further_in_one_piece(skip, len)
        {
            // SAFETY: these bytes of the ring are the packet's, and the reader's as long as it
            // is handled; the caller vouches for the destination.
            unsafe { copy_shared(payload, to, len) };
            return Copied::Done;
        }
        // SAFETY: the caller vouches for the destination. No honest peer writes into these
        // slots, or what is stored of this buffer, while the packet is handled: they are the
        // reader's.
        unsafe { self.take_further(skip, to, len) }
    }

    /// The same of a packet of several slots.
    ///
    /// # Safety
    /// `to` is writable for `len` bytes, and the payload has as many from `skip` on.
    #[inline(never)]
    unsafe fn take_further(&self, skip: usize, to: *mut u8, len: usize) -> Copied {
        match &self.current.place {
            Place::Ring => {}
            Place::Kept(kept) => {
                let from = &kept[skip..skip + len];
                // SAFETY: the caller vouches for the destination.
                unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, len) };
                return Copied::Done;
            }
            Place::Bounce(peer, at, until, behind) => {
                let segment = self.peers.segment(*peer);
                let segment = segment.expect("a peer stays mapped while its packet is handled");
                let from = segment.bounce(*at as usize + skip, len).as_ptr();
                looks::note_work(self.segment.look());
                // SAFETY: the caller vouches for the destination.
                let is_whole = unsafe {
                    if let Some(until) = *until {
                        self.take_portions(*peer, segment, until, skip, (from, to, len))
                    } else {
                        copy_before(from, to, len, *behind);
                        true
                    }
                };
                self.note_look();
                return if is_whole { Copied::Done } else { Copied::Cut };
            }
        }
        let slots = slots_for(self.current.payload_offset.into(), self.current.payload_len.into());
        // SAFETY: the caller vouches for the destination.
        unsafe { take(self.reader.further(slots), skip, to, len) };
        Copied::Done
    }

    /// Copies bytes of a payload as they are stored, which begin with its byte `skip`. False if
    /// it is cut.
    ///
    /// # Safety
    /// As for [`copy_shared`].
    unsafe fn take_portions(
        &self,
        peer: PeerId,
        segment: &Segment,
        until: Until,
        skip: usize,
        (from, to, len): (*const u8, *mut u8, usize),
    ) -> bool {
        let payload_bytes = self.current.payload_len as usize;
        // Of a shorter one the lines behind a portion are being stored.
        let behind = Behind::next_if(payload_bytes >= FETCHED_BYTES_MIN);
        let count = segment.portions();
        let mut stored = portion_bytes(payload_bytes).min(payload_bytes);
        let mut done = 0;
        while done < len && !self.current.is_cut.get() {
            let part = stored.min(skip + len).saturating_sub(skip + done);
            // SAFETY: these are some of the bytes that the caller vouches for.
            unsafe { copy_before(from.add(done), to.add(done), part, behind) };
            done += part;
            if done < len {
                let sender = || self.sender_does(peer);
                let more = until.await_more(count, payload_bytes, skip + done, sender);
                self.current.is_cut.set(more.is_none());
                stored = more.unwrap_or(stored);
            }
        }
        done == len
    }

    /// The payload of a peer's packet was cut. If it lives, it does not keep to the rules, and
    /// nothing more of it is delivered.
    #[cold]
    fn end_cut(&mut self, peer: PeerId) {
        if self.has_ended(peer) {
            return;
        }
        self.give_up_damaged(peer);
        for sender in self.senders.iter_mut().filter(|sender| sender.peer() == Some(peer)) {
            sender.mark_gone();
        }
    }

    /// Copies the payload of the packet being handled out of its slots, which will not have
    /// it any more.
    #[cold]
    fn keep_payload(&mut self) {
        let len = self.current.payload_len as usize;
        let mut kept = vec![0; len].into_boxed_slice();
        // SAFETY: the box has as many bytes, and so has the payload.
        let copied = unsafe { self.take_further(0, kept.as_mut_ptr(), len) };
        assert_eq!(copied, Copied::Done, "what is in the ring is whole");
        self.current.place = Place::Kept(kept);
    }
}

/// Publishes a packet whose payload of `len` bytes goes by a buffer at `to`, as soon as its first
/// portion is stored. `stored` is how many were, ever, and goes on from there. Says how many ticks the
/// further portions took.
///
/// # Safety
/// As for [`copy_shared`].
unsafe fn store_portions(
    mailbox: &RemoteMailbox,
    first: &[u64; WORDS],
    (stored, count): (&mut u64, &AtomicU64),
    parts: Parts,
    (from, to, len): (*const u8, *mut u8, usize),
) -> u64 {
    let portion = portion_bytes(len);
    let mut begin = 0;
    let mut done = 0;
    while done < len {
        let part = portion.min(len - done);
        // SAFETY: these are some of the bytes that the caller vouches for.
        unsafe { parts.copy(from.add(done), to.add(done), part) };
        let before = *stored;
        *stored = before.wrapping_add(1);
        if done > 0 {
            count.store(*stored, Ordering::Release);
        } else {
            // Where somebody else has written over it, portions would be read that are not there.
            if count.load(Ordering::Relaxed) != before {
                count.store(before, Ordering::Release);
            }
            mailbox.writer.write(1, first, |_, _| {}, step);
            mailbox.ring();
            begin = ticks();
        }
        done += part;
        if !step(Step::Portion(done.div_ceil(portion) as u32)) {
            break;
        }
    }
    ticks().saturating_sub(begin)
}

#[cfg(test)]
use super::tests::step;
#[cfg(not(test))]
use always as step;

/// Outside of tests nothing ends a writer between two steps but the end of the
/// process.
#[cfg(not(test))]
#[inline(always)]
fn always(_: super::ring::Step) -> bool {
    true
}
