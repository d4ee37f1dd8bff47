//! Chunk claims, and the transfers that two processes share, as the interfaces of the
//! simulated nodes keep them: who moves which chunk is decided by the claims that
//! ship ([`ChunkClaims`]), each in a place of its owner's that is used again in
//! another generation.
//!
//! A side of a shared transfer has its turns: it takes a chunk, waits, or ends. When
//! a chunk is copied is the world's affair, which tells of it and gives the side its
//! next turn.
//!
//! Where an interface moves whole messages by itself there is nothing to be won
//! by two of them moving one, so there a chunk is all bytes, and who uses free
//! claims has taken them in the same exchange.
//!
//! Invariant: claims are closed under no read.

use sluice_link::chunk_claims::{ChunkClaims, GENERATION_BITS, Settled, Side};
use sluice_link::{ClaimsId, ClaimsStart, RailError, Remote, Token};
use sluice_wire::Region;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::num::NonZeroU32;

const PLACE_BITS: u32 = u32::BITS - GENERATION_BITS;
/// Most chunk claims of one process.
const PLACES_MAX: usize = 1 << PLACE_BITS;
const GENERATION_MAX: u32 = (1 << GENERATION_BITS) - 1;

/// Where one transfer after the other has its claims.
#[derive(Debug)]
struct Place {
    claims: ChunkClaims<Cell<u64>>,
    generation: u32,
    peer: u32,
    is_open: bool,
    /// Who used it has taken all bytes, and has not begun.
    is_reserved: bool,
}

/// The places of one process.
#[derive(Debug, Default)]
struct Places {
    all: Vec<Place>,
    /// The one that was closed last is used first, so that who comes late finds the
    /// next transfer there.
    free: Vec<usize>,
}

/// One side of a shared transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub who: u32,
    pub peer: u32,
    pub claims: ClaimsId,
    pub is_write: bool,
    pub local: Region,
    pub remote: Remote,
    pub token: Token,
}

impl Share {
    fn owner(&self) -> u32 {
        if self.is_write { self.peer } else { self.who }
    }

    fn side(&self) -> Side {
        if self.is_write { Side::Peer } else { Side::Owner }
    }

    /// The place in the other's memory that is so far from its beginning.
    pub fn remote_at(&self, offset: u64) -> Remote {
        Remote { key: self.remote.key, offset: self.remote.offset + offset }
    }
}

#[derive(Clone, Copy, Debug)]
struct ActiveShare {
    share: Share,
    /// The chunk that it copies.
    chunk: Option<u32>,
    /// Chunks that it has taken and accounted for.
    own: u32,
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
pub(crate) struct AllClaims {
    chunk_bytes: u64,
    /// Who uses free claims takes all bytes of their transfer.
    reserves: bool,
    /// By owner.
    places: BTreeMap<u32, Places>,
    active: BTreeMap<u32, ActiveShare>,
    begun: u32,
    /// Most claims of one process, and whether one has had none for a transfer.
    places_max: usize,
    pub was_out: bool,
}

impl AllClaims {
    /// Those of interfaces that move a message in one go.
    pub fn of_interfaces() -> AllClaims {
        AllClaims { reserves: true, ..AllClaims::of_chunks(u64::MAX) }
    }

    /// Both sides take chunks of so many bytes.
    pub fn of_chunks(chunk_bytes: u64) -> AllClaims {
        AllClaims {
            chunk_bytes,
            reserves: false,
            places: BTreeMap::new(),
            active: BTreeMap::new(),
            begun: 0,
            places_max: PLACES_MAX,
            was_out: false,
        }
    }

    /// Each process has no more claims than these.
    pub fn limited(self, places_max: usize) -> AllClaims {
        AllClaims { places_max: places_max.min(PLACES_MAX), ..self }
    }

    pub fn open(&mut self, owner: u32, peer: u32, start: ClaimsStart) -> Option<ClaimsId> {
        let Places { all, free } = self.places.entry(owner).or_default();
        let at = free.pop().unwrap_or(all.len());
        if at >= self.places_max {
            self.was_out = true;
            return None;
        }
        if at == all.len() {
            let claims =
                ChunkClaims::new(Cell::new(ChunkClaims::<Cell<u64>>::UNUSED), Cell::new(0));
            all.push(Place { claims, generation: 0, peer, is_open: false, is_reserved: false });
        }
        let place = &mut all[at];
        assert!(!place.is_open, "one transfer in a place");
        let generation = if place.generation == GENERATION_MAX { 1 } else { place.generation + 1 };
        place.claims.open(generation, start);
        (place.generation, place.peer) = (generation, peer);
        (place.is_open, place.is_reserved) = (true, false);
        NonZeroU32::new(generation << PLACE_BITS | at as u32).map(ClaimsId)
    }

