//! The claims on the chunks of a transfer that two processes copy together: how many
//! chunks each has taken, and whether it has accounted for the last of them, in one
//! word, and beside it the peer's own record. A [`ClaimsId`](crate::ClaimsId) names them.
//!
//! Their owner, the receiver, opens them in a new *generation*. The other side, its
//! peer, uses them or the owner revokes them, whoever is first. From then on each
//! side takes chunks, copies them, and accounts for them. A side that cannot
//! copy a chunk says that the transfer is *broken* as it accounts for it, and
//! nobody takes any more.
//!
//! The owner takes chunks from the front and its peer from the back. So where the
//! same memory is used again the same core copies the same bytes, which it still
//! has in its cache, but for the chunk in the middle.
//!
//! One word, because what the owner waits for is a statement about all of it:
//! that no chunk is left, that all which were taken are accounted for, and
//! whether one of them failed. Every step of a transfer is one compare-and-exchange
//! of the whole word, the generation included, so a side that comes late changes
//! nothing. An add would be cheaper, and would let a late one take chunks of the
//! next transfer.
//!
//! The record is for the case that somebody else has written over the word. In it the
//! peer says that it is about to take a chunk, before it does, and that it has accounted
//! for one, after it has. The owner believes the word only where the record agrees. So
//! one forged word neither lets the owner wait for a chunk that nobody copies nor lets it
//! believe in bytes that nobody has copied. The peer changes its record by
//! compare-and-exchange too: the owner renews it with each generation, and a late peer
//! must not touch that.
//!
//! Where the words lie is the world's affair ([`ClaimsWord`]): in memory that two
//! processes share, or in a cell of a simulation.
//!
//! Invariants, among sides that keep to the rules:
//! - Each chunk is taken once. A side accounts for a chunk before it takes the next.
//! - Exactly one of use and revoke succeeds.
//! - Once all chunks that were taken are accounted for and none can be taken,
//!   nobody copies for this generation any more, and what was copied is visible
//!   to who sees it (each step releases and acquires).
//! - If somebody else writes over one of the words, that is found ([`Settled::Doubtful`],
//!   [`Settled::Spoiled`]), or the other side copies what is left.
//! - Of a side that does not keep to them no call waits
//!   ([`ClaimsWord::TRIES_MAX`]), and no call answers with a chunk that there is not.

use crate::mutants::{self, Mutant};
use crate::port::ClaimsStart;
use std::cell::Cell;

/// Where the claims of a transfer are kept. Every step releases what was done
/// before it, and acquires what others did.
pub trait ClaimsWord {
    /// How often a step is tried. The other side changes the word a few times for
    /// each chunk that it copies, so one that is in the way more often is no copy.
    const TRIES_MAX: u32 = 1000;

    /// The word.
    fn load(&self) -> u64;

    /// Replaces the word. It may be a while until others see it.
    fn store(&self, word: u64);

    /// Replaces the word, which others see when this returns.
    fn swap(&self, word: u64);

    /// Replaces the word if it is `old`, in one step.
    ///
    /// # Errors
    /// The word, if it is another.
    fn compare_exchange(&self, old: u64, new: u64) -> Result<(), u64>;
}

impl ClaimsWord for Cell<u64> {
    fn load(&self) -> u64 {
        self.get()
    }

    fn store(&self, word: u64) {
        self.set(word);
    }

    fn swap(&self, word: u64) {
        self.set(word);
    }

    fn compare_exchange(&self, old: u64, new: u64) -> Result<(), u64> {
        if self.get() != old {
            return Err(self.get());
        }
        self.set(new);
        Ok(())
    }
}

/// Chunks are whole pages, so that the two sides seldom touch the same one.
const PAGE_BYTES: u64 = 4096;
/// A chunk costs more than a microsecond beside the copy, so smaller ones are
/// not worth two cores. A transfer of 64 KiB has two.
const CHUNK_BYTES_MIN: u64 = 32 << 10;
/// A larger chunk is not copied faster, and one side waits longer for the other
/// one's last. Only transfers beyond 16 GiB have longer ones ([`CHUNKS_MAX`]).
const CHUNK_BYTES_MAX: u64 = 256 << 10;
/// Between the two limits as few chunks as two sides need: two cores copied
/// 256 KiB in two halves at 20 GB/s, in quarters at 17, in eighths at 13, one
/// core at 12. Also when one of them comes a quarter of the time late, halves
/// are not slower.
const CHUNKS_WANTED: u64 = 2;

