//! Memory regions: memory of the process that peers may read, write and combine with.
//!
//! A region belongs to a domain, so it is exposed at each endpoint of the domain, also at
//! those that are enabled later. Nothing here needs registered memory for its own buffers,
//! so a region without rights for peers is only a handle with a key.
//!
//! Order of locks: the regions of a domain, then the state of an endpoint.

use crate::cntr::{Cntr, CntrCore};
use crate::domain::{Domain, DomainCore};
use crate::ep::{Ep, EpCore};
use crate::errno::Errno;
use crate::ffi::{self, fi_mr_attr, fi_ops, fi_ops_mr, fid, fid_mr};
use crate::guard;
use crate::info;
use crate::object::{self, Object};
use crate::transfer::buffer;
use libc::{c_int, c_void, iovec};
use sluice_proto::{Access, Exposed};
use sluice_runtime::lock::Lock;
use sluice_wire::Region;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The regions of a domain, and the endpoints that expose them.
#[derive(Debug, Default)]
pub struct Registry {
    regions: BTreeMap<u64, Registered>,
    endpoints: Vec<Arc<EpCore>>,
    /// The next key of the provider's own.
    next_key: u64,
}

/// A region of a domain.
#[derive(Debug)]
struct Registered {
    pieces: Vec<Region>,
    access: Access,
    addressed: bool,
    counter: Option<Arc<CntrCore>>,
}

impl Registered {
    fn exposed(&self, key: u64) -> Exposed<'_> {
        let Registered { pieces, access, addressed, counter, .. } = self;
        let told = counter.as_ref().map(|_| key);
        Exposed { key, pieces, access: *access, addressed: *addressed, told }
    }

    fn is_exposed(&self) -> bool {
        self.access != Access::default()
    }
}

impl Registry {
    /// An endpoint is about to be enabled: it exposes what there is.
    pub fn attach(&mut self, endpoint: &Arc<EpCore>) -> Result<(), Errno> {
        if self.endpoints.iter().any(|known| Arc::ptr_eq(known, endpoint)) {
            return Ok(());
        }
        for (&key, region) in self.regions.iter().filter(|(_, region)| region.is_exposed()) {
            endpoint.expose(&region.exposed(key), region.counter.as_ref())?;
        }
        self.endpoints.push(Arc::clone(endpoint));
        Ok(())
    }

    /// Forgets an endpoint.
    pub fn detach(&mut self, endpoint: &Arc<EpCore>) {
        self.endpoints.retain(|known| !Arc::ptr_eq(known, endpoint));
    }

    fn add(&mut self, asked: &Asked, own_key: bool, region: Registered) -> Result<u64, Errno> {
        let mut key = asked.key;
        if own_key {
            while self.regions.contains_key(&self.next_key) {
                self.next_key = self.next_key.wrapping_add(1);
            }
            key = self.next_key;
        }
        if self.regions.contains_key(&key) {
            return Err(Errno(ffi::FI_ENOKEY));
        }
        self.regions.insert(key, region);
        let added = self.expose(key);
        if added.is_err() {
            self.remove(key);
        }
        added.map(|()| key)
    }

    /// Has every endpoint expose the region, as it is now.
    fn expose(&self, key: u64) -> Result<(), Errno> {
        let Some(region) = self.regions.get(&key).filter(|region| region.is_exposed()) else {
            return Ok(());
        };
        for endpoint in &self.endpoints {
            endpoint.expose(&region.exposed(key), region.counter.as_ref())?;
        }
        Ok(())
    }

    fn remove(&mut self, key: u64) {
        for endpoint in &self.endpoints {
            // Also where a panic has left it: peers might go on writing there.
            endpoint.hide(key);
        }
        self.regions.remove(&key);
    }
}

/// A registered region.
#[repr(C)]
struct Mr {
    mr: fid_mr,
    domain: Arc<DomainCore>,
}

// SAFETY: `repr(C)`, begins with `fid_mr`, made below with this class.
unsafe impl Object for Mr {
    const CLASS: usize = ffi::FI_CLASS_MR;

    fn in_use(&self) -> bool {
        false
    }

    fn closing(&self) {
        self.domain.registry.lock_anyway().remove(self.mr.key);
    }
}

static MR_OPS: fi_ops = object::ops::<Mr>(bind, control);

/// The registration calls of a domain.
pub static OPS: fi_ops_mr = fi_ops_mr { size: size_of::<fi_ops_mr>(), reg, regv, regattr };

