//! Bytes into slots and out of them.
//!
//! A packet's first slot carries 64 bytes; each further one carries 60 behind
//! a zero where a first slot has its stamp. Slots are shared with processes
//! that may write at any time, so they are only touched word by word,
//! atomically; user memory is touched as plain bytes.

use super::ring::{Slot, WORDS};
use sluice_wire::SLOT_BYTES;
use std::ptr;
use std::sync::atomic::Ordering;

/// Payload bytes of a continuation slot.
pub(super) const NEXT_BYTES: usize = SLOT_BYTES - 4;

/// The bytes of a private copy of a slot.
#[inline]
pub(super) fn slot_bytes(words: &[u64; WORDS]) -> [u8; SLOT_BYTES] {
    let mut bytes = [0; SLOT_BYTES];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// The words of a slot's bytes.
#[inline]
pub(super) fn slot_words(bytes: &[u8; SLOT_BYTES]) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        let mut part = [0; 8];
        part.copy_from_slice(chunk);
        *word = u64::from_le_bytes(part);
    }
    words
}

/// Copies fewer than 64 bytes without a call: memcpy costs more than the copy.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes; they do not overlap.
#[inline]
pub(super) unsafe fn copy_small(from: *const u8, to: *mut u8, len: usize) {
    debug_assert!(len < SLOT_BYTES);
    let mut at = 0;
    // SAFETY: each step copies bytes `at..at + step`, which end at or before
    // `len`, because the step is taken only if that many are left.
    unsafe {
        while at + 8 <= len {
            let word = ptr::read_unaligned(from.add(at).cast::<u64>());
            ptr::write_unaligned(to.add(at).cast::<u64>(), word);
            at += 8;
        }
        if len & 4 != 0 {
            let word = ptr::read_unaligned(from.add(at).cast::<u32>());
            ptr::write_unaligned(to.add(at).cast::<u32>(), word);
            at += 4;
        }
        if len & 2 != 0 {
            let word = ptr::read_unaligned(from.add(at).cast::<u16>());
            ptr::write_unaligned(to.add(at).cast::<u16>(), word);
            at += 2;
        }
        if len & 1 != 0 {
            *to.add(at) = *from.add(at);
        }
    }
}

/// Stores `len` bytes, at most 60, as a continuation slot.
///
/// # Safety
/// `from` is readable for `len` bytes.
#[inline]
pub(super) unsafe fn fill_next(slot: &Slot, from: *const u8, len: usize) {
    if len < NEXT_BYTES {
        let mut bytes = [0; SLOT_BYTES];
        // SAFETY: the caller vouches for the source; the destination has 60
        // bytes behind the stamp, and `len` is fewer.
        unsafe { copy_small(from, bytes.as_mut_ptr().add(4), len) };
        for (word, value) in slot.words.iter().zip(slot_words(&bytes)) {
            word.store(value, Ordering::Relaxed);
        }
        return;
    }
    // SAFETY: 4 + 7 * 8 = 60 bytes, all of which the caller vouches for.
    unsafe {
        let first = ptr::read_unaligned(from.cast::<u32>());
        slot.words[0].store(u64::from(first.to_le()) << 32, Ordering::Relaxed);
        for (i, word) in slot.words.iter().enumerate().skip(1) {
            let value = ptr::read_unaligned(from.add(i * 8 - 4).cast::<u64>());
            word.store(value.to_le(), Ordering::Relaxed);
        }
    }
}

/// Copies `len` bytes from `skip` on out of a continuation slot.
/// `skip + len` is at most 60.
///
/// # Safety
/// `to` is writable for `len` bytes.
#[inline]
pub(super) unsafe fn take_next(slot: &Slot, skip: usize, to: *mut u8, len: usize) {
    assert!(skip + len <= NEXT_BYTES);
    if len < NEXT_BYTES {
        let mut words = [0; WORDS];
        for (value, word) in words.iter_mut().zip(&slot.words) {
            *value = word.load(Ordering::Relaxed);
        }
        let bytes = slot_bytes(&words);
        // SAFETY: the source ends at 4 + 60 bytes at the most, by the
        // assertion; the caller vouches for the destination.
        unsafe { copy_small(bytes.as_ptr().add(4 + skip), to, len) };
        return;
    }
    // SAFETY: `len` is 60, all of which the caller vouches for.
    unsafe {
        let first = (slot.words[0].load(Ordering::Relaxed) >> 32) as u32;
        ptr::write_unaligned(to.cast::<u32>(), first.to_le());
        for (i, word) in slot.words.iter().enumerate().skip(1) {
            let value = word.load(Ordering::Relaxed).to_le();
            ptr::write_unaligned(to.add(i * 8 - 4).cast::<u64>(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn every_part_of_a_slot_comes_out_as_it_went_in() {
        let source: Vec<u8> = (1..=60).collect();
        for len in 0..=NEXT_BYTES {
            let slot = Slot { words: [const { AtomicU64::new(u64::MAX) }; WORDS] };
            // SAFETY: the source has 60 bytes.
            unsafe { fill_next(&slot, source.as_ptr(), len) };
            assert_eq!(slot.words[0].load(Ordering::Relaxed) as u32, 0, "no stamp");
            for skip in 0..=len {
                let mut to = [0_u8; NEXT_BYTES + 1];
                // SAFETY: the destination has room for `len - skip` bytes.
                unsafe { take_next(&slot, skip, to.as_mut_ptr(), len - skip) };
                assert_eq!(to[..len - skip], source[skip..len]);
                assert_eq!(to[len - skip], 0, "nothing beyond");
            }
        }
    }
}
