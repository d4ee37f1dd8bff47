//! What devices are, by trees in the form of `/sys`.

use super::super::kind::kind_of;
use super::super::sysfs::{Facts, facts};
use super::super::system::Interface;
use super::*;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use tempfile::TempDir;

const ADDRESS: [u8; 6] = [2, 0xfc, 0, 0, 0, 1];

/// A tree in the form of `/sys`, whose devices are numbered from 1 on.
struct Tree {
    root: TempDir,
    names: Vec<String>,
}

impl Tree {
    fn new() -> Tree {
        Tree { root: TempDir::new().expect("a directory"), names: Vec::new() }
    }

    /// A device with this `uevent`, and these directories.
    fn add(&mut self, name: &str, uevent: &str, dirs: &[&str]) {
        self.names.push(name.to_owned());
        let dir = self.dir(name);
        for inner in dirs {
            fs::create_dir_all(dir.join(inner)).expect("made");
        }
        fs::create_dir_all(&dir).expect("made");
        for (file, text) in [
            ("ifindex", self.names.len().to_string()),
            ("address", "02:fc:00:00:00:01\n".to_owned()),
            ("uevent", format!("{uevent}INTERFACE={name}\n")),
        ] {
            fs::write(dir.join(file), text).expect("written");
        }
    }

    fn enslave(&self, name: &str, master: &str) {
        symlink(self.dir(master), self.dir(name).join("master")).expect("linked");
    }

    fn dir(&self, name: &str) -> std::path::PathBuf {
        self.root.path().join("class/net").join(name)
    }

    fn interface(&self, name: &str) -> Interface {
        let at = self.names.iter().position(|known| known == name).expect("it was added");
        Interface {
            name: name.to_owned(),
            index: at as u32 + 1,
            flags: 0,
            link_type: libc::ARPHRD_ETHER,
            hardware_address: ADDRESS.to_vec(),
            addresses: Vec::new(),
        }
    }

    fn kind(&self, interface: &Interface) -> Kind {
        kind_in(self.root.path(), interface, None)
    }

    fn kind_of(&self, name: &str) -> Kind {
        self.kind(&self.interface(name))
    }
}

fn kind_in(root: &Path, interface: &Interface, driver: Option<&str>) -> Kind {
    kind_of(&Facts {
        name: &interface.name,
        flags: interface.flags,
        link_type: interface.link_type,
        driver: driver.map(str::to_owned),
        sys: facts(root, interface),
    })
}

#[test]
fn each_kind_is_told_by_what_the_kernel_shows_of_it() {
    let mut tree = Tree::new();
    tree.add("eth0", "", &["device"]);
    tree.add("wlan0", "DEVTYPE=wlan\n", &["device", "phy80211"]);
    tree.add("storage", "DEVTYPE=vlan\n", &[]);
    tree.add("fast", "DEVTYPE=bond\n", &["bonding"]);
    tree.add("eth1", "", &["device", "bonding_slave"]);
    tree.add("docker0", "DEVTYPE=bridge\n", &["bridge", "brif/veth1"]);
    tree.add("br-0123456789ab", "DEVTYPE=bridge\n", &["bridge"]);
    tree.add("br-lan", "DEVTYPE=bridge\n", &["bridge"]);
    tree.add("br0", "DEVTYPE=bridge\n", &["bridge", "brif/eth2", "brif/veth1"]);
    tree.add("eth2", "", &["device", "brport"]);
    tree.add("veth1", "", &["brport"]);
    tree.add("home", "DEVTYPE=wireguard\n", &[]);
    tree.add("overlay", "DEVTYPE=vxlan\n", &[]);
    tree.add("work", "", &["tun_flags"]);
    tree.add("dummy0", "", &[]);
    tree.add("macvlan0", "", &[]);
    for (name, kind) in [
        ("eth0", Kind::Ethernet),
        ("wlan0", Kind::Wireless),
        ("storage", Kind::Vlan),
        ("fast", Kind::Bond),
        ("eth1", Kind::BondMember),
        ("docker0", Kind::ContainerBridge),
        ("br-0123456789ab", Kind::ContainerBridge),
        ("br-lan", Kind::Bridge),
        ("br0", Kind::HardwareBridge),
        ("eth2", Kind::BridgePort),
        ("veth1", Kind::BridgePort),
        ("home", Kind::Tunnel),
        ("overlay", Kind::Tunnel),
        ("work", Kind::Tunnel),
        ("dummy0", Kind::Dummy),
        ("macvlan0", Kind::Virtual),
    ] {
        assert_eq!(tree.kind_of(name), kind, "{name}");
    }
}

