//! What a stream says of bytes.

use crate::stats::{Samples, Spread};

/// MiB per second, of windows of `window` messages of `size` bytes.
pub fn mib_per_s(samples: &Samples, size: u64, window: u64) -> Spread {
    Spread::of_rates(samples, (size * window) as f64 / f64::from(1 << 20))
}
