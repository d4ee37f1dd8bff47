//! The name of one process's mailbox, as peers exchange it.
//!
//! 64 bytes, little endian: magic (4), version (1), kind (1), zero (2), host
//! (8), nonce (8), start time (8), label (8), probe address (8), pid (4),
//! descriptor or user (4), pid namespace (4), checksum of the preceding (4). An
//! address that parses is well formed, not true: attaching checks what it says.
//!
//! No longer than that: Open MPI 4.1 has room for 64 bytes, and does not select
//! a provider whose addresses are longer.

use super::error::AddressError;
use super::limits::ADDRESS_VERSION as VERSION;
use crate::hash::fnv1a;
use std::path::{Path, PathBuf};

/// Length of an address in bytes.
pub const ADDRESS_BYTES: usize = 64;
/// Where the checksum stands, behind all that it covers.
const CHECK_AT: usize = ADDRESS_BYTES - 4;
/// How many directories a user may have files in.
const USER_DIRS: u32 = 8;
const MAGIC: [u8; 4] = *b"SLsh";
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

/// The name of one process's mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    pub(super) host: u64,
    pub(super) nonce: u64,
    pub(super) start_time: u64,
    pub(super) pid_ns: u64,
    pub(super) pid: u32,
    pub(super) place: Place,
    /// Where the nonce lies in the memory of the process: what a peer reads to
    /// learn whether it may read at all.
    pub(super) probe_addr: u64,
    /// What the layer above calls the process. It means nothing here.
    pub(super) label: u64,
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// [`AddressError::Malformed`] or [`AddressError::Version`] for bytes that
    /// [`Address::to_bytes`] did not make.
    pub fn from_bytes(bytes: &[u8]) -> Result<Address, AddressError> {
        let bytes: &[u8; ADDRESS_BYTES] =
            bytes.try_into().map_err(|_| AddressError::Malformed("wrong length"))?;
        if bytes[..4] != MAGIC {
            return Err(AddressError::Malformed("wrong magic"));
        }
        if bytes[4] != VERSION {
            return Err(AddressError::Version(bytes[4]));
        }
        if half(bytes, CHECK_AT) != check_of(bytes) {
            return Err(AddressError::Malformed("wrong checksum"));
        }
        let detail = half(bytes, 52);
        let place = match bytes[5] {
            KIND_MEMFD => Place::Memfd { fd: detail },
            KIND_FILE => Place::File { uid: detail },
            _ => return Err(AddressError::Malformed("unknown kind")),
        };
        let pid = half(bytes, 48);
        // What is handed to the kernel as a pid or a descriptor is a positive int.
        if pid == 0 || i32::try_from(pid).is_err() {
            return Err(AddressError::Malformed("impossible pid"));
        }
        if bytes[6..8] != [0, 0] {
            return Err(AddressError::Malformed("reserved bytes are not zero"));
        }
        Ok(Address {
            host: word(bytes, 8),
            nonce: word(bytes, 16),
            start_time: word(bytes, 24),
            pid_ns: u64::from(half(bytes, 56)),
            pid,
            place,
            probe_addr: word(bytes, 40),
            label: word(bytes, 32),
        })
    }

    /// The bytes of the address.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; ADDRESS_BYTES] {
        let (kind, detail) = match self.place {
            Place::Memfd { fd } => (KIND_MEMFD, fd),
            Place::File { uid } => (KIND_FILE, uid),
        };
        let mut bytes = [0; ADDRESS_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = kind;
        bytes[8..16].copy_from_slice(&self.host.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.nonce.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.start_time.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.label.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.probe_addr.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.pid.to_le_bytes());
        bytes[52..56].copy_from_slice(&detail.to_le_bytes());
        // The system numbers namespaces with 32 bits (`identity`).
        bytes[56..60].copy_from_slice(&(self.pid_ns as u32).to_le_bytes());
        let check = check_of(&bytes);
        bytes[CHECK_AT..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// The process id, in the pid namespace of that process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What the layer above calls the process, by its own account.
    #[must_use]
    pub fn label(&self) -> u64 {
        self.label
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
        file_name(self.pid, self.start_time, self.nonce)
    }
}

/// The directory of one user's mailbox files, as a rule.
pub(super) fn user_dir(shm_dir: &Path, uid: u32) -> PathBuf {
    shm_dir.join(format!("sluice-{uid}"))
}

/// All directories in which they may be, in the order in which they are tried:
/// another user may have taken the first.
pub(super) fn user_dirs(shm_dir: &Path, uid: u32) -> impl Iterator<Item = PathBuf> {
    let spare = (1..USER_DIRS).map(move |number| format!("sluice-{uid}-{number}"));
    let spare = spare.map(|name| shm_dir.join(name));
    std::iter::once(user_dir(shm_dir, uid)).chain(spare)
}

/// The name of one mailbox file.
pub(super) fn file_name(pid: u32, start_time: u64, nonce: u64) -> String {
    format!("{pid}-{start_time}-{nonce:016x}.seg")
}

fn check_of(bytes: &[u8; ADDRESS_BYTES]) -> u32 {
    let check = fnv1a(&bytes[..CHECK_AT]);
    (check ^ check >> 32) as u32
}

fn word(bytes: &[u8; ADDRESS_BYTES], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn half(bytes: &[u8; ADDRESS_BYTES], at: usize) -> u32 {
    let mut half = [0; 4];
    half.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(half)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(place: Place) -> Address {
        Address {
            host: 1,
            nonce: 0x0102_0304_0506_0708,
            start_time: 3,
            pid_ns: 4,
            pid: 1234,
            place,
            probe_addr: 0x7fff_0000,
            label: 0x1122_3344_5566_7788,
        }
    }

    #[test]
    fn bytes_and_back() {
        for place in [Place::Memfd { fd: 7 }, Place::File { uid: 1000 }] {
            let address = example(place);
            assert_eq!(Address::from_bytes(&address.to_bytes()), Ok(address));
        }
    }

    #[test]
    fn every_field_has_its_place() {
        let bytes = example(Place::File { uid: 1000 }).to_bytes();
        let mut wanted = b"SLsh\x03\x02\0\0".to_vec();
        for word in [1, 0x0102_0304_0506_0708, 3, 0x1122_3344_5566_7788, 0x7fff_0000_u64] {
            wanted.extend(word.to_le_bytes());
        }
        for half in [1234, 1000, 4_u32] {
            wanted.extend(half.to_le_bytes());
        }
        let check = fnv1a(&wanted);
        wanted.extend(((check ^ check >> 32) as u32).to_le_bytes());
        assert_eq!(bytes[..], wanted);
    }

    #[test]
    fn the_version_before_is_refused_by_name() {
        let mut bytes = example(Place::Memfd { fd: 7 }).to_bytes();
        bytes[4] = 1;
        assert_eq!(Address::from_bytes(&bytes), Err(AddressError::Version(1)));
    }

    #[test]
    fn every_flipped_bit_and_every_truncation_is_refused() {
        let bytes = example(Place::Memfd { fd: 7 }).to_bytes();
        for bit in 0..ADDRESS_BYTES * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Address::from_bytes(&bad).is_err(), "bit {bit}");
        }
        for len in 0..ADDRESS_BYTES {
            assert!(Address::from_bytes(&bytes[..len]).is_err(), "length {len}");
        }
    }

    #[test]
    fn a_file_is_named_after_its_owner() {
        let path = example(Place::File { uid: 1000 }).path(Path::new("/dev/shm"));
        assert_eq!(path.to_str(), Some("/dev/shm/sluice-1000/1234-3-0102030405060708.seg"));
    }
}
