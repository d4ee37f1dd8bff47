//! Elements in order of arrival, in one allocation, named by places.
//!
//! Invariants: a live slot is in the order, a free one in the free chain; the
//! sequence numbers ascend along the order and are never used twice. A place
//! holds the low half of the number, so that one kept too long names nothing.
//!
//! The links of the order stand with the elements: a walk reads one line an
//! element. A further chain's stand in an array of its own, which exists only
//! as long as the chain does ([`Linked`] is either).

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// Slabs of at most so many slots keep their memory.
const SLOTS_KEPT: usize = 64;

/// Names an element of a list. A stale place names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    slot: u32,
    stamp: u32,
}

/// The ends of a chain of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    pub head: u32,
    pub tail: u32,
}

/// The neighbours in a chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub prev: u32,
    pub next: u32,
}

impl Link {
    pub const NONE: Link = Link { prev: NONE, next: NONE };
}

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

#[derive(Debug)]
struct Node<R> {
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

/// Records in order of arrival.
#[derive(Debug)]
pub(super) struct Slab<R> {
    nodes: Vec<Node<R>>,
    order: Chain,
    /// The free slots, through their links, forward only.
    free: u32,
    len: u32,
    /// With fewer elements than this, memory is given back.
    trim_below: u32,
    last_seq: u64,
}

impl<R: Copy> Slab<R> {
    pub const fn new() -> Slab<R> {
        Slab {
            nodes: Vec::new(),
            order: Chain::EMPTY,
            free: NONE,
            len: 0,
            trim_below: 0,
            last_seq: 0,
        }
    }

    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Slots, free ones included.
    #[inline]
    pub fn slots(&self) -> usize {
        self.nodes.len()
    }

    #[inline]
    pub fn first(&self) -> u32 {
        self.order.head
    }

    #[inline]
    pub fn next(&self, slot: u32) -> u32 {
        self.nodes[slot as usize].link.next
    }

    #[inline]
    pub fn seq(&self, slot: u32) -> u64 {
        self.nodes[slot as usize].seq
    }

    #[inline]
    pub fn record(&self, slot: u32) -> &R {
        &self.nodes[slot as usize].record
    }

    #[inline]
    pub fn record_mut(&mut self, slot: u32) -> &mut R {
        &mut self.nodes[slot as usize].record
    }

    #[inline]
    pub fn place(&self, slot: u32) -> Place {
        Place { slot, stamp: self.seq(slot) as u32 }
    }

    /// The slot of a place that is not stale.
    #[inline]
    pub fn locate(&self, place: Place) -> Option<u32> {
        let node = self.nodes.get(place.slot as usize)?;
        (node.seq != 0 && node.seq as u32 == place.stamp).then_some(place.slot)
    }

    /// # Panics
    /// Beyond 2^32 - 1 elements.
    #[inline]
    pub fn push(&mut self, record: R) -> u32 {
        self.last_seq += 1;
        let node = Node { seq: self.last_seq, link: Link::NONE, record };
        let slot = if self.free == NONE {
            let slots = self.nodes.len();
            assert!(slots < NONE as usize, "more elements than names");
            self.nodes.push(node);
            if slots >= SLOTS_KEPT {
                self.trim_below = slots as u32 / 8;
            }
            slots as u32
        } else {
            let slot = self.free;
            self.free = self.next(slot);
            self.nodes[slot as usize] = node;
            slot
        };
        self.len += 1;
        self.order.append(&mut self.nodes, slot);
        slot
    }

    /// Takes a live slot's element out.
    #[inline]
    pub fn remove(&mut self, slot: u32) -> R {
        let node = &mut self.nodes[slot as usize];
        debug_assert_ne!(node.seq, 0);
        node.seq = 0;
        let record = node.record;
        self.order.unlink(&mut self.nodes, slot);
        self.nodes[slot as usize].link.next = self.free;
        self.free = slot;
        self.len -= 1;
        if self.len < self.trim_below {
            self.trim();
        }
        record
    }

    /// Gives the memory behind the last live slot back. Slots are named by
    /// places, so nothing can move, and an element far back holds the memory
    /// before it; the next try then waits until half as many are left.
    #[cold]
    fn trim(&mut self) {
        let live = self.nodes.iter().rposition(|node| node.seq != 0).map_or(0, |last| last + 1);
        self.nodes.truncate(live);
        self.nodes.shrink_to_fit();
        self.free = NONE;
        for (slot, node) in self.nodes.iter_mut().enumerate().rev() {
            if node.seq == 0 {
                node.link.next = self.free;
                self.free = slot as u32;
            }
        }
        self.trim_below = match live {
            0..=SLOTS_KEPT => 0,
            _ => (live as u32 / 8).min(self.len / 2 + 1),
        };
    }

    /// Live slots in order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &R)> {
        let first = Some(self.order.head).filter(|&slot| slot != NONE);
        std::iter::successors(first, |&slot| Some(self.next(slot)).filter(|&slot| slot != NONE))
            .map(|slot| (slot, self.record(slot)))
    }

    /// Slots that memory is held for.
    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.nodes.capacity()
    }

    /// Panics if an invariant is broken.
    pub fn check_invariants(&self) {
        let order = self.order.walk_checked(&self.nodes);
        assert_eq!(order.len(), self.len as usize, "length");
        assert!(order.iter().all(|&slot| self.seq(slot) != 0), "a free slot is in the order");
        assert!(order.is_sorted_by_key(|&slot| self.seq(slot)), "out of order");
        assert!(order.last().is_none_or(|&last| self.seq(last) <= self.last_seq));
        let (mut free, mut at) = (0, self.free);
        while at != NONE {
            assert_eq!(self.seq(at), 0, "a live slot is free");
            free += 1;
            assert!(free <= self.nodes.len(), "the free chain closes upon itself");
            at = self.next(at);
        }
        assert_eq!(order.len() + free, self.nodes.len(), "a slot is lost");
    }
}
