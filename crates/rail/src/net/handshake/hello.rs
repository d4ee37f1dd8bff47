//! What two processes tell each other before their first frame.
//!
//! 92 bytes and 30 for each device, little endian: address (64), attempt (4), user (4),
//! label (8), data slots (2), control slots (1), credit slots (1), dynamic slots (4),
//! device here (1), device there (1; 255: not known), count of devices (1), zero (1). A
//! device: index (1), lengths of the prefixes of its IPv4 address (1) and of its IPv6 address
//! (1), zero (1), port (2), IPv4 address (4), IPv6 address (16), speed (4). Of an address that
//! it does not have all is zero.
//!
//! A process that has devices of libfabric's tells more of them behind: token (16), and for
//! each such device index (1), lengths of the provider's name (1) and of the endpoint's (1),
//! length of each name of its endpoints that match tags (1; 0: it has none), and both
//! names. Of the one device that may have such endpoints follow the id by which messages there
//! say who sends them (16), and the two names of these endpoints. The token is what messages of
//! the lane are to carry that is opened by this hello; zero if none is.

use super::HandshakeError;
use crate::address::{ADDRESS_BYTES, Address, is_one_host};
use crate::net::devices::{Addresses, DEVICES_MAX, IpNet};
use crate::ofi::{ID_BYTES, Id, LISTS, TOKEN_BYTES, Token};
use sluice_fabric::NAME_BYTES_MAX;
use sluice_link::{Grant, Layout, Opened};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Length of a hello without devices.
const FIXED_BYTES: usize = ADDRESS_BYTES + 28;
const DEVICE_BYTES: usize = 30;
/// Every hello has the device that it is sent by.
pub(super) const HELLO_BYTES_MIN: usize = FIXED_BYTES + DEVICE_BYTES;
pub(super) const HELLO_BYTES_MAX: usize = FIXED_BYTES
    + DEVICES_MAX * DEVICE_BYTES
    + TOKEN_BYTES
    + FABRICS_MAX * FABRIC_BYTES_MAX
    + TAGS_BYTES_MAX;
/// Most devices of libfabric's that a process uses.
pub const FABRICS_MAX: usize = 8;
const FABRIC_HEAD_BYTES: usize = 4;
/// Longest name of a provider that is told.
pub const PROVIDER_BYTES_MAX: usize = 32;
const FABRIC_BYTES_MAX: usize = FABRIC_HEAD_BYTES + PROVIDER_BYTES_MAX + NAME_BYTES_MAX;
const TAGS_BYTES_MAX: usize = ID_BYTES + LISTS * NAME_BYTES_MAX;
const NOT_KNOWN: u8 = u8::MAX;

/// What a process tells of itself and of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Who it is.
    pub address: Address,
    /// Its number among all that the process has said: of two, which was said first.
    pub attempt: u32,
    /// The user that it runs as.
    pub user: u32,
    /// What the layer above calls it ([`Config::label`](crate::shm::Config::label)).
    pub label: u64,
    /// What its mailbox grants to the other one.
    pub opened: Opened,
    /// Its device that the connection goes by, an index among `devices`.
    pub own_device: u8,
    /// The other one's device, where that is known.
    pub peer_device: Option<u8>,
    /// All devices that it can be reached by: 1 to [`DEVICES_MAX`], each index once.
    pub devices: Vec<Device>,
    /// What of these libfabric carries, if any.
    pub fabric: Option<FabricHello>,
}

/// What a process tells of its devices that are libfabric's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricHello {
    /// What messages to it are to carry on the lane that this opens.
    pub token: Token,
    /// The devices: at most [`FABRICS_MAX`].
    pub devices: Vec<FabricName>,
}

/// A device of libfabric's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricName {
    /// Which of the process's devices it is.
    pub index: u8,
    /// The provider: at most [`PROVIDER_BYTES_MAX`] bytes.
    pub provider: String,
    /// The endpoint's name there.
    pub name: Vec<u8>,
    /// Its endpoints that match tags: of one device at most.
    pub tags: Option<TagsName>,
}

/// Endpoints that match tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagsName {
    /// By which messages say who sends them.
    pub id: Id,
    /// Their names, of one length, by list of receives.
    pub names: [Vec<u8>; LISTS],
}

