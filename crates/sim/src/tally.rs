//! Tallies, and the transfers that two processes share: the words that decide
//! who moves which chunk, as the interfaces of the simulated nodes keep them.
//!
//! Each open tally says how many bytes of its transfer are taken and how many
//! are accounted for. A side of a shared transfer has its turns: it takes a
//! chunk, waits, or ends. When a chunk is copied is the world's affair, which
//! tells of it and gives the side its next turn.
//!
//! Where an interface moves whole messages by itself there is nothing to be won
//! by two of them moving one, so there a chunk is all bytes, and who uses a free
//! tally has taken them in the same exchange.
//!
//! Invariants: each byte is taken once; a tally is closed under no read.

use sluice_link::{RailError, Tally, TallyStart, Token};
use sluice_wire::{Addr, Region};
use std::collections::BTreeMap;
use std::num::NonZeroU32;

#[derive(Debug)]
struct Count {
    owner: u32,
    peer: u32,
    is_used: bool,
    /// Who used it will take all bytes.
    is_reserved: bool,
    is_broken: bool,
    taken: u64,
    /// Bytes copied, or taken by a side that failed.
    done: u64,
}

/// One side's part of a shared transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub who: u32,
    pub peer: u32,
    pub tally: Tally,
    pub is_write: bool,
    pub local: Region,
    pub remote: Addr,
    pub token: Token,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    share: Share,
    /// The chunk that it copies: offset and length.
    chunk: Option<(u64, u64)>,
    copied: u64,
    failure: Option<RailError>,
    waits: bool,
}

/// What a side does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It copies these bytes, from this offset on.
    Copy(u64, u64),
    /// It waits for a chunk that the other side has taken.
    Wait,
    /// It is done. Whether the writing side has copied everything.
    End(Result<(), RailError>, bool),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Tallies {
    chunk_bytes: u64,
    /// Who uses a free tally takes all bytes of its transfer.
    reserves: bool,
    opened: u32,
    /// Closed ones are not here.
    open: BTreeMap<u32, Count>,
    parts: BTreeMap<u32, Part>,
    begun: u32,
}

impl Tallies {
    /// Those of interfaces that move a message in one go.
    pub fn of_interfaces() -> Tallies {
        Tallies { reserves: true, ..Tallies::of_chunks(u64::MAX) }
    }

    /// Both sides take chunks of so many bytes.
    pub fn of_chunks(chunk_bytes: u64) -> Tallies {
        Tallies {
            chunk_bytes,
            reserves: false,
            opened: 0,
            open: BTreeMap::new(),
            parts: BTreeMap::new(),
            begun: 0,
        }
    }

    pub fn open(&mut self, owner: u32, peer: u32, start: TallyStart) -> Option<Tally> {
        let number = NonZeroU32::new(self.opened.wrapping_add(1))?;
        self.opened = number.get();
        let count = Count {
            owner,
            peer,
            is_used: start == TallyStart::Used,
            is_reserved: false,
            is_broken: false,
            taken: 0,
            done: 0,
        };
        self.open.insert(self.opened, count);
        Some(Tally(number))
    }

    /// Closes a free one.
    pub fn revoke(&mut self, owner: u32, tally: Tally) -> bool {
        let count = self.open.get(&tally.0.get());
        let is_free = count.is_some_and(|count| count.owner == owner && !count.is_used);
        if is_free {
            self.open.remove(&tally.0.get());
        }
        is_free
    }

    pub fn close(&mut self, owner: u32, tally: Tally) {
        let count = self.open.remove(&tally.0.get()).expect("closed once");
        assert_eq!(count.owner, owner, "closed by its owner");
        let reads = |part: &Part| !part.share.is_write && part.share.tally == tally;
        assert!(!self.parts.values().any(reads), "closed under a transfer");
    }

    pub fn use_it(&mut self, user: u32, owner: u32, tally: Tally) -> bool {
        let Some(count) = self.open.get_mut(&tally.0.get()) else { return false };
        let may = count.owner == owner && count.peer == user && !count.is_used;
        count.is_used |= may;
        count.is_reserved |= may && self.reserves;
        may
    }

