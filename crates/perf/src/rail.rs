//! The rail of a measurement: its options on the command line, and contexts for them.

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use sluice_link::RemoteMemory;
use sluice_proto::{Config, Endpoint};
use sluice_rail::{Address, World};
use sluice_runtime::{Choice, Context, RailOptions, Settings};
use sluice_wire::PeerId;

/// A rail that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RailKind {
    /// Shared memory of one machine.
    Shm,
}

impl RailKind {
    /// Its name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            RailKind::Shm => "shm",
        }
    }
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
pub fn open_for_two(options: RailOptions) -> Result<Context<Endpoint>> {
    open(RailOptions { peers_max: Some(2), ..options })
}

/// An endpoint with a mailbox as libfabric programs have it by default.
///
/// # Errors
/// As [`open_for_two`].
pub fn open_default() -> Result<Context<Endpoint>> {
    open(RailOptions::default())
}

fn open(options: RailOptions) -> Result<Context<Endpoint>> {
    // Figures do not depend on the directory, and where the default one cannot be used
    // nothing could be measured.
    let shm_dir = Settings::of_environment().rail.shm_dir;
    let config = RailOptions { shm_dir, ..options }.config(0, Endpoint::data_slots_within);
    let endpoint = |layout| Endpoint::new(Config::default(), layout);
    let world = World::open(config).context("cannot open the shared-memory rail")?;
    Ok(Context::new(world, endpoint))
}

/// The address of this process, to be given to [`meet`] of another one.
pub fn address(context: &Context<Endpoint>) -> Vec<u8> {
    context.world().address().to_bytes().to_vec()
}

/// Takes the other process's address.
///
/// # Errors
/// What is wrong with it.
pub fn meet(context: &mut Context<Endpoint>, address: &[u8]) -> Result<PeerId> {
    let address = Address::from_bytes(address).context("the other process's address")?;
    context.world_mut().peer(&address).context("the other process's address")
}

/// Whether large messages from `peer` are read directly from its memory.
pub fn reads_directly(context: &Context<Endpoint>, peer: PeerId) -> bool {
    context.world().caps(peer).read
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;
    use clap::Command;
    use sluice_rail::shm::{BulkKind, CreditKind};

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
