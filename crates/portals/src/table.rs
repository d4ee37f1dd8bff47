//! A slab whose handles know when they are stale: the slot's generation is
//! part of the handle, so a handle kept too long finds nothing instead of
//! somebody else's entry.

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU32;

/// Names an entry of a [`Table`], or a record of a match list. Stale handles
/// are harmless.
pub struct Handle<T> {
    index: u32,
    /// Never zero, so that the number 0 names nothing and an optional handle
    /// takes no more room.
    generation: NonZeroU32,
    of: PhantomData<fn() -> T>,
}

const _: () = assert!(size_of::<Option<Handle<u64>>>() == 8);

impl<T> Handle<T> {
    /// A handle that names nothing.
    pub(crate) const STALE: Handle<T> =
        Handle { index: u32::MAX, generation: NonZeroU32::MAX, of: PhantomData };

    #[inline]
    pub(crate) fn new(index: u32, generation: NonZeroU32) -> Handle<T> {
        Handle { index, generation, of: PhantomData }
    }

    #[inline]
    pub(crate) fn index(self) -> u32 {
        self.index
    }

    #[inline]
    pub(crate) fn generation(self) -> NonZeroU32 {
        self.generation
    }

    /// As a number, for a field of a header or of user data.
    #[must_use]
    #[inline]
    pub fn to_u64(self) -> u64 {
        u64::from(self.generation.get()) << 32 | u64::from(self.index)
    }

    /// Back from a number, which may come from anywhere: a wrong one names
    /// nothing.
    #[must_use]
    #[inline]
    pub fn from_u64(number: u64) -> Handle<T> {
        NonZeroU32::new((number >> 32) as u32)
            .map_or(Handle::STALE, |generation| Handle::new(number as u32, generation))
    }
}

/// Names nothing.
impl<T> Default for Handle<T> {
    fn default() -> Self {
        Handle::STALE
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Handle<T> {}
impl<T> PartialEq for Handle<T> {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index && self.generation == other.generation
    }
}
impl<T> Eq for Handle<T> {}
impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}v{}", self.index, self.generation)
    }
}

/// No generation of an entry is greater, so that a handle as a number leaves the highest bit
/// to names of another kind.
pub(crate) const GENERATION_MAX: u32 = u32::MAX >> 1;

/// The generation that follows one; after the last, the first.
#[inline]
fn next_generation(generation: NonZeroU32) -> NonZeroU32 {
    NonZeroU32::new((generation.get() + 1) & GENERATION_MAX).unwrap_or(NonZeroU32::MIN)
}

#[derive(Debug)]
enum Slot<T> {
    Free { next: u32 },
    Full(T),
}

const NO_SLOT: u32 = u32::MAX;

/// Entries of one kind, at most `entries_max` of them.
#[derive(Debug)]
pub struct Table<T> {
    slots: Vec<(NonZeroU32, Slot<T>)>,
    free_head: u32,
    len: u32,
    entries_max: u32,
}

impl<T> Table<T> {
    /// Bytes that an entry takes.
    pub const ENTRY_BYTES: usize = size_of::<(NonZeroU32, Slot<T>)>();

    /// An empty table that will hold at most `entries_max` entries.
    #[must_use]
    pub fn new(entries_max: u32) -> Table<T> {
        Table { slots: Vec::new(), free_head: NO_SLOT, len: 0, entries_max }
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many entries fit.
    #[must_use]
    pub fn entries_max(&self) -> u32 {
        self.entries_max
    }

    /// Room for so many is kept back, if there is: fewer fit until it is given again.
    ///
    /// # Panics
    /// If there is not.
    pub fn keep_room(&mut self, count: u32) {
        assert!(self.entries_max >= self.len + count, "there is room for what is kept");
        self.entries_max -= count;
    }

    /// Gives again what [`Table::keep_room`] has kept.
    pub fn give_room(&mut self, count: u32) {
        self.entries_max += count;
    }

    /// Whether no more fits.
    #[must_use]
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len >= self.entries_max
    }

    /// The handle that the next [`Table::insert`] will give.
    #[must_use]
    #[inline]
    pub fn next_handle(&self) -> Handle<T> {
        match self.slots.get(self.free_head as usize) {
            Some((generation, _)) => Handle::new(self.free_head, *generation),
            None => Handle::new(self.slots.len() as u32, NonZeroU32::MIN),
        }
    }