    pub fn is_closed(&self, owner: u32, tally: Tally) -> bool {
        self.open.get(&tally.0.get()).is_none_or(|count| count.owner != owner)
    }

    /// Whether the other side has copied all bytes of a transfer of which the owner
    /// has not begun its part.
    pub fn is_written(&self, owner: u32, tally: Tally, len: u64) -> bool {
        self.open.get(&tally.0.get()).is_some_and(|count| {
            assert!(count.owner == owner && count.is_used, "asked of a transfer under way");
            !count.is_broken && !count.is_reserved && count.taken == len && count.done == len
        })
    }

    /// Whether all bytes of a transfer belong to who used its tally, who has not
    /// begun.
    pub fn is_reserved(&self, tally: Tally) -> bool {
        self.open.get(&tally.0.get()).is_some_and(|count| count.is_reserved)
    }

    /// A side begins. Its name.
    pub fn begin(&mut self, share: Share) -> u32 {
        let name = self.begun;
        self.begun = self.begun.wrapping_add(1);
        let part = Part { share, chunk: None, copied: 0, failure: None, waits: false };
        let before = self.parts.insert(name, part);
        assert!(before.is_none(), "fewer than all names are in use");
        name
    }

    /// Of a side that has not ended.
    pub fn share(&self, name: u32) -> Option<Share> {
        self.parts.get(&name).map(|part| part.share)
    }

    /// The chunk that a side has taken and not copied: here, and in the other's
    /// memory.
    pub fn chunk(&self, name: u32) -> Option<(Region, Addr)> {
        let Part { share, chunk, .. } = self.parts.get(&name)?;
        let (offset, len) = (*chunk)?;
        let local = Region { addr: share.local.addr.offset(offset), len };
        Some((local, share.remote.offset(offset)))
    }

    /// Ends the parts that a process has in transfers with a peer, which is gone.
    pub fn end_with(&mut self, who: u32, peer: u32) -> Vec<Token> {
        let of_both = |part: &Part| part.share.who == who && part.share.peer == peer;
        let ended = self.parts.values().filter(|part| of_both(part));
        let tokens = ended.map(|part| part.share.token).collect();
        self.parts.retain(|_, part| !of_both(part));
        tokens
    }

    /// How many tallies of a process are open.
    pub fn open_of(&self, owner: u32) -> usize {
        self.open.values().filter(|count| count.owner == owner).count()
    }

    /// A side that copies nothing has its turn.
    pub fn turn(&mut self, name: u32) -> Turn {
        let part = self.parts.get_mut(&name).expect("it has begun and not ended");
        assert!(part.chunk.is_none(), "it copies a chunk");
        part.waits = false;
        if let Some(count) = self.open.get_mut(&part.share.tally.0.get()) {
            assert!(count.is_used, "what is shared was used");
            let left = part.share.local.len - count.taken;
            let may_take = !count.is_reserved || part.share.is_write;
            if left > 0 && may_take && !count.is_broken && part.failure.is_none() {
                let (offset, len) = (count.taken, left.min(self.chunk_bytes));
                count.taken += len;
                count.is_reserved = false;
                part.chunk = Some((offset, len));
                return Turn::Copy(offset, len);
            }
            if !part.share.is_write {
                if count.is_reserved || count.done < count.taken {
                    part.waits = true;
                    return Turn::Wait;
                }
                if count.is_broken {
                    part.failure = part.failure.or(Some(RailError::Shared));
                }
            }
        }
        let part = self.parts.remove(&name).expect("it was found above");
        let whole = part.share.local.len;
        let is_alone = if part.share.is_write { part.copied == whole } else { part.copied == 0 };
        match part.failure {
            None => Turn::End(Ok(()), is_alone),
            Some(failure) => Turn::End(Err(failure), false),
        }
    }