/// Most chunks of a transfer. Longer ones have longer chunks.
const CHUNKS_MAX: u64 = u16::MAX as u64;
const BY_PEER_SHIFT: u32 = u16::BITS;
const OWNER_COPIES: u64 = 1 << (2 * u16::BITS);
const PEER_COPIES: u64 = OWNER_COPIES << 1;
const STATE_SHIFT: u32 = 2 * u16::BITS + 2;
const STATE_FREE: u64 = 0;
const STATE_USED: u64 = 1;
const STATE_BROKEN: u64 = 2;
const STATE_CLOSED: u64 = 3;
const GENERATION_SHIFT: u32 = u64::BITS - GENERATION_BITS;

const _: () = assert!(STATE_SHIFT + 2 <= GENERATION_SHIFT);

/// Bits of a generation. They and a place make a [`ClaimsId`](crate::ClaimsId).
pub const GENERATION_BITS: u32 = 24;

/// Bytes of a chunk of a transfer of `len` bytes; the last one may be shorter.
/// Both sides compute it, so it depends on nothing else.
#[must_use]
pub fn chunk_bytes(len: u64) -> u64 {
    let wanted = len.div_ceil(CHUNKS_WANTED).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
    wanted.max(len.div_ceil(CHUNKS_MAX)).next_multiple_of(PAGE_BYTES)
}

/// Chunks of a transfer of `len` bytes. An empty one has one, empty too, so that
/// somebody has copied all of it.
///
/// # Panics
/// Never: there are at most 65,535.
#[must_use]
pub fn chunks(len: u64) -> u32 {
    let count = len.div_ceil(chunk_bytes(len)).max(1);
    assert!(count <= CHUNKS_MAX);
    count as u32
}

/// Where a chunk of a transfer of `len` bytes begins, and its length.
///
/// # Panics
/// If there is no such chunk.
#[must_use]
pub fn chunk(len: u64, chunk: u32) -> (u64, u64) {
    assert!(chunk < chunks(len), "a chunk that there is");
    let bytes = chunk_bytes(len);
    let at = u64::from(chunk) * bytes;
    (at, bytes.min(len - at))
}

/// Which side of a shared transfer a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The receiver, in whose memory the word is.
    Owner,
    /// The sender.
    Peer,
}

/// How far a transfer is, as its owner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// There are chunks to be taken.
    Left,
    /// There are none, but the peer has not accounted for all of its.
    Waiting,
    /// There are none, and what the word says of the peer is not what the peer says. A
    /// moment later an honest peer has said the same; else somebody has written over
    /// one of the two.
    Doubtful,
    /// All are copied.
    Whole,
    /// One was not copied, and nobody copies any more.
    Broken,
    /// No process that keeps to the rules leaves the word like this.
    Spoiled,
}

/// What is left after a chunk was accounted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accounted {
    /// Chunks may be left to be taken.
    More,
    /// None is: they are taken, or the transfer is broken.
    NoMore,
    /// The word is not of this transfer any more, or was scribbled over.
    Late,
}

/// The word, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count {
    generation: u32,
    state: u64,
    /// Chunks taken by the owner, from the first one on.
    by_owner: u16,
    /// Chunks taken by its peer, from the last one back.
    by_peer: u16,
    /// Whether the last of the owner's chunks is not accounted for.
    owner_copies: bool,
    /// The same of the peer's.
    peer_copies: bool,
}

impl Count {
    fn from_word(word: u64) -> Count {
        Count {
            generation: (word >> GENERATION_SHIFT) as u32,
            state: word >> STATE_SHIFT & 3,
            by_owner: word as u16,
            by_peer: (word >> BY_PEER_SHIFT) as u16,
            owner_copies: word & OWNER_COPIES != 0,
            peer_copies: word & PEER_COPIES != 0,
        }
    }

    fn to_word(self) -> u64 {
        u64::from(self.generation) << GENERATION_SHIFT
            | self.state << STATE_SHIFT
            | if self.owner_copies { OWNER_COPIES } else { 0 }
            | if self.peer_copies { PEER_COPIES } else { 0 }
            | u64::from(self.by_peer) << BY_PEER_SHIFT
            | u64::from(self.by_owner)
    }

    /// Chunks that are taken.
    fn taken(self) -> u32 {
        u32::from(self.by_owner) + u32::from(self.by_peer)
    }

    /// What it means that no chunk can be taken, where the peer says this of itself.
    fn settled(self, generation: u32, said: Record) -> Settled {
        let is_behind = said.accounted.checked_add(1) == Some(said.taken);
        let is_this = said.generation == generation;
        if is_this && self.peer_copies && is_behind && said.taken == self.by_peer {
            Settled::Waiting
        } else if !is_this
            || self.peer_copies
            || said.accounted != self.by_peer
            // It may be about to find that there is nothing for it to take.
            || !(said.taken == said.accounted || is_behind && self.state == STATE_USED)
        {
            Settled::Doubtful
        } else if self.state == STATE_BROKEN {
            Settled::Broken
        } else {
            Settled::Whole
        }
    }

