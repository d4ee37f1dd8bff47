//! How a lab is: asked of the kernel, so that it is true also if someone changed it by hand.

use crate::directory::Lab;
use crate::enter::{Host, in_network};
use crate::network::share_of;
use crate::plan::{Plan, Rate, control_address, host_name, ipv4, ipv6, rail_name};
use crate::process::wait_for_end;
use crate::programs::output;
use crate::relay::{delays, nanos};
use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// How long a host that was killed may take to end.
const END_SECONDS: i64 = 1;

/// How a lab is.
#[derive(Debug, Serialize)]
pub struct Status {
    /// The lab's name.
    pub name: String,
    /// `running`, or `stale` if its processes are gone.
    pub state: &'static str,
    /// The hosts; none of a stale lab.
    pub hosts: Vec<HostStatus>,
}

/// How a host is.
#[derive(Debug, Serialize)]
pub struct HostStatus {
    /// Its name.
    pub name: String,
    /// Its address for launchers.
    pub control: String,
    /// Its ends of the rails; none if the host has died.
    pub rails: Vec<Cable>,
    /// Whether the host's process lives.
    pub alive: bool,
}

/// How a host's end of a cable is.
#[derive(Debug, Serialize)]
pub struct Cable {
    /// The device.
    pub name: String,
    /// Its IPv4 address.
    pub ipv4: String,
    /// Its IPv6 address.
    pub ipv6: String,
    /// `up`, `down`, `no carrier` or `silent`.
    pub state: &'static str,
    /// Bits per second that the host may send; `null` is no limit.
    pub rate: Rate,
    /// Per cent of the packets lost that arrive.
    pub loss: f64,
    /// How much longer packets take, each way, in nanoseconds.
    pub delay_ns: u64,
}

/// Asks how a lab is.
pub fn status(lab: &Lab) -> Result<Status> {
    let name = lab.plan.name.clone();
    if lab.head().is_none() {
        return Ok(Status { name, state: "stale", hosts: Vec::new() });
    }
    let hosts = (0..lab.plan.hosts).map(|host| host_status(lab, host));
    let hosts = hosts.collect::<Result<_>>()?;
    if lab.head().is_none() {
        // It has died meanwhile.
        return Ok(Status { name, state: "stale", hosts: Vec::new() });
    }
    Ok(Status { name, state: "running", hosts })
}

fn host_status(lab: &Lab, host: u32) -> Result<HostStatus> {
    let plan = &lab.plan;
    let asked = lab.holder(Host::Number(host)).ok().map(|holder| {
        let rails = delays(lab, host)
            .and_then(|delays| in_network(lab, Host::Number(host), || cables(plan, host, &delays)));
        // Of one that is about to end nothing can be asked.
        match rails {
            Err(_) if wait_for_end(&holder.pidfd, END_SECONDS).is_ok() => Ok(None),
            rails => rails.map(Some),
        }
    });
    let rails = asked.transpose()?.flatten();
    let alive = rails.is_some();
    let rails = rails.unwrap_or_default();
    Ok(HostStatus { name: host_name(host), control: control_address(host), rails, alive })
}

/// Asks the kernel, in the host's network.
fn cables(plan: &Plan, host: u32, delays: &[Duration]) -> Result<Vec<Cable>> {
    let links = parsed(&output("ip", &["-json", "link", "show"])?)?;
    let queues = parsed(&output("tc", &["-json", "qdisc", "show"])?)?;
    let cable = |(rail, delay): (u32, &Duration)| {
        let name = rail_name(rail);
        let is_filtered = of(&queues, "dev", &name).any(|queue| queue["kind"] == "clsact");
        let filters = if is_filtered {
            output("tc", &["filter", "show", "dev", &name, "ingress"])?
        } else {
            String::new()
        };
        let loss = share_of(filters.split('\'').nth(1).unwrap_or_default()).unwrap_or(0.0);
        let link = of(&links, "ifname", &name).next();
        let state = match link.map_or("down", state) {
            "up" if loss >= 100.0 => "silent",
            state => state,
        };
        let rate = of(&queues, "dev", &name).find_map(|queue| queue["options"]["rate"].as_u64());
        let rate = rate.map_or(Rate::NONE, |bytes| Rate::of_bits(bytes * 8));
        Ok(Cable {
            ipv4: ipv4(host, rail),
            ipv6: ipv6(host, rail),
            name,
            state,
            rate,
            loss,
            delay_ns: nanos(*delay),
        })
    };
    (0..plan.rails()).zip(delays).map(cable).collect()
}

/// The objects of a list that are of one device.
fn of<'a>(list: &'a Value, key: &'a str, device: &'a str) -> impl Iterator<Item = &'a Value> {
    let objects = list.as_array().into_iter().flatten();
    objects.filter(move |object| object[key] == device)
}

/// What `ip` says of a device's state.
fn state(link: &Value) -> &'static str {
    let has =
        |flag: &str| link["flags"].as_array().is_some_and(|it| it.iter().any(|it| it == flag));
    match (has("UP"), has("LOWER_UP")) {
        (false, _) => "down",
        (true, false) => "no carrier",
        (true, true) => "up",
    }
}

fn parsed(text: &str) -> Result<Value> {
    serde_json::from_str(text).context("ip and tc do not print JSON here; install a newer iproute2")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_device_without_carrier_is_told_from_one_that_is_down() {
        let link = |flags: &[&str]| json!({ "flags": flags });
        assert_eq!(state(&link(&["UP", "LOWER_UP"])), "up");
        assert_eq!(state(&link(&["NO-CARRIER", "UP"])), "no carrier");
        assert_eq!(state(&link(&["BROADCAST"])), "down");
    }
}
