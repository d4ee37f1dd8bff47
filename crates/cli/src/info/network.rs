//! The network devices: which are used and why, and how they reach a host.

use super::push_line;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use sluice_rail::net::OwnDevice;
use sluice_rail::net::devices::{self, Choice, IpNet, Route, Verdict};
use sluice_runtime::NetworkOptions;
use sluice_runtime::settings::{Fabric, Rails, own_device};
use std::net::{IpAddr, ToSocketAddrs};

/// A rail to peers on other hosts.
#[derive(Debug)]
pub struct NetworkRail {
    /// As FI_SLUICE_RAILS calls it.
    pub name: String,
    /// Whether processes use it here.
    pub usable: bool,
    /// By which devices, or why not.
    pub detail: String,
}

/// What was decided of each device, or why nothing was; and what the providers of libfabric
/// have that are to be rails.
#[derive(Debug)]
pub struct Network(Result<Choice, String>, Vec<Fabric>);

impl Network {
    /// Lists the devices, and decides as the setting says.
    pub fn collect(options: &NetworkOptions) -> Network {
        let devices = devices::list().map_err(|why| format!("cannot list network devices: {why}"));
        let choice = devices.and_then(|devices| {
            devices::choose(&devices, &options.devices).map_err(|why| why.to_string())
        });
        let used = choice.iter().flat_map(Choice::used).filter_map(own_device);
        let fabrics = options.fabrics(&used.collect::<Vec<OwnDevice>>());
        Network(choice, fabrics)
    }

    /// The rails to peers on other hosts: TCP, and those over libfabric that are wanted.
    pub fn rails(&self, wanted: &Rails) -> Vec<NetworkRail> {
        let row = |name: String, found: Result<String, String>| NetworkRail {
            name,
            usable: found.is_ok(),
            detail: found.unwrap_or_else(|why| why),
        };
        let over_libfabric = self.1.iter().map(|fabric| {
            let found = fabric.found.as_ref().map_err(ToString::to_string).map(|found| {
                let domains: Vec<&str> = found.iter().map(|(_, offer)| &*offer.domain).collect();
                format!("by {}", domains.join(", "))
            });
            row(format!("ofi:{}", fabric.provider), found)
        });
        let tcp = row(String::from("tcp"), self.tcp(wanted));
        std::iter::once(tcp).chain(over_libfabric).collect()
    }

    /// By which devices TCP goes, and to whom; or why it does not.
    fn tcp(&self, wanted: &Rails) -> Result<String, String> {
        if !wanted.tcp {
            return Err(String::from("FI_SLUICE_RAILS leaves it out"));
        }
        let used = self.choice()?.used();
        if used.is_empty() {
            return Err(String::from("no network device is used"));
        }
        let names: Vec<&str> = used.iter().map(|verdict| &*verdict.device.name).collect();
        let whom = if wanted.shm { "peers on other hosts" } else { "all peers" };
        Ok(format!("to {whom}, by {}", names.join(", ")))
    }

    /// The rails over libfabric, as text; nothing if none is wanted.
    pub fn fabrics_text(&self) -> String {
        let mut text = String::new();
        for Fabric { provider, found } in &self.1 {
            let found = match found {
                Ok(found) => found,
                Err(why) => {
                    push_line(&mut text, &format!("  ofi:{provider}  not used  {why}"));
                    continue;
                }
            };
            for (device, offer) in found {
                let speed = match device.mbit_per_s {
                    0 => String::from("speed not known"),
                    mbit => format!("{mbit} Mbit/s"),
                };
                let (by, domain) = (&offer.provider, &offer.domain);
                push_line(
                    &mut text,
                    &format!("  ofi:{provider}  used      named by FI_SLUICE_RAILS"),
                );
                let at = device.addresses.first();
                push_line(&mut text, &format!("    {by}, device {domain}, {speed}; met at {at}"));
            }
        }
        text
    }

