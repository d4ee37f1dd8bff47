//! Headers in order of arrival, until an entry takes them.
//!
//! Here the criteria come with the question, so a header is in one chain of
//! *every* index: there is an index for each of a few shapes of question, made
//! when questions of that shape have walked far, retired when another shape
//! needs the room and this one was asked for the longest time ago.
//!
//! Invariants: every index holds every header, its chains in order; no two
//! indexes have the same shape. A shape that is asked once only is walked and
//! displaces nothing that is in use. The headers are in an order or in
//! indexes, never in both; a list with indexes that is walked all the same
//! keeps the order that was made for it as long as most of it holds.

use super::criteria::{Criteria, Shape};
use super::index::{Found, Index, hash};
use super::slab::{Chain, NONE, Record, Slab};
use super::{LONG, SHORT, Toil};
use crate::table::Handle;
use sluice_link::mutants::{self, Mutant};
use sluice_wire::{MatchBits, PeerId};

/// Shapes of question with an index. Each costs every header some
/// thirty nanoseconds on its way in and out.
const INDEXES_MAX: usize = 4;

/// Shapes of question without one whose walks are remembered.
const WALKED_MAX: usize = 4;

/// Bytes that one record takes at most, its places in every index of its list
/// included.
#[must_use]
pub const fn record_bytes<R: Record>() -> usize {
    Slab::<R>::RECORD_BYTES + INDEXES_MAX * Index::RECORD_BYTES
}

/// A record of a message that has arrived.
pub trait Arrived: Record {
    /// Its match bits.
    fn bits(&self) -> MatchBits;
    /// Where it came from.
    fn source(&self) -> PeerId;
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
#[derive(Debug)]
struct Learnt<R> {
    questions: u64,
    indexes: Vec<ShapeIndex>,
    walked: Vec<Walked>,
    /// With indexes, if the list was walked since: its headers in order, and
    /// some that have left.
    log: Option<Vec<Handle<R>>>,
}

/// Headers in order of arrival.
#[derive(Debug)]
pub struct Unexpected<R> {
    /// Without an index: the headers.
    order: Chain,
    len: u32,
    learnt: Option<Box<Learnt<R>>>,
}

impl<R: Arrived> Default for Unexpected<R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R: Arrived> Unexpected<R> {
    /// An empty list. It allocates nothing yet.
    #[must_use]
    pub const fn new() -> Unexpected<R> {
        Unexpected { order: Chain::EMPTY, len: 0, learnt: None }
    }

    /// How many headers there are.
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
    pub fn push(&mut self, slab: &mut Slab<R>, slot: u32) {
        self.len += 1;
        match &mut self.learnt {
            Some(learnt) if !learnt.indexes.is_empty() => {
                slab.set_listed(slot, true);
                learnt.enter(slab, slot);
            }
            _ => slab.append_to(&mut self.order, slot),
        }
    }

    /// Takes a header of this list out.
    #[inline]
    pub fn remove(&mut self, slab: &mut Slab<R>, slot: u32) {
        self.len -= 1;
        match &mut self.learnt {
            Some(learnt) if !learnt.indexes.is_empty() => {
                for by in &mut learnt.indexes {
                    by.leave(slab, slot);
                }
                slab.set_listed(slot, false);
                let stale = |log: &mut Vec<_>| log.len() > 2 * self.len as usize;
                learnt.log.take_if(stale);
            }
            _ => slab.unlink_from(&mut self.order, slot),
        }
        if self.len <= SHORT && self.learnt.is_some() {
            self.forget(slab);
        }
    }

