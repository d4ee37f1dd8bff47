//! `sluice why`: which protocol a message takes here, and why no other.
//!
//! It calls the selection that endpoints use (`sluice_proto::selection`), with what the
//! rail was found to do between two processes and the thresholds of this environment.

mod rails;
mod way;

use crate::info::network::addresses_of;
use crate::selection;
use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};
use rails::PeerRails;
use serde_json::{Value, json};
use sluice_proto::selection::{Able, Choice, Facts, First, Protocol, Table, Thresholds};
use sluice_rail::shm::BulkKind;
use sluice_rail::shm::COSTS;
use sluice_rail::shm::probe::{self, ProbeReport};
use sluice_rail::tune::{self, Tuned};
use sluice_runtime::{NetworkOptions, Settings};
use sluice_text::bytes;
use sluice_text::parse_size;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::IpAddr;
use way::Way;

/// Arguments of `sluice why`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --size it prints the whole table: which protocol from which size on.

--peer R is a rank of the job that this command is started in. The size of that job
and its own rank are taken from SLUICE_JOB_SIZE and SLUICE_JOB_RANK, PMI_SIZE and PMI_RANK,
or OMPI_COMM_WORLD_SIZE and OMPI_COMM_WORLD_RANK, and R must be in it. Outside of a job
R is any number. The answer is for a peer on this host, and the same for every such rank:
it is reached through shared memory, or by the network if FI_SLUICE_RAILS leaves shared
memory out. Messages to the process itself go through its own mailbox whatever
FI_SLUICE_RAILS says, or by the rail that matches, if one does (FI_SLUICE_MATCHING=rail).

--peer HOST is the name or an address of another host, or several with commas if each is
of one device. It shows the rails to that host: each device of this one, whether and why
it is used, and which rail eager messages take. No peer is contacted: what is known of the
other host is its addresses, and its processes may know of more.

The answer is for a message that finds credits. A message without credits waits at its
sender, and is announced if it waits too long (docs/selection.md). Transfer costs that
are not known yet are measured and kept, as by `sluice tune`.

Examples:
  sluice why                               the table, for either side first
  sluice why --size 1M                     one size, the sender first
  sluice why --size 1M --first receiver    the receive was posted first
  sluice why --size 64K --looks            the receiver is in the library
  sluice why --peer 1 --size 4096 --json   as JSON
  sluice why --peer node2                  the rails to another host
  sluice why --peer 10.1.0.2,10.2.0.2      the same, by addresses of two of its devices
  FI_SLUICE_BULK=ring sluice why           as if direct access were forbidden")]
