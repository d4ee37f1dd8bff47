//! Who a process is, as its peers exchange it.
//!
//! 64 bytes, little endian: magic (1), version (1), tag of the host (2), port (2), IPv6
//! address (16), IPv4 address (4), secret (6), key (32). What is found under the key says
//! where the mailbox is (`shm::card`). Port, host addresses and secret are for peers on
//! other hosts, who ask at either address, at the one port; all are zero in the address of a
//! process that has no network, and a host address is in that of one that lacks the family.
//!
//! No longer than that: Open MPI 4.1 has room for 64 bytes, and does not select
//! a provider whose addresses are longer.

use crate::hash::fnv1a;
use crate::shm::PEERS_MAX;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Length of an address in bytes.
pub const ADDRESS_BYTES: usize = 64;
/// Length of a key in bytes.
pub(crate) const KEY_BYTES: usize = 32;
/// Length of a secret in bytes: who guesses has to ask the process for each guess.
const SECRET_BYTES: usize = 6;
/// The version of an address.
const VERSION: u8 = 4;
const MAGIC: u8 = b'S';
/// What addresses of versions 2 and 3 began with; their version follows.
const LONG_MAGIC: [u8; 2] = *b"SA";
/// What addresses of the layout before these began with; likewise.
const FORMER_MAGIC: [u8; 4] = *b"SLsh";
const TAG_AT: usize = 2;
const PORT_AT: usize = 4;
const IPV6_AT: usize = 6;
const IPV4_AT: usize = 22;
const SECRET_AT: usize = 26;
const KEY_AT: usize = ADDRESS_BYTES - KEY_BYTES;

