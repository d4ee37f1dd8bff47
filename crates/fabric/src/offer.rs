//! What a provider offers: an endpoint for reliable messages, by one device.

use crate::FabricError;
use crate::ffi::{
    self, FI_CONTEXT, FI_CONTEXT2, FI_EP_RDM, FI_MR_ALLOCATED, FI_MR_ENDPOINT, FI_MR_LOCAL,
    FI_MR_PROV_KEY, FI_MR_VIRT_ADDR, FI_MSG, FI_READ, FI_REMOTE_READ, FI_RM_ENABLED, FI_RMA,
    FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6, FI_THREAD_DOMAIN, fi_info,
};
use crate::library::Library;
use crate::memory::BUFFER_BYTES;
use libc::c_char;
use std::ffi::{CStr, CString};
use std::net::IpAddr;
use std::ptr::{self, NonNull};

/// The version of the interface that is asked for.
pub(crate) const API: u32 = ffi::version(1, 9);
/// What providers may need of memory: all of it is seen to ([`crate::memory`]).
const MR_MODES: i32 =
    FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
/// Most offers that are looked at.
const OFFERS_MAX: usize = 256;
/// The name that Sluice has as a provider.
const OWN_NAME: &str = "sluice";

/// By what an endpoint is to be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// By this address of this host.
    Ip(IpAddr),
    /// By whatever device there is.
    Any,
}

/// See the module.
#[derive(Debug)]
pub struct Offer {
    info: NonNull<fi_info>,
    /// Whose it is: a fork leaves it alone.
    pid: u32,
}

impl Offer {
    fn new(info: NonNull<fi_info>) -> Offer {
        Offer { info, pid: std::process::id() }
    }
}

// SAFETY: the structure is a copy of this side's own, which nobody else knows.
unsafe impl Send for Offer {}

/// What `provider` offers.
///
/// # Errors
/// [`FabricError`], also if that is nothing.
pub fn offers(provider: &str, source: Source) -> Result<Vec<Offer>, FabricError> {
    let rather = FI_MSG | FI_RMA | FI_READ | FI_REMOTE_READ;
    offers_with(provider, source, &[rather, FI_MSG], 0)
}

/// The same with capabilities, the first of these that there are, and an order of messages.
pub(crate) fn offers_with(
    provider: &str,
    source: Source,
    wanted: &[u64],
    order: u64,
) -> Result<Vec<Offer>, FabricError> {
    if is_own(provider) {
        return Err(FabricError::Itself(provider.to_owned()));
    }
    let none = || FabricError::NoProvider { provider: provider.to_owned(), filter: filter_note() };
    let name = CString::new(provider).map_err(|_| none())?;
    let library = Library::get()?;
    for &caps in wanted {
        let found = ask(library, &name, source, caps, order)?;
        let usable: Vec<Offer> = found.into_iter().filter(Offer::is_usable).collect();
        if !usable.is_empty() {
            return Ok(usable);
        }
    }
    Err(none())
}

/// Whether a name stands for Sluice, alone or under another provider.
fn is_own(provider: &str) -> bool {
    provider.split(';').any(|part| part.trim().eq_ignore_ascii_case(OWN_NAME))
}

/// What keeps libfabric from showing a provider.
fn filter_note() -> String {
    match std::env::var("FI_PROVIDER") {
        Ok(filter) => {
            format!(" (FI_PROVIDER={filter} hides all others: add it there, with a comma between)")
        }
        Err(_) => String::new(),
    }
}

fn ask(
    library: &'static Library,
    name: &CStr,
    source: Source,
    caps: u64,
    order: u64,
) -> Result<Vec<Offer>, FabricError> {
    let hints = hints(library, name, caps, order)?;
    let (node, flags) = match source {
        Source::Ip(ip) => (CString::new(ip.to_string()).ok(), ffi::FI_SOURCE),
        Source::Any => (None, 0),
    };
    let node = node.as_ref().map_or(ptr::null(), |node| node.as_ptr());
    let mut list = ptr::null_mut();
    // SAFETY: texts end in zero, the hints are the library's own structure, and the list
    // is written.
    let returned = unsafe {
        (library.getinfo)(API, node, ptr::null(), flags, hints.info.as_ptr(), &raw mut list)
    };
    if -returned == ffi::FI_ENODATA {
        return Ok(Vec::new());
    }
    FabricError::check("fi_getinfo", returned as isize)?;
    let mut offers = Vec::new();
    let mut at: *const fi_info = list;
    while !at.is_null() && offers.len() < OFFERS_MAX {
        // SAFETY: an entry of the list, which is there until it is freed below.
        let info = NonNull::new(unsafe { (library.dupinfo)(at) });
        offers.extend(info.map(Offer::new));
        // SAFETY: as above.
        at = unsafe { (*at).next };
    }
    // SAFETY: the list is the library's, and all that is kept of it was copied.
    unsafe { (library.freeinfo)(list) };
    Ok(offers)
}

