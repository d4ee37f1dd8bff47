//! `fi_msg`: the C functions of untagged messages.

use crate::ep::Ep;
use crate::ffi::{self, fi_addr_t, fi_msg, fi_ops_msg, fid_ep};
use crate::guard::posted;
use crate::object::object;
use crate::transfer::{self, Flags, Match, buffer, recv_into, send_from};
use libc::{c_void, iovec, ssize_t};
use sluice_proto::Space;

/// The untagged operations of an endpoint.
pub static OPS: fi_ops_msg = fi_ops_msg {
    size: size_of::<fi_ops_msg>(),
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

/// Untagged messages match by source alone.
fn with(peer: fi_addr_t) -> Match {
    Match { space: Space::Untagged, peer, tag: 0, ignore: 0 }
}

unsafe extern "C" fn recv(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    src: fi_addr_t,
    context: *mut c_void,
) -> ssize_t {
    posted(|| {
        // SAFETY: as libfabric calls it.
        let ep: &Ep = unsafe { object(ep) };
        let buf = buffer(buf, len)?;
        transfer::recv(&ep.core, with(src), buf, context, Flags::Default)
    })
}

unsafe extern "C" fn recvv(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    src: fi_addr_t,
    context: *mut c_void,
) -> ssize_t {
    posted(|| {
        // SAFETY: as libfabric calls it.
        unsafe {
            let ep: &Ep = object(ep);
            recv_into(&ep.core, with(src), (iov, count), context, Flags::Default)
        }
    })
}

unsafe extern "C" fn recvmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> ssize_t {
    posted(|| {
        // SAFETY: as libfabric calls it: a whole message; a look for one
        // carries no buffers that matter.
        unsafe {
            let (ep, msg): (&Ep, _) = (object(ep), &*msg);
            let bytes = (msg.msg_iov, msg.iov_count);
            recv_into(&ep.core, with(msg.addr), bytes, msg.context, Flags::Given(flags))
        }
    })
}

unsafe extern "C" fn send(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    dest: fi_addr_t,
    context: *mut c_void,
) -> ssize_t {
    posted(|| {
        // SAFETY: as libfabric calls it.
        let ep: &Ep = unsafe { object(ep) };
        let buf = buffer(buf, len)?;
        transfer::send(&ep.core, with(dest), buf, None, context, Flags::Default)
    })
}

unsafe extern "C" fn sendv(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    dest: fi_addr_t,
    context: *mut c_void,
) -> ssize_t {
    posted(|| {
        // SAFETY: as libfabric calls it.
        unsafe {
            let ep: &Ep = object(ep);
            send_from(&ep.core, with(dest), (iov, count), None, context, Flags::Default)
        }
    })
}

unsafe extern "C" fn sendmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> ssize_t {
    posted(|| {
        // SAFETY: as libfabric calls it: a whole message.
        unsafe {
            let (ep, msg): (&Ep, _) = (object(ep), &*msg);
            let data = (flags & ffi::FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
            let bytes = (msg.msg_iov, msg.iov_count);
            send_from(&ep.core, with(msg.addr), bytes, data, msg.context, Flags::Given(flags))
        }
    })
}

unsafe extern "C" fn inject(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    dest: fi_addr_t,
) -> ssize_t {
    posted(|| {
        // SAFETY: as libfabric calls it.
        let ep: &Ep = unsafe { object(ep) };
        transfer::inject(&ep.core, with(dest), buffer(buf, len)?, None)
    })
}

unsafe extern "C" fn senddata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    dest: fi_addr_t,
    context: *mut c_void,
) -> ssize_t {
    posted(|| {
        // SAFETY: as libfabric calls it.
        let ep: &Ep = unsafe { object(ep) };
        let buf = buffer(buf, len)?;
        transfer::send(&ep.core, with(dest), buf, Some(data), context, Flags::Default)
    })
}

unsafe extern "C" fn injectdata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    dest: fi_addr_t,
) -> ssize_t {
    posted(|| {
        // SAFETY: as libfabric calls it.
        let ep: &Ep = unsafe { object(ep) };
        transfer::inject(&ep.core, with(dest), buffer(buf, len)?, Some(data))
    })
}
