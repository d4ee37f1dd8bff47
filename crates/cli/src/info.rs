//! `sluice info`: what works on this machine, and how to enable the rest.

pub mod network;

use anyhow::Result;
use clap::Args;
use network::{Network, NetworkRail};
use serde_json::{Map, Value, json};
use sluice_proto::Endpoint;
use sluice_rail::net::handshake::{self, Security, shortest_ask};
use sluice_rail::shm::probe::{self, Probe, ProbeReport, Status};
use sluice_rail::shm::{self, Shm};
use sluice_runtime::{Choice, RailOptions, Settings};
use sluice_text::bytes;
use std::fmt::Write as _;
use std::io::Write as _;

/// Arguments of `sluice info`.
#[derive(Debug, Args)]
#[command(after_help = "\
FI_SLUICE_DEVICES says which network devices are used; docs/configuration.md explains
the default. FI_SLUICE_RAILS=ofi:PROVIDER adds rails over libfabric.

Examples:
  sluice info                          rails, probes with the remedy of each refused one,
                                       network devices
  sluice info --json                   the same as JSON
  sluice info --host node7             also how the used devices reach that host
  FI_SLUICE_DEVICES='^eth0' sluice info    as if eth0 were not to be used")]
pub struct InfoArgs {
    /// A host, as a name or an address: show which routes the system has to it from the
    /// network devices that are used. Nothing is sent there
    #[arg(long)]
    host: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Prints what was found.
pub fn run(args: &InfoArgs) -> Result<()> {
    let settings = Settings::of_environment();
    let info = Info::collect(&settings);
    let routes = args.host.as_deref().map(|host| info.network.routes(host)).transpose()?;
    let warnings = [&settings.warnings, info.network.warnings()].concat();
    let mut out = std::io::stdout().lock();
    if args.json {
        let mut document = info.to_json();
        document["warnings"] = warnings.into();
        if let Some(routes) = routes {
            document["host"] = routes.to_json();
        }
        serde_json::to_writer_pretty(&mut out, &document).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", info.to_text())?;
        if let Some(routes) = routes {
            write!(out, "\n{}", routes.to_text())?;
        }
        for warning in &warnings {
            eprintln!("sluice: warning: {warning}");
        }
    }
    Ok(())
}

/// What was found. `sluice doctor` judges it.
#[derive(Debug)]
pub struct Info {
    /// What the system allows.
    pub report: ProbeReport,
    /// What a process's memory comes to, or why its rail does not open.
    pub memory: Result<Memory, String>,
    /// The network devices.
    pub network: Network,
    /// The rails over them.
    pub network_rails: Vec<NetworkRail>,
    /// How connections to other hosts are protected.
    pub security: Security,
}

/// What a process's memory comes to with the default configuration.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    senders_max: u64,
    /// Of memory for messages not yet matched, whatever peers do.
    unexpected_bytes_max: u64,
    mailbox_slots: u64,
    mailbox_bytes: u64,
    idle_peer_endpoint_bytes: u64,
    idle_peer_rail_bytes: u64,
    active_peer_endpoint_bytes: u64,
}

impl Info {
    /// Tries and looks up everything, in the directory that is set.
    pub fn collect(settings: &Settings) -> Info {
        let shm_dir = &settings.rail.shm_dir;
        let options = RailOptions { shm_dir: shm_dir.clone(), ..RailOptions::default() };
        let memory = Shm::open(options.config(0, Endpoint::data_slots_within))
            .map(|rail| Memory::of(&rail))
            .map_err(|error| format!("cannot open the shared-memory rail: {error}"));
        let network = Network::collect(&settings.network);
        let network_rails = network.rails(&settings.network.rails);
        let security = settings.network.security;
        Info { report: probe::report(shm_dir), memory, network, network_rails, security }
    }

    /// All rails: what each is called, whether it can be used, and how or why not.
    fn rails(&self) -> impl Iterator<Item = (&str, bool, &str)> {
        let own = self.report.rails.iter().map(|rail| (rail.name, rail.usable, &*rail.detail));
        let network = self.network_rails.iter();
        own.chain(network.map(|rail| (&*rail.name, rail.usable, &*rail.detail)))
    }

