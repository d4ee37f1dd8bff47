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

use super::Toil;
use super::criteria::{Shape, Waiting};
use super::index::{Index, hash};
use super::slab::{Chain, Slab};
use sluice_wire::PeerId;

/// Shapes that are looked up. Programs use one to four; a look-up that finds
/// nothing costs a cache miss, and these overlap.
pub(super) const SHAPES: usize = 8;

/// The mark of an entry in the odd chain. Another mark says which of the
/// index's shapes counts the entry.
pub(super) const ODD: u8 = SHAPES as u8;

#[inline]
pub(super) fn shape_of(entry: &impl Waiting) -> Shape {
    Shape::of(&entry.criteria())
}

#[inline]
pub(super) fn key_of(entry: &impl Waiting) -> (u64, u32) {
    let criteria = entry.criteria();
    shape_of(entry).key(criteria.bits, criteria.source.unwrap_or(PeerId(0)))
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
    /// Elects the shapes with most entries and indexes a list, whose slots are
    /// given in order.
    #[cold]
    pub fn build<R: Waiting>(slab: &mut Slab<R>, slots: &[u32]) -> Box<ShapeIndex> {
        let mut all: Vec<Shape> = slots.iter().map(|&slot| shape_of(slab.at(slot))).collect();
        all.sort_unstable();
        let mut elected: Vec<Counted> = all
            .chunk_by(|a, b| a == b)
            .map(|same| Counted { shape: same[0], entries: same.len() as u32 })
            .collect();
        // Stable, so that the outcome is the same everywhere.
        elected.sort_by_key(|counted| std::cmp::Reverse(counted.entries));
        let none = Counted { shape: Shape { ignore: 0, any_source: false }, entries: 0 };
        let mut by_shape = Box::new(ShapeIndex {
            index: Index::new(slots.len() as u32),
            shapes: [none; SHAPES],
            odd: Chain::EMPTY,
            toil: Toil(0),
        });
        // The elected hold their places with no entry until theirs come.
        for &slot in slots {
            by_shape.enter_as(slab, slot, |shape| {
                elected.iter().take(SHAPES).position(|counted| counted.shape == shape)
            });
        }
        by_shape
    }

    /// Enters an entry that is older than others: as [`ShapeIndex::enter`], and by its age.
    pub fn enter_by_age<R: Waiting>(&mut self, slab: &mut Slab<R>, slot: u32) {
        self.enter(slab, slot);
        let (entry, seq) = (slab.at(slot), slab.seq(slot));
        let is_younger = |other| slab.seq(other) > seq;
        let mark = entry.mark();
        if mark == ODD {
            self.index.unlink_from(&mut self.odd, slot);
            self.index.put_into(&mut self.odd, slot, is_younger);
        } else {
            let key = key_of(entry);
            self.index.advance_last(hash(key, mark), slot, is_of(slab, mark, key), is_younger);
        }
    }

    /// Enters the newest entry: with its shape, or a free one, or the odd.
    #[inline]
    pub fn enter<R: Waiting>(&mut self, slab: &mut Slab<R>, slot: u32) {
        let shapes = self.shapes;
        self.enter_as(slab, slot, |shape| {
            let same = |counted: &Counted| counted.entries > 0 && counted.shape == shape;
            let free = || shapes.iter().position(|counted| counted.entries == 0);
            shapes.iter().position(same).or_else(free)
        });
    }

    #[inline]
    fn enter_as<R: Waiting>(
        &mut self,
        slab: &mut Slab<R>,
        slot: u32,
        mark_of: impl Fn(Shape) -> Option<usize>,
    ) {
        let shape = shape_of(slab.at(slot));
        let Some(mark) = mark_of(shape) else {
            slab.at_mut(slot).set_mark(ODD);
            return self.index.append_to(&mut self.odd, slot);
        };
        let counted = &mut self.shapes[mark];
        *counted = Counted { shape, entries: counted.entries + 1 };
        let mark = mark as u8;
        slab.at_mut(slot).set_mark(mark);
        let key = key_of(slab.at(slot));
        self.index.append(hash(key, mark), slot, is_of(slab, mark, key));
    }

    /// Takes out an entry that is still in the slab.
    #[inline]
    pub fn leave<R: Waiting>(&mut self, slab: &Slab<R>, slot: u32) {
        let entry = slab.at(slot);
        let mark = entry.mark();
        if mark == ODD {
            self.index.unlink_from(&mut self.odd, slot);
        } else {
            self.shapes[usize::from(mark)].entries -= 1;
            let key = key_of(entry);
            self.index.unlink(|| hash(key, mark), slot, is_of(slab, mark, key));
        }
        self.index.fit(slab.slots());
    }

    /// The entries in list order.
    pub fn slots<R: Waiting>(&self, slab: &Slab<R>) -> Vec<u32> {
        let odd = self.index.slots_of(self.odd);
        let mut slots: Vec<u32> = self.index.slots().chain(odd).collect();
        slots.sort_unstable_by_key(|&slot| slab.seq(slot));
        slots
    }
}

/// Whether an entry has this mark and this key.
#[inline]
fn is_of<R: Waiting>(slab: &Slab<R>, mark: u8, key: (u64, u32)) -> impl Fn(u32) -> bool {
    move |slot| {
        let entry = slab.at(slot);
        entry.mark() == mark && key_of(entry) == key
    }
}
