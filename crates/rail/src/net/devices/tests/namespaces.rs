//! Real devices, in network namespaces of their own. Only a thread of the test enters
//! them, so nothing outside changes.

use super::super::list::list_with;
use super::super::{Route, Wanted, bind_to_device, choose, route_from};
use super::*;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::thread;

/// Runs `inside` on a thread in namespaces of its own for networks and mounts, or says why
/// not. `inside` is given a directory in the form of `/sys` that shows its network.
fn in_namespace(inside: impl FnOnce(&Path) + Send) {
    let sysfs = tempfile::tempdir().expect("a directory");
    let run = || {
        // SAFETY: changes what the calling thread alone sees.
        if unsafe { libc::unshare(libc::CLONE_NEWNET | libc::CLONE_NEWNS) } != 0 {
            return Err(format!("unshare: {}", io::Error::last_os_error()));
        }
        let dir = sysfs.path().to_str().ok_or("the directory has no name")?;
        command("mount --make-rprivate /")?;
        command(&format!("mount -t sysfs sysfs {dir}"))?;
        command("ip link set lo up")?;
        inside(sysfs.path());
        Ok(())
    };
    let result = thread::scope(|scope| scope.spawn(run).join());
    match result {
        Ok(Ok(())) => {}
        Ok(Err(why)) => eprintln!("skipped, no network namespace of its own: {why}"),
        Err(cause) => std::panic::resume_unwind(cause),
    }
}

/// Runs a command in the namespaces of this thread.
fn command(line: &str) -> Result<(), String> {
    let mut words = line.split(' ');
    let program = words.next().unwrap_or_default();
    let output =
        Command::new(program).args(words).output().map_err(|why| format!("{line}: {why}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{line}: {}", said.trim())) }
}

/// Adds devices, each by its lines. Says which ones this system cannot make.
fn add(name: &str, lines: &[&str]) -> bool {
    let failed = lines.iter().find_map(|line| command(line).err());
    if let Some(why) = &failed {
        eprintln!("without {name}: {why}");
    }
    failed.is_none()
}

fn find<'a>(devices: &'a [Device], name: &str) -> &'a Device {
    devices.iter().find(|device| device.name == name).expect("it is listed")
}

#[test]
fn devices_are_listed_as_they_were_made() {
    in_namespace(|sysfs| {
        let veth = add(
            "veth",
            &[
                "ip link add r0 type veth peer name far0",
                "ip link set r0 mtu 9000",
                "ip addr add 10.1.0.1/16 dev r0 label r0:one",
                "ip addr add 10.2.0.1/24 dev r0",
                "ip addr add fd00::1/64 dev r0 nodad",
                "ip link set r0 up",
            ],
        );
        for root in [sysfs, Path::new("/does/not/exist")] {
            let devices = list_with(root).expect("listed");
            let lo = find(&devices, "lo");
            assert_eq!((lo.kind, lo.index, lo.up, lo.carrier), (Kind::Loopback, 1, true, true));
            assert_eq!(lo.addresses, [net("127.0.0.1/8"), net("::1/128")]);
            if !veth {
                continue;
            }
            let r0 = find(&devices, "r0");
            assert_eq!((r0.kind, r0.up, r0.carrier), (Kind::Veth, true, false));
            assert_eq!((r0.mtu_bytes, r0.speed_mbit), (Some(9000), Some(10_000)));
            assert_eq!(r0.addresses, [net("10.1.0.1/16"), net("10.2.0.1/24"), net("fd00::1/64")]);
            let far = find(&devices, "far0");
            assert_eq!((far.kind, far.up, far.addresses.len()), (Kind::Veth, false, 0));
        }
        if veth {
            command("ip link set far0 up").expect("as allowed as the rest");
            let devices = list_with(sysfs).expect("listed");
            assert!(find(&devices, "r0").carrier && find(&devices, "far0").carrier);
        }
    });
}