    /// Closes a free one.
    pub fn revoke(&mut self, owner: u32, id: ClaimsId) -> bool {
        let is_revoked = self.own(owner, id).is_some_and(|(place, generation)| {
            let is_free = place.claims.revoke(generation);
            place.is_open &= !is_free;
            is_free
        });
        if is_revoked {
            self.give_back(owner, id);
        }
        is_revoked
    }

    pub fn close(&mut self, owner: u32, id: ClaimsId) {
        let (place, generation) = self.own(owner, id).expect("closed once, by its owner");
        place.claims.close(generation);
        place.is_open = false;
        let reads = |active: &ActiveShare| {
            let Share { who, is_write, claims: its, .. } = active.share;
            (who, is_write, its) == (owner, false, id)
        };
        assert!(!self.active.values().any(reads), "closed under a transfer");
        self.give_back(owner, id);
    }

    pub fn try_use(&mut self, user: u32, owner: u32, id: ClaimsId) -> bool {
        let reserves = self.reserves;
        let Some((place, generation)) = self.place(owner, id) else { return false };
        let is_his = place.generation != generation || place.peer == user;
        if !is_his || !place.claims.try_use(generation) {
            return false;
        }
        if reserves {
            let taken = place.claims.take(generation, Side::Peer, 1);
            assert_eq!(taken, Some(0), "nobody takes of a free one");
            place.is_reserved = true;
        }
        true
    }

    pub fn is_closed(&self, owner: u32, id: ClaimsId) -> bool {
        let (at, generation) = parts(id);
        let place = self.places.get(&owner).and_then(|places| places.all.get(at));
        place.is_none_or(|place| place.claims.is_closed(generation))
    }

    /// Whether the other side has copied all bytes of a transfer of which the owner
    /// has not begun its side.
    pub fn is_written(&mut self, owner: u32, id: ClaimsId, len: u64) -> bool {
        let count = self.chunks(len);
        self.own(owner, id).is_some_and(|(place, generation)| {
            let settled = place.claims.settled(generation, count, 0);
            assert_ne!(settled, Settled::Spoiled, "asked of a transfer under way");
            settled == Settled::Whole
        })
    }

    /// Whether all bytes of a transfer belong to this side, which used its claims and
    /// has not begun.
    pub fn is_reserved(&mut self, share: &Share) -> bool {
        share.is_write && self.of(share).is_some_and(|(place, _)| place.is_reserved)
    }

    /// A side begins. Its name.
    pub fn begin(&mut self, share: Share) -> u32 {
        let name = self.begun;
        self.begun = self.begun.wrapping_add(1);
        let active = ActiveShare { share, chunk: None, own: 0, failure: None, waits: false };
        let before = self.active.insert(name, active);
        assert!(before.is_none(), "fewer than all names are in use");
        name
    }

    /// Of a side that has not ended.
    pub fn share(&self, name: u32) -> Option<Share> {
        self.active.get(&name).map(|active| active.share)
    }

    /// The chunk that a side has taken and not copied: here, and in the other's
    /// memory.
    pub fn chunk(&self, name: u32) -> Option<(Region, Remote)> {
        let ActiveShare { share, chunk, .. } = self.active.get(&name)?;
        let (offset, len) = self.bytes_of((*chunk)?, share.local.len);
        let local = Region { addr: share.local.addr.offset(offset), len };
        Some((local, share.remote_at(offset)))
    }

    /// Ends a process's sides of transfers with a peer, which is gone.
    pub fn end_with(&mut self, who: u32, peer: u32) -> Vec<Token> {
        let of_both = |active: &ActiveShare| active.share.who == who && active.share.peer == peer;
        let ended = self.active.values().filter(|active| of_both(active));
        let tokens = ended.map(|active| active.share.token).collect();
        self.active.retain(|_, active| !of_both(active));
        tokens
    }

    /// How many chunk claims of a process are open.
    pub fn open_of(&self, owner: u32) -> usize {
        let places = self.places.get(&owner);
        places.map_or(0, |places| places.all.iter().filter(|place| place.is_open).count())
    }

