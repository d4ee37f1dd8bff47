//! Short hashes.

/// FNV-1a, 64 bits: tells identities and damaged bytes apart, no more.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The same in 32 bits: what stands behind bytes that may be damaged.
pub(crate) fn check_of(bytes: &[u8]) -> u32 {
    let hash = fnv1a(bytes);
    (hash ^ hash >> 32) as u32
}