#[test]
fn an_address_that_is_about_to_go_comes_last() {
    in_namespace(|sysfs| {
        let made = add(
            "veth",
            &[
                "ip link add r0 type veth peer name far0",
                "ip addr add fd00::1/64 dev r0 nodad",
                "ip addr add fd00::2/64 dev r0 nodad",
                "ip addr add fd00::3/64 dev r0 nodad",
                "ip link set r0 up",
            ],
        );
        if !made {
            return;
        }
        let addresses = || find(&list_with(sysfs).expect("listed"), "r0").addresses.clone();
        let before = addresses();
        assert_eq!(before.len(), 3);
        let first = before[0];
        command(&format!("ip addr change {first} dev r0 preferred_lft 0"))
            .expect("as allowed as the rest");
        let after = addresses();
        assert_eq!((after.len(), after[2]), (3, first));
    });
}

#[test]
fn kinds_are_those_of_the_devices_with_and_without_sys() {
    in_namespace(|sysfs| {
        let mut made: Vec<(&str, Kind)> = vec![("lo", Kind::Loopback)];
        for (name, kind, lines) in [
            ("r0", Kind::Veth, &["ip link add r0 type veth peer name far0"][..]),
            ("net1", Kind::Bridge, &["ip link add net1 type bridge"]),
            ("docker0", Kind::ContainerBridge, &["ip link add docker0 type bridge"]),
            ("vpn", Kind::Tunnel, &["ip tuntap add vpn mode tun"]),
            ("vm", Kind::Tunnel, &["ip tuntap add vm mode tap"]),
            ("none", Kind::Dummy, &["ip link add none type dummy"]),
            ("guard", Kind::Tunnel, &["ip link add guard type wireguard"]),
            ("lan5", Kind::Vlan, &["ip link add link r0 name lan5 type vlan id 5"]),
            ("both", Kind::Bond, &["ip link add both type bond"]),
            (
                "one",
                Kind::BondMember,
                &[
                    "ip link add both type bond",
                    "ip link add one type veth peer name two",
                    "ip link set one master both",
                ],
            ),
            ("mac0", Kind::Virtual, &["ip link add link r0 name mac0 type macvlan"]),
        ] {
            if add(name, lines) {
                made.push((name, kind));
            }
        }
        for root in [sysfs, Path::new("/sys"), Path::new("/does/not/exist")] {
            let devices = list_with(root).expect("listed");
            for (name, kind) in &made {
                assert_eq!(find(&devices, name).kind, *kind, "{name} by {}", root.display());
            }
        }
        if made.iter().any(|(name, _)| *name == "net1")
            && add("a port", &["ip link set far0 master net1"])
        {
            let devices = list_with(sysfs).expect("listed");
            assert_eq!(find(&devices, "far0").kind, Kind::BridgePort);
        }
    });
}

#[test]
fn a_device_is_chosen_when_it_has_carrier_and_an_address() {
    in_namespace(|sysfs| {
        let chosen = || {
            let devices = list_with(sysfs).expect("listed");
            let choice = choose(&devices, &Wanted::default()).expect("nothing is wanted");
            let used = choice.used().into_iter().map(|verdict| verdict.device.name.clone());
            used.collect::<Vec<_>>()
        };
        assert_eq!(chosen(), ["lo"]);
        if !add("veth", &["ip link add r0 type veth peer name far0", "ip link set r0 up"]) {
            return;
        }
        assert_eq!(chosen(), ["lo"]);
        command("ip link set far0 up").expect("as allowed as the rest");
        // Both have an address of their link alone, or will have.
        assert_eq!(chosen(), ["lo"]);
        command("ip addr add fd00::1/64 dev r0 nodad").expect("as allowed as the rest");
        assert_eq!(chosen(), ["r0"]);
    });
}