fn hints(library: &Library, name: &CStr, caps: u64, order: u64) -> Result<Offer, FabricError> {
    // SAFETY: without an argument it allocates an empty one, with all that hangs from it.
    let info = NonNull::new(unsafe { (library.dupinfo)(ptr::null()) });
    let info = info.ok_or(FabricError::of("fi_dupinfo", ffi::FI_ENOMEM as isize))?;
    let mut hints = Offer::new(info);
    // SAFETY: the structure and what hangs from it are there, and this side's own. The
    // name is freed with them.
    unsafe {
        let info = hints.info.as_mut();
        info.caps = caps;
        info.mode = FI_CONTEXT | FI_CONTEXT2;
        (*info.ep_attr).type_ = FI_EP_RDM;
        (*info.tx_attr).msg_order = order;
        (*info.rx_attr).msg_order = order;
        (*info.domain_attr).hints.mr_mode = MR_MODES;
        (*info.domain_attr).hints.threading = FI_THREAD_DOMAIN;
        (*info.domain_attr).hints.resource_mgmt = FI_RM_ENABLED;
        (*info.fabric_attr).prov_name = libc::strdup(name.as_ptr());
    }
    Ok(hints)
}

impl Offer {
    pub(crate) fn info(&self) -> &fi_info {
        // SAFETY: the structure is this side's own until it is dropped.
        unsafe { self.info.as_ref() }
    }

    pub(crate) fn as_ptr(&self) -> *mut fi_info {
        self.info.as_ptr()
    }

    /// The provider, with those that it stands on.
    #[must_use]
    pub fn provider(&self) -> String {
        // SAFETY: the attributes are there, with texts that end in zero or are null.
        unsafe { text((*self.info().fabric_attr).prov_name) }
    }

    /// The device, as the provider calls it.
    #[must_use]
    pub fn domain(&self) -> String {
        // SAFETY: as above.
        unsafe { text((*self.info().domain_attr).hints.name) }
    }

    /// How fast the device says it is, in Mbit/s.
    #[must_use]
    pub fn mbit_per_s(&self) -> Option<u32> {
        let nic = self.info().nic;
        // SAFETY: what the provider tells of its device is there as long as the offer.
        let speed = unsafe { nic.as_ref()?.link_attr.as_ref()?.speed };
        u32::try_from(speed / 1_000_000).ok().filter(|&mbit| mbit > 0)
    }

    /// Whether addresses are those of the internet, so that a device of the system's is
    /// what carries it.
    #[must_use]
    pub fn is_ip(&self) -> bool {
        [FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6].contains(&self.info().addr_format)
    }

    /// Whether memory of a peer can be read.
    #[must_use]
    pub fn reads_memory(&self) -> bool {
        let caps = FI_RMA | FI_READ | FI_REMOTE_READ;
        self.info().caps & caps == caps
    }

    /// Whether the device itself reaches memory, which the system keeps in place for it. One
    /// that does not copies in this process, where memory that is gone would end it.
    #[must_use]
    pub fn pins_memory(&self) -> bool {
        self.mr_mode() & FI_MR_ALLOCATED != 0
    }

    /// How many bits of tags count.
    #[must_use]
    pub fn tag_bits(&self) -> u32 {
        // SAFETY: the attributes are there.
        let format = unsafe { (*self.info().ep_attr).mem_tag_format };
        u64::BITS - format.leading_zeros()
    }

    /// Most receives that may be under way.
    #[must_use]
    pub fn receives_max(&self) -> usize {
        // SAFETY: the attributes are there.
        unsafe { (*self.info().rx_attr).size }
    }

    pub(crate) fn mr_mode(&self) -> i32 {
        // SAFETY: the attributes are there.
        unsafe { (*self.info().domain_attr).hints.mr_mode }
    }

    /// Whether all that it needs is seen to here.
    fn is_usable(&self) -> bool {
        let info = self.info();
        // SAFETY: the attributes are there.
        let message_bytes = unsafe { (*info.ep_attr).max_msg_size };
        info.mode & !(FI_CONTEXT | FI_CONTEXT2) == 0
            && self.mr_mode() & !(MR_MODES | ffi::FI_MR_BASIC) == 0
            && message_bytes >= BUFFER_BYTES
            && !is_own(&self.provider())
    }
}

impl Drop for Offer {
    /// A fork calls nothing: another thread of its parent may have been in there.
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            return;
        }
        if let Ok(library) = Library::get() {
            // SAFETY: the structure is this side's own, and was allocated by the library.
            unsafe { (library.freeinfo)(self.info.as_ptr()) };
        }
    }
}

/// A text of the library's.
///
/// # Safety
/// It is null or ends in zero.
unsafe fn text(at: *const c_char) -> String {
    if at.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rail_is_never_sluice_itself() {
        for name in ["sluice", "Sluice", "sluice;ofi_rxm", "ofi_rxd; sluice"] {
            let refused = offers(name, Source::Any).unwrap_err();
            assert_eq!(refused, FabricError::Itself(name.to_owned()));
        }
    }

    #[test]
    fn a_provider_that_is_not_there_is_said_with_a_next_step() {
        match offers("nonesuch", Source::Any) {
            Err(why @ FabricError::NoProvider { .. }) => {
                assert!(why.to_string().contains("fi_info"), "{why}");
            }
            Err(FabricError::Missing(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}