    /// The chunk that a side had taken is copied, or could not be. Who waited for
    /// it has a turn now.
    pub fn copied(&mut self, name: u32, outcome: Result<(), RailError>) -> Option<u32> {
        let part = self.parts.get_mut(&name).expect("it has begun and not ended");
        let (_, len) = part.chunk.take().expect("it copies a chunk");
        match outcome {
            Ok(()) => part.copied += len,
            Err(failure) => part.failure = Some(failure),
        }
        let tally = part.share.tally;
        // A reader that has lost its peer may have closed it.
        if let Some(count) = self.open.get_mut(&tally.0.get()) {
            count.done += len;
            count.is_broken |= outcome.is_err();
        }
        let waits = |part: &Part| part.waits && part.share.tally == tally;
        let (&name, part) = self.parts.iter_mut().find(|(_, part)| waits(part))?;
        part.waits = false;
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(tally: Tally, is_write: bool, len: u64) -> Share {
        let (who, peer) = if is_write { (0, 1) } else { (1, 0) };
        let local = Region { addr: Addr(64), len };
        Share { who, peer, tally, is_write, local, remote: Addr(64), token: Token(0) }
    }

    #[test]
    fn who_uses_a_free_one_has_all_bytes_and_the_reader_waits() {
        let mut tallies = Tallies::of_interfaces();
        let tally = tallies.open(1, 0, TallyStart::Free).expect("there are some");
        assert!(tallies.use_it(0, 1, tally) && !tallies.revoke(1, tally));
        let reader = tallies.begin(share(tally, false, 100));
        assert_eq!(tallies.turn(reader), Turn::Wait);
        let writer = tallies.begin(share(tally, true, 100));
        assert_eq!(tallies.turn(writer), Turn::Copy(0, 100));
        assert_eq!(tallies.copied(writer, Ok(())), Some(reader));
        assert_eq!(tallies.turn(reader), Turn::End(Ok(()), true));
        tallies.close(1, tally);
        assert_eq!(tallies.turn(writer), Turn::End(Ok(()), true));
    }

    #[test]
    fn a_writer_that_comes_late_finds_nothing_left() {
        let mut tallies = Tallies::of_interfaces();
        let tally = tallies.open(1, 0, TallyStart::Used).expect("there are some");
        let reader = tallies.begin(share(tally, false, 100));
        assert_eq!(tallies.turn(reader), Turn::Copy(0, 100));
        let writer = tallies.begin(share(tally, true, 100));
        assert_eq!(tallies.turn(writer), Turn::End(Ok(()), false));
        assert_eq!(tallies.copied(reader, Ok(())), None);
        assert_eq!(tallies.turn(reader), Turn::End(Ok(()), false));
    }

    #[test]
    fn each_chunk_is_taken_once_and_a_failure_ends_both() {
        let mut tallies = Tallies::of_chunks(40);
        let tally = tallies.open(1, 0, TallyStart::Used).expect("there are some");
        let reader = tallies.begin(share(tally, false, 100));
        let writer = tallies.begin(share(tally, true, 100));
        assert_eq!(tallies.turn(reader), Turn::Copy(0, 40));
        assert_eq!(tallies.turn(writer), Turn::Copy(40, 40));
        assert_eq!(tallies.copied(reader, Ok(())), None);
        assert_eq!(tallies.turn(reader), Turn::Copy(80, 20));
        assert_eq!(tallies.copied(reader, Ok(())), None);
        assert_eq!(tallies.turn(reader), Turn::Wait);
        assert_eq!(tallies.copied(writer, Err(RailError::Forbidden)), Some(reader));
        assert_eq!(tallies.turn(reader), Turn::End(Err(RailError::Shared), false));
        assert_eq!(tallies.turn(writer), Turn::End(Err(RailError::Forbidden), false));
    }

    #[test]
    fn one_that_was_taken_back_is_not_used() {
        let mut tallies = Tallies::of_interfaces();
        let tally = tallies.open(1, 0, TallyStart::Free).expect("there are some");
        assert!(!tallies.use_it(2, 1, tally), "it was opened for another");
        assert!(!tallies.revoke(0, tally), "its owner is another");
        assert!(tallies.revoke(1, tally) && tallies.is_closed(1, tally));
        assert!(!tallies.use_it(0, 1, tally));
    }
}
