//! What a process has exposed of its memory: the table in which keys are looked up by
//! whoever carries out the moves of its peers.
//!
//! A key is the index of a place in the table, and the generation of what is in it. A
//! place whose generations are used up is not used again, so a key that was revoked is
//! never valid again.
//!
//! Invariant: what a key reaches lies inside the region that was exposed under it, to
//! this peer, with this right, and not revoked since.

use crate::port::{RailError, Remote, Rights};
use sluice_wire::{Addr, PeerId, Region, RemoteKey};

/// The last generation of a place: keys with all bits set are none.
const GENERATION_MAX: u32 = u32::MAX - 1;

/// Why a key does not reach memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// There is no such key, or it was revoked.
    #[error("no such key, or it was revoked")]
    Unknown,
    /// It is of another peer.
    #[error("the key is of another peer")]
    Peer,
    /// It does not give this right.
    #[error("the key does not give this right")]
    Right,
    /// The memory that it names cannot be used: that was tried.
    #[error("the memory that it names cannot be used")]
    Spoiled,
    /// The bytes are not all inside what it names.
    #[error("beyond what the key names")]
    Bounds,
}

impl From<KeyError> for RailError {
    /// What it means to who wants to move bytes.
    fn from(_: KeyError) -> RailError {
        RailError::Fault
    }
}

/// A region that is exposed.
#[derive(Clone, Copy, Debug)]
struct Exposure {
    peer: PeerId,
    region: Region,
    rights: Rights,
    is_spoiled: bool,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    /// Of what is in it, or was last; zero before the first one.
    generation: u32,
    exposure: Option<Exposure>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Exposures {
    places: Vec<Place>,
    /// The one that was left last is used first.
    free: Vec<u32>,
}

impl Exposures {
    /// Exposes a region to a peer.
    ///
    /// # Panics
    /// If 2^32 regions are exposed: a machine bounds its operations far below.
    pub fn expose(&mut self, peer: PeerId, region: Region, rights: Rights) -> RemoteKey {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: 0, exposure: None });
            u32::try_from(self.places.len() - 1).expect("fewer operations than that")
        });
        let place = &mut self.places[index as usize];
        place.generation += 1;
        place.exposure = Some(Exposure { peer, region, rights, is_spoiled: false });
        RemoteKey::from_bits(u64::from(place.generation) << 32 | u64::from(index))
    }

    /// Ends that.
    ///
    /// # Errors
    /// [`KeyError`] if the key is not one of this peer, or not one any more.
    pub fn revoke(&mut self, peer: PeerId, key: RemoteKey) -> Result<(), KeyError> {
        self.find(peer, key)?;
        let (index, generation) = parts(key);
        self.places[index as usize].exposure = None;
        if generation < GENERATION_MAX {
            self.free.push(index);
        }
        Ok(())
    }

    /// The memory of a key gave a fault when it was used: the key reaches nothing from now
    /// on, and is still to be revoked.
    pub fn spoil(&mut self, peer: PeerId, key: RemoteKey) {
        if self.find(peer, key).is_ok()
            && let Some(exposure) = &mut self.places[parts(key).0 as usize].exposure
        {
            exposure.is_spoiled = true;
        }
    }

    /// Where `len` bytes are that a peer wants to read, or to write.
    ///
    /// # Errors
    /// Why it may not.
    pub fn resolve(
        &self,
        peer: PeerId,
        remote: Remote,
        len: u64,
        is_write: bool,
    ) -> Result<Addr, KeyError> {
        let Exposure { region, rights, is_spoiled, .. } = *self.find(peer, remote.key)?;
        if is_spoiled {
            return Err(KeyError::Spoiled);
        }
        if !(if is_write { rights.write } else { rights.read }) {
            return Err(KeyError::Right);
        }
        let end = remote.offset.checked_add(len);
        if end.is_none_or(|end| end > region.len) {
            return Err(KeyError::Bounds);
        }
        Ok(region.addr.offset(remote.offset))
    }

    /// All memory that a key lets a peer read.
    #[must_use]
    pub fn readable(&self, peer: PeerId, key: RemoteKey) -> Option<Region> {
        let exposure = self.find(peer, key).ok()?;
        (exposure.rights.read && !exposure.is_spoiled).then_some(exposure.region)
    }

    /// How many regions are exposed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.iter().filter(|place| place.exposure.is_some()).count()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn find(&self, peer: PeerId, key: RemoteKey) -> Result<&Exposure, KeyError> {
        let (index, generation) = parts(key);
        let place = self.places.get(index as usize).filter(|place| place.generation == generation);
        let exposure = place.and_then(|place| place.exposure.as_ref()).ok_or(KeyError::Unknown)?;
        if exposure.peer == peer { Ok(exposure) } else { Err(KeyError::Peer) }
    }
}

