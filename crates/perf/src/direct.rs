//! The rail's direct reads without any protocol: the limit of what large
//! messages can reach.

use crate::node::Node;
use crate::stats::Samples;
use crate::step::Step;
use anyhow::Result;
use std::time::{Duration, Instant};

const SIZES: [u64; 3] = [64 << 10, 1 << 20, 4 << 20];
/// Bytes read at each size.
const TOTAL: u64 = 256 << 20;
/// Longest time for that, over a slow network, and least reads.
const SPAN_MAX: Duration = Duration::from_millis(500);
const READS_MIN: u64 = 3;

/// Bytes in a read, and MiB/s; nothing where the system does not allow
/// direct reads.
pub fn measure(node: &mut Node) -> Result<Vec<(u64, f64)>> {
    if !node.reads_directly() {
        return Ok(Vec::new());
    }
    let mut rates = Vec::with_capacity(SIZES.len());
    for size in SIZES {
        node.begin(&Step::Reserve { size })?;
        node.reserve(size);
        let from = node.ask(&Step::Expose)?;
        let mut samples = Samples::new();
        let start = Instant::now();
        for read in 0..(TOTAL / size).min(512) {
            if read >= READS_MIN && start.elapsed() > SPAN_MAX {
                break;
            }
            let before = Instant::now();
            if !node.read_directly(from, size)? {
                return Ok(rates);
            }
            samples.record(before.elapsed().as_nanos() as u64);
        }
        let mib = size as f64 / f64::from(1 << 20);
        rates.push((size, mib / (samples.percentile_ns(50.0).max(1.0) / 1e9)));
    }
    Ok(rates)
}
