//! Routes: whether the system would send to an address, and how.

use super::{Device, is_of_link};
use ipnet::IpNet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};

/// The port that takes what nobody reads. Nothing is sent to it.
const DISCARD: u16 = 9;

/// How the system would send to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Through the network of the device.
    Direct,
    /// Through a router.
    Routed {
        /// The own address that the system would send from if none is given: that of the
        /// device by which the packets leave, which may be another one.
        source: IpAddr,
    },
}

/// Whether the system has a route to an address from one of a device's own. Nothing is
/// sent, so this does not say whether somebody is there.
///
/// # Errors
///
/// What the system says, mostly [`io::ErrorKind::NetworkUnreachable`].
pub fn route_from(device: &Device, from: IpNet, to: IpAddr) -> io::Result<Route> {
    connect(from.addr(), to, device.index)?;
    if from.contains(&to) {
        return Ok(Route::Direct);
    }
    let any: IpAddr =
        if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let source = connect(any, to, device.index)?.local_addr()?.ip();
    Ok(Route::Routed { source })
}

fn connect(from: IpAddr, to: IpAddr, index: u32) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(on_link(from, 0, index))?;
    socket.connect(on_link(to, DISCARD, index))?;
    Ok(socket)
}

/// Makes a socket send by this device alone (its [number](Device::index)). Of two devices
/// in one network only one would send else, whatever addresses the sockets have: the
/// system looks for a route by the destination.
///
/// Only for a peer in a network of the device. Where there is a router between, Linux would
/// not ask its routes but look for the peer on the device's own network.
///
/// The socket then also receives by this device alone, so a socket that listens is not to
/// be bound: of several devices in one network any may answer for the address of any other
/// (ARP), unless `net.ipv4.conf.all.arp_ignore` is 1. For the same reason such a connection
/// can fail that would come about without.
///
/// # Errors
///
/// If the system does not do it: Linux before 5.1, and before 5.7 without the capability
/// `CAP_NET_RAW`, where [`io::ErrorKind::PermissionDenied`] says so.
pub fn bind_to_device(socket: impl AsFd, index: u32) -> io::Result<()> {
    let index = libc::c_int::try_from(index).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the descriptor is open, and the option is read from a variable of this length.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTOIFINDEX,
            (&raw const index).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// An address of a link means nothing without the device.
fn on_link(address: IpAddr, port: u16, index: u32) -> SocketAddr {
    match address {
        IpAddr::V6(v6) if is_of_link(address) => SocketAddrV6::new(v6, port, 0, index).into(),
        _ => SocketAddr::new(address, port),
    }
}
