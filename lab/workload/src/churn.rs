//! Random replacement over a number of slots.
//!
//! This workload visits all states of an allocator and causes splits and coalescing everywhere. Stress tests and
//! fragmentation measurements use it.
//!
//! # Invariants
//! `full[slot]` records whether the last step that named the slot was an allocation.

use everybuddy::{Frames, Order, Size};

use crate::random::Random;
use crate::{Body, Part, Program, Setting, Step, Workload};

/// The distribution of request sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Single frames only.
    Single,
    /// 98.4 % single frames, the rest evenly over orders 1 to 4: \[iBuddy\] figure 3.
    Mostly,
    /// Evenly over orders 0 to the given one; one request in eight is for an exact number of frames. For stress tests.
    Even(Order),
}

/// Random replacement. See the module documentation.
#[derive(Clone, Debug)]
pub struct Churn {
    random: Random,
    full: Vec<bool>,
    mix: Mix,
}

impl Churn {
    /// Creates a workload over `slots` slots (at least one), all empty. O(slots).
    pub fn new(slots: u32, mix: Mix, seed: u64) -> Self {
        Self {
            random: Random::new(seed, 0),
            full: vec![false; slots.max(1) as usize],
            mix,
        }
    }

    fn size(&mut self) -> Size {
        if let Mix::Even(largest) = self.mix
            && self.random.below(8) == 0
        {
            return Size::Frames(Frames(1 + self.random.below(largest.frames())));
        }
        Size::Order(self.mix.order(|limit| self.random.below(limit)))
    }
}

impl Mix {
    /// The largest order of [`Mostly`](Self::Mostly).
    pub(crate) const LARGEST: Order = match Order::new(4) {
        Some(order) => order,
        None => Order::ZERO,
    };

    /// Chooses an order from random numbers below a limit.
    pub(crate) fn order(self, mut below: impl FnMut(u32) -> u32) -> Order {
        let order = match self {
            Mix::Single => 0,
            Mix::Mostly => match below(1000) {
                0..984 => 0,
                _ => 1 + below(4),
            },
            Mix::Even(largest) => below(u32::from(largest.get()) + 1),
        };
        Order::new(order as u8).unwrap_or(Order::ZERO)
    }
}

/// Operations of all threads together at full length.
pub(crate) const OPERATIONS: u32 = 10_000_000;

/// The number of rounds over which the operations are spread.
pub(crate) const ROUNDS: u32 = 40;

/// Creates the program for random replacement in two fifths of the memory: half of the slots are full at any time.
pub(crate) fn churn(setting: &Setting, thread: u16, mix: Mix) -> Program {
    let frames_per_thousand = if mix == Mix::Single { 1000 } else { 1104 };
    let slots = u64::from(setting.share()) * 4 / 5 * 1000 / frames_per_thousand;
    let slots = (slots as u32).max(1);
    let mut steps = Churn {
        random: Random::new(setting.seed, thread),
        full: vec![false; slots as usize],
        mix,
    };
    let count = setting.count(OPERATIONS / ROUNDS / u32::from(setting.threads.max(1)));
    Program::of_part(Part::Operation, slots, Vec::new(), move || {
        Body::Steps(steps.by_ref().take(count as usize).collect())
    })
}

impl Iterator for Churn {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let slot = self.random.below(self.full.len() as u32);
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
                Step::Free { slot } => {
                    assert!(std::mem::replace(&mut full[slot as usize], false))
                }
                other => panic!("{other:?}"),
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
