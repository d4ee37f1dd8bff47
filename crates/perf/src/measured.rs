//! What is measured, and what drives it: latency, bandwidth and rate are the
//! same by messages and by puts and gets.

use crate::buffers::Buffers;
use crate::stats::{Samples, Spread};
use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

/// Which measurement, with what only it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    Latency,
    Bandwidth { window: u64, buffers: Buffers },
    Rate { window: u64 },
}

/// What is measured of latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// Half of a put and the put that answers it
    Put,
    /// The whole of a get, until the bytes are here
    Get,
}

/// Which interface is measured. Both are physical.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NiKind {
    /// Messages find match list entries by their bits
    Matching,
    /// Messages go to the first entry of a list
    Nonmatching,
}

/// What the two processes call, with what only it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    Messages {
        /// Whether the bytes of large messages were read directly.
        direct: bool,
    },
    Portals {
        ni: NiKind,
    },
}

/// What drives the two processes.
pub trait Measured {
    /// Checks every byte of a message each way.
    fn verify(&mut self, size: u64, seed: u64) -> Result<()>;

    /// Takes `count` samples.
    fn batch(
        &mut self,
        test: Test,
        op: Op,
        size: u64,
        count: u64,
        samples: &mut Samples,
    ) -> Result<()>;

    /// Takes `count` samples of the same over a plain TCP connection, of whose writes each
    /// has so many messages.
    fn raw_batch(
        &mut self,
        test: Test,
        size: u64,
        per_write: u64,
        count: u64,
        samples: &mut Samples,
    ) -> Result<()>;
}

impl Test {
    /// Its name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Test::Latency => "latency",
            Test::Bandwidth { .. } => "bandwidth",
            Test::Rate { .. } => "rate",
        }
    }

    /// Messages before each answer.
    pub fn window(self) -> Option<u64> {
        match self {
            Test::Latency => None,
            Test::Bandwidth { window, .. } | Test::Rate { window } => Some(window),
        }
    }

    /// Buffers that messages of this size take in turn.
    pub fn places(self, size: u64) -> u64 {
        match self {
            Test::Bandwidth { window, buffers } => buffers.count(size, window),
            Test::Latency | Test::Rate { .. } => 1,
        }
    }

    /// What the samples say: nanoseconds of half a round trip, or of a whole one of a
    /// get; MiB or messages a second.
    pub fn spread(self, op: Op, samples: &Samples, size: u64) -> Spread {
        match self {
            Test::Latency if op == Op::Get => Spread::of_times(samples, 1.0),
            Test::Latency => Spread::of_times(samples, 2.0),
            Test::Bandwidth { window, .. } => {
                Spread::of_rates(samples, (size * window) as f64 / f64::from(1 << 20))
            }
            Test::Rate { window } => Spread::of_rates(samples, window as f64),
        }
    }
}
