//! What the system says of its devices, by calls that see this network namespace.

use super::inet6::Inet6;
use super::is_of_link;
use ipnet::IpNet;
use std::ffi::CStr;
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;

/// A device, as the system lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) index: u32,
    /// `IFF_*`.
    pub(super) flags: u32,
    /// `ARPHRD_*`; 0 where it is not known.
    pub(super) link_type: u16,
    /// The first bytes, at most eight.
    pub(super) hardware_address: Vec<u8>,
    /// In the system's order.
    pub(super) addresses: Vec<IpNet>,
}

/// All devices, in the order of their numbers.
pub(super) fn interfaces() -> io::Result<Vec<Interface>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `first` is a variable that the call writes.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let list = List { first };
    let mut found: Vec<Interface> = Vec::new();
    let mut next = list.first;
    // SAFETY: each entry is valid until `list` is dropped, and its `ifa_next` is null or
    // such an entry; nobody else has the list.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        add(&mut found, entry);
    }
    drop(list);
    let inet6 = Inet6::read();
    for interface in &mut found {
        keep_useful(interface, &inet6);
    }
    found.sort_by_key(|interface| interface.index);
    Ok(found)
}

struct List {
    first: *mut libc::ifaddrs,
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: the list that `getifaddrs` made, freed once.
        unsafe { libc::freeifaddrs(self.first) };
    }
}

/// Takes one entry in: of each device there is one that describes it, and one for each
/// of its addresses.
fn add(found: &mut Vec<Interface>, entry: &libc::ifaddrs) {
    // SAFETY: the name of an entry is a C string that lives as long as the entry.
    let label = unsafe { CStr::from_ptr(entry.ifa_name) };
    // IPv4 addresses come under labels such as eth0:1.
    let label = label.to_string_lossy();
    let name = label.split(':').next().unwrap_or_default();
    let at = found.iter().position(|interface| interface.name == name).unwrap_or_else(|| {
        found.push(Interface { name: name.to_owned(), ..Interface::default() });
        found.len() - 1
    });
    let interface = &mut found[at];
    interface.flags |= entry.ifa_flags;
    if interface.index == 0 {
        interface.index = index_of(name);
    }
    // SAFETY: the address of an entry is null, or of the length that its family says.
    let Some(family) = (unsafe { entry.ifa_addr.as_ref() }).map(|address| address.sa_family) else {
        return;
    };
    if i32::from(family) == libc::AF_PACKET {
        // SAFETY: so the address is a `sockaddr_ll`.
        let link = unsafe { entry.ifa_addr.cast::<libc::sockaddr_ll>().read_unaligned() };
        interface.link_type = link.sll_hatype;
        let len = usize::from(link.sll_halen).min(link.sll_addr.len());
        interface.hardware_address = link.sll_addr[..len].to_vec();
        return;
    }
    // SAFETY: as above, and the mask is null or a socket address too.
    let (address, mask) = unsafe { (ip_of(entry.ifa_addr), ip_of(entry.ifa_netmask)) };
    if let Some(address) = address {
        let whole = if address.is_ipv4() { 32 } else { 128 };
        let net = mask.and_then(|mask| IpNet::with_netmask(address, mask).ok());
        interface.addresses.extend(net.or(IpNet::new(address, whole).ok()));
    }
}