    /// Whether chunks of `generation` may be under way.
    fn is_of(self, generation: u32) -> bool {
        self.generation == generation && matches!(self.state, STATE_USED | STATE_BROKEN)
    }
}

const fn fresh(generation: u32, state: u64) -> u64 {
    (generation as u64) << GENERATION_SHIFT | state << STATE_SHIFT
}

/// The record of a transfer that its owner has given up: of no generation.
const GIVEN_UP: u64 = 0;

/// What the peer says of itself, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    generation: u32,
    /// Chunks that it has taken, or is about to.
    taken: u16,
    /// Chunks that it has accounted for.
    accounted: u16,
}

impl Record {
    fn from_word(word: u64) -> Record {
        Record {
            generation: (word >> GENERATION_SHIFT) as u32,
            taken: (word >> BY_PEER_SHIFT) as u16,
            accounted: word as u16,
        }
    }

    fn to_word(self) -> u64 {
        u64::from(self.generation) << GENERATION_SHIFT
            | u64::from(self.taken) << BY_PEER_SHIFT
            | u64::from(self.accounted)
    }
}

/// The claims on the chunks of one transfer at a time.
#[repr(C)]
#[derive(Debug)]
pub struct ChunkClaims<W> {
    word: W,
    record: W,
}

impl<W: ClaimsWord> ChunkClaims<W> {
    /// The word of those that no transfer has.
    pub const UNUSED: u64 = fresh(0, STATE_CLOSED);

    /// The claims in `word`, and the peer's record, whatever they say.
    pub fn new(word: W, record: W) -> ChunkClaims<W> {
        ChunkClaims { word, record }
    }

    /// Where they are kept.
    pub fn word(&self) -> &W {
        &self.word
    }

    /// Where the peer's record is kept.
    pub fn record(&self) -> &W {
        &self.record
    }

    /// Opens them, as their owner. Nobody who keeps to the rules changes closed
    /// ones, so nothing is waited for.
    pub fn open(&self, generation: u32, start: ClaimsStart) {
        let state = match start {
            ClaimsStart::Free => STATE_FREE,
            ClaimsStart::Used => STATE_USED,
        };
        self.record.store(Record { generation, taken: 0, accounted: 0 }.to_word());
        self.word.store(fresh(generation, state));
    }

    /// Uses them, as the peer, if they are free.
    #[inline]
    #[must_use]
    pub fn try_use(&self, generation: u32) -> bool {
        self.leave_free(generation, fresh(generation, STATE_USED))
    }

    /// Closes them, as their owner, if they are free.
    #[inline]
    #[must_use]
    pub fn revoke(&self, generation: u32) -> bool {
        self.leave_free(generation, fresh(generation, STATE_CLOSED))
    }

    fn leave_free(&self, generation: u32, to: u64) -> bool {
        let free = fresh(generation, STATE_FREE);
        self.word.compare_exchange(free, to).is_ok()
    }

    /// Closes them, as their owner, in whatever state they are. When this returns the
    /// other side can take no chunk any more; a store might still be on its way to it.
    pub fn close(&self, generation: u32) {
        self.word.swap(fresh(generation, STATE_CLOSED));
    }

    /// Whether a peer that was told of this generation comes too late.
    #[inline]
    #[must_use]
    pub fn is_closed(&self, generation: u32) -> bool {
        let now = Count::from_word(self.word.load());
        now.generation != generation || now.state == STATE_CLOSED
    }

    /// Takes one of `chunks` chunks, which the caller then copies and accounts
    /// for. `None` if there is none to be taken.
    #[inline]
    #[must_use]
    pub fn take(&self, generation: u32, side: Side, chunks: u32) -> Option<u32> {
        let is_left =
            |now: Count| now.is_of(generation) && now.state == STATE_USED && now.taken() < chunks;
        if side == Side::Peer {
            let is_said = is_left(Count::from_word(self.word.load()))
                && self.note(generation, |said| {
                    (said.taken == said.accounted)
                        .then_some(Record { taken: said.taken.checked_add(1)?, ..said })
                });
            if !is_said {
                return None;
            }
        }
        let took = self.change(|now| {
            let left = is_left(now);
            // Neither count reaches more than `chunks`.
            match side {
                _ if !left => None,
                Side::Owner if now.owner_copies => None,
                Side::Owner => {
                    Some(Count { by_owner: now.by_owner + 1, owner_copies: true, ..now })
                }
                Side::Peer if now.peer_copies => None,
                Side::Peer => Some(Count { by_peer: now.by_peer + 1, peer_copies: true, ..now }),
            }
        });
        match (side, took) {
            (Side::Owner, took) => took.map(|took| {
                let is_first_again =
                    mutants::is(Mutant::CopiesAChunkTwice) && took.taken() == chunks;
                if is_first_again { 0 } else { u32::from(took.by_owner) - 1 }
            }),
            (Side::Peer, Some(took)) => Some(chunks - u32::from(took.by_peer)),
            (Side::Peer, None) => {
                // The owner took the last one meanwhile.
                self.note(generation, |said| Some(Record { taken: said.accounted, ..said }));
                None
            }
        }
    }

