//! Regions of a process that its peers read and write without its call, in its mailbox's
//! shared memory.
//!
//! A line says where one region is. Who wants to move bytes finds it by its key, says in
//! its own entry of the mailbox that it uses that line ([`InUse`]), and looks at the line
//! again: only if that has not changed does it move. The owner takes a line back, and then
//! waits until nobody says that it uses it. Both write first and look then, with a fence in
//! between, so one of them sees the other (`published_loom`): once a region is taken back
//! nothing touches its memory.
//!
//! Invariants: the owner relies on nothing here, and knows its lines itself
//! ([`OwnPublished`]). What anybody else writes here makes a move go astray that the system
//! allows that process anyway.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use sluice_link::Rights;
use sluice_wire::{Addr, Region};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Most regions that a process publishes. Others are reached through its engine.
pub(crate) const PUBLISHED_MAX: u16 = 128;
/// Lines at which the region of a key may be, from the one that the key says.
const PROBES: u16 = 8;

/// Of a line's state: there is a region. The rest counts its changes.
const THERE: u64 = 1;
const STEP: u64 = 2;

/// Of a line's rights.
const READ: u64 = 1;
const WRITE: u64 = 2;

/// Where a region is, alone in its cache line.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Line {
    state: AtomicU64,
    key: AtomicU64,
    first: AtomicU64,
    addr: AtomicU64,
    len: AtomicU64,
    rights: AtomicU64,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Line>() == 64);

/// A region that peers may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: u64,
    /// The offset of its first byte.
    pub(crate) first: u64,
    pub(crate) region: Region,
    pub(crate) rights: Rights,
}

impl Entry {
    /// Where `len` bytes at `offset` are, to be written or read. `None` if they are not all
    /// in it, or that is not allowed.
    pub(crate) fn place(&self, offset: u64, len: u64, write: bool) -> Option<Addr> {
        let allowed = if write { self.rights.write } else { self.rights.read };
        let at = offset.checked_sub(self.first)?;
        let fits = at.checked_add(len).is_some_and(|end| end <= self.region.len);
        (allowed && fits).then(|| self.region.addr.offset(at))
    }
}

/// A line as it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    state: u64,
    pub(crate) entry: Entry,
}

impl Line {
    /// What is there. `None`: nothing, or it changes now.
    pub(crate) fn read(&self) -> Option<Seen> {
        let state = self.state.load(Ordering::Acquire);
        if state & THERE == 0 {
            return None;
        }
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let rights = load(&self.rights);
        let entry = Entry {
            key: load(&self.key),
            first: load(&self.first),
            region: Region { addr: Addr(load(&self.addr)), len: load(&self.len) },
            rights: Rights { read: rights & READ != 0, write: rights & WRITE != 0 },
        };
        Some(Seen { state, entry })
    }

    /// Whether it is as it was seen, for who has said that it uses it: then it stays so
    /// until that is taken back.
    pub(crate) fn is_still(&self, seen: &Seen) -> bool {
        // Also what was read of it before is of that state: it was whole then.
        fence(Ordering::SeqCst);
        self.state.load(Ordering::Relaxed) == seen.state
    }

    /// The owner puts a region there, where none is.
    pub(crate) fn publish(&self, entry: &Entry) {
        let store = |word: &AtomicU64, value| word.store(value, Ordering::Relaxed);
        let right = |is_given, right| if is_given { right } else { 0 };
        let rights = right(entry.rights.read, READ) | right(entry.rights.write, WRITE);
        // Whoever still reads what was there before sees that the state has changed.
        fence(Ordering::SeqCst);
        store(&self.key, entry.key);
        store(&self.first, entry.first);
        store(&self.addr, entry.region.addr.0);
        store(&self.len, entry.region.len);
        store(&self.rights, rights);
        let state = self.state.load(Ordering::Relaxed);
        self.state.store((state & !THERE).wrapping_add(STEP) | THERE, Ordering::Release);
    }