pub struct WhyArgs {
    /// A rank of the job, or another host [default: another process on this host]
    #[arg(long, value_name = "R|HOST")]
    peer: Option<String>,
    /// The message's size in bytes: 8, 64K, 1M
    #[arg(long, value_name = "N", value_parser = parse_size, allow_negative_numbers = true)]
    size: Option<u64>,
    /// Who came first [default: sender]
    #[arg(long, value_enum, requires = "size")]
    first: Option<FirstSide>,
    /// The receive accepts any source
    #[arg(long)]
    any_source: bool,
    /// The receiver takes in what it is sent when the message is sent
    #[arg(long)]
    looks: bool,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

impl WhyArgs {
    fn first(&self) -> FirstSide {
        self.first.unwrap_or(FirstSide::Sender)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FirstSide {
    Sender,
    Receiver,
}

impl FirstSide {
    fn name(self) -> &'static str {
        match self {
            FirstSide::Sender => "sender",
            FirstSide::Receiver => "receiver",
        }
    }

    fn came_first(self) -> First {
        match self {
            FirstSide::Sender => First::Sender,
            FirstSide::Receiver => First::Receiver,
        }
    }
}

/// Prints the answer.
pub fn run(args: &WhyArgs) -> Result<()> {
    let settings = Settings::of_environment();
    let lookup = |name: &str| std::env::var(name).ok();
    let peer = Peer::find(args.peer.as_deref(), lookup)?;
    let beyond = match peer.addresses.as_slice() {
        [] if settings.network.rails.shm || peer.own => None,
        [] => Some(PeerRails::here(&settings.network)?),
        addresses => Some(PeerRails::find(addresses, &settings.network)?),
    };
    let rail = match &beyond {
        Some(rails) => Rail::beyond(rails),
        None => Rail::of(&probe::report(&settings.rail.shm_dir), &settings, &peer)?,
    };
    let tuned = tune::load(&COSTS, &settings.tune);
    let matching = Matching::by(&settings.network);
    let rail = if peer.own { rail.of_itself(&matching) } else { rail };
    let answer = Answer {
        args,
        peer,
        rail,
        matching,
        beyond,
        thresholds: selection::thresholds(&settings, &tuned),
        tuned: &tuned,
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        let mut document = answer.to_json();
        let warnings = settings.warnings.iter().chain(&tuned.warnings).chain(&tuned.notices);
        document["warnings"] = warnings.cloned().collect::<Vec<_>>().into();
        serde_json::to_writer_pretty(&mut out, &document).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", answer.to_text())?;
        for warning in settings.warnings.iter().chain(&tuned.warnings).chain(&tuned.notices) {
            eprintln!("sluice: warning: {warning}");
        }
    }
    Ok(())
}

/// Most addresses of another host that are looked at: a process has no more rails.
const ADDRESSES_MAX: usize = 64;

/// Who the message goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Peer {
    rank: Option<u32>,
    /// It is the process itself.
    own: bool,
    /// Its host's, if that is another one.
    addresses: Vec<IpAddr>,
    said: String,
}

impl Peer {
    fn find(given: Option<&str>, lookup: impl Fn(&str) -> Option<String>) -> Result<Peer> {
        let said = "another process on this host".to_owned();
        let other = Peer { rank: None, own: false, addresses: Vec::new(), said };
        let Some(given) = given else { return Ok(other) };
        let Ok(rank) = given.parse::<u32>() else { return Peer::on(given) };
        let number = |name: &str| lookup(name).and_then(|text| text.trim().parse::<u32>().ok());
        let job = ["SLUICE_JOB", "PMI", "OMPI_COMM_WORLD"].into_iter().find_map(|job| {
            Some((number(&format!("{job}_SIZE"))?, number(&format!("{job}_RANK"))?))
        });
        let Some((size, own)) = job else {
            let said = format!(
                "rank {rank} of a job that is not known here, taken for another process on this host"
            );
            return Ok(Peer { rank: Some(rank), said, ..other });
        };
        ensure!(
            rank < size,
            "the job has {size} ranks, so --peer is 0 to {}; {rank} is none of them",
            size.saturating_sub(1)
        );
        let own = rank == own;
        let which = if own { "this process itself" } else { "on this host" };
        let said = format!("rank {rank} of {size}, {which}");
        Ok(Peer { rank: Some(rank), own, said, ..other })
    }

    /// On another host, given by names or addresses.
    fn on(hosts: &str) -> Result<Peer> {
        let mut addresses = Vec::new();
        for host in hosts.split(',').map(str::trim) {
            ensure!(!host.is_empty(), "'{hosts}' is no rank and no host");
            addresses.extend(addresses_of(host)?);
        }
        addresses.truncate(ADDRESSES_MAX);
        ensure!(
            !addresses.iter().any(|address| address.is_loopback()),
            "{hosts} is this host: leave --peer away, or give a rank"
        );
        let words: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
        let said = format!("a process on {hosts} ({})", words.join(", "));
        Ok(Peer { rank: None, own: false, addresses, said })
    }
}

/// The rail that reaches it.
#[derive(Clone, Debug)]
struct Rail {
    name: String,
    able: Able,
    said: String,
    remedy: Option<String>,
}

impl Rail {
    /// Those over the network, which are one to a message.
    fn beyond(rails: &PeerRails) -> Rail {
        let able = Able { reads: true, writes: true, chunk_claims: false };
        Rail { name: rails.name().to_owned(), able, said: rails.said(), remedy: None }
    }

