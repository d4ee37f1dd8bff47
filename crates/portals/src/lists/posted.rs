//! Posted entries in the order they were appended.
//!
//! A short list, or one that is used in order, is walked. Else an arrival asks
//! the index of each shape once ([`ShapeIndex`]) and merges the answers by age.
//!
//! Invariants: those of the slab and the index; see [`super`] for the list's.
//! Either the order or the index holds the entries, never both.

use super::criteria::Waiting;
use super::index::{Found, hash};
use super::shapes::{ODD, SHAPES, ShapeIndex, key_of, shape_of};
use super::slab::{Age, Chain, NONE, Slab};
use super::{LONG, SHORT, Toil};
use sluice_link::mutants::{self, Mutant};
use sluice_wire::{MatchBits, PeerId};

/// Entries in the order they were appended.
#[derive(Debug)]
pub struct Posted {
    /// Without an index: the entries.
    order: Chain,
    len: u32,
    toil: Toil,
    by_shape: Option<Box<ShapeIndex>>,
}

impl Default for Posted {
    fn default() -> Self {
        Self::new()
    }
}

impl Posted {
    /// An empty list. It allocates nothing yet.
    #[must_use]
    pub const fn new() -> Posted {
        Posted { order: Chain::EMPTY, len: 0, toil: Toil(0), by_shape: None }
    }

    /// How many entries there are.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends the newest record of the slab.
    #[inline]
    pub fn push<R: Waiting>(&mut self, slab: &mut Slab<R>, slot: u32) {
        self.len += 1;
        match &mut self.by_shape {
            None => slab.append_to(&mut self.order, slot),
            Some(by_shape) => {
                slab.set_listed(slot, true);
                by_shape.enter(slab, slot);
            }
        }
    }

    /// Adds a record to the slab and appends it. `None` if the slab is full.
    #[inline(always)]
    pub fn add<R: Waiting>(&mut self, slab: &mut Slab<R>, record: R) -> Option<u32> {
        if self.by_shape.is_some() {
            let slot = slab.insert(record)?;
            self.push(slab, slot);
            return Some(slot);
        }
        let slot = slab.insert_into(&mut self.order, record)?;
        self.len += 1;
        Some(slot)
    }

    /// Adds a record to the slab and enters it where one of this age stood, which is not there
    /// any more. `None` if the slab is full.
    pub fn add_by_age<R: Waiting>(
        &mut self,
        slab: &mut Slab<R>,
        record: R,
        age: Age,
    ) -> Option<u32> {
        let slot = slab.insert_aged(record, age)?;
        self.len += 1;
        match &mut self.by_shape {
            None => {
                let steps = slab.enter_by_age(&mut self.order, slot);
                self.note_walk(slab, steps);
            }
            Some(by_shape) => {
                slab.set_listed(slot, true);
                by_shape.enter_by_age(slab, slot);
            }
        }
        Some(slot)
    }

    /// Takes an entry of this list out and forgets its record.
    #[inline(always)]
    pub fn discard<R: Waiting>(&mut self, slab: &mut Slab<R>, slot: u32) {
        if self.by_shape.is_some() {
            self.remove(slab, slot);
            return slab.discard(slot);
        }
        slab.discard_from(&mut self.order, slot);
        self.len -= 1;
    }

    /// Takes an entry of this list out.
    #[inline]
    pub fn remove<R: Waiting>(&mut self, slab: &mut Slab<R>, slot: u32) {
        self.len -= 1;
        match &mut self.by_shape {
            None => slab.unlink_from(&mut self.order, slot),
            Some(by_shape) => {
                by_shape.leave(slab, slot);
                slab.set_listed(slot, false);
                if self.len <= SHORT {
                    self.drop_index(slab);
                }
            }
        }
    }

    /// The first entry that accepts an operation with these bits from this
    /// source, and that `accept` takes. It is asked in list order about each
    /// entry that accepts, until it takes one.
    #[inline]
    pub fn find<R: Waiting>(
        &mut self,
        slab: &mut Slab<R>,
        bits: MatchBits,
        source: PeerId,
        accept: impl FnMut(&Slab<R>, u32) -> bool,
    ) -> Option<u32> {
        if self.by_shape.is_none() {
            self.walk(slab, bits, source, accept)
        } else {
            self.look_up(slab, bits, source, accept)
        }
    }

    /// The entries in list order.
    #[must_use]
    pub fn slots<R: Waiting>(&self, slab: &Slab<R>) -> Vec<u32> {
        match &self.by_shape {
            None => slab.walk(self.order).collect(),
            Some(by_shape) => by_shape.slots(slab),
        }
    }

    #[inline]
    fn walk<R: Waiting>(
        &mut self,
        slab: &mut Slab<R>,
        bits: MatchBits,
        source: PeerId,
        mut accept: impl FnMut(&Slab<R>, u32) -> bool,
    ) -> Option<u32> {
        if mutants::is(Mutant::MatchesTheNewestReceive) {
            return self
                .slots(slab)
                .into_iter()
                .rev()
                .find(|&at| slab.at(at).criteria().accept(bits, source) && accept(slab, at));
        }
        let (mut at, mut steps) = (self.order.head, 0);
        while at != NONE {
            let entry = slab.at(at);
            if entry.criteria().accept(bits, source) && accept(slab, at) {
                break;
            }
            steps += 1;
            at = slab.next(at);
        }
        self.note_walk(slab, steps);
        (at != NONE).then_some(at)
    }

