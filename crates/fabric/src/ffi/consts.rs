//! Constants of `fabric.h`, `fi_errno.h`, `fi_endpoint.h`, `fi_domain.h`.

/// `FI_VERSION(major, minor)`.
pub const fn version(major: u32, minor: u32) -> u32 {
    (major << 16) | minor
}

pub const FI_MSG: u64 = 1 << 1;
pub const FI_RMA: u64 = 1 << 2;
pub const FI_TAGGED: u64 = 1 << 3;
pub const FI_ATOMIC: u64 = 1 << 4;
pub const FI_READ: u64 = 1 << 8;
pub const FI_WRITE: u64 = 1 << 9;
pub const FI_RECV: u64 = 1 << 10;
pub const FI_SEND: u64 = 1 << 11;
pub const FI_REMOTE_READ: u64 = 1 << 12;
pub const FI_REMOTE_WRITE: u64 = 1 << 13;
pub const FI_MULTI_RECV: u64 = 1 << 16;
pub const FI_TRANSMIT: u64 = FI_SEND;
pub const FI_REMOTE_CQ_DATA: u64 = 1 << 17;
pub const FI_MORE: u64 = 1 << 18;
pub const FI_PEEK: u64 = 1 << 19;
pub const FI_FENCE: u64 = 1 << 21;
pub const FI_PRIORITY: u64 = 1 << 22;
pub const FI_COMPLETION: u64 = 1 << 24;
pub const FI_EVENT: u64 = FI_COMPLETION;
pub const FI_INJECT: u64 = 1 << 25;
pub const FI_INJECT_COMPLETE: u64 = 1 << 26;
pub const FI_TRANSMIT_COMPLETE: u64 = 1 << 27;
pub const FI_DELIVERY_COMPLETE: u64 = 1 << 28;
pub const FI_MATCH_COMPLETE: u64 = 1 << 31;
pub const FI_RMA_EVENT: u64 = 1 << 56;
pub const FI_LOCAL_COMM: u64 = 1 << 51;
pub const FI_REMOTE_COMM: u64 = 1 << 52;
pub const FI_SOURCE: u64 = 1 << 57;
pub const FI_DIRECTED_RECV: u64 = 1 << 59;

/// Flags of single calls; the bits mean other things elsewhere.
pub const FI_CLAIM: u64 = 1 << 59;
pub const FI_DISCARD: u64 = 1 << 58;
pub const FI_FETCH_ATOMIC: u64 = 1 << 58;
pub const FI_COMPARE_ATOMIC: u64 = 1 << 59;
pub const FI_SELECTIVE_COMPLETION: u64 = 1 << 59;
pub const FI_SYNC_ERR: u64 = 1 << 58;
pub const FI_SYMMETRIC: u64 = 1 << 59;

pub const FI_ADDR_UNSPEC: u64 = u64::MAX;
pub const FI_ADDR_NOTAVAIL: u64 = u64::MAX;
/// Marks a value as the provider's own.
pub const FI_PROV_SPECIFIC: u32 = 1 << 31;
pub const FI_FORMAT_UNSPEC: u32 = 0;

pub const FI_AV_UNSPEC: u32 = 0;
pub const FI_AV_MAP: u32 = 1;
pub const FI_AV_TABLE: u32 = 2;

pub const FI_MR_BASIC: i32 = 1 << 0;
pub const FI_MR_SCALABLE: i32 = 1 << 1;
pub const FI_MR_LOCAL: i32 = 1 << 2;
pub const FI_MR_VIRT_ADDR: i32 = 1 << 4;
pub const FI_MR_ALLOCATED: i32 = 1 << 5;
pub const FI_MR_PROV_KEY: i32 = 1 << 6;
pub const FI_MR_ENDPOINT: i32 = 1 << 9;

/// Modes: what a provider needs of its callers.
pub const FI_CONTEXT: u64 = 1 << 59;
pub const FI_CONTEXT2: u64 = 1 << 52;

pub const FI_SOCKADDR: u32 = 1;
pub const FI_SOCKADDR_IN: u32 = 2;
pub const FI_SOCKADDR_IN6: u32 = 3;

pub const FI_PROGRESS_AUTO: u32 = 1;
pub const FI_PROGRESS_MANUAL: u32 = 2;
pub const FI_PROGRESS_CONTROL_UNIFIED: u32 = 3;

pub const FI_THREAD_SAFE: u32 = 1;
pub const FI_THREAD_DOMAIN: u32 = 3;
pub const FI_THREAD_ENDPOINT: u32 = 5;

pub const FI_RM_ENABLED: u32 = 2;

pub const FI_ORDER_SAS: u64 = 1 << 8;
pub const FI_ORDER_ATOMIC_RAR: u64 = 1 << 36;
pub const FI_ORDER_ATOMIC_RAW: u64 = 1 << 37;
pub const FI_ORDER_ATOMIC_WAR: u64 = 1 << 38;
pub const FI_ORDER_ATOMIC_WAW: u64 = 1 << 39;

pub const FI_EP_UNSPEC: u32 = 0;
pub const FI_EP_RDM: u32 = 3;

/// Greatest of the named tag formats of 2.x (`FI_TAG_MPI` and others), which
/// are small numbers where a mask was.
pub const FI_TAG_MAX_FORMAT: u64 = 1 << 16;