    pub fn fabrics_json(&self) -> Value {
        let one = |fabric: &Fabric| match &fabric.found {
            Err(why) => json!({ "provider": fabric.provider, "error": why.to_string() }),
            Ok(found) => {
                let devices = found.iter().map(|(device, offer)| {
                    json!({
                        "provider": offer.provider,
                        "domain": offer.domain,
                        "speed_mbit": (device.mbit_per_s > 0).then_some(device.mbit_per_s),
                        "address": device.addresses.first().to_string(),
                        "reason": "named by FI_SLUICE_RAILS",
                    })
                });
                json!({ "provider": fabric.provider, "devices": devices.collect::<Vec<_>>() })
            }
        };
        self.1.iter().map(one).collect()
    }

    /// What the providers of libfabric have that are to be rails.
    pub fn fabrics(&self) -> &[Fabric] {
        &self.1
    }

    /// What was decided, or why nothing was.
    pub fn choice(&self) -> Result<&Choice, &str> {
        self.0.as_ref().map_err(String::as_str)
    }

    /// What of the setting has no effect.
    pub fn warnings(&self) -> &[String] {
        self.0.as_ref().map_or(&[], |choice| &choice.warnings)
    }

    pub fn to_json(&self) -> Value {
        match &self.0 {
            Ok(choice) => choice.verdicts.iter().map(verdict_json).collect(),
            Err(why) => json!({ "error": why }),
        }
    }

    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let verdicts = match &self.0 {
            Ok(choice) => &choice.verdicts,
            Err(why) => return format!("  {why}\n"),
        };
        let width = name_width(verdicts.iter().map(|verdict| &*verdict.device.name));
        for verdict in verdicts {
            let device = &verdict.device;
            let used = if verdict.place.is_some() { "used" } else { "not used" };
            let what = [
                Some(device.kind.to_string()),
                device.speed_mbit.map(|speed| format!("{speed} Mbit/s")),
                device.mtu_bytes.map(|mtu| format!("MTU {mtu}")),
            ];
            let what: Vec<String> = what.into_iter().flatten().collect();
            push_line(
                &mut text,
                &format!("  {:<width$}  {used:<8}  {}", device.name, verdict.reason),
            );
            push_line(&mut text, &format!("  {:<width$}            {}", "", what.join(", ")));
            if !device.addresses.is_empty() {
                let addresses = words(&device.addresses).join(", ");
                push_line(&mut text, &format!("  {:<width$}            {addresses}", ""));
            }
        }
        text
    }

    /// How the devices that are used reach a host.
    pub fn routes(&self, host: &str) -> Result<Routes> {
        let addresses = addresses_of(host)?;
        let used = self.0.as_ref().map(Choice::used).unwrap_or_default();
        let ways = used.iter().flat_map(|verdict| {
            let froms = verdict.addresses.iter();
            froms.flat_map(|from| addresses.iter().filter_map(|to| self.way(verdict, *from, *to)))
        });
        Ok(Routes { host: host.to_owned(), ways: ways.collect() })
    }

    fn way(&self, verdict: &Verdict, from: IpNet, to: IpAddr) -> Option<Way> {
        if from.addr().is_ipv4() != to.is_ipv4() {
            return None;
        }
        let device = verdict.device.name.clone();
        let route = devices::route_from(&verdict.device, from, to);
        let route = route.map_err(|why| why.to_string()).map(|route| match route {
            Route::Direct => Reach::Direct,
            Route::Routed { source } => Reach::Routed { by: self.owner(source) },
        });
        Some(Way { device, from: from.addr(), to, route })
    }

    /// The name of the device that has an address.
    fn owner(&self, address: IpAddr) -> Option<String> {
        let mut verdicts = self.0.iter().flat_map(|choice| &choice.verdicts);
        let has = |net: &IpNet| net.addr() == address;
        let owner = verdicts.find(|verdict| verdict.device.addresses.iter().any(has));
        owner.map(|verdict| verdict.device.name.clone())
    }
}

