//! How a process takes part in the network, and what keeps it off.

use super::devices::{self, Addresses};
use super::handshake::{JobKey, Member, Security};
use crate::shortage;
use sluice_multirail::{Striping, Timing};
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// How long a process's end may wait, in all, for what was sent over lanes to arrive.
const DRAIN: Duration = Duration::from_millis(200);

/// How this process takes part.
#[derive(Clone, Debug)]
pub struct NetConfig {
    /// Where it listens, in the order of preference.
    pub devices: Vec<OwnDevice>,
    /// How long things may take.
    pub timing: Timing,
    /// How reads are cut.
    pub striping: Striping,
    /// What sets the pace of connections, if not the system's default.
    pub congestion: Option<String>,
    /// What peers are told that this process calls itself.
    pub label: u64,
    /// The user that it belongs to.
    pub uid: u32,
    /// How connections are protected.
    pub security: Security,
    /// How long its end may wait, in all, until what was sent over libfabric is there.
    pub drain: Duration,
    /// A device of libfabric's is to match messages in the place of this process.
    pub matching: bool,
    /// Whom peers take this process for who know the key of its job alone, and where they look
    /// for it.
    pub known_as: Option<(JobKey, Member)>,
    /// The ports that peers are told instead of those that are listened on, by device.
    #[cfg(test)]
    pub(crate) told_ports: Vec<u16>,
}

impl NetConfig {
    /// These devices, and the defaults for all else.
    #[must_use]
    pub fn with_devices(devices: Vec<OwnDevice>) -> NetConfig {
        NetConfig {
            devices,
            timing: Timing::default(),
            striping: Striping::default(),
            congestion: None,
            label: 0,
            uid: rustix::process::geteuid().as_raw(),
            security: Security::default(),
            drain: DRAIN,
            matching: false,
            known_as: None,
            #[cfg(test)]
            told_ports: Vec::new(),
        }
    }
}

/// A network device that is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnDevice {
    /// Its name.
    pub name: String,
    /// Its number in this namespace.
    pub index: u32,
    /// At which it is listened on, all at one port.
    pub addresses: Addresses,
    /// What it claims to carry, in Mbit/s.
    pub mbit_per_s: u32,
    /// The device of libfabric's that carries what goes by it; a TCP connection without.
    pub fabric: Option<FabricDevice>,
}

/// A device of libfabric's. Processes meet at the addresses that it has as an [`OwnDevice`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricDevice {
    /// By which provider.
    pub provider: String,
    /// Which of the provider's devices at that address.
    pub place: usize,
}

/// What keeps a process off the network.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// A device cannot be listened on.
    #[error("cannot listen at {address} ({device}): {cause}")]
    Listen {
        /// The device's name.
        device: String,
        /// Its address.
        address: IpAddr,
        /// What the system says.
        cause: io::Error,
    },
    /// The devices cannot be listed.
    #[error("the system does not list its network devices: {0}")]
    List(io::Error),
    /// The setting names what is not there.
    #[error("{0}")]
    Choose(#[from] devices::ChooseError),
    /// A device of libfabric's cannot be used.
    #[error("{device}: {cause}")]
    Fabric {
        /// The device's name.
        device: String,
        /// Why.
        cause: sluice_fabric::FabricError,
    },
    /// There is no device to listen on.
    #[error("no network device is left to use")]
    NoDevice,
    /// The system is short of something.
    #[error("the system gives no epoll descriptor: {0}")]
    Epoll(io::Error),
}

impl NetError {
    /// Whether another process listens where this one has to.
    #[must_use]
    pub fn is_port_taken(&self) -> bool {
        matches!(self, NetError::Listen { cause, .. } if cause.kind() == io::ErrorKind::AddrInUse)
    }

    /// What a person does about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        const OTHERWISE: &str = "sluice info shows its devices";
        match self {
            NetError::Listen { cause, .. } | NetError::List(cause) | NetError::Epoll(cause) => {
                shortage::remedy(cause, OTHERWISE)
            }
            NetError::Choose(_) | NetError::Fabric { .. } | NetError::NoDevice => OTHERWISE,
        }
    }
}