/// `fi_mr_bind`: a counter of what peers do with the region; an endpoint, which changes
/// nothing.
unsafe extern "C" fn bind(mr: *mut fid, to: *mut fid, flags: u64) -> c_int {
    guard::status(|| {
        // SAFETY: libfabric passes open objects of this provider.
        let (mr, cntr): (&Mr, _) = unsafe { (object::object(mr), object::of_class::<Cntr>(to)) };
        let Some(cntr) = cntr else {
            // SAFETY: as above.
            return unsafe { object::of_class::<Ep>(to) }.map(|_| ()).ok_or(Errno::INVALID);
        };
        if flags & !(ffi::FI_REMOTE_WRITE | ffi::FI_REMOTE_READ) != 0 {
            return Err(Errno::BAD_FLAGS);
        }
        let mut registry = mr.domain.registry.lock().ok_or(Errno::POISONED)?;
        let region = registry.regions.get_mut(&mr.mr.key).ok_or(Errno::BAD_STATE)?;
        region.counter = Some(Arc::clone(&cntr.core));
        registry.expose(mr.mr.key)
    })
}

/// `fi_control`: a region is enabled from the beginning.
unsafe extern "C" fn control(_mr: *mut fid, command: c_int, _arg: *mut c_void) -> c_int {
    if command == ffi::FI_ENABLE { 0 } else { -ffi::FI_ENOSYS }
}

/// What a call asks for.
struct Asked {
    key: u64,
    access: u64,
    context: *mut c_void,
}

/// # Safety
/// `domain` is a domain of this provider, `count` entries can be read at `iov`, `out` can be
/// written.
unsafe fn register(
    domain: *mut fid,
    iov: *const iovec,
    count: usize,
    asked: &Asked,
    out: *mut *mut fid_mr,
) -> c_int {
    guard::status(|| {
        // SAFETY: the caller's promise.
        let domain = unsafe { object::of_class::<Domain>(domain) }.ok_or(Errno::INVALID)?;
        if count > info::MR_IOV_LIMIT || (count > 0 && iov.is_null()) {
            return Err(Errno::INVALID);
        }
        // SAFETY: the caller's promise.
        let pieces = (0..count).map(|nth| unsafe { &*iov.add(nth) });
        let pieces: Result<Vec<_>, Errno> =
            pieces.map(|iov| whole(iov.iov_base, iov.iov_len)).collect();
        let access = Access {
            read: asked.access & ffi::FI_REMOTE_READ != 0,
            write: asked.access & ffi::FI_REMOTE_WRITE != 0,
        };
        let core = &domain.core;
        let region = Registered {
            pieces: pieces?,
            access,
            addressed: core.virtual_addresses,
            counter: None,
        };
        let mut registry = core.registry.lock().ok_or(Errno::POISONED)?;
        let key = registry.add(asked, core.own_keys, region)?;
        let mr = Mr {
            mr: fid_mr {
                fid: object::head::<Mr>(asked.context, &MR_OPS),
                mem_desc: std::ptr::null_mut(),
                key,
            },
            domain: Arc::clone(core),
        };
        // SAFETY: the caller's promise.
        unsafe { object::hand_out(mr, out) };
        Ok(())
    })
}

/// The memory of a region, which may be all there is.
fn whole(at: *const c_void, len: usize) -> Result<Region, Errno> {
    if at.is_null() && len == usize::MAX {
        return Ok(Region { addr: sluice_wire::Addr(0), len: u64::MAX });
    }
    buffer(at, len)
}

unsafe extern "C" fn reg(
    domain: *mut fid,
    buf: *const c_void,
    len: usize,
    access: u64,
    _offset: u64,
    key: u64,
    _flags: u64,
    out: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    let iov = iovec { iov_base: buf.cast_mut(), iov_len: len };
    // SAFETY: as libfabric calls it.
    unsafe { register(domain, &raw const iov, 1, &Asked { key, access, context }, out) }
}

unsafe extern "C" fn regv(
    domain: *mut fid,
    iov: *const iovec,
    count: usize,
    access: u64,
    _offset: u64,
    key: u64,
    _flags: u64,
    out: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as libfabric calls it.
    unsafe { register(domain, iov, count, &Asked { key, access, context }, out) }
}

/// Of 2.x: the attributes describe a buffer of a device, in the place of pieces of memory.
const FI_MR_DMABUF: u64 = 1 << 40;

unsafe extern "C" fn regattr(
    domain: *mut fid,
    attr: *const fi_mr_attr,
    flags: u64,
    out: *mut *mut fid_mr,
) -> c_int {
    if flags & FI_MR_DMABUF != 0 {
        return -ffi::FI_EBADFLAGS;
    }
    // SAFETY: as libfabric calls it, with whole attributes.
    unsafe {
        let (key, access) = ((*attr).requested_key, (*attr).access);
        let asked = Asked { key, access, context: (*attr).context };
        register(domain, (*attr).mr_iov, (*attr).iov_count, &asked, out)
    }
}

/// The lock of a domain's regions.
pub fn registry() -> Lock<Registry> {
    Lock::new(Registry::default())
}
