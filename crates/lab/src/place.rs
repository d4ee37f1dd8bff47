//! Where a relay and its two devices are.

use crate::plan::RAILS_MAX;
use std::net::Ipv4Addr;

/// Where a relay and its two devices are, the same in every lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    number: u16,
}

impl Place {
    /// The place of the relay between a host and a rail's switch.
    pub fn of(host: u32, rail: u32) -> Place {
        let number = u16::try_from(host * RAILS_MAX + rail);
        Place { number: number.expect("hosts and rails are few") }
    }

    /// The UDP ports of the device beside the host's port, and of the one in the switch. The
    /// relay listens on the same.
    pub fn ports(self) -> [u16; 2] {
        [16_384 + 2 * self.number, 16_385 + 2 * self.number]
    }

    /// The devices' address, in a network of four.
    pub fn devices(self) -> Ipv4Addr {
        self.address(1)
    }

    /// The relay's address there.
    pub fn relay(self) -> Ipv4Addr {
        self.address(2)
    }

    fn address(self, last: u16) -> Ipv4Addr {
        let [high, low] = (4 * self.number + last).to_be_bytes();
        Ipv4Addr::new(10, 43, high, low)
    }
}
