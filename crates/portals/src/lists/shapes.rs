//! The index of posted entries.
//!
//! An entry is in one chain: that of its shape and key, or, if more shapes are
//! in use than are worth a look-up each, the chain of the odd ones, which is
//! walked.
//!
//! Invariants: every entry is in exactly one of these chains, and chains are
//! in order; a shape counts its entries and is free at zero. The shapes that
//! are looked up are elected by their number of entries, anew when walks of
//! the odd chain have cost as much as an election does. So entries of rare
//! shapes that came first do not keep a frequent one out.

use super::index::{Index, hash};
use super::slab::{Chain, NONE, Slab};
use super::{Shape, Toil};
use sluice_wire::{MatchBits, PeerId};

/// Shapes that are looked up. Programs use one to four; a look-up that finds
/// nothing costs a cache miss, and these overlap.
pub(super) const SHAPES: usize = 8;

/// The mark of an entry in the odd chain.
pub(super) const ODD: u8 = SHAPES as u8;

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<T> {
    pub bits: MatchBits,
    pub ignore: u64,
    pub item: T,
    pub source: PeerId,
    pub any_source: bool,
    /// Which of the index's shapes counts it, or [`ODD`]. Nothing without one.
    pub shape: u8,
}

impl<T> Entry<T> {
    #[inline]
    pub fn accepts(&self, bits: MatchBits, source: PeerId) -> bool {
        self.bits.accepts(self.ignore, bits) && (self.any_source || self.source == source)
    }

    #[inline]
    pub fn shape(&self) -> Shape {
        Shape { ignore: self.ignore, any_source: self.any_source }
    }

    #[inline]
    pub fn key(&self) -> (u64, u32) {
        self.shape().key(self.bits, self.source)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    pub shape: Shape,
    pub entries: u32,
}

#[derive(Debug)]
pub(super) struct ShapeIndex {
    pub index: Index,
    pub shapes: [Counted; SHAPES],
    pub odd: Chain,
    pub toil: Toil,
}

impl ShapeIndex {
    /// Elects the shapes with most entries and indexes the whole list.
    #[cold]
    pub fn build<T: Copy>(slab: &mut Slab<Entry<T>>) -> Box<ShapeIndex> {
        let mut all: Vec<Shape> = slab.iter().map(|(_, entry)| entry.shape()).collect();
        all.sort_unstable();
        let mut elected: Vec<Counted> = all
            .chunk_by(|a, b| a == b)
            .map(|same| Counted { shape: same[0], entries: same.len() as u32 })
            .collect();
        // Stable, so that the outcome is the same everywhere.
        elected.sort_by_key(|counted| std::cmp::Reverse(counted.entries));
        let none = Counted { shape: Shape { ignore: 0, any_source: false }, entries: 0 };
        let mut by_shape = Box::new(ShapeIndex {
            index: Index::new(slab.len()),
            shapes: [none; SHAPES],
            odd: Chain::EMPTY,
            toil: Toil(0),
        });
        // The elected hold their places with no entry until theirs come.
        let mut slot = slab.first();
        while slot != NONE {
            by_shape.enter_as(slab, slot, |shape| {
                elected.iter().take(SHAPES).position(|counted| counted.shape == shape)
            });
            slot = slab.next(slot);
        }
        by_shape
    }

    /// Enters the newest entry: with its shape, or a free one, or the odd.
    #[inline]
    pub fn enter<T: Copy>(&mut self, slab: &mut Slab<Entry<T>>, slot: u32) {
        let shapes = self.shapes;
        self.enter_as(slab, slot, |shape| {
            let same = |counted: &Counted| counted.entries > 0 && counted.shape == shape;
            let free = || shapes.iter().position(|counted| counted.entries == 0);
            shapes.iter().position(same).or_else(free)
        });
    }

    #[inline]
    fn enter_as<T: Copy>(
        &mut self,
        slab: &mut Slab<Entry<T>>,
        slot: u32,
        mark_of: impl Fn(Shape) -> Option<usize>,
    ) {
        let shape = slab.record(slot).shape();
        let Some(mark) = mark_of(shape) else {
            slab.record_mut(slot).shape = ODD;
            return self.index.append_to(&mut self.odd, slot);
        };
        let counted = &mut self.shapes[mark];
        *counted = Counted { shape, entries: counted.entries + 1 };
        slab.record_mut(slot).shape = mark as u8;
        let entry = *slab.record(slot);
        self.index.append(hash(entry.key(), entry.shape), slot, |head| {
            let head = slab.record(head);
            head.shape == entry.shape && head.key() == entry.key()
        });
    }

    #[inline]
    pub fn leave<T: Copy>(&mut self, entry: &Entry<T>, slot: u32, slots: usize) {
        if entry.shape == ODD {
            self.index.unlink_from(&mut self.odd, slot);
        } else {
            self.shapes[usize::from(entry.shape)].entries -= 1;
            self.index.unlink(|| hash(entry.key(), entry.shape), slot);
        }
        self.index.fit(slots);
    }
}
