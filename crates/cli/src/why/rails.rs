//! The rails over the network, to another host or, if shared memory is left out, to a process
//! of this one: which of this host's devices are one, and why the others are not.
//!
//! Two processes tell each other their devices when they meet, and both compute the rails
//! from that. Here nobody is asked: what is known of the other host is the addresses of its
//! name. They are paired with the devices of this host by the function that processes use.

use crate::info::network::Network;
use anyhow::{Result, anyhow, bail, ensure};
use serde_json::{Value, json};
use sluice_rail::net::devices::{Choice, Device, IpNet, Offer, Route, Verdict, pair, route_from};
use sluice_rail::net::{FabricOffer, OwnDevice};
use sluice_runtime::NetworkOptions;
use sluice_runtime::settings::Fabric;
use sluice_text::Table;
use std::net::IpAddr;

/// The rails to a host, over TCP and over providers of libfabric.
#[derive(Debug)]
pub struct PeerRails {
    rows: Vec<Row>,
}

/// One device of this host.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    /// The rail that it is, as in `FI_SLUICE_RAILS`.
    name: String,
    device: String,
    /// The addresses here and there, if it is paired.
    ends: Option<(IpAddr, IpAddr)>,
    speed_mbit: Option<u32>,
    is_used: bool,
    /// Of large messages, in the beginning.
    share_pct: Option<f64>,
    reason: String,
}

impl PeerRails {
    /// Those to a host with these addresses.
    ///
    /// # Errors
    /// What keeps this host off the network.
    pub fn find(addresses: &[IpAddr], options: &NetworkOptions) -> Result<PeerRails> {
        let network = Network::collect(options);
        let choice = network.choice().map_err(|why| anyhow!("{why}"))?;
        let owns = |net: &IpNet| addresses.contains(&net.addr());
        let here = choice.verdicts.iter().find(|verdict| verdict.device.addresses.iter().any(owns));
        if let Some(verdict) = here {
            bail!("{} of this host has that address; give a rank", verdict.device.name);
        }
        let route =
            |device: &Device, from, to| route_from(device, from, to).map_err(|why| why.to_string());
        let tcp = if options.rails.tcp { rows(choice, addresses, &route) } else { Vec::new() };
        PeerRails::of(tcp, &network, "if the peer has such a device")
    }

    /// Those to another process of this host, for which shared memory is left out.
    ///
    /// # Errors
    /// What keeps this host off the network.
    pub fn here(options: &NetworkOptions) -> Result<PeerRails> {
        let network = Network::collect(options);
        let choice = network.choice().map_err(|why| anyhow!("{why}"))?;
        let tcp = if options.rails.tcp { rows_here(choice) } else { Vec::new() };
        PeerRails::of(tcp, &network, "the peer, on this host, has it too")
    }

    /// Devices of providers stand behind those of TCP, as in processes.
    fn of(mut rows: Vec<Row>, network: &Network, said: &str) -> Result<PeerRails> {
        let used = rows.iter().filter(|row| row.is_used).count();
        rows.splice(used..used, fabric_rows(network.fabrics(), said));
        share(&mut rows);
        let rails = PeerRails { rows };
        ensure!(
            rails.used().count() > 0,
            "no rail reaches it: {}",
            rails.rows.iter().map(Row::refusal).collect::<Vec<_>>().join("; ")
        );
        Ok(rails)
    }

    /// The rail that packets leave by.
    pub fn name(&self) -> &str {
        self.used().next().map_or("", |row| &row.name)
    }

    fn used(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.is_used)
    }

    /// The device that packets leave by, while it works: all rails of the network have one
    /// latency, so it is the first.
    pub fn eager(&self) -> &str {
        self.used().next().map_or("", |row| &row.device)
    }

    /// In a line.
    pub fn said(&self) -> String {
        match self.used().count() {
            1 => format!("one rail, by {}", self.eager()),
            count => format!(
                "{count} rails; packets of eager messages go by {}, large messages by all",
                self.eager()
            ),
        }
    }

    pub fn to_text(&self) -> String {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let ends = |row: &Row| or_dash(row.ends.map(|(own, peer)| format!("{own} to {peer}")));
        let speed = |row: &Row| or_dash(row.speed_mbit.map(|mbit| mbit.to_string()));
        let share = |row: &Row| or_dash(row.share_pct.map(|share| format!("{share:.0}")));
        let table = Table::of(
            &self.rows,
            &[
                ("device", &|row| row.device.clone()),
                ("rail", &|row| row.name.clone()),
                ("use", &|row| if row.is_used { "used" } else { "not used" }.to_owned()),
                ("addresses", &ends),
                ("Mbit/s", &speed),
                ("share %", &share),
                ("why", &|row| row.reason.clone()),
            ],
        );
        format!(
            "\n{table}share: of large messages, by the speeds that devices claim; from the first\n\
             chunks on by what each rail carries. The first rail is opened with the first message,\n\
             the others once more than 128 KiB are under way.\n"
        )
    }

    pub fn to_json(&self) -> Value {
        let eager = self.rows.iter().position(|row| row.is_used);
        let rows = self.rows.iter().enumerate();
        rows.map(|(place, row)| row.to_json(Some(place) == eager)).collect()
    }
}

