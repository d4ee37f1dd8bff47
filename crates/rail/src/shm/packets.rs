//! Packets: how one is written into a mailbox, and where the payload of the one being handled is.
//!
//! Payload lies in the first slot behind the header, in the further slots, in a buffer of the
//! sender's (`bounce`), or, if the ring would not have it much longer, in memory of its own.

use super::Shm;
use super::bounce::{self, BOUNCE_WORD, may_bounce};
use super::copy::{byte_at, copy_small, fill, slot_bytes, take};
use super::ring::WORDS;
use super::shared_bytes::copy_shared;
use sluice_wire::{Addr, HeadBuf, PeerId, Region, SLOT_BYTES, slots_for};
use std::ptr;

/// The packet being handled.
#[derive(Debug)]
pub(super) struct Current {
    /// A private copy of its first slot.
    pub(super) first: [u64; WORDS],
    pub(super) payload_offset: u32,
    pub(super) payload_len: u32,
    /// Where the payload of a packet of several slots is.
    pub(super) place: Place,
}

impl Current {
    pub(super) const NONE: Current =
        Current { first: [0; WORDS], payload_offset: 0, payload_len: 0, place: Place::Ring };
}

/// Where the payload of a packet of several slots is.
#[derive(Debug)]
pub(super) enum Place {
    /// In its further slots.
    Ring,
    /// Here: the ring does not have it any more as it came.
    Kept(Box<[u8]>),
    /// In a buffer of its sender's, which begins here.
    Bounce(PeerId, u32),
}

impl Shm {
    /// Writes one packet into the mailbox of `peer`, as [`Transport::transmit`] says. False
    /// if shared memory has none that takes it: the peer has ended, or is elsewhere.
    #[inline(always)]
    pub(crate) fn write_packet(&mut self, peer: PeerId, head: &HeadBuf, payload: Region) -> bool {
        let Some(mailbox) = self.peers.mailbox(peer) else { return false };
        self.stats.packets_out += 1;
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
            return true;
        }
        if self.own_bounces.is_look_due() {
            self.peers.take_back_bounces(&mut self.own_bounces, &self.segment);
        }
        let Some((mailbox, segment)) = self.peers.mailbox_and_segment(peer) else { return false };
        if may_bounce(at, payload.len)
            && !segment.stores.streams(payload.len as usize)
            && let Some(entry) = segment.bounces.entry
        {
            let (count, len) = (self.segment.bounces_read(entry), payload.len as usize);
            if let Some(buffer) = self.own_bounces.take(&mut segment.bounces, count, len) {
                let to = self.segment.bounce(buffer.at(), len).as_ptr();
                // SAFETY: the machine vouches for the payload; no honest peer reads this
                // buffer, for it was free.
                unsafe { segment.stores.copy(from, to, len) };
                first[BOUNCE_WORD] = buffer.name();
                self.stats.bounces_out += 1;
                mailbox.writer.write(1, &first, |_, _| {}, step);
                mailbox.ring();
                return true;
            }
        }
        let stores = &mut segment.stores;
        let slots = slots_for(at as u64, payload.len);
        let count = u16::try_from(slots).unwrap_or(u16::MAX);
        assert!(u32::from(count) == slots, "no quota is that large");
        let len = payload.len as usize;
        mailbox.writer.write(
            count,
            &first,
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
        true
    }

    /// Copies payload of the packet being handled, as [`LocalMemory::copy_payload`] says.
    /// False if it has no such bytes or came by another rail; then nothing is copied.
    #[inline(always)]
    #[must_use]
    pub(crate) fn try_copy_payload(&self, offset: u32, to: Addr, len: u32) -> bool {
        // SAFETY: the machine vouches for the destination, by the contract of
        // `copy_payload`.
        unsafe { self.take_payload(offset, ptr::with_exposed_provenance_mut(to.0 as usize), len) }
    }