    fn of(report: &ProbeReport, settings: &Settings, peer: &Peer) -> Result<Rail> {
        let found = report.rails.iter().find(|rail| rail.name == selection::RAIL);
        let Some(found) = found.filter(|rail| rail.usable) else {
            bail!("no rail reaches it: shared memory cannot be used here; `sluice info` says why")
        };
        let allowed = peer.own || report.reads_work();
        let is_direct = settings.rail.bulk != BulkKind::Ring;
        let direct = is_direct && allowed;
        let (moves, remedy) = if direct {
            ("memory is read and written directly", None)
        } else if !is_direct {
            let remedy = "FI_SLUICE_BULK=auto".to_owned();
            ("FI_SLUICE_BULK=ring forbids direct access", Some(remedy))
        } else {
            ("the system forbids direct access", report.reads_remedy().map(str::to_owned))
        };
        let mailboxes = found.detail.split(',').next().unwrap_or_default();
        Ok(Rail {
            name: selection::RAIL.to_owned(),
            able: Able { reads: direct, writes: direct, chunk_claims: true },
            said: format!("{mailboxes}, {moves}"),
            remedy,
        })
    }
}

impl Rail {
    /// How messages of a process to itself go. A rail that matches has them all, so that there
    /// is one list of them; the bytes of long ones are copied in either case.
    fn of_itself(self, matching: &Matching) -> Rail {
        let said = match &matching.rail {
            Some(provider) => format!(
                "short messages to itself go by {provider}, which matches them with all others; \
                 those of long ones are copied from memory to memory, without a network"
            ),
            None => "messages to itself go through its own mailbox, on no network and past every \
                     device, and long ones are copied from memory to memory"
                .to_owned(),
        };
        Rail { said, ..self }
    }
}

/// Who finds the receive that a message meets. A rail may, for all messages of a process or
/// for none (decision 15), so it does not depend on the peer.
#[derive(Clone, Debug)]
struct Matching {
    /// As scripts read it.
    who: String,
    why: String,
    /// The rail that does, if one does.
    rail: Option<String>,
}

impl Matching {
    /// By what is set. Whether the provider matches is seen when an endpoint opens.
    fn by(options: &NetworkOptions) -> Matching {
        let here = |why| Matching { who: "this process".to_owned(), why, rail: None };
        match options.matching_rail() {
            Ok(None) => here("FI_SLUICE_MATCHING is process".to_owned()),
            Ok(Some(provider)) => {
                let who = format!("ofi:{provider}");
                let why = "FI_SLUICE_MATCHING is rail; if the provider matches tags".to_owned();
                Matching { rail: Some(who.clone()), who, why }
            }
            Err(why) => here(why.to_string()),
        }
    }

    fn to_json(&self) -> Value {
        json!({ "who": self.who, "detail": self.why })
    }
}

/// Everything that is told.
struct Answer<'a> {
    args: &'a WhyArgs,
    peer: Peer,
    rail: Rail,
    matching: Matching,
    /// If the network reaches the peer.
    beyond: Option<PeerRails>,
    thresholds: Thresholds,
    tuned: &'a Tuned,
}

