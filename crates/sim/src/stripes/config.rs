//! What one message over several rails is made of, as plain data.

use crate::error::ConfigError;
use serde::{Deserialize, Serialize};
use sluice_multirail::{RailId, RailSpec, Striping};

/// Most rate of a rail: a piece then takes some nanoseconds still.
const GBIT_PER_S_MAX: u32 = 10_000;
/// Most of each time: nobody loses patience with a rail by then.
const TIME_NS_MAX: u64 = 1_000_000;
/// The same of a message that is sent without being announced.
const EAGER_BYTES_MAX: u64 = 1 << 20;
/// Most bytes of a message.
const BYTES_MAX: u64 = 1 << 40;
/// Most fragments of a message: all of them are under way at once.
const FRAGMENTS_MAX: u64 = 256;

/// How a message is divided among the rails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// As it ships: the receiver asks for chunks, each on the rail that finishes it first.
    #[default]
    Pull,
    /// As in the paper: fragments of one length, in turn over the rails.
    Fragments,
}

/// Two processes that exchange messages of one length over their rails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The rate of each rail, in each direction.
    pub gbit_per_s: Vec<u32>,
    /// From one process to the other.
    #[serde(default = "latency_ns")]
    pub latency_ns: u64,
    /// From what asks for a chunk until its first byte leaves, if nothing else has to.
    #[serde(default = "chunk_ns")]
    pub chunk_ns: u64,
    /// What a side does for a message, before anything leaves or after all has come.
    #[serde(default = "message_ns")]
    pub message_ns: u64,
    /// Longest message that is sent without being announced.
    #[serde(default = "eager_bytes_max")]
    pub eager_bytes_max: u64,
    /// Of a message.
    pub bytes: u64,
    /// How it is divided among the rails.
    #[serde(default)]
    pub cut: Cut,
    /// Bytes of a fragment.
    #[serde(default = "fragment_bytes")]
    pub fragment_bytes: u64,
    /// Messages before those that count: by them the rails' paces become known.
    #[serde(default = "one")]
    pub warm_up: u32,
    /// Messages that count.
    #[serde(default = "one")]
    pub repetitions: u32,
}

fn latency_ns() -> u64 {
    1_000
}

fn chunk_ns() -> u64 {
    200
}

fn message_ns() -> u64 {
    300
}

fn eager_bytes_max() -> u64 {
    8 << 10
}

fn fragment_bytes() -> u64 {
    64 << 20
}

fn one() -> u32 {
    1
}

impl Config {
    /// Checks what the types cannot.
    ///
    /// # Errors
    /// The key at fault.
    pub fn check(&self) -> Result<(), ConfigError> {
        let most = RailId::COUNT_MAX;
        if !(1..=most).contains(&self.gbit_per_s.len()) {
            let reason = format!("one rate for each rail, of which there are 1 to {most}");
            return Err(ConfigError::new("gbit_per_s", reason));
        }
        if self.gbit_per_s.iter().any(|rate| !(1..=GBIT_PER_S_MAX).contains(rate)) {
            let reason = format!("a rate is 1 to {GBIT_PER_S_MAX}");
            return Err(ConfigError::new("gbit_per_s", reason));
        }
        let times = [
            ("latency_ns", self.latency_ns),
            ("chunk_ns", self.chunk_ns),
            ("message_ns", self.message_ns),
        ];
        if let Some((key, _)) = times.iter().find(|(_, ns)| *ns > TIME_NS_MAX) {
            return Err(ConfigError::new(*key, format!("at most {TIME_NS_MAX}")));
        }
        if self.eager_bytes_max > EAGER_BYTES_MAX {
            return Err(ConfigError::new("eager_bytes_max", format!("at most {EAGER_BYTES_MAX}")));
        }
        if !(1..=BYTES_MAX).contains(&self.bytes) {
            return Err(ConfigError::new("bytes", format!("1 to {BYTES_MAX}")));
        }
        if self.fragment_bytes == 0
            || self.cut == Cut::Fragments
                && self.bytes.div_ceil(self.fragment_bytes) > FRAGMENTS_MAX
        {
            let reason = format!("so long that a message is 1 to {FRAGMENTS_MAX} fragments");
            return Err(ConfigError::new("fragment_bytes", reason));
        }
        if self.repetitions == 0 {
            return Err(ConfigError::new("repetitions", "at least 1"));
        }
        Ok(())
    }

    /// Of each rail, what its device claims.
    pub(super) fn specs(&self) -> Vec<RailSpec> {
        let spec = |gbit: &u32| RailSpec {
            bytes_per_s: u64::from(*gbit) * 125_000_000,
            latency_ns: 2 * self.latency_ns,
        };
        self.gbit_per_s.iter().map(spec).collect()
    }

    pub(super) fn striping(&self) -> Striping {
        match self.cut {
            Cut::Pull => Striping::default(),
            Cut::Fragments => Striping::Fragments { bytes: self.fragment_bytes },
        }
    }
}
