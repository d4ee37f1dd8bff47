//! Which chunk claims of this process are in use: its own record, which never
//! believes the shared memory that the claims themselves lie in.
//!
//! Invariants:
//! - The name of chunk claims, a place and a generation, is not used again in the
//!   16,777,214 generations that follow at that place.
//! - Of the places that were given back last, eight take turns: their lines are in
//!   the cache, and unless nearly all places are open a name is not used again in
//!   eight times as many transfers.
//! - A place at which a process may still write that is no longer trusted is
//!   kept back until that process has ended.

use super::segment::CHUNK_CLAIMS_MAX;
use sluice_link::ClaimsId;
use sluice_link::chunk_claims::GENERATION_BITS;
use sluice_wire::PeerId;
use std::collections::VecDeque;
use std::num::NonZeroU32;

const GENERATION_SHIFT: u32 = u32::BITS - GENERATION_BITS;
const GENERATION_MAX: u32 = (1 << GENERATION_BITS) - 1;

const _: () = assert!(CHUNK_CLAIMS_MAX as u32 <= 1 << GENERATION_SHIFT);

/// Places that take turns where one is open at a time.
const ROTATION: usize = 8;

/// The name of the claims at `place` in `generation`.
fn name(place: u16, generation: u32) -> ClaimsId {
    let word = generation << GENERATION_SHIFT | u32::from(place);
    ClaimsId(NonZeroU32::new(word).expect("generations are not zero"))
}

/// Place and generation of chunk claims. `None` if no process names any like this.
pub(super) fn parts(id: ClaimsId) -> Option<(u16, u32)> {
    let word = id.0.get();
    let place = (word & ((1 << GENERATION_SHIFT) - 1)) as u16;
    let generation = word >> GENERATION_SHIFT;
    (place < CHUNK_CLAIMS_MAX && generation != 0).then_some((place, generation))
}

/// What a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Free,
    Open,
    /// Closed, and kept back.
    Kept,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    place: Place,
    generation: u32,
    peer: PeerId,
    /// The peer has copied all of the transfer.
    alone: bool,
    /// Somebody has scribbled over it.
    spoiled: bool,
}

/// The record of all places.
#[derive(Debug)]
pub(super) struct OwnClaims {
    slots: Box<[Slot]>,
    /// Free places, the one that was free for longest first.
    free: VecDeque<u16>,
}

impl OwnClaims {
    pub(super) fn new() -> OwnClaims {
        let nobodys = Slot {
            place: Place::Free,
            generation: 0,
            peer: PeerId(0),
            alone: false,
            spoiled: false,
        };
        OwnClaims {
            slots: vec![nobodys; usize::from(CHUNK_CLAIMS_MAX)].into(),
            free: (0..CHUNK_CLAIMS_MAX).rev().collect(),
        }
    }

    /// Takes a place for a transfer from `peer`, if there is one.
    pub(super) fn open(&mut self, peer: PeerId) -> Option<ClaimsId> {
        let at = self.free.remove(self.free.len().saturating_sub(ROTATION))?;
        let slot = &mut self.slots[usize::from(at)];
        assert!(slot.place == Place::Free);
        let generation = if slot.generation == GENERATION_MAX { 1 } else { slot.generation + 1 };
        *slot = Slot { place: Place::Open, generation, peer, alone: false, spoiled: false };
        Some(name(at, generation))
    }

    /// Place and generation of chunk claims, if they are open.
    pub(super) fn find(&self, id: ClaimsId) -> Option<(u16, u32)> {
        let (at, generation) = parts(id)?;
        let slot = &self.slots[usize::from(at)];
        (slot.place == Place::Open && slot.generation == generation).then_some((at, generation))
    }

    /// Whose transfer open claims are for.
    pub(super) fn peer_of(&self, id: ClaimsId) -> Option<PeerId> {
        self.find(id).map(|(at, _)| self.slots[usize::from(at)].peer)
    }

    /// The peer has copied all of the transfer of open claims.
    pub(super) fn set_alone(&mut self, id: ClaimsId) {
        if let Some((at, _)) = self.find(id) {
            self.slots[usize::from(at)].alone = true;
        }
    }

    /// Whether the peer has copied all, also for a while after the claims were
    /// closed.
    pub(super) fn is_alone(&self, id: ClaimsId) -> bool {
        parts(id).is_some_and(|(at, generation)| {
            let slot = &self.slots[usize::from(at)];
            slot.generation == generation && slot.alone
        })
    }