    fn to_json(&self) -> Value {
        let rails: Vec<Value> = self
            .rails()
            .map(|(name, usable, detail)| json!({ "name": name, "usable": usable, "detail": detail }))
            .collect();
        let probes: Vec<Value> = self.report.probes.iter().map(probe_json).collect();
        let memory = match &self.memory {
            Ok(memory) => memory.to_json(),
            Err(error) => json!({ "error": error }),
        };
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "wire_version": sluice_wire::VERSION,
            "rails": rails,
            "probes": probes,
            "memory": memory,
            "network_devices": self.network.to_json(),
            "security": self.security.word(),
            "libfabric_rails": self.network.fabrics_json(),
            "handshake": handshake_json(),
        })
    }

    fn to_text(&self) -> String {
        let mut text = format!(
            "sluice {}, wire version {}\n\nrails\n",
            env!("CARGO_PKG_VERSION"),
            sluice_wire::VERSION
        );
        let width = self.rails().map(|(name, ..)| name.chars().count() + 2).max().unwrap_or(0);
        for (name, usable, detail) in self.rails() {
            let state = if usable { "usable" } else { "not usable" };
            push_line(&mut text, &format!("  {name:<width$}{state}: {detail}"));
        }
        text.push_str("\nprobes\n");
        let width =
            self.report.probes.iter().map(|probe| probe.name.chars().count()).max().unwrap_or(0);
        for probe in &self.report.probes {
            let state = match probe.status {
                Status::Ok => "ok",
                Status::Refused => "refused",
            };
            let name = probe.name;
            push_line(&mut text, &format!("  {name:<width$}  {state:<7}  {}", probe.detail));
            if let Some(remedy) = &probe.remedy {
                push_line(&mut text, &format!("  {:<width$}  remedy:  {remedy}", ""));
            }
        }
        text.push_str("\nmemory of one process\n");
        match &self.memory {
            Ok(memory) => text.push_str(&memory.to_text()),
            Err(error) => push_line(&mut text, &format!("  {error}")),
        }
        text.push_str("\nnetwork devices\n");
        text.push_str(&self.network.to_text());
        text.push_str("\nconnections to other hosts\n");
        push_line(&mut text, &security_line(self.security));
        let fabrics = self.network.fabrics_text();
        if !fabrics.is_empty() {
            text.push_str("\nrails over libfabric\n");
            text.push_str(&fabrics);
        }
        text
    }
}

/// What a connection between hosts begins with, for programs that try who may connect.
fn handshake_json() -> Value {
    let asks: Map<String, Value> = Security::ALL
        .iter()
        .map(|(mode, word, _)| {
            let (preface, body_bytes) = shortest_ask(*mode);
            let preface: String = preface.iter().map(|byte| format!("{byte:02x}")).collect();
            (word.to_string(), json!({ "preface": preface, "body_bytes": body_bytes }))
        })
        .collect();
    json!({ "version": handshake::VERSION, "asks": asks })
}

/// What the mode is and means, and where it is set.
fn security_line(security: Security) -> String {
    let found = Security::ALL.iter().find(|(mode, _, _)| *mode == security);
    let meaning = found.map_or("", |(_, _, meaning)| meaning);
    format!("  {security}: {meaning} (FI_SLUICE_SECURITY)")
}

impl Memory {
    fn of(rail: &Shm) -> Memory {
        let layout = rail.layout();
        let senders_max = u64::from(layout.senders_max);
        Memory {
            senders_max,
            unexpected_bytes_max: Endpoint::unexpected_bytes_max(&layout),
            mailbox_slots: u64::from(layout.ring_slots),
            mailbox_bytes: rail.stats().segment_bytes,
            idle_peer_endpoint_bytes: Endpoint::IDLE_PEER_BYTES as u64,
            idle_peer_rail_bytes: shm::bytes_per_idle_peer() as u64,
            active_peer_endpoint_bytes: Endpoint::ACTIVE_PEER_BYTES as u64,
        }
    }

