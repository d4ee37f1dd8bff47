//! Both ends in one process, each byte between them in the test's hands.

mod apart;
mod both;
mod bytes;
mod damage;
mod records;

use super::*;
use crate::net::devices::{Addresses, IpNet};
use sluice_link::{Grant, Opened};

const MODES: [Security; 3] = [Security::None, Security::Auth, Security::Encrypt];

/// A process at a port of its own.
fn process(port: u16) -> Identity {
    Identity::generate().unwrap().at(([192, 0, 2, 7], port).into()).unwrap()
}

fn device(index: u8, nets: &[&str]) -> Device {
    let nets: Vec<IpNet> = nets.iter().map(|net| net.parse().unwrap()).collect();
    let addresses = Addresses::first_of_each(&nets).unwrap();
    Device { index, addresses, port: 4660, mbit_per_s: 10_000 }
}

/// What a process tells that has two devices.
fn hello(own: &Identity) -> Hello {
    let grant = Grant { data_slots: 1024, control_slots: 32, credit_slots: 8 };
    Hello {
        address: own.address(),
        attempt: 0x0102_0304,
        user: 1000,
        label: 0x1122_3344_5566_7788,
        opened: Opened { grant, dynamic_slots: 0x0a0b_0c0d },
        own_device: 3,
        peer_device: None,
        devices: vec![
            device(0, &["192.0.2.7/24", "2001:db8::8/64"]),
            device(3, &["2001:db8::9/32"]),
        ],
        fabric: None,
    }
}

/// Gives all of `bytes` in pieces that end at `cuts` (and at the end) to `take`, until it
/// has something: that, and what is left of the bytes.
fn feed<T, E>(
    bytes: &[u8],
    cuts: &[usize],
    mut take: impl FnMut(&[u8]) -> Result<Option<(T, usize)>, E>,
) -> Result<Option<(T, Vec<u8>)>, E> {
    let mut begin = 0;
    for end in cuts.iter().copied().chain([bytes.len()]) {
        if let Some((taken, used)) = take(&bytes[begin..end])? {
            return Ok(Some((taken, bytes[begin + used..].to_vec())));
        }
        begin = end;
    }
    Ok(None)
}
