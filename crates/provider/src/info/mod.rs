//! `fi_getinfo`: what is offered, whether it fits what is asked, and the
//! answer.
//!
//! There is one offer, a reliable datagram endpoint over shared memory. Hints
//! that it cannot meet are answered with -FI_ENODATA and, at log level info,
//! the name of the first thing that did not fit.

mod answer;
mod hints;

use crate::errno::Errno;
use crate::ffi::{self, DomainHints, fi_info};
use crate::guard;
use crate::log::{self, About};
use crate::param;
use hints::Hints;
use libc::{c_char, c_int};

/// Names of the fabric, the domain and the provider.
pub const FABRIC: &std::ffi::CStr = c"sluice";
pub const DOMAIN: &std::ffi::CStr = c"shm";

/// Addresses are opaque, in a format of our own: FI_PROV_SPECIFIC and "SLU".
/// A program compares the formats of two sides before it hands the address of
/// one to the other (fi_pingpong does), so FI_FORMAT_UNSPEC would say too
/// little, and FI_ADDR_STR promises text.
pub const ADDR_FORMAT: u32 = ffi::FI_PROV_SPECIFIC | 0x53_4c55;

/// What travels between two of our endpoints; ours alone.
pub const PROTOCOL: u32 = ffi::FI_PROV_SPECIFIC | 0x53_4c55;

/// Capabilities that a program gets only if it asks for them (`fi_getinfo`,
/// "primary capabilities"), or if it asks for nothing at all.
pub const PRIMARY_CAPS: u64 =
    MESSAGES | MESSAGE_SIDES | MEMORY | MEMORY_SIDES | ffi::FI_DIRECTED_RECV | ffi::FI_MULTI_RECV;

/// The interfaces, and their directions, which are all meant where none is named.
const MESSAGES: u64 = ffi::FI_MSG | ffi::FI_TAGGED;
const MESSAGE_SIDES: u64 = ffi::FI_SEND | ffi::FI_RECV;
const MEMORY: u64 = ffi::FI_RMA | ffi::FI_ATOMIC;
const MEMORY_SIDES: u64 = ffi::FI_READ | ffi::FI_WRITE | ffi::FI_REMOTE_READ | ffi::FI_REMOTE_WRITE;

/// Capabilities that cost nothing and are therefore always given, as the
/// rules for secondary capabilities allow.
pub const FREE_CAPS: u64 =
    ffi::FI_LOCAL_COMM | ffi::FI_REMOTE_COMM | ffi::FI_RMA_EVENT | ffi::FI_FENCE;
/// All capabilities. FI_SOURCE is secondary, but costs a look-up per message
/// read, so it is given only when asked for.
pub const CAPS: u64 = PRIMARY_CAPS | FREE_CAPS | ffi::FI_SOURCE;

/// The parts of the capabilities that belong to sending and to receiving.
pub const TX_CAPS: u64 = ffi::FI_MSG
    | ffi::FI_TAGGED
    | ffi::FI_SEND
    | ffi::FI_RMA
    | ffi::FI_ATOMIC
    | ffi::FI_READ
    | ffi::FI_WRITE
    | ffi::FI_FENCE;
pub const RX_CAPS: u64 = ffi::FI_MSG
    | ffi::FI_TAGGED
    | ffi::FI_RECV
    | ffi::FI_MULTI_RECV
    | ffi::FI_DIRECTED_RECV
    | ffi::FI_SOURCE
    | ffi::FI_RMA
    | ffi::FI_ATOMIC
    | ffi::FI_REMOTE_READ
    | ffi::FI_REMOTE_WRITE
    | ffi::FI_RMA_EVENT;

/// Flags of operations that may be made the default of an endpoint.
pub const TX_OP_FLAGS: u64 = ffi::FI_COMPLETION
    | ffi::FI_INJECT
    | ffi::FI_INJECT_COMPLETE
    | ffi::FI_TRANSMIT_COMPLETE
    | ffi::FI_DELIVERY_COMPLETE
    | ffi::FI_MATCH_COMPLETE;
