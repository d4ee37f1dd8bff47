//! The one copy of bytes between shared memory and a process's own, and why it is sound though
//! other processes may write there at any time.
//!
//! Copies on x86-64 are loops of loads and stores. From 2,112 bytes on the C library has the
//! processor copy a string (`rep movsb`), and some processors do that at 1.6 GB/s instead of 32
//! where the target begins 16 bytes behind the source within their pages. That is the usual
//! place of a long buffer: `malloc` puts it 16 bytes behind the beginning of a page, and what is
//! copied there begins a page of shared memory. Shorter copies of the C
//! library end with a store that overlaps the one before, and so often lies in two lines. Where
//! another core has both that takes some 60 ns more (Emerald Rapids).
//!
//! On Intel's processors the loop fetches both sides ahead, the target for writing: each line has
//! to come from the other core, and more of them are under way at once so. Long copies go through four
//! pages side by side, which the processor fetches ahead by itself, too. Where nothing is likely
//! to be copied behind a short copy nothing is fetched, for the lines behind its end would be taken from a
//! core that writes them.

use super::processor::is_intel;
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
use std::{ffi::c_void, hint::black_box};

/// From here on a copy has longer steps, where it can.
const BLOCKS_BYTES_MIN: usize = 2048;
/// How far ahead lines are fetched, in bytes.
const AHEAD_BYTES: usize = 1 << 10;
/// Pages that are copied side by side.
const PAGE_BYTES: usize = 4 << 10;
/// From here on lines are fetched ahead whatever lies behind.
const PAGES_BYTES: usize = 4 * PAGE_BYTES;
/// How far ahead lines are fetched in each of these.
const AHEAD_BYTES_PAGES: usize = 512;

/// What lies behind the bytes of a copy, on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    Unknown,
    /// What is likely to be copied next.
    Next,
}

impl Behind {
    #[inline]
    pub(super) fn next_if(is_next: bool) -> Behind {
        if is_next { Behind::Next } else { Behind::Unknown }
    }
}

/// Copies bytes into shared memory or out of it.
///
/// Why that is no data race, though the access is not atomic: one thread at a time
/// uses a rail, and those that use the rails of one process are ordered. A reader
/// touches a further slot only after it has loaded, with acquire, the stamp
/// that its writer stored with release after the last of these accesses; and who
/// writes there next has the credits for it from the reader, through another such
/// pair, or has seen the reader's count of bounce buffers. Portions that are stored behind the
/// stamp have a count of their own, which is stored with release after each (`portions`). So of two accesses in one
/// program, one of them a write, one happens before the other. What is left are other
/// processes that do not keep to the rules. They are outside of what the language knows
/// of. So the copy is made by a function of the C library, or by instructions, that the
/// compiler cannot look into: it assumes nothing of what is read, and no byte that is read
/// is relied upon.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes; they do not overlap.
#[inline(always)]
pub(super) unsafe fn copy_shared(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: as the caller says.
    unsafe { copy_before(from, to, len, Behind::Unknown) }
}

/// The same before what lies behind.
///
/// # Safety
/// As for [`copy_shared`].
#[inline(always)]
pub(super) unsafe fn copy_before(from: *const u8, to: *mut u8, len: usize, behind: Behind) {
    // SAFETY: as the caller says.
    unsafe {
        if len < BLOCKS_BYTES_MIN {
            copy_lines(from, to, len);
        } else {
            copy_long(from, to, len, behind);
        }
    }
}

/// # Safety
/// As for [`copy_shared`]; there are [`BLOCKS_BYTES_MIN`] or more.
#[inline(never)]
unsafe fn copy_long(from: *const u8, to: *mut u8, len: usize, behind: Behind) {
    let is_long = len >= PAGES_BYTES;
    let fetches = (is_long || behind == Behind::Next) && is_intel();
    // SAFETY: as the caller says; what was copied is inside it.
    unsafe {
        let paged = if is_long && fetches { copy_pages(from, to, len) } else { 0 };
        let (from, to, len) = (from.add(paged), to.add(paged), len - paged);
        let done = copy_blocks(from, to, len, fetches.then_some(AHEAD_BYTES));
        copy_lines(from.add(done), to.add(done), len - done);
    }
}

/// Whether the processor has long registers.
#[inline]
fn has_avx() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return std::arch::is_x86_feature_detected!("avx");
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    false
}

/// # Safety
/// As for [`copy_shared`].
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline]
unsafe fn copy_by_library(from: *const u8, to: *mut u8, len: usize) {
    type Copy = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;
    let copy: Copy = black_box(libc::memcpy);
    // SAFETY: as the caller says.
    unsafe { copy(to.cast(), from.cast(), len) };
}