    /// Accounts for the one of `chunks` chunks that this side has taken, and breaks
    /// the transfer if it was not copied.
    #[inline]
    pub fn account(&self, generation: u32, side: Side, chunks: u32, copied: bool) -> Accounted {
        let changed = self.change(|now| {
            let state = if copied { now.state } else { STATE_BROKEN };
            match side {
                _ if !now.is_of(generation) => None,
                Side::Owner => {
                    now.owner_copies.then_some(Count { owner_copies: false, state, ..now })
                }
                Side::Peer => now.peer_copies.then_some(Count { peer_copies: false, state, ..now }),
            }
        });
        // A chunk that was not copied, and of which the word could not say so, is not
        // accounted for.
        let is_said = match side {
            Side::Owner => true,
            Side::Peer => {
                (copied || changed.is_some())
                    && self.note(generation, |said| Some(Record { accounted: said.taken, ..said }))
            }
        };
        match changed {
            Some(now) if is_said => {
                let is_left = now.state == STATE_USED && now.taken() < chunks;
                if is_left { Accounted::More } else { Accounted::NoMore }
            }
            _ => Accounted::Late,
        }
    }

    /// How far the transfer of `chunks` chunks is. `own` of them were taken by
    /// the owner, who asks and has accounted for them.
    #[inline]
    #[must_use]
    pub fn settled(&self, generation: u32, chunks: u32, own: u32) -> Settled {
        let mut seen = self.word.load();
        for _ in 0..W::TRIES_MAX {
            let now = Count::from_word(seen);
            let is_own = u32::from(now.by_owner) == own && !now.owner_copies;
            if !now.is_of(generation) || !is_own || now.taken() > chunks {
                return Settled::Spoiled;
            }
            if now.state == STATE_USED && now.taken() < chunks {
                return Settled::Left;
            }
            let said = Record::from_word(self.record.load());
            // What both said at one time is compared.
            match self.word.load() {
                same if same == seen => return now.settled(generation, said),
                newer => seen = newer,
            }
        }
        Settled::Spoiled
    }

    /// Gives the transfer of `chunks` chunks up, as the owner: from now on no chunk of the
    /// peer's is accounted for ([`Accounted::Late`]). False if the peer has accounted for
    /// all of them, alone; then it knows that, and so does the owner.
    #[must_use]
    pub fn give_up(&self, generation: u32, chunks: u32) -> bool {
        let all = u16::try_from(chunks).unwrap_or(u16::MAX);
        let whole = Record { generation, taken: all, accounted: all }.to_word();
        for _ in 0..W::TRIES_MAX {
            match self.record.load() {
                seen if seen == whole => return false,
                seen if self.record.compare_exchange(seen, GIVEN_UP).is_ok() => return true,
                _ => {}
            }
        }
        true
    }

    /// Replaces the peer's record, as the peer, by what `change` makes of it. False if
    /// that is nothing, or the record is not the peer's of this generation.
    fn note(&self, generation: u32, change: impl Fn(Record) -> Option<Record>) -> bool {
        let seen = self.record.load();
        let said = Record::from_word(seen);
        said.generation == generation
            && change(said)
                .is_some_and(|to| self.record.compare_exchange(seen, to.to_word()).is_ok())
    }

    /// Replaces the word by what `change` makes of it, and says what that is.
    /// `None` if `change` makes nothing of it, or it is always in motion.
    fn change(&self, change: impl Fn(Count) -> Option<Count>) -> Option<Count> {
        let mut seen = self.word.load();
        for _ in 0..W::TRIES_MAX {
            let to = change(Count::from_word(seen))?;
            match self.word.compare_exchange(seen, to.to_word()) {
                Ok(()) => return Some(to),
                Err(found) => seen = found,
            }
        }
        None
    }
}

#[cfg(test)]
#[path = "chunk_claims_tests.rs"]
mod tests;