    /// A side that copies nothing has its turn.
    pub fn turn(&mut self, name: u32) -> Turn {
        let active = self.active.get_mut(&name).expect("it has begun and not ended");
        assert!(active.chunk.is_none(), "it copies a chunk");
        active.waits = false;
        let active = *active;
        if let Some(chunk) = self.take(&active) {
            self.active_mut(name).chunk = Some(chunk);
            let (offset, len) = self.bytes_of(chunk, active.share.local.len);
            return Turn::Copy(offset, len);
        }
        let end = if active.share.is_write {
            self.end_of_writer(&active)
        } else {
            self.end_of_reader(&active)
        };
        if end == Turn::Wait {
            self.active_mut(name).waits = true;
        } else {
            self.active.remove(&name);
        }
        end
    }

    /// The chunk that a side had taken is copied, or could not be. Who waited for
    /// it has a turn now.
    pub fn copied(&mut self, name: u32, outcome: Result<(), RailError>) -> Option<u32> {
        let active = self.active_mut(name);
        active.chunk.take().expect("it copies a chunk");
        active.own += 1;
        active.failure = outcome.err();
        let share = active.share;
        let count = self.chunks(share.local.len);
        // A reader that has lost its peer may have closed it.
        if let Some((place, generation)) = self.of(&share) {
            place.claims.account(generation, share.side(), count, outcome.is_ok());
        }
        let waits = |active: &ActiveShare| {
            active.waits
                && (active.share.owner(), active.share.claims) == (share.owner(), share.claims)
        };
        let (&name, active) = self.active.iter_mut().find(|(_, active)| waits(active))?;
        active.waits = false;
        Some(name)
    }

    /// A chunk for a side, if there is one.
    fn take(&mut self, active: &ActiveShare) -> Option<u32> {
        let ActiveShare { share, own, failure, .. } = active;
        let count = self.chunks(share.local.len);
        let (place, generation) = self.of(share)?;
        if share.is_write && std::mem::take(&mut place.is_reserved) {
            return Some(0);
        }
        let may_take = failure.is_none() && *own < count;
        may_take.then(|| place.claims.take(generation, share.side(), count)).flatten()
    }

    fn end_of_writer(&self, active: &ActiveShare) -> Turn {
        let is_whole = active.own == self.chunks(active.share.local.len);
        let outcome = active.failure.map_or(Ok(()), Err);
        Turn::End(outcome, outcome.is_ok() && is_whole)
    }

    fn end_of_reader(&mut self, active: &ActiveShare) -> Turn {
        let ActiveShare { share, own, failure, .. } = active;
        let count = self.chunks(share.local.len);
        let (place, generation) = self.of(share).expect("closed under no read");
        match place.claims.settled(generation, count, *own) {
            Settled::Waiting => Turn::Wait,
            Settled::Whole => Turn::End(Ok(()), *own == 0),
            Settled::Broken => Turn::End(Err(failure.unwrap_or(RailError::Shared)), false),
            wrong @ (Settled::Left | Settled::Doubtful | Settled::Spoiled) => {
                panic!("no chunk is to be had: {wrong:?}")
            }
        }
    }

    fn chunks(&self, len: u64) -> u32 {
        let count = len.div_ceil(self.chunk_bytes).max(1);
        u32::try_from(count).expect("few chunks")
    }

    fn bytes_of(&self, chunk: u32, len: u64) -> (u64, u64) {
        let offset = u64::from(chunk) * self.chunk_bytes;
        (offset, self.chunk_bytes.min(len - offset))
    }

    fn give_back(&mut self, owner: u32, id: ClaimsId) {
        let places = self.places.get_mut(&owner).expect("it was open");
        places.free.push(parts(id).0);
    }

    /// A place, and the generation that is asked for, which may be another.
    fn place(&mut self, owner: u32, id: ClaimsId) -> Option<(&mut Place, u32)> {
        let (at, generation) = parts(id);
        let place = self.places.get_mut(&owner)?.all.get_mut(at)?;
        Some((place, generation))
    }

    /// The place of open claims.
    fn own(&mut self, owner: u32, id: ClaimsId) -> Option<(&mut Place, u32)> {
        let found = self.place(owner, id);
        found.filter(|(place, generation)| place.is_open && place.generation == *generation)
    }

    /// The place that a side is about, if its transfer is not over.
    fn of(&mut self, share: &Share) -> Option<(&mut Place, u32)> {
        self.own(share.owner(), share.claims)
    }

