//! `fi_rma`: the C functions of reads and writes of remote memory.

use crate::ep::Ep;
use crate::errno::Errno;
use crate::ffi::{self, fi_addr_t, fi_msg_rma, fi_ops_rma, fi_rma_iov, fid_ep};
use crate::guard::posted;
use crate::info;
use crate::object::object;
use crate::remote::{self, Asked, Parts, There};
use crate::transfer::{Flags, buffer, pieces};
use libc::{c_void, iovec, ssize_t};
use sluice_proto::Deed;

/// The remote memory operations of an endpoint.
pub static OPS: fi_ops_rma = fi_ops_rma {
    size: size_of::<fi_ops_rma>(),
    read,
    readv,
    readmsg,
    write,
    writev,
    writemsg,
    inject,
    writedata,
    injectdata,
};

fn asked(deed: Deed, peer: fi_addr_t, context: *mut c_void) -> Asked {
    Asked { deed, peer, data: None, context, flags: Flags::Default }
}

/// The stretches of an array of a peer's memory.
///
/// # Safety
/// `count` entries can be read at `iov`.
unsafe fn stretches(iov: *const fi_rma_iov, count: usize) -> Result<Vec<There>, Errno> {
    if count > info::SIDES_MAX || (count > 0 && iov.is_null()) {
        return Err(Errno::INVALID);
    }
    // SAFETY: the caller's promise.
    let each = (0..count).map(|nth| unsafe { &*iov.add(nth) });
    Ok(each.map(|iov| There { offset: iov.addr, len: iov.len as u64, key: iov.key }).collect())
}

/// # Safety
/// As libfabric calls it: an open endpoint, `count` buffers.
unsafe fn vector(
    ep: *mut fid_ep,
    iov: *const iovec,
    count: usize,
    (offset, key): (u64, u64),
    asked: Asked,
) -> ssize_t {
    posted(|| {
        // SAFETY: the caller's promise.
        let (ep, local): (&Ep, _) = unsafe { (object(ep), pieces(iov, count)?) };
        let len = local.iter().map(|region| region.len).sum();
        remote::begin(&ep.core, asked, &Parts::of(&local, &[There { offset, len, key }], &[])?)
    })
}

/// # Safety
/// As libfabric calls it: an open endpoint, a whole message.
unsafe fn message(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64, deed: Deed) -> ssize_t {
    posted(|| {
        // SAFETY: the caller's promise.
        let (ep, msg, local, there): (&Ep, _, _, _) = unsafe {
            let msg = &*msg;
            let local = pieces(msg.msg_iov, msg.iov_count)?;
            (object(ep), msg, local, stretches(msg.rma_iov, msg.rma_iov_count)?)
        };
        let data = (flags & ffi::FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
        // Nothing would bring it.
        if data.is_some() && there.is_empty() {
            return Err(Errno::INVALID);
        }
        let flags = Flags::Given(flags);
        let asked = Asked { deed, peer: msg.addr, data, context: msg.context, flags };
        remote::begin(&ep.core, asked, &Parts::of(&local, &there, &[])?)
    })
}

unsafe extern "C" fn read(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    src: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> ssize_t {
    posted(|| {
        // SAFETY: as libfabric calls it.
        let ep: &Ep = unsafe { object(ep) };
        let parts = Parts::one(buffer(buf, len)?, key, addr);
        remote::begin(&ep.core, asked(Deed::Read, src, context), &parts)
    })
}

unsafe extern "C" fn readv(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    src: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: as libfabric calls it.
    unsafe { vector(ep, iov, count, (addr, key), asked(Deed::Read, src, context)) }
}

unsafe extern "C" fn readmsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> ssize_t {
    // SAFETY: as libfabric calls it.
    unsafe { message(ep, msg, flags, Deed::Read) }
}

unsafe extern "C" fn write(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    dest: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> ssize_t {
    posted(|| {
        // SAFETY: as libfabric calls it.
        let ep: &Ep = unsafe { object(ep) };
        let parts = Parts::one(buffer(buf, len)?, key, addr);
        remote::begin(&ep.core, asked(Deed::Write, dest, context), &parts)
    })
}

unsafe extern "C" fn writev(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    dest: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: as libfabric calls it.
    unsafe { vector(ep, iov, count, (addr, key), asked(Deed::Write, dest, context)) }
}

unsafe extern "C" fn writemsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> ssize_t {
    // SAFETY: as libfabric calls it.
    unsafe { message(ep, msg, flags, Deed::Write) }
}

unsafe extern "C" fn inject(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    dest: fi_addr_t,
    addr: u64,
    key: u64,
) -> ssize_t {
    posted(|| {
        // SAFETY: as libfabric calls it.
        let ep: &Ep = unsafe { object(ep) };
        let asked = asked(Deed::Write, dest, std::ptr::null_mut());
        remote::inject(&ep.core, asked, &Parts::one(buffer(buf, len)?, key, addr))
    })
}

unsafe extern "C" fn writedata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    dest: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> ssize_t {
    posted(|| {
        // SAFETY: as libfabric calls it.
        let ep: &Ep = unsafe { object(ep) };
        let asked = Asked { data: Some(data), ..asked(Deed::Write, dest, context) };
        remote::begin(&ep.core, asked, &Parts::one(buffer(buf, len)?, key, addr))
    })
}

unsafe extern "C" fn injectdata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    dest: fi_addr_t,
    addr: u64,
    key: u64,
) -> ssize_t {
    posted(|| {
        // SAFETY: as libfabric calls it.
        let ep: &Ep = unsafe { object(ep) };
        let asked = Asked { data: Some(data), ..asked(Deed::Write, dest, std::ptr::null_mut()) };
        remote::inject(&ep.core, asked, &Parts::one(buffer(buf, len)?, key, addr))
    })
}
