//! The random numbers of replays.
//!
//! The order in which systems take turns, and the memory with which they start, follow from a seed.
//!
//! # Invariants
//! The numbers of a seed are the same on every machine.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A small generator of random numbers. Its algorithm, SplitMix64, fixes the numbers of a seed.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

impl Random {
    /// Starts a sequence.
    pub fn new(seed: u64) -> Random {
        Random(SplitMix64::seed_from_u64(seed))
    }

    /// Returns a number below `end`; 0 if there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        // Multiplication instead of a remainder: the bias is negligible below 2^32.
        ((u128::from(self.0.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// Shuffles a slice.
    pub fn shuffle<T>(&mut self, slice: &mut [T]) {
        for last in (1..slice.len()).rev() {
            slice.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_everywhere() {
        let mut random = Random::new(1_234_567);
        // The upper halves of the first outputs of SplitMix64's reference implementation.
        let expected = [6_457_827_717_110_365_317u64, 3_203_168_211_198_807_973];
        for number in expected {
            assert_eq!(random.below(1 << 32), number >> 32);
        }
    }
}
