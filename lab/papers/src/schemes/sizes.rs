//! The sizes of a buddy system, and the pairs into which its blocks are split.
//!
//! All systems of this crate differ in this table only.
//!
//! # Invariants
//! 1. Sizes ascend, and the least is one unit.
//! 2. The two parts of a split add up to the block, and the left part is not smaller than the right one.

use std::fmt;

/// The index of a size in the table of its system.
pub type Class = usize;

/// A rule for sizes and splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Powers of two; a block is split into halves.
    Binary,
    /// Sizes S(n) = S(n-1) + S(n-`distance`), beginning with ones; a block is split into these two. A distance of 2
    /// gives the Fibonacci numbers, and 1 gives powers of two.
    Fibonacci {
        /// How far the second part precedes the block in the sequence; at least 1.
        distance: usize,
    },
    /// Sizes 2^k and 3 · 2^k. A block of 4 · 2^k is split into 3 · 2^k and 2^k, and one of 3 · 2^k into 2 · 2^k and
    /// 2^k.
    Weighted,
    /// The same sizes in two binary systems over one area. An area consists of regions of 3 · 2^k units. A free region
    /// becomes two blocks of 3 · 2^(k-1), which are split into halves down to 3, or a block of 2^(k+1) and one of 2^k,
    /// which are split into halves down to 1. It becomes a region again when all of it is free.
    Dual {
        /// The units of a region: 3 · 2^k, with k at least 1.
        region: u32,
    },
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheme::Binary => f.write_str("binary"),
            Scheme::Fibonacci { distance: 2 } => f.write_str("fibonacci"),
            Scheme::Fibonacci { distance } => write!(f, "fibonacci-{distance}"),
            Scheme::Weighted => f.write_str("weighted"),
            Scheme::Dual { region } => write!(f, "dual-{region}"),
        }
    }
}

/// A way to split the blocks of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// The class of the block.
    pub whole: Class,
    /// The classes of the parts, by address.
    pub parts: [Class; 2],
}

/// The table of a system.
#[derive(Clone, Debug)]
pub struct Sizes {
    units: Vec<u32>,
    splits: Vec<Split>,
    /// For each class, the classes that splits of it can yield, itself included: one bit per class.
    yields: Vec<u64>,
}

impl Sizes {
    /// Creates the table of a system with all sizes up to `largest` units.
    ///
    /// # Panics
    /// If the scheme has a distance of 0, or a region that is not 3 · 2^k with k of at least 1, or if `largest` is 0.
    pub fn new(scheme: Scheme, largest: u32) -> Sizes {
        assert!(largest > 0, "the largest size is at least one unit");
        let powers = (0..32).map(|shift| 1u32 << shift);
        let mut units: Vec<u32> = match scheme {
            Scheme::Binary => powers.collect(),
            Scheme::Fibonacci { distance } => {
                assert!(distance > 0, "a block precedes itself");
                let mut all = vec![1u32; distance];
                while let Some(next) = all[all.len() - 1].checked_add(all[all.len() - distance]) {
                    all.push(next);
                }
                all
            }
            Scheme::Weighted => powers.flat_map(with_thrice).collect(),
            Scheme::Dual { region } => {
                let half = region / 6;
                assert!(
                    half.is_power_of_two() && region == 6 * half,
                    "a region has 3 * 2^k units"
                );
                let below = powers.take_while(|power| *power < region);
                let all = below.flat_map(with_thrice).filter(|size| *size <= region);
                all.collect()
            }
        };
        units.sort_unstable();
        units.dedup();
        units.retain(|size| *size <= largest);
        let splits = splits(scheme, &units);
        let yields = yields(units.len(), &splits);
        Sizes {
            units,
            splits,
            yields,
        }
    }

    /// Returns the number of classes.
    pub fn classes(&self) -> usize {
        self.units.len()
    }

    /// Returns the units of a block of a class.
    pub fn units(&self, class: Class) -> u32 {
        self.units[class]
    }

    /// Returns the smallest class with at least this many units, or `None` if there is none.
    pub fn covering(&self, units: u32) -> Option<Class> {
        let class = self.units.partition_point(|size| *size < units);
        (class < self.units.len()).then_some(class)
    }

    /// Returns the largest class with at most this many units, or `None` for 0 units.
    pub fn within(&self, units: u32) -> Option<Class> {
        let above = self.units.partition_point(|size| *size <= units);
        above.checked_sub(1)
    }

    /// Returns all splits.
    pub fn splits(&self) -> &[Split] {
        &self.splits
    }

    /// Returns `true` if repeated splits of a block of `whole` can yield one of `class`, or if it is one.
    pub fn can_yield(&self, whole: Class, class: Class) -> bool {
        self.yields[whole] >> class & 1 == 1
    }

    /// Returns the next step from a block of `whole` towards one of `class`: the split, and the part to continue with,
    /// 0 or 1. Of the parts that can yield the class it is the smallest, so that large blocks stay whole.
    pub fn towards(&self, whole: Class, class: Class) -> Option<(usize, usize)> {
        let mut best: Option<(usize, usize)> = None;
        for (index, split) in self.splits.iter().enumerate() {
            for (side, part) in split.parts.into_iter().enumerate() {
                let is_smaller = best.is_none_or(|(other, at)| part < self.splits[other].parts[at]);
                if split.whole == whole && self.can_yield(part, class) && is_smaller {
                    best = Some((index, side));
                }
            }
        }
        best
    }
}

