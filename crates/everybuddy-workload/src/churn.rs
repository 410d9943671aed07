//! Random replacement over a number of slots.
//!
//! Why it exists: it wanders through all states of an allocator, splitting and coalescing everywhere; stress
//! tests and fragmentation measurements use it.
//!
//! Invariant: `full[slot]` says whether the last step that named the slot was an allocation.

use everybuddy::{Frames, Order, Size};
use rand_xoshiro::Xoshiro256StarStar;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::{Step, Workload};

/// Which sizes are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Single frames only.
    Single,
    /// 98.4 % single frames, the rest evenly over orders 1 to 4: iBuddy (000), figure 3.
    Mostly,
    /// Evenly over orders 0 to the given, and one in eight an exact number of frames: for stress.
    Even(Order),
}

/// Random replacement. See the module's head.
#[derive(Clone, Debug)]
pub struct Churn {
    random: Xoshiro256StarStar,
    full: Vec<bool>,
    mix: Mix,
}

impl Churn {
    /// Makes a workload over `slots` slots (at least one), all empty. O(slots).
    pub fn new(slots: u32, mix: Mix, seed: u64) -> Self {
        let random = Xoshiro256StarStar::seed_from_u64(seed);
        Self {
            random,
            full: vec![false; slots.max(1) as usize],
            mix,
        }
    }

    /// Returns a number below `limit`, by multiplication: no division in the loop.
    fn below(&mut self, limit: u32) -> u32 {
        ((u64::from(self.random.next_u32()) * u64::from(limit)) >> 32) as u32
    }

    fn size(&mut self) -> Size {
        let order = match self.mix {
            Mix::Single => 0,
            Mix::Mostly => match self.below(1000) {
                0..984 => 0,
                _ => 1 + self.below(4),
            },
            Mix::Even(largest) => {
                if self.below(8) == 0 {
                    return Size::Frames(Frames(1 + self.below(largest.frames())));
                }
                self.below(u32::from(largest.get()) + 1)
            }
        };
        Size::Order(Order::new(order as u8).unwrap_or(Order::ZERO))
    }
}

impl Iterator for Churn {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let slot = self.below(self.full.len() as u32);
        let full = self.full.get_mut(slot as usize)?;
        *full = !*full;
        Some(if *full {
            Step::Allocate {
                slot,
                size: self.size(),
            }
        } else {
            Step::Free { slot }
        })
    }
}

impl Workload for Churn {
    fn slots(&self) -> u32 {
        self.full.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_alternate_and_seeds_repeat() {
        let steps: Vec<_> = Churn::new(16, Mix::Mostly, 3).take(5000).collect();
        assert_eq!(
            steps,
            Churn::new(16, Mix::Mostly, 3)
                .take(5000)
                .collect::<Vec<_>>()
        );
        assert_ne!(
            steps,
            Churn::new(16, Mix::Mostly, 4)
                .take(5000)
                .collect::<Vec<_>>()
        );
        let mut full = [false; 16];
        for step in &steps {
            match *step {
                Step::Allocate { slot, .. } => {
                    assert!(!std::mem::replace(&mut full[slot as usize], true))
                }
                Step::Free { slot } => assert!(std::mem::replace(&mut full[slot as usize], false)),
            }
        }
    }

    #[test]
    fn the_mix_is_the_papers() {
        let sizes: Vec<_> = Churn::new(4, Mix::Mostly, 1)
            .take(400_000)
            .filter_map(|step| match step {
                Step::Allocate {
                    size: Size::Order(order),
                    ..
                } => Some(order),
                _ => None,
            })
            .collect();
        let single = sizes.iter().filter(|order| **order == Order::ZERO).count() as f64;
        assert!((single / sizes.len() as f64 - 0.984).abs() < 0.002);
    }
}