/// Who a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// A hash of the host's boot: who has another one is on another host.
    tag: u16,
    /// Where the process can be asked for a connection; a port of zero is nowhere. A process
    /// keeps an address of each peer, so it is as short as it travels.
    port: u16,
    ipv6: [u8; 16],
    ipv4: [u8; 4],
    /// What those know that the launcher gave the address.
    secret: Secret,
    /// What no other process has.
    key: [u8; KEY_BYTES],
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
    /// Made by the first version, of another layout.
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
    /// The bytes of nobody's address, as of an endpoint that is not open: they have no key,
    /// and [`Address::from_bytes`] refuses them.
    pub const NOBODY: [u8; ADDRESS_BYTES] = {
        let mut bytes = [0; ADDRESS_BYTES];
        (bytes[0], bytes[1]) = (MAGIC, VERSION);
        bytes
    };

    /// The address of a process that only shared memory reaches. A key is not zero.
    pub(crate) fn local(tag: u16, key: [u8; KEY_BYTES]) -> Address {
        let secret = Secret([0; SECRET_BYTES]);
        Address { tag, port: 0, ipv6: [0; 16], ipv4: [0; 4], secret, key }
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
        if secret.0 == [0; SECRET_BYTES] {
            return Err(AddressError::Malformed("no secret"));
        }
        (self.port, self.secret) = (host.port(), secret);
        (self.ipv4, self.ipv6) = ([0; 4], [0; 16]);
        self.also_at(host.ip())
    }

    /// The same, for peers that ask at this address of the other family, at the same port.
    ///
    /// # Errors
    /// [`AddressError::Malformed`] if nobody can be asked there.
    pub(crate) fn also_at(mut self, ip: IpAddr) -> Result<Address, AddressError> {
        if !is_one_host(ip) {
            return Err(AddressError::Malformed("the host address is not that of one host"));
        }
        match ip {
            IpAddr::V4(ip) => self.ipv4 = ip.octets(),
            // Which link it is of does not travel.
            IpAddr::V6(ip) if ip.is_unicast_link_local() => {
                return Err(AddressError::Malformed("the host address means nothing elsewhere"));
            }
            IpAddr::V6(ip) => self.ipv6 = ip.octets(),
        }
        Ok(self)
    }

    /// The same, of a host with this tag.
    pub(crate) fn on_host(self, tag: u16) -> Address {
        Address { tag, ..self }
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
        if let Some([version, ..]) = bytes.strip_prefix(&LONG_MAGIC) {
            return Err(AddressError::Version(*version));
        }
        let bytes: &[u8; ADDRESS_BYTES] =
            bytes.try_into().map_err(|_| AddressError::Malformed("wrong length"))?;
        if bytes[0] != MAGIC {
            return Err(AddressError::Malformed("wrong magic"));
        }
        if bytes[1] != VERSION {
            return Err(AddressError::Version(bytes[1]));
        }
        let key: [u8; KEY_BYTES] = array(bytes, KEY_AT);
        if key == [0; KEY_BYTES] {
            return Err(AddressError::Malformed("no key"));
        }
        let local = Address::local(u16::from_le_bytes(array(bytes, TAG_AT)), key);
        if bytes[PORT_AT..KEY_AT].iter().all(|&byte| byte == 0) {
            return Ok(local);
        }
        let port = u16::from_le_bytes(array(bytes, PORT_AT));
        let secret = Secret(array(bytes, SECRET_AT));
        let four = IpAddr::from(array::<4>(bytes, IPV4_AT));
        let six = IpAddr::from(array::<16>(bytes, IPV6_AT));
        let mut hosts = [four, six].into_iter().filter(|ip| !ip.is_unspecified());
        let first = hosts.next().ok_or(AddressError::Malformed("no host address"))?;
        let address = local.with_network(SocketAddr::new(first, port), secret)?;
        hosts.next().map_or(Ok(address), |other| address.also_at(other))
    }

    /// The bytes of the address.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; ADDRESS_BYTES] {
        let mut bytes = [0; ADDRESS_BYTES];
        bytes[..2].copy_from_slice(&[MAGIC, VERSION]);
        bytes[TAG_AT..PORT_AT].copy_from_slice(&self.tag.to_le_bytes());
        bytes[PORT_AT..IPV6_AT].copy_from_slice(&self.port.to_le_bytes());
        bytes[IPV6_AT..IPV4_AT].copy_from_slice(&self.ipv6);
        bytes[IPV4_AT..SECRET_AT].copy_from_slice(&self.ipv4);
        bytes[SECRET_AT..KEY_AT].copy_from_slice(&self.secret.0);
        bytes[KEY_AT..].copy_from_slice(&self.key);
        bytes
    }

    /// Where the process can be asked for a connection, by IPv4 if it can be; `None` if only
    /// shared memory reaches it.
    #[must_use]
    pub fn host(&self) -> Option<SocketAddr> {
        self.hosts().next()
    }

    /// All places where the process can be asked for a connection: none, one, or IPv4 and then
    /// IPv6, which asks for a longer header.
    pub fn hosts(&self) -> impl Iterator<Item = SocketAddr> + use<> {
        let port = self.port;
        let hosts = [IpAddr::from(self.ipv4), IpAddr::from(self.ipv6)].into_iter();
        hosts.filter(|ip| !ip.is_unspecified()).map(move |ip| SocketAddr::new(ip, port))
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
        let secret = Secret(*b"\x11\x12\x13\x14\x15\x16");
        example().with_network(host.parse().unwrap(), secret).unwrap()
    }

    fn by_both() -> Address {
        on_network("192.0.2.7:4660").also_at("2001:db8::9".parse().unwrap()).unwrap()
    }

    #[test]
    fn every_field_has_its_place() {
        let mut wanted = b"S\x04\x02\x01".to_vec();
        // Port, host addresses, secret.
        wanted.extend([0; 2 + 16 + 4 + 6]);
        wanted.extend(0x40..0x60);
        assert_eq!(example().to_bytes()[..], wanted);
        assert_eq!(Address::from_bytes(&wanted), Ok(example()));
        assert_eq!((example().host(), example().key()), (None, &wanted[32..].try_into().unwrap()));

        let mut wanted = b"S\x04\x02\x01\x34\x12".to_vec();
        wanted.extend(*b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x09");
        wanted.extend(*b"\xc0\0\x02\x07");
        wanted.extend(*b"\x11\x12\x13\x14\x15\x16");
        wanted.extend(0x40..0x60);
        assert_eq!(by_both().to_bytes()[..], wanted);
        assert_eq!(Address::from_bytes(&wanted), Ok(by_both()));
        let hosts = ["192.0.2.7:4660", "[2001:db8::9]:4660"].map(|host| host.parse().unwrap());
        assert_eq!(by_both().hosts().collect::<Vec<_>>(), hosts);
        assert_eq!(by_both().host(), Some(hosts[0]));
        for (zeroes, host) in [(6..22, hosts[0]), (22..26, hosts[1])] {
            let mut one = wanted.clone();
            one[zeroes].fill(0);
            let alone = on_network(&host.to_string());
            assert_eq!((&alone.to_bytes()[..], Address::from_bytes(&one)), (&one[..], Ok(alone)));
            assert_eq!(alone.hosts().collect::<Vec<_>>(), [host]);
        }
        wanted[6..26].fill(0);
        assert_eq!(Address::from_bytes(&wanted), Err(AddressError::Malformed("no host address")));
    }

    #[test]
    fn an_address_of_another_version_is_refused_by_both_names() {
        let mut later = example().to_bytes();
        later[1] = 5;
        let before = |version| [&b"SA"[..], &[version], &[1; 61]].concat();
        for (version, bytes) in [(2, before(2)), (3, before(3)), (5, later.to_vec())] {
            let why = Address::from_bytes(&bytes).unwrap_err();
            assert_eq!(why, AddressError::Version(version));
            let text = why.to_string();
            let named = text.contains(&format!("version {version}"));
            assert!(named && text.contains("version 4"), "{text}");
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
            let named = text.contains(&format!("version {version}")) && text.contains("version 4");
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
            (by_both(), PORT_AT),
        ] {
            let bytes = good.to_bytes();
            for bit in 0..ADDRESS_BYTES * 8 {
                let mut bad = bytes;
                bad[bit / 8] ^= 1 << (bit % 8);
                match Address::from_bytes(&bad) {
                    Ok(other) => {
                        let byte = bit / 8;
                        let is_other = (TAG_AT..PORT_AT).contains(&byte) || byte >= first;
                        assert!(is_other, "bit {bit}");
                        assert!(other != good && other.to_bytes() == bad, "bit {bit}");
                    }
                    Err(AddressError::Version(_)) => assert_eq!(bit / 8, 1),
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
        let secret = Secret([1; 6]);
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
            bytes[4..6].copy_from_slice(&host.port().to_le_bytes());
            match host.ip() {
                IpAddr::V4(ip) => bytes[22..26].copy_from_slice(&ip.octets()),
                IpAddr::V6(ip) => bytes[6..22].copy_from_slice(&ip.octets()),
            }
            // Without IPv6 there is the other one.
            let is_none = host.ip() == IpAddr::from([0; 16]);
            assert_eq!(Address::from_bytes(&bytes).is_err(), !is_none, "{host}");
        }
        let host = "127.0.0.1:1".parse().unwrap();
        assert!(example().with_network(host, Secret([0; 6])).is_err());
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
