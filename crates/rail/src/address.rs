//! Who a process is, as its peers exchange it.
//!
//! 64 bytes, little endian: magic (2), version (1), flags (1), tag of the host (2),
//! port (2), host address (16), secret (8), key (32). What is found under the key says
//! where the mailbox is (`shm::card`). Port, host address and secret are for peers on
//! other hosts; they are zero in the address of a process that has no network, as are
//! the flags.
//!
//! No longer than that: Open MPI 4.1 has room for 64 bytes, and does not select
//! a provider whose addresses are longer.

use crate::hash::fnv1a;
use crate::shm::PEERS_MAX;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Length of an address in bytes.
pub const ADDRESS_BYTES: usize = 64;
/// Length of a key in bytes.
pub(crate) const KEY_BYTES: usize = 32;
/// Length of a secret in bytes.
const SECRET_BYTES: usize = 8;
/// The version of an address.
const VERSION: u8 = 3;
const MAGIC: [u8; 2] = *b"SA";
/// What addresses of the layout before began with; their version follows.
const FORMER_MAGIC: [u8; 4] = *b"SLsh";
/// The process can be reached over the network.
const FLAG_NETWORK: u8 = 1;
/// Its host address is one of IPv6.
const FLAG_IPV6: u8 = 2;
const TAG_AT: usize = 4;
const PORT_AT: usize = 6;
const HOST_AT: usize = 8;
const SECRET_AT: usize = 24;
const KEY_AT: usize = ADDRESS_BYTES - KEY_BYTES;

/// Who a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// A hash of the host's boot: who has another one is on another host.
    tag: u16,
    /// Where the process can be asked for a connection. A process keeps an address of
    /// each peer, so it is as short as it travels.
    host: Host,
    /// What those know that the launcher gave the address.
    secret: Secret,
    /// What no other process has.
    key: [u8; KEY_BYTES],
}

/// Where a process can be asked for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Host {
    Nowhere,
    V4 { ip: [u8; 4], port: u16 },
    V6 { ip: [u8; 16], port: u16 },
}

/// What those know that the launcher gave an address. It is not shown.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Secret(pub(crate) [u8; SECRET_BYTES]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Why an address names nobody that this rail can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Not the bytes of an address.
    #[error("not an address of Sluice: {0}")]
    Malformed(&'static str),
    /// Made by another version.
    #[error(
        "the address is of version {0}, and this process reads version {version}; \
         use one build of Sluice in all processes of the job",
        version = VERSION
    )]
    Version(u8),
    /// Made by a version of the layout before this one.
    #[error(
        "the address is of the former layout (SLsh, version {0}), and this process reads \
         version {version} of the present one; use one build of Sluice in all processes of the job",
        version = VERSION
    )]
    Former(u8),
    /// A process of another machine (or of another boot of this one).
    #[error("the address is of another machine; shared memory does not reach it")]
    OtherHost,
    /// It has the key of a process that is known by another address.
    #[error("the address has the key of a process that is known by another address")]
    Conflict,
    /// More peers than one process may know.
    #[error("more than {max} peers", max = PEERS_MAX)]
    TooMany,
}

impl Address {
    /// The address of a process that only shared memory reaches. A key is not zero.
    pub(crate) fn local(tag: u16, key: [u8; KEY_BYTES]) -> Address {
        Address { tag, host: Host::Nowhere, secret: Secret([0; SECRET_BYTES]), key }
    }

