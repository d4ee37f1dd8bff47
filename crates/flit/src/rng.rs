//! Random numbers, in streams that do not disturb each other.
//!
//! Each node and each router has a stream of its own for each purpose. So neither the
//! number of threads nor another draw elsewhere changes its numbers.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

/// What a stream of random numbers is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Stream {
    /// Which nodes are slow.
    Slow = 1,
    /// Who is whose partner, which nodes are hot.
    Pattern = 2,
    /// When a node makes messages, and to whom.
    Source = 3,
    /// Choices of a router: ways, marks.
    Router = 4,
    /// Choices made where a packet enters the network.
    Entry = 5,
}

/// A stream of random numbers (SplitMix64: eight bytes of state).
#[derive(Clone, Debug)]
pub struct Rng(SplitMix64);

impl Rng {
    /// The stream of one owner (a node or router; 0 if there is one only).
    pub fn new(seed: u64, stream: Stream, owner: u64) -> Rng {
        // Three rounds of the generator itself keep the streams apart.
        let mut mixed = seed;
        for part in [stream as u64, owner] {
            let mut round =
                SplitMix64::seed_from_u64(mixed ^ part.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            mixed = round.next_u64();
        }
        Rng(SplitMix64::seed_from_u64(mixed))
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `count`, which is not 0 (bias below 2^-32).
    #[inline]
    pub fn below(&mut self, count: u32) -> u32 {
        debug_assert!(count > 0);
        ((u128::from(self.bits()) * u128::from(count)) >> 64) as u32
    }

    /// A number from 0 up to but not including 1.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Puts a slice in random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u32 + 1) as usize;
            items.swap(last, other);
        }
    }
}
