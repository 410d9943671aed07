//! Distributions of sizes that are not powers of two.
//!
//! A buddy system that rounds a request up to the next block wastes the difference. Traces of a kernel's page
//! allocator do not show this waste, because kernels request powers of two. Each mix is a list of weights, so that
//! the cost of rounding can be calculated as well as measured.
//!
//! # Invariants
//! Sizes are 1 to [`LARGEST`] frames; the same seed gives the same sizes.

use everybuddy::Order;

use crate::random::Random;

/// The largest size, in frames: 2 MiB.
pub const LARGEST: u32 = 512;

/// The mean of the geometric mix, in frames, before sizes above [`LARGEST`] are left out.
const MEAN: f64 = 24.0;
/// The largest distance of a size from a power of two in the skewed mix, in frames.
const FEW: u32 = 3;

/// A mix of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// All sizes are equally likely.
    Uniform,
    /// Small sizes are common and large sizes are rare: a geometric distribution with a mean of 24 frames.
    Geometric,
    /// Approximately powers of two. Order k is half as likely as order k − 1, and a size differs from 2^k by up to
    /// three frames, at most a quarter of the block. Drivers that put a header before a buffer make such requests.
    Skewed,
}

impl Mix {
    /// All mixes, with their names.
    pub const ALL: [(&'static str, Mix); 3] = [
        ("uniform", Mix::Uniform),
        ("geometric", Mix::Geometric),
        ("skewed", Mix::Skewed),
    ];

    /// Returns the weight of a size (its probability up to a common factor); 0 for sizes that do not occur.
    pub fn weight(self, frames: u32) -> f64 {
        if !(1..=LARGEST).contains(&frames) {
            return 0.0;
        }
        match self {
            Mix::Uniform => 1.0,
            Mix::Geometric => (1.0 - 1.0 / MEAN).powi(frames as i32 - 1),
            Mix::Skewed => {
                let near = |order: Order| {
                    let width = FEW.min(order.frames() / 4);
                    let is_near = frames.abs_diff(order.frames()) <= width;
                    let share = 0.5f64.powi(i32::from(order.get())) / f64::from(2 * width + 1);
                    if is_near { share } else { 0.0 }
                };
                Order::up_to(Order::covering(LARGEST).unwrap_or(Order::ZERO))
                    .map(near)
                    .sum()
            }
        }
    }

    /// Returns the ratio of the frames in the covering blocks to the requested frames. This is the internal
    /// fragmentation of a system that rounds up, if large runs live as long as small ones.
    pub fn rounded_up(self) -> f64 {
        let block = |frames| Order::covering(frames).map_or(0, Order::frames);
        self.mean_of(block) / self.mean()
    }

    /// Returns the mean size, in frames.
    pub fn mean(self) -> f64 {
        self.mean_of(|frames| frames)
    }

    /// Returns the mean of a number that depends on the size.
    pub fn mean_of(self, of: impl Fn(u32) -> u32) -> f64 {
        let (mut sum, mut all) = (0.0, 0.0);
        for frames in 1..=LARGEST {
            let weight = self.weight(frames);
            sum += weight * f64::from(of(frames));
            all += weight;
        }
        sum / all
    }
}

/// Random sizes of a mix, and the other random choices of its user. The iterator never ends.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Cumulative weights of the sizes, starting at one frame.
    sums: Vec<f64>,
    random: Random,
}

impl Sizes {
    /// Starts a stream of sizes.
    pub fn new(mix: Mix, seed: u64) -> Sizes {
        let mut sum = 0.0;
        let sums = (1..=LARGEST).map(|frames| {
            sum += mix.weight(frames);
            sum
        });
        Sizes {
            sums: sums.collect(),
            random: Random::new(seed, 0),
        }
    }

    /// Returns a number below `limit`, from the same stream of random choices.
    pub fn below(&mut self, limit: u32) -> u32 {
        self.random.below(limit)
    }
}

impl Iterator for Sizes {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let all = self.sums.last().copied().unwrap_or(0.0);
        let drawn = self.random.share() * all;
        let at = self.sums.partition_point(|sum| *sum < drawn);
        Some((at as u32 + 1).min(LARGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rounding_up_costs_under_the_uniform_mix() {
        // The blocks: 1, and 2^(k-1) sizes with a block of 2^k each. The sizes: their sum.
        let blocks = 1 + (1..=9).map(|order| 1u32 << (2 * order - 1)).sum::<u32>();
        let sizes = LARGEST * (LARGEST + 1) / 2;
        let expected = f64::from(blocks) / f64::from(sizes);
        assert!((Mix::Uniform.rounded_up() - expected).abs() < 1e-12);
        assert!((expected - 1.3307).abs() < 1e-4);
    }

    #[test]
    fn sizes_are_drawn_by_their_weights() {
        for (name, mix) in Mix::ALL {
            let expected = mix.mean();
            let drawn: Vec<u32> = Sizes::new(mix, 7).take(200_000).collect();
            let mean = drawn.iter().map(|size| f64::from(*size)).sum::<f64>() / drawn.len() as f64;
            assert!(
                (mean / expected - 1.0).abs() < 0.02,
                "{name}: {mean}, {expected}"
            );
            assert!(drawn.iter().all(|size| mix.weight(*size) > 0.0), "{name}");
            assert_eq!(drawn, Sizes::new(mix, 7).take(200_000).collect::<Vec<_>>());
        }
    }

    #[test]
    fn no_mix_is_of_powers_of_two() {
        for (name, mix) in Mix::ALL {
            assert!(mix.rounded_up() > 1.1, "{name}: {}", mix.rounded_up());
        }
    }
}