#[test]
fn hardware_with_the_name_of_a_bridge_is_hardware() {
    let mut tree = Tree::new();
    tree.add("docker0", "", &["device"]);
    assert_eq!(tree.kind_of("docker0"), Kind::Ethernet);
}

#[test]
fn a_part_of_a_bond_or_a_bridge_is_told_by_its_master_too() {
    let mut tree = Tree::new();
    tree.add("bond0", "", &["bonding"]);
    tree.add("br0", "", &["bridge"]);
    tree.add("vrf0", "", &[]);
    for name in ["eth0", "eth1", "eth2"] {
        tree.add(name, "", &["device"]);
    }
    tree.enslave("eth0", "bond0");
    tree.enslave("eth1", "br0");
    tree.enslave("eth2", "vrf0");
    assert_eq!(tree.kind_of("eth0"), Kind::BondMember);
    assert_eq!(tree.kind_of("eth1"), Kind::BridgePort);
    // Its addresses are its own.
    assert_eq!(tree.kind_of("eth2"), Kind::Ethernet);
}

#[test]
fn flags_and_types_of_links_go_before_all_else() {
    let mut tree = Tree::new();
    tree.add("eth0", "", &["device"]);
    let eth0 = tree.interface("eth0");
    let with = |flags: libc::c_int, link_type: u16| {
        let flags = flags.unsigned_abs();
        tree.kind(&Interface { flags, link_type, ..eth0.clone() })
    };
    assert_eq!(with(libc::IFF_LOOPBACK, libc::ARPHRD_ETHER), Kind::Loopback);
    assert_eq!(with(0, libc::ARPHRD_LOOPBACK), Kind::Loopback);
    assert_eq!(with(libc::IFF_SLAVE, libc::ARPHRD_ETHER), Kind::BondMember);
    assert_eq!(with(libc::IFF_MASTER, libc::ARPHRD_ETHER), Kind::Bond);
    assert_eq!(with(0, libc::ARPHRD_INFINIBAND), Kind::Infiniband);
    assert_eq!(with(libc::IFF_POINTOPOINT, libc::ARPHRD_PPP), Kind::Tunnel);
    assert_eq!(with(libc::IFF_POINTOPOINT, libc::ARPHRD_NONE), Kind::Tunnel);
}

#[test]
fn without_sys_the_driver_says_it_and_else_the_name() {
    let nowhere = Path::new("/does/not/exist");
    let kind = |name: &str, driver: Option<&str>| {
        let interface = Interface { name: name.to_owned(), link_type: 1, ..Interface::default() };
        kind_in(nowhere, &interface, driver)
    };
    for (driver, expected) in [
        ("virtio_net", Kind::Ethernet),
        ("mlx5_core", Kind::Ethernet),
        ("veth", Kind::Veth),
        ("bridge", Kind::Bridge),
        ("bonding", Kind::Bond),
        ("tun", Kind::Tunnel),
        ("wireguard", Kind::Tunnel),
        ("802.1Q VLAN Support", Kind::Vlan),
        ("dummy", Kind::Dummy),
        ("macvlan", Kind::Virtual),
    ] {
        assert_eq!(kind("net0", Some(driver)), expected, "{driver}");
    }
    assert_eq!(kind("docker0", Some("bridge")), Kind::ContainerBridge);
    assert_eq!(kind("cilium_host", Some("veth")), Kind::ContainerBridge);
    assert_eq!(kind("ovn-k8s-mp0", Some("openvswitch")), Kind::ContainerBridge);
    assert_eq!(kind("br-ex", Some("openvswitch")), Kind::Virtual);
    for (name, expected) in [
        ("eth0", Kind::Ethernet),
        ("enp3s0", Kind::Ethernet),
        ("docker0", Kind::ContainerBridge),
        ("br0", Kind::Bridge),
        ("wg0", Kind::Tunnel),
        ("tun0", Kind::Tunnel),
        ("veth12", Kind::Veth),
        ("bond0", Kind::Bond),
    ] {
        assert_eq!(kind(name, None), expected, "{name}");
    }
}

/// As `unshare --net` leaves it, which mounts nothing.
#[test]
fn sys_of_another_namespace_is_not_believed() {
    let mut tree = Tree::new();
    tree.add("eth0", "DEVTYPE=bridge\n", &["bridge"]);
    let eth0 = tree.interface("eth0");
    assert_eq!(tree.kind(&eth0), Kind::Bridge);
    let other_number = Interface { index: 2, ..eth0.clone() };
    assert_eq!(tree.kind(&other_number), Kind::Ethernet);
    let other_address = Interface { hardware_address: vec![2, 0xfc, 0, 0, 0, 2], ..eth0 };
    assert_eq!(tree.kind(&other_address), Kind::Ethernet);
}
