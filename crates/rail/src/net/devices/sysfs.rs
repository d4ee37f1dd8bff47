//! What `/sys/class/net` says of a device.
//!
//! `/sys` may not be mounted, and it may show the devices of another network namespace
//! (of the one that mounted it). What it says of a device counts only if number and
//! hardware address are the same.

use super::system::Interface;
use std::fs;
use std::path::Path;

/// All that is known of a device before it is named a kind.
#[derive(Clone, Debug)]
pub(super) struct Facts<'a> {
    pub(super) name: &'a str,
    /// `IFF_*`.
    pub(super) flags: u32,
    /// `ARPHRD_*`.
    pub(super) link_type: u16,
    /// What the kernel calls its driver.
    pub(super) driver: Option<String>,
    pub(super) sys: Option<SysFacts>,
}

/// What `/sys` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SysFacts {
    /// `DEVTYPE` of its `uevent`.
    pub(super) devtype: Option<String>,
    /// Has a bus device behind it.
    pub(super) has_hardware: bool,
    pub(super) is_bridge: bool,
    /// Is a bridge with a port that has hardware.
    pub(super) has_hardware_port: bool,
    pub(super) is_tun: bool,
    pub(super) is_wireless: bool,
    pub(super) master: Option<Master>,
}

/// What a device is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Master {
    Bond,
    Bridge,
    Other,
}

/// What `root`, which is `/sys` or in its form, says of an interface, if it shows this
/// one and not another of the same name.
pub(super) fn facts(root: &Path, interface: &Interface) -> Option<SysFacts> {
    let devices = root.join("class/net");
    // Names have no slash; the kernel takes none, nor `.` and `..`.
    let dir = devices.join(&interface.name);
    let index: u32 = fs::read_to_string(dir.join("ifindex")).ok()?.trim().parse().ok()?;
    let address = fs::read_to_string(dir.join("address")).ok()?;
    if index != interface.index || !is_address(address.trim(), &interface.hardware_address) {
        return None;
    }
    let has = |name: &str| dir.join(name).exists();
    let uevent = fs::read_to_string(dir.join("uevent")).unwrap_or_default();
    let devtype = uevent.lines().find_map(|line| line.strip_prefix("DEVTYPE="));
    let master = has("master").then(|| master_of(&dir));
    let of_bond = has("bonding_slave").then_some(Master::Bond);
    let of_bridge = has("brport").then_some(Master::Bridge);
    Some(SysFacts {
        devtype: devtype.map(str::to_owned),
        has_hardware: has("device"),
        is_bridge: has("bridge"),
        has_hardware_port: ports(&dir).any(|port| devices.join(port).join("device").exists()),
        is_tun: has("tun_flags"),
        is_wireless: has("wireless") || has("phy80211"),
        master: of_bond.or(of_bridge).or(master),
    })
}

/// The name of its driver, where the kernel was not asked for it.
fn master_of(dir: &Path) -> Master {
    let master = dir.join("master");
    if master.join("bonding").exists() {
        Master::Bond
    } else if master.join("bridge").exists() {
        Master::Bridge
    } else {
        Master::Other
    }
}

fn ports(dir: &Path) -> impl Iterator<Item = std::ffi::OsString> {
    let entries = fs::read_dir(dir.join("brif")).into_iter().flatten();
    entries.flatten().map(|entry| entry.file_name())
}

/// Whether a text (`02:fc:00:00:00:01`) begins with these bytes. The system gives no more
/// than eight bytes of a hardware address.
fn is_address(text: &str, bytes: &[u8]) -> bool {
    let mut written = text.split(':').filter(|part| !part.is_empty());
    bytes
        .iter()
        .all(|byte| written.next().is_some_and(|part| u8::from_str_radix(part, 16) == Ok(*byte)))
}