/// Index and generation.
fn parts(key: RemoteKey) -> (u32, u32) {
    (key.bits() as u32, (key.bits() >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: PeerId = PeerId(1);
    const TWO: PeerId = PeerId(2);
    const MEMORY: Region = Region { addr: Addr(100), len: 10 };

    fn at(key: RemoteKey, offset: u64) -> Remote {
        Remote { key, offset }
    }

    #[test]
    fn a_key_reaches_what_was_exposed_and_no_byte_more() {
        let mut exposures = Exposures::default();
        let key = exposures.expose(ONE, MEMORY, Rights::READ);
        for (offset, len, wanted) in [
            (0, 10, Ok(Addr(100))),
            (9, 1, Ok(Addr(109))),
            (10, 0, Ok(Addr(110))),
            (10, 1, Err(KeyError::Bounds)),
            (0, 11, Err(KeyError::Bounds)),
            (11, 0, Err(KeyError::Bounds)),
            (u64::MAX, 1, Err(KeyError::Bounds)),
            (1, u64::MAX, Err(KeyError::Bounds)),
        ] {
            let found = exposures.resolve(ONE, at(key, offset), len, false);
            assert_eq!(found, wanted, "{len} bytes at {offset}");
        }
    }

    #[test]
    fn a_key_is_of_one_peer_and_one_right() {
        let mut exposures = Exposures::default();
        let read = exposures.expose(ONE, MEMORY, Rights::READ);
        let write = exposures.expose(ONE, MEMORY, Rights::WRITE);
        let both = exposures.expose(ONE, MEMORY, Rights { read: true, write: true });
        let may = |peer, key, is_write| {
            exposures.resolve(peer, Remote::whole(key), 10, is_write).map(drop)
        };
        assert_eq!((may(ONE, read, false), may(ONE, read, true)), (Ok(()), Err(KeyError::Right)));
        assert_eq!((may(ONE, write, true), may(ONE, write, false)), (Ok(()), Err(KeyError::Right)));
        assert_eq!((may(ONE, both, true), may(ONE, both, false)), (Ok(()), Ok(())));
        assert_eq!(may(TWO, both, false), Err(KeyError::Peer));
        assert_eq!(exposures.revoke(TWO, both), Err(KeyError::Peer));
        assert_eq!(exposures.len(), 3);
    }

    #[test]
    fn a_revoked_key_never_reaches_memory_again() {
        let mut exposures = Exposures::default();
        let mut revoked = Vec::new();
        for _ in 0..100 {
            let key = exposures.expose(ONE, MEMORY, Rights::READ);
            assert!(key.is_some());
            assert_eq!(exposures.revoke(ONE, key), Ok(()));
            assert_eq!(exposures.revoke(ONE, key), Err(KeyError::Unknown), "revoked once");
            revoked.push(key);
        }
        assert!(exposures.is_empty());
        assert_eq!(exposures.places.len(), 1, "the place is used again");
        let key = exposures.expose(ONE, MEMORY, Rights::READ);
        for key in revoked {
            let found = exposures.resolve(ONE, Remote::whole(key), 0, false);
            assert_eq!(found, Err(KeyError::Unknown));
        }
        assert!(exposures.resolve(ONE, Remote::whole(key), 10, false).is_ok());
    }

    #[test]
    fn a_key_whose_memory_faults_reaches_nothing_until_it_is_revoked() {
        let mut exposures = Exposures::default();
        let key = exposures.expose(ONE, MEMORY, Rights::READ);
        exposures.spoil(TWO, key);
        assert!(exposures.resolve(ONE, Remote::whole(key), 10, false).is_ok());
        exposures.spoil(ONE, key);
        let found = exposures.resolve(ONE, Remote::whole(key), 1, false);
        assert_eq!((found, exposures.len()), (Err(KeyError::Spoiled), 1));
        assert_eq!(exposures.revoke(ONE, key), Ok(()));
        exposures.spoil(ONE, key);
        let next = exposures.expose(ONE, MEMORY, Rights::READ);
        assert!(exposures.resolve(ONE, Remote::whole(next), 10, false).is_ok());
    }

    #[test]
    fn a_place_whose_generations_are_used_up_is_left() {
        let mut exposures = Exposures::default();
        let first = exposures.expose(ONE, MEMORY, Rights::READ);
        assert_eq!(exposures.revoke(ONE, first), Ok(()));
        exposures.places[0].generation = GENERATION_MAX - 1;
        let last = exposures.expose(ONE, MEMORY, Rights::READ);
        assert_eq!(parts(last), (0, GENERATION_MAX));
        assert_eq!(exposures.revoke(ONE, last), Ok(()));
        let next = exposures.expose(ONE, MEMORY, Rights::READ);
        assert_eq!(parts(next), (1, 1));
        assert_eq!(exposures.resolve(ONE, Remote::whole(last), 1, false), Err(KeyError::Unknown));
    }

    #[test]
    fn keys_that_nobody_gave_out_are_unknown() {
        let mut exposures = Exposures::default();
        let key = exposures.expose(ONE, MEMORY, Rights::READ);
        let near = [key.bits() + 1, key.bits() - 1, key.bits() + (1 << 32), 1, 1 << 32, 7 << 32];
        for bits in near.into_iter().chain([0, u64::MAX]) {
            let other = RemoteKey::from_bits(bits);
            if other != key {
                let found = exposures.resolve(ONE, Remote::whole(other), 0, false);
                assert_eq!(found, Err(KeyError::Unknown), "{bits:#x}");
            }
        }
    }
}