    #[inline(always)]
    fn note_walk<R: Waiting>(&mut self, slab: &mut Slab<R>, steps: u64) {
        if self.len > LONG {
            self.toil.add(steps);
            if self.toil.pays_for(self.len) {
                self.build_index(slab);
            }
        }
    }

    #[inline(never)]
    fn look_up<R: Waiting>(
        &mut self,
        slab: &mut Slab<R>,
        bits: MatchBits,
        source: PeerId,
        mut accept: impl FnMut(&Slab<R>, u32) -> bool,
    ) -> Option<u32> {
        let by_shape = self.by_shape.as_mut()?;
        if by_shape.toil.pays_for(self.len) {
            *by_shape = ShapeIndex::build(slab, &by_shape.slots(slab));
        }
        // The first entry of each shape that accepts, with its age.
        let (mut heads, mut count) = ([(0, Found::END); SHAPES], 0);
        for (mark, counted) in (0..).zip(&by_shape.shapes) {
            if counted.entries == 0 {
                continue;
            }
            let key = counted.shape.key(bits, source);
            let head = by_shape.index.head(hash(key, mark), |head| {
                let entry = slab.at(head);
                entry.mark() == mark && entry.criteria().accept(bits, source)
            });
            if head.slot != NONE {
                heads[count] = (slab.seq(head.slot), head);
                count += 1;
            }
        }
        let (mut odd, mut odd_steps) = (by_shape.odd.head, 0);
        let found = loop {
            let oldest = (0..count).min_by_key(|&nth| heads[nth].0);
            let (seq, found) = oldest.map_or((u64::MAX, Found::END), |nth| heads[nth]);
            while odd != NONE && slab.seq(odd) < seq {
                let entry = slab.at(odd);
                if entry.criteria().accept(bits, source) && accept(slab, odd) {
                    break;
                }
                odd_steps += 1;
                odd = by_shape.index.next_of(odd);
            }
            if odd != NONE && slab.seq(odd) < seq {
                break Some(odd);
            }
            let Some(nth) = oldest else { break None };
            if accept(slab, found.slot) {
                break Some(found.slot);
            }
            let next = by_shape.index.next(found);
            if next.slot == NONE {
                count -= 1;
                heads[nth] = heads[count];
            } else {
                heads[nth] = (slab.seq(next.slot), next);
            }
        };
        by_shape.toil.add(odd_steps);
        found
    }

    #[cold]
    #[inline(never)]
    fn build_index<R: Waiting>(&mut self, slab: &mut Slab<R>) {
        let slots = self.slots(slab);
        self.by_shape = Some(ShapeIndex::build(slab, &slots));
        self.order = Chain::EMPTY;
        self.toil = Toil(0);
    }

    #[cold]
    #[inline(never)]
    fn drop_index<R: Waiting>(&mut self, slab: &mut Slab<R>) {
        for slot in self.slots(slab) {
            slab.append_to(&mut self.order, slot);
        }
        self.by_shape = None;
    }

    /// Panics if an invariant is broken.
    pub fn check_invariants<R: Waiting>(&self, slab: &Slab<R>) {
        let slots = self.slots(slab);
        assert_eq!(slots.len(), self.len(), "an entry is in no chain or in two");
        assert!(slots.iter().all(|&slot| slab.seq(slot) != 0 && slab.is_listed(slot)));
        assert!(slots.is_sorted_by_key(|&slot| slab.seq(slot)), "out of order");
        let Some(by_shape) = &self.by_shape else {
            return assert_eq!(slab.walk_checked(self.order), slots);
        };
        assert!(self.len > SHORT, "a short list has an index");
        assert_eq!(self.order, Chain::EMPTY, "an indexed list has an order");
        let mut entries = [0; SHAPES];
        for (found_hash, chain) in by_shape.index.check_invariants() {
            let head = slab.at(chain[0]);
            assert_eq!(found_hash, hash(key_of(head), head.mark()), "in the wrong bucket");
            for &slot in &chain {
                let entry = slab.at(slot);
                assert_eq!((entry.mark(), key_of(entry)), (head.mark(), key_of(head)), "mixed");
                assert_eq!(shape_of(entry), by_shape.shapes[usize::from(entry.mark())].shape);
            }
            assert!(chain.is_sorted_by_key(|&slot| slab.seq(slot)), "chain out of order");
            entries[usize::from(head.mark())] += chain.len() as u32;
        }
        assert_eq!(by_shape.shapes.map(|counted| counted.entries), entries, "entries of shapes");
        let odd = by_shape.index.walk_checked(by_shape.odd);
        assert!(odd.iter().all(|&slot| slab.at(slot).mark() == ODD), "odd mark");
        assert!(odd.is_sorted_by_key(|&slot| slab.seq(slot)), "odd chain out of order");
    }

    #[cfg(test)]
    pub(super) fn is_indexed(&self) -> bool {
        self.by_shape.is_some()
    }

    #[cfg(test)]
    pub(super) fn odd_len(&self) -> usize {
        self.by_shape.as_ref().map_or(0, |by| by.index.walk_checked(by.odd).len())
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.by_shape.as_ref().map_or(0, |by| by.index.capacity())
    }
}