impl FabricHello {
    /// The name of the endpoint of a device.
    pub(crate) fn name_of(&self, index: u8) -> Option<&[u8]> {
        let found = self.devices.iter().find(|device| device.index == index)?;
        Some(&found.name)
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.token.to_vec();
        for device in &self.devices {
            let (provider, name) = (device.provider.as_bytes(), &device.name);
            let tags = device.tags.as_ref();
            let tags_len = tags.map_or(0, |tags| tags.names[0].len());
            let lengths = [provider.len(), name.len(), tags_len].map(|len| len as u8);
            bytes.push(device.index);
            bytes.extend(lengths);
            bytes.extend(provider);
            bytes.extend(name);
            if let Some(tags) = tags {
                bytes.extend(tags.id);
                bytes.extend(tags.names.concat());
            }
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Result<FabricHello, HandshakeError> {
        use HandshakeError::Malformed;
        let mut fields = Fields(bytes);
        let token = fields.next()?;
        let mut devices = Vec::new();
        while !fields.0.is_empty() && devices.len() < FABRICS_MAX {
            let [index, provider, name, tags_name] = fields.next()?;
            let provider = fields.take(provider)?.to_vec();
            let provider = String::from_utf8(provider).map_err(|_| Malformed("no text"))?;
            let name = fields.take(name)?.to_vec();
            let tags = match tags_name {
                0 => None,
                len => {
                    let id = fields.next()?;
                    let names = [fields.take(len)?.to_vec(), fields.take(len)?.to_vec()];
                    Some(TagsName { id, names })
                }
            };
            devices.push(FabricName { index, provider, name, tags });
        }
        if !fields.0.is_empty() {
            return Err(Malformed("too many devices of libfabric's"));
        }
        Ok(FabricHello { token, devices })
    }

    fn check(&self, known: &[Device]) -> Result<(), HandshakeError> {
        use HandshakeError::Malformed;
        if self.devices.is_empty() || self.devices.len() > FABRICS_MAX {
            return Err(Malformed("none or too many devices of libfabric's"));
        }
        for (at, device) in self.devices.iter().enumerate() {
            let is_again = self.devices[..at].iter().any(|other| other.index == device.index);
            if is_again || known.iter().all(|known| known.index != device.index) {
                return Err(Malformed("a device of libfabric's twice, or that is none"));
            }
            if !(1..=PROVIDER_BYTES_MAX).contains(&device.provider.len())
                || !(1..=NAME_BYTES_MAX).contains(&device.name.len())
            {
                return Err(Malformed("impossible name"));
            }
        }
        let mut tags = self.devices.iter().filter_map(|device| device.tags.as_ref());
        let is_possible = |tags: &TagsName| {
            let [len, other] = [0, 1].map(|list: usize| tags.names[list].len());
            (1..=NAME_BYTES_MAX).contains(&len) && len == other
        };
        if !tags.next().is_none_or(is_possible) || tags.next().is_some() {
            return Err(Malformed("impossible endpoints that match tags"));
        }
        Ok(())
    }
}

/// A device of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// What the process calls it: less than [`DEVICES_MAX`].
    pub index: u8,
    /// Its addresses.
    pub addresses: Addresses,
    /// Where the process listens at both.
    pub port: u16,
    /// How fast it is; zero if that is not known.
    pub mbit_per_s: u32,
}

impl Hello {
    /// The bytes of the hello.
    ///
    /// # Panics
    /// If it is one that nobody accepts.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        assert_eq!(self.check(), Ok(()));
        let mut bytes = Vec::with_capacity(FIXED_BYTES + self.devices.len() * DEVICE_BYTES);
        bytes.extend(self.address.to_bytes());
        bytes.extend(self.attempt.to_le_bytes());
        bytes.extend(self.user.to_le_bytes());
        bytes.extend(self.label.to_le_bytes());
        let Opened { grant, dynamic_slots } = self.opened;
        bytes.extend(grant.data_slots.to_le_bytes());
        bytes.extend([grant.control_slots, grant.credit_slots]);
        bytes.extend(dynamic_slots.to_le_bytes());
        let count = self.devices.len() as u8;
        bytes.extend([self.own_device, self.peer_device.unwrap_or(NOT_KNOWN), count, 0]);
        for device in &self.devices {
            bytes.extend(device.to_bytes());
        }
        bytes.extend(self.fabric.iter().flat_map(FabricHello::to_bytes));
        bytes
    }

    /// What messages of the lane are to carry that this opens.
    pub(crate) fn token(&self) -> Option<Token> {
        Some(self.fabric.as_ref()?.token)
    }

    /// By which provider a device is reached, if not over TCP.
    pub(crate) fn provider_of(&self, index: u8) -> Option<&str> {
        let fabric = self.fabric.as_ref()?;
        let found = fabric.devices.iter().find(|device| device.index == index)?;
        Some(&found.provider)
    }

    /// By which provider its process has tags matched, and the endpoints for that.
    pub(crate) fn tags(&self) -> Option<(&str, &TagsName)> {
        let mut devices = self.fabric.iter().flat_map(|fabric| &fabric.devices);
        devices.find_map(|device| Some((&device.provider[..], device.tags.as_ref()?)))
    }

