//! Bytes into slots and out of them.
//!
//! A packet's first slot carries 64 bytes; each further one carries 60 behind
//! a zero where a first slot has its stamp. Slots are shared with processes
//! that may write at any time, so they are only touched word by word,
//! atomically, or sixteen bytes at a time, volatile (`store_pair`); user memory is
//! touched as plain bytes.

use super::ring::{Slot, WORDS};
use sluice_wire::SLOT_BYTES;
use std::ptr;
use std::sync::atomic::Ordering;

/// Payload bytes of a continuation slot.
pub(super) const NEXT_BYTES: usize = SLOT_BYTES - 4;

/// The bytes of a private copy of a slot, as they lie in memory.
#[inline]
pub(super) fn slot_bytes(words: &[u64; WORDS]) -> &[u8; SLOT_BYTES] {
    zerocopy::transmute_ref!(words)
}

/// Where byte `at` of a private copy of a slot is written.
#[inline]
pub(super) fn byte_at(words: &mut [u64; WORDS], at: usize) -> *mut u8 {
    let bytes: &mut [u8; SLOT_BYTES] = zerocopy::transmute_mut!(words);
    bytes[at..].as_mut_ptr()
}

/// Copies fewer than 64 bytes without a call: memcpy costs more than the copy.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes; they do not overlap.
#[inline(always)]
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
        let mut words = [0; WORDS];
        // SAFETY: the caller vouches for the source; the destination has 60
        // bytes behind the stamp, and `len` is fewer.
        unsafe { copy_small(from, byte_at(&mut words, 4), len) };
        for (word, value) in slot.words.iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
        return;
    }
    // SAFETY: 4 + 7 * 8 = 60 bytes, all of which the caller vouches for. Word
    // pairs `2 * i` and `2 * i + 1` are the slot's i-th sixteen bytes.
    unsafe {
        let first = ptr::read_unaligned(from.cast::<u32>());
        let head = u64::from(first.to_le()) << 32;
        let second = ptr::read_unaligned(from.add(4).cast::<u64>()).to_le();
        store_pair(slot, 0, [head, second]);
        for i in 1..WORDS / 2 {
            store_pair(slot, i, ptr::read_unaligned(from.add(i * 16 - 4).cast::<[u64; 2]>()));
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
        let [head, second] = load_pair(slot, 0);
        ptr::write_unaligned(to.cast::<u32>(), (head.to_le() >> 32) as u32);
        ptr::write_unaligned(to.add(4).cast::<u64>(), second);
        for i in 1..WORDS / 2 {
            ptr::write_unaligned(to.add(i * 16 - 4).cast::<[u64; 2]>(), load_pair(slot, i));
        }
    }
}

/// Stores sixteen bytes of a slot at once, as they are in memory. A store
/// buffer holds a fixed number of stores, whatever their width: twice the width
/// is twice the cache lines on their way.
///
/// Why that is no data race, though the access is not atomic: one thread at a time
/// uses a rail, and those that use the rails of one process are ordered. A reader
/// touches a continuation slot only after it has loaded, with acquire, the stamp
/// that its writer stored with release after the last of these accesses; and who
/// writes there next has the credits for it from the reader, through another such
/// pair. So of two accesses in one program, one of them a write, one happens before
/// the other. What is left are other processes that do not keep to the rules. They
/// are outside of what the language knows of; for such accesses there is `volatile`:
/// the compiler makes each as it stands, once, and assumes nothing of what it reads.
/// Any bytes are a value of the type, and none is relied upon.
#[inline]
fn store_pair(slot: &Slot, pair: usize, value: [u64; 2]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_set_epi64x};
        debug_assert!(pair < WORDS / 2);
        // SAFETY: SSE2 is part of x86-64. The pair is inside the slot, which is
        // aligned to its size and may be written through a shared reference, for
        // all of it is atomics. The access races with none of this program, as
        // said above.
        unsafe {
            let wide = _mm_set_epi64x(value[1].cast_signed(), value[0].cast_signed());
            let at = slot.words.as_ptr().cast::<__m128i>().cast_mut().add(pair);
            ptr::write_volatile(at, wide);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        slot.words[2 * pair].store(value[0], Ordering::Relaxed);
        slot.words[2 * pair + 1].store(value[1], Ordering::Relaxed);
    }
}

/// Loads sixteen bytes of a slot at once, as they are in memory.
#[inline]
fn load_pair(slot: &Slot, pair: usize) -> [u64; 2] {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::__m128i;
        debug_assert!(pair < WORDS / 2);
        // SAFETY: as in `store_pair`; any sixteen bytes are two words.
        unsafe {
            let at = slot.words.as_ptr().cast::<__m128i>().add(pair);
            std::mem::transmute::<__m128i, [u64; 2]>(ptr::read_volatile(at))
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        [
            slot.words[2 * pair].load(Ordering::Relaxed),
            slot.words[2 * pair + 1].load(Ordering::Relaxed),
        ]
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