    /// The owner takes it back. Who uses it is to be waited for next.
    pub(crate) fn withdraw(&self) {
        let state = self.state.load(Ordering::Relaxed);
        self.state.store((state & !THERE).wrapping_add(STEP), Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

/// What a writer says that it uses: the place of a line, or nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InUse<'a>(pub(crate) &'a AtomicU64);

impl InUse<'_> {
    /// To be said before [`Line::is_still`].
    pub(crate) fn begin(self, place: u16) {
        self.0.store(u64::from(place) + 1, Ordering::Relaxed);
    }

    /// Nothing touches the memory after this.
    pub(crate) fn end(self) {
        self.0.store(0, Ordering::Release);
    }

    /// Whether it uses the line at this place; asked by the owner after
    /// [`Line::withdraw`].
    pub(crate) fn is(self, place: u16) -> bool {
        self.0.load(Ordering::Acquire) == u64::from(place) + 1
    }
}

/// The places at which the region of this key may be.
pub(crate) fn places(key: u64) -> impl Iterator<Item = u16> {
    // The multiplier of Fibonacci hashing: keys are often numbers in a row.
    let begin = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u16;
    (0..PROBES).map(move |nth| begin.wrapping_add(nth) % PUBLISHED_MAX)
}

/// The keys of the regions that this process has published, by place.
#[derive(Debug)]
pub(crate) struct OwnPublished {
    keys: Vec<Option<u64>>,
}

impl OwnPublished {
    pub(crate) fn new() -> OwnPublished {
        OwnPublished { keys: vec![None; usize::from(PUBLISHED_MAX)] }
    }

    /// A place for the region of this key. `None` if there is none, or if the key is that of
    /// another one already.
    pub(crate) fn take(&mut self, key: u64) -> Option<u16> {
        let mut free = None;
        for place in places(key) {
            match self.keys[usize::from(place)] {
                Some(other) if other == key => return None,
                Some(_) => {}
                None => free = free.or(Some(place)),
            }
        }
        self.keys[usize::from(free?)] = Some(key);
        free
    }

    /// Whether a region is there, which is not any more.
    pub(crate) fn give_back(&mut self, place: u16) -> bool {
        self.keys.get_mut(usize::from(place)).is_some_and(|key| key.take().is_some())
    }

    /// Where regions are.
    pub(crate) fn taken(&self) -> impl Iterator<Item = u16> {
        (0..PUBLISHED_MAX).filter(|place| self.keys[usize::from(*place)].is_some())
    }
}

#[cfg(all(test, loom))]
#[path = "published_loom.rs"]
mod published_loom;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn line() -> Line {
        let word = || AtomicU64::new(0);
        Line {
            state: word(),
            key: word(),
            first: word(),
            addr: word(),
            len: word(),
            rights: word(),
        }
    }

    fn entry(key: u64) -> Entry {
        let region = Region { addr: Addr(1000), len: 100 };
        Entry { key, first: 50, region, rights: Rights::READ }
    }

    #[test]
    fn only_bytes_of_the_region_with_the_right_have_a_place() {
        let entry = entry(1);
        assert_eq!(entry.place(50, 100, false), Some(Addr(1000)));
        assert_eq!(entry.place(149, 1, false), Some(Addr(1099)));
        assert_eq!(entry.place(150, 0, false), Some(Addr(1100)));
        for (offset, len, write) in
            [(49, 1, false), (50, 101, false), (150, 1, false), (u64::MAX, 2, false), (60, 1, true)]
        {
            assert_eq!(entry.place(offset, len, write), None, "{len} at {offset}");
        }
    }

    #[test]
    fn a_line_that_was_taken_back_is_not_what_was_seen() {
        let line = line();
        assert!(line.read().is_none());
        line.publish(&entry(1));
        let seen = line.read().unwrap();
        assert_eq!(seen.entry, entry(1));
        assert!(line.is_still(&seen));
        line.withdraw();
        assert!(!line.is_still(&seen) && line.read().is_none());
        line.publish(&entry(2));
        assert!(!line.is_still(&seen));
        assert_eq!(line.read().unwrap().entry.key, 2);
    }

    #[test]
    fn a_key_is_published_once_and_as_many_as_there_are_places() {
        let mut own = OwnPublished::new();
        let place = own.take(7).unwrap();
        assert!(places(7).any(|at| at == place));
        assert_eq!(own.take(7), None);
        assert!(own.give_back(place) && !own.give_back(place));
        let taken = (0..10_000).filter_map(|key| own.take(key)).count();
        assert!(taken > usize::from(PUBLISHED_MAX) / 2 && own.taken().count() == taken);
        assert!(!own.give_back(PUBLISHED_MAX));
    }
}
