//! Memory of this process that peers read by the device itself.
//!
//! It is registered when a peer first asks where it is, and closed before it may be something
//! else. A device that cannot close it is given up, with all that it holds; until another
//! endpoint is open ([`super::mending`]) it tries again to close what it could not.

use super::super::fetches::Whereabouts;
use super::Device;
use rustix::rand::{GetRandomFlags, getrandom};
use sluice_wire::{Region, RemoteKey};
use std::ptr;

impl Device {
    /// Has peers read memory that is exposed under a key. Says where it is for them; `None`
    /// if it cannot be so, as when too much is registered: then it is sent.
    pub(crate) fn expose(&mut self, key: RemoteKey, region: Region) -> Option<Whereabouts> {
        if let Some(known) = self.exposed.get(&key) {
            return Some(Whereabouts { key: known.key, base: known.base });
        }
        if self.is_broken || !self.reads_memory {
            return None;
        }
        let mut bits = [0; 8];
        if getrandom(&mut bits, GetRandomFlags::empty()) != Ok(bits.len()) {
            return None;
        }
        let at = ptr::with_exposed_provenance_mut(region.addr.0 as usize);
        let len = usize::try_from(region.len).ok()?;
        // SAFETY: the client exposes the memory until it revokes the key, when it is closed.
        let registered =
            unsafe { self.endpoint.register(at, len, u64::from_le_bytes(bits)) }.ok()?;
        let found = Whereabouts { key: registered.key, base: registered.base };
        self.exposed.insert(key, registered);
        Some(found)
    }

    /// Ends that, before the memory may be something else.
    pub(crate) fn withdraw(&mut self, key: RemoteKey) {
        let Some(registered) = self.exposed.remove(&key) else { return };
        if let Err(why) = self.endpoint.unregister(registered) {
            self.close_failures += 1;
            if !self.is_broken {
                self.break_all(&why);
            }
        }
    }

    /// The same of all.
    pub(super) fn withdraw_all(&mut self) {
        for (_, registered) in self.exposed.drain() {
            // What stays open the endpoint tries to close once more at its end.
            let _ = self.endpoint.unregister(registered);
        }
    }
}

/// A domain is closed when nothing is registered with it.
impl Drop for Device {
    fn drop(&mut self) {
        self.withdraw_all();
    }
}
