//! What a device is, from what the system says of it.

use super::sysfs::{Facts, Master};
use std::fmt;

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Ethernet, or what a machine's virtual hardware shows as that.
    Ethernet,
    /// IP over InfiniBand.
    Infiniband,
    /// Wi-Fi.
    Wireless,
    /// A VLAN of another device.
    Vlan,
    /// Several devices as one.
    Bond,
    /// One of these several.
    BondMember,
    /// One end of a pair; in a container, mostly its network.
    Veth,
    /// A bridge over a hardware device, which then carries the host's addresses.
    HardwareBridge,
    /// A bridge, or another gateway, to containers or virtual machines of this host.
    ContainerBridge,
    /// Any other bridge.
    Bridge,
    /// A port of a bridge.
    BridgePort,
    /// A tunnel, a VPN or an overlay: tun, tap, WireGuard, VXLAN, GRE, PPP and the like.
    Tunnel,
    /// Keeps an address and carries nothing.
    Dummy,
    /// This host itself.
    Loopback,
    /// Any other device without hardware.
    Virtual,
}

impl Kind {
    /// How users read it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Kind::Ethernet => "ethernet",
            Kind::Infiniband => "infiniband",
            Kind::Wireless => "wireless",
            Kind::Vlan => "vlan",
            Kind::Bond => "bond",
            Kind::BondMember => "bond member",
            Kind::Veth => "veth",
            Kind::HardwareBridge => "bridge over hardware",
            Kind::ContainerBridge => "container bridge",
            Kind::Bridge => "bridge",
            Kind::BridgePort => "bridge port",
            Kind::Tunnel => "tunnel",
            Kind::Dummy => "dummy",
            Kind::Loopback => "loopback",
            Kind::Virtual => "virtual",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.words())
    }
}

/// Types of links as `linux/if_arp.h` numbers them, of which all are tunnels.
const TUNNEL_TYPES: [u16; 8] = [
    512,   // PPP
    519,   // raw IP, of modems
    768,   // IP in IP
    769,   // IPv6 in IPv6
    776,   // IPv6 in IPv4
    778,   // GRE
    823,   // GRE over IPv6
    65534, // none: tun, WireGuard
];
const TYPE_INFINIBAND: u16 = 32;

/// Drivers of tunnels whose links look like Ethernet or have no type of their own.
const TUNNEL_DRIVERS: [&str; 16] = [
    "tun",
    "wireguard",
    "vxlan",
    "geneve",
    "ip_gre",
    "gre",
    "gretap",
    "ip6gre",
    "ip6gretap",
    "erspan",
    "ipip",
    "ip6tnl",
    "sit",
    "vti",
    "xfrm",
    "amt",
];
const TUNNEL_DEVTYPES: [&str; 5] = ["wireguard", "vxlan", "geneve", "ppp", "wwan"];
/// Drivers of devices without hardware that are of no kind of their own.
const VIRTUAL_DRIVERS: [&str; 7] =
    ["macvlan", "macvtap", "ipvlan", "ipvtap", "vrf", "ifb", "openvswitch"];

/// What a device is. What the kernel says goes before the name, which anybody may give.
pub(super) fn kind_of(facts: &Facts<'_>) -> Kind {
    let sys = facts.sys.as_ref();
    let has = |flag: libc::c_int| facts.flags & flag.unsigned_abs() != 0;
    let driver = facts.driver.as_deref().unwrap_or_default();
    let devtype = sys.and_then(|sys| sys.devtype.as_deref()).unwrap_or_default();
    let is = |wanted: &str| driver == wanted || devtype == wanted;
    let sys_has = |found: fn(&super::sysfs::SysFacts) -> bool| sys.is_some_and(found);

    if has(libc::IFF_LOOPBACK) || facts.link_type == libc::ARPHRD_LOOPBACK {
        Kind::Loopback
    } else if has(libc::IFF_SLAVE) || sys_has(|sys| sys.master == Some(Master::Bond)) {
        Kind::BondMember
    } else if has(libc::IFF_MASTER) || is("bond") || is("bonding") || is("team") {
        Kind::Bond
    } else if is("bridge") || sys_has(|sys| sys.is_bridge) {
        bridge_kind(facts)
    } else if sys_has(|sys| sys.master == Some(Master::Bridge)) {
        Kind::BridgePort
    } else if is_to_containers(facts.name) && !sys_has(|sys| sys.has_hardware) {
        Kind::ContainerBridge
    } else if is("veth") || is("netkit") {
        Kind::Veth
    } else if TUNNEL_TYPES.contains(&facts.link_type)
        || TUNNEL_DRIVERS.contains(&driver)
        || TUNNEL_DEVTYPES.contains(&devtype)
        || sys_has(|sys| sys.is_tun)
    {
        Kind::Tunnel
    } else if facts.link_type == TYPE_INFINIBAND {
        Kind::Infiniband
    } else if devtype == "vlan" || driver == "802.1Q VLAN Support" {
        Kind::Vlan
    } else if devtype == "wlan" || sys_has(|sys| sys.is_wireless) {
        Kind::Wireless
    } else if is("dummy") {
        Kind::Dummy
    } else if VIRTUAL_DRIVERS.contains(&driver) {
        Kind::Virtual
    } else if sys_has(|sys| sys.has_hardware) {
        Kind::Ethernet
    } else {
        kind_by_name(facts.name, sys.is_some() && driver.is_empty())
    }
}

fn bridge_kind(facts: &Facts<'_>) -> Kind {
    if is_to_containers(facts.name) {
        Kind::ContainerBridge
    } else if facts.sys.as_ref().is_some_and(|sys| sys.has_hardware_port) {
        Kind::HardwareBridge
    } else {
        Kind::Bridge
    }
}

/// The names that Docker, Podman, CNI, libvirt, LXC, LXD, Incus, Kubernetes' networks and
/// others give.
fn is_to_containers(name: &str) -> bool {
    const BEGINNINGS: [&str; 13] = [
        "docker",
        "podman",
        "cni",
        "virbr",
        "lxcbr",
        "lxdbr",
        "incusbr",
        "nerdctl",
        "kube-bridge",
        "weave",
        "cilium_",
        "ovn-k8s-mp",
        "antrea-gw",
    ];
    let of_docker = |id: &str| id.len() == 12 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    BEGINNINGS.iter().any(|begin| name.starts_with(begin))
        || name.strip_prefix("br-").is_some_and(of_docker)
}

/// What is left where the kernel does not say. A device that is known to have no
/// hardware, and no driver either, is virtual.
fn kind_by_name(name: &str, is_bare: bool) -> Kind {
    const BEGINNINGS: [(&str, Kind); 11] = [
        ("veth", Kind::Veth),
        ("tun", Kind::Tunnel),
        ("tap", Kind::Tunnel),
        ("wg", Kind::Tunnel),
        ("tailscale", Kind::Tunnel),
        ("ppp", Kind::Tunnel),
        ("vxlan", Kind::Tunnel),
        ("flannel", Kind::Tunnel),
        ("dummy", Kind::Dummy),
        ("bond", Kind::Bond),
        ("br", Kind::Bridge),
    ];
    let found = BEGINNINGS.iter().find(|(begin, _)| name.starts_with(begin));
    let fallback = if is_bare { Kind::Virtual } else { Kind::Ethernet };
    found.map_or(fallback, |(_, kind)| *kind)
}