    /// The oldest header that the criteria accept and that `accept` takes. It
    /// is asked in order of arrival about each header that they accept, until
    /// it takes one.
    #[inline]
    pub fn find(
        &mut self,
        slab: &Slab<R>,
        criteria: &Criteria,
        mut accept: impl FnMut(&R) -> bool,
    ) -> Option<u32> {
        if mutants::is(Mutant::MatchesTheNewestMessage) {
            return self.slots(slab).into_iter().rev().find(|&at| {
                let header = slab.at(at);
                criteria.accept(header.bits(), header.source()) && accept(header)
            });
        }
        let shape = Shape::of(criteria);
        if let Some(index) = self.learnt.as_mut().and_then(|learnt| learnt.ask(shape)) {
            let at = look_up(slab, index, shape, criteria, accept);
            return (at != NONE).then_some(at);
        }
        let mut steps = 0;
        let mut takes = |slot: u32| {
            let header = slab.at(slot);
            let is_it = criteria.accept(header.bits(), header.source()) && accept(header);
            steps += u64::from(!is_it);
            is_it
        };
        let found = match &mut self.learnt {
            Some(learnt) if !learnt.indexes.is_empty() => learnt.log(slab).find(|&at| takes(at)),
            _ => slab.walk(self.order).find(|&at| takes(at)),
        };
        // The first steps are free in any list, so most are done here.
        if steps > Toil::FREE && self.len > LONG {
            self.learn(slab, shape, steps);
        }
        found
    }

    /// The headers in order of arrival.
    #[must_use]
    pub fn slots(&self, slab: &Slab<R>) -> Vec<u32> {
        let learnt = self.learnt.as_ref().filter(|learnt| !learnt.indexes.is_empty());
        learnt.map_or_else(|| slab.walk(self.order).collect(), |learnt| learnt.slots(slab))
    }

    /// Remembers a long walk, and builds the shape's index when walks have
    /// cost as much.
    #[cold]
    fn learn(&mut self, slab: &Slab<R>, shape: Shape, steps: u64) {
        let learnt = self.learnt.get_or_insert_with(|| {
            Box::new(Learnt { questions: 0, indexes: Vec::new(), walked: Vec::new(), log: None })
        });
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
        if !walked.toil.pays_for(self.len) {
            return;
        }
        let mut by = ShapeIndex { shape, asked, index: Index::new(self.len) };
        for slot in self.slots(slab) {
            by.enter(slab, slot);
        }
        let Some(learnt) = &mut self.learnt else { return };
        learnt.walked.swap_remove(nth);
        if learnt.indexes.len() == INDEXES_MAX {
            remove_oldest(&mut learnt.indexes, |by| by.asked);
        }
        learnt.indexes.push(by);
        self.order = Chain::EMPTY;
    }

    /// Threads the headers again, and forgets what was learnt.
    #[cold]
    #[inline(never)]
    fn forget(&mut self, slab: &mut Slab<R>) {
        let slots = self.slots(slab);
        self.order = Chain::EMPTY;
        for slot in slots {
            slab.append_to(&mut self.order, slot);
        }
        self.learnt = None;
    }

    /// Panics if an invariant is broken.
    pub fn check_invariants(&self, slab: &Slab<R>) {
        let slots = self.slots(slab);
        assert_eq!(slots.len(), self.len(), "a header is in no chain or in two");
        assert!(slots.iter().all(|&slot| slab.seq(slot) != 0 && slab.is_listed(slot)));
        assert!(slots.is_sorted_by_key(|&slot| slab.seq(slot)), "out of order");
        let learnt = self.learnt.as_ref();
        if learnt.is_none_or(|learnt| learnt.indexes.is_empty()) {
            assert_eq!(slab.walk_checked(self.order), slots);
        }
        let Some(learnt) = learnt else { return };
        assert!(self.len > SHORT, "a short list has indexes");
        assert!(learnt.indexes.len() <= INDEXES_MAX && learnt.walked.len() <= WALKED_MAX);
        if let Some(log) = &learnt.log {
            let listed = log.iter().filter_map(|&handle| listed(slab, handle));
            assert!(listed.eq(slots.iter().copied()), "the log is not the list");
            assert!(!learnt.indexes.is_empty());
        }
        for (nth, by) in learnt.indexes.iter().enumerate() {
            assert!(learnt.indexes[..nth].iter().all(|other| other.shape != by.shape), "twice");
            assert!(learnt.walked.iter().all(|walked| walked.shape != by.shape), "walked too");
            let key_of = |slot: u32| by.key(slab, slot);
            let mut seen = Vec::new();
            for (found_hash, chain) in by.index.check_invariants() {
                assert_eq!(found_hash, hash(key_of(chain[0]), 0), "in the wrong bucket");
                assert!(chain.iter().all(|&slot| key_of(slot) == key_of(chain[0])), "mixed chain");
                assert!(chain.is_sorted_by_key(|&slot| slab.seq(slot)), "out of order");
                seen.extend(chain);
            }
            seen.sort_unstable_by_key(|&slot| slab.seq(slot));
            assert_eq!(seen, slots, "a header is in no chain or in two");
        }
    }

