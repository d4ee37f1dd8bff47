//! Chains of slots, found by a hash: open addressing, linear probing.
//!
//! Invariants: a bucket is reached from where its hash points without crossing
//! a vacancy; at most three quarters of the table are taken and, from
//! [`TABLE_MIN`] on, at least an eighth. The links of a chain of one are not
//! used, and need not exist; in a longer one they lead forward to [`NONE`] and
//! backward in a circle, so that the head knows the tail.
//!
//! Why not the standard library's map: a bucket here is eight bytes and keeps
//! no key, for the key stands in the chain's first element, which a look-up
//! reads anyway. A look-up costs two cache misses: a bucket and an element; so
//! does what is entered or taken out, as long as keys differ. Deletion shifts
//! the followers back, so that no tombstones gather.

use super::slab::{Chain, Link, NONE};

/// The table is never smaller.
const TABLE_MIN: usize = 32;

/// Mixes a key. Match bits differ in few places, the tag low and the context
/// high, so all of them must reach the low bits, which choose the bucket: the
/// two halves of a full product have them all. `salt` tells shapes apart.
#[inline]
pub(super) fn hash((bits, source): (u64, u32), salt: u8) -> u32 {
    let other = u64::from(source) | u64::from(salt) << 32;
    let product = u128::from(bits ^ 0x9e37_79b9_7f4a_7c15)
        * u128::from(other.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ 0xa076_1d64_78bd_642f);
    let mixed = (product as u64 ^ (product >> 64) as u64).wrapping_mul(0xe703_7ed1_a0b4_28db);
    (mixed >> 33) as u32
}

/// Set in the tag of a bucket whose chain is longer than one. The hash has the
/// other bits.
const MANY: u32 = 1 << 31;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bucket {
    tag: u32,
    /// [`NONE`]: the place in the table is vacant.
    head: u32,
}

const VACANT: Bucket = Bucket { tag: 0, head: NONE };

impl Bucket {
    #[inline]
    fn hash(self) -> u32 {
        self.tag & !MANY
    }

    #[inline]
    fn is_many(self) -> bool {
        self.tag & MANY != 0
    }
}

/// A place in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// [`NONE`]: the chain is at its end.
    pub slot: u32,
    is_many: bool,
}

impl Found {
    /// The end of a chain.
    pub const END: Found = Found { slot: NONE, is_many: false };
}

/// Slots in chains by key. A slot is in at most one.
#[derive(Debug)]
pub(super) struct Index {
    /// A power of two of them.
    table: Vec<Bucket>,
    taken: usize,
    /// The neighbours of each slot in its chain, as far as chains need them.
    links: Vec<Link>,
    /// Where the last answer stood: what is found is mostly taken out next.
    hint: usize,
}

impl Index {
    /// Bytes that a slot takes, in a table that is as full as it must be.
    pub const RECORD_BYTES: usize = size_of::<Link>() + size_of::<Bucket>() * 8 / 3;

    /// An index that holds `len` slots without growing.
    pub fn new(len: u32) -> Index {
        let table = (len as usize * 4 / 3 + 1).next_power_of_two().max(TABLE_MIN);
        Index { table: vec![VACANT; table], taken: 0, links: Vec::new(), hint: 0 }
    }

    /// Appends to a chain of the owner's, whose slots are in no bucket.
    #[inline]
    pub fn append_to(&mut self, chain: &mut Chain, slot: u32) {
        self.cover(slot);
        chain.append(&mut self.links, slot);
    }

    /// Puts a slot into a chain of the owner's, before the first that `is_younger`.
    pub fn put_into(&mut self, chain: &mut Chain, slot: u32, is_younger: impl Fn(u32) -> bool) {
        self.cover(slot);
        let younger = self.slots_of(*chain).find(|&other| is_younger(other));
        chain.put_before(&mut self.links, slot, younger.unwrap_or(NONE));
    }

    /// Takes a slot out of a chain of the owner's.
    #[inline]
    pub fn unlink_from(&mut self, chain: &mut Chain, slot: u32) {
        chain.unlink(&mut self.links, slot);
    }

    /// The slot after this one in a chain of the owner's.
    #[inline]
    pub fn next_of(&self, slot: u32) -> u32 {
        self.links[slot as usize].next
    }

    /// Gives memory back after the slab has, when it is worth it.
    #[inline]
    pub fn fit(&mut self, slots: usize) {
        if self.links.len() > 2 * slots {
            self.links.truncate(slots);
            self.links.shrink_to_fit();
        }
    }

    #[inline]
    fn cover(&mut self, slot: u32) {
        if slot as usize >= self.links.len() {
            self.links.resize(slot as usize + 1, Link::NONE);
        }
    }

