//! Memory whose contents are known, but for bytes that two operations may have changed in
//! either order.

use std::ops::Range;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    values: Vec<u8>,
    known: Vec<bool>,
}

impl Bytes {
    pub fn new(values: Vec<u8>) -> Bytes {
        Bytes { known: vec![true; values.len()], values }
    }

    pub fn len(&self) -> u64 {
        self.values.len() as u64
    }

    /// A part of it.
    pub fn part(&self, range: Range<u64>) -> Bytes {
        let range = range.start as usize..range.end as usize;
        Bytes { values: self.values[range.clone()].to_vec(), known: self.known[range].to_vec() }
    }

    /// Whether all of a part is known.
    pub fn is_known(&self, range: Range<u64>) -> bool {
        self.known[range.start as usize..range.end as usize].iter().all(|known| *known)
    }

    pub fn values(&self, range: Range<u64>) -> &[u8] {
        &self.values[range.start as usize..range.end as usize]
    }

    pub fn write(&mut self, at: u64, values: &[u8]) {
        let range = at as usize..at as usize + values.len();
        self.values[range.clone()].copy_from_slice(values);
        self.known[range].fill(true);
    }

    /// What `first` holds, and what is known of it, comes first.
    pub fn begin_with(&mut self, first: &Bytes) {
        self.values[..first.values.len()].copy_from_slice(&first.values);
        self.known[..first.known.len()].copy_from_slice(&first.known);
    }

    /// What was known of a part before it was forgotten is so.
    pub fn put_back(&mut self, at: u64, before: &Bytes) {
        for (nth, value) in before.values.iter().enumerate().filter(|(nth, _)| before.known[*nth]) {
            self.write(at + nth as u64, &[*value]);
        }
    }

    /// Nobody can say any more what is there.
    pub fn forget(&mut self, range: Range<u64>) {
        self.known[range.start as usize..range.end as usize].fill(false);
    }

    /// The first byte that is known and is something else in `found`.
    pub fn differs_at(&self, found: &[u8]) -> Option<usize> {
        assert_eq!(self.values.len(), found.len(), "the same memory");
        (0..found.len()).find(|at| self.known[*at] && self.values[*at] != found[*at])
    }
}

/// What two ranges have in common.
pub fn common(one: &Range<u64>, other: &Range<u64>) -> Option<Range<u64>> {
    let both = one.start.max(other.start)..one.end.min(other.end);
    (both.start < both.end).then_some(both)
}