impl Answer<'_> {
    fn facts(&self, len: u64, side: FirstSide) -> Facts {
        Facts {
            len,
            recv_len: len,
            first: side.came_first(),
            source_known: !self.args.any_source,
            fits: true,
            looks: self.args.looks,
            able: self.rail.able,
        }
    }

    /// By which protocols are chosen for this peer.
    fn table(&self) -> &Table {
        if self.beyond.is_some() { &self.thresholds.network } else { &self.thresholds.table }
    }

    fn choice(&self) -> Option<(u64, Choice)> {
        let len = self.args.size?;
        Some((len, self.table().choose(&self.facts(len, self.args.first()))))
    }

    fn way(&self, protocol: Protocol, len: u64) -> Way {
        Way::of(protocol, len, self.beyond.is_some())
    }

    fn ranges(&self, side: FirstSide) -> Vec<(u64, Protocol)> {
        self.table().ranges(&self.facts(0, side))
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        let line = |text: &mut String, name: &str, value: &str| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:<10}{value}");
        };
        line(&mut text, "peer", &self.peer.said);
        line(&mut text, "rail", &format!("{}: {}", self.rail.name, self.rail.said));
        line(&mut text, "matching", &format!("{}: {}", self.matching.who, self.matching.why));
        if let Some(remedy) = &self.rail.remedy {
            line(&mut text, "", &format!("remedy: {remedy}"));
        }
        if let Some(rails) = &self.beyond {
            text.push_str(&rails.to_text());
        }
        match self.choice() {
            Some((len, choice)) => {
                let first = self.args.first().name();
                line(&mut text, "message", &format!("{}, the {first} first", bytes(len)));
                let Choice { protocol, rejected } = choice;
                let chosen = format!("{protocol}: moved by {}", protocol.moves());
                line(&mut text, "protocol", &chosen);
                line(&mut text, "way", &self.way(protocol, len).said);
                text.push_str("\nrejected\n");
                for (other, reason) in rejected {
                    let _ = writeln!(text, "  {:<13}{reason}", other.name());
                }
            }
            None => {
                for side in [FirstSide::Sender, FirstSide::Receiver] {
                    let _ = writeln!(text, "\nthe {} first", side.name());
                    for (from, protocol) in self.ranges(side) {
                        let from = bytes(from);
                        let _ = writeln!(text, "  from {from:<10} {protocol}");
                    }
                }
            }
        }
        let _ = write!(
            text,
            "\n{}\ncosts: {}\n",
            selection::thresholds_text(&self.thresholds),
            selection::origin_text(self.tuned)
        );
        text
    }

    fn to_json(&self) -> Value {
        let able = self.rail.able;
        let mut document = json!({
            "peer": { "rank": self.peer.rank, "self": self.peer.own, "detail": self.peer.said },
            "rail": self.rail.name,
            "matching": self.matching.to_json(),
            "rails": [{
                "name": selection::RAIL,
                "memory": self.thresholds.memory.name(),
                "chosen": true,
                "reads": able.reads,
                "writes": able.writes,
                "chunk_claims": able.chunk_claims,
                "detail": self.rail.said,
                "remedy": self.rail.remedy,
            }],
            "thresholds": selection::thresholds_json(&self.thresholds),
            "costs": {
                "origin": selection::origin_name(self.tuned.origin),
                "file": self.tuned.file.as_ref().map(|file| file.display().to_string()),
            },
        });
        if let Some(rails) = &self.beyond {
            document["rails"] = rails.to_json();
            if !self.peer.addresses.is_empty() {
                document["peer"]["addresses"] =
                    self.peer.addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().into();
            }
        }
        if let Some((len, choice)) = self.choice() {
            let rejected = choice.rejected.iter().map(|(protocol, reason)| {
                json!({ "protocol": protocol.name(), "reason": reason.to_string() })
            });
            document["size"] = len.into();
            document["first"] = self.args.first().name().into();
            document["protocol"] = choice.protocol.name().into();
            document["way"] = self.way(choice.protocol, len).to_json();
            document["rejected"] = rejected.collect();
        } else {
            let ranges = |side: FirstSide| {
                let rows = self.ranges(side).into_iter();
                let row = move |(from, protocol): (u64, Protocol)| json!({ "first": side.name(), "from": from, "protocol": protocol.name() });
                rows.map(row).collect::<Vec<_>>()
            };
            let table = [ranges(FirstSide::Sender), ranges(FirstSide::Receiver)].concat();
            document["table"] = table.into();
        }
        document
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(rank: u32, environment: &[(&str, &str)]) -> Result<Peer> {
        Peer::find(Some(&rank.to_string()), |name| {
            let found = environment.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_rank_is_one_of_the_job_if_there_is_a_job() {
        for job in ["SLUICE_JOB", "PMI", "OMPI_COMM_WORLD"] {
            let (size, rank) = (format!("{job}_SIZE"), format!("{job}_RANK"));
            let job = [(size.as_str(), "3"), (rank.as_str(), "2")];
            let found = peer(1, &job).expect("a rank");
            assert!(!found.own && found.said.contains("rank 1 of 3"), "{found:?}");
            assert!(peer(2, &job).expect("a rank").own);
            let error = peer(3, &job).expect_err("no rank").to_string();
            assert!(error.contains("0 to 2"), "{error}");
        }
    }

    #[test]
    fn what_is_no_rank_is_a_host() {
        let on = |given: &str| Peer::find(Some(given), |_| None);
        let found = on("192.0.2.1,2001:db8::1").expect("addresses");
        assert_eq!(found.addresses.len(), 2);
        assert!(found.said.contains("192.0.2.1, 2001:db8::1)"), "{}", found.said);
        for (wrong, said) in
            [("127.0.0.1", "this host"), ("192.0.2.1,", "no host"), ("", "no host")]
        {
            let error = on(wrong).expect_err(wrong).to_string();
            assert!(error.contains(said), "{wrong}: {error}");
        }
    }

    #[test]
    fn without_a_job_a_rank_is_not_pretended_to_be_known() {
        let found = peer(9, &[("OMPI_COMM_WORLD_SIZE", "x")]).expect("anything goes");
        assert!(found.said.contains("not known here"), "{found:?}");
    }
}
