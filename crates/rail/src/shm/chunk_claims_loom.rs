//! Chunk claims under the model checker: an owner and its peer in every
//! interleaving.

use super::*;
use loom::sync::Arc;
use loom::thread;
use sluice_link::ClaimsStart;
use sluice_link::chunk_claims::{Accounted, Settled, Side};

const GENERATION: u32 = 1;
const CHUNKS: u32 = 2;

/// A transfer: its claims, and what was copied.
struct Transfer {
    line: Line,
    /// How often each chunk was copied, written without order of its own.
    copied: [AtomicU64; CHUNKS as usize],
}

impl Transfer {
    fn open(start: ClaimsStart) -> Arc<Transfer> {
        let line = Line::new(0);
        line.open(GENERATION, start);
        Arc::new(Transfer { line, copied: [AtomicU64::new(0), AtomicU64::new(0)] })
    }

    /// Copies what can be taken; fails at the chunk `broken`. Says how many were
    /// taken.
    fn copy(&self, side: Side, broken: Option<u32>) -> u32 {
        let mut own = 0;
        while let Some(taken) = self.line.take(GENERATION, side, CHUNKS) {
            own += 1;
            let well = broken != Some(taken);
            if well {
                let copied = &self.copied[taken as usize];
                copied.store(copied.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
            if self.line.account(GENERATION, side, CHUNKS, well) != Accounted::More {
                break;
            }
        }
        own
    }

    fn settled(&self, own: u32) -> Settled {
        self.line.settled(GENERATION, CHUNKS, own)
    }

    fn copies(&self) -> [u64; CHUNKS as usize] {
        [0, 1].map(|i: usize| self.copied[i].load(Ordering::Relaxed))
    }
}

#[test]
fn claims_let_each_chunk_be_copied_once() {
    loom::model(|| {
        let transfer = Transfer::open(ClaimsStart::Used);
        let other = transfer.clone();
        let peer = thread::spawn(move || other.copy(Side::Peer, None));
        let own = transfer.copy(Side::Owner, None);
        let seen = transfer.settled(own);
        let not_yet = matches!(seen, Settled::Waiting | Settled::Doubtful);
        assert!(seen == Settled::Whole || not_yet, "{seen:?}");
        if seen == Settled::Whole {
            assert_eq!(transfer.copies(), [1, 1], "what is whole is visible");
        }
        let theirs = peer.join().unwrap();
        assert_eq!((own + theirs, transfer.settled(own)), (CHUNKS, Settled::Whole));
        assert_eq!(transfer.copies(), [1, 1]);
        assert_eq!(own == 0, theirs == CHUNKS, "both know whether one was alone");
    });
}

#[test]
fn claims_are_used_or_revoked() {
    loom::model(|| {
        let transfer = Transfer::open(ClaimsStart::Free);
        let other = transfer.clone();
        let peer = thread::spawn(move || {
            let used = other.line.try_use(GENERATION);
            (used, other.copy(Side::Peer, None))
        });
        let revoked = transfer.line.revoke(GENERATION);
        let (used, theirs) = peer.join().unwrap();
        assert!(used != revoked);
        assert_eq!(theirs, if used { CHUNKS } else { 0 });
        assert_eq!(transfer.line.is_closed(GENERATION), revoked);
    });
}

/// Nobody copies any more once the owner sees that the transfer is broken.
#[test]
fn claims_that_are_broken_are_waited_for() {
    for side in [Side::Owner, Side::Peer] {
        loom::model(move || {
            let transfer = Transfer::open(ClaimsStart::Used);
            let other = transfer.clone();
            // The first chunk that this side takes.
            let first = if side == Side::Owner { 0 } else { CHUNKS - 1 };
            let broken = move |here: Side| (side == here).then_some(first);
            let peer = thread::spawn(move || other.copy(Side::Peer, broken(Side::Peer)));
            let own = transfer.copy(Side::Owner, broken(Side::Owner));
            let seen = transfer.settled(own);
            let copies = transfer.copies();
            let theirs = peer.join().unwrap();
            if matches!(seen, Settled::Broken | Settled::Whole) {
                assert_eq!((transfer.copies(), transfer.settled(own)), (copies, seen));
            }
            let copied: u64 = transfer.copies().into_iter().sum();
            let failed = copied < u64::from(own + theirs);
            let end = if failed { Settled::Broken } else { Settled::Whole };
            assert_eq!(transfer.settled(own), end);
        });
    }
}

/// A peer that comes after the end neither takes nor accounts for a chunk of the
/// next transfer, of which one is under way.
#[test]
fn claims_of_the_next_generation_are_not_touched() {
    loom::model(|| {
        let transfer = Transfer::open(ClaimsStart::Used);
        let other = transfer.clone();
        let peer = thread::spawn(move || {
            let used = other.line.try_use(GENERATION);
            (used, other.copy(Side::Peer, None))
        });
        transfer.line.close(GENERATION);
        transfer.line.open(GENERATION + 1, ClaimsStart::Used);
        assert_eq!(transfer.line.take(GENERATION + 1, Side::Owner, CHUNKS), Some(0));
        let (used, theirs) = peer.join().unwrap();
        assert!(!used && theirs <= CHUNKS);
        // One chunk is taken and under way, by the owner, and nothing else.
        let line = &transfer.line;
        assert_eq!(line.take(GENERATION + 1, Side::Owner, CHUNKS), None);
        assert_eq!(line.account(GENERATION + 1, Side::Owner, CHUNKS, true), Accounted::More);
        assert_eq!(line.settled(GENERATION + 1, CHUNKS, 1), Settled::Left);
        assert_eq!(line.take(GENERATION + 1, Side::Peer, CHUNKS), Some(CHUNKS - 1));
        assert!(transfer.line.is_closed(GENERATION));
    });
}
