//! Which tallies of this process are in use: its own record, which never
//! believes the shared memory that the tallies themselves lie in.
//!
//! Invariants:
//! - A tally's name, its place and its generation, is not used again in the
//!   16,777,214 generations that follow at that place.
//! - Of the places that were given back last, eight take turns: their lines are in
//!   the cache, and unless nearly all places are open a name is not used again in
//!   eight times as many tallies.
//! - A place at which a process may still write that is no longer trusted is
//!   kept back until that process has ended.

use super::segment::TALLIES_MAX;
use sluice_link::Tally;
use sluice_link::chunk_claims::GENERATION_BITS;
use sluice_wire::PeerId;
use std::collections::VecDeque;
use std::num::NonZeroU32;

const GENERATION_SHIFT: u32 = u32::BITS - GENERATION_BITS;
const GENERATION_MAX: u32 = (1 << GENERATION_BITS) - 1;

const _: () = assert!(TALLIES_MAX as u32 <= 1 << GENERATION_SHIFT);

/// Places that take turns where one is open at a time.
const ROTATION: usize = 8;

/// The name of the tally at `place` in `generation`.
fn name(place: u16, generation: u32) -> Tally {
    let word = generation << GENERATION_SHIFT | u32::from(place);
    Tally(NonZeroU32::new(word).expect("generations are not zero"))
}

/// Place and generation of a tally. `None` if no process names one like this.
pub(super) fn parts(tally: Tally) -> Option<(u16, u32)> {
    let word = tally.0.get();
    let place = (word & ((1 << GENERATION_SHIFT) - 1)) as u16;
    let generation = word >> GENERATION_SHIFT;
    (place < TALLIES_MAX && generation != 0).then_some((place, generation))
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
pub(super) struct Tallies {
    slots: Box<[Slot]>,
    /// Free places, the one that was free for longest first.
    free: VecDeque<u16>,
}

impl Tallies {
    pub(super) fn new() -> Tallies {
        let nobodys = Slot {
            place: Place::Free,
            generation: 0,
            peer: PeerId(0),
            alone: false,
            spoiled: false,
        };
        Tallies {
            slots: vec![nobodys; usize::from(TALLIES_MAX)].into(),
            free: (0..TALLIES_MAX).rev().collect(),
        }
    }

    /// Takes a place for a transfer from `peer`, if there is one.
    pub(super) fn open(&mut self, peer: PeerId) -> Option<Tally> {
        let at = self.free.remove(self.free.len().saturating_sub(ROTATION))?;
        let slot = &mut self.slots[usize::from(at)];
        assert!(slot.place == Place::Free);
        let generation = if slot.generation == GENERATION_MAX { 1 } else { slot.generation + 1 };
        *slot = Slot { place: Place::Open, generation, peer, alone: false, spoiled: false };
        Some(name(at, generation))
    }

    /// Place and generation of a tally, if it is open.
    pub(super) fn find(&self, tally: Tally) -> Option<(u16, u32)> {
        let (at, generation) = parts(tally)?;
        let slot = &self.slots[usize::from(at)];
        (slot.place == Place::Open && slot.generation == generation).then_some((at, generation))
    }

    /// Whose transfer an open tally is for.
    pub(super) fn peer_of(&self, tally: Tally) -> Option<PeerId> {
        self.find(tally).map(|(at, _)| self.slots[usize::from(at)].peer)
    }

    /// The peer has copied all of the transfer of an open tally.
    pub(super) fn set_alone(&mut self, tally: Tally) {
        if let Some((at, _)) = self.find(tally) {
            self.slots[usize::from(at)].alone = true;
        }
    }

    /// Whether the peer has copied all, also for a while after the tally was
    /// closed.
    pub(super) fn is_alone(&self, tally: Tally) -> bool {
        parts(tally).is_some_and(|(at, generation)| {
            let slot = &self.slots[usize::from(at)];
            slot.generation == generation && slot.alone
        })
    }

    /// Somebody has scribbled over an open tally.
    pub(super) fn set_spoiled(&mut self, tally: Tally) {
        if let Some((at, _)) = self.find(tally) {
            self.slots[usize::from(at)].spoiled = true;
        }
    }

    /// Gives back the place of an open tally. It is kept back if its peer may
    /// still write there and was given up, or somebody has scribbled over it.
    pub(super) fn close(&mut self, tally: Tally, may_write: bool, given_up: bool) {
        let Some((at, _)) = self.find(tally) else { return };
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
        let mut tallies = Tallies::new();
        let mut opened = || {
            let next = tallies.open(PeerId(1)).unwrap();
            tallies.close(next, true, false);
            assert_eq!(tallies.find(next), None);
            next
        };
        let first = opened();
        let mut count = 1;
        while parts(opened()) != parts(first).map(|(place, generation)| (place, generation + 1)) {
            count += 1;
        }
        assert_eq!(count, ROTATION, "eight places take turns");
        let slot = &mut tallies.slots[usize::from(parts(first).unwrap().0)];
        slot.generation = GENERATION_MAX - 1;
        let names: Vec<_> = (0..2 * ROTATION + 1)
            .map(|_| {
                let next = tallies.open(PeerId(1)).unwrap();
                tallies.close(next, true, false);
                parts(next).unwrap()
            })
            .filter(|(place, _)| *place == parts(first).unwrap().0)
            .collect();
        assert_eq!(names.iter().map(|name| name.1).collect::<Vec<_>>(), [GENERATION_MAX, 1]);
    }

    #[test]
    fn few_places_take_turns_after_a_burst() {
        let mut tallies = Tallies::new();
        let all: Vec<_> = (0..100).map(|_| tallies.open(PeerId(1)).unwrap()).collect();
        for tally in all {
            tallies.close(tally, true, false);
        }
        let places: BTreeSet<_> = (0..100)
            .map(|_| {
                let next = tallies.open(PeerId(1)).unwrap();
                tallies.close(next, true, false);
                parts(next).unwrap().0
            })
            .collect();
        assert_eq!(places.len(), ROTATION);
    }

    #[test]
    fn there_are_only_so_many() {
        let mut tallies = Tallies::new();
        let all: Vec<Tally> = std::iter::from_fn(|| tallies.open(PeerId(1))).collect();
        assert_eq!(all.len(), usize::from(TALLIES_MAX));
        for (at, &tally) in all.iter().enumerate() {
            // Of each four two are kept back: the peer of one was given up, and
            // another was scribbled over. The last peer has ended.
            if at % 4 >= 2 {
                tallies.set_spoiled(tally);
            }
            tallies.close(tally, at % 4 != 3, at % 4 == 1);
            tallies.close(tally, false, false);
        }
        assert_eq!(tallies.free(), all.len() / 2);
        tallies.release(PeerId(2));
        assert_eq!(tallies.free(), all.len() / 2);
        tallies.release(PeerId(1));
        assert_eq!(tallies.free(), all.len());
    }

    #[test]
    fn names_from_outside_are_looked_at() {
        let tally = |word| Tally(NonZeroU32::new(word).unwrap());
        assert_eq!(parts(tally(0xffff_ff03)), Some((3, GENERATION_MAX)));
        assert_eq!(parts(tally(0x0000_0003)), None);
        let mut tallies = Tallies::new();
        let open = tallies.open(PeerId(1)).unwrap();
        assert_eq!(tallies.find(tally(open.0.get() + (1 << GENERATION_SHIFT))), None);
        assert_eq!(tallies.peer_of(open), Some(PeerId(1)));
        assert!(!tallies.is_alone(tally(u32::MAX)));
    }
}
