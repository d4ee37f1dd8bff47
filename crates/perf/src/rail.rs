//! The rail of a measurement: its options on the command line, and contexts for them.

use crate::hosts::Hosts;
use crate::read::Reader;
use anyhow::{Context as _, Result, ensure};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use sluice_link::{Machine, RemoteMemory};
use sluice_proto::Endpoint;
use sluice_rail::Address;
use sluice_rail::net::Striping;
use sluice_rail::shm::Config;
use sluice_runtime::settings::Matching;
use sluice_runtime::{Choice, Context, NetworkOptions, RailOptions, Rails, Settings};
use sluice_wire::PeerId;

/// A rail that can be measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RailKind {
    /// Shared memory of one machine
    #[default]
    Shm,
    /// TCP over the network devices of FI_SLUICE_DEVICES
    Tcp,
}

impl RailKind {
    /// Its name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            RailKind::Shm => "shm",
            RailKind::Tcp => "tcp",
        }
    }
}

/// Which rail, and which hosts it joins, as given on the command line.
#[derive(Clone, Debug, Args)]
pub struct RailArgs {
    /// The rail to measure [default: shm; tcp in a lab]
    #[arg(long, value_enum)]
    rail: Option<RailKind>,
    #[command(flatten)]
    pub hosts: Hosts,
}

impl RailArgs {
    /// The rail. Hosts of a lab have one kind between them.
    pub fn kind(&self) -> RailKind {
        let implied = if self.hosts.is_in_lab() { RailKind::Tcp } else { RailKind::Shm };
        self.rail.unwrap_or(implied)
    }

    /// An error for two hosts without a network.
    pub fn check(&self) -> Result<()> {
        let reaches = self.kind() == RailKind::Tcp || !self.hosts.is_distant();
        ensure!(reaches, "other hosts go with --rail tcp: shared memory does not reach them");
        Ok(())
    }
}

/// What a process of a measurement opens.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    /// The rail.
    pub kind: RailKind,
    /// The mailbox.
    pub mailbox: RailOptions,
    /// A thread may sleep until something comes.
    pub sleeps: bool,
    /// Reads over several devices are cut into fragments of so many bytes, as in the
    /// paper, if that is given.
    pub fragment_bytes: Option<u64>,
}

/// One of the words of a choice, on the command line.
pub fn choice<C: Choice + Send + Sync>() -> impl TypedValueParser<Value = C> {
    let words = C::ALL.iter().map(|(_, word, meaning)| PossibleValue::new(*word).help(*meaning));
    PossibleValuesParser::new(words).try_map(|word| C::parse(&word).context("a word of these"))
}

/// An endpoint whose mailbox is for two senders: the other process and this one.
///
/// # Errors
/// What keeps the rail from opening.
pub fn open_for_two(opening: &Opening) -> Result<Context<Reader>> {
    open_for(opening, 2)
}

/// An endpoint whose mailbox is for so many senders.
///
/// # Errors
/// As [`open_for_two`].
pub fn open_for(opening: &Opening, senders: u16) -> Result<Context<Reader>> {
    let mailbox = RailOptions { peers_max: Some(senders), ..opening.mailbox.clone() };
    open(&Opening { mailbox, ..opening.clone() }, Reader::new)
}

/// An endpoint with a mailbox as libfabric programs have it by default.
///
/// # Errors
/// As [`open_for_two`].
pub fn open_default() -> Result<Context<Endpoint>> {
    open(&Opening::default(), |endpoint| endpoint)
}

fn open<M: Machine>(opening: &Opening, machine: impl FnOnce(Endpoint) -> M) -> Result<Context<M>> {
    // Figures do not depend on the directory, and where the default one cannot be used
    // nothing could be measured. The network is what the environment says it is.
    let settings = Settings::of_environment();
    let mailbox = RailOptions {
        shm_dir: settings.rail.shm_dir,
        observed: settings.rail.observed,
        ..opening.mailbox.clone()
    };
    let config = mailbox.config(0, Endpoint::data_slots_within);
    let config = Config { sleeps: opening.sleeps, ..config };
    let (rails, striping) = match opening.kind {
        RailKind::Shm => (Rails::SHM, Striping::default()),
        RailKind::Tcp => (Rails::TCP, striping(opening.fragment_bytes)),
    };
    let matching = Matching::default();
    let network = NetworkOptions { rails, striping, matching, ..settings.network };
    let failed = || format!("cannot open the rail {}", opening.kind.name());
    let world = network.open(config).with_context(failed)?;
    Ok(Context::new(world, |layout| machine(Endpoint::new(Default::default(), layout))))
}

fn striping(fragment_bytes: Option<u64>) -> Striping {
    fragment_bytes.map_or_else(Striping::default, |bytes| Striping::Fragments { bytes })
}

/// The address of this process, to be given to [`meet`] of another one.
pub fn address<M: Machine>(context: &Context<M>) -> Vec<u8> {
    context.world().address().to_bytes().to_vec()
}

/// Takes the other process's address.
///
/// # Errors
/// What is wrong with it.
pub fn meet<M: Machine>(context: &mut Context<M>, address: &[u8]) -> Result<PeerId> {
    let address = Address::from_bytes(address).context("the other process's address")?;
    context.world_mut().peer(&address).context("the other process's address")
}

/// Whether large messages from `peer` are read directly from its memory.
pub fn reads_directly<M: Machine>(context: &Context<M>, peer: PeerId) -> bool {
    context.world().caps(peer).read
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;
    use clap::Command;
    use sluice_rail::shm::{BulkKind, CreditKind};

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        rail: RailArgs,
    }

    #[test]
    fn a_lab_is_reached_over_tcp() {
        let parse = |words: &[&str]| {
            let line = ["perf"].iter().chain(words);
            <Line as clap::Parser>::try_parse_from(line).expect("options").rail
        };
        for (words, kind, is_right) in [
            (&[][..], RailKind::Shm, true),
            (&["--rail", "tcp"], RailKind::Tcp, true),
            (&["--lab-rails", "10"], RailKind::Tcp, true),
            (&["--lab", "mine"], RailKind::Tcp, true),
            (&["--lab-rails", "10", "--launched"], RailKind::Tcp, true),
            (&["--rail", "shm", "--lab-rails", "10"], RailKind::Shm, false),
            (&["--other", "ssh node2"], RailKind::Shm, false),
        ] {
            let rail = parse(words);
            assert_eq!((rail.kind(), rail.check().is_ok()), (kind, is_right), "{words:?}");
        }
    }

    fn each_word_is_taken<C: Choice + Send + Sync + std::fmt::Debug>() {
        let parse = |word: &str| {
            let command = Command::new("perf").arg(Arg::new("it").value_parser(choice::<C>()));
            let matches = command.try_get_matches_from(["perf", word]);
            matches.map(|matches| *matches.get_one::<C>("it").expect("it was given"))
        };
        for (value, word, _) in C::ALL {
            assert_eq!(parse(word).expect("a word"), *value);
        }
        let refused = parse("pigeon").expect_err("no word").to_string();
        assert!(C::ALL.iter().all(|(_, word, _)| refused.contains(word)), "{refused}");
    }

    #[test]
    fn options_take_the_words_of_the_settings() {
        each_word_is_taken::<BulkKind>();
        each_word_is_taken::<CreditKind>();
    }
}
