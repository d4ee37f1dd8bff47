//! The records that the lists of one interface are made of, in one allocation:
//! a record is both what its owner knows of an element and the list's node, so
//! that a match touches one place in memory.
//!
//! Invariants: sequence numbers ascend in order of insertion and are never
//! used twice, unless a record is to be as old as one that was there before; a handle
//! holds the low half of one, so that one kept too long names nothing. A record is in at most one list, and its link says whether
//! it is in one. A free slot is in the free chain, the last freed first: its
//! lines are still in the cache.
//!
//! The links of a list's order stand with the records: a walk reads one line a
//! record. A further chain's stand in an array of its own ([`Linked`] is
//! either).

use crate::table::Handle;
use std::num::NonZeroU32;

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// Slabs of at most so many slots keep their memory.
const SLOTS_KEPT: usize = 64;

/// The ends of a chain of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    pub head: u32,
    pub tail: u32,
}

/// The neighbours in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub prev: u32,
    pub next: u32,
}

impl Link {
    pub const NONE: Link = Link { prev: NONE, next: NONE };
    /// Of a record that is in no list.
    const OUT: Link = Link { prev: NONE - 1, next: NONE - 1 };
}

/// Of an element in the order of its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Age(u64);

/// What can stand in a chain.
pub(super) trait Linked {
    fn link(&self) -> Link;
    fn link_mut(&mut self) -> &mut Link;
}

impl Linked for Link {
    #[inline]
    fn link(&self) -> Link {
        *self
    }

    #[inline]
    fn link_mut(&mut self) -> &mut Link {
        self
    }
}

impl Chain {
    pub const EMPTY: Chain = Chain { head: NONE, tail: NONE };

    /// Appends a slot that is in no chain of these links.
    #[inline]
    pub fn append(&mut self, links: &mut [impl Linked], slot: u32) {
        *links[slot as usize].link_mut() = Link { prev: self.tail, next: NONE };
        match self.tail {
            NONE => self.head = slot,
            tail => links[tail as usize].link_mut().next = slot,
        }
        self.tail = slot;
    }

    /// Puts a slot that is in no chain of these links before `next`, or at the end before
    /// [`NONE`].
    pub fn put_before(&mut self, links: &mut [impl Linked], slot: u32, next: u32) {
        if next == NONE {
            return self.append(links, slot);
        }
        let prev = std::mem::replace(&mut links[next as usize].link_mut().prev, slot);
        *links[slot as usize].link_mut() = Link { prev, next };
        match prev {
            NONE => self.head = slot,
            prev => links[prev as usize].link_mut().next = slot,
        }
    }

    #[inline]
    pub fn unlink(&mut self, links: &mut [impl Linked], slot: u32) {
        let Link { prev, next } = links[slot as usize].link();
        match prev {
            NONE => self.head = next,
            prev => links[prev as usize].link_mut().next = next,
        }
        match next {
            NONE => self.tail = prev,
            next => links[next as usize].link_mut().prev = prev,
        }
    }

    /// Its slots in order. Panics where links disagree.
    pub fn walk_checked(self, links: &[impl Linked]) -> Vec<u32> {
        let (mut prev, mut at, mut slots) = (NONE, self.head, Vec::new());
        while at != NONE {
            let link = links[at as usize].link();
            assert_eq!(link.prev, prev, "back link");
            slots.push(at);
            assert!(slots.len() <= links.len(), "a chain closes upon itself");
            (prev, at) = (at, link.next);
        }
        assert_eq!(self.tail, prev, "tail");
        slots
    }
}

/// A record with its place: the first cache line has what a look-up reads.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Node<R> {
    /// Zero: the slot is free.
    seq: u64,
    link: Link,
    record: R,
}

impl<R> Linked for Node<R> {
    #[inline]
    fn link(&self) -> Link {
        self.link
    }

    #[inline]
    fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// What a slab can hold.
pub trait Record: Copy + Default {
    /// What few records have: it stands apart, and takes room only if one does.
    /// The record says whether it has it.
    type Cold: Copy + Default;
}

/// Records, named by slots while it is known that they are there, and by
/// handles else.
#[derive(Debug)]
pub struct Slab<R: Record> {
    nodes: Vec<Node<R>>,
    /// By slot, as far as any record had one.
    cold: Vec<R::Cold>,
    /// The first free slot; the others are behind it, through their links, forward only.
    free_head: u32,
    len: u32,
    records_max: u32,
    /// With fewer records than this, memory is given back.
    trim_below: u32,
    last_seq: u64,
}

impl<R: Record> Slab<R> {
    /// Bytes that a record takes, with what few records have.
    pub(super) const RECORD_BYTES: usize = size_of::<Node<R>>() + size_of::<R::Cold>();

