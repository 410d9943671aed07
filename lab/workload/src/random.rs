//! Random choices.
//!
//! All workloads make random choices with the same generator, which never changes.
//!
//! # Invariants
//! The choices depend on the seed and the stream alone.

use rand_xoshiro::Xoshiro256StarStar;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A generator of random choices.
#[derive(Clone, Debug)]
pub(crate) struct Random(Xoshiro256StarStar);

impl Random {
    /// Starts a stream of choices; the streams of one seed are independent.
    pub(crate) fn new(seed: u64, stream: u16) -> Self {
        // Seeding mixes all bits, so consecutive seeds work as well as any.
        let seed = seed.wrapping_add(u64::from(stream) << 48);
        Self(Xoshiro256StarStar::seed_from_u64(seed))
    }

    /// Returns a number below `limit`, by multiplication: no division in the loop.
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        ((u64::from(self.0.next_u32()) * u64::from(limit)) >> 32) as u32
    }

    /// Returns a number strictly between 0 and 1, with 53 random bits.
    pub(crate) fn share(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Shuffles a slice.
    pub(crate) fn shuffle<T>(&mut self, slice: &mut [T]) {
        for last in (1..slice.len()).rev() {
            let other = self.below(last as u32 + 1);
            slice.swap(last, other as usize);
        }
    }
}