    /// The same, for peers on other hosts too: they ask at `host`.
    ///
    /// # Errors
    /// [`AddressError::Malformed`] if nobody can be asked there, or the secret is zero.
    pub(crate) fn with_network(
        mut self,
        host: SocketAddr,
        secret: Secret,
    ) -> Result<Address, AddressError> {
        if host.port() == 0 {
            return Err(AddressError::Malformed("no port"));
        }
        if !is_one_host(host.ip()) {
            return Err(AddressError::Malformed("the host address is not that of one host"));
        }
        if let IpAddr::V6(ip) = host.ip()
            && ip.is_unicast_link_local()
        {
            // Which link it is of does not travel.
            return Err(AddressError::Malformed("the host address means nothing elsewhere"));
        }
        if secret.0 == [0; SECRET_BYTES] {
            return Err(AddressError::Malformed("no secret"));
        }
        // A scope and a flow of IPv6 mean nothing on another host.
        let port = host.port();
        self.host = match host.ip() {
            IpAddr::V4(ip) => Host::V4 { ip: ip.octets(), port },
            IpAddr::V6(ip) => Host::V6 { ip: ip.octets(), port },
        };
        self.secret = secret;
        Ok(self)
    }

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
        let key: [u8; KEY_BYTES] = array(bytes, KEY_AT);
        if key == [0; KEY_BYTES] {
            return Err(AddressError::Malformed("no key"));
        }
        let local = Address::local(u16::from_le_bytes(array(bytes, TAG_AT)), key);
        let is_ipv6 = match bytes[3] {
            0 if bytes[PORT_AT..KEY_AT].iter().all(|&byte| byte == 0) => return Ok(local),
            0 => return Err(AddressError::Malformed("a host without the flag of one")),
            FLAG_NETWORK => false,
            flags if flags == FLAG_NETWORK | FLAG_IPV6 => true,
            _ => return Err(AddressError::Malformed("unknown flags")),
        };
        let ip = ip_from_bytes(&array(bytes, HOST_AT), is_ipv6)
            .ok_or(AddressError::Malformed("more than an IPv4 address"))?;
        let port = u16::from_le_bytes(array(bytes, PORT_AT));
        local.with_network(SocketAddr::new(ip, port), Secret(array(bytes, SECRET_AT)))
    }

    /// The bytes of the address.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; ADDRESS_BYTES] {
        let mut bytes = [0; ADDRESS_BYTES];
        bytes[..2].copy_from_slice(&MAGIC);
        bytes[2] = VERSION;
        bytes[TAG_AT..PORT_AT].copy_from_slice(&self.tag.to_le_bytes());
        bytes[KEY_AT..].copy_from_slice(&self.key);
        if let Some(host) = self.host() {
            bytes[3] = FLAG_NETWORK | if host.is_ipv6() { FLAG_IPV6 } else { 0 };
            bytes[PORT_AT..HOST_AT].copy_from_slice(&host.port().to_le_bytes());
            bytes[HOST_AT..SECRET_AT].copy_from_slice(&ip_to_bytes(host.ip()));
            bytes[SECRET_AT..KEY_AT].copy_from_slice(&self.secret.0);
        }
        bytes
    }

    /// Where the process can be asked for a connection; `None` if only shared memory
    /// reaches it.
    #[must_use]
    pub fn host(&self) -> Option<SocketAddr> {
        match self.host {
            Host::Nowhere => None,
            Host::V4 { ip, port } => Some((ip, port).into()),
            Host::V6 { ip, port } => Some((ip, port).into()),
        }
    }

    /// What no other process has: its public key (X25519) if it has a network, else
    /// random.
    #[must_use]
    pub fn key(&self) -> &[u8; KEY_BYTES] {
        &self.key
    }

    /// What a process shows that has the address; zero without a network.
    pub(crate) fn secret(&self) -> Secret {
        self.secret
    }

    /// A hash of the host's boot.
    pub(crate) fn tag(&self) -> u16 {
        self.tag
    }

    /// A hash of the key: what the process's files, its mailbox and its memory are
    /// known by.
    pub(crate) fn mark(&self) -> u64 {
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
pub(crate) fn tag_of(host: u64) -> u16 {
    (host ^ host >> 16 ^ host >> 32 ^ host >> 48) as u16
}

/// Whether one host may have the address: it is not unspecified, and not of a group.
/// Addresses of IPv4 have one form.
pub(crate) fn is_one_host(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !(ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast()),
        IpAddr::V6(ip) => {
            !(ip.is_unspecified() || ip.is_multicast() || ip.to_ipv4_mapped().is_some())
        }
    }
}

/// An IP address as it travels: 16 bytes, IPv4 in the first 4.
pub(crate) fn ip_to_bytes(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V6(ip) => ip.octets(),
        IpAddr::V4(ip) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&ip.octets());
            bytes
        }
    }
}

/// What [`ip_to_bytes`] wrote; `None` if an address of IPv4 is followed by anything.
pub(crate) fn ip_from_bytes(bytes: &[u8; 16], is_ipv6: bool) -> Option<IpAddr> {
    if is_ipv6 {
        return Some(Ipv6Addr::from(*bytes).into());
    }
    let (ip, rest) = bytes.split_first_chunk::<4>()?;
    rest.iter().all(|&byte| byte == 0).then(|| Ipv4Addr::from(*ip).into())
}

