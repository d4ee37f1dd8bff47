//! How long each size is measured: samples are taken in batches until there are enough.

use crate::progress::Progress;
use crate::stats::Samples;
use anyhow::Result;
use clap::Args;
use sluice_text::parse_seconds;
use std::time::{Duration, Instant};

/// How long each size is measured.
#[derive(Clone, Debug, Args)]
pub struct Effort {
    /// Samples of each size, instead of a time
    #[arg(long, value_name = "N", conflicts_with = "seconds",
          value_parser = clap::value_parser!(u64).range(1..))]
    iterations: Option<u64>,
    /// Time to measure each size for, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds,
          allow_negative_numbers = true, default_value = "0.5")]
    seconds: f64,
    /// Time to warm up before each size, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds,
          allow_negative_numbers = true, default_value = "0.1")]
    warmup: f64,
}

/// A batch lasts about so long: rarely enough to cost nothing, often enough to
/// show progress and to end in time.
const BATCH: Duration = Duration::from_millis(50);
/// Most samples in a batch.
const BATCH_SAMPLES_MAX: u64 = 1 << 20;

impl Effort {
    /// Warms up and takes samples.
    pub fn samples(
        &self,
        progress: &mut Progress,
        mut batch: impl FnMut(u64, &mut Samples) -> Result<()>,
    ) -> Result<Samples> {
        let mut per_sample = self.warm_up(&mut batch)?;
        let mut samples = Samples::new();
        let start = Instant::now();
        let span = Duration::from_secs_f64(self.seconds);
        loop {
            let by_time = (BATCH.as_nanos() / per_sample.as_nanos().max(1)) as u64;
            let left = self.iterations.map_or(u64::MAX, |wanted| wanted - samples.count());
            let count = by_time.clamp(1, BATCH_SAMPLES_MAX).min(left);
            let before = Instant::now();
            batch(count, &mut samples)?;
            per_sample = before.elapsed() / u32::try_from(count).unwrap_or(u32::MAX);
            let done = match self.iterations {
                Some(wanted) => samples.count() as f64 / wanted as f64,
                None => start.elapsed().as_secs_f64() / span.as_secs_f64().max(1e-9),
            };
            if done >= 1.0 {
                return Ok(samples);
            }
            progress.within(done);
        }
    }

    /// Runs for a while without looking, and says how long a sample takes.
    fn warm_up(&self, batch: &mut impl FnMut(u64, &mut Samples) -> Result<()>) -> Result<Duration> {
        let span = Duration::from_secs_f64(self.warmup);
        let start = Instant::now();
        let mut count = 1;
        loop {
            let before = Instant::now();
            batch(count, &mut Samples::new())?;
            let took = before.elapsed();
            if start.elapsed() >= span {
                return Ok(took / u32::try_from(count).unwrap_or(u32::MAX));
            }
            if took < BATCH {
                count = (count * 2).min(BATCH_SAMPLES_MAX);
            }
        }
    }
}