impl Row {
    fn refusal(&self) -> String {
        format!("{}: {}", self.device, self.reason)
    }

    fn to_json(&self, is_eager: bool) -> Value {
        json!({
            "name": self.name,
            "device": self.device,
            "address": self.ends.map(|(own, _)| own.to_string()),
            "peer_address": self.ends.map(|(_, peer)| peer.to_string()),
            "speed_mbit": self.speed_mbit,
            "chosen": self.is_used,
            "share_pct": self.share_pct,
            "eager": is_eager,
            "detail": self.reason,
        })
    }
}

/// Every device of this host, for a peer that is on it: each is paired with itself.
fn rows_here(choice: &Choice) -> Vec<Row> {
    let used = choice.used();
    let paired = |verdict: &&Verdict| {
        let own = offer_of(verdict).addresses.first().map(|net| (net.addr(), net.addr()));
        let reason = "the peer has it too: what goes to this host stays on it".to_owned();
        Row { ends: own, is_used: true, ..row(&verdict.device, reason) }
    };
    used.iter().map(paired).chain(unused_rows(choice)).collect()
}

/// Every device of libfabric's providers that is to be a rail, and every provider that has
/// none.
fn fabric_rows(fabrics: &[Fabric], said: &str) -> Vec<Row> {
    let of = |fabric: &Fabric| {
        let name = format!("ofi:{}", fabric.provider);
        let blank = Row {
            device: "-".to_owned(),
            name,
            ends: None,
            speed_mbit: None,
            is_used: false,
            share_pct: None,
            reason: String::new(),
        };
        match &fabric.found {
            Err(why) => vec![Row { reason: why.to_string(), ..blank }],
            Ok(found) => {
                let row = |(device, offer): &(OwnDevice, FabricOffer)| Row {
                    device: offer.domain.clone(),
                    speed_mbit: (device.mbit_per_s > 0).then_some(device.mbit_per_s),
                    is_used: true,
                    reason: format!("named by FI_SLUICE_RAILS; {said}"),
                    ..blank.clone()
                };
                found.iter().map(row).collect()
            }
        }
    };
    fabrics.iter().flat_map(of).collect()
}

/// Every device of this host: rails in their order, then the others.
fn rows(
    choice: &Choice,
    addresses: &[IpAddr],
    route: &dyn Fn(&Device, IpNet, IpAddr) -> Result<Route, String>,
) -> Vec<Row> {
    let used = choice.used();
    let own: Vec<Offer> = used.iter().map(|verdict| offer_of(verdict)).collect();
    let peer: Vec<Offer> = addresses.iter().map(|&address| offer_at(address, &own)).collect();
    let pairs = pair(&own, &peer);
    let mut rows: Vec<Row> = Vec::new();
    for pair in &pairs {
        let (own, to) = (pair.own_address, pair.peer_address.addr());
        let device = &used[pair.own].device;
        let found = route(device, own, to);
        let is_used = found.is_ok();
        let reason = match found {
            Ok(Route::Direct) => "the peer is in its network".to_owned(),
            Ok(Route::Routed { .. }) => "by a router".to_owned(),
            Err(why) => format!("no route: {why}"),
        };
        rows.push(Row { ends: Some((own.addr(), to)), is_used, ..row(device, reason) });
    }
    let is_paired = |place: usize| pairs.iter().any(|pair| pair.own == place);
    let alone = used.iter().enumerate().filter(|(place, _)| !is_paired(*place));
    rows.extend(alone.map(|(_, verdict)| {
        let reason = "no address of the peer that is known here is left for it";
        row(&verdict.device, reason.to_owned())
    }));
    rows.extend(unused_rows(choice));
    rows
}

/// The devices that no process uses.
fn unused_rows(choice: &Choice) -> impl Iterator<Item = Row> {
    let unused = choice.verdicts.iter().filter(|verdict| verdict.place.is_none());
    unused.map(|verdict| row(&verdict.device, verdict.reason.clone()))
}

fn row(device: &Device, reason: String) -> Row {
    Row {
        name: "tcp".to_owned(),
        device: device.name.clone(),
        ends: None,
        speed_mbit: device.speed_mbit,
        is_used: false,
        share_pct: None,
        reason,
    }
}

