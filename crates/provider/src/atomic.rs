//! `fi_atomic`: the C functions of atomic operations on remote memory. Which there are is in
//! `operations`.

mod operations;

pub use operations::BYTES_MAX;

use crate::ep::Ep;
use crate::errno::Errno;
use crate::ffi::{
    self, fi_addr_t, fi_atomic_attr, fi_ioc, fi_msg_atomic, fi_ops_atomic, fid_domain, fid_ep,
};
use crate::guard::{self, posted};
use crate::info;
use crate::object::object;
use crate::remote::{self, Asked, Parts, There};
use crate::transfer::Flags;
use libc::{c_int, c_void, ssize_t};
use operations::{Call, What};
use sluice_proto::Deed;
use sluice_wire::{Addr, Region};

/// The atomic operations of an endpoint.
pub static OPS: fi_ops_atomic = fi_ops_atomic {
    size: size_of::<fi_ops_atomic>(),
    write,
    writev,
    writemsg,
    inject,
    readwrite,
    readwritev,
    readwritemsg,
    compwrite,
    compwritev,
    compwritemsg,
    writevalid,
    readwritevalid,
    compwritevalid,
};

/// What a read combines with.
static ZEROS: [u8; BYTES_MAX] = [0; BYTES_MAX];

/// The memory of an operation, on each side.
struct Sides<'a> {
    values: &'a [fi_ioc],
    operands: &'a [fi_ioc],
    results: &'a [fi_ioc],
    there: &'a [ffi::fi_rma_ioc],
}

impl Sides<'_> {
    /// Their parts.
    fn parts(&self, what: &What) -> Result<Parts, Errno> {
        let item = what.item_bytes;
        let regions = |iocs: &[fi_ioc]| -> Result<Vec<Region>, Errno> {
            iocs.iter().map(|ioc| region(ioc.addr, ioc.count, item)).collect()
        };
        let results = regions(self.results)?;
        // A read has no values of the program's.
        let values = if what.is_read {
            let zeros = |result: &Region| Region { addr: Addr(ZEROS.as_ptr() as u64), ..*result };
            results.iter().map(zeros).collect()
        } else {
            regions(self.values)?
        };
        let bytes: u64 = values.iter().map(|region| region.len).sum();
        if bytes > (what.count_max() * item) as u64 {
            return Err(Errno(ffi::FI_EMSGSIZE));
        }
        let there = self.there.iter().map(|ioc| {
            Ok(There { offset: ioc.addr, len: bytes_of(ioc.count, item)?, key: ioc.key })
        });
        let parts = Parts::of(&values, &there.collect::<Result<Vec<_>, Errno>>()?, &results)?;
        let fetches = matches!(what.deed, Deed::Fetch(..));
        let compares = matches!(what.deed, Deed::Fetch(op, _) if op.has_operand());
        let whole = bytes == 0 || fetches != results.is_empty();
        if !whole || compares == self.operands.is_empty() {
            return Err(Errno::INVALID);
        }
        match self.operands {
            [] => Ok(parts),
            [operand] if operand.count == 1 && !operand.addr.is_null() => {
                // SAFETY: as libfabric calls it: an item of the type can be read there.
                let bytes = unsafe { std::slice::from_raw_parts(operand.addr.cast::<u8>(), item) };
                parts.with_operand(bytes)
            }
            _ => Err(Errno::INVALID),
        }
    }
}

fn bytes_of(count: usize, item: usize) -> Result<u64, Errno> {
    let bytes = count.checked_mul(item).ok_or(Errno(ffi::FI_EMSGSIZE))?;
    Ok(bytes as u64)
}

fn region(addr: *mut c_void, count: usize, item: usize) -> Result<Region, Errno> {
    Region::new(Addr(addr as u64), bytes_of(count, item)?).ok_or(Errno::INVALID)
}

/// The entries of an array.
///
/// # Safety
/// `count` entries can be read at `at`, as long as the result lives.
unsafe fn entries<'a, T>(at: *const T, count: usize) -> Result<&'a [T], Errno> {
    match count {
        0 => Ok(&[]),
        count if at.is_null() || count > info::SIDES_MAX => Err(Errno::INVALID),
        // SAFETY: the caller's promise.
        count => Ok(unsafe { std::slice::from_raw_parts(at, count) }),
    }
}