/// Returns a size, and three times as much.
fn with_thrice(power: u32) -> [u32; 2] {
    [power, power.saturating_mul(3)]
}

fn splits(scheme: Scheme, units: &[u32]) -> Vec<Split> {
    let class = |size: u32| units.binary_search(&size).ok();
    let mut splits = Vec::new();
    for (whole, size) in units.iter().copied().enumerate() {
        let mut add = |left: u32, right: u32| {
            if let (Some(left), Some(right)) = (class(left), class(right)) {
                splits.push(Split {
                    whole,
                    parts: [left, right],
                });
            }
        };
        let half = size / 2;
        match scheme {
            Scheme::Binary => add(half, half),
            // The predecessor in the sequence is the next smaller size; the rest is the other part.
            Scheme::Fibonacci { .. } if whole > 0 => {
                add(units[whole - 1], size - units[whole - 1]);
            }
            Scheme::Fibonacci { .. } => {}
            Scheme::Weighted if size % 3 == 0 => add(size / 3 * 2, size / 3),
            Scheme::Weighted if size % 4 == 0 => add(size / 4 * 3, size / 4),
            Scheme::Weighted => {}
            Scheme::Dual { region } => {
                if size == region {
                    add(region / 3 * 2, region / 3);
                }
                if size % 2 == 0 {
                    add(half, half);
                }
            }
        }
    }
    splits
}

fn yields(classes: usize, splits: &[Split]) -> Vec<u64> {
    let mut yields: Vec<u64> = (0..classes).map(|class| 1 << class).collect();
    // Parts are smaller than the block and splits are sorted by it, so one pass suffices.
    for split in splits {
        yields[split.whole] |= yields[split.parts[0]] | yields[split.parts[1]];
    }
    yields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(scheme: Scheme, largest: u32) -> Vec<u32> {
        Sizes::new(scheme, largest).units
    }

    #[test]
    fn the_sizes_of_the_sources() {
        assert_eq!(all(Scheme::Binary, 20), [1, 2, 4, 8, 16]);
        let fibonacci = |distance| all(Scheme::Fibonacci { distance }, 40);
        assert_eq!(fibonacci(1), [1, 2, 4, 8, 16, 32]);
        assert_eq!(fibonacci(2), [1, 2, 3, 5, 8, 13, 21, 34]);
        assert_eq!(fibonacci(3), [1, 2, 3, 4, 6, 9, 13, 19, 28]);
        assert_eq!(all(Scheme::Weighted, 16), [1, 2, 3, 4, 6, 8, 12, 16]);
        let dual = Scheme::Dual { region: 12 };
        assert_eq!(all(dual, 100), [1, 2, 3, 4, 6, 8, 12]);
    }

    #[test]
    fn parts_add_up_and_lead_to_every_class_that_a_block_yields() {
        for scheme in [
            Scheme::Binary,
            Scheme::Fibonacci { distance: 2 },
            Scheme::Fibonacci { distance: 3 },
            Scheme::Fibonacci { distance: 4 },
            Scheme::Weighted,
            Scheme::Dual { region: 96 },
        ] {
            let sizes = Sizes::new(scheme, 100);
            for split in sizes.splits() {
                let [left, right] = split.parts.map(|part| sizes.units(part));
                assert_eq!(left + right, sizes.units(split.whole), "{scheme}");
                assert!(left >= right, "{scheme}");
            }
            let pairs =
                (0..sizes.classes()).flat_map(|a| (0..sizes.classes()).map(move |b| (a, b)));
            for (whole, class) in pairs.filter(|(whole, class)| whole != class) {
                let step = sizes.towards(whole, class);
                assert_eq!(step.is_some(), sizes.can_yield(whole, class), "{scheme}");
                if let Some((split, side)) = step {
                    assert!(sizes.can_yield(sizes.splits[split].parts[side], class));
                }
            }
            // Only the binary system is one tree; in the dual one, regions yield everything.
            let top = sizes.classes() - 1;
            assert!(
                (0..top).all(|class| sizes.can_yield(top, class)),
                "{scheme}"
            );
        }
    }

    #[test]
    fn the_two_systems_of_the_dual_one_meet_in_regions_only() {
        let sizes = Sizes::new(Scheme::Dual { region: 48 }, 48);
        let class = |units| sizes.covering(units).unwrap();
        assert!(sizes.can_yield(class(24), class(3)) && sizes.can_yield(class(32), class(1)));
        assert!(!sizes.can_yield(class(24), class(2)) && !sizes.can_yield(class(32), class(3)));
    }

    #[test]
    fn classes_of_requests() {
        let sizes = Sizes::new(Scheme::Fibonacci { distance: 2 }, 13);
        let covering = |units| sizes.covering(units).map(|class| sizes.units(class));
        assert_eq!(
            [1, 4, 5, 13].map(covering),
            [Some(1), Some(5), Some(5), Some(13)]
        );
        assert_eq!(covering(14), None);
        assert_eq!(sizes.within(0), None);
        assert_eq!(sizes.within(7), sizes.covering(5));
    }
}
