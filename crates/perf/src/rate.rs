//! What a stream says of messages.

use crate::stats::{Samples, Spread};

/// Messages per second, of windows of `window` messages.
pub fn msgs_per_s(samples: &Samples, window: u64) -> Spread {
    Spread::of_rates(samples, window as f64)
}
