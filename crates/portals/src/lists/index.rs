//! Chains of slots, found by a hash: open addressing, linear probing.
//!
//! Invariants: no bucket is empty of slots; a bucket is reached from where its
//! hash points without crossing a vacancy; at most three quarters of the table
//! are taken and, from [`TABLE_MIN`] on, at least an eighth.
//!
//! Why not the standard library's map: a bucket here is twelve bytes and keeps
//! no key, for the key stands in the chain's first element, which a look-up
//! reads anyway. A look-up costs two cache misses: a bucket and an element.
//! Deletion shifts the followers back, so that no tombstones gather.

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
    (mixed >> 32) as u32
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    hash: u32,
    /// Empty: the place in the table is vacant.
    chain: Chain,
}

const VACANT: Bucket = Bucket { hash: 0, chain: Chain::EMPTY };

/// Slots in chains by key. A slot is in at most one.
#[derive(Debug)]
pub(super) struct Index {
    /// A power of two of them.
    table: Vec<Bucket>,
    taken: usize,
    /// The neighbours of each slot in its chain.
    links: Vec<Link>,
    /// Where the last answer stood: what is found is mostly taken out next.
    hint: usize,
}

impl Index {
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

    /// Takes a slot out of a chain of the owner's.
    #[inline]
    pub fn unlink_from(&mut self, chain: &mut Chain, slot: u32) {
        chain.unlink(&mut self.links, slot);
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

    /// The slot after this one in its chain.
    #[inline]
    pub fn next(&self, slot: u32) -> u32 {
        self.links[slot as usize].next
    }

    /// The first slot of the chain whose first slot `is_key`.
    #[inline]
    pub fn head(&mut self, hash: u32, is_key: impl Fn(u32) -> bool) -> u32 {
        let at = self.probe(hash, |bucket| is_key(bucket.chain.head));
        let head = self.table[at].chain.head;
        if head != NONE {
            self.hint = at;
        }
        head
    }

    /// Appends to the chain whose first slot `is_key`.
    #[inline]
    pub fn append(&mut self, hash: u32, slot: u32, is_key: impl Fn(u32) -> bool) {
        self.cover(slot);
        let at = self.probe(hash, |bucket| is_key(bucket.chain.head));
        let bucket = &mut self.table[at];
        let is_new = bucket.chain.head == NONE;
        bucket.hash = hash;
        bucket.chain.append(&mut self.links, slot);
        if is_new {
            self.taken += 1;
            if self.taken * 4 > self.table.len() * 3 {
                self.resize(self.table.len() * 2);
            }
        }
    }

    /// Takes a slot out of its chain.
    #[inline]
    pub fn unlink(&mut self, hash: impl FnOnce() -> u32, slot: u32) {
        // Its chain is the one that begins or ends with it: no key is read, and
        // a hint that is out of date cannot mislead.
        let mut at = self.hint;
        if self.table.get(at).is_none_or(|bucket| bucket.chain.head != slot) {
            let link = self.links[slot as usize];
            if link.prev != NONE && link.next != NONE {
                // The chain's ends do not change, wherever they are.
                let mut ends = Chain::EMPTY;
                return ends.unlink(&mut self.links, slot);
            }
            let is_it = |bucket: &Bucket| bucket.chain.head == slot || bucket.chain.tail == slot;
            at = self.probe(hash(), is_it);
        }
        let bucket = &mut self.table[at];
        bucket.chain.unlink(&mut self.links, slot);
        if bucket.chain.head == NONE {
            self.vacate(at);
        }
    }

    /// The bucket with this hash that `is_it`, or the vacancy where it belongs.
    #[inline]
    fn probe(&self, hash: u32, is_it: impl Fn(&Bucket) -> bool) -> usize {
        let mask = self.table.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let bucket = &self.table[at];
            if bucket.chain.head == NONE || bucket.hash == hash && is_it(bucket) {
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
            if bucket.chain.head == NONE {
                break;
            }
            // It may move back as far as where its hash points.
            let home = bucket.hash as usize & mask;
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
    fn resize(&mut self, buckets: usize) {
        let old = std::mem::replace(&mut self.table, vec![VACANT; buckets]);
        for bucket in old.into_iter().filter(|bucket| bucket.chain.head != NONE) {
            let at = self.probe(bucket.hash, |_| false);
            self.table[at] = bucket;
        }
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
            if bucket.chain.head != NONE {
                let head = bucket.chain.head;
                assert_eq!(self.probe(bucket.hash, |found| found.chain.head == head), at);
                chains.push((bucket.hash, bucket.chain.walk_checked(&self.links)));
            }
        }
        assert_eq!(chains.len(), self.taken, "buckets taken");
        chains
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
        let away = |(at, bucket): (usize, &Bucket)| match bucket.chain.head {
            NONE => 0,
            _ => at.wrapping_sub(bucket.hash as usize) & mask,
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
