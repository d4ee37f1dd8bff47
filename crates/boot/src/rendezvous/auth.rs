//! Who may join: the first frame of a rank, and the proofs that both sides hold the secret.
//!
//! A MAC covers the protocol's name, the role of its sender, the rank, the size and both nonces, so
//! it is of no use in another job, for another rank, in another connection or the other way round.
//! Rank 0 proves itself last: a stranger learns nothing that he could try secrets on.

use std::io;

use hmac::{Hmac, KeyInit, Mac};
use rustix::rand::GetRandomFlags;
use sha2::Sha256;

pub(super) const NONCE_LEN: usize = 32;
pub(super) const MAC_LEN: usize = 32;
/// The longest body of a frame before both sides are proven.
pub(super) const BODY_MAX: usize = 64;

const MAGIC: &[u8; 8] = b"SluiceJ1";
const HELLO_LEN: usize = MAGIC.len() + 4 + 4 + NONCE_LEN;
const _: () = assert!(HELLO_LEN <= BODY_MAX && MAC_LEN <= BODY_MAX);

/// Whose MAC it is.
#[derive(Clone, Copy)]
pub(super) enum Role {
    Member = 1,
    Root = 2,
}

/// Why rank 0 turns a rank away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Version = 1,
    WrongKey = 2,
    WrongSize = 3,
    UnknownRank = 4,
    DuplicateRank = 5,
}

impl Reason {
    pub fn parse(code: u8) -> Option<Reason> {
        [
            Reason::Version,
            Reason::WrongKey,
            Reason::WrongSize,
            Reason::UnknownRank,
            Reason::DuplicateRank,
        ]
        .into_iter()
        .find(|&reason| reason as u8 == code)
    }
}

/// A rank's first words: magic, rank and size as little-endian numbers of 32 bits, nonce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub rank: u32,
    pub size: u32,
    pub nonce: [u8; NONCE_LEN],
}

impl Hello {
    pub fn emit(&self) -> Vec<u8> {
        let mut body = MAGIC.to_vec();
        body.extend(self.rank.to_le_bytes());
        body.extend(self.size.to_le_bytes());
        body.extend(self.nonce);
        body
    }

    pub fn parse(body: &[u8]) -> Option<Hello> {
        let rest = body.strip_prefix(MAGIC)?;
        let (rank, rest) = rest.split_first_chunk()?;
        let (size, rest) = rest.split_first_chunk()?;
        Some(Hello {
            rank: u32::from_le_bytes(*rank),
            size: u32::from_le_bytes(*size),
            nonce: rest.try_into().ok()?,
        })
    }
}

/// Whether a first frame that is no [`Hello`] may be one of another version.
pub(super) fn is_of_other_version(body: &[u8]) -> bool {
    body.starts_with(&MAGIC[..MAGIC.len() - 1]) && !body.starts_with(MAGIC)
}

/// Bytes that nobody can foresee.
pub(super) fn nonce() -> io::Result<[u8; NONCE_LEN]> {
    let mut nonce = [0; NONCE_LEN];
    let mut filled = 0;
    while filled < NONCE_LEN {
        match rustix::rand::getrandom(&mut nonce[filled..], GetRandomFlags::empty()) {
            Ok(len) => filled += len,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(nonce)
}

/// The proof of `role` in the connection that `hello` opened and `challenge` answered.
pub(super) fn mac(
    key: &[u8],
    role: Role,
    hello: &Hello,
    challenge: &[u8; NONCE_LEN],
) -> [u8; MAC_LEN] {
    over(key, role, hello, challenge).finalize().into_bytes().into()
}

/// Whether `proof` is that proof. Takes as long for a wrong one as for the right one.
pub(super) fn is_mac(
    key: &[u8],
    role: Role,
    hello: &Hello,
    challenge: &[u8; NONCE_LEN],
    proof: &[u8],
) -> bool {
    over(key, role, hello, challenge).verify_slice(proof).is_ok()
}

fn over(key: &[u8], role: Role, hello: &Hello, challenge: &[u8; NONCE_LEN]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    // Every part has a fixed length, so no two lists of parts give the same bytes.
    mac.update(&[role as u8]);
    mac.update(&hello.emit());
    mac.update(challenge);
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = b"open sesame";

    fn hello() -> Hello {
        Hello { rank: 2, size: 5, nonce: [7; NONCE_LEN] }
    }

    #[test]
    fn a_hello_is_these_bytes() {
        let mut bytes = b"SluiceJ1\x02\0\0\0\x05\0\0\0".to_vec();
        bytes.extend([7; NONCE_LEN]);
        assert_eq!(hello().emit(), bytes);
        assert_eq!(Hello::parse(&bytes), Some(hello()));
        for len in 0..bytes.len() {
            assert_eq!(Hello::parse(&bytes[..len]), None);
        }
        bytes.push(0);
        assert_eq!(Hello::parse(&bytes), None);
        bytes[7] = b'2';
        assert_eq!(Hello::parse(&bytes[..HELLO_LEN]), None);
    }

    #[test]
    fn a_proof_is_good_for_one_role_rank_size_and_connection() {
        let challenge = [9; NONCE_LEN];
        let proof = mac(KEY, Role::Member, &hello(), &challenge);
        assert!(is_mac(KEY, Role::Member, &hello(), &challenge, &proof));
        assert!(!is_mac(b"open sesamE", Role::Member, &hello(), &challenge, &proof));
        assert!(!is_mac(KEY, Role::Root, &hello(), &challenge, &proof));
        assert!(!is_mac(KEY, Role::Member, &hello(), &[8; NONCE_LEN], &proof));
        assert!(!is_mac(KEY, Role::Member, &hello(), &challenge, &proof[..31]));
        for other in [
            Hello { rank: 3, ..hello() },
            Hello { size: 6, ..hello() },
            Hello { nonce: [6; NONCE_LEN], ..hello() },
        ] {
            assert!(!is_mac(KEY, Role::Member, &other, &challenge, &proof));
        }
    }

    #[test]
    fn nonces_differ() {
        assert_ne!(nonce().unwrap(), nonce().unwrap());
    }
}