    fn idle_peer_bytes(&self) -> u64 {
        self.idle_peer_endpoint_bytes + self.idle_peer_rail_bytes
    }

    fn to_json(self) -> Value {
        json!({
            "senders_max": self.senders_max,
            "unexpected_bytes_max": self.unexpected_bytes_max,
            "mailbox_slots": self.mailbox_slots,
            "mailbox_bytes": self.mailbox_bytes,
            "idle_peer_bytes": self.idle_peer_bytes(),
            "active_peer_endpoint_bytes": self.active_peer_endpoint_bytes,
        })
    }

    fn to_text(self) -> String {
        format!(
            "  mailbox              {} slots, a segment of {}; pages are used as they are written\n  \
             unexpected messages  at most {} from {} senders, whatever they do\n  \
             idle peer            {} B ({} endpoint, {} rail), no buffers\n  \
             active peer          {} B of endpoint state\n",
            self.mailbox_slots,
            bytes(self.mailbox_bytes),
            bytes(self.unexpected_bytes_max),
            self.senders_max,
            self.idle_peer_bytes(),
            self.idle_peer_endpoint_bytes,
            self.idle_peer_rail_bytes,
            self.active_peer_endpoint_bytes,
        )
    }
}

fn push_line(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}", line.trim_end());
}

fn probe_json(probe: &Probe) -> Value {
    let status = match probe.status {
        Status::Ok => "ok",
        Status::Refused => "refused",
    };
    json!({
        "name": probe.name,
        "status": status,
        "detail": probe.detail,
        "remedy": probe.remedy,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_rail::shm::probe::RailProbe;

    fn info() -> Info {
        Info {
            report: ProbeReport {
                rails: vec![RailProbe { name: "shm", usable: true, detail: "memfd".to_owned() }],
                probes: vec![
                    Probe {
                        name: "memfd",
                        status: Status::Ok,
                        detail: "works".to_owned(),
                        remedy: None,
                    },
                    Probe {
                        name: "direct reads",
                        status: Status::Refused,
                        detail: "forbidden".to_owned(),
                        remedy: Some("sysctl this".to_owned()),
                    },
                ],
            },
            memory: Err("no room".to_owned()),
            network: Network::collect(&sluice_runtime::NetworkOptions::default()),
            network_rails: vec![NetworkRail {
                name: "ofi:verbs".to_owned(),
                usable: false,
                detail: "no device".to_owned(),
            }],
            security: Security::Encrypt,
        }
    }

    #[test]
    fn what_was_refused_is_followed_by_its_remedy() {
        let text = info().to_text();
        let lines: Vec<&str> = text.lines().collect();
        let refused = lines.iter().position(|line| line.contains("refused")).expect("a refusal");
        assert!(lines[refused + 1].ends_with("remedy:  sysctl this"), "{text}");
        assert!(text.contains("no room"));
        assert!(text.contains("  shm        usable: memfd\n  ofi:verbs  not usable: no device\n"));
        assert!(text.contains("  encrypt: Both ends prove who they are; all"), "{text}");
    }

    #[test]
    fn json_says_the_same() {
        let json = info().to_json();
        assert_eq!(json["rails"][0]["name"], "shm");
        assert_eq!(json["rails"][1]["detail"], "no device");
        assert_eq!(json["probes"][1]["status"], "refused");
        assert_eq!(json["probes"][1]["remedy"], "sysctl this");
        assert_eq!(json["memory"]["error"], "no room");
        assert_eq!(json["security"], "encrypt");
        let asks = &json["handshake"]["asks"];
        let preface = asks["auth"]["preface"].as_str().expect("hexadecimal");
        // Magic, version, mode.
        let version = json["handshake"]["version"].as_u64().expect("a number");
        assert!(preface.starts_with(&format!("534c6873{version:02x}02")), "{preface}");
        assert_eq!(preface.len(), 2 * handshake::PREFACE_BYTES);
        assert!(asks["auth"]["body_bytes"].as_u64() > asks["none"]["body_bytes"].as_u64());
    }
}