    /// Adds an entry; gives it back if the table is full.
    ///
    /// # Errors
    /// The entry itself.
    #[inline(always)]
    pub fn insert(&mut self, entry: T) -> Result<Handle<T>, T> {
        if self.is_full() {
            return Err(entry);
        }
        Ok(self.insert_beyond(entry))
    }

    /// Adds an entry also where the table is full, for what is bounded by something else.
    // In line, so that an entry is put together in its place.
    #[inline(always)]
    pub fn insert_beyond(&mut self, entry: T) -> Handle<T> {
        self.len += 1;
        if self.free_head == NO_SLOT {
            self.grow();
        }
        let index = self.free_head;
        let (generation, slot) = &mut self.slots[index as usize];
        if let Slot::Free { next } = *slot {
            self.free_head = next;
        }
        *slot = Slot::Full(entry);
        Handle::new(index, *generation)
    }

    /// Makes a free slot, so that entries are only ever written in one place.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.free_head = self.slots.len() as u32;
        self.slots.push((NonZeroU32::MIN, Slot::Free { next: NO_SLOT }));
    }

    /// The entry, if the handle is not stale.
    #[must_use]
    #[inline]
    pub fn get(&self, handle: Handle<T>) -> Option<&T> {
        match self.slots.get(handle.index as usize) {
            Some((generation, Slot::Full(entry))) if *generation == handle.generation => {
                Some(entry)
            }
            _ => None,
        }
    }

    /// The entry, to be changed, if the handle is not stale.
    #[must_use]
    #[inline]
    pub fn get_mut(&mut self, handle: Handle<T>) -> Option<&mut T> {
        match self.slots.get_mut(handle.index as usize) {
            Some((generation, Slot::Full(entry))) if *generation == handle.generation => {
                Some(entry)
            }
            _ => None,
        }
    }

    /// Takes the entry out, if the handle is not stale.
    #[inline]
    pub fn remove(&mut self, handle: Handle<T>) -> Option<T> {
        match self.vacate(handle, std::mem::replace)? {
            Slot::Full(entry) => Some(entry),
            Slot::Free { .. } => None,
        }
    }

    /// Drops the entry, which spares the fast path a copy of it. False if the
    /// handle is stale.
    #[inline]
    pub fn discard(&mut self, handle: Handle<T>) -> bool {
        self.vacate(handle, |slot, free| *slot = free).is_some()
    }

    /// Frees the slot of an entry by `put`, which puts the second slot into the place of the
    /// first.
    #[inline(always)]
    fn vacate<R>(
        &mut self,
        handle: Handle<T>,
        put: impl FnOnce(&mut Slot<T>, Slot<T>) -> R,
    ) -> Option<R> {
        let (generation, slot) = self.slots.get_mut(handle.index as usize)?;
        if *generation != handle.generation || matches!(slot, Slot::Free { .. }) {
            return None;
        }
        let done = put(slot, Slot::Free { next: self.free_head });
        *generation = next_generation(*generation);
        self.free_head = handle.index;
        self.len -= 1;
        Some(done)
    }

    /// All entries, in no particular but a reproducible order.
    pub fn iter(&self) -> impl Iterator<Item = (Handle<T>, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, (generation, slot))| match slot {
            Slot::Full(entry) => Some((Handle::new(index as u32, *generation), entry)),
            Slot::Free { .. } => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_handle_finds_nothing() {
        let mut table = Table::new(4);
        let first = table.insert('a').unwrap();
        assert_eq!(table.remove(first), Some('a'));
        let second = table.insert('b').unwrap();
        assert_eq!(table.get(first), None);
        assert_eq!(table.remove(first), None);
        assert_eq!(table.get(second), Some(&'b'));
        assert_eq!(table.get(Handle::from_u64(second.to_u64())), Some(&'b'));
        assert_eq!(table.get(Handle::from_u64(0)), None);
    }

    #[test]
    fn a_full_table_gives_the_entry_back() {
        let mut table = Table::new(1);
        let expected = table.next_handle();
        assert_eq!(table.insert(1), Ok(expected));
        assert_eq!(table.insert(2), Err(2));
        table.remove(expected);
        assert_eq!(table.next_handle(), table.insert(3).unwrap());
    }
}