    /// What stands after this in its chain.
    #[inline]
    pub fn next(&self, found: Found) -> Found {
        let slot = if found.is_many { self.links[found.slot as usize].next } else { NONE };
        Found { slot, ..found }
    }

    /// The first place of the chain whose first slot `is_key`.
    #[inline]
    pub fn head(&mut self, hash: u32, is_key: impl Fn(u32) -> bool) -> Found {
        let at = self.probe(hash, is_key);
        let bucket = self.table[at];
        if bucket.head != NONE {
            self.hint = at;
        }
        Found { slot: bucket.head, is_many: bucket.is_many() }
    }

    /// Appends to the chain whose first slot `is_key`.
    #[inline]
    pub fn append(&mut self, hash: u32, slot: u32, is_key: impl Fn(u32) -> bool) {
        let at = self.probe(hash, is_key);
        if self.table[at].head != NONE {
            return self.lengthen(at, slot);
        }
        self.table[at] = Bucket { tag: hash, head: slot };
        self.taken += 1;
        if self.taken * 4 > self.table.len() * 3 {
            self.resize(self.table.len() * 2);
        }
    }

    /// Moves the last slot of the chain whose first slot `is_key` before the first one that
    /// `is_younger`.
    pub fn advance_last(
        &mut self,
        hash: u32,
        slot: u32,
        is_key: impl Fn(u32) -> bool,
        is_younger: impl Fn(u32) -> bool,
    ) {
        let at = self.probe(hash, is_key);
        let Bucket { head, .. } = self.table[at];
        let mut next = head;
        while next != slot && !is_younger(next) {
            next = self.links[next as usize].next;
        }
        if next == slot {
            return;
        }
        let last = self.links[slot as usize].prev;
        self.links[last as usize].next = NONE;
        self.links[head as usize].prev = last;
        let prev = std::mem::replace(&mut self.links[next as usize].prev, slot);
        self.links[slot as usize] = Link { prev, next };
        if next == head {
            self.table[at].head = slot;
        } else {
            self.links[prev as usize].next = slot;
        }
    }

    /// Appends to the chain of a bucket.
    fn lengthen(&mut self, at: usize, slot: u32) {
        let Bucket { head, .. } = self.table[at];
        self.cover(slot.max(head));
        if !self.table[at].is_many() {
            self.table[at].tag |= MANY;
            self.links[head as usize] = Link { prev: head, next: NONE };
        }
        let tail = self.links[head as usize].prev;
        self.links[tail as usize].next = slot;
        self.links[slot as usize] = Link { prev: tail, next: NONE };
        self.links[head as usize].prev = slot;
    }

    /// Takes a slot out of its chain, whose first slot `is_key`.
    #[inline]
    pub fn unlink(&mut self, hash: impl FnOnce() -> u32, slot: u32, is_key: impl Fn(u32) -> bool) {
        // A hint that is out of date cannot mislead: a slot heads one chain.
        let mut at = self.hint;
        if self.table.get(at).is_none_or(|bucket| bucket.head != slot) {
            at = self.probe(hash(), is_key);
        }
        if self.table[at].is_many() {
            self.shorten(at, slot);
        } else {
            debug_assert_eq!(self.table[at].head, slot);
            self.vacate(at);
        }
    }

    /// Takes a slot out of the chain of a bucket, in which others stay.
    fn shorten(&mut self, at: usize, slot: u32) {
        let head = self.table[at].head;
        let Link { prev, next } = self.links[slot as usize];
        let head = if slot == head {
            self.table[at].head = next;
            self.links[next as usize].prev = prev;
            next
        } else {
            self.links[prev as usize].next = next;
            let back = if next == NONE { head } else { next };
            self.links[back as usize].prev = prev;
            head
        };
        if self.links[head as usize].next == NONE {
            self.table[at].tag &= !MANY;
        }
    }

