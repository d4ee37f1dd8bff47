//! Regions that processes let others on their host move without a call of theirs, as a rail over
//! shared memory has them: there are few places, each key has one at most, and whoever may not
//! touch the other's memory, or comes at the wrong moment, has to ask.

use crate::memory::Memory;
use sluice_link::{Published, RailError, Rights};
use sluice_wire::{PeerId, Region};

#[derive(Clone, Copy, Debug)]
struct Shown {
    key: u64,
    region: Region,
    first: u64,
    rights: Rights,
}

/// Bytes that have moved at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MovedAtOnce {
    pub peer: usize,
    pub key: u64,
    pub offset: u64,
    pub len: u64,
    pub is_write: bool,
}

/// What all processes have published, by process and place.
#[derive(Debug)]
pub(crate) struct AllPublished {
    shown: Vec<Vec<Option<Shown>>>,
    places: usize,
    /// What has moved, until somebody looks.
    pub moved: Vec<MovedAtOnce>,
}

impl AllPublished {
    pub fn new(processes: usize, places: usize) -> AllPublished {
        AllPublished { shown: vec![Vec::new(); processes], places, moved: Vec::new() }
    }
}

/// The same as one process sees it, and the memory of the others.
pub(crate) struct Reach<'a> {
    pub me: usize,
    pub all: &'a mut AllPublished,
    /// Memory of the processes below this one, and above.
    pub below: &'a mut [Memory],
    pub above: &'a mut [Memory],
    /// Whose memory it may not touch, whether it knows that or not.
    pub unreadable: &'a [bool],
    pub forbidden: &'a [bool],
    /// Who has ended.
    pub dead: Option<usize>,
    /// Which attempts come at a wrong moment: a bit for each, the first one lowest.
    pub misses: u64,
}

impl Reach<'_> {
    pub fn publish(
        &mut self,
        key: u64,
        region: Region,
        first: u64,
        rights: Rights,
    ) -> Option<Published> {
        let places = self.all.places;
        let mine = &mut self.all.shown[self.me];
        if mine.iter().flatten().any(|shown| shown.key == key) {
            return None;
        }
        mine.resize(places, None);
        let place = mine.iter().position(Option::is_none)?;
        mine[place] = Some(Shown { key, region, first, rights });
        Some(Published(place as u16))
    }

    pub fn withdraw(&mut self, published: Published) {
        let shown = self.all.shown[self.me][usize::from(published.0)].take();
        assert!(shown.is_some(), "process {} withdraws what it has not published", self.me);
    }

    /// Moves bytes between `local` and a region of a peer on this host, if it may.
    pub fn move_now(
        &mut self,
        own: &mut Memory,
        peer: PeerId,
        (key, offset): (u64, u64),
        local: Region,
        is_write: bool,
    ) -> Option<Result<(), RailError>> {
        let is_missed = self.misses & 1 == 1;
        self.misses >>= 1;
        let peer = peer.index();
        if is_missed || peer == self.me || self.unreadable[peer] || self.forbidden[peer] {
            return None;
        }
        let shown = self.all.shown[peer].iter().flatten().find(|shown| shown.key == key)?;
        let may = if is_write { shown.rights.write } else { shown.rights.read };
        let at = offset.checked_sub(shown.first)?;
        let fits = at.checked_add(local.len).is_some_and(|end| end <= shown.region.len);
        if !may || !fits {
            return None;
        }
        // Its memory is gone with it; that this was published is still to be read.
        if self.dead == Some(peer) {
            return Some(Err(RailError::PeerGone));
        }
        let there = Region { addr: shown.region.addr.offset(at), len: local.len };
        let theirs = if peer < self.me {
            &mut self.below[peer]
        } else {
            &mut self.above[peer - self.me - 1]
        };
        if local.len > 0 && is_write {
            theirs.write(there.addr, own.read(local));
        } else if local.len > 0 {
            own.write(local.addr, theirs.read(there));
        }
        self.all.moved.push(MovedAtOnce { peer, key, offset, len: local.len, is_write });
        Some(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Rights = Rights { read: true, write: true };

    fn reach<'a>(
        me: usize,
        all: &'a mut AllPublished,
        above: &'a mut [Memory],
        dead: Option<usize>,
        misses: u64,
    ) -> Reach<'a> {
        let (unreadable, forbidden) = (&[false; 2], &[false; 2]);
        Reach { me, all, below: &mut [], above, unreadable, forbidden, dead, misses }
    }

    /// What becomes of four bytes that process 0 writes at an offset of region 7 of process 1,
    /// whose 16 bytes begin at offset 100.
    fn written(offset: u64, rights: Rights, misses: u64, dead: Option<usize>) -> String {
        let mut all = AllPublished::new(2, 1);
        let (mut own, mut theirs) = (Memory::new(true), [Memory::new(true)]);
        let (local, region) = (own.alloc(4), theirs[0].alloc(16));
        own.write(local.addr, b"abcd");
        let mut owner = reach(1, &mut all, &mut [], dead, misses);
        assert!(owner.publish(7, region, 100, rights).is_some());
        assert_eq!(owner.publish(7, region, 0, rights), None, "a key has one place");
        assert_eq!(owner.publish(8, region, 0, rights), None, "there is one place");
        let mut writer = reach(0, &mut all, &mut theirs, dead, misses);
        let moved = writer.move_now(&mut own, PeerId(1), (7, offset), local, true);
        let found = theirs[0].read(Region { addr: region.addr.offset(12), len: 4 });
        format!("{moved:?} {found:?}")
    }

    #[test]
    fn bytes_move_where_they_may_and_else_are_asked_for() {
        assert_eq!(written(112, BOTH, 0, None), "Some(Ok(())) [97, 98, 99, 100]");
        let asked = "None [0, 0, 0, 0]";
        assert_eq!(written(113, BOTH, 0, None), asked, "beyond the end");
        assert_eq!(written(99, BOTH, 0, None), asked, "before the first");
        assert_eq!(written(112, Rights { read: true, write: false }, 0, None), asked);
        assert_eq!(written(112, BOTH, 1, None), asked, "the wrong moment");
        assert_eq!(written(112, BOTH, 0, Some(1)), "Some(Err(PeerGone)) [0, 0, 0, 0]");
    }
}
