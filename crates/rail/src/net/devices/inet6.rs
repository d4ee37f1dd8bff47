//! What the system says of its IPv6 addresses beyond what `getifaddrs` tells: which are
//! temporary, about to go, or taken by another host.

use std::fs;
use std::net::Ipv6Addr;

/// Of the calling thread, which may be in another namespace than the process.
const PATH: &str = "/proc/thread-self/net/if_inet6";

// `IFA_F_*` of linux/if_addr.h.
const TEMPORARY: u32 = 0x01;
const DUPLICATE: u32 = 0x08;
const DEPRECATED: u32 = 0x20;

/// What is said of some addresses, by the number of the device.
#[derive(Debug, Default)]
pub(super) struct Inet6(Vec<(u32, Ipv6Addr, u32)>);

impl Inet6 {
    /// Nothing where the system does not say it.
    pub(super) fn read() -> Inet6 {
        Inet6::parse(&fs::read_to_string(PATH).unwrap_or_default())
    }

    fn parse(text: &str) -> Inet6 {
        Inet6(text.lines().filter_map(line).collect())
    }

    /// Another host has it.
    pub(super) fn is_duplicate(&self, device: u32, address: Ipv6Addr) -> bool {
        self.has(device, address, DUPLICATE)
    }

    /// It will go while others stay.
    pub(super) fn is_passing(&self, device: u32, address: Ipv6Addr) -> bool {
        self.has(device, address, TEMPORARY | DEPRECATED)
    }

    fn has(&self, device: u32, address: Ipv6Addr, any: u32) -> bool {
        let found = self.0.iter().find(|said| (said.0, said.1) == (device, address));
        found.is_some_and(|said| said.2 & any != 0)
    }
}

/// Address, number of the device, prefix, scope, flags, all in hexadecimal, and a name.
fn line(line: &str) -> Option<(u32, Ipv6Addr, u32)> {
    let mut words = line.split_whitespace();
    let address = u128::from_str_radix(words.next()?, 16).ok()?;
    let device = u32::from_str_radix(words.next()?, 16).ok()?;
    let flags = u32::from_str_radix(words.nth(2)?, 16).ok()?;
    Some((device, Ipv6Addr::from_bits(address), flags))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_those_of_the_address_of_the_device() {
        let said = Inet6::parse(
            "fd000000000000000000000000000001 0a 40 00 80    eth0\n\
             fd000000000000000000000000000002 0a 40 00 01    eth0\n\
             fd000000000000000000000000000003 0a 40 00 a0    eth0\n\
             fd000000000000000000000000000001 0b 40 00 488    eth1\n\
             no line\nfd00 0a\n",
        );
        let address = |last: u16| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last);
        let passing = [1, 2, 3].map(|last| said.is_passing(10, address(last)));
        assert_eq!(passing, [false, true, true]);
        assert!(said.is_duplicate(11, address(1)) && !said.is_duplicate(10, address(1)));
        assert!(!said.is_passing(11, address(2)));
    }
}
