//! The objects of libfabric's that an endpoint is: how they are opened and closed.

use super::{Endpoint, NAME_BYTES_MAX};
use crate::FabricError;
use crate::ffi::{
    self, FI_CQ_FORMAT_MSG, FI_ENABLE, FI_GETWAIT, FI_WAIT_FD, FI_WAIT_NONE, fi_av_attr,
    fi_cq_attr, fid,
};
use crate::library::Library;
use crate::memory::close;
use libc::{c_int, size_t};
use std::os::fd::RawFd;
use std::{mem, ptr};

impl Endpoint {
    pub(super) fn open_objects(&mut self) -> Result<(), FabricError> {
        let library = Library::get()?;
        let info = self.offer.as_ptr();
        let none = ptr::null_mut();
        let mut av = fi_av_attr {
            type_: ffi::FI_AV_UNSPEC,
            rx_ctx_bits: 0,
            count: 0,
            ep_per_node: 0,
            name: ptr::null(),
            map_addr: none,
            flags: 0,
        };
        // SAFETY: the offer is there; each object is opened by the table of the one before,
        // which is open, and written where it is kept.
        unsafe {
            let returned = (library.fabric)((*info).fabric_attr, &raw mut self.fabric, none);
            check("fi_fabric", returned)?;
            let open = (*(*self.fabric).ops).domain;
            check("fi_domain", open(self.fabric, info, &raw mut self.domain, none))?;
            let domain = &*(*self.domain).ops;
            let returned = (domain.endpoint)(self.domain, info, &raw mut self.ep, none);
            check("fi_endpoint", returned)?;
            check("fi_av_open", (domain.av_open)(self.domain, &raw mut av, &raw mut self.av, none))
        }
    }

    /// With something to wait for, if the provider has that.
    pub(super) fn open_queue(&mut self) -> Result<(), FabricError> {
        // SAFETY: the domain is open, and attributes hang from the offer.
        let size = unsafe {
            let info = self.offer.info();
            (*info.tx_attr).size.saturating_add((*info.rx_attr).size)
        };
        let mut opened = Err(FabricError::of("fi_cq_open", ffi::FI_ENOSYS as isize));
        for wait_obj in [FI_WAIT_FD, FI_WAIT_NONE] {
            let mut attributes = fi_cq_attr {
                size: size.clamp(1024, 64 << 10),
                flags: 0,
                format: FI_CQ_FORMAT_MSG,
                wait_obj,
                signaling_vector: 0,
                wait_cond: 0,
                wait_set: ptr::null_mut(),
            };
            // SAFETY: the domain is open; the queue is written where it is kept.
            let returned = unsafe {
                let open = (*(*self.domain).ops).cq_open;
                open(self.domain, &raw mut attributes, &raw mut self.cq, ptr::null_mut())
            };
            opened = check("fi_cq_open", returned);
            if opened.is_ok() {
                self.wait = (wait_obj == FI_WAIT_FD).then(|| self.wait_descriptor()).flatten();
                break;
            }
        }
        opened
    }

    fn wait_descriptor(&self) -> Option<RawFd> {
        let mut descriptor: c_int = -1;
        // SAFETY: the queue is open; for this kind of wait one number is written.
        let returned = unsafe {
            let fid: *mut fid = self.cq.cast();
            ((*(*fid).ops).control)(fid, FI_GETWAIT, (&raw mut descriptor).cast())
        };
        (returned == 0 && descriptor >= 0).then_some(descriptor)
    }

    pub(super) fn enable(&mut self) -> Result<(), FabricError> {
        let mut name = [0u8; 4 * NAME_BYTES_MAX];
        let mut len: size_t = name.len();
        // SAFETY: all objects are open, and of one domain; the name has the room that is said.
        unsafe {
            let fid: *mut fid = self.ep.cast();
            let ops = &*(*fid).ops;
            let flags = ffi::FI_TRANSMIT | ffi::FI_RECV;
            check("fi_ep_bind of the queue", (ops.bind)(fid, self.cq.cast(), flags))?;
            check("fi_ep_bind of addresses", (ops.bind)(fid, self.av.cast(), 0))?;
            check("fi_enable", (ops.control)(fid, FI_ENABLE, ptr::null_mut()))?;
            let getname = (*(*self.ep).cm).getname;
            check("fi_getname", getname(fid, name.as_mut_ptr().cast(), &raw mut len))?;
        }
        if len == 0 || len > NAME_BYTES_MAX {
            return Err(FabricError::of("fi_getname", ffi::FI_ETOOSMALL as isize));
        }
        self.name = name[..len].to_vec();
        Ok(())
    }
}

impl Drop for Endpoint {
    /// What could not be closed keeps the memory that it may still use. A fork has nothing
    /// to close: all of it is its parent's.
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            return;
        }
        let close_all = |objects: &[*mut fid]| {
            let open = objects.iter().filter(|object| !object.is_null());
            // SAFETY: each was opened and not closed; those that stand on it were closed
            // before.
            let failed = open.filter(|&&object| !unsafe { close(object) });
            failed.count() == 0
        };
        let mut is_closed = close_all(&[self.ep.cast()]);
        // Nobody reads by it any more, so it may let go of memory now.
        self.close_again();
        if is_closed {
            self.memory.unregister();
        }
        let rest: [*mut fid; 4] =
            [self.cq.cast(), self.av.cast(), self.domain.cast(), self.fabric.cast()];
        is_closed &= close_all(&rest);
        if is_closed {
            mem::take(&mut self.memory).free();
        }
    }
}

fn check(call: &'static str, returned: c_int) -> Result<(), FabricError> {
    FabricError::check(call, returned as isize).map(|_| ())
}
