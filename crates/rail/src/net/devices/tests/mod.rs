//! Tests of the devices: lists as text, trees in the form of `/sys`, network namespaces.

mod choices;
mod kinds;
mod namespaces;
mod pairs;

use super::{Device, IpNet, Kind};

fn net(text: &str) -> IpNet {
    text.parse().expect("an address with its prefix")
}

/// A device that is up, with these addresses.
fn device(index: u32, name: &str, kind: Kind, addresses: &[&str]) -> Device {
    Device {
        name: name.to_owned(),
        index,
        kind,
        up: true,
        carrier: true,
        speed_mbit: Some(10_000),
        mtu_bytes: Some(1500),
        addresses: addresses.iter().map(|text| net(text)).collect(),
    }
}
