//! A place in memory that is sent from or received into.
//!
//! It may be memory of the client, which may be gone: the system says so where it copies;
//! who copies here asks before ([`Place::is_readable`]). The answer holds for the moment:
//! memory that another thread unmaps between it and the copy is not protected.

use crate::shm::{is_readable, is_writable};
use sluice_wire::{Addr, Region};

/// A place in memory of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) at: *mut u8,
    pub(crate) len: usize,
}

impl Place {
    pub(super) const NONE: Place = Place { at: std::ptr::null_mut(), len: 0 };

    /// Bytes that are only read.
    pub(super) fn of(bytes: &[u8]) -> Place {
        Place { at: bytes.as_ptr().cast_mut(), len: bytes.len() }
    }

    pub(crate) fn of_mut(bytes: &mut [u8]) -> Place {
        Place { at: bytes.as_mut_ptr(), len: bytes.len() }
    }

    /// Memory of the client, as the machine names it.
    pub(crate) fn of_region(region: Region) -> Place {
        let at = std::ptr::with_exposed_provenance_mut(region.addr.0 as usize);
        Place { at, len: region.len as usize }
    }

    fn region(&self) -> Region {
        Region { addr: Addr(self.at.addr() as u64), len: self.len as u64 }
    }

    /// Whether all of it can be read now: for those who copy memory of the client themselves.
    pub(crate) fn is_readable(&self) -> bool {
        is_readable(self.region())
    }

    /// As [`Place::is_readable`], for writing.
    pub(crate) fn is_writable(&self) -> bool {
        is_writable(self.region())
    }
}
