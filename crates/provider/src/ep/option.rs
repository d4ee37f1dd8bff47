//! `fi_getopt` and `fi_setopt`.

use super::Ep;
use crate::errno::Errno;
use crate::ffi::{self, fid};
use crate::guard;
use crate::info;
use crate::object;
use libc::{c_int, c_void};

/// The value of an option that is a size.
fn size_of_option(ep: &Ep, option: c_int) -> Result<usize, Errno> {
    match option {
        ffi::FI_OPT_MIN_MULTI_RECV => Ok(ep.core.state()?.multi_recv_min),
        ffi::FI_OPT_CM_DATA_SIZE => Ok(0),
        ffi::FI_OPT_TX_SIZE | ffi::FI_OPT_RX_SIZE => Ok(info::QUEUE_SIZE),
        ffi::FI_OPT_MAX_MSG_SIZE | ffi::FI_OPT_MAX_TAGGED_SIZE => Ok(info::MESSAGE_MAX),
        ffi::FI_OPT_INJECT_MSG_SIZE | ffi::FI_OPT_INJECT_TAGGED_SIZE => {
            Ok(ep.core.state()?.inject_bytes)
        }
        _ => Err(Errno::NO_OPTION),
    }
}

/// # Safety
/// As libfabric calls it: `*len` bytes at `value` can be written.
pub unsafe extern "C" fn getopt(
    ep: *mut fid,
    level: c_int,
    option: c_int,
    value: *mut c_void,
    len: *mut usize,
) -> c_int {
    guard::status(|| {
        if level != ffi::FI_OPT_ENDPOINT {
            return Err(Errno::NO_OPTION);
        }
        // SAFETY: as libfabric calls it.
        let ep: &Ep = unsafe { object::object(ep) };
        let answer = size_of_option(ep, option)?;
        // SAFETY: the caller's promise.
        unsafe {
            let room = std::mem::replace(&mut *len, size_of::<usize>());
            if room < size_of::<usize>() {
                return Err(Errno::TOO_SMALL);
            }
            value.cast::<usize>().write_unaligned(answer);
        }
        Ok(())
    })
}

/// # Safety
/// As libfabric calls it: `len` bytes at `value` can be read.
pub unsafe extern "C" fn setopt(
    ep: *mut fid,
    level: c_int,
    option: c_int,
    value: *const c_void,
    len: usize,
) -> c_int {
    guard::status(|| {
        if level != ffi::FI_OPT_ENDPOINT {
            return Err(Errno::NO_OPTION);
        }
        if value.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: as libfabric calls it.
        let ep: &Ep = unsafe { object::object(ep) };
        match option {
            // Device memory is not offered at all, so only a demand for direct
            // transfers to it cannot be met.
            ffi::FI_OPT_FI_HMEM_P2P if len == size_of::<c_int>() => {
                // SAFETY: the caller's promise.
                match unsafe { value.cast::<c_int>().read_unaligned() } {
                    ffi::FI_HMEM_P2P_REQUIRED => Err(Errno::NOT_SUPPORTED),
                    _ => Ok(()),
                }
            }
            ffi::FI_OPT_CUDA_API_PERMITTED if len == 1 => Ok(()),
            ffi::FI_OPT_SHARED_MEMORY_PERMITTED if len == 1 => {
                // SAFETY: the caller's promise.
                let permitted = unsafe { value.cast::<u8>().read() } != 0;
                if permitted { Ok(()) } else { Err(Errno::NOT_SUPPORTED) }
            }
            ffi::FI_OPT_MIN_MULTI_RECV if len == size_of::<usize>() => {
                // SAFETY: the caller's promise.
                let least = unsafe { value.cast::<usize>().read_unaligned() };
                ep.core.state()?.multi_recv_min = least;
                Ok(())
            }
            // A program may ask for less than it has; it then keeps to that.
            _ if len == size_of::<usize>() => {
                let most = size_of_option(ep, option)?;
                // SAFETY: the caller's promise.
                let wanted = unsafe { value.cast::<usize>().read_unaligned() };
                if wanted <= most { Ok(()) } else { Err(Errno::INVALID) }
            }
            _ => Err(Errno::NO_OPTION),
        }
    })
}
