//! Where a process listens when it begins, and which of that it is reached at.

use super::handshake::Identity;
use super::strangers::{self, Listener};
use super::{Entry, Net, NetError, OwnDevice};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

impl Net {
    /// The identity, with where the process is reached: at the first device, and in the
    /// family that this one lacks at the first that has it and is listened on at its port.
    /// Whom peers look for at one place is only there.
    pub(super) fn located(&self) -> Option<Identity> {
        if let Some((_, member)) = self.config.known_as {
            let is_there = |(device, &port): (&OwnDevice, _)| {
                port == member.at.port() && has(device, *member.at.ip())
            };
            let there = self.config.devices.iter().zip(&self.ports).any(is_there);
            return there.then(|| self.identity.clone());
        }
        let devices = self.config.devices.iter().zip(&self.ports);
        let mut all = devices.flat_map(|(device, &port)| {
            device.addresses.iter().map(move |net| SocketAddr::new(net.addr(), port))
        });
        let first = all.next()?;
        let is_other = |at: &SocketAddr| {
            at.is_ipv4() != first.is_ipv4()
                && at.port() == first.port()
                && at.ip().is_loopback() == first.ip().is_loopback()
        };
        let identity = self.identity.clone().at(first).ok()?;
        let both = all.filter(is_other).find_map(|at| identity.clone().also_at(at.ip()).ok());
        Some(both.unwrap_or(identity))
    }

    /// Listens at all devices, but not at addresses that are not there: one may have gone
    /// since it was listed, or is not this host's yet (an IPv6 address that is still being
    /// tried). All have one port, if that can be.
    pub(super) fn listen_on_all(&mut self) -> Result<(), NetError> {
        let mut missing = None;
        for mut device in std::mem::take(&mut self.config.devices) {
            let address = device.addresses.first();
            let failed = |cause| NetError::Listen { device: device.name.clone(), address, cause };
            let wanted = self.config.known_as.as_ref().map(|(_, member)| member.at);
            // A device of libfabric's has the addresses of another one.
            let is_first = |ip| !self.config.devices.iter().any(|earlier| has(earlier, ip));
            let is_looked_for =
                wanted.is_some_and(|at| has(&device, *at.ip()) && is_first(*at.ip()));
            let listening = if let (true, Some(at)) = (is_looked_for, wanted) {
                strangers::listen_at_port(device.addresses, at.port())
            } else {
                strangers::listen_at(device.addresses, self.ports.first().copied().unwrap_or(0))
            };
            let listening = match listening {
                Ok(listening) => Some(listening),
                Err(cause) if cause.kind() == io::ErrorKind::AddrNotAvailable => {
                    missing.get_or_insert(failed(cause));
                    None
                }
                Err(cause) => return Err(failed(cause)),
            };
            let there = listening.as_ref().map(|listening| listening.at);
            for net in device.addresses.iter() {
                if there.is_none_or(|there| !there.contains(net.addr())) {
                    (self.warn.0)(&format!(
                        "{} is not used: its address {} is not there",
                        device.name,
                        net.addr()
                    ));
                }
            }
            let Some(listening) = listening else { continue };
            for socket in listening.sockets {
                let listener = Listener { socket, device: self.config.devices.len() as u8 };
                self.add(Entry::Listener(listener)).map_err(failed)?;
            }
            self.ports.push(listening.port);
            device.addresses = listening.at;
            self.config.devices.push(device);
        }
        if let (true, Some(missing)) = (self.config.devices.is_empty(), missing) {
            return Err(missing);
        }
        #[cfg(test)]
        self.ports.iter_mut().zip(&self.config.told_ports).for_each(|(port, told)| *port = *told);
        Ok(())
    }
}

fn has(device: &OwnDevice, ip: Ipv4Addr) -> bool {
    device.addresses.iter().any(|net| net.addr() == IpAddr::V4(ip))
}
