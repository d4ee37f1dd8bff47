//! Latency, bandwidth and rate by messages, as an MPI sees them through libfabric; and
//! beside them over a plain connection.

use crate::buffers::Places;
use crate::measured::{Measured, Op, Test};
use crate::node::Node;
use crate::raw::{Raw, RawStream};
use crate::stats::Samples;
use crate::step::Step;
use crate::{latency, stream, verify};
use anyhow::{Context, Result};

/// What sends messages, and the plain connection beside it, if that is wanted.
#[derive(Debug)]
pub struct Messages {
    pub node: Node,
    pub raw: Option<Raw>,
    pub test: Test,
    /// Messages of streams so far, which have taken their places in turn.
    pub streamed: u64,
}

impl Messages {
    fn places(&self, size: u64) -> Places {
        Places::new(self.test.places(size), self.streamed)
    }
}

impl Measured for Messages {
    fn verify(&mut self, size: u64, seed: u64) -> Result<()> {
        let at = self.places(size).at(size);
        verify::first_at(&mut self.node, size, seed, at)
    }

    fn batch(
        &mut self,
        test: Test,
        _: Op,
        size: u64,
        count: u64,
        samples: &mut Samples,
    ) -> Result<()> {
        let places = self.places(size);
        let node = &mut self.node;
        match test {
            Test::Latency => latency::first(node, size, count, samples),
            Test::Bandwidth { window, .. } | Test::Rate { window } => {
                self.streamed += window * count;
                stream::first(node, size, window, count, places, samples)
            }
        }
    }

    fn raw_batch(
        &mut self,
        test: Test,
        size: u64,
        per_write: u64,
        count: u64,
        samples: &mut Samples,
    ) -> Result<()> {
        let raw = self.raw.as_mut().context("no plain connection")?;
        match test {
            Test::Latency => {
                self.node.begin(&Step::RawPingPong { size, count })?;
                raw.ping(size, count, samples)
            }
            Test::Bandwidth { window, .. } | Test::Rate { window } => {
                self.node.begin(&Step::RawStream { window_bytes: size * window, count })?;
                raw.pour(RawStream { size, window, per_write }, count, samples)
            }
        }
    }
}
