//! Which devices there are.

use super::Device;
use super::kind::{Kind, kind_of};
use super::sysfs::{self, Facts};
use super::system::{self, Asker, Interface};
use std::io;
use std::path::Path;

/// All devices of the network namespace of the calling thread, in the order of their
/// numbers.
///
/// # Errors
///
/// If the system does not list them.
pub fn list() -> io::Result<Vec<Device>> {
    list_with(Path::new("/sys"))
}

/// As [`list`], with another place in the form of `/sys`.
pub(super) fn list_with(sysfs: &Path) -> io::Result<Vec<Device>> {
    let asker = Asker::new()?;
    let interfaces = system::interfaces()?;
    Ok(interfaces.into_iter().map(|interface| describe(interface, &asker, sysfs)).collect())
}

fn describe(interface: Interface, asker: &Asker, sysfs: &Path) -> Device {
    let name = &interface.name;
    let facts = Facts {
        name,
        flags: interface.flags,
        link_type: interface.link_type,
        driver: asker.driver(name),
        sys: sysfs::facts(sysfs, &interface),
    };
    let kind = kind_of(&facts);
    let has = |flag: libc::c_int| interface.flags & flag.unsigned_abs() != 0;
    let speed = (kind != Kind::Tunnel).then(|| asker.speed_mbit(name));
    Device {
        index: interface.index,
        kind,
        up: has(libc::IFF_UP),
        carrier: has(libc::IFF_LOWER_UP) && !has(libc::IFF_DORMANT),
        speed_mbit: speed.flatten(),
        mtu_bytes: asker.mtu_bytes(name),
        addresses: interface.addresses,
        name: interface.name,
    }
}
