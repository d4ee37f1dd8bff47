//! Headers in order of arrival, until an entry takes them.
//!
//! Here the criteria come with the question, so a header is in one chain of
//! *every* index: there is an index for each of a few shapes of question, made
//! when questions of that shape have walked far, retired when another shape
//! needs the room and this one was asked for the longest time ago.
//!
//! Invariants: every index holds every header, its chains in order; no two
//! indexes have the same shape. A shape that is asked once only is walked and
//! displaces nothing that is in use.

use super::index::{Index, hash};
use super::slab::{NONE, Place, Slab};
use super::{Criteria, LONG, SHORT, Shape, Toil};
use sluice_wire::{MatchBits, PeerId};

/// Shapes of question with an index. Each costs every header some
/// thirty nanoseconds on its way in and out.
const INDEXES_MAX: usize = 4;

/// Shapes of question without one whose walks are remembered.
const WALKED_MAX: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Header<T> {
    bits: MatchBits,
    item: T,
    source: PeerId,
}

#[derive(Debug)]
struct ShapeIndex {
    shape: Shape,
    /// When it was last asked, in questions.
    asked: u64,
    index: Index,
}

#[derive(Clone, Copy, Debug)]
struct Walked {
    shape: Shape,
    asked: u64,
    toil: Toil,
}

/// What questions have taught about this list. Only a long one has any.
#[derive(Debug, Default)]
struct Learnt {
    questions: u64,
    indexes: Vec<ShapeIndex>,
    walked: Vec<Walked>,
}

/// Headers in order of arrival.
#[derive(Debug)]
pub struct Unexpected<T> {
    slab: Slab<Header<T>>,
    learnt: Option<Box<Learnt>>,
}

impl<T: Copy> Default for Unexpected<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Copy> Unexpected<T> {
    /// An empty list. It allocates nothing yet.
    #[must_use]
    pub const fn new() -> Unexpected<T> {
        Unexpected { slab: Slab::new(), learnt: None }
    }

    /// How many headers there are.
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

    /// Appends a header.
    #[inline]
    pub fn push(&mut self, bits: MatchBits, source: PeerId, item: T) -> Place {
        let slot = self.slab.push(Header { bits, item, source });
        if let Some(learnt) = &mut self.learnt {
            for by in &mut learnt.indexes {
                by.enter(&self.slab, slot);
            }
        }
        self.slab.place(slot)
    }

    /// The item at a place, if that is not stale.
    #[cfg(test)]
    pub(super) fn get(&self, place: Place) -> Option<&T> {
        Some(&self.slab.record(self.slab.locate(place)?).item)
    }

    /// Takes a header out, if the place is not stale.
    #[inline]
    pub fn remove(&mut self, place: Place) -> Option<T> {
        let slot = self.slab.locate(place)?;
        let header = self.slab.remove(slot);
        if let Some(learnt) = &mut self.learnt {
            for by in &mut learnt.indexes {
                let key = by.shape.key(header.bits, header.source);
                by.index.unlink(|| hash(key, 0), slot);
                by.index.fit(self.slab.slots());
            }
            if self.slab.len() <= SHORT {
                self.learnt = None;
            }
        }
        Some(header.item)
    }

    /// The oldest header that the criteria accept and whose item `accept`
    /// takes. It is asked in order of arrival about each header that they
    /// accept, until it takes one.
    #[inline]
    pub fn find(
        &mut self,
        criteria: &Criteria,
        mut accept: impl FnMut(T) -> bool,
    ) -> Option<(Place, T)> {
        let shape = Shape::of(criteria);
        let slot = match self.learnt.as_mut().and_then(|learnt| learnt.ask(shape)) {
            Some(index) => Self::look_up(&self.slab, index, shape, criteria, accept),
            None => {
                let (slot, steps) = Self::walk(&self.slab, criteria, &mut accept);
                // The first steps are free in any list, so most are done here.
                if steps > Toil::FREE && self.slab.len() > LONG {
                    self.learn(shape, steps);
                }
                slot
            }
        };
        (slot != NONE).then(|| (self.slab.place(slot), self.slab.record(slot).item))
    }

