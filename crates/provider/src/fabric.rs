//! The fabric: the root of all other objects.

use crate::cq::Cq;
use crate::domain;
use crate::eq::{self, Eq};
use crate::errno::Errno;
use crate::ffi::{self, fi_fabric_attr, fi_ops, fi_ops_fabric, fid, fid_fabric};
use crate::guard;
use crate::info;
use crate::object::{self, Object, no_bind, no_control, no_op};
use libc::{c_int, c_void};
use std::ffi::CStr;
use std::sync::Arc;

/// What domains and event queues count on.
#[derive(Debug)]
pub struct FabricCore;

/// An open fabric.
#[repr(C)]
pub struct Fabric {
    fabric: fid_fabric,
    pub core: Arc<FabricCore>,
}

// SAFETY: `repr(C)`, begins with `fid_fabric`, made below with this class.
unsafe impl Object for Fabric {
    const CLASS: usize = ffi::FI_CLASS_FABRIC;

    fn in_use(&self) -> bool {
        object::shared(&self.core)
    }
}

impl Fabric {
    /// The interface version that the program asked `fi_getinfo` for.
    pub fn api_version(&self) -> u32 {
        self.fabric.api_version
    }
}

static OPS: fi_ops = object::ops::<Fabric>(no_bind, no_control);

static FABRIC_OPS: fi_ops_fabric = fi_ops_fabric {
    size: size_of::<fi_ops_fabric>(),
    domain: domain::open,
    passive_ep: no_op,
    eq_open: eq::open,
    wait_open: no_op,
    trywait,
    domain2: domain::open2,
};

/// What `fi_fabric` calls.
///
/// # Safety
/// As libfabric calls it: `attr` is whole, `out` can be written.
pub unsafe extern "C" fn open(
    attr: *mut fi_fabric_attr,
    out: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    guard::status(|| {
        // SAFETY: the caller's promise; the name is NUL-terminated or null.
        let ours = unsafe {
            let name = (*attr).name;
            name.is_null() || CStr::from_ptr(name) == info::FABRIC
        };
        if !ours {
            return Err(Errno::NO_DATA);
        }
        let fabric = Fabric {
            fabric: fid_fabric {
                fid: object::head::<Fabric>(context, &OPS),
                ops: &FABRIC_OPS,
                api_version: crate::API_VERSION,
            },
            core: Arc::new(FabricCore),
        };
        // SAFETY: the caller's promise.
        unsafe { object::hand_out(fabric, out) };
        Ok(())
    })
}

/// `fi_trywait`: -FI_EAGAIN if there is something to read.
///
/// # Safety
/// As libfabric calls it: `count` open objects of this provider are at `fids`.
unsafe extern "C" fn trywait(_fabric: *mut fid_fabric, fids: *mut *mut fid, count: c_int) -> c_int {
    guard::status(|| {
        for nth in 0..usize::try_from(count).map_err(|_| Errno::INVALID)? {
            // SAFETY: the caller's promise.
            let (cq, eq) = unsafe {
                let at = *fids.add(nth);
                (object::of_class::<Cq>(at), object::of_class::<Eq>(at))
            };
            let may_wait = match (cq, eq) {
                (Some(cq), _) => cq.core.may_wait()?,
                (_, Some(eq)) => eq.core.may_wait()?,
                _ => return Err(Errno::INVALID),
            };
            if !may_wait {
                return Err(Errno::AGAIN);
            }
        }
        Ok(())
    })
}