    /// The same into the machine, as [`LocalMemory::payload`] says.
    #[inline]
    #[must_use]
    pub(crate) fn try_payload(&self, offset: u32, into: &mut [u8]) -> bool {
        let Ok(len) = u32::try_from(into.len()) else { return false };
        // SAFETY: the destination is the slice.
        unsafe { self.take_payload(offset, into.as_mut_ptr(), len) }
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
        if let Some(unit) = named {
            let at = bounce::place(unit, payload_len, self.peers.bounces_len(peer))?;
            self.current.place = Place::Bounce(peer, at);
        }
        self.current.first = *copy;
        self.current.payload_offset = payload_offset;
        self.current.payload_len = payload_len;
        self.stats.packets_in += 1;
        if named.is_some() {
            return Some(1);
        }
        if slots > 1 && self.reader.is_scrub_due(slots) {
            // Before anybody gets credits back for these slots.
            self.keep_payload();
            self.reader.scrub(slots);
        }
        Some(slots)
    }

    /// It has been handled: there is no payload to copy any more.
    #[inline(always)]
    pub(super) fn put_down(&mut self, slots: u32) {
        self.current.payload_len = 0;
        match std::mem::replace(&mut self.current.place, Place::Ring) {
            Place::Ring | Place::Kept(_) => {}
            Place::Bounce(peer, _) => self.peers.note_bounce_read(peer),
        }
        self.reader.advance(slots);
    }

    /// Copies `len` payload bytes of the packet being handled, from `offset`
    /// on, to `to`. False if it has not that many, and then nothing is copied.
    ///
    /// # Safety
    /// `to` is writable for `len` bytes.
    #[inline(always)]
    unsafe fn take_payload(&self, offset: u32, to: *mut u8, len: u32) -> bool {
        let current = &self.current;
        let within = offset.checked_add(len).is_some_and(|end| end <= current.payload_len);
        if !within {
            return false;
        }
        let (at, skip, len) = (current.payload_offset as usize, offset as usize, len as usize);
        if at + current.payload_len as usize <= SLOT_BYTES {
            // From the private copy: what was checked is what is used.
            // SAFETY: `skip + len` is inside the payload, which is inside the copy of the
            // slot; the caller vouches for the destination.
            unsafe { copy_small(slot_bytes(&current.first).as_ptr().add(at + skip), to, len) };
            return true;
        }
        // SAFETY: the caller vouches for the destination. No honest peer writes into these
        // slots, or this buffer, while the packet is handled: they are the reader's.
        unsafe { self.take_further(skip, to, len) };
        true
    }

    /// The same of a packet of several slots.
    ///
    /// # Safety
    /// `to` is writable for `len` bytes, and the payload has as many from `skip` on.
    unsafe fn take_further(&self, skip: usize, to: *mut u8, len: usize) {
        match &self.current.place {
            Place::Ring => {}
            Place::Kept(kept) => {
                let from = &kept[skip..skip + len];
                // SAFETY: the caller vouches for the destination.
                unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, len) };
                return;
            }
            Place::Bounce(peer, at) => {
                let segment = self.peers.get(*peer).and_then(|known| known.segment.as_ref());
                let segment = segment.expect("a peer stays mapped while its packet is handled");
                let from = segment.bounce(*at as usize + skip, len).as_ptr();
                // SAFETY: the caller vouches for the destination.
                unsafe { copy_shared(from, to, len) };
                return;
            }
        }
        let slots = slots_for(self.current.payload_offset.into(), self.current.payload_len.into());
        // SAFETY: the caller vouches for the destination.
        unsafe { take(self.reader.further(slots), skip, to, len) };
    }

    /// Copies the payload of the packet being handled out of its slots, which will not have
    /// it any more.
    #[cold]
    fn keep_payload(&mut self) {
        let len = self.current.payload_len as usize;
        let mut kept = vec![0; len].into_boxed_slice();
        // SAFETY: the box has as many bytes, and so has the payload.
        unsafe { self.take_further(0, kept.as_mut_ptr(), len) };
        self.current.place = Place::Kept(kept);
    }
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
