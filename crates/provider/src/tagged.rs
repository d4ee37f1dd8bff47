//! `fi_tagged`: the C functions of tagged messages.

use crate::ep::Ep;
use crate::ffi::{self, fi_addr_t, fi_msg_tagged, fi_ops_tagged, fid_ep};
use crate::guard::posted;
use crate::object::object;
use crate::transfer::{self, Flags, Match, buffer, recv_into, send_from};
use libc::{c_void, iovec, ssize_t};
use sluice_proto::Space;

/// The tagged operations of an endpoint.
pub static OPS: fi_ops_tagged = fi_ops_tagged {
    size: size_of::<fi_ops_tagged>(),
    recv,
    recvv,
    recvmsg,
    send,
    sendv,
    sendmsg,
    inject,
    senddata,
    injectdata,
};

fn to(peer: fi_addr_t, tag: u64) -> Match {
    Match { space: Space::Tagged, peer, tag, ignore: 0 }
}

fn from(peer: fi_addr_t, tag: u64, ignore: u64) -> Match {
    Match { space: Space::Tagged, peer, tag, ignore }
}

unsafe extern "C" fn recv(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    src: fi_addr_t,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> ssize_t {
    posted(|| {
        // SAFETY: as libfabric calls it.
        let ep: &Ep = unsafe { object(ep) };
        let buf = buffer(buf, len)?;
        transfer::recv(&ep.core, from(src, tag, ignore), buf, context, Flags::Default)
    })
}

unsafe extern "C" fn recvv(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    src: fi_addr_t,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> ssize_t {
    posted(|| {
        // SAFETY: as libfabric calls it.
        unsafe {
            let ep: &Ep = object(ep);
            recv_into(&ep.core, from(src, tag, ignore), (iov, count), context, Flags::Default)
        }
    })
}

unsafe extern "C" fn recvmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> ssize_t {
    posted(|| {
        // SAFETY: as libfabric calls it: a whole message; a look for one
        // carries no buffers that matter.
        unsafe {
            let (ep, msg): (&Ep, _) = (object(ep), &*msg);
            let from = from(msg.addr, msg.tag, msg.ignore);
            let bytes = (msg.msg_iov, msg.iov_count);
            recv_into(&ep.core, from, bytes, msg.context, Flags::Given(flags))
        }
    })
}

unsafe extern "C" fn send(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    dest: fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> ssize_t {
    posted(|| {
        // SAFETY: as libfabric calls it.
        let ep: &Ep = unsafe { object(ep) };
        let buf = buffer(buf, len)?;
        transfer::send(&ep.core, to(dest, tag), buf, None, context, Flags::Default)
    })
}

unsafe extern "C" fn sendv(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    dest: fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> ssize_t {
    posted(|| {
        // SAFETY: as libfabric calls it.
        unsafe {
            let ep: &Ep = object(ep);
            send_from(&ep.core, to(dest, tag), (iov, count), None, context, Flags::Default)
        }
    })
}

unsafe extern "C" fn sendmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> ssize_t {
    posted(|| {
        // SAFETY: as libfabric calls it: a whole message.
        unsafe {
            let (ep, msg): (&Ep, _) = (object(ep), &*msg);
            let data = (flags & ffi::FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
            let to = to(msg.addr, msg.tag);
            let bytes = (msg.msg_iov, msg.iov_count);
            send_from(&ep.core, to, bytes, data, msg.context, Flags::Given(flags))
        }
    })
}

unsafe extern "C" fn inject(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    dest: fi_addr_t,
    tag: u64,
) -> ssize_t {
    posted(|| {
        // SAFETY: as libfabric calls it.
        let ep: &Ep = unsafe { object(ep) };
        transfer::inject(&ep.core, to(dest, tag), buffer(buf, len)?, None)
    })
}

unsafe extern "C" fn senddata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    dest: fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> ssize_t {
    posted(|| {
        // SAFETY: as libfabric calls it.
        let ep: &Ep = unsafe { object(ep) };
        let buf = buffer(buf, len)?;
        transfer::send(&ep.core, to(dest, tag), buf, Some(data), context, Flags::Default)
    })
}

unsafe extern "C" fn injectdata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    dest: fi_addr_t,
    tag: u64,
) -> ssize_t {
    posted(|| {
        // SAFETY: as libfabric calls it.
        let ep: &Ep = unsafe { object(ep) };
        transfer::inject(&ep.core, to(dest, tag), buffer(buf, len)?, Some(data))
    })
}