    /// An empty slab for at most `records_max` records. It allocates nothing
    /// yet.
    pub fn new(records_max: u32) -> Slab<R> {
        let records_max = records_max.min(NONE - 2);
        Slab {
            nodes: Vec::new(),
            cold: Vec::new(),
            free_head: NONE,
            len: 0,
            records_max,
            trim_below: 0,
            last_seq: 0,
        }
    }

    /// Whether no more fits.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len >= self.records_max
    }

    /// Slots, free ones included.
    #[inline]
    pub(super) fn slots(&self) -> usize {
        self.nodes.len()
    }

    #[inline]
    pub(super) fn seq(&self, slot: u32) -> u64 {
        self.nodes[slot as usize].seq
    }

    /// The age of the record in a slot that is not free.
    pub fn age(&self, slot: u32) -> Age {
        Age(self.seq(slot))
    }

    /// The slot after this one in the order of its list.
    #[inline]
    pub(super) fn next(&self, slot: u32) -> u32 {
        self.nodes[slot as usize].link.next
    }

    /// The record in a slot that is not free.
    #[inline]
    pub fn at(&self, slot: u32) -> &R {
        &self.nodes[slot as usize].record
    }

    /// The record in a slot that is not free, to be changed.
    #[inline]
    pub fn at_mut(&mut self, slot: u32) -> &mut R {
        &mut self.nodes[slot as usize].record
    }

    /// What the record in a slot has that few have; it must have been there.
    #[inline]
    pub fn beside(&self, slot: u32) -> &R::Cold {
        &self.cold[slot as usize]
    }

    /// The same, to be changed; at first it is what some other record had.
    #[inline]
    pub fn beside_mut(&mut self, slot: u32) -> &mut R::Cold {
        if slot as usize >= self.cold.len() {
            self.cold.resize(slot as usize + 1, R::Cold::default());
        }
        &mut self.cold[slot as usize]
    }

    /// What names the record in a slot that is not free.
    #[inline]
    pub fn handle(&self, slot: u32) -> Handle<R> {
        let stamp = NonZeroU32::new(self.seq(slot) as u32);
        Handle::new(slot, stamp.expect("numbers without a low half are left out"))
    }

    /// The slot of a handle that is not stale.
    #[inline]
    pub fn locate(&self, handle: Handle<R>) -> Option<u32> {
        let node = self.nodes.get(handle.index() as usize)?;
        (node.seq as u32 == handle.generation().get()).then_some(handle.index())
    }

    /// The record, if the handle is not stale.
    #[inline]
    pub fn get(&self, handle: Handle<R>) -> Option<&R> {
        Some(self.at(self.locate(handle)?))
    }

    /// Adds a record, which is in no list yet. `None` if the slab is full.
    #[inline]
    pub fn insert(&mut self, record: R) -> Option<u32> {
        self.insert_linked(record, Link::OUT)
    }

    /// Adds a record, in no list yet, that is as old as one which is not there any more. Its
    /// handle may be that one's. `None` if the slab is full.
    pub(super) fn insert_aged(&mut self, record: R, Age(seq): Age) -> Option<u32> {
        debug_assert!(seq as u32 != 0 && seq <= self.last_seq, "no record was so old");
        let slot = self.insert(record)?;
        self.nodes[slot as usize].seq = seq;
        Some(slot)
    }

    /// Adds a record at the end of an order. `None` if the slab is full.
    #[inline(always)]
    pub(super) fn insert_into(&mut self, order: &mut Chain, record: R) -> Option<u32> {
        let slot = self.insert_linked(record, Link { prev: order.tail, next: NONE })?;
        match order.tail {
            NONE => order.head = slot,
            tail => self.nodes[tail as usize].link.next = slot,
        }
        order.tail = slot;
        Some(slot)
    }

