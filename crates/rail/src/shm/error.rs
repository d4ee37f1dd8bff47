//! Why a rail could not be opened, or a peer not be named.

use sluice_link::LayoutError;
use std::io;
use std::path::PathBuf;

/// Why a rail could not be opened. Each names the thing, the cause and what
/// would mend it.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The mailbox cannot be divided as asked.
    #[error("cannot divide the mailbox: {0}; lower senders_max or raise slots_max")]
    Layout(#[from] LayoutError),
    /// Something about this process could not be learnt.
    #[error("cannot read {path}: {cause}; mount /proc in this container")]
    Identity {
        /// What was read.
        path: &'static str,
        /// Why it failed.
        cause: io::Error,
    },
    /// The anonymous memory could not be made.
    #[error("cannot make a memfd of {bytes} bytes: {cause}; set the segment kind to file")]
    Memfd {
        /// Its size.
        bytes: u64,
        /// Why it failed.
        cause: io::Error,
    },
    /// The directory of the mailbox files cannot be used.
    #[error("cannot use {path}: {cause}; remove it or choose another shm_dir")]
    Dir {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// The directory of the mailbox files is not safe to use.
    #[error(
        "{path} belongs to user {owner} or others may use it: it is no private directory of \
         user {uid}; have it removed, or choose another directory for all processes of the job \
         (PTL_SHM_DIR, or FI_SLUICE_SEGMENT=memfd)"
    )]
    DirForeign {
        /// Which.
        path: PathBuf,
        /// The user it must belong to.
        uid: u32,
        /// The user it belongs to.
        owner: u32,
    },
    /// The mailbox file could not be made.
    #[error(
        "cannot make {path} of {bytes} bytes: {cause}; \
         give shared memory more room (docker run --shm-size) or lower slots_max"
    )]
    File {
        /// Which.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// Why it failed.
        cause: io::Error,
    },
    /// The segment could not be mapped.
    #[error("cannot map {bytes} bytes of shared memory: {cause}; raise the address space limit")]
    Map {
        /// Its size.
        bytes: u64,
        /// Why it failed.
        cause: io::Error,
    },
}

/// Why an address names nobody that this rail can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Not the bytes of an address.
    #[error("not a shared-memory address: {0}")]
    Malformed(&'static str),
    /// Made by another version.
    #[error("address version {0} is not {version}", version = super::limits::ADDRESS_VERSION)]
    Version(u8),
    /// A process of another machine (or of another boot of this one).
    #[error("the address is of another machine; shared memory does not reach it")]
    OtherHost,
    /// A process that this one cannot name or open.
    #[error(
        "pid {pid} is in another pid namespace; set the segment kind to file in both \
         containers and share the directory"
    )]
    PidNamespace {
        /// Its pid, in its own namespace.
        pid: u32,
    },
    /// More peers than one process may know.
    #[error("more than {max} peers", max = super::limits::PEERS_MAX)]
    TooMany,
    /// Names a known mailbox but says other things about it.
    #[error("the address contradicts one that is already known for pid {pid}")]
    Conflict {
        /// The pid that both name.
        pid: u32,
    },
}