    /// Somebody has scribbled over open claims. Says whether that is news.
    pub(super) fn set_spoiled(&mut self, id: ClaimsId) -> bool {
        self.find(id).is_some_and(|(at, _)| {
            !std::mem::replace(&mut self.slots[usize::from(at)].spoiled, true)
        })
    }

    /// Gives back the place of open claims. It is kept back if their peer may
    /// still write there and was given up, or somebody has scribbled over it.
    pub(super) fn close(&mut self, id: ClaimsId, may_write: bool, given_up: bool) {
        let Some((at, _)) = self.find(id) else { return };
        let slot = &mut self.slots[usize::from(at)];
        if may_write && (given_up || slot.spoiled) {
            slot.place = Place::Kept;
        } else {
            slot.place = Place::Free;
            self.free.push_back(at);
        }
    }

    /// Frees what was kept back because of `peer`, which has ended.
    pub(super) fn release(&mut self, peer: PeerId) {
        for (slot, at) in self.slots.iter_mut().zip(0..) {
            if slot.place == Place::Kept && slot.peer == peer {
                slot.place = Place::Free;
                self.free.push_back(at);
            }
        }
    }

    /// How many places are free.
    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_name_is_not_used_again_soon() {
        let mut own = OwnClaims::new();
        let mut opened = || {
            let next = own.open(PeerId(1)).unwrap();
            own.close(next, true, false);
            assert_eq!(own.find(next), None);
            next
        };
        let first = opened();
        let mut count = 1;
        while parts(opened()) != parts(first).map(|(place, generation)| (place, generation + 1)) {
            count += 1;
        }
        assert_eq!(count, ROTATION, "eight places take turns");
        let slot = &mut own.slots[usize::from(parts(first).unwrap().0)];
        slot.generation = GENERATION_MAX - 1;
        let names: Vec<_> = (0..2 * ROTATION + 1)
            .map(|_| {
                let next = own.open(PeerId(1)).unwrap();
                own.close(next, true, false);
                parts(next).unwrap()
            })
            .filter(|(place, _)| *place == parts(first).unwrap().0)
            .collect();
        assert_eq!(names.iter().map(|name| name.1).collect::<Vec<_>>(), [GENERATION_MAX, 1]);
    }

    #[test]
    fn few_places_take_turns_after_a_burst() {
        let mut own = OwnClaims::new();
        let all: Vec<_> = (0..100).map(|_| own.open(PeerId(1)).unwrap()).collect();
        for id in all {
            own.close(id, true, false);
        }
        let places: BTreeSet<_> = (0..100)
            .map(|_| {
                let next = own.open(PeerId(1)).unwrap();
                own.close(next, true, false);
                parts(next).unwrap().0
            })
            .collect();
        assert_eq!(places.len(), ROTATION);
    }

    #[test]
    fn there_are_only_so_many() {
        let mut own = OwnClaims::new();
        let all: Vec<ClaimsId> = std::iter::from_fn(|| own.open(PeerId(1))).collect();
        assert_eq!(all.len(), usize::from(CHUNK_CLAIMS_MAX));
        for (at, &id) in all.iter().enumerate() {
            // Of each four two are kept back: the peer of one was given up, and
            // another was scribbled over. The last peer has ended.
            if at % 4 >= 2 {
                own.set_spoiled(id);
            }
            own.close(id, at % 4 != 3, at % 4 == 1);
            own.close(id, false, false);
        }
        assert_eq!(own.free(), all.len() / 2);
        own.release(PeerId(2));
        assert_eq!(own.free(), all.len() / 2);
        own.release(PeerId(1));
        assert_eq!(own.free(), all.len());
    }

    #[test]
    fn names_from_outside_are_looked_at() {
        let id = |word| ClaimsId(NonZeroU32::new(word).unwrap());
        assert_eq!(parts(id(0xffff_ff03)), Some((3, GENERATION_MAX)));
        assert_eq!(parts(id(0x0000_0003)), None);
        let mut own = OwnClaims::new();
        let open = own.open(PeerId(1)).unwrap();
        assert_eq!(own.find(id(open.0.get() + (1 << GENERATION_SHIFT))), None);
        assert_eq!(own.peer_of(open), Some(PeerId(1)));
        assert!(!own.is_alone(id(u32::MAX)));
    }
}