#[test]
fn a_route_says_whether_it_is_through_the_network_of_the_device() {
    in_namespace(|sysfs| {
        let made = add(
            "veth",
            &[
                "ip link add r0 type veth peer name far0",
                "ip link add r1 type veth peer name far1",
                "ip link set r0 up",
                "ip link set far0 up",
                "ip link set r1 up",
                "ip link set far1 up",
                "ip addr add 10.1.0.1/16 dev r0",
                "ip addr add 10.2.0.1/16 dev r1",
                "ip addr add fd00::1/64 dev r1 nodad",
            ],
        );
        if !made {
            return;
        }
        let devices = list_with(sysfs).expect("listed");
        let (r0, r1) = (find(&devices, "r0"), find(&devices, "r1"));
        let ask = |device, from: &str, to: &str| {
            route_from(device, net(from), address(to)).map_err(|error| error.kind())
        };
        assert_eq!(ask(r0, "10.1.0.1/16", "10.1.0.2"), Ok(Route::Direct));
        assert_eq!(ask(r1, "10.2.0.1/16", "10.2.0.2"), Ok(Route::Direct));
        assert_eq!(ask(r1, "fd00::1/64", "fd00::2"), Ok(Route::Direct));
        let by_r0 = Route::Routed { source: address("10.1.0.1") };
        assert_eq!(ask(r1, "10.2.0.1/16", "10.1.0.2"), Ok(by_r0));
        let unreachable = Err(io::ErrorKind::NetworkUnreachable);
        assert_eq!(ask(r0, "10.1.0.1/16", "192.0.2.1"), unreachable);
        assert_eq!(ask(r1, "fd00::1/64", "fd07::2"), unreachable);
        let absent = Err(io::ErrorKind::AddrNotAvailable);
        assert_eq!(ask(r0, "10.9.0.1/16", "10.1.0.2"), absent);
        command("ip route add default via 10.1.0.9").expect("as allowed as the rest");
        assert_eq!(ask(r0, "10.1.0.1/16", "192.0.2.1"), Ok(by_r0));
        assert_eq!(ask(r1, "10.2.0.1/16", "192.0.2.1"), Ok(by_r0));
    });
}

/// Two devices in one network: by its address alone the second one would never send.
#[test]
fn a_socket_that_is_bound_to_a_device_sends_by_it() {
    in_namespace(|sysfs| {
        let made = add(
            "veth",
            &[
                "ip link add r0 type veth peer name far0",
                "ip link add r1 type veth peer name far1",
                "ip link set r0 up",
                "ip link set far0 up",
                "ip link set r1 up",
                "ip link set far1 up",
                "ip addr add 10.1.0.1/16 dev r0",
                "ip addr add 10.1.0.2/16 dev r1",
                "ip neigh add 10.1.0.9 lladdr 02:00:00:00:00:09 dev r0",
                "ip neigh add 10.1.0.9 lladdr 02:00:00:00:00:09 dev r1",
            ],
        );
        if !made {
            return;
        }
        let devices = list_with(sysfs).expect("listed");
        let sent = |name: &str| {
            let path = sysfs.join("class/net").join(name).join("statistics/tx_bytes");
            let text = std::fs::read_to_string(path).expect("a count");
            text.trim().parse::<u64>().expect("a number")
        };
        // Far more than what the system itself says on a new network.
        let bytes = [0; 1024];
        let send = |is_bound: bool| {
            let before = (sent("r0"), sent("r1"));
            let socket = UdpSocket::bind("10.1.0.2:0").expect("an own address");
            if is_bound {
                bind_to_device(&socket, find(&devices, "r1").index).expect("allowed");
            }
            for _ in 0..32 {
                socket.send_to(&bytes, "10.1.0.9:9").expect("sent");
            }
            let is_much = |now: u64, before: u64| now - before > 32 * 1024;
            (is_much(sent("r0"), before.0), is_much(sent("r1"), before.1))
        };
        assert_eq!(send(false), (true, false));
        assert_eq!(send(true), (false, true));
    });
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}
