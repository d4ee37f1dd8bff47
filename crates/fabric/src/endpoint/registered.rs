//! Memory that peers may read.

use super::Endpoint;
use crate::FabricError;
use crate::ffi::{self, FI_MR_PROV_KEY, FI_MR_VIRT_ADDR, fid_mr};
use crate::memory::close;

/// Memory that peers may read.
#[derive(Debug)]
pub struct Registered {
    region: *mut fid_mr,
    /// By which they read it.
    pub key: u64,
    /// Where for them its first byte is.
    pub base: u64,
}

// SAFETY: the borrow of what is registered is of one thread at a time, as above.
unsafe impl Send for Registered {}

impl Endpoint {
    /// Lets peers read memory. `key` is what they need, unless the provider makes one.
    ///
    /// # Errors
    /// [`FabricError`], also of memory that is not there.
    ///
    /// # Safety
    /// The memory may be read until [`Endpoint::unregister`].
    pub unsafe fn register(
        &mut self,
        at: *mut u8,
        len: usize,
        key: u64,
    ) -> Result<Registered, FabricError> {
        // SAFETY: attributes hang from the offer.
        let key_bytes = unsafe { (*self.offer.info().domain_attr).hints.mr_key_size };
        let bits = u32::try_from(8 * key_bytes.min(8)).unwrap_or(64);
        let key = if bits == 64 { key } else { key & ((1 << bits) - 1) };
        let mode = self.offer.mr_mode();
        let asked = if mode & FI_MR_PROV_KEY != 0 { 0 } else { key };
        // SAFETY: the caller's promise.
        let region = unsafe { self.registrar().register(at, len, ffi::FI_REMOTE_READ, asked)? };
        // SAFETY: it is open.
        let key = unsafe { (*region).key };
        let base = if mode & FI_MR_VIRT_ADDR != 0 { at.expose_provenance() as u64 } else { 0 };
        Ok(Registered { region, key, base })
    }

    /// Ends that.
    ///
    /// # Errors
    /// [`FabricError`]: peers may still read it, until the endpoint is closed.
    pub fn unregister(&mut self, registered: Registered) -> Result<(), FabricError> {
        // What a forked process inherits is its parent's.
        if self.pid != std::process::id() {
            return Ok(());
        }
        // SAFETY: it is open, and nobody has it any more.
        let is_closed = unsafe { close(registered.region.cast()) };
        let busy = || FabricError::of("fi_close of memory", libc::EBUSY as isize);
        is_closed.then_some(()).ok_or_else(busy)
    }
}