    /// Reads a hello.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Hello, HandshakeError> {
        let mut fields = Fields(bytes);
        let address = Address::from_bytes(&fields.next::<ADDRESS_BYTES>()?)?;
        let attempt = u32::from_le_bytes(fields.next()?);
        let user = u32::from_le_bytes(fields.next()?);
        let label = u64::from_le_bytes(fields.next()?);
        let data_slots = u16::from_le_bytes(fields.next()?);
        let [control_slots, credit_slots] = fields.next()?;
        let dynamic_slots = u32::from_le_bytes(fields.next()?);
        let [own_device, peer_device, count, zero] = fields.next()?;
        if zero != 0 {
            return Err(HandshakeError::Malformed("reserved bytes are not zero"));
        }
        if fields.0.len() < usize::from(count) * DEVICE_BYTES {
            return Err(HandshakeError::Malformed("not the length of its devices"));
        }
        let mut devices = Vec::with_capacity(usize::from(count).min(DEVICES_MAX));
        for _ in 0..count {
            devices.push(Device::from_bytes(&fields.next()?)?);
        }
        let rest = fields.0;
        let fabric = match rest {
            [] => None,
            rest => Some(FabricHello::from_bytes(rest).map_err(|_| {
                HandshakeError::Malformed("not the length of its devices, or of libfabric's")
            })?),
        };
        let grant = Grant { data_slots, control_slots, credit_slots };
        let hello = Hello {
            address,
            attempt,
            user,
            label,
            opened: Opened { grant, dynamic_slots },
            own_device,
            peer_device: (peer_device != NOT_KNOWN).then_some(peer_device),
            devices,
            fabric,
        };
        hello.check()?;
        Ok(hello)
    }

    fn check(&self) -> Result<(), HandshakeError> {
        use HandshakeError::Malformed;
        if self.devices.is_empty() || self.devices.len() > DEVICES_MAX {
            return Err(Malformed("none or too many devices"));
        }
        let mut seen = [false; DEVICES_MAX];
        for device in &self.devices {
            device.check()?;
            if std::mem::replace(&mut seen[usize::from(device.index)], true) {
                return Err(Malformed("a device twice"));
            }
        }
        if !seen.get(usize::from(self.own_device)).is_some_and(|&seen| seen) {
            return Err(Malformed("by a device that it does not tell of"));
        }
        if self.peer_device.is_some_and(|index| usize::from(index) >= DEVICES_MAX) {
            return Err(Malformed("impossible device"));
        }
        if let Some(fabric) = &self.fabric {
            fabric.check(&self.devices)?;
        }
        // A mailbox of any size in which this is granted to one sender.
        let layout = Layout {
            grant: self.opened.grant,
            dynamic_slots: self.opened.dynamic_slots,
            senders_max: 1,
            reply_slots: 0,
            ring_slots: 1 << 31,
        };
        layout.check().map_err(|_| Malformed("impossible slots"))
    }
}

impl Device {
    fn to_bytes(self) -> [u8; DEVICE_BYTES] {
        let (four, six) = (self.addresses.four(), self.addresses.six());
        let mut bytes = [0; DEVICE_BYTES];
        bytes[0] = self.index;
        bytes[4..6].copy_from_slice(&self.port.to_le_bytes());
        if let Some(four) = four {
            bytes[1] = four.prefix_len();
            bytes[6..10].copy_from_slice(&four.addr().octets());
        }
        if let Some(six) = six {
            bytes[2] = six.prefix_len();
            bytes[10..26].copy_from_slice(&six.addr().octets());
        }
        bytes[26..].copy_from_slice(&self.mbit_per_s.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; DEVICE_BYTES]) -> Result<Device, HandshakeError> {
        use HandshakeError::Malformed;
        let mut fields = Fields(bytes);
        let [index, four_bits, six_bits, zero] = fields.next()?;
        if zero != 0 {
            return Err(Malformed("reserved bytes are not zero"));
        }
        let port = u16::from_le_bytes(fields.next()?);
        let four = Ipv4Addr::from(fields.next::<4>()?);
        let six = Ipv6Addr::from(fields.next::<16>()?);
        let mbit_per_s = u32::from_le_bytes(fields.next()?);
        let mut found = Vec::new();
        for (ip, bits) in [(IpAddr::from(four), four_bits), (IpAddr::from(six), six_bits)] {
            if ip.is_unspecified() && bits == 0 {
                continue;
            }
            found.push(IpNet::new(ip, bits).map_err(|_| Malformed("impossible prefix"))?);
        }
        let addresses =
            Addresses::first_of_each(&found).ok_or(Malformed("a device without address"))?;
        Ok(Device { index, addresses, port, mbit_per_s })
    }

    fn check(&self) -> Result<(), HandshakeError> {
        use HandshakeError::Malformed;
        if usize::from(self.index) >= DEVICES_MAX {
            return Err(Malformed("impossible device"));
        }
        if self.port == 0 || !self.addresses.iter().all(|net| is_one_host(net.addr())) {
            return Err(Malformed("a device where nobody can be asked"));
        }
        Ok(())
    }
}

/// What is left to read.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn next<const N: usize>(&mut self) -> Result<[u8; N], HandshakeError> {
        let (field, rest) =
            self.0.split_first_chunk().ok_or(HandshakeError::Malformed("too short"))?;
        self.0 = rest;
        Ok(*field)
    }

    fn take(&mut self, len: u8) -> Result<&[u8], HandshakeError> {
        let (field, rest) = self
            .0
            .split_at_checked(usize::from(len))
            .ok_or(HandshakeError::Malformed("too short"))?;
        self.0 = rest;
        Ok(field)
    }
}
