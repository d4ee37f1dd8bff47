//! The arithmetic of collective operations: who exchanges how much with whom.

use super::op::Op;

/// A rank's part in the recursive halving of a vector of `bytes`, in words of
/// four bytes that are spread as evenly as possible. Of a rank without a word
/// nothing is sent, so with fewer words than ranks those behind only send, and
/// wait for nobody. Ranks beyond a power of two leave their part to the next
/// one and are given their words at the end.
pub(super) fn reduce_scatter(rank: u32, ranks: u32, bytes: u32) -> impl Iterator<Item = Op> {
    let words = bytes / 4;
    let words_before = move |rank: u32| rank * (words / ranks) + rank.min(words % ranks);
    let between = move |first: u32, end: u32| 4 * (words_before(end) - words_before(first));
    let halving = 1 << ranks.ilog2();
    let extra = ranks - halving;
    let is_paired = rank < 2 * extra;
    let stays_out = is_paired && rank.is_multiple_of(2);
    let place = if is_paired { rank / 2 } else { rank - extra };
    // The first rank whose words a place answers for, and who is there.
    let first = move |place: u32| place + place.min(extra);
    let who = move |place: u32| place + if place < extra { place + 1 } else { extra };
    let halve = move |level: u32| {
        let half = halving >> (level + 1);
        let start = place & !(2 * half - 1);
        let (low, high) = (
            between(first(start), first(start + half)),
            between(first(start + half), first(start + 2 * half)),
        );
        let is_low = place < start + half;
        let (sent, kept) = if is_low { (high, low) } else { (low, high) };
        exchange(who(place ^ half), sent, kept)
    };
    let partner = rank ^ 1;
    let words_of = move |rank: u32| between(rank, rank + 1);
    let all = 4 * words;
    let before = is_paired
        .then(|| if stays_out { exchange(partner, all, 0) } else { exchange(partner, 0, all) });
    let after = is_paired.then(|| {
        if stays_out {
            exchange(partner, 0, words_of(rank))
        } else {
            exchange(partner, words_of(partner), 0)
        }
    });
    let levels = if stays_out { 0 } else { halving.ilog2() };
    before.into_iter().chain((0..levels).map(halve)).chain(after).flatten()
}

/// Sends, receives, or both; nothing is not sent.
fn exchange(with: u32, sent_bytes: u32, received_bytes: u32) -> Option<Op> {
    match (sent_bytes > 0, received_bytes > 0) {
        (true, true) => Some(Op::Both { to: with, bytes: sent_bytes, from: with }),
        (true, false) => Some(Op::Send { to: with, bytes: sent_bytes }),
        (false, true) => Some(Op::Recv { from: with }),
        (false, false) => None,
    }
}

/// Bytes of the part of a tree that hangs from `place` at a level.
pub(super) fn block(bytes: u32, by_subtree: bool, place: u32, level: u32, ranks: u32) -> u32 {
    let leaves = if by_subtree { (1u32 << level).min(ranks - place) } else { 1 };
    bytes.saturating_mul(leaves)
}

/// A length up to `bytes`, another one for each pair. Messages of one length
/// would keep all pairs at the same place between two credit packets, where
/// nothing is typical; so the repetitions of the warm-up put them out of step.
pub(super) fn drawn(rank: u32, to: u32, bytes: u32) -> u32 {
    let mixed = (u64::from(rank) << 32 | u64::from(to)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    ((u128::from(mixed) * (u128::from(bytes) + 1)) >> 64) as u32
}

/// A round of a dissemination barrier; none when it is over.
pub(super) fn barrier(rank: u32, ranks: u32, step: u32) -> Option<Op> {
    let reach = 1u32.checked_shl(step).filter(|&reach| reach < ranks)?;
    let (to, from) = ((rank + reach) % ranks, (rank + ranks - reach) % ranks);
    Some(Op::Both { to, bytes: 0, from })
}
