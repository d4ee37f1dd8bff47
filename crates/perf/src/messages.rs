//! Latency, bandwidth and rate by messages, as an MPI sees them through libfabric.

use crate::measured::{Measured, Op, Test};
use crate::node::Node;
use crate::stats::Samples;
use crate::{latency, stream, verify};
use anyhow::Result;

impl Measured for Node {
    fn verify(&mut self, size: u64, seed: u64) -> Result<()> {
        verify::first(self, size, seed)
    }

    fn batch(
        &mut self,
        test: Test,
        _: Op,
        size: u64,
        count: u64,
        samples: &mut Samples,
    ) -> Result<()> {
        match test {
            Test::Latency => latency::first(self, size, count, samples),
            Test::Bandwidth { window } | Test::Rate { window } => {
                stream::first(self, size, window, count, samples)
            }
        }
    }
}