    fn active_mut(&mut self, name: u32) -> &mut ActiveShare {
        self.active.get_mut(&name).expect("it has begun and not ended")
    }
}

/// Place and generation.
fn parts(id: ClaimsId) -> (usize, u32) {
    let name = id.0.get();
    (name as usize % PLACES_MAX, name >> PLACE_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_wire::{Addr, RemoteKey};

    fn share(id: ClaimsId, is_write: bool, len: u64) -> Share {
        let (who, peer) = if is_write { (0, 1) } else { (1, 0) };
        let local = Region { addr: Addr(64), len };
        let remote = Remote::whole(RemoteKey::NONE);
        Share { who, peer, claims: id, is_write, local, remote, token: Token(0) }
    }

    #[test]
    fn who_uses_a_free_one_has_all_bytes_and_the_reader_waits() {
        let mut claims = AllClaims::of_interfaces();
        let id = claims.open(1, 0, ClaimsStart::Free).expect("there are some");
        assert!(claims.try_use(0, 1, id) && !claims.revoke(1, id));
        let reader = claims.begin(share(id, false, 100));
        assert_eq!(claims.turn(reader), Turn::Wait);
        let writer = claims.begin(share(id, true, 100));
        assert_eq!(claims.turn(writer), Turn::Copy(0, 100));
        assert_eq!(claims.copied(writer, Ok(())), Some(reader));
        assert_eq!(claims.turn(reader), Turn::End(Ok(()), true));
        claims.close(1, id);
        assert_eq!(claims.turn(writer), Turn::End(Ok(()), true));
    }

    #[test]
    fn a_writer_that_comes_late_finds_nothing_left() {
        let mut claims = AllClaims::of_interfaces();
        let id = claims.open(1, 0, ClaimsStart::Used).expect("there are some");
        let reader = claims.begin(share(id, false, 100));
        assert_eq!(claims.turn(reader), Turn::Copy(0, 100));
        let writer = claims.begin(share(id, true, 100));
        assert_eq!(claims.turn(writer), Turn::End(Ok(()), false));
        assert_eq!(claims.copied(reader, Ok(())), None);
        assert_eq!(claims.turn(reader), Turn::End(Ok(()), false));
    }

    #[test]
    fn each_chunk_is_taken_once_and_a_failure_ends_both() {
        let mut claims = AllClaims::of_chunks(40);
        let id = claims.open(1, 0, ClaimsStart::Used).expect("there are some");
        let reader = claims.begin(share(id, false, 100));
        let writer = claims.begin(share(id, true, 100));
        assert_eq!(claims.turn(reader), Turn::Copy(0, 40));
        assert_eq!(claims.turn(writer), Turn::Copy(80, 20));
        assert_eq!(claims.copied(reader, Ok(())), None);
        assert_eq!(claims.turn(reader), Turn::Copy(40, 40));
        assert_eq!(claims.copied(reader, Ok(())), None);
        assert_eq!(claims.turn(reader), Turn::Wait);
        assert_eq!(claims.copied(writer, Err(RailError::Forbidden)), Some(reader));
        assert_eq!(claims.turn(reader), Turn::End(Err(RailError::Shared), false));
        assert_eq!(claims.turn(writer), Turn::End(Err(RailError::Forbidden), false));
    }

    #[test]
    fn one_that_was_taken_back_is_not_used() {
        let mut claims = AllClaims::of_interfaces();
        let id = claims.open(1, 0, ClaimsStart::Free).expect("there are some");
        assert!(!claims.try_use(2, 1, id), "it was opened for another");
        assert!(!claims.revoke(0, id), "its owner is another");
        assert!(claims.revoke(1, id) && claims.is_closed(1, id));
        assert!(!claims.try_use(0, 1, id));
    }

    #[test]
    fn who_comes_late_touches_nothing_of_the_next_transfer() {
        let mut claims = AllClaims::of_chunks(40);
        let old = claims.open(1, 0, ClaimsStart::Used).expect("there are some");
        let late = claims.begin(share(old, true, 100));
        claims.close(1, old);
        let next = claims.open(1, 0, ClaimsStart::Free).expect("there are some");
        assert_eq!(parts(next).0, parts(old).0, "the same place");
        assert!(!claims.try_use(0, 1, old) && claims.is_closed(1, old));
        assert_eq!(claims.turn(late), Turn::End(Ok(()), false));
        assert!(!claims.is_closed(1, next) && claims.try_use(0, 1, next));
    }
}
