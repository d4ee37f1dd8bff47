//! Bytes into slots and out of them.
//!
//! A packet that fits one slot lies in it; of a longer one the first slot has the header,
//! and the further ones have the payload in one piece. Slots are shared with processes that
//! may write at any time. So the first slot is only touched word by word, atomically, and the
//! further ones by a copy that the compiler knows nothing of (`copy_shared`); user memory
//! is touched as plain bytes.

#[cfg(test)]
use super::ring::Slot;
use super::ring::{Run, WORDS};
use super::shared_bytes::{Behind, copy_shared};
use super::stores::Stores;
use sluice_wire::SLOT_BYTES;
use std::ptr;

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

/// Stores `len` bytes into the slots of `run`, from their first byte on, in the way of
/// `stores`.
///
/// # Safety
/// `from` is readable for `len` bytes. Nobody else of this program touches these slots
/// meanwhile.
#[inline]
pub(super) unsafe fn fill(stores: &mut Stores, run: Run<'_>, from: *const u8, len: usize) {
    let Run(before, after) = run;
    let part = len.min(size_of_val(before));
    assert!(len - part <= size_of_val(after));
    // SAFETY: each copy ends inside its slots, by `part` and the assertion; they may be
    // written through a shared reference, for all of them is atomics.
    unsafe {
        stores.copy(from, before.as_ptr().cast_mut().cast(), part, Behind::Unknown);
        if part < len {
            let to = after.as_ptr().cast_mut().cast();
            stores.copy(from.add(part), to, len - part, Behind::Unknown);
        }
    }
}

/// Copies `len` bytes from byte `skip` on out of the slots of `run`.
///
/// # Safety
/// `to` is writable for `len` bytes. Nobody else of this program writes to these slots
/// meanwhile.
#[inline]
pub(super) unsafe fn take(run: Run<'_>, skip: usize, to: *mut u8, len: usize) {
    let Run(before, after) = run;
    let first = size_of_val(before);
    assert!(skip.checked_add(len).is_some_and(|end| end <= first + size_of_val(after)));
    let part = len.min(first.saturating_sub(skip));
    // SAFETY: each copy is inside its slots: the first ends at `first` at most, and what is
    // behind that is inside the others, by the assertion.
    unsafe {
        if part != 0 {
            copy_shared(before.as_ptr().cast::<u8>().add(skip), to, part);
        }
        if part < len {
            let skip = skip.saturating_sub(first);
            copy_shared(after.as_ptr().cast::<u8>().add(skip), to.add(part), len - part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::array;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Wherever a run is cut in two by the end of the ring.
    #[test]
    fn every_part_of_a_run_comes_out_as_it_went_in() {
        const BYTES: usize = 3 * SLOT_BYTES;
        let source: [u8; BYTES] = array::from_fn(|i| i as u8 + 1);
        for cut in 0..=3 {
            for len in [0, 1, 63, 64, 65, 128, 130, BYTES] {
                let slots: [Slot; 3] =
                    array::from_fn(|_| Slot { words: [const { AtomicU64::new(u64::MAX) }; WORDS] });
                let run = Run(&slots[..cut], &slots[cut..]);
                // SAFETY: the source has as many bytes.
                unsafe { fill(&mut Stores::default(), run, source.as_ptr(), len) };
                let last = slots[2].words[WORDS - 1].load(Ordering::Relaxed);
                assert_eq!(last == u64::MAX, len <= BYTES - 8, "nothing beyond");
                for skip in (0..=len).step_by(7) {
                    let mut to = [0_u8; BYTES + 1];
                    // SAFETY: the destination has room for `len - skip` bytes.
                    unsafe { take(run, skip, to.as_mut_ptr(), len - skip) };
                    assert_eq!(to[..len - skip], source[skip..len], "cut at {cut}");
                    assert_eq!(to[len - skip], 0, "nothing beyond");
                }
            }
        }
    }
}
