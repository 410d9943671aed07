//! The timer and its cost.
//!
//! A hit in a per-CPU list takes less time than reading any clock. Hits are therefore timed in segments, the timer's
//! cost is subtracted from each measurement, and single operations are reported only if they exceed the timer's
//! spread. A single operation is timed between fences. Otherwise what overlaps with the clock would be subtracted as
//! the timer's cost, and a call of 300 instructions would seem to take no longer than a hit.
//!
//! The timer is the processor's time stamp counter if that is reliable, and the operating system's clock otherwise.
//!
//! Some processors count in steps of ten nanoseconds. A single time is then up to a step too long or too short, but
//! sums of many are correct. The *mean* cost is subtracted from sums, the median cost from single times. Both costs
//! exist twice: between fences for single operations, and without for segments.
//!
//! # Invariants
//! A time is never negative after the cost was subtracted.

use std::hint::black_box;
use std::sync::atomic::{self, Ordering};

use quanta::Clock;

use crate::replay::fence::fence;

/// A timer with a known cost.
#[derive(Clone, Debug)]
pub struct Timer {
    clock: Clock,
    nanos_per_tick: f64,
    cost: u64,
    floor: u64,
    single_mean: f64,
    mean: f64,
    stddev: f64,
}

impl Timer {
    /// The number of empty measurements that determine the cost.
    const EMPTY: usize = 100_000;

    /// Starts the clock and measures its cost. Takes tens of milliseconds.
    pub fn calibrated() -> Timer {
        let mut timer = Timer::of(Clock::new());
        let nanos_per_tick = timer.nanos_per_tick;
        let single = Self::empty(|| {
            let start = timer.start();
            u64::from(timer.stop(start))
        });
        timer.cost = single[Self::EMPTY / 2];
        // The steps of a clock vary by one or two ticks.
        timer.floor = single[Self::EMPTY * 999 / 1000] - single[Self::EMPTY / 1000] + 2;
        timer.single_mean = moments(&single).0 * nanos_per_tick;
        let empty = Self::empty(|| {
            let start = timer.now();
            timer.now().wrapping_sub(start)
        });
        let (mean, stddev) = moments(&empty);
        timer.mean = mean * nanos_per_tick;
        timer.stddev = stddev * nanos_per_tick;
        timer
    }

    /// Performs empty measurements, and returns them sorted.
    fn empty(measure: impl Fn() -> u64) -> Vec<u64> {
        let mut empty = vec![0u64; Self::EMPTY];
        // The first round warms up the code.
        for _ in 0..2 {
            empty.iter_mut().for_each(|ticks| *ticks = measure());
        }
        empty.sort_unstable();
        empty
    }

    /// Creates a timer that always returns the same time, for measurements that are counted instead of timed.
    /// (Starting a real clock takes a different number of instructions each time.)
    pub fn standing() -> Timer {
        Timer::of(Clock::mock().0)
    }

    /// Creates a timer from a clock, with unknown cost.
    fn of(clock: Clock) -> Timer {
        const LONG: u64 = 1 << 40;
        let nanos_per_tick = clock.delta_as_nanos(0, LONG) as f64 / LONG as f64;
        Timer {
            clock,
            nanos_per_tick,
            cost: 0,
            floor: 0,
            single_mean: 0.0,
            mean: 0.0,
            stddev: 0.0,
        }
    }

    /// Returns the time now, in ticks.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        self.clock.raw()
    }

    /// Returns the ticks since `start`, including the cost, in a type that can be stored in large numbers.
    #[inline(always)]
    pub fn since(&self, start: u64) -> u32 {
        u32::try_from(self.now().saturating_sub(start)).unwrap_or(u32::MAX)
    }

    /// Prepares for a single operation where something else used the caches: what was stored before is no longer on its
    /// way, and the lines of the timer are loaded. Otherwise the operation's first atomic instruction would wait for
    /// those stores, and [`start`](Self::start) for those lines, after it has read the time.
    pub fn prepare(&self) {
        atomic::fence(Ordering::SeqCst);
        black_box(self.start());
    }

    /// Returns the time now, in ticks, for a single operation: everything before it is done, nothing after it begun.
    #[inline(always)]
    pub fn start(&self) -> u64 {
        fence();
        let now = self.now();
        fence();
        now
    }

    /// Returns the ticks since [`start`](Self::start), after everything before it is done; including the cost.
    #[inline(always)]
    pub fn stop(&self, start: u64) -> u32 {
        fence();
        self.since(start)
    }

    /// Converts the ticks of a single measurement to nanoseconds, minus the cost of measuring.
    pub fn single(&self, ticks: u32) -> f64 {
        self.nanos(u64::from(ticks).saturating_sub(self.cost))
    }

    /// Converts the sum of several measurements to nanoseconds, minus the cost of measuring.
    pub fn sum(&self, ticks: f64, measurements: usize) -> f64 {
        (ticks * self.nanos_per_tick - measurements as f64 * self.mean).max(0.0)
    }

    /// Converts the sum of several single measurements to nanoseconds, minus the cost of measuring.
    pub fn sum_of_singles(&self, ticks: f64, measurements: usize) -> f64 {
        (ticks * self.nanos_per_tick - measurements as f64 * self.single_mean).max(0.0)
    }

    /// Converts ticks to nanoseconds.
    fn nanos(&self, ticks: u64) -> f64 {
        ticks as f64 * self.nanos_per_tick
    }

    /// Converts nanoseconds to ticks.
    pub fn ticks(&self, nanos: f64) -> u64 {
        (nanos / self.nanos_per_tick) as u64
    }

    /// Returns the cost of a single measurement: the median of empty ones, in nanoseconds.
    pub fn cost(&self) -> f64 {
        self.nanos(self.cost)
    }

    /// Returns the mean of empty measurements without fences, in nanoseconds.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Returns the standard deviation of empty measurements without fences, in nanoseconds.
    pub fn stddev(&self) -> f64 {
        self.stddev
    }

    /// Returns the timer's spread in nanoseconds: the difference between the 0.1st and the 99.9th percentile of empty
    /// single measurements. Shorter operations cannot be resolved.
    pub fn floor(&self) -> f64 {
        self.nanos(self.floor)
    }
}

/// Returns the mean and the standard deviation of sorted measurements, without the thousandth with the context
/// switches, which would dominate the rest.
fn moments(sorted: &[u64]) -> (f64, f64) {
    let calm = &sorted[..sorted.len() * 999 / 1000];
    let count = calm.len().max(1) as f64;
    let mean = calm.iter().sum::<u64>() as f64 / count;
    let variance = calm.iter().map(|t| (*t as f64 - mean).powi(2)).sum::<f64>();
    (mean, (variance / count).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timer_knows_itself() {
        let timer = Timer::calibrated();
        assert!(timer.cost() > 0.0 && timer.cost() < 10_000.0);
        assert!(timer.floor() > 0.0);
        let start = timer.now();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let slept = timer.single(timer.since(start));
        assert!(slept > 15e6, "{slept}");
        let start = timer.start();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let ticks = timer.stop(start);
        assert!(timer.single(ticks) > 15e6);
        // Of one measurement both differ by the timer's spread at most.
        let sum = timer.sum_of_singles(f64::from(ticks), 1);
        assert!((sum - timer.single(ticks)).abs() < 1e6, "{sum}");
    }
}