    /// The bucket with this hash that `is_key`, or the vacancy where it belongs.
    #[inline]
    fn probe(&self, hash: u32, is_key: impl Fn(u32) -> bool) -> usize {
        let mask = self.table.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let bucket = self.table[at];
            if bucket.head == NONE || bucket.hash() == hash && is_key(bucket.head) {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    /// Closes the gap of a bucket that has become empty.
    #[inline]
    fn vacate(&mut self, mut gap: usize) {
        let mask = self.table.len() - 1;
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let bucket = self.table[at];
            if bucket.head == NONE {
                break;
            }
            // It may move back as far as where its hash points.
            let home = bucket.hash() as usize & mask;
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(gap) & mask {
                self.table[gap] = bucket;
                gap = at;
            }
        }
        self.table[gap] = VACANT;
        self.taken -= 1;
        if self.taken * 8 < self.table.len() && self.table.len() > TABLE_MIN {
            self.resize(self.table.len() / 2);
        }
    }

    #[cold]
    #[inline(never)]
    fn resize(&mut self, buckets: usize) {
        let old = std::mem::replace(&mut self.table, vec![VACANT; buckets]);
        for bucket in old.into_iter().filter(|bucket| bucket.head != NONE) {
            let at = self.probe(bucket.hash(), |_| false);
            self.table[at] = bucket;
        }
    }

    /// The slots of all chains, each chain in order.
    pub fn slots(&self) -> impl Iterator<Item = u32> {
        let taken = self.table.iter().filter(|bucket| bucket.head != NONE);
        taken.flat_map(|bucket| {
            let head = Found { slot: bucket.head, is_many: bucket.is_many() };
            let chain = std::iter::successors(Some(head), |&found| {
                Some(self.next(found)).filter(|next| next.slot != NONE)
            });
            chain.map(|found| found.slot)
        })
    }

    /// The slots of a chain of the owner's in order.
    pub fn slots_of(&self, chain: Chain) -> impl Iterator<Item = u32> {
        let some = |slot: u32| Some(slot).filter(|&slot| slot != NONE);
        std::iter::successors(some(chain.head), move |&slot| some(self.next_of(slot)))
    }

    /// The slots of a further chain in order. Panics where links disagree.
    pub fn walk_checked(&self, chain: Chain) -> Vec<u32> {
        chain.walk_checked(&self.links)
    }

    /// Memory held, as a number of slots and buckets.
    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.table.capacity() + self.links.capacity()
    }

    /// Panics if an invariant is broken. Returns the chains with their hashes,
    /// in no particular order.
    pub fn check_invariants(&self) -> Vec<(u32, Vec<u32>)> {
        assert!(self.table.len().is_power_of_two() && self.table.len() >= TABLE_MIN);
        assert!(self.taken * 4 <= self.table.len() * 3, "overfull");
        let mut chains = Vec::new();
        for (at, bucket) in self.table.iter().enumerate() {
            if bucket.head != NONE {
                let head = bucket.head;
                assert_eq!(self.probe(bucket.hash(), |found| found == head), at);
                chains.push((bucket.hash(), self.chain_checked(*bucket)));
            }
        }
        assert_eq!(chains.len(), self.taken, "buckets taken");
        chains
    }

    fn chain_checked(&self, bucket: Bucket) -> Vec<u32> {
        let Bucket { head, .. } = bucket;
        if !bucket.is_many() {
            return vec![head];
        }
        let (mut slots, mut at) = (vec![head], self.links[head as usize].next);
        while at != NONE {
            assert_eq!(Some(&self.links[at as usize].prev), slots.last(), "back link");
            slots.push(at);
            assert!(slots.len() <= self.links.len(), "a chain closes upon itself");
            at = self.links[at as usize].next;
        }
        assert_eq!(Some(&self.links[head as usize].prev), slots.last(), "tail");
        assert!(slots.len() > 1, "a chain of one needs no links");
        slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Buckets looked at beyond the first, for all keys.
    fn extra_probes(keys: impl Iterator<Item = (u64, u32)>) -> (usize, usize) {
        let keys: Vec<_> = keys.collect();
        let mut index = Index::new(keys.len() as u32);
        for (slot, &key) in keys.iter().enumerate() {
            index.append(hash(key, 0), slot as u32, |_| false);
        }
        let mask = index.table.len() - 1;
        let away = |(at, bucket): (usize, &Bucket)| match bucket.head {
            NONE => 0,
            _ => at.wrapping_sub(bucket.hash() as usize) & mask,
        };
        (index.table.iter().enumerate().map(away).sum(), keys.len())
    }

    #[test]
    fn usual_keys_spread() {
        let sets: [Box<dyn Iterator<Item = (u64, u32)>>; 6] = [
            Box::new((0..40_000).map(|tag| (tag, 0))),
            Box::new((0..40_000).map(|context| ((context & 0xffff) << 48, context as u32 >> 15))),
            Box::new((0..40_000).map(|tag| (7 << 32 | tag << 16, 9))),
            Box::new((0..40_000).map(|source| (0, source))),
            Box::new((0..40_000).map(|n| (n % 200, n as u32 / 200))),
            Box::new((0..40_000).map(|n| (((n % 200) << 40) + n / 200, (n as u32 % 7) << 16))),
        ];
        for (nth, keys) in sets.into_iter().enumerate() {
            let (extra, keys) = extra_probes(keys);
            // Three fifths full, a random function needs 0.78.
            assert!(extra < keys * 9 / 10, "set {nth}: {extra} extra probes for {keys}");
        }
    }
}