pub const RX_OP_FLAGS: u64 = ffi::FI_COMPLETION | ffi::FI_MULTI_RECV;

/// Messages of one sender to one receiver match in the order in which they were sent, and
/// atomic operations, which travel in one packet each, are done in that order. Reads and
/// writes may move later than they were asked for.
pub const MSG_ORDER: u64 = ffi::FI_ORDER_SAS
    | ffi::FI_ORDER_ATOMIC_RAR
    | ffi::FI_ORDER_ATOMIC_RAW
    | ffi::FI_ORDER_ATOMIC_WAR
    | ffi::FI_ORDER_ATOMIC_WAW;

/// All 64 bits of a tag can be used, in any division: alternating bits, each a
/// field of its own. Open MPI counts the leading zeros as bits that it must
/// leave alone; there are none.
pub const TAG_FORMAT: u64 = 0xAAAA_AAAA_AAAA_AAAA;

/// Bytes that are left of a buffer for many messages when it takes no more, unless set.
pub const MULTI_RECV_MIN: usize = 64;
/// Longest message, in bytes.
pub const MESSAGE_MAX: usize = i64::MAX as usize;
/// Operations that may be outstanding. Programs size their queues by it; the
/// endpoint itself takes more.
pub const QUEUE_SIZE: usize = 4096;
/// Pieces of memory that one message may be gathered from or scattered to, and stretches of
/// memory on each side of an operation on a peer's.
pub const SIDES_MAX: usize = 8;
/// Pieces of memory that one region may be made of.
pub const MR_IOV_LIMIT: usize = 8;
/// Bytes of out-of-band data that travel with a message.
pub const CQ_DATA_SIZE: usize = 8;
pub const MR_KEY_SIZE: usize = 8;
/// Objects of a kind that a domain may have: no real limit.
pub const OBJECTS_MAX: usize = 65_536;
/// Longest text of an error entry.
pub const ERR_DATA_MAX: usize = 256;

/// Whether a program wants progress without its calls. What is called control
/// here is all done in the calls that ask for it, so either wish is for a thread
/// that moves data.
pub fn asks_for_thread(domain: &DomainHints) -> bool {
    domain.data_progress == ffi::FI_PROGRESS_AUTO
        || domain.control_progress == ffi::FI_PROGRESS_AUTO
}

/// Whether an endpoint of these capabilities has no messages. All that it does for peers is
/// one-sided then: nothing of it makes the program call.
pub fn is_one_sided(caps: u64) -> bool {
    caps & MEMORY != 0 && caps & MESSAGES == 0
}

/// What `fi_getinfo` calls.
///
/// # Safety
/// As libfabric calls it: strings are NUL-terminated or null, `hints` is a
/// whole `fi_info` or null, `info` can be written.
pub unsafe extern "C" fn getinfo(
    version: u32,
    node: *const c_char,
    _service: *const c_char,
    flags: u64,
    hints: *const fi_info,
    info: *mut *mut fi_info,
) -> c_int {
    guard::status(|| {
        // SAFETY: the caller's promise; nothing of `hints` outlives the call.
        let hints = unsafe { Hints::new(hints) };
        let settings = param::get();
        if !node.is_null() && flags & ffi::FI_SOURCE == 0 {
            log::info(About::Fabric, || {
                "no match: a node name cannot be turned into an address; exchange what \
                 fi_getname gives"
                    .into()
            });
            return Err(Errno::NO_DATA);
        }
        if let Err(misfit) = hints.check(version, settings) {
            log::info(About::Fabric, || format!("no match: {misfit}"));
            return Err(Errno::NO_DATA);
        }
        let answer = answer::make(version, &hints, settings)?;
        // SAFETY: the caller's promise.
        unsafe { *info = answer };
        Ok(())
    })
}
