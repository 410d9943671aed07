//! Whether a CPU is as fast as it was.
//!
//! Another program, or another guest of the same processor, takes a part of a CPU's time without a trace in what this
//! process may ask. So a thread times a fixed loop between the sections of a measurement. A section next to a loop
//! that took too long does not count.
//!
//! # Invariants
//! The least time of each CPU is kept for the whole process: a CPU that is slow for long is not taken for a slow one.

use std::array;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// The least nanoseconds of the loop on each CPU, modulo their number.
static LEAST: [AtomicU64; 256] = [const { AtomicU64::new(u64::MAX) }; 256];

/// Times a fixed loop on a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Steady(usize);

impl Steady {
    /// How much longer than its least time the loop may take, in percent.
    pub const PERCENT: u64 = 5;
    /// The steps of the loop, which takes about 20 microseconds: an interrupt seldom comes in between.
    const STEPS: u32 = 8000;

    /// Finds the least time of the loop on a CPU, on which the calling thread stays. Takes a millisecond.
    pub fn on(cpu: usize) -> Steady {
        let own = Steady(cpu % LEAST.len());
        (0..32).for_each(|_| _ = own.is_steady());
        own
    }

    /// Times the loop. Returns `true` if it took hardly longer than ever before.
    pub fn is_steady(self) -> bool {
        let start = Instant::now();
        busy(Self::STEPS);
        let nanos = start.elapsed().as_nanos() as u64;
        let least = LEAST[self.0].fetch_min(nanos, Relaxed).min(nanos);
        is_within(nanos, least)
    }
}

/// Returns `true` if a time exceeds the least one by the tolerance at most.
fn is_within(nanos: u64, least: u64) -> bool {
    nanos * 100 <= least * (100 + Steady::PERCENT)
}

/// Computes with as many parallel instructions as a core can: other threads of the core slow it down.
pub fn busy(steps: u32) {
    let mut values: [u64; 4] = black_box(array::from_fn(|at| at as u64 + 1));
    for _ in 0..steps {
        for value in &mut values {
            *value ^= *value << 13;
            *value ^= *value >> 7;
            *value ^= *value << 17;
        }
    }
    black_box(values);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_percent_are_steady_and_six_are_not() {
        assert!(is_within(105, 100) && is_within(100, 100));
        assert!(!is_within(106, 100));
    }
}