pub const FI_CLASS_FABRIC: usize = 1;
pub const FI_CLASS_DOMAIN: usize = 2;
pub const FI_CLASS_EP: usize = 3;
pub const FI_CLASS_AV: usize = 11;
pub const FI_CLASS_MR: usize = 12;
pub const FI_CLASS_EQ: usize = 13;
pub const FI_CLASS_CQ: usize = 14;
pub const FI_CLASS_CNTR: usize = 15;

pub const FI_GETOPSFLAG: i32 = 2;
pub const FI_SETOPSFLAG: i32 = 3;
pub const FI_GETWAIT: i32 = 5;
pub const FI_ENABLE: i32 = 6;
pub const FI_GETWAITOBJ: i32 = 16;

pub const FI_WAIT_NONE: u32 = 0;
pub const FI_WAIT_UNSPEC: u32 = 1;
pub const FI_WAIT_FD: u32 = 3;
pub const FI_WAIT_YIELD: u32 = 5;

pub const FI_CQ_FORMAT_UNSPEC: u32 = 0;
pub const FI_CQ_FORMAT_CONTEXT: u32 = 1;
pub const FI_CQ_FORMAT_MSG: u32 = 2;
pub const FI_CQ_FORMAT_DATA: u32 = 3;
pub const FI_CQ_FORMAT_TAGGED: u32 = 4;

pub const FI_CNTR_EVENTS_COMP: u32 = 0;

pub const FI_AV_COMPLETE: u32 = 5;

pub const FI_OPT_ENDPOINT: i32 = 0;
pub const FI_OPT_MIN_MULTI_RECV: i32 = 0;
pub const FI_OPT_CM_DATA_SIZE: i32 = 1;
pub const FI_OPT_TX_SIZE: i32 = 6;
pub const FI_OPT_RX_SIZE: i32 = 7;
pub const FI_OPT_FI_HMEM_P2P: i32 = 8;
pub const FI_OPT_CUDA_API_PERMITTED: i32 = 10;
pub const FI_OPT_SHARED_MEMORY_PERMITTED: i32 = 11;
pub const FI_OPT_MAX_MSG_SIZE: i32 = 12;
pub const FI_OPT_MAX_TAGGED_SIZE: i32 = 13;
pub const FI_OPT_INJECT_MSG_SIZE: i32 = 16;
pub const FI_OPT_INJECT_TAGGED_SIZE: i32 = 17;
/// Value of `FI_OPT_FI_HMEM_P2P`: only direct transfers to devices are allowed.
pub const FI_HMEM_P2P_REQUIRED: i32 = 1;

pub const FI_EAGAIN: i32 = libc::EAGAIN;
pub const FI_EBUSY: i32 = libc::EBUSY;
pub const FI_ECANCELED: i32 = libc::ECANCELED;
pub const FI_ECONNABORTED: i32 = libc::ECONNABORTED;
pub const FI_ECONNREFUSED: i32 = libc::ECONNREFUSED;
pub const FI_EFAULT: i32 = libc::EFAULT;
pub const FI_EHOSTUNREACH: i32 = libc::EHOSTUNREACH;
pub const FI_EINVAL: i32 = libc::EINVAL;
pub const FI_EIO: i32 = libc::EIO;
pub const FI_EMSGSIZE: i32 = libc::EMSGSIZE;
pub const FI_ENODATA: i32 = libc::ENODATA;
pub const FI_ENOENT: i32 = libc::ENOENT;
pub const FI_ENOMEM: i32 = libc::ENOMEM;
pub const FI_ENOMSG: i32 = libc::ENOMSG;
pub const FI_ENOPROTOOPT: i32 = libc::ENOPROTOOPT;
pub const FI_ENOSYS: i32 = libc::ENOSYS;
pub const FI_EOPNOTSUPP: i32 = libc::EOPNOTSUPP;
pub const FI_EACCES: i32 = libc::EACCES;
pub const FI_EKEYREJECTED: i32 = libc::EKEYREJECTED;
pub const FI_ETIMEDOUT: i32 = libc::ETIMEDOUT;
pub const FI_EADDRNOTAVAIL: i32 = libc::EADDRNOTAVAIL;
pub const FI_EOTHER: i32 = 256;
pub const FI_ETOOSMALL: i32 = 257;
pub const FI_EOPBADSTATE: i32 = 258;
pub const FI_EAVAIL: i32 = 259;
pub const FI_EBADFLAGS: i32 = 260;
pub const FI_ENOCQ: i32 = 263;
pub const FI_ETRUNC: i32 = 265;
pub const FI_ENOKEY: i32 = 266;
pub const FI_ENOAV: i32 = 267;

pub const FI_LOG_WARN: libc::c_int = 0;
pub const FI_LOG_INFO: libc::c_int = 2;
pub const FI_LOG_CORE: libc::c_int = 0;
pub const FI_LOG_FABRIC: libc::c_int = 1;
pub const FI_LOG_EP_CTRL: libc::c_int = 3;
pub const FI_LOG_AV: libc::c_int = 5;
pub const FI_LOG_CQ: libc::c_int = 6;
pub const FI_PARAM_STRING: libc::c_int = 0;
pub const FI_PARAM_BOOL: libc::c_int = 2;
pub const FI_PARAM_SIZE_T: libc::c_int = 3;
