//! Searches for the free that coalesces most.
//!
//! \[BL89\] bound a free by two coalescing delays per class. That holds for each free *into* a class. However, a
//! coalescing is a free into the next class, so one call may cause two of them in its own class, four in the next,
//! and 2^(j+1) j classes up. This module shows whether that is ever reached.
//!
//! # Invariants
//! The same seed gives the same result.
//!
//! All units are allocated and freed in an order that the search changes: two frees are exchanged. The change stays
//! if the worst call is worse, or if it is equal and the sum of the squares over all calls is not smaller. The search
//! starts with one half of every pair, and of every larger group, before the other half.

use everybuddy::{Order, SystemSpec};

use crate::streams::manager::{Extent, Manager};
use crate::streams::runs::{self, Failure};
use crate::streams::tally::Work;

/// A generator of random numbers for the exchanges (xorshift, which suffices).
struct Choices(u64);

impl Choices {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32) as usize * limit) >> 32
    }
}

/// Frees all units in a given order. Returns the coalescings of the worst call, and the sum of the squares over all
/// calls.
fn release(manager: &mut dyn Manager, releases: &[u32]) -> Result<(Work, u64), String> {
    for _ in releases {
        if manager.allocate(Order::ZERO).is_none() {
            return Err("memory is not all there".to_string());
        }
    }
    manager.work();
    let (mut worst, mut squares) = (Work::default(), 0);
    for start in releases {
        if !manager.free(*start, Order::ZERO) {
            return Err(format!("unit {start} could not be given back"));
        }
        let work = manager.work();
        squares += u64::from(work.delays()).pow(2);
        if work.delays() > worst.delays() {
            worst = work;
        }
    }
    Ok((worst, squares))
}

/// Returns the coalescings, by order, of the worst free that the given number of exchanges finds in memory of
/// 2^`order` units. O(exchanges x units).
///
/// # Errors
/// [`Failure`].
pub fn worst(
    spec: &SystemSpec,
    order: Order,
    exchanges: u32,
    seed: u64,
) -> Result<Vec<u32>, Failure> {
    let extent = Extent::fixed(order.frames());
    let look = |releases: &[u32]| runs::on(spec, extent, |manager| release(manager, releases));
    let mut choices = Choices(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let bits = u32::from(order.get()).max(1);
    let mut releases: Vec<u32> = (0..order.frames()).collect();
    releases.sort_by_key(|unit| unit.reverse_bits() >> (u32::BITS - bits));
    let (mut best, mut squares) = look(&releases)?;
    for _ in 0..exchanges {
        let (a, b) = (choices.below(releases.len()), choices.below(releases.len()));
        releases.swap(a, b);
        let (found, sum) = look(&releases)?;
        if (found.delays(), sum) >= (best.delays(), squares) {
            (best, squares) = (found, sum);
        } else {
            releases.swap(a, b);
        }
    }
    let mut coalescings = best.coalescings.to_vec();
    while coalescings.last() == Some(&0) {
        coalescings.pop();
    }
    Ok(coalescings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_reached_while_memory_lasts_and_never_passed() {
        let find = |system: &str, order| {
            let (name, more) = system.split_once('+').unwrap_or((system, ""));
            let more = if more.is_empty() {
                String::new()
            } else {
                format!("+{more}")
            };
            let spec = format!("{name}+order={order}{more}").parse().unwrap();
            worst(&spec, Order::new(order).unwrap(), 2000, 1).unwrap()
        };
        for system in ["delay-2", "watermark"] {
            assert_eq!(find(system, 6), [2, 4, 8, 4, 2, 1], "{system}");
        }
        assert_eq!(find("bs", 6), [1; 6]);
        let owing = find("delay-2+debt=on", 6);
        assert!(owing.iter().all(|delays| *delays <= 2), "{owing:?}");
        assert_eq!(owing[..2], [2, 2]);
    }
}
