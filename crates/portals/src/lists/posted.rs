//! Posted entries in the order they were appended.
//!
//! A short list, or one that is used in order, is walked. Else an arrival asks
//! the index of each shape once ([`ShapeIndex`]) and merges the answers by age.
//!
//! Invariants: those of the slab and the index; see [`super`] for the list's.

use super::index::hash;
use super::shapes::{Entry, ODD, SHAPES, ShapeIndex};
use super::slab::{NONE, Place, Slab};
use super::{Criteria, LONG, SHORT, Toil};
use sluice_wire::{MatchBits, PeerId};

/// Entries in the order they were appended.
#[derive(Debug)]
pub struct Posted<T> {
    slab: Slab<Entry<T>>,
    toil: Toil,
    by_shape: Option<Box<ShapeIndex>>,
}

impl<T: Copy> Default for Posted<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Copy> Posted<T> {
    /// An empty list. It allocates nothing yet.
    #[must_use]
    pub const fn new() -> Posted<T> {
        Posted { slab: Slab::new(), toil: Toil(0), by_shape: None }
    }

    /// How many entries there are.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.slab.len() as usize
    }

    /// Whether there are none.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slab.len() == 0
    }

    /// Appends an entry.
    #[inline]
    pub fn push(&mut self, criteria: Criteria, item: T) -> Place {
        let slot = self.slab.push(Entry {
            bits: criteria.bits,
            ignore: criteria.ignore,
            item,
            source: criteria.source.unwrap_or(PeerId(0)),
            any_source: criteria.source.is_none(),
            shape: ODD,
        });
        if let Some(by_shape) = &mut self.by_shape {
            by_shape.enter(&mut self.slab, slot);
        }
        self.slab.place(slot)
    }

    /// The item at a place, if that is not stale.
    #[cfg(test)]
    pub(super) fn get(&self, place: Place) -> Option<&T> {
        Some(&self.slab.record(self.slab.locate(place)?).item)
    }

    /// Takes an entry out, if the place is not stale.
    #[inline]
    pub fn remove(&mut self, place: Place) -> Option<T> {
        let slot = self.slab.locate(place)?;
        let entry = self.slab.remove(slot);
        if let Some(by_shape) = &mut self.by_shape {
            by_shape.leave(&entry, slot, self.slab.slots());
            if self.slab.len() <= SHORT {
                self.by_shape = None;
            }
        }
        Some(entry.item)
    }

    /// The first entry that accepts an operation with these bits from this
    /// source, and whose item `accept` takes. It is asked in list order about
    /// each entry that accepts, until it takes one.
    #[inline]
    pub fn find(
        &mut self,
        bits: MatchBits,
        source: PeerId,
        accept: impl FnMut(T) -> bool,
    ) -> Option<(Place, T)> {
        let slot = if self.by_shape.is_none() {
            self.walk(bits, source, accept)
        } else {
            self.look_up(bits, source, accept)
        }?;
        Some((self.slab.place(slot), self.slab.record(slot).item))
    }

    /// Places and items in list order.
    pub fn iter(&self) -> impl Iterator<Item = (Place, &T)> {
        self.slab.iter().map(|(slot, entry)| (self.slab.place(slot), &entry.item))
    }

    #[inline]
    fn walk(
        &mut self,
        bits: MatchBits,
        source: PeerId,
        mut accept: impl FnMut(T) -> bool,
    ) -> Option<u32> {
        let (mut at, mut steps) = (self.slab.first(), 0);
        while at != NONE {
            let entry = self.slab.record(at);
            if entry.accepts(bits, source) && accept(entry.item) {
                break;
            }
            steps += 1;
            at = self.slab.next(at);
        }
        if self.slab.len() > LONG {
            self.toil.add(steps);
            if self.toil.pays_for(self.slab.len()) {
                self.toil = Toil(0);
                self.by_shape = Some(ShapeIndex::build(&mut self.slab));
            }
        }
        (at != NONE).then_some(at)
    }

    fn look_up(
        &mut self,
        bits: MatchBits,
        source: PeerId,
        mut accept: impl FnMut(T) -> bool,
    ) -> Option<u32> {
        let by_shape = self.by_shape.as_mut()?;
        if by_shape.toil.pays_for(self.slab.len()) {
            *by_shape = ShapeIndex::build(&mut self.slab);
        }
        let slab = &self.slab;
        // The first entry of each shape that accepts, with its age.
        let (mut heads, mut count) = ([(0, NONE); SHAPES], 0);
        for (mark, counted) in (0..).zip(&by_shape.shapes) {
            if counted.entries == 0 {
                continue;
            }
            let key = counted.shape.key(bits, source);
            let head = by_shape.index.head(hash(key, mark), |head| {
                let entry = slab.record(head);
                entry.shape == mark && entry.accepts(bits, source)
            });
            if head != NONE {
                heads[count] = (slab.seq(head), head);
                count += 1;
            }
        }
        let (mut odd, mut odd_steps) = (by_shape.odd.head, 0);
        let found = loop {
            let oldest = (0..count).min_by_key(|&nth| heads[nth].0);
            let (seq, slot) = oldest.map_or((u64::MAX, NONE), |nth| heads[nth]);
            while odd != NONE && slab.seq(odd) < seq {
                let entry = slab.record(odd);
                if entry.accepts(bits, source) && accept(entry.item) {
                    break;
                }
                odd_steps += 1;
                odd = by_shape.index.next(odd);
            }
            if odd != NONE && slab.seq(odd) < seq {
                break Some(odd);
            }
            let Some(nth) = oldest else { break None };
            if accept(slab.record(slot).item) {
                break Some(slot);
            }
            let next = by_shape.index.next(slot);
            if next == NONE {
                count -= 1;
                heads[nth] = heads[count];
            } else {
                heads[nth] = (slab.seq(next), next);
            }
        };
        by_shape.toil.add(odd_steps);
        found
    }

    /// Panics if an invariant is broken.
    pub fn check_invariants(&self) {
        self.slab.check_invariants();
        let Some(by_shape) = &self.by_shape else { return };
        assert!(self.slab.len() > SHORT, "a short list has an index");
        let mut entries = [0; SHAPES];
        let mut seen = 0;
        for (found_hash, chain) in by_shape.index.check_invariants() {
            let head = self.slab.record(chain[0]);
            assert_eq!(found_hash, hash(head.key(), head.shape), "in the wrong bucket");
            for &slot in &chain {
                let entry = self.slab.record(slot);
                assert_eq!((entry.shape, entry.key()), (head.shape, head.key()), "mixed chain");
                assert_eq!(entry.shape(), by_shape.shapes[usize::from(entry.shape)].shape);
            }
            assert!(chain.is_sorted_by_key(|&slot| self.slab.seq(slot)), "chain out of order");
            entries[usize::from(head.shape)] += chain.len() as u32;
            seen += chain.len();
        }
        assert_eq!(by_shape.shapes.map(|counted| counted.entries), entries, "entries of shapes");
        let odd = by_shape.index.walk_checked(by_shape.odd);
        assert!(odd.iter().all(|&slot| self.slab.record(slot).shape == ODD), "odd mark");
        assert!(odd.is_sorted_by_key(|&slot| self.slab.seq(slot)), "odd chain out of order");
        assert_eq!(seen + odd.len(), self.len(), "an entry is in no chain or in two");
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
        self.slab.capacity() + self.by_shape.as_ref().map_or(0, |by| by.index.capacity())
    }
}
