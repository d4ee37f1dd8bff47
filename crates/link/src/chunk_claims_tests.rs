//! The claims of one transfer, step by step. Every interleaving of two sides is in
//! the tests of the rail, whose word is an atomic one.

use super::*;

type Claims = ChunkClaims<Cell<u64>>;

fn claims(word: u64) -> Claims {
    ChunkClaims::new(Cell::new(word), Cell::new(0))
}

fn used(generation: u32) -> Claims {
    let claims = claims(0);
    claims.open(generation, ClaimsStart::Used);
    claims
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
fn a_transfer_is_used_or_revoked_once() {
    let claims = claims(0);
    claims.open(7, ClaimsStart::Free);
    assert!(!claims.try_use(6) && !claims.revoke(8));
    assert!(!claims.is_closed(7) && claims.is_closed(6));
    assert_eq!(claims.take(7, Side::Peer, 3), None, "it has to be used first");
    assert!(claims.try_use(7) && !claims.try_use(7) && !claims.revoke(7));
    claims.open(8, ClaimsStart::Free);
    assert!(claims.revoke(8) && !claims.try_use(8) && !claims.revoke(8));
    assert!(claims.is_closed(8));
    assert_eq!(claims.take(8, Side::Peer, 3), None);
}

#[test]
fn two_sides_take_all_chunks_once() {
    let claims = used(3);
    assert_eq!(claims.settled(3, 3, 0), Settled::Left);
    assert_eq!(claims.take(3, Side::Peer, 3), Some(2), "from the back");
    assert_eq!(claims.take(3, Side::Peer, 3), None, "one at a time");
    assert_eq!(claims.take(3, Side::Owner, 3), Some(0), "from the front");
    assert_eq!(claims.take(3, Side::Owner, 3), None, "one at a time");
    assert_eq!(claims.account(3, Side::Peer, 3, true), Accounted::More);
    assert_eq!(claims.account(3, Side::Peer, 3, true), Accounted::Late, "it has none");
    assert_eq!(claims.take(3, Side::Peer, 3), Some(1));
    assert_eq!(claims.account(3, Side::Owner, 3, true), Accounted::NoMore);
    assert_eq!(claims.take(3, Side::Owner, 3), None);
    assert_eq!(claims.settled(3, 3, 1), Settled::Waiting);
    assert_eq!(claims.account(3, Side::Peer, 3, true), Accounted::NoMore);
    assert_eq!(claims.settled(3, 3, 1), Settled::Whole);
    for own in [0, 2] {
        assert_eq!(claims.settled(3, 3, own), Settled::Spoiled, "it took {own}");
    }
}

#[test]
fn a_broken_one_waits_for_what_is_under_way() {
    let claims = used(3);
    claims.take(3, Side::Peer, 4).unwrap();
    claims.take(3, Side::Owner, 4).unwrap();
    assert_eq!(claims.account(3, Side::Owner, 4, false), Accounted::NoMore);
    assert_eq!(claims.take(3, Side::Peer, 4), None);
    assert_eq!(claims.settled(3, 4, 1), Settled::Waiting);
    assert_eq!(claims.account(3, Side::Peer, 4, true), Accounted::NoMore);
    assert_eq!(claims.settled(3, 4, 1), Settled::Broken);
    // The last chunk is no exception.
    let claims = used(3);
    claims.take(3, Side::Peer, 1).unwrap();
    claims.account(3, Side::Peer, 1, false);
    assert_eq!(claims.settled(3, 1, 0), Settled::Broken);
}

#[test]
fn of_what_is_closed_nothing_is_taken() {
    let claims = used(9);
    claims.take(9, Side::Peer, 2).unwrap();
    claims.close(9);
    assert!(claims.is_closed(9));
    assert_eq!(claims.account(9, Side::Peer, 2, true), Accounted::Late);
    assert_eq!((claims.take(9, Side::Peer, 2), claims.settled(9, 2, 0)), (None, Settled::Spoiled));
}

#[test]
fn no_word_makes_a_chunk_that_there_is_not() {
    const STEPS: u64 = 200_000;
    let mut noise = 1_u64;
    let mut answers = [0; 6];
    for _ in 0..STEPS {
        noise =
            noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let word = noise.rotate_left(32);
        // The generation in question, and small counts, more often than not.
        let near = word & ((1 << GENERATION_SHIFT) - 1) | 5 << GENERATION_SHIFT;
        let small = near & !0xfff8_fff8;
        let before = [word, near, small, small][(noise >> 62) as usize];
        let chunks = if noise >> 58 & 1 == 0 { 4 } else { CHUNKS_MAX as u32 };
        let taken = u64::from(Count::from_word(before).by_peer);
        let said =
            5 << GENERATION_SHIFT | taken << BY_PEER_SHIFT | (taken - (noise >> 57 & taken & 1));
        let claims = ChunkClaims::new(Cell::new(before), Cell::new(said));
        let own = (noise >> 60) as u32 & 3;
        answers[claims.settled(5, chunks, own) as usize] += 1;
        for side in [Side::Owner, Side::Peer] {
            let seen = Count::from_word(claims.word().get());
            assert!(claims.take(5, side, chunks).is_none_or(|taken| taken < chunks));
            claims.account(5, side, chunks, noise >> 59 & 1 == 0);
            let now = Count::from_word(claims.word().get());
            let state = if now.state == seen.state { now.state } else { STATE_BROKEN };
            let grown = (now.by_owner - seen.by_owner, now.by_peer - seen.by_peer);
            let grown_most = if side == Side::Owner { (1, 0) } else { (0, 1) };
            assert!(grown == (0, 0) || grown == grown_most, "{seen:?} {now:?}");
            assert_eq!((now.generation, now.state), (seen.generation, state));
        }
    }
    assert!(answers.iter().all(|&count| count > 0), "{answers:?}");
}

/// Every word, small numbers in it, in place of the true one, at every step of the
/// peer. The owner has done its part and looks.
#[test]
fn a_forged_word_is_no_chunk_that_was_copied_or_is_waited_for() {
    const CHUNKS: u32 = 3;
    let mut found = [0; 6];
    for steps in 0..=2 * CHUNKS {
        for own in 0..=CHUNKS {
            for forged in 0..1_u64 << 10 {
                let claims = used(5);
                for _ in 0..own {
                    claims.take(5, Side::Owner, CHUNKS).unwrap();
                    claims.account(5, Side::Owner, CHUNKS, true);
                }
                let (mut taken, mut accounted) = (0, 0);
                for step in 0..steps {
                    if step % 2 == 1 && taken > accounted {
                        claims.account(5, Side::Peer, CHUNKS, true);
                        accounted += 1;
                    } else if claims.take(5, Side::Peer, CHUNKS).is_some() {
                        taken += 1;
                    }
                }
                claims.word().set(
                    fresh(5, forged >> 8)
                        | (forged & 7)
                        | (forged >> 3 & 7) << BY_PEER_SHIFT
                        | (forged >> 6 & 3) << (2 * u16::BITS),
                );
                let settled = claims.settled(5, CHUNKS, own);
                found[settled as usize] += 1;
                match settled {
                    Settled::Whole => assert_eq!(own + accounted, CHUNKS),
                    Settled::Waiting => assert!(taken > accounted, "{forged:#x}"),
                    Settled::Broken => assert_eq!(accounted, taken),
                    Settled::Left | Settled::Doubtful | Settled::Spoiled => {}
                }
                // A peer that goes on ends the waiting.
                claims.account(5, Side::Peer, CHUNKS, true);
                while claims.take(5, Side::Peer, CHUNKS).is_some() {
                    claims.account(5, Side::Peer, CHUNKS, true);
                }
                assert_ne!(claims.settled(5, CHUNKS, own), Settled::Waiting);
            }
        }
    }
    assert!(found.iter().all(|&count| count > 0), "{found:?}");
}

/// The same of the record, in place of the true one.
#[test]
fn a_forged_record_is_no_chunk_that_was_copied_or_is_waited_for() {
    const CHUNKS: u32 = 3;
    for (steps, forged) in (0..=2 * CHUNKS).flat_map(|steps| (0..128_u64).map(move |f| (steps, f)))
    {
        let claims = used(5);
        let mut accounted = 0;
        for step in 0..steps {
            if step % 2 == 0 {
                claims.take(5, Side::Peer, CHUNKS).unwrap();
            } else {
                claims.account(5, Side::Peer, CHUNKS, true);
                accounted += 1;
            }
        }
        let generation = 4 + (forged >> 6);
        claims.record().set(
            generation << GENERATION_SHIFT | (forged & 7) | (forged >> 3 & 7) << BY_PEER_SHIFT,
        );
        // The owner does what the peer does not.
        let mut own = 0;
        while claims.take(5, Side::Owner, CHUNKS).is_some() {
            claims.account(5, Side::Owner, CHUNKS, true);
            own += 1;
        }
        match claims.settled(5, CHUNKS, own) {
            Settled::Whole => assert_eq!(own + accounted, CHUNKS),
            Settled::Waiting => assert!(steps % 2 == 1, "{forged:#x}"),
            Settled::Doubtful => {}
            other => panic!("{other:?} after {forged:#x}"),
        }
    }
}

#[test]
fn a_late_peer_does_not_speak_for_the_next_one() {
    let claims = used(3);
    claims.take(3, Side::Peer, 2).unwrap();
    claims.close(3);
    claims.open(4, ClaimsStart::Used);
    claims.account(3, Side::Peer, 2, true);
    assert_eq!(claims.take(3, Side::Peer, 2), None);
    for taken in [1, 0] {
        assert_eq!(claims.take(4, Side::Peer, 2), Some(taken));
        claims.account(4, Side::Peer, 2, true);
    }
    assert_eq!(claims.settled(4, 2, 0), Settled::Whole);
}

/// Which is how both know whether one was alone: exactly one of the two is so.
#[test]
fn who_gives_up_and_who_has_copied_all_agree() {
    for steps in 0..=4 {
        let claims = used(5);
        let mut last = None;
        let mut step_on = |claims: &Claims, step: u32| {
            if step.is_multiple_of(2) {
                let _ = claims.take(5, Side::Peer, 2);
            } else {
                last = Some(claims.account(5, Side::Peer, 2, true));
            }
        };
        (0..steps).for_each(|step| step_on(&claims, step));
        let is_given_up = claims.give_up(5, 2);
        (steps..4).for_each(|step| step_on(&claims, step));
        assert_eq!(is_given_up, steps < 4);
        let is_alone = last == Some(Accounted::NoMore);
        assert!(is_alone != is_given_up, "after {steps} steps");
    }
}

#[test]
fn a_chunk_that_was_not_copied_is_not_accounted_for_behind_a_forged_word() {
    let claims = used(5);
    claims.take(5, Side::Peer, 2).unwrap();
    // Somebody says that it is accounted for.
    claims.word().set(claims.word().get() & !PEER_COPIES);
    assert_eq!(claims.account(5, Side::Peer, 2, false), Accounted::Late);
    claims.take(5, Side::Owner, 2).unwrap();
    claims.account(5, Side::Owner, 2, true);
    assert_eq!(claims.settled(5, 2, 1), Settled::Doubtful);
}
