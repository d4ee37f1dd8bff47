//! Who a process is, as its peers exchange it.
//!
//! 64 bytes, little endian: magic (2), version (1), flags (1), tag of the host (2),
//! port (2), host address (16), secret (8), key (32). Flags, port, host address and
//! secret are room for rails between hosts; they are zero, and an address in which they
//! are not is refused. What is found under the key says where the mailbox is (`card`).
//!
//! No longer than that: Open MPI 4.1 has room for 64 bytes, and does not select
//! a provider whose addresses are longer.

use super::error::AddressError;
use super::limits::ADDRESS_VERSION as VERSION;
use crate::hash::fnv1a;
use std::fmt;

/// Length of an address in bytes.
pub const ADDRESS_BYTES: usize = 64;
/// Length of a key in bytes.
pub(super) const KEY_BYTES: usize = 32;
const MAGIC: [u8; 2] = *b"SA";
/// What addresses of the layout before began with; their version follows.
const FORMER_MAGIC: [u8; 4] = *b"SLsh";
const TAG_AT: usize = 4;
const KEY_AT: usize = ADDRESS_BYTES - KEY_BYTES;

/// Who a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// A hash of the host's boot: who has another one is on another host.
    pub(super) tag: u16,
    /// What no other mailbox has.
    pub(super) key: [u8; KEY_BYTES],
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// [`AddressError::Malformed`], [`AddressError::Version`] or
    /// [`AddressError::Former`] for bytes that [`Address::to_bytes`] did not make.
    pub fn from_bytes(bytes: &[u8]) -> Result<Address, AddressError> {
        if let Some([version, ..]) = bytes.strip_prefix(&FORMER_MAGIC) {
            return Err(AddressError::Former(*version));
        }
        let bytes: &[u8; ADDRESS_BYTES] =
            bytes.try_into().map_err(|_| AddressError::Malformed("wrong length"))?;
        if bytes[..2] != MAGIC {
            return Err(AddressError::Malformed("wrong magic"));
        }
        if bytes[2] != VERSION {
            return Err(AddressError::Version(bytes[2]));
        }
        let (head, key) = bytes.split_at(KEY_AT);
        if head[3] != 0 || head[TAG_AT + 2..].iter().any(|&byte| byte != 0) {
            return Err(AddressError::Malformed("reserved bytes are not zero"));
        }
        let mut address =
            Address { tag: u16::from_le_bytes([bytes[TAG_AT], bytes[TAG_AT + 1]]), key: [0; 32] };
        address.key.copy_from_slice(key);
        if address.key == [0; KEY_BYTES] {
            return Err(AddressError::Malformed("no key"));
        }
        Ok(address)
    }

    /// The bytes of the address.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; ADDRESS_BYTES] {
        let mut bytes = [0; ADDRESS_BYTES];
        bytes[..2].copy_from_slice(&MAGIC);
        bytes[2] = VERSION;
        bytes[TAG_AT..TAG_AT + 2].copy_from_slice(&self.tag.to_le_bytes());
        bytes[KEY_AT..].copy_from_slice(&self.key);
        bytes
    }

    /// A hash of the key: what the process's files, its mailbox and its memory are
    /// known by.
    pub(super) fn mark(&self) -> u64 {
        fnv1a(&self.key)
    }
}

/// The mark of its key, which is also in the name of its card.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.mark())
    }
}

/// The tag of a host, in the addresses of its processes.
pub(super) fn tag_of(host: u64) -> u16 {
    (host ^ host >> 16 ^ host >> 32 ^ host >> 48) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Address {
        let mut key = [0; KEY_BYTES];
        for (byte, value) in key.iter_mut().zip(0x40..) {
            *byte = value;
        }
        Address { tag: 0x0102, key }
    }

    #[test]
    fn every_field_has_its_place() {
        let mut wanted = b"SA\x02\0\x02\x01".to_vec();
        // Port, host address, secret.
        wanted.extend([0; 2 + 16 + 8]);
        wanted.extend(0x40..0x60);
        assert_eq!(example().to_bytes()[..], wanted);
        assert_eq!(Address::from_bytes(&wanted), Ok(example()));
    }

    #[test]
    fn an_address_of_another_version_is_refused_by_both_names() {
        let mut bytes = example().to_bytes();
        bytes[2] = 3;
        let why = Address::from_bytes(&bytes).unwrap_err();
        assert_eq!(why, AddressError::Version(3));
        let text = why.to_string();
        assert!(text.contains("version 3") && text.contains("version 2"), "{text}");
    }

    #[test]
    fn an_address_of_the_layout_before_is_refused_by_both_names() {
        for version in [1, 3] {
            let mut bytes = [0; ADDRESS_BYTES];
            bytes[..4].copy_from_slice(b"SLsh");
            bytes[4] = version;
            let why = Address::from_bytes(&bytes).unwrap_err();
            assert_eq!(why, AddressError::Former(version));
            let text = why.to_string();
            let named = text.contains(&format!("version {version}")) && text.contains("version 2");
            assert!(named && text.contains("SLsh"), "{text}");
        }
    }

    #[test]
    fn every_flipped_bit_is_refused_or_names_somebody_else() {
        let bytes = example().to_bytes();
        for bit in 0..ADDRESS_BYTES * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            match Address::from_bytes(&bad) {
                Ok(other) => {
                    let byte = bit / 8;
                    assert!((TAG_AT..TAG_AT + 2).contains(&byte) || byte >= KEY_AT, "bit {bit}");
                    assert!(other != example() && other.to_bytes() == bad, "bit {bit}");
                }
                Err(AddressError::Version(_)) => assert_eq!(bit / 8, 2),
                Err(why) => assert!(matches!(why, AddressError::Malformed(_)), "{why}"),
            }
        }
        for len in (0..ADDRESS_BYTES).chain([ADDRESS_BYTES + 1]) {
            let bad = [&bytes[..], &[0]].concat();
            assert!(Address::from_bytes(&bad[..len]).is_err(), "length {len}");
        }
    }

    #[test]
    fn nobody_has_no_key() {
        let nobody = Address { tag: 1, key: [0; KEY_BYTES] };
        assert!(Address::from_bytes(&nobody.to_bytes()).is_err());
    }

    #[test]
    fn a_tag_depends_on_all_of_the_host() {
        for bit in 0..64 {
            assert_ne!(tag_of(0x1234_5678_9abc_def0 ^ 1 << bit), tag_of(0x1234_5678_9abc_def0));
        }
    }
}