/// Copies 64 bytes at a time, and then what is left by ever shorter loads and stores. So where one
/// side is aligned to lines, no access to it is to two of them.
///
/// # Safety
/// As for [`copy_shared`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(never)]
unsafe fn copy_lines(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the loop goes through all whole lines of the `len` bytes, and each step behind it
    // through as many more as its bit of `len` says.
    unsafe {
        std::arch::asm!(
            "sub {len}, 64",
            "jb 3f",
            "2:",
            "movups xmm0, [{from}]",
            "movups xmm1, [{from} + 16]",
            "movups xmm2, [{from} + 32]",
            "movups xmm3, [{from} + 48]",
            "movups [{to}], xmm0",
            "movups [{to} + 16], xmm1",
            "movups [{to} + 32], xmm2",
            "movups [{to} + 48], xmm3",
            "add {from}, 64",
            "add {to}, 64",
            "sub {len}, 64",
            "jae 2b",
            "3:",
            "test {len}, 63",
            "jz 9f",
            "test {len}, 32",
            "jz 4f",
            "movups xmm0, [{from}]",
            "movups xmm1, [{from} + 16]",
            "movups [{to}], xmm0",
            "movups [{to} + 16], xmm1",
            "add {from}, 32",
            "add {to}, 32",
            "4:",
            "test {len}, 16",
            "jz 5f",
            "movups xmm0, [{from}]",
            "movups [{to}], xmm0",
            "add {from}, 16",
            "add {to}, 16",
            "5:",
            "test {len}, 8",
            "jz 6f",
            "mov {word}, [{from}]",
            "mov [{to}], {word}",
            "add {from}, 8",
            "add {to}, 8",
            "6:",
            "test {len}, 4",
            "jz 7f",
            "mov {word:e}, [{from}]",
            "mov [{to}], {word:e}",
            "add {from}, 4",
            "add {to}, 4",
            "7:",
            "test {len}, 2",
            "jz 8f",
            "movzx {word:e}, word ptr [{from}]",
            "mov [{to}], {word:x}",
            "add {from}, 2",
            "add {to}, 2",
            "8:",
            "test {len}, 1",
            "jz 9f",
            "movzx {word:e}, byte ptr [{from}]",
            "mov [{to}], {word:l}",
            "9:",
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            len = inout(reg) len => _,
            word = out(reg) _,
            out("xmm0") _,
            out("xmm1") _,
            out("xmm2") _,
            out("xmm3") _,
            options(nostack),
        );
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
unsafe fn copy_lines(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: as the caller says.
    unsafe { copy_by_library(from, to, len) };
}

/// The loop of [`copy_blocks`], with what else is done for each block of 128 bytes.
#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! block_loop {
    ([$($from:ident, $to:ident, $end:ident $(, $ahead:ident)?)*] $($fetch:literal)*) => {
        std::arch::asm!(
            "2:",
            $($fetch,)*
            "vmovdqu ymm0, [{from}]",
            "vmovdqu ymm1, [{from} + 32]",
            "vmovdqu ymm2, [{from} + 64]",
            "vmovdqu ymm3, [{from} + 96]",
            "vmovdqu [{to}], ymm0",
            "vmovdqu [{to} + 32], ymm1",
            "vmovdqu [{to} + 64], ymm2",
            "vmovdqu [{to} + 96], ymm3",
            "add {from}, 128",
            "add {to}, 128",
            "cmp {from}, {end}",
            "jne 2b",
            "vzeroupper",
            $(from = inout(reg) $from => _,
            to = inout(reg) $to => _,
            end = in(reg) $end,
            $(ahead = in(reg) $ahead,)?)*
            out("xmm0") _,
            out("xmm1") _,
            out("xmm2") _,
            out("xmm3") _,
            // Of these the upper halves are lost.
            out("xmm4") _,
            out("xmm5") _,
            out("xmm6") _,
            out("xmm7") _,
            out("xmm8") _,
            out("xmm9") _,
            out("xmm10") _,
            out("xmm11") _,
            out("xmm12") _,
            out("xmm13") _,
            out("xmm14") _,
            out("xmm15") _,
            options(nostack),
        )
    };
}

/// Copies whole blocks of 128 bytes by loads and stores, if the processor has long ones, and fetches
/// the lines so many bytes `ahead` on both sides, which need not be there. Says how many bytes
/// it copied.
///
/// # Safety
/// As for [`copy_shared`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
unsafe fn copy_blocks(from: *const u8, to: *mut u8, len: usize, ahead: Option<usize>) -> usize {
    const BLOCK: usize = 128;
    if len < BLOCK || !has_avx() {
        return 0;
    }
    let bytes = len / BLOCK * BLOCK;
    // SAFETY: the loop goes through `bytes` bytes of both, which are a block or more, by blocks;
    // the processor has the registers, and their upper halves are left as they have to be.
    // Prefetches change nothing and never fault.
    unsafe {
        let end = from.add(bytes);
        match ahead {
            None => block_loop!([from, to, end]),
            Some(ahead) => block_loop!([from, to, end, ahead]
                "prefetcht0 [{from} + {ahead}]"
                "prefetcht0 [{from} + {ahead} + 64]"
                "prefetchw [{to} + {ahead}]"
                "prefetchw [{to} + {ahead} + 64]"),
        }
    }
    bytes
}

/// Copies four pages at a time, side by side, and fetches the lines ahead in each of them on both sides, which
/// need not be there. Says how many bytes it copied.
///
/// # Safety
/// As for [`copy_shared`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
unsafe fn copy_pages(from: *const u8, to: *mut u8, len: usize) -> usize {
    if !has_avx() {
        return 0;
    }
    let bytes = len / PAGES_BYTES * PAGES_BYTES;
    for at in (0..bytes).step_by(PAGES_BYTES) {
        // SAFETY: the loop goes through the first of four pages by steps of 256 bytes, and copies as much of
        // each of them in a step; all are inside the `bytes` bytes of both. The processor has the registers, and their
        // upper halves are left as they have to be. Prefetches change nothing and never fault.
        unsafe {
            std::arch::asm!(
                "2:",
                ".irp page, 0, 4096, 8192, 12288",
                ".irp line, 0, 64, 128, 192",
                "prefetcht0 [{from} + \\page + \\line + {ahead}]",
                "prefetchw [{to} + \\page + \\line + {ahead}]",
                ".endr",
                "vmovdqu ymm0, [{from} + \\page]",
                "vmovdqu ymm1, [{from} + \\page + 32]",
                "vmovdqu ymm2, [{from} + \\page + 64]",
                "vmovdqu ymm3, [{from} + \\page + 96]",
                "vmovdqu ymm4, [{from} + \\page + 128]",
                "vmovdqu ymm5, [{from} + \\page + 160]",
                "vmovdqu ymm6, [{from} + \\page + 192]",
                "vmovdqu ymm7, [{from} + \\page + 224]",
                "vmovdqu [{to} + \\page], ymm0",
                "vmovdqu [{to} + \\page + 32], ymm1",
                "vmovdqu [{to} + \\page + 64], ymm2",
                "vmovdqu [{to} + \\page + 96], ymm3",
                "vmovdqu [{to} + \\page + 128], ymm4",
                "vmovdqu [{to} + \\page + 160], ymm5",
                "vmovdqu [{to} + \\page + 192], ymm6",
                "vmovdqu [{to} + \\page + 224], ymm7",
                ".endr",
                "add {from}, 256",
                "add {to}, 256",
                "cmp {from}, {end}",
                "jne 2b",
                "vzeroupper",
                from = inout(reg) from.add(at) => _,
                to = inout(reg) to.add(at) => _,
                end = in(reg) from.add(at + PAGE_BYTES),
                ahead = const AHEAD_BYTES_PAGES,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                // Of these the upper halves are lost.
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nostack),
            );
        }
    }
    bytes
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
unsafe fn copy_pages(_: *const u8, _: *mut u8, _: usize) -> usize {
    0
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
unsafe fn copy_blocks(_: *const u8, _: *mut u8, _: usize, _: Option<usize>) -> usize {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wherever the pages begin, and whatever is behind the last four.
    #[test]
    fn four_pages_at_a_time_are_copied_and_no_more() {
        let source: Vec<u8> = (0..70_000_u32).map(|i| (i * 7 + i / 251) as u8).collect();
        for len in [0, PAGES_BYTES - 1, PAGES_BYTES, PAGES_BYTES + 5, 3 * PAGES_BYTES + 4095] {
            for (skip, at) in [(0, 0), (0, 16), (1, 0), (63, 65), (500, 7)] {
                let mut target = vec![0xaa; at + len + 300];
                // SAFETY: both have as many bytes from there on.
                let done =
                    unsafe { copy_pages(source[skip..].as_ptr(), target[at..].as_mut_ptr(), len) };
                let whole = len / PAGES_BYTES * PAGES_BYTES;
                assert_eq!(done, if has_avx() { whole } else { 0 }, "{len}");
                assert!(target[at..at + done] == source[skip..skip + done], "{len} at {at}");
                assert!(target[..at].iter().chain(&target[at + done..]).all(|&byte| byte == 0xaa));
            }
        }
    }

    /// Shorter and longer than what a loop is for, wherever blocks end.
    #[test]
    fn every_byte_is_copied_and_no_other() {
        let source: Vec<u8> = (0..17_200_u32).map(|i| (i * 7 + i / 251) as u8).collect();
        let ends = [0, 1, 127, 128, 129];
        for len in [0, 1920, 2048, 4096, 8192, 16384]
            .iter()
            .flat_map(|len| ends.map(|end| len + end))
            .chain(0..200)
        {
            for (skip, at) in [(0, 0), (0, 16), (1, 0), (63, 65), (500, 7)] {
                let mut target = vec![0xaa; at + len + 300];
                for behind in [Behind::Unknown, Behind::Next] {
                    let (from, to) = (source[skip..].as_ptr(), target[at..].as_mut_ptr());
                    // SAFETY: both have as many bytes from there on.
                    unsafe { copy_before(from, to, len, behind) };
                    assert!(target[at..at + len] == source[skip..skip + len], "{len} at {at}");
                    assert!(
                        target[..at].iter().chain(&target[at + len..]).all(|&byte| byte == 0xaa)
                    );
                    target.fill(0xaa);
                }
            }
        }
    }
}
