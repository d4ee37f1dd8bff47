//! A queue whose records are written and read where they are: one as large as that of an
//! operation is not to be moved on its way in and out.

/// A queue that grows as it is used.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    /// A power of two of them, or none.
    slots: Vec<T>,
    head: usize,
    len: usize,
}

/// Slots of the first growth.
const FIRST: usize = 4;

impl<T: Copy> Ring<T> {
    pub fn new() -> Ring<T> {
        Ring { slots: Vec::new(), head: 0, len: 0 }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slot of a new last record, to be written: it has `blank`, or what was there before.
    #[inline(always)]
    pub fn push(&mut self, blank: T) -> &mut T {
        if self.len == self.slots.len() {
            self.grow(blank);
        }
        let at = self.place(self.len);
        self.len += 1;
        &mut self.slots[at]
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, blank: T) {
        let mut slots: Vec<T> = self.iter().copied().collect();
        slots.resize((self.len * 2).max(FIRST), blank);
        (self.slots, self.head) = (slots, 0);
    }

    /// Drops the first `count` records, or all if there are fewer.
    #[inline]
    pub fn pop_first(&mut self, count: usize) {
        let count = count.min(self.len);
        self.head = self.place(count);
        self.len -= count;
    }

    pub fn pop_back(&mut self) -> Option<T> {
        let last = self.get(self.len.checked_sub(1)?).copied();
        self.len -= 1;
        last
    }

    #[inline(always)]
    pub fn get(&self, nth: usize) -> Option<&T> {
        if nth < self.len { self.slots.get(self.place(nth)) } else { None }
    }

    #[inline(always)]
    pub fn get_mut(&mut self, nth: usize) -> Option<&mut T> {
        let at = self.place(nth);
        if nth < self.len { self.slots.get_mut(at) } else { None }
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        (0..self.len).map(|nth| &self.slots[self.place(nth)])
    }

    #[inline(always)]
    fn place(&self, nth: usize) -> usize {
        (self.head + nth) & self.slots.len().wrapping_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn it_is_a_queue(steps in prop::collection::vec(0..5_u8, 0..200)) {
            let (mut ring, mut model) = (Ring::new(), VecDeque::new());
            for (nth, step) in steps.into_iter().enumerate() {
                match step {
                    0 => {
                        ring.pop_first(nth % 3);
                        model.drain(..model.len().min(nth % 3));
                    }
                    1 => prop_assert_eq!(ring.pop_back(), model.pop_back()),
                    _ => {
                        *ring.push(0) = nth;
                        model.push_back(nth);
                    }
                }
                prop_assert_eq!(ring.len(), model.len());
                prop_assert!(ring.iter().eq(model.iter()));
                prop_assert_eq!(ring.get(0), model.front());
                prop_assert_eq!(ring.get(ring.len()), None);
                prop_assert_eq!(ring.get_mut(2), model.get_mut(2));
            }
        }
    }
}
