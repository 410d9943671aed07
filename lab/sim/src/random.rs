//! Pseudo-random numbers of the simulation.

/// Pseudo-random numbers that depend on a seed alone.
///
/// SplitMix64: a counter with an odd step, and a mixing function (Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub(crate) struct SplitMix64(u64);

impl SplitMix64 {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 to `most`, with nearly equal probability.
    pub(crate) fn up_to(&mut self, most: u64) -> u64 {
        // The high half of the product: sufficiently unbiased, and without a division.
        ((u128::from(self.next()) * (u128::from(most) + 1)) >> 64) as u64
    }
}