/// A device of this host, as a peer is told of it.
fn offer_of(verdict: &Verdict) -> Offer {
    let addresses = verdict.addresses.iter().take(1).copied().collect();
    Offer { addresses, speed_mbit: verdict.device.speed_mbit }
}

/// A device of the peer of which an address is known; it is in the network of a device that
/// has it in its own.
fn offer_at(address: IpAddr, own: &[Offer]) -> Offer {
    let nets = own.iter().flat_map(|offer| &offer.addresses);
    let prefix = nets.filter(|net| net.contains(&address)).map(IpNet::prefix_len).max();
    let net = prefix.and_then(|prefix| IpNet::new(address, prefix).ok());
    Offer { addresses: vec![net.unwrap_or_else(|| address.into())], speed_mbit: None }
}

/// The shares of rails that are used, by the speeds that they claim.
fn share(rows: &mut [Row]) {
    // What processes take for a device that claims none.
    let mbit = |row: &Row| f64::from(row.speed_mbit.unwrap_or(1000));
    let sum: f64 = rows.iter().filter(|row| row.is_used).map(mbit).sum();
    for row in rows.iter_mut().filter(|row| row.is_used) {
        row.share_pct = Some((1000.0 * mbit(row) / sum).round() / 10.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_rail::net::devices::{Kind, choose};

    fn device(index: u32, name: &str, address: &str, speed_mbit: Option<u32>) -> Device {
        Device {
            name: name.to_owned(),
            index,
            kind: Kind::Ethernet,
            up: true,
            carrier: true,
            speed_mbit,
            mtu_bytes: Some(1500),
            addresses: vec![address.parse().expect("an address")],
        }
    }

    fn rails(wanted: &str, peer: &[&str]) -> PeerRails {
        let devices = [
            device(1, "eth0", "198.51.100.1/25", Some(10_000)),
            device(2, "eth1", "198.51.100.129/25", Some(30_000)),
            device(3, "eth2", "203.0.113.1/24", None),
        ];
        let choice = choose(&devices, &wanted.parse().expect("words")).expect("devices");
        let peer: Vec<IpAddr> = peer.iter().map(|it| it.parse().expect("an address")).collect();
        let route = |_: &Device, from: IpNet, to: IpAddr| match from.contains(&to) {
            true => Ok(Route::Direct),
            false => Err("unreachable".to_owned()),
        };
        let mut rows = rows(&choice, &peer, &route);
        share(&mut rows);
        PeerRails { rows }
    }

    #[test]
    fn each_device_is_a_rail_or_has_a_reason() {
        let rails = rails("^eth2", &["198.51.100.130", "198.51.100.2"]);
        let of = |name: &str| rails.rows.iter().find(|row| row.device == name).expect("a row");
        assert_eq!((of("eth0").share_pct, of("eth1").share_pct), (Some(25.0), Some(75.0)));
        assert!(of("eth0").is_used && of("eth0").reason.contains("in its network"));
        let ends = of("eth1").ends.map(|(own, peer)| (own.to_string(), peer.to_string()));
        assert_eq!(ends, Some(("198.51.100.129".to_owned(), "198.51.100.130".to_owned())));
        assert!(!of("eth2").is_used && !of("eth2").reason.is_empty());
        assert!(["eth0", "eth1"].contains(&rails.eager()), "{}", rails.eager());
        assert!(rails.said().starts_with("2 rails; packets"), "{}", rails.said());
        let eager = rails
            .to_json()
            .as_array()
            .expect("rows")
            .iter()
            .filter(|row| row["eager"] == true)
            .count();
        assert_eq!(eager, 1);
        assert!(rails.to_text().contains("not used"), "{}", rails.to_text());
    }

    #[test]
    fn a_device_without_an_address_to_reach_is_no_rail() {
        let rails = rails("eth0,eth1", &["198.51.100.2", "192.0.2.9"]);
        let used: Vec<&str> = rails.used().map(|row| row.device.as_str()).collect();
        assert_eq!(used, ["eth0"]);
        let other = rails.rows.iter().find(|row| row.device == "eth1").expect("a row");
        assert_eq!(other.reason, "no route: unreachable");
        assert_eq!(rails.said(), "one rail, by eth0");
    }

    #[test]
    fn a_device_for_which_no_address_is_left_says_so() {
        let rails = rails("eth0,eth1", &["198.51.100.2"]);
        let other = rails.rows.iter().find(|row| row.device == "eth1").expect("a row");
        assert!(other.reason.starts_with("no address of the peer"), "{}", other.reason);
    }
}
