//! Values in the client's memory, which its threads and, where it is shared,
//! other processes may change at any time.
//!
//! Every access is atomic, in the widest piece that the alignment allows, so
//! that an aligned value of up to eight bytes is never seen or left half
//! changed, and whatever else happens to the memory is no race.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// The widest access, 8, 4, 2 or 1 bytes, that `addr` is aligned for and `left`
/// bytes hold.
#[inline]
fn width_at(addr: usize, left: usize) -> usize {
    let aligned = if addr == 0 { 8 } else { 1 << addr.trailing_zeros().min(3) };
    let held = 1 << left.ilog2().min(3);
    aligned.min(held)
}

/// Copies memory of the client into the machine's.
///
/// # Safety
/// `from` is readable for the length of `into`.
pub(super) unsafe fn load(from: *const u8, into: &mut [u8]) {
    let mut at = 0;
    while at < into.len() {
        let source = from.wrapping_add(at).cast_mut();
        let width = width_at(source.addr(), into.len() - at);
        let piece = &mut into[at..at + width];
        // SAFETY: the caller vouches for the memory, of which the piece is a
        // part; it is aligned to its width. An atomic load does not write.
        unsafe {
            match width {
                8 => piece.copy_from_slice(
                    &AtomicU64::from_ptr(source.cast()).load(Ordering::Relaxed).to_ne_bytes(),
                ),
                4 => piece.copy_from_slice(
                    &AtomicU32::from_ptr(source.cast()).load(Ordering::Relaxed).to_ne_bytes(),
                ),
                2 => piece.copy_from_slice(
                    &AtomicU16::from_ptr(source.cast()).load(Ordering::Relaxed).to_ne_bytes(),
                ),
                _ => piece[0] = AtomicU8::from_ptr(source).load(Ordering::Relaxed),
            }
        }
        at += width;
    }
}

/// Copies the machine's memory into the client's.
///
/// # Safety
/// `to` is writable for the length of `bytes`.
pub(super) unsafe fn store(to: *mut u8, bytes: &[u8]) {
    let mut rest = bytes;
    let mut to = to;
    while !rest.is_empty() {
        let width = width_at(to.addr(), rest.len());
        // SAFETY: the caller vouches for the memory, of which the piece is a
        // part; it is aligned to its width.
        unsafe {
            match *rest {
                [a, b, c, d, e, f, g, h, ..] if width == 8 => {
                    let value = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
                    AtomicU64::from_ptr(to.cast()).store(value, Ordering::Relaxed);
                }
                [a, b, c, d, ..] if width == 4 => {
                    let value = u32::from_ne_bytes([a, b, c, d]);
                    AtomicU32::from_ptr(to.cast()).store(value, Ordering::Relaxed);
                }
                [a, b, ..] if width == 2 => {
                    let value = u16::from_ne_bytes([a, b]);
                    AtomicU16::from_ptr(to.cast()).store(value, Ordering::Relaxed);
                }
                _ => AtomicU8::from_ptr(to).store(rest[0], Ordering::Relaxed),
            }
        }
        to = to.wrapping_add(width);
        rest = &rest[width..];
    }
}

/// Replaces the `width` bytes at `at` by the low bytes of `new` if they are
/// the low bytes of `old`; else says what they are.
///
/// # Safety
/// `at` is writable for `width` bytes.
pub(super) unsafe fn compare_exchange(
    at: *mut u8,
    width: u32,
    old: u64,
    new: u64,
) -> Result<(), u64> {
    assert!(matches!(width, 1 | 2 | 4 | 8), "a width that memory exchanges");
    assert!(at.addr().is_multiple_of(width as usize), "an exchange is aligned");
    let (success, failure) = (Ordering::SeqCst, Ordering::SeqCst);
    // SAFETY: the caller vouches for the memory; it is aligned, by the
    // assertion.
    unsafe {
        match width {
            1 => AtomicU8::from_ptr(at)
                .compare_exchange(old as u8, new as u8, success, failure)
                .map_err(u64::from)
                .map(drop),
            2 => AtomicU16::from_ptr(at.cast())
                .compare_exchange(old as u16, new as u16, success, failure)
                .map_err(u64::from)
                .map(drop),
            4 => AtomicU32::from_ptr(at.cast())
                .compare_exchange(old as u32, new as u32, success, failure)
                .map_err(u64::from)
                .map(drop),
            _ => AtomicU64::from_ptr(at.cast())
                .compare_exchange(old, new, success, failure)
                .map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(8))]
    struct Aligned([u8; 40]);

    #[test]
    fn the_widest_piece_that_fits_is_taken() {
        for (addr, left, width) in
            [(8, 8, 8), (8, 100, 8), (8, 7, 4), (8, 3, 2), (12, 8, 4), (10, 8, 2), (9, 8, 1)]
        {
            assert_eq!(width_at(addr, left), width, "{left} bytes at {addr}");
        }
    }

    #[test]
    fn every_offset_and_length_goes_in_and_comes_out() {
        let values: Vec<u8> = (1..=40).collect();
        for begin in 0..9 {
            for len in 0..24 {
                let mut memory = Aligned([0; 40]);
                let at = memory.0[begin..].as_mut_ptr();
                // SAFETY: `begin + len` is at most 31 of 40 bytes.
                unsafe { store(at, &values[..len]) };
                let mut back = vec![0; len];
                // SAFETY: as above.
                unsafe { load(at, &mut back) };
                assert_eq!(back, values[..len]);
                assert_eq!(memory.0[begin..begin + len], values[..len]);
                assert!(memory.0[..begin].iter().all(|&byte| byte == 0), "nothing before");
                assert!(memory.0[begin + len..].iter().all(|&byte| byte == 0), "nothing behind");
            }
        }
    }

    #[test]
    fn an_exchange_touches_its_width_and_tells_what_it_found() {
        for (width, mask) in [(1, 0xff), (2, 0xffff), (4, 0xffff_ffff), (8, u64::MAX)] {
            let mut memory = Aligned([0x11; 40]);
            let at = memory.0[8..].as_mut_ptr();
            let found = 0x1111_1111_1111_1111 & mask;
            // SAFETY: inside the array.
            unsafe {
                assert_eq!(compare_exchange(at, width, 0, 5), Err(found));
                // The high bytes of the operands say nothing.
                let high = !mask;
                assert_eq!(compare_exchange(at, width, found | high, 7 | high), Ok(()));
            }
            let width = width as usize;
            assert_eq!(memory.0[8], 7);
            assert!(memory.0[9..8 + width].iter().all(|&byte| byte == 0));
            assert!(memory.0[8 + width..].iter().all(|&byte| byte == 0x11));
        }
    }

    #[test]
    #[should_panic(expected = "an exchange is aligned")]
    fn an_exchange_of_unaligned_memory_is_refused() {
        let mut memory = Aligned([0; 40]);
        // SAFETY: inside the array.
        let _ = unsafe { compare_exchange(memory.0[2..].as_mut_ptr(), 4, 0, 1) };
    }

    #[test]
    fn threads_that_exchange_lose_nothing() {
        const EACH: u64 = 20_000;
        let memory = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let (at, mut old) = (memory.as_ptr().cast(), 0);
                        // SAFETY: an atomic may be written through a shared
                        // reference.
                        let exchange = |old| unsafe { compare_exchange(at, 8, old, old + 1) };
                        while let Err(found) = exchange(old) {
                            old = found;
                        }
                    }
                });
            }
        });
        assert_eq!(memory.into_inner(), 2 * EACH);
    }
}
