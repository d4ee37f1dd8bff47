//! One tally, step by step; the interleavings are in `tally_loom.rs`.

use super::*;

fn line() -> Line {
    Line { word: AtomicU64::new(0) }
}

fn used(generation: u32) -> Line {
    let line = line();
    line.open(generation, TallyStart::Used);
    line
}

#[test]
fn the_chunks_of_any_length_are_all_of_it() {
    let around = |len: u64| [len.saturating_sub(1), len, len.saturating_add(1)];
    let lens = (0..64).flat_map(|shift| around(1 << shift)).chain([0, u64::MAX]);
    for len in lens {
        let count = chunks(len);
        assert!(count >= 1 && u64::from(count) <= CHUNKS_MAX, "{len}");
        let middle = [0, 1, count / 2].into_iter().filter(|&i| i + 1 < count);
        for i in middle {
            assert_eq!(chunk(len, i), (u64::from(i) * chunk_bytes(len), chunk_bytes(len)));
        }
        let (at, last) = chunk(len, count - 1);
        assert_eq!((at + last, last == 0), (len, len == 0));
        assert!(chunk_bytes(len).is_multiple_of(PAGE_BYTES));
    }
    // The system moves at most 2 GiB in one call, and nobody has this much.
    assert!(chunk_bytes(1 << 42) < 2 << 30);
}

#[test]
fn sixty_four_kibibytes_have_two_halves() {
    assert_eq!(chunks(64 << 10), 2);
    assert_eq!(chunk(64 << 10, 1), (32 << 10, 32 << 10));
}

#[test]
fn a_tally_is_used_or_revoked_once() {
    let line = line();
    line.open(7, TallyStart::Free);
    assert!(!line.use_it(6) && !line.revoke(8));
    assert!(!line.is_closed(7) && line.is_closed(6));
    assert_eq!(line.take(7, Side::Peer, 3), None, "it has to be used first");
    assert!(line.use_it(7) && !line.use_it(7) && !line.revoke(7));
    line.open(8, TallyStart::Free);
    assert!(line.revoke(8) && !line.use_it(8) && !line.revoke(8));
    assert!(line.is_closed(8));
    assert_eq!(line.take(8, Side::Peer, 3), None);
}

#[test]
fn two_sides_take_all_chunks_once() {
    let line = used(3);
    assert_eq!(line.settled(3, 3, 0), Settled::Left);
    assert_eq!(line.take(3, Side::Peer, 3), Some(2), "from the back");
    assert_eq!(line.take(3, Side::Peer, 3), None, "one at a time");
    assert_eq!(line.take(3, Side::Owner, 3), Some(0), "from the front");
    assert_eq!(line.take(3, Side::Owner, 3), None, "one at a time");
    assert_eq!(line.account(3, Side::Peer, 3, true), Accounted::More);
    assert_eq!(line.account(3, Side::Peer, 3, true), Accounted::Late, "it has none");
    assert_eq!(line.take(3, Side::Peer, 3), Some(1));
    assert_eq!(line.account(3, Side::Owner, 3, true), Accounted::NoMore);
    assert_eq!(line.take(3, Side::Owner, 3), None);
    assert_eq!(line.settled(3, 3, 1), Settled::Waiting);
    assert_eq!(line.account(3, Side::Peer, 3, true), Accounted::NoMore);
    assert_eq!(line.settled(3, 3, 1), Settled::Whole);
    for own in [0, 2] {
        assert_eq!(line.settled(3, 3, own), Settled::Spoiled, "it took {own}");
    }
}

#[test]
fn a_broken_one_waits_for_what_is_under_way() {
    let line = used(3);
    line.take(3, Side::Peer, 4).unwrap();
    line.take(3, Side::Owner, 4).unwrap();
    assert_eq!(line.account(3, Side::Owner, 4, false), Accounted::NoMore);
    assert_eq!(line.take(3, Side::Peer, 4), None);
    assert_eq!(line.settled(3, 4, 1), Settled::Waiting);
    assert_eq!(line.account(3, Side::Peer, 4, true), Accounted::NoMore);
    assert_eq!(line.settled(3, 4, 1), Settled::Broken);
    // The last chunk is no exception.
    let line = used(3);
    line.take(3, Side::Peer, 1).unwrap();
    line.account(3, Side::Peer, 1, false);
    assert_eq!(line.settled(3, 1, 0), Settled::Broken);
}

#[test]
fn of_what_is_closed_nothing_is_taken() {
    let line = used(9);
    line.take(9, Side::Peer, 2).unwrap();
    line.close(9);
    assert!(line.is_closed(9));
    assert_eq!(line.account(9, Side::Peer, 2, true), Accounted::Late);
    assert_eq!((line.take(9, Side::Peer, 2), line.settled(9, 2, 0)), (None, Settled::Spoiled));
}

#[test]
fn no_word_makes_a_chunk_that_there_is_not() {
    const STEPS: u64 = 200_000;
    let mut noise = 1_u64;
    let mut answers = [0; 5];
    for _ in 0..STEPS {
        noise =
            noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let word = noise.rotate_left(32);
        // The generation in question, and small counts, more often than not.
        let near = word & ((1 << GENERATION_SHIFT) - 1) | 5 << GENERATION_SHIFT;
        let small = near & !0xfff8_fff8;
        let before = [word, near, small, small][(noise >> 62) as usize];
        let chunks = if noise >> 58 & 1 == 0 { 4 } else { CHUNKS_MAX as u32 };
        let line = Line { word: AtomicU64::new(before) };
        let own = (noise >> 60) as u32 & 3;
        answers[line.settled(5, chunks, own) as usize] += 1;
        for side in [Side::Owner, Side::Peer] {
            let seen = Count::from_word(line.word.load(Ordering::Relaxed));
            assert!(line.take(5, side, chunks).is_none_or(|taken| taken < chunks));
            line.account(5, side, chunks, noise >> 59 & 1 == 0);
            let now = Count::from_word(line.word.load(Ordering::Relaxed));
            let state = if now.state == seen.state { now.state } else { STATE_BROKEN };
            let grown = (now.by_owner - seen.by_owner, now.by_peer - seen.by_peer);
            let grown_most = if side == Side::Owner { (1, 0) } else { (0, 1) };
            assert!(grown == (0, 0) || grown == grown_most, "{seen:?} {now:?}");
            assert_eq!((now.generation, now.state), (seen.generation, state));
        }
    }
    assert!(answers.iter().all(|&count| count > 0), "{answers:?}");
}
