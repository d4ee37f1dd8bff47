//! The check of a frame's header by three instructions of the processor, where it has them: a
//! function for any length takes sixty, of each message and on each side.

use sluice_wire::frame::{CHECKED_BYTES, check_of};

/// As [`check_of`].
#[inline]
pub(super) fn fast_check_of(said: &[u8; CHECKED_BYTES]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has these instructions.
        return unsafe { by_instructions(said) };
    }
    check_of(said)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn by_instructions(said: &[u8; CHECKED_BYTES]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u32, _mm_crc32_u64};
    let [a, b, c, d, e] = *said.as_chunks::<4>().0 else { unreachable!("five times four bytes") };
    let word = |bytes| u32::from_le_bytes(bytes);
    let double = |low, high| u64::from(word(low)) | u64::from(word(high)) << 32;
    let sum = _mm_crc32_u64(u64::from(u32::MAX), double(a, b));
    let sum = _mm_crc32_u64(sum, double(c, d));
    !_mm_crc32_u32(sum as u32, word(e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_check_of_the_wire() {
        let mut said = [0; CHECKED_BYTES];
        for bit in 0..8 * CHECKED_BYTES {
            said[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(fast_check_of(&said), check_of(&said));
        }
    }
}