fn at(buf: *const c_void, count: usize) -> [fi_ioc; 1] {
    [fi_ioc { addr: buf.cast_mut(), count }]
}

/// Where an operation on one stretch of a peer's memory aims.
#[derive(Clone, Copy)]
struct Aim {
    peer: fi_addr_t,
    addr: u64,
    key: u64,
}

/// Begins an operation on one stretch.
///
/// # Safety
/// As libfabric calls it: an open endpoint, and memory that an item can be read from where
/// there is an operand.
unsafe fn act(
    ep: *mut fid_ep,
    call: Call,
    (datatype, op): (u32, u32),
    aim: Aim,
    sides: [&[fi_ioc]; 3],
    context: *mut c_void,
    is_injected: bool,
) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    let ep: &Ep = unsafe { object(ep) };
    let what = What::of(call, datatype, op)?;
    let [values, operands, results] = sides;
    let mine = if what.is_read { results } else { values };
    let count = mine.iter().map(|ioc| ioc.count).sum();
    let there = [ffi::fi_rma_ioc { addr: aim.addr, count, key: aim.key }];
    let parts = Sides { values, operands, results, there: &there }.parts(&what)?;
    let asked =
        Asked { deed: what.deed, peer: aim.peer, data: None, context, flags: Flags::Default };
    match is_injected {
        true => remote::inject(&ep.core, asked, &parts),
        false => remote::begin(&ep.core, asked, &parts),
    }
}

/// Begins an operation that a message describes.
///
/// # Safety
/// As for [`act`]; the message is whole.
unsafe fn act_by(
    ep: *mut fid_ep,
    call: Call,
    msg: *const fi_msg_atomic,
    operands: &[fi_ioc],
    results: &[fi_ioc],
    flags: u64,
) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    let (ep, msg, values, there): (&Ep, _, _, _) = unsafe {
        let msg = &*msg;
        let values = entries(msg.msg_iov, msg.iov_count)?;
        (object(ep), msg, values, entries(msg.rma_iov, msg.rma_iov_count)?)
    };
    let what = What::of(call, msg.datatype, msg.op)?;
    let parts = Sides { values, operands, results, there }.parts(&what)?;
    let (peer, context, flags) = (msg.addr, msg.context, Flags::Given(flags));
    remote::begin(&ep.core, Asked { deed: what.deed, peer, data: None, context, flags }, &parts)
}

