//! The key of a job, from which the addresses of its processes follow.
//!
//! Whoever has the key and knows where a process listens, and what it calls itself, has its
//! address, without a word of that process: the key pair and the secret in it are made of these
//! three (HKDF-SHA256). So those who have the key of a job trust each other: each could answer
//! in the place of another one.
//!
//! Invariant: the key is in no text, and neither is what is made of it.

use super::Identity;
use super::noise::Pair;
use crate::address::{Address, AddressError, KEY_BYTES, Secret};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use std::fmt;
use std::net::SocketAddrV4;

/// What keys are made for, so that nothing else that is made of the same is the same.
const LABEL: &[u8] = b"Sluice job key 1";
const PRIVATE: &[u8] = b"private key";
const SECRET: &[u8] = b"secret";
/// The tag in addresses that follow from a key: of what boot a host is does not.
const TAG: u16 = 0;

/// The key of a job.
#[derive(Clone)]
pub struct JobKey(Prk);

/// A process as the others of its job know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// What it calls itself.
    pub label: u64,
    /// Where it listens.
    pub at: SocketAddrV4,
}

impl JobKey {
    /// The key that is made of a secret, which should be long and random: whoever listens on
    /// the network can try guesses on what is said.
    #[must_use]
    pub fn new(secret: &[u8]) -> JobKey {
        JobKey(Salt::new(HKDF_SHA256, LABEL).extract(secret))
    }

    /// The address of a process of the job.
    ///
    /// # Errors
    /// [`AddressError::Malformed`] if nobody can listen there.
    pub fn address(&self, member: Member) -> Result<Address, AddressError> {
        self.identity(member).map(|identity| identity.address())
    }

    /// What proves to be a process of the job.
    ///
    /// # Errors
    /// As [`JobKey::address`].
    pub(crate) fn identity(&self, member: Member) -> Result<Identity, AddressError> {
        let pair = Pair::of(self.bytes::<KEY_BYTES>(PRIVATE, member));
        Identity::new(TAG, pair, Secret(self.bytes(SECRET, member))).at(member.at.into())
    }

    fn bytes<const N: usize>(&self, what: &[u8], Member { label, at }: Member) -> [u8; N] {
        let (label, ip, port) = (label.to_le_bytes(), at.ip().octets(), at.port().to_le_bytes());
        let info = [what, &label, &ip, &port];
        let mut bytes = [0; N];
        let made = self.0.expand(&info, Length(N)).and_then(|made| made.fill(&mut bytes));
        made.expect("a key is short");
        // A secret is not zero.
        if bytes == [0; N] { [1; N] } else { bytes }
    }
}

/// How long a key is.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(label: u64, at: &str) -> Member {
        Member { label, at: at.parse().unwrap() }
    }

    #[test]
    fn an_address_follows_from_key_label_and_place() {
        let key = JobKey::new(b"correct horse battery");
        let known = member(0x0a00_0001_0000_1000, "10.0.0.1:16384");
        let address = key.address(known).unwrap();
        assert_eq!(JobKey::new(b"correct horse battery").address(known), Ok(address));
        // Processes of two builds have to come to the same.
        let hex: String = address.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let head = "53040000004000000000000000000000000000000000";
        let secret = "11d430f7bb51";
        let public = "97d6627da2b42f444154043bb9cda5dc87d2025dc7ffb84f1799c180f6b48444";
        assert_eq!(hex, format!("{head}0a000001{secret}{public}"));
        let others = [
            JobKey::new(b"correct horse batterz").address(known),
            key.address(member(0x0a00_0001_0000_1001, "10.0.0.1:16384")),
            key.address(member(0x0a00_0001_0000_1000, "10.0.0.2:16384")),
            key.address(member(0x0a00_0001_0000_1000, "10.0.0.1:16385")),
        ];
        for other in others.map(Result::unwrap) {
            assert_ne!(other.key(), address.key());
            assert_ne!(other.secret(), address.secret());
        }
    }

    #[test]
    fn where_nobody_listens_there_is_no_address() {
        let key = JobKey::new(b"correct horse battery");
        for at in ["0.0.0.0:1", "255.255.255.255:1", "224.0.0.1:1", "10.0.0.1:0"] {
            assert!(key.address(member(1, at)).is_err(), "{at}");
        }
    }

    #[test]
    fn a_key_is_not_shown() {
        assert_eq!(format!("{:?}", JobKey::new(b"correct horse battery")), "JobKey");
    }
}
