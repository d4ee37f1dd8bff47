//! What a process says of itself to those that know its key: where its mailbox is.
//!
//! 88 bytes, little endian: magic (4), version (1), kind of mailbox (1), zero (2),
//! key (32), host (8), start time (8), label (8), probe address (8), pid (4),
//! descriptor or user (4), pid namespace (4), checksum of the preceding (4).
//!
//! It lies in a file that its process holds (`lookup`), and in the entry that the
//! process has in a mailbox. A card that parses is well formed, not true: [`Card::check`]
//! says whether this process can use it, and attaching checks the rest.

use super::dirs::user_dir;
use super::error::CardError;
use super::held::Holder;
use super::identity::Identity;
use super::limits::CARD_VERSION as VERSION;
use crate::address::{Address, KEY_BYTES, tag_of};
use crate::hash::check_of;
use std::path::{Path, PathBuf};

/// Length of a card in bytes.
pub(super) const CARD_BYTES: usize = 88;
/// Where the checksum stands, behind all that it covers.
const CHECK_AT: usize = CARD_BYTES - 4;
const MAGIC: [u8; 4] = *b"SLcd";
const KIND_MEMFD: u8 = 1;
const KIND_FILE: u8 = 2;

/// Where a mailbox is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// A descriptor of the process.
    Memfd { fd: u32 },
    /// A file in the directory of this user.
    File { uid: u32 },
}

/// What a process says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Card {
    pub(super) key: [u8; KEY_BYTES],
    pub(super) host: u64,
    pub(super) start_time: u64,
    pub(super) pid_ns: u64,
    pub(super) pid: u32,
    pub(super) place: Place,
    /// Where the mark of the key lies in the memory of the process: what a peer
    /// reads to learn whether it may read at all.
    pub(super) probe_addr: u64,
    /// What the layer above calls the process. It means nothing here.
    pub(super) label: u64,
}

impl Card {
    /// Reads a card.
    ///
    /// # Errors
    /// [`CardError::Malformed`] or [`CardError::Version`] for bytes that
    /// [`Card::to_bytes`] did not make.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Card, CardError> {
        let bytes: &[u8; CARD_BYTES] =
            bytes.try_into().map_err(|_| CardError::Malformed("wrong length"))?;
        if bytes[..4] != MAGIC {
            return Err(CardError::Malformed("wrong magic"));
        }
        if bytes[4] != VERSION {
            return Err(CardError::Version(bytes[4]));
        }
        if half(bytes, CHECK_AT) != check_of(&bytes[..CHECK_AT]) {
            return Err(CardError::Malformed("wrong checksum"));
        }
        let detail = half(bytes, 76);
        let place = match bytes[5] {
            KIND_MEMFD => Place::Memfd { fd: detail },
            KIND_FILE => Place::File { uid: detail },
            _ => return Err(CardError::Malformed("unknown kind")),
        };
        let pid = half(bytes, 72);
        // What is handed to the kernel as a pid or a descriptor is a positive int.
        if pid == 0 || i32::try_from(pid).is_err() {
            return Err(CardError::Malformed("impossible pid"));
        }
        if bytes[6..8] != [0, 0] {
            return Err(CardError::Malformed("reserved bytes are not zero"));
        }
        let mut key = [0; KEY_BYTES];
        key.copy_from_slice(&bytes[8..8 + KEY_BYTES]);
        if key == [0; KEY_BYTES] {
            return Err(CardError::Malformed("no key"));
        }
        Ok(Card {
            key,
            host: word(bytes, 40),
            start_time: word(bytes, 48),
            pid_ns: u64::from(half(bytes, 80)),
            pid,
            place,
            probe_addr: word(bytes, 64),
            label: word(bytes, 56),
        })
    }

    /// The bytes of the card.
    pub(super) fn to_bytes(self) -> [u8; CARD_BYTES] {
        let (kind, detail) = match self.place {
            Place::Memfd { fd } => (KIND_MEMFD, fd),
            Place::File { uid } => (KIND_FILE, uid),
        };
        let mut bytes = [0; CARD_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = kind;
        bytes[8..40].copy_from_slice(&self.key);
        bytes[40..48].copy_from_slice(&self.host.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.start_time.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.label.to_le_bytes());
        bytes[64..72].copy_from_slice(&self.probe_addr.to_le_bytes());
        bytes[72..76].copy_from_slice(&self.pid.to_le_bytes());
        bytes[76..80].copy_from_slice(&detail.to_le_bytes());
        // The system numbers namespaces with 32 bits (`identity`).
        bytes[80..84].copy_from_slice(&(self.pid_ns as u32).to_le_bytes());
        let check = check_of(&bytes[..CHECK_AT]);
        bytes[CHECK_AT..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Whether the process with the card `own`, of the user `uid`, can use this one.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn check(&self, own: &Card, uid: u32) -> Result<(), CardError> {
        if self.host != own.host {
            return Err(CardError::OtherHost);
        }
        if let Place::File { uid: owner } = self.place
            && owner != uid
        {
            return Err(CardError::OtherUser { owner });
        }
        // Through `/proc` neither would find the other one.
        if self.pid_ns != own.pid_ns && !(self.is_file() && own.is_file()) {
            return Err(CardError::PidNamespace { pid: self.pid });
        }
        Ok(())
    }

    /// Whose card it is: an address without a network, of which a card says nothing.
    pub(super) fn address(&self) -> Address {
        Address::local(tag_of(self.host), self.key)
    }

    /// [`Address::mark`] of its process.
    pub(super) fn mark(&self) -> u64 {
        self.address().mark()
    }

    /// Who has to hold the file in which it lies.
    pub(super) fn holder(&self) -> Holder {
        Holder { pid: self.pid, start_time: self.start_time, pid_ns: self.pid_ns }
    }

    /// Whether the mailbox is a file.
    pub(super) fn is_file(&self) -> bool {
        matches!(self.place, Place::File { .. })
    }

    /// Where the mailbox is opened first, given the directory of mailbox files.
    pub(super) fn path(&self, shm_dir: &Path) -> PathBuf {
        match self.place {
            Place::Memfd { fd } => PathBuf::from(format!("/proc/{}/fd/{fd}", self.pid)),
            Place::File { uid } => user_dir(shm_dir, uid).join(self.file_name()),
        }
    }

    /// The name of the mailbox file, if it is one.
    pub(super) fn file_name(&self) -> String {
        file_name(self.pid, self.start_time, self.mark())
    }
}

/// The name of one mailbox file.
pub(super) fn file_name(pid: u32, start_time: u64, mark: u64) -> String {
    format!("{pid}-{start_time}-{mark:016x}.seg")
}

/// This process's card.
pub(super) fn card_of(
    identity: &Identity,
    key: [u8; KEY_BYTES],
    place: Place,
    probe_addr: u64,
    label: u64,
) -> Card {
    Card {
        key,
        host: identity.host,
        start_time: identity.start_time,
        pid_ns: identity.pid_ns,
        pid: identity.pid,
        place,
        probe_addr,
        label,
    }
}

fn word(bytes: &[u8; CARD_BYTES], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn half(bytes: &[u8; CARD_BYTES], at: usize) -> u32 {
    let mut half = [0; 4];
    half.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(half)
}

#[cfg(test)]
#[path = "tests/card.rs"]
mod tests;