    /// Places and items in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = (Place, &T)> {
        self.slab.iter().map(|(slot, header)| (self.slab.place(slot), &header.item))
    }

    #[inline]
    fn walk(
        slab: &Slab<Header<T>>,
        criteria: &Criteria,
        mut accept: impl FnMut(T) -> bool,
    ) -> (u32, u64) {
        let (mut at, mut steps) = (slab.first(), 0);
        while at != NONE {
            let header = slab.record(at);
            if criteria.accept(header.bits, header.source) && accept(header.item) {
                break;
            }
            steps += 1;
            at = slab.next(at);
        }
        (at, steps)
    }

    #[inline]
    fn look_up(
        slab: &Slab<Header<T>>,
        index: &mut Index,
        shape: Shape,
        criteria: &Criteria,
        mut accept: impl FnMut(T) -> bool,
    ) -> u32 {
        let key = shape.key(criteria.bits, criteria.source.unwrap_or(PeerId(0)));
        let mut at = index.head(hash(key, 0), |head| {
            let header = slab.record(head);
            criteria.accept(header.bits, header.source)
        });
        while at != NONE && !accept(slab.record(at).item) {
            at = index.next(at);
        }
        at
    }

    /// Remembers a long walk, and builds the shape's index when walks have
    /// cost as much.
    #[cold]
    fn learn(&mut self, shape: Shape, steps: u64) {
        let learnt = self.learnt.get_or_insert_default();
        let asked = learnt.questions;
        let nth = learnt.walked.iter().position(|walked| walked.shape == shape);
        let nth = nth.unwrap_or_else(|| {
            if learnt.walked.len() == WALKED_MAX {
                remove_oldest(&mut learnt.walked, |walked| walked.asked);
            }
            learnt.walked.push(Walked { shape, asked, toil: Toil(0) });
            learnt.walked.len() - 1
        });
        let walked = &mut learnt.walked[nth];
        walked.asked = asked;
        walked.toil.add(steps);
        if !walked.toil.pays_for(self.slab.len()) {
            return;
        }
        learnt.walked.swap_remove(nth);
        if learnt.indexes.len() == INDEXES_MAX {
            remove_oldest(&mut learnt.indexes, |by| by.asked);
        }
        let mut by = ShapeIndex { shape, asked, index: Index::new(self.slab.len()) };
        for (slot, _) in self.slab.iter() {
            by.enter(&self.slab, slot);
        }
        learnt.indexes.push(by);
    }

    /// Panics if an invariant is broken.
    pub fn check_invariants(&self) {
        self.slab.check_invariants();
        let Some(learnt) = &self.learnt else { return };
        assert!(self.slab.len() > SHORT, "a short list has indexes");
        assert!(learnt.indexes.len() <= INDEXES_MAX && learnt.walked.len() <= WALKED_MAX);
        for (nth, by) in learnt.indexes.iter().enumerate() {
            assert!(learnt.indexes[..nth].iter().all(|other| other.shape != by.shape), "twice");
            assert!(learnt.walked.iter().all(|walked| walked.shape != by.shape), "walked too");
            let key_of = |slot: u32| {
                let header = self.slab.record(slot);
                by.shape.key(header.bits, header.source)
            };
            let mut seen = 0;
            for (found_hash, chain) in by.index.check_invariants() {
                assert_eq!(found_hash, hash(key_of(chain[0]), 0), "in the wrong bucket");
                assert!(chain.iter().all(|&slot| key_of(slot) == key_of(chain[0])), "mixed chain");
                assert!(chain.is_sorted_by_key(|&slot| self.slab.seq(slot)), "out of order");
                seen += chain.len();
            }
            assert_eq!(seen, self.len(), "a header is in no chain or in two");
        }
    }

    #[cfg(test)]
    pub(super) fn index_count(&self) -> usize {
        self.learnt.as_ref().map_or(0, |learnt| learnt.indexes.len())
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        let indexes = self.learnt.iter().flat_map(|learnt| &learnt.indexes);
        self.slab.capacity() + indexes.map(|by| by.index.capacity()).sum::<usize>()
    }
}

impl Learnt {
    /// Counts a question, and finds the index of its shape.
    #[inline]
    fn ask(&mut self, shape: Shape) -> Option<&mut Index> {
        self.questions += 1;
        let by = self.indexes.iter_mut().find(|by| by.shape == shape)?;
        by.asked = self.questions;
        Some(&mut by.index)
    }
}

impl ShapeIndex {
    /// Enters the newest header.
    #[inline]
    fn enter<T: Copy>(&mut self, slab: &Slab<Header<T>>, slot: u32) {
        let header = slab.record(slot);
        let key = self.shape.key(header.bits, header.source);
        self.index.append(hash(key, 0), slot, |head| {
            let head = slab.record(head);
            self.shape.key(head.bits, head.source) == key
        });
    }
}

fn remove_oldest<E>(from: &mut Vec<E>, asked: impl Fn(&E) -> u64) {
    if let Some((oldest, _)) = from.iter().enumerate().min_by_key(|(_, element)| asked(element)) {
        from.remove(oldest);
    }
}