/// The addresses that a host's name has, each once.
pub fn addresses_of(host: &str) -> Result<Vec<IpAddr>> {
    let found = (host, 0).to_socket_addrs();
    let found = found.with_context(|| format!("cannot find the addresses of {host}"))?;
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in found.map(|address| address.ip()) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    Ok(addresses)
}

fn words(addresses: &[IpNet]) -> Vec<String> {
    addresses.iter().map(IpNet::to_string).collect()
}

fn name_width<'a>(names: impl Iterator<Item = &'a str>) -> usize {
    names.map(|name| name.chars().count()).max().unwrap_or(0)
}

fn verdict_json(verdict: &Verdict) -> Value {
    let device = &verdict.device;
    json!({
        "name": device.name,
        "index": device.index,
        "kind": device.kind.words(),
        "up": device.up,
        "carrier": device.carrier,
        "speed_mbit": device.speed_mbit,
        "mtu_bytes": device.mtu_bytes,
        "addresses": words(&device.addresses),
        "used": verdict.place.is_some(),
        "place": verdict.place,
        "used_addresses": words(&verdict.addresses),
        "reason": verdict.reason,
    })
}

/// How the devices that are used reach a host.
#[derive(Debug)]
pub struct Routes {
    host: String,
    ways: Vec<Way>,
}

/// From one address to another one.
#[derive(Debug)]
struct Way {
    device: String,
    from: IpAddr,
    to: IpAddr,
    route: Result<Reach, String>,
}

#[derive(Debug)]
enum Reach {
    Direct,
    /// By the device that has this name.
    Routed {
        by: Option<String>,
    },
}

impl Routes {
    pub fn to_json(&self) -> Value {
        let ways: Vec<Value> = self.ways.iter().map(Way::to_json).collect();
        json!({ "host": self.host, "routes": ways })
    }

    pub fn to_text(&self) -> String {
        let mut text = format!("routes to {}\n", self.host);
        if self.ways.is_empty() {
            push_line(&mut text, "  no device that is used has an address of a family of its own");
        }
        let width = name_width(self.ways.iter().map(|way| &*way.device));
        for way in &self.ways {
            let how = match &way.route {
                Ok(Reach::Direct) => "in its network".to_owned(),
                Ok(Reach::Routed { by: Some(by) }) if *by == way.device => "by a router".to_owned(),
                Ok(Reach::Routed { by: Some(by) }) => format!("by a router, sent by {by}"),
                Ok(Reach::Routed { by: None }) => "by a router, sent by another device".to_owned(),
                Err(why) => format!("no route: {why}"),
            };
            let (device, from, to) = (&way.device, way.from, way.to);
            push_line(&mut text, &format!("  {device:<width$}  {from} to {to}: {how}"));
        }
        text
    }
}

