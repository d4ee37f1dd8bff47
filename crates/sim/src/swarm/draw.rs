//! What a seed draws. Each concern has a stream of its own, so that a new draw
//! in one place shifts nothing elsewhere.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Draw(SplitMix64);

impl Draw {
    /// The stream of one concern.
    pub fn stream(seed: u64, concern: u64) -> Draw {
        let mut mixed =
            SplitMix64::seed_from_u64(seed ^ concern.wrapping_mul(0x9E6C_63D0_876A_3F5B));
        Draw(SplitMix64::seed_from_u64(mixed.next_u64()))
    }

    /// Less than `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }

    /// Each bit zero or one.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// From `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}
