//! Memory lent to the machine for payloads that nothing matches yet.
//!
//! Blocks come in powers of two, so that what comes back fits what goes out
//! next; a bounded amount of it is kept at hand. How much is lent at once is
//! bounded by the credits granted, not here.

use sluice_wire::Addr;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Smallest block in bytes, as a power of two.
const CLASS_MIN: u32 = 6;
/// Number of block sizes: up to 4 GiB, which is all that `lend` can be asked.
const CLASSES: usize = 27;
/// Most bytes kept at hand for the next loan.
const KEPT_BYTES_MAX: u64 = 4 << 20;

/// The free lists and the counts.
#[derive(Debug)]
pub(super) struct Lent {
    free: [Vec<NonNull<u8>>; CLASSES],
    kept_bytes: u64,
    now_bytes: u64,
    peak_bytes: u64,
}

// SAFETY: the free blocks are owned by the pool and nobody else knows them.
unsafe impl Send for Lent {}

impl Lent {
    pub(super) fn new() -> Lent {
        Lent { free: [const { Vec::new() }; CLASSES], kept_bytes: 0, now_bytes: 0, peak_bytes: 0 }
    }

    pub(super) fn lend(&mut self, len: u32) -> Addr {
        let class = class_of(len);
        self.now_bytes += u64::from(len);
        self.peak_bytes = self.peak_bytes.max(self.now_bytes);
        let block = match self.free[class].pop() {
            Some(block) => {
                self.kept_bytes -= class_bytes(class);
                block
            }
            None => {
                let layout = class_layout(class);
                // SAFETY: the layout's size is at least 64 bytes.
                let block = unsafe { alloc(layout) };
                NonNull::new(block).unwrap_or_else(|| handle_alloc_error(layout))
            }
        };
        Addr(block.as_ptr().expose_provenance() as u64)
    }

    /// Takes back what [`Lent::lend`] gave out for the same `len`.
    ///
    /// # Safety
    /// `addr` came from `lend(len)` of this pool and is given back once.
    pub(super) unsafe fn give_back(&mut self, addr: Addr, len: u32) {
        let class = class_of(len);
        self.now_bytes -= u64::from(len);
        let Some(block) =
            NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(addr.0 as usize))
        else {
            return;
        };
        if self.kept_bytes + class_bytes(class) > KEPT_BYTES_MAX {
            // SAFETY: allocated with this very layout, by the caller's word.
            unsafe { dealloc(block.as_ptr(), class_layout(class)) };
            return;
        }
        self.kept_bytes += class_bytes(class);
        self.free[class].push(block);
    }

    pub(super) fn now_bytes(&self) -> u64 {
        self.now_bytes
    }

    pub(super) fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        for (class, blocks) in self.free.iter_mut().enumerate() {
            for block in blocks.drain(..) {
                // SAFETY: a free block of this class was allocated with its
                // layout and is known to nobody else.
                unsafe { dealloc(block.as_ptr(), class_layout(class)) };
            }
        }
    }
}

fn class_of(len: u32) -> usize {
    let power = 32 - len.saturating_sub(1).leading_zeros();
    power.saturating_sub(CLASS_MIN) as usize
}

fn class_bytes(class: usize) -> u64 {
    1 << (class as u32 + CLASS_MIN)
}

fn class_layout(class: usize) -> Layout {
    let bytes = class_bytes(class) as usize;
    // A power of two up to 4 GiB at 64 bytes alignment always is a layout.
    Layout::from_size_align(bytes, 64).unwrap_or(Layout::new::<[u64; 8]>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_are_asked_for() {
        for len in [0, 1, 63, 64, 65, 128, 129, 1 << 20, (1 << 20) + 1, u32::MAX] {
            let class = class_of(len);
            assert!(class < CLASSES);
            assert!(class_bytes(class) >= u64::from(len));
            assert!(class == 0 || class_bytes(class - 1) < u64::from(len));
        }
    }

    #[test]
    fn what_comes_back_goes_out_again_and_is_counted() {
        let mut lent = Lent::new();
        let one = lent.lend(100);
        let two = lent.lend(100);
        assert_ne!(one, two);
        assert_eq!((lent.now_bytes(), lent.peak_bytes()), (200, 200));
        // SAFETY: lent just now for the same length.
        unsafe { lent.give_back(one, 100) };
        assert_eq!(lent.lend(128), one, "the same size class");
        // SAFETY: as above; the block was lent again for 128.
        unsafe {
            lent.give_back(one, 128);
            lent.give_back(two, 100);
        }
        assert_eq!((lent.now_bytes(), lent.peak_bytes()), (0, 228));
    }

    #[test]
    fn only_so_much_is_kept() {
        let mut lent = Lent::new();
        let blocks: Vec<Addr> = (0..10).map(|_| lent.lend(1 << 20)).collect();
        for block in blocks {
            // SAFETY: lent above for the same length.
            unsafe { lent.give_back(block, 1 << 20) };
        }
        assert!(lent.kept_bytes <= KEPT_BYTES_MAX);
    }
}
