//! The commands of `ip` and `tc` that make a lab's network, as batches.
//!
//! The head has a bridge for launchers' traffic. With two hosts a rail is one veth pair
//! from host to host. With more, it is a bridge in the head with a veth pair to each host:
//! a switch. Packets are dropped where they arrive, by a classic BPF program, at both ends
//! of a cable: nothing that sends can tell.

use crate::place::Place;
use crate::plan::{CONTROL, HEAD_ADDRESS, Plan, Rate, control_address, ipv4, ipv6, rail_name};

/// What makes the bridges and the pairs, run in the head. `pids` are the hosts' processes.
pub fn head_ip(plan: &Plan, pids: &[i32]) -> String {
    let mut lines = format!(
        "link set lo up\n\
         link add {CONTROL} type bridge\n\
         address add {HEAD_ADDRESS}/24 dev {CONTROL}\n\
         link set {CONTROL} up\n"
    );
    let mtu = plan.mtu;
    for (host, pid) in (0..).zip(pids) {
        let port = control_port(host);
        lines += &format!("link add {port} type veth peer name {CONTROL} netns {pid}\n");
        lines += &format!("link set {port} master {CONTROL} up\n");
    }
    for rail in 0..plan.rails() {
        let name = rail_name(rail);
        if let (true, [one, other]) = (plan.is_pair(), pids) {
            lines += &format!(
                "link add {name} mtu {mtu} netns {one} type veth \
                 peer name {name} mtu {mtu} netns {other}\n"
            );
            continue;
        }
        lines += &format!("link add {name} mtu {mtu} type bridge\nlink set {name} up\n");
        for (host, pid) in (0..).zip(pids) {
            let port = rail_port(host, rail);
            lines += &format!(
                "link add {port} mtu {mtu} type veth peer name {name} mtu {mtu} netns {pid}\n\
                 link set {port} master {name} up\n"
            );
        }
    }
    lines
}

/// The rates of a switch's ports, set in the head.
pub fn head_tc(plan: &Plan) -> String {
    if plan.is_pair() {
        return String::new();
    }
    let rails = || (0..).zip(&plan.rates);
    let ports = (0..plan.hosts).flat_map(|host| rails().map(move |rail| (host, rail)));
    ports.map(|(host, (rail, rate))| shape(&rail_port(host, rail), *rate)).collect()
}

/// A host's addresses, set in the host.
pub fn host_ip(plan: &Plan, host: u32) -> String {
    let mut lines = format!(
        "link set lo up\naddress add {}/24 dev {CONTROL}\nlink set {CONTROL} up\n",
        control_address(host)
    );
    for rail in 0..plan.rails() {
        let name = rail_name(rail);
        lines += &format!(
            "address add {}/24 dev {name}\n\
             address add {}/64 dev {name} nodad\n\
             link set {name} up\n",
            ipv4(host, rail),
            ipv6(host, rail)
        );
    }
    lines
}

/// The rates at which a host sends.
pub fn host_tc(plan: &Plan) -> String {
    (0..).zip(&plan.rates).map(|(rail, rate)| shape(&rail_name(rail), *rate)).collect()
}

/// Sets the rate at which a device sends.
pub fn shape(device: &str, rate: Rate) -> String {
    match rate.bits() {
        None => format!("qdisc replace dev {device} root noqueue\n"),
        Some(bits) => {
            format!("qdisc replace dev {device} root tbf rate {bits}bit burst 256kb latency 50ms\n")
        }
    }
}

/// What joins a relay to the head, run in the relay's network. The head's first process is
/// number 1 for it.
pub fn relay_ip(host: u32, rail: u32) -> String {
    let (port, place) = (rail_port(host, rail), Place::of(host, rail));
    format!(
        "link add relay mtu 65535 type veth peer name u{port} mtu 65535 netns 1\n\
         address add {}/30 dev relay\n\
         link set relay up\n",
        place.relay()
    )
}

/// What puts the devices of a relay between a switch and its port to a host.
pub fn relayed_ip(plan: &Plan, host: u32, rail: u32) -> String {
    let (switch, port) = (rail_name(rail), rail_port(host, rail));
    let (mtu, place) = (plan.mtu, Place::of(host, rail));
    let (devices, relay) = (place.devices(), place.relay());
    let [near, far] = place.ports();
    // Their segments are cut before the relay: what it sent whole would exceed the MTU.
    let vxlan = format!("mtu {mtu} gso_max_segs 1 type vxlan id 1 local {devices} remote {relay}");
    format!(
        "address add {devices}/30 dev u{port}\n\
         link set u{port} up\n\
         link add b{port} mtu {mtu} type bridge\n\
         link set b{port} up\n\
         link add v{port} {vxlan} dstport {near} nolearning noudpcsum\n\
         link add w{port} {vxlan} dstport {far} nolearning noudpcsum\n\
         link set v{port} master b{port} up\n\
         link set w{port} master {switch} up\n\
         link set {port} master b{port}\n"
    )
}