    #[inline(always)]
    fn insert_linked(&mut self, record: R, link: Link) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        if self.free_head == NONE {
            self.grow();
        }
        self.last_seq += 1;
        if self.last_seq as u32 == 0 {
            self.last_seq += 1;
        }
        let slot = self.free_head;
        let node = &mut self.nodes[slot as usize];
        self.free_head = node.link.next;
        *node = Node { seq: self.last_seq, link, record };
        self.len += 1;
        Some(slot)
    }

    /// Forgets the record in a slot that is not free, and in no list.
    #[inline]
    pub fn discard(&mut self, slot: u32) {
        debug_assert!(self.nodes[slot as usize].link == Link::OUT, "it is in a list");
        self.free(slot);
    }

    /// Takes a record out of its order and forgets it.
    #[inline(always)]
    pub(super) fn discard_from(&mut self, order: &mut Chain, slot: u32) {
        order.unlink(&mut self.nodes, slot);
        self.free(slot);
    }

    #[inline(always)]
    fn free(&mut self, slot: u32) {
        let node = &mut self.nodes[slot as usize];
        debug_assert!(node.seq != 0, "it is free");
        node.seq = 0;
        node.link.next = self.free_head;
        self.free_head = slot;
        self.len -= 1;
        if self.len < self.trim_below {
            self.trim();
        }
    }

    /// Whether the record in a slot is in a list.
    #[inline]
    pub fn is_listed(&self, slot: u32) -> bool {
        self.nodes[slot as usize].link != Link::OUT
    }

    /// Notes that a record is in a list that keeps no order, or in none.
    #[inline]
    pub(super) fn set_listed(&mut self, slot: u32, is_listed: bool) {
        self.nodes[slot as usize].link = if is_listed { Link::NONE } else { Link::OUT };
    }

    /// Puts a record at the end of an order.
    #[inline]
    pub(super) fn append_to(&mut self, order: &mut Chain, slot: u32) {
        order.append(&mut self.nodes, slot);
    }

    /// Puts a record into an order by its age. Says how many older ones it has passed.
    pub(super) fn enter_by_age(&mut self, order: &mut Chain, slot: u32) -> u64 {
        let (seq, mut at, mut steps) = (self.seq(slot), order.head, 0);
        while at != NONE && self.seq(at) < seq {
            steps += 1;
            at = self.next(at);
        }
        order.put_before(&mut self.nodes, slot, at);
        steps
    }

    /// Takes a record out of its order.
    #[inline]
    pub(super) fn unlink_from(&mut self, order: &mut Chain, slot: u32) {
        order.unlink(&mut self.nodes, slot);
        self.set_listed(slot, false);
    }

    /// The slots of an order.
    pub(super) fn walk(&self, order: Chain) -> impl Iterator<Item = u32> {
        let some = |slot: u32| Some(slot).filter(|&slot| slot != NONE);
        std::iter::successors(some(order.head), move |&slot| some(self.next(slot)))
    }

    /// Makes a free slot, so that records are only ever written in one place.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let slots = self.nodes.len();
        self.nodes.push(Node { seq: 0, link: Link::NONE, record: R::default() });
        self.free_head = slots as u32;
        if slots >= SLOTS_KEPT {
            self.trim_below = slots as u32 / 8;
        }
    }

    /// Gives the memory behind the last live slot back. Slots are named by
    /// handles, so nothing can move, and a record far back holds the memory
    /// before it; the next try then waits until half as many are left.
    #[cold]
    #[inline(never)]
    fn trim(&mut self) {
        let live = self.nodes.iter().rposition(|node| node.seq != 0).map_or(0, |last| last + 1);
        self.nodes.truncate(live);
        self.nodes.shrink_to_fit();
        self.cold.truncate(live);
        self.cold.shrink_to_fit();
        self.free_head = NONE;
        for (slot, node) in self.nodes.iter_mut().enumerate().rev() {
            if node.seq == 0 {
                node.link.next = self.free_head;
                self.free_head = slot as u32;
            }
        }
        self.trim_below = match live {
            0..=SLOTS_KEPT => 0,
            _ => (live as u32 / 8).min(self.len / 2 + 1),
        };
    }

    /// All slots that are not free, in no particular but a reproducible order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &R)> {
        let live = (0..).zip(&self.nodes).filter(|(_, node)| node.seq != 0);
        live.map(|(slot, node)| (slot, &node.record))
    }

    /// Slots that memory is held for.
    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.nodes.capacity()
    }

    /// The slots of an order. Panics where links disagree.
    pub(super) fn walk_checked(&self, order: Chain) -> Vec<u32> {
        order.walk_checked(&self.nodes)
    }

    /// Panics if an invariant is broken.
    pub fn check_invariants(&self) {
        let live = self.iter().count();
        assert_eq!(live, self.len as usize, "length");
        assert!(self.nodes.iter().all(|node| node.seq <= self.last_seq));
        let (mut free, mut at) = (0, self.free_head);
        while at != NONE {
            assert_eq!(self.seq(at), 0, "a live slot is free");
            free += 1;
            assert!(free <= self.nodes.len(), "the free chain closes upon itself");
            at = self.next(at);
        }
        assert_eq!(live + free, self.nodes.len(), "a slot is lost");
    }
}