/// # Safety
///
/// The pointer is null or points to a socket address of the length that its family says.
unsafe fn ip_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: promised by the caller, for the family and, by it, for the whole.
    unsafe {
        match i32::from(address.as_ref()?.sa_family) {
            libc::AF_INET => {
                let v4 = address.cast::<libc::sockaddr_in>().read_unaligned();
                Some(Ipv4Addr::from_bits(u32::from_be(v4.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                let v6 = address.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
            }
            _ => None,
        }
    }
}

fn index_of(name: &str) -> u32 {
    let Ok(name) = std::ffi::CString::new(name) else { return 0 };
    // SAFETY: a C string. Zero says that there is no such device.
    unsafe { libc::if_nametoindex(name.as_ptr()) }
}

/// IPv4 first, what stays before what will go, and no address that no peer could be told.
/// Addresses of the link stay only if there is no other.
fn keep_useful(interface: &mut Interface, inet6: &Inet6) {
    let Interface { index, addresses, .. } = interface;
    let said = |net: &IpNet, what: fn(&Inet6, u32, Ipv6Addr) -> bool| match net.addr() {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => what(inet6, *index, address),
    };
    addresses.retain(|net| !net.addr().is_unspecified() && !net.addr().is_multicast());
    addresses.retain(|net| !said(net, Inet6::is_duplicate));
    let of_link = |net: &IpNet| is_of_link(net.addr());
    if !addresses.iter().all(of_link) {
        addresses.retain(|net| !of_link(net));
    }
    addresses.sort_by_key(|net| (net.addr().is_ipv6(), said(net, Inet6::is_passing)));
}

/// Asks devices one by one.
pub(super) struct Asker {
    /// Any socket: the questions go to devices, not to what a socket speaks.
    socket: UnixDatagram,
}

/// `struct ifreq`, with the two of its contents that are used here.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    content: Content,
}

#[repr(C)]
union Content {
    number: libc::c_int,
    data: *mut libc::c_void,
    whole: [u8; 24],
}

const _: () = assert!(mem::size_of::<Request>() >= mem::size_of::<libc::ifreq>());

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

/// `struct ethtool_cmd`.
#[repr(C)]
struct LinkSettings {
    command: u32,
    supported: u32,
    advertising: u32,
    speed: u16,
    others: [u8; 14],
    speed_high: u16,
    rest: [u8; 14],
}

const ETHTOOL_GSET: u32 = 1;
const ETHTOOL_GDRVINFO: u32 = 3;
const _: () = assert!(mem::size_of::<DriverInfo>() == 196);
const _: () = assert!(mem::size_of::<LinkSettings>() == 44);
const _: () = assert!(mem::offset_of!(LinkSettings, speed_high) == 28);

impl Asker {
    pub(super) fn new() -> io::Result<Asker> {
        Ok(Asker { socket: UnixDatagram::unbound()? })
    }

    pub(super) fn mtu_bytes(&self, name: &str) -> Option<u32> {
        let content = self.ask(name, libc::SIOCGIFMTU, Content { whole: [0; 24] })?;
        // SAFETY: an integer, of which every value is one.
        u32::try_from(unsafe { content.number }).ok()
    }

    pub(super) fn driver(&self, name: &str) -> Option<String> {
        let mut info = DriverInfo { command: ETHTOOL_GDRVINFO, driver: [0; 32], rest: [0; 160] };
        self.ask(name, libc::SIOCETHTOOL, Content { data: (&raw mut info).cast() })?;
        let text = info.driver.split(|byte| *byte == 0).next()?;
        let text = String::from_utf8_lossy(text).into_owned();
        (!text.is_empty()).then_some(text)
    }

    pub(super) fn speed_mbit(&self, name: &str) -> Option<u32> {
        let mut link = LinkSettings {
            command: ETHTOOL_GSET,
            supported: 0,
            advertising: 0,
            speed: 0,
            others: [0; 14],
            speed_high: 0,
            rest: [0; 14],
        };
        self.ask(name, libc::SIOCETHTOOL, Content { data: (&raw mut link).cast() })?;
        let speed = u32::from(link.speed_high) << 16 | u32::from(link.speed);
        // Unknown is all ones, in one half or in both.
        (speed != 0 && speed != u32::from(u16::MAX) && speed != u32::MAX).then_some(speed)
    }

    /// Where `content` points somewhere, there is what this question is answered into.
    fn ask(&self, name: &str, question: libc::Ioctl, content: Content) -> Option<Content> {
        let mut request = Request { name: [0; libc::IFNAMSIZ], content };
        // The last byte stays zero.
        let place = request.name.get_mut(..name.len())?;
        place.copy_from_slice(name.as_bytes());
        if name.len() >= libc::IFNAMSIZ {
            return None;
        }
        // SAFETY: the request is at least as long as `ifreq` and has its layout: a name
        // with a zero at the end, then what the question asks for. Where that is a pointer,
        // it is to a variable of the caller, which is as long as its command says.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), question, &raw mut request) };
        (result == 0).then_some(request.content)
    }
}
