//! Why a rail could not be opened, or the card of a peer not be read.

use super::limits::CARD_VERSION;
use crate::address::AddressError;
use crate::shortage::remedy;
use sluice_link::LayoutError;
use std::io;
use std::path::PathBuf;

/// How users choose [`Config::shm_dir`](super::Config::shm_dir), as far as the rail's
/// clients let them.
const ELSEWHERE: &str = "choose another directory for all processes of the job with \
                         FI_SLUICE_SHM_DIR (in Portals programs PTL_SHM_DIR)";

/// Why a rail could not be opened. Each names the thing, the cause and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The mailbox cannot be divided as asked.
    #[error("cannot divide the mailbox: {0}; lower senders_max or raise slots_max")]
    Layout(#[from] LayoutError),
    /// Something about this process could not be learnt.
    #[error("cannot read {path}: {cause}; {}", remedy(.cause, "mount /proc in this container"))]
    Identity {
        /// What was read.
        path: &'static str,
        /// Why it failed.
        cause: io::Error,
    },
    /// The system gives no random numbers.
    #[error("cannot draw a key: {cause}; allow the system call getrandom")]
    Key {
        /// Why.
        cause: io::Error,
    },
    /// The network cannot be used.
    #[error("cannot use the network: {why}; {mend}", why = .0, mend = .0.remedy())]
    Net(#[from] crate::net::NetError),
    /// The card could not be made by which peers find the mailbox.
    #[error(
        "cannot make {path}, by which others find this process: {cause}; {}",
        remedy(.cause, "see that the directory can be written")
    )]
    Card {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// The anonymous memory could not be made.
    #[error(
        "cannot make a memfd of {bytes} bytes: {cause}; {}",
        remedy(.cause, "set FI_SLUICE_SEGMENT=file")
    )]
    Memfd {
        /// Its size.
        bytes: u64,
        /// Why it failed.
        cause: io::Error,
    },
    /// The directory of this user's files cannot be used.
    #[error(
        "cannot use {path}: {cause}; {}, or {ELSEWHERE}",
        remedy(.cause, "see that the directory above it is there and can be written")
    )]
    Dir {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// The directory of this user's files is not safe to use.
    #[error(
        "{path} belongs to user {owner} or others may use it: it is no private directory of \
         user {uid}; have it removed, or {ELSEWHERE}"
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
        "cannot make {path} of {bytes} bytes: {cause}; {}, or lower FI_SLUICE_MAILBOX_SLOTS",
        remedy(.cause, "see that the directory can be written")
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
    #[error("cannot map {bytes} bytes of shared memory: {cause}; {}", remedy(.cause, "see dmesg"))]
    Map {
        /// Its size.
        bytes: u64,
        /// Why it failed.
        cause: io::Error,
    },
}

/// Why the card of a process is of no use.
#[derive(Debug, thiserror::Error)]
pub(super) enum CardError {
    /// Not the bytes of a card.
    #[error("not a card: {0}")]
    Malformed(&'static str),
    /// Made by another version.
    #[error(
        "the card is of version {0}, and this process reads version {version}; \
         use one build of Sluice in all processes of the job",
        version = CARD_VERSION
    )]
    Version(u8),
    /// It lies where another process's card has to lie.
    #[error("the card is of another process")]
    OtherKey,
    /// Another process holds the file.
    #[error("the card says pid {said}, and pid {holder} holds it")]
    OtherHolder {
        /// Whose it is by its own account.
        said: u32,
        /// Who holds it.
        holder: u32,
    },
    /// Of another machine, or of another boot of this one.
    #[error("the card is of another machine; shared memory does not reach it")]
    OtherHost,
    /// The mailbox is another user's.
    #[error("the card names a mailbox of user {owner}")]
    OtherUser {
        /// Whose.
        owner: u32,
    },
    /// A process that this one cannot name or open.
    #[error(
        "pid {pid} is in another pid namespace; set the segment kind to file in both \
         containers and share the directory"
    )]
    PidNamespace {
        /// Its pid, in its own namespace.
        pid: u32,
    },
    /// Another card of the same process is known already.
    #[error("the card contradicts one that is already known for pid {pid}")]
    Conflict {
        /// The pid of the known one.
        pid: u32,
    },
    /// Nothing of it is there.
    #[error("there is none")]
    Missing,
    /// Whose card it is cannot be a peer.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The system refused.
    #[error("{0}")]
    Io(io::Error),
}

impl CardError {
    /// Whether somebody has put there what no process of this version would.
    pub(super) fn is_violation(&self) -> bool {
        use CardError::{Address, Conflict, Malformed, OtherHolder, OtherKey, OtherUser, Version};
        matches!(
            self,
            Malformed(_)
                | Version(_)
                | OtherKey
                | OtherHolder { .. }
                | OtherUser { .. }
                | Conflict { .. }
                | Address(AddressError::Conflict)
        )
    }
}