/// What gives the port back to its switch.
pub fn direct_ip(host: u32, rail: u32) -> String {
    let (switch, port) = (rail_name(rail), rail_port(host, rail));
    format!(
        "link set {port} master {switch}\n\
         link delete v{port}\nlink delete w{port}\nlink delete b{port}\nlink delete u{port}\n"
    )
}

/// Drops a share of what arrives at a device: all with 100 per cent, nothing with 0.
pub fn lose(device: &str, percent: f64) -> String {
    // The qdisc goes with its filters, and may not be there before.
    let anew = format!("qdisc replace dev {device} clsact\n");
    if percent <= 0.0 {
        return anew + &format!("qdisc delete dev {device} clsact\n");
    }
    let program = dropping(percent);
    anew + &format!(
        "filter replace dev {device} ingress prio 1 handle 1 \
         bpf direct-action bytecode \"{program}\"\n"
    )
}

/// The share that a program of `lose` drops, in per cent.
pub fn share_of(program: &str) -> Option<f64> {
    if program == DROP_ALL {
        return Some(100.0);
    }
    let inner = program.strip_prefix(DROP_SOME.0)?.strip_suffix(DROP_SOME.1)?;
    Some(inner.parse::<u32>().ok()? as f64 / RANDOMS * 100.0)
}

/// The port of the control bridge that leads to a host.
fn control_port(host: u32) -> String {
    format!("h{host}{CONTROL}")
}

/// The port of a rail's switch that leads to a host.
pub fn rail_port(host: u32, rail: u32) -> String {
    format!("h{host}r{rail}")
}

/// How many values the random number of a BPF program has.
const RANDOMS: f64 = 4_294_967_296.0;
/// Return 2 (TC_ACT_SHOT).
const DROP_ALL: &str = "1,6 0 0 2";
/// Load a random number (the ancillary word 56); if it is at least the number between these
/// two, return -1 (TC_ACT_UNSPEC: go on), else 2.
const DROP_SOME: (&str, &str) = ("4,32 0 0 4294963256,53 0 1 ", ",6 0 0 4294967295,6 0 0 2");

/// The program that drops a share of the packets.
fn dropping(percent: f64) -> String {
    if percent >= 100.0 {
        return DROP_ALL.to_owned();
    }
    let bound = (percent / 100.0 * RANDOMS) as u32;
    format!("{}{bound}{}", DROP_SOME.0, DROP_SOME.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(hosts: u32) -> Plan {
        Plan::new("x", hosts, 2, &[Rate::of_bits(1_000_000), Rate::NONE]).expect("a plan")
    }

    #[test]
    fn two_hosts_are_joined_by_one_cable_a_rail() {
        let lines = head_ip(&plan(2), &[7, 8]);
        assert!(
            lines
                .contains("link add r1 mtu 1500 netns 7 type veth peer name r1 mtu 1500 netns 8\n")
        );
        assert!(!lines.contains("h0r0"), "{lines}");
        assert_eq!(head_tc(&plan(2)), "");
    }

    #[test]
    fn more_hosts_are_joined_by_a_switch_that_has_the_rates_too() {
        let lines = head_ip(&plan(3), &[7, 8, 9]);
        assert!(lines.contains("link add r0 mtu 1500 type bridge\n"));
        assert!(lines.contains(
            "link add h2r0 mtu 1500 type veth peer name r0 mtu 1500 netns 9\n\
             link set h2r0 master r0 up\n"
        ));
        assert!(head_tc(&plan(3)).contains(
            "qdisc replace dev h2r0 root tbf rate 1000000bit burst 256kb latency 50ms\n\
             qdisc replace dev h2r1 root noqueue\n"
        ));
    }

    #[test]
    fn two_hosts_are_joined_by_a_switch_if_that_is_wanted() {
        let plan = Plan { switch: true, ..plan(2) };
        assert!(head_ip(&plan, &[7, 8]).contains("link set h1r0 master r0 up\n"));
    }

    #[test]
    fn a_relay_stands_between_a_port_and_its_switch() {
        assert!(
            relay_ip(1, 0)
                .contains("peer name uh1r0 mtu 65535 netns 1\naddress add 10.43.0.130/30")
        );
        let lines = relayed_ip(&plan(3), 1, 0);
        assert!(lines.contains(
            "link add wh1r0 mtu 1500 gso_max_segs 1 type vxlan id 1 \
             local 10.43.0.129 remote 10.43.0.130 \
             dstport 16449 nolearning noudpcsum\n"
        ));
        assert!(lines.ends_with(
            "link set vh1r0 master bh1r0 up\nlink set wh1r0 master r0 up\n\
             link set h1r0 master bh1r0\n"
        ));
        assert!(direct_ip(1, 0).starts_with("link set h1r0 master r0\n"));
    }

    #[test]
    fn one_host_has_its_rails() {
        assert!(head_ip(&plan(1), &[7]).contains("link set h0r1 master r1 up\n"));
    }

    #[test]
    fn a_program_tells_what_it_drops() {
        for percent in [0.5, 50.0, 99.0, 100.0] {
            let share = share_of(&dropping(percent)).expect("one of ours");
            assert!((share - percent).abs() < 1e-6, "{share} for {percent}");
        }
        assert_eq!(share_of("1,6 0 0 0"), None);
    }
}