    #[cfg(test)]
    pub(super) fn index_count(&self) -> usize {
        self.learnt.as_ref().map_or(0, |learnt| learnt.indexes.len())
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        let indexes = self.learnt.iter().flat_map(|learnt| &learnt.indexes);
        indexes.map(|by| by.index.capacity()).sum::<usize>()
    }
}

#[inline]
fn look_up<R: Arrived>(
    slab: &Slab<R>,
    index: &mut Index,
    shape: Shape,
    criteria: &Criteria,
    mut accept: impl FnMut(&R) -> bool,
) -> u32 {
    let key = shape.key(criteria.bits, criteria.source.unwrap_or(PeerId(0)));
    let mut at: Found = index.head(hash(key, 0), |head| {
        let header = slab.at(head);
        criteria.accept(header.bits(), header.source())
    });
    while at.slot != NONE && !accept(slab.at(at.slot)) {
        at = index.next(at);
    }
    at.slot
}

/// The slot of a header that is still in its list.
#[inline]
fn listed<R: Arrived>(slab: &Slab<R>, handle: Handle<R>) -> Option<u32> {
    slab.locate(handle).filter(|&slot| slab.is_listed(slot))
}

impl<R: Arrived> Learnt<R> {
    /// Counts a question, and finds the index of its shape.
    #[inline]
    fn ask(&mut self, shape: Shape) -> Option<&mut Index> {
        self.questions += 1;
        let by = self.indexes.iter_mut().find(|by| by.shape == shape)?;
        by.asked = self.questions;
        Some(&mut by.index)
    }

    /// Enters the newest header.
    #[inline]
    fn enter(&mut self, slab: &Slab<R>, slot: u32) {
        for by in &mut self.indexes {
            by.enter(slab, slot);
        }
        if let Some(log) = &mut self.log {
            log.push(slab.handle(slot));
        }
    }

    /// The headers in order, from the indexes.
    fn slots(&self, slab: &Slab<R>) -> Vec<u32> {
        let mut slots: Vec<u32> = self.indexes[0].index.slots().collect();
        slots.sort_unstable_by_key(|&slot| slab.seq(slot));
        slots
    }

    /// The headers in order.
    fn log(&mut self, slab: &Slab<R>) -> impl Iterator<Item = u32> {
        if self.log.is_none() {
            let slots = self.slots(slab).into_iter();
            self.log = Some(slots.map(|slot| slab.handle(slot)).collect());
        }
        self.log.iter().flatten().filter_map(|&handle| listed(slab, handle))
    }
}

impl ShapeIndex {
    #[inline]
    fn key<R: Arrived>(&self, slab: &Slab<R>, slot: u32) -> (u64, u32) {
        let header = slab.at(slot);
        self.shape.key(header.bits(), header.source())
    }

    /// Enters the newest header.
    #[inline]
    fn enter<R: Arrived>(&mut self, slab: &Slab<R>, slot: u32) {
        let (shape, key) = (self.shape, self.key(slab, slot));
        self.index.append(hash(key, 0), slot, is_of(slab, shape, key));
    }

    /// Takes out a header that is still in the slab.
    #[inline]
    fn leave<R: Arrived>(&mut self, slab: &Slab<R>, slot: u32) {
        let (shape, key) = (self.shape, self.key(slab, slot));
        self.index.unlink(|| hash(key, 0), slot, is_of(slab, shape, key));
        self.index.fit(slab.slots());
    }
}

/// Whether a header has this key in this shape.
#[inline]
fn is_of<R: Arrived>(slab: &Slab<R>, shape: Shape, key: (u64, u32)) -> impl Fn(u32) -> bool {
    move |slot| {
        let header = slab.at(slot);
        shape.key(header.bits(), header.source()) == key
    }
}

fn remove_oldest<E>(from: &mut Vec<E>, asked: impl Fn(&E) -> u64) {
    if let Some((oldest, _)) = from.iter().enumerate().min_by_key(|(_, element)| asked(element)) {
        from.remove(oldest);
    }
}