impl Way {
    fn to_json(&self) -> Value {
        let (route, by, error) = match &self.route {
            Ok(Reach::Direct) => ("direct", Some(self.device.as_str()), None),
            Ok(Reach::Routed { by }) => ("routed", by.as_deref(), None),
            Err(why) => ("none", None, Some(why.as_str())),
        };
        json!({
            "device": self.device,
            "from": self.from.to_string(),
            "to": self.to.to_string(),
            "route": route,
            "sent_by": by,
            "error": error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_rail::net::devices::{Device, Kind, choose};

    fn network(wanted: &str) -> Network {
        let device = |index, name: &str, kind, addresses: &[&str]| Device {
            name: name.to_owned(),
            index,
            kind,
            up: true,
            carrier: true,
            speed_mbit: (kind == Kind::Ethernet).then_some(25_000),
            mtu_bytes: Some(1500),
            addresses: addresses.iter().map(|text| text.parse().expect("an address")).collect(),
        };
        let devices = [
            device(1, "lo", Kind::Loopback, &["127.0.0.1/8"]),
            device(2, "eth0", Kind::Ethernet, &["198.51.100.5/24", "fd00::5/64"]),
            device(3, "docker0", Kind::ContainerBridge, &[]),
        ];
        let wanted = wanted.parse().expect("words");
        Network(choose(&devices, &wanted).map_err(|why| why.to_string()), Vec::new())
    }

    #[test]
    fn each_device_is_shown_with_its_reason() {
        let expected = "  lo       not used  reaches this host only
                     loopback, MTU 1500
                     127.0.0.1/8
  eth0     used      by default
                     ethernet, 25000 Mbit/s, MTU 1500
                     198.51.100.5/24, fd00::5/64
  docker0  not used  no address
                     container bridge, MTU 1500
";
        assert_eq!(network("").to_text(), expected);
        let json = network("198.51.100.0/24").to_json();
        assert_eq!(json[1]["used_addresses"], json!(["198.51.100.5/24"]));
        assert_eq!((&json[1]["place"], &json[2]["place"]), (&json!(0), &Value::Null));
        assert_eq!(json[2]["reason"], "no address");
    }

    #[test]
    fn tcp_is_a_rail_by_the_devices_that_are_used() {
        let tcp = |network: &Network, wanted: &str| {
            let rails = network.rails(&wanted.parse().expect("rails"));
            assert_eq!((rails.len(), &*rails[0].name), (1, "tcp"));
            (rails[0].usable, rails[0].detail.clone())
        };
        let one = network("");
        assert_eq!(tcp(&one, "shm,tcp"), (true, "to peers on other hosts, by eth0".to_owned()));
        assert_eq!(tcp(&one, "tcp"), (true, "to all peers, by eth0".to_owned()));
        assert_eq!(tcp(&one, "shm"), (false, "FI_SLUICE_RAILS leaves it out".to_owned()));
        let two = network("eth0,lo");
        assert_eq!(tcp(&two, "tcp"), (true, "to all peers, by eth0, lo".to_owned()));
        let (usable, why) = tcp(&network("eth7"), "tcp");
        assert!(!usable && why.contains("eth7"), "{why}");
    }

    /// A provider that is not there is shown with what to do next.
    #[test]
    fn a_provider_that_is_not_there_is_shown_with_the_reason() {
        let rails = "ofi:nonesuch".parse().expect("rails");
        let options = NetworkOptions { rails, ..NetworkOptions::default() };
        let network = Network::collect(&options);
        if network.0.as_ref().is_ok_and(|choice| !choice.used().is_empty()) {
            let text = network.fabrics_text();
            assert!(text.starts_with("  ofi:nonesuch  not used  libfabric "), "{text}");
            assert!(network.fabrics_json()[0]["error"].is_string());
            let rails = network.rails(&options.rails);
            assert_eq!((&*rails[1].name, rails[1].usable), ("ofi:nonesuch", false));
        }
    }

    #[test]
    fn a_word_that_fits_nothing_is_shown_and_named() {
        let text = network("eth7").to_text();
        assert!(text.starts_with("  eth7 of FI_SLUICE_DEVICES fits no network device"), "{text}");
        assert!(network("eth7").to_json()["error"].is_string());
        assert_eq!(network("^eth7").warnings().len(), 1);
    }

    #[test]
    fn a_host_is_reached_from_addresses_of_its_family() {
        let routes = network("lo").routes("127.0.0.1").expect("an address");
        let expected = "routes to 127.0.0.1\n  lo  127.0.0.1 to 127.0.0.1: in its network\n";
        assert_eq!(routes.to_text(), expected);
        assert_eq!(routes.to_json()["routes"][0]["route"], "direct");
        let routes = network("lo").routes("::1").expect("an address");
        assert!(routes.to_text().contains("no device that is used"), "{}", routes.to_text());
        // This address is for documentation, so no host has it.
        let routes = network("eth0").routes("198.51.100.6").expect("an address");
        assert_eq!(routes.to_json()["routes"][0]["route"], "none");
    }
}
