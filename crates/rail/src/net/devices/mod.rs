//! Network devices: which there are, which a process uses, and which of two
//! processes belong together.
//!
//! [`list`] asks the system. [`choose`](choose()) decides by the setting
//! `FI_SLUICE_DEVICES` ([`Wanted`]) and gives a reason for each device, used or not.
//! [`pair`](pair()) computes the rails between two processes from what each uses; both
//! compute the same. These two are pure functions. [`route_from`] asks whether the system
//! has a route to an address, and [`bind_to_device`] makes a socket keep to a device.

mod addresses;
mod choose;
mod inet6;
mod kind;
mod list;
mod pair;
mod route;
mod sysfs;
mod system;
mod wanted;

pub use addresses::Addresses;
pub use choose::{Choice, ChooseError, Verdict, choose};
pub use kind::Kind;
pub use list::list;
pub use pair::{Offer, Pair, pair};
pub use route::{Route, bind_to_device, route_from};
pub use wanted::{Wanted, WantedError};

/// An address of a device, and how many of its bits name its network.
pub use ipnet::IpNet;

use sluice_multirail::RailId;
use std::net::IpAddr;

/// Most devices that a process uses.
pub const DEVICES_MAX: usize = RailId::COUNT_MAX;

/// A network device of this network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name. Bytes that are no text are replaced.
    pub name: String,
    /// Its number in this namespace.
    pub index: u32,
    /// What it is.
    pub kind: Kind,
    /// Whether it was switched on.
    pub up: bool,
    /// Whether something is at the other end.
    pub carrier: bool,
    /// How fast it says it is, in Mbit/s. Virtual devices name a figure too (veth 10000);
    /// tunnels are not asked, for theirs has no meaning.
    pub speed_mbit: Option<u32>,
    /// Longest packet in bytes, if it says so.
    pub mtu_bytes: Option<u32>,
    /// Its addresses: IPv4, then IPv6, those that stay before those that will go
    /// (temporary, deprecated), else in the system's order. Addresses of the link alone
    /// (`fe80::`, `169.254.`) are among them only if it has no other.
    pub addresses: Vec<IpNet>,
}

/// Whether an address is of one link alone, and so means nothing without the device.
fn is_of_link(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests;
