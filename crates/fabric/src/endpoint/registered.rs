//! Memory that peers may read.
//!
//! What the provider does not close stays with the endpoint, which tries again when it is
//! asked to and when it ends ([`Endpoint::close_again`]). Until all is closed nothing more is
//! registered, so that list is never longer than `REGISTERED_MAX`.

use super::Endpoint;
use crate::FabricError;
use crate::ffi::{self, FI_MR_PROV_KEY, FI_MR_VIRT_ADDR, fid_mr};
use crate::memory::close;

/// Most pieces of memory that are registered at once.
pub(super) const REGISTERED_MAX: usize = 1024;

/// Memory that peers may read.
#[derive(Debug)]
pub struct Registered {
    region: *mut fid_mr,
    /// By which they read it.
    pub key: u64,
    /// Where for them its first byte is.
    pub base: u64,
}

// SAFETY: it is an address, and what is there is closed by the endpoint, which one thread has at a
// time.
unsafe impl Send for Registered {}

impl Registered {
    /// The object of libfabric's.
    #[must_use]
    pub fn as_ptr(&self) -> *mut fid_mr {
        self.region
    }
}

impl Endpoint {
    /// Lets peers read memory. `key` is what they need, unless the provider makes one.
    ///
    /// # Errors
    /// [`FabricError`], also of memory that is not there, and if there are too many.
    ///
    /// # Safety
    /// The memory may be read until [`Endpoint::unregister`].
    pub unsafe fn register(
        &mut self,
        at: *mut u8,
        len: usize,
        key: u64,
    ) -> Result<Registered, FabricError> {
        if self.registered >= REGISTERED_MAX || !self.unclosed.is_empty() {
            return Err(FabricError::of("fi_mr_reg", ffi::FI_ENOMEM as isize));
        }
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
        self.registered += 1;
        Ok(Registered { region, key, base })
    }

    /// Ends that.
    ///
    /// # Errors
    /// [`FabricError`]: peers may still read it, until [`Endpoint::close_again`] has closed
    /// it, or the end of the endpoint.
    pub fn unregister(&mut self, registered: Registered) -> Result<(), FabricError> {
        // What a forked process inherits is its parent's.
        if self.pid != std::process::id() {
            return Ok(());
        }
        if self.close_region(registered.region) {
            return Ok(());
        }
        self.unclosed.push(registered.region);
        Err(FabricError::of("fi_close of memory", libc::EBUSY as isize))
    }

    /// Tries once more to close what could not be closed. Says how much is left of that.
    pub fn close_again(&mut self) -> usize {
        if self.pid != std::process::id() {
            return 0;
        }
        let mut unclosed = std::mem::take(&mut self.unclosed);
        unclosed.retain(|&region| !self.close_region(region));
        self.unclosed = unclosed;
        self.unclosed.len()
    }

    /// How many pieces of memory peers may still read, though that was to end.
    #[must_use]
    pub fn unclosed(&self) -> usize {
        self.unclosed.len()
    }

    fn close_region(&mut self, region: *mut fid_mr) -> bool {
        // SAFETY: it is open: whoever had it has handed it over, and what was closed is in no
        // list.
        let is_closed = unsafe { close(region.cast()) };
        self.registered -= usize::from(is_closed);
        is_closed
    }
}