fn array<const N: usize>(bytes: &[u8; ADDRESS_BYTES], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Address {
        let mut key = [0; KEY_BYTES];
        for (byte, value) in key.iter_mut().zip(0x40..) {
            *byte = value;
        }
        Address::local(0x0102, key)
    }

    fn on_network(host: &str) -> Address {
        let secret = Secret(*b"\x11\x12\x13\x14\x15\x16\x17\x18");
        example().with_network(host.parse().unwrap(), secret).unwrap()
    }

    #[test]
    fn every_field_has_its_place() {
        let mut wanted = b"SA\x03\0\x02\x01".to_vec();
        // Port, host address, secret.
        wanted.extend([0; 2 + 16 + 8]);
        wanted.extend(0x40..0x60);
        assert_eq!(example().to_bytes()[..], wanted);
        assert_eq!(Address::from_bytes(&wanted), Ok(example()));
        assert_eq!((example().host(), example().key()), (None, &wanted[32..].try_into().unwrap()));

        let (four, six) = (on_network("192.0.2.7:4660"), on_network("[2001:db8::9]:4660"));
        let mut wanted = b"SA\x03\x01\x02\x01\x34\x12\xc0\0\x02\x07".to_vec();
        wanted.extend([0; 12]);
        wanted.extend(0x11..0x19);
        wanted.extend(0x40..0x60);
        assert_eq!(four.to_bytes()[..], wanted);
        assert_eq!(Address::from_bytes(&wanted), Ok(four));
        wanted[3] = 3;
        wanted[8..24].copy_from_slice(b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x09");
        assert_eq!(six.to_bytes()[..], wanted);
        assert_eq!(Address::from_bytes(&wanted), Ok(six));
        assert_eq!(six.host(), Some("[2001:db8::9]:4660".parse().unwrap()));
    }

    #[test]
    fn an_address_of_another_version_is_refused_by_both_names() {
        for version in [2, 4] {
            let mut bytes = example().to_bytes();
            bytes[2] = version;
            let why = Address::from_bytes(&bytes).unwrap_err();
            assert_eq!(why, AddressError::Version(version));
            let text = why.to_string();
            let named = text.contains(&format!("version {version}"));
            assert!(named && text.contains("version 3"), "{text}");
        }
    }

    #[test]
    fn an_address_of_the_layout_before_is_refused_by_both_names() {
        for version in [1, 2] {
            let mut bytes = [0; ADDRESS_BYTES];
            bytes[..4].copy_from_slice(b"SLsh");
            bytes[4] = version;
            let why = Address::from_bytes(&bytes).unwrap_err();
            assert_eq!(why, AddressError::Former(version));
            let text = why.to_string();
            let named = text.contains(&format!("version {version}")) && text.contains("version 3");
            assert!(named && text.contains("SLsh"), "{text}");
        }
    }

    #[test]
    fn every_flipped_bit_is_refused_or_names_somebody_else() {
        let local = example();
        for (good, first) in [
            (local, KEY_AT),
            (on_network("192.0.2.7:4660"), PORT_AT),
            (on_network("[2001:db8::9]:4660"), PORT_AT),
        ] {
            let bytes = good.to_bytes();
            for bit in 0..ADDRESS_BYTES * 8 {
                let mut bad = bytes;
                bad[bit / 8] ^= 1 << (bit % 8);
                match Address::from_bytes(&bad) {
                    Ok(other) => {
                        let byte = bit / 8;
                        // Any address of IPv4 is the beginning of one of IPv6.
                        let is_family = bit == 3 * 8 + 1 && bytes[3] == FLAG_NETWORK;
                        let is_other = (TAG_AT..PORT_AT).contains(&byte) || byte >= first;
                        assert!(is_other || is_family, "bit {bit}");
                        assert!(other != good && other.to_bytes() == bad, "bit {bit}");
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
    }

    #[test]
    fn nobody_has_no_key() {
        let nobody = Address::local(1, [0; KEY_BYTES]);
        assert!(Address::from_bytes(&nobody.to_bytes()).is_err());
    }

    #[test]
    fn what_is_not_one_host_is_no_host_address() {
        let secret = Secret([1; 8]);
        for host in [
            "0.0.0.0:1",
            "224.0.0.1:1",
            "255.255.255.255:1",
            "192.0.2.7:0",
            "[::]:1",
            "[ff02::1]:1",
            "[fe80::1]:1",
            "[::ffff:192.0.2.7]:1",
        ] {
            let host: SocketAddr = host.parse().unwrap();
            assert!(example().with_network(host, secret).is_err(), "{host}");
            let mut bytes = on_network("192.0.2.7:1").to_bytes();
            bytes[3] = if host.is_ipv6() { 3 } else { 1 };
            bytes[6..8].copy_from_slice(&host.port().to_le_bytes());
            bytes[8..24].copy_from_slice(&ip_to_bytes(host.ip()));
            assert!(Address::from_bytes(&bytes).is_err(), "{host}");
        }
        let host = "127.0.0.1:1".parse().unwrap();
        assert!(example().with_network(host, Secret([0; 8])).is_err());
        assert!(example().with_network(host, secret).is_ok());
    }

    #[test]
    fn a_secret_is_not_shown() {
        let address = on_network("192.0.2.7:4660");
        for text in [format!("{address:?}"), format!("{address:#?}"), address.to_string()] {
            // As the bytes of the secret would be written.
            assert!(!text.contains("17, 18, 19") && !text.contains("1112"), "{text}");
            assert!(!text.contains("17,\n"), "{text}");
        }
    }

    #[test]
    fn a_tag_depends_on_all_of_the_host() {
        for bit in 0..64 {
            assert_ne!(tag_of(0x1234_5678_9abc_def0 ^ 1 << bit), tag_of(0x1234_5678_9abc_def0));
        }
    }
}