unsafe extern "C" fn write(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> ssize_t {
    let (aim, values) = (Aim { peer, addr, key }, at(buf, count));
    // SAFETY: as libfabric calls it.
    posted(|| unsafe {
        act(ep, Call::Write, (datatype, op), aim, [&values, &[], &[]], context, false)
    })
}

unsafe extern "C" fn writev(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    _desc: *mut *mut c_void,
    count: usize,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> ssize_t {
    let aim = Aim { peer, addr, key };
    // SAFETY: as libfabric calls it.
    posted(|| unsafe {
        let sides = [entries(iov, count)?, &[], &[]];
        act(ep, Call::Write, (datatype, op), aim, sides, context, false)
    })
}

unsafe extern "C" fn writemsg(ep: *mut fid_ep, msg: *const fi_msg_atomic, flags: u64) -> ssize_t {
    // SAFETY: as libfabric calls it.
    posted(|| unsafe { act_by(ep, Call::Write, msg, &[], &[], flags) })
}

unsafe extern "C" fn inject(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
) -> ssize_t {
    let (aim, values) = (Aim { peer, addr, key }, at(buf, count));
    let context = std::ptr::null_mut();
    // SAFETY: as libfabric calls it.
    posted(|| unsafe {
        act(ep, Call::Write, (datatype, op), aim, [&values, &[], &[]], context, true)
    })
}

unsafe extern "C" fn readwrite(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> ssize_t {
    let (aim, values, results) = (Aim { peer, addr, key }, at(buf, count), at(result, count));
    // SAFETY: as libfabric calls it.
    posted(|| unsafe {
        act(ep, Call::Fetch, (datatype, op), aim, [&values, &[], &results], context, false)
    })
}

unsafe extern "C" fn readwritev(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    _desc: *mut *mut c_void,
    count: usize,
    result: *mut fi_ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> ssize_t {
    let aim = Aim { peer, addr, key };
    // SAFETY: as libfabric calls it.
    posted(|| unsafe {
        let sides = [entries(iov, count)?, &[], entries(result, result_count)?];
        act(ep, Call::Fetch, (datatype, op), aim, sides, context, false)
    })
}

unsafe extern "C" fn readwritemsg(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    result: *mut fi_ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> ssize_t {
    // SAFETY: as libfabric calls it.
    posted(|| unsafe { act_by(ep, Call::Fetch, msg, &[], entries(result, result_count)?, flags) })
}

unsafe extern "C" fn compwrite(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    compare: *const c_void,
    _compare_desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> ssize_t {
    let aim = Aim { peer, addr, key };
    let sides = [at(buf, count), at(compare, count), at(result, count)];
    // SAFETY: as libfabric calls it.
    posted(|| unsafe {
        let [values, operands, results] = &sides;
        act(ep, Call::Compare, (datatype, op), aim, [values, operands, results], context, false)
    })
}

unsafe extern "C" fn compwritev(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    _desc: *mut *mut c_void,
    count: usize,
    compare: *const fi_ioc,
    _compare_desc: *mut *mut c_void,
    compare_count: usize,
    result: *mut fi_ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> ssize_t {
    let aim = Aim { peer, addr, key };
    // SAFETY: as libfabric calls it.
    posted(|| unsafe {
        let sides = [
            entries(iov, count)?,
            entries(compare, compare_count)?,
            entries(result, result_count)?,
        ];
        act(ep, Call::Compare, (datatype, op), aim, sides, context, false)
    })
}

unsafe extern "C" fn compwritemsg(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    compare: *const fi_ioc,
    _compare_desc: *mut *mut c_void,
    compare_count: usize,
    result: *mut fi_ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> ssize_t {
    // SAFETY: as libfabric calls it.
    posted(|| unsafe {
        let (compare, result) = (entries(compare, compare_count)?, entries(result, result_count)?);
        act_by(ep, Call::Compare, msg, compare, result, flags)
    })
}

/// # Safety
/// `count` can be written, or is null.
unsafe fn valid(call: Call, datatype: u32, op: u32, count: *mut usize) -> c_int {
    guard::status(|| {
        let what = What::of(call, datatype, op)?;
        if !count.is_null() {
            // SAFETY: the caller's promise.
            unsafe { *count = what.count_max() };
        }
        Ok(())
    })
}

unsafe extern "C" fn writevalid(
    _: *mut fid_ep,
    datatype: u32,
    op: u32,
    count: *mut usize,
) -> c_int {
    // SAFETY: as libfabric calls it.
    unsafe { valid(Call::Write, datatype, op, count) }
}

unsafe extern "C" fn readwritevalid(
    _: *mut fid_ep,
    datatype: u32,
    op: u32,
    count: *mut usize,
) -> c_int {
    // SAFETY: as libfabric calls it.
    unsafe { valid(Call::Fetch, datatype, op, count) }
}

unsafe extern "C" fn compwritevalid(
    _: *mut fid_ep,
    datatype: u32,
    op: u32,
    count: *mut usize,
) -> c_int {
    // SAFETY: as libfabric calls it.
    unsafe { valid(Call::Compare, datatype, op, count) }
}

/// `fi_query_atomic`.
///
/// # Safety
/// As libfabric calls it: `attr` can be written.
pub unsafe extern "C" fn query(
    _domain: *mut fid_domain,
    datatype: u32,
    op: u32,
    attr: *mut fi_atomic_attr,
    flags: u64,
) -> c_int {
    guard::status(|| {
        let call = match flags {
            0 => Call::Write,
            ffi::FI_FETCH_ATOMIC => Call::Fetch,
            ffi::FI_COMPARE_ATOMIC => Call::Compare,
            // Whether receive buffers may be their target: they may not.
            flags if flags & ffi::FI_TAGGED != 0 => return Err(Errno::NOT_SUPPORTED),
            _ => return Err(Errno::BAD_FLAGS),
        };
        let what = What::of(call, datatype, op)?;
        if attr.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: the caller's promise.
        unsafe { *attr = fi_atomic_attr { count: what.count_max(), size: what.item_bytes } };
        Ok(())
    })
}
