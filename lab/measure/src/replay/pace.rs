//! Reduces the times of all rounds to a few numbers.
//!
//! The machine also runs other programs. A thread that is switched out for milliseconds would dominate the mean of a
//! hundred thousand calls of ten nanoseconds.
//!
//! One thread does exactly the same in each round, so the repetitions of each time can be compared:
//! - means and throughput: among the repetitions of a segment (or section), *disturbed* ones are ignored, that is,
//!   those longer than twice the median and a microsecond; then sums are formed;
//! - percentiles: the median over the rounds for each call.
//!
//! Several threads interleave differently each time. Each number is then computed per round, and the result is the
//! median over the rounds.
//!
//! # Invariants
//! Work that an allocator does in every round never counts as a disturbance.

use crate::replay::clock::Timer;
use crate::replay::script::Script;

/// Throughput and latencies, by medians over the rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// Operations per second of the whole replay.
    pub throughput: f64,
    /// Allocations and frees.
    pub latency: [Latency; 2],
}

/// The latency of allocations or of frees.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// Operations timed in one round.
    pub count: u64,
    /// The mean, by segments.
    pub mean: f64,
    /// The standard deviation of single operations; `None` below the timer's resolution.
    pub stddev: Option<f64>,
    /// The 50th, 99th and 99.9th percentile and the maximum; `None` below the timer's resolution.
    pub quantiles: [Option<f64>; 4],
}

impl Latency {
    /// Returns the 99th percentile.
    pub fn p99(&self) -> Option<f64> {
        self.quantiles[1]
    }
}

/// The times of one round on all threads, in ticks including the timer's cost.
pub struct Round {
    /// Seconds from the start to the end of the throughput pass.
    pub elapsed: f64,
    /// The sections of that pass.
    pub stretches: Vec<u32>,
    /// Allocations and frees in the segment pass.
    pub operations: [u64; 2],
    /// Segments of allocations and of frees.
    pub segments: [Vec<u32>; 2],
    /// Single allocations and frees.
    pub singles: [Vec<u32>; 2],
}

impl Round {
    /// Returns the mean latencies of this round alone, including all disturbances.
    pub fn means(&self, timer: &Timer) -> [f64; 2] {
        [0, 1].map(|direction| {
            let segments = &self.segments[direction];
            let ticks = segments.iter().map(|ticks| f64::from(*ticks)).sum();
            timer.sum(ticks, segments.len()) / self.operations[direction].max(1) as f64
        })
    }
}

impl Pace {
    /// Summarizes the rounds.
    pub fn over(rounds: &[Round], script: &Script, timer: &Timer) -> Pace {
        let events = f64::from(script.events);
        let repeatable = script.lanes.len() == 1;
        let elapsed = if repeatable {
            let stretches: Vec<&[u32]> = rounds.iter().map(|r| &r.stretches[..]).collect();
            timer.sum(undisturbed(&stretches, timer), 0) / 1e9
        } else {
            median(rounds.iter().map(|round| round.elapsed).collect())
        };
        let latency = |direction: usize| {
            if repeatable {
                Latency::repeated(rounds, direction, timer)
            } else {
                Latency::varying(rounds, direction, timer)
            }
        };
        Pace {
            throughput: events / elapsed.max(1e-9),
            latency: [latency(0), latency(1)],
        }
    }
}

impl Latency {
    /// For rounds that repeat exactly.
    fn repeated(rounds: &[Round], direction: usize, timer: &Timer) -> Latency {
        let segments: Vec<&[u32]> = rounds.iter().map(|r| &r.segments[direction][..]).collect();
        let singles: Vec<&[u32]> = rounds.iter().map(|r| &r.singles[direction][..]).collect();
        let operations = rounds
            .first()
            .map_or(0, |round| round.operations[direction]);
        let nanos = timer.sum(undisturbed(&segments, timer), shortest(&segments));
        let mut medians = Vec::with_capacity(shortest(&singles));
        repetitions(&singles, |sorted| medians.push(sorted[sorted.len() / 2]));
        let singled = Singled::of(medians, timer);
        Latency::new(operations, nanos / operations.max(1) as f64, singled, timer)
    }

    /// For rounds that interleave differently.
    fn varying(rounds: &[Round], direction: usize, timer: &Timer) -> Latency {
        let singled: Vec<Singled> = rounds
            .iter()
            .map(|r| Singled::of(r.singles[direction].clone(), timer))
            .collect();
        let of = |value: &dyn Fn(&Singled) -> f64| median(singled.iter().map(value).collect());
        let mean = rounds.iter().map(|round| round.means(timer)[direction]);
        let middle = Singled {
            stddev: of(&|s| s.stddev),
            quantiles: [0, 1, 2, 3].map(|at| of(&|s| s.quantiles[at])),
        };
        let operations = rounds
            .first()
            .map_or(0, |round| round.operations[direction]);
        Latency::new(operations, median(mean.collect()), middle, timer)
    }

    fn new(count: u64, mean: f64, singled: Singled, timer: &Timer) -> Latency {
        let seen = |value: f64| (value > timer.floor()).then_some(value);
        let stddev = seen(singled.stddev);
        Latency {
            count,
            mean,
            stddev,
            quantiles: singled.quantiles.map(seen),
        }
    }
}

/// Single operations, in nanoseconds.
#[derive(Clone, Copy, Default)]
struct Singled {
    stddev: f64,
    quantiles: [f64; 4],
}

impl Singled {
    fn of(mut ticks: Vec<u32>, timer: &Timer) -> Singled {
        ticks.sort_unstable();
        if ticks.is_empty() {
            return Singled::default();
        }
        // Nearest rank: a time that actually occurred.
        let at = |permille: usize| {
            timer.single(ticks[(ticks.len() * permille).div_ceil(1000).max(1) - 1])
        };
        let nanos = || ticks.iter().map(|ticks| timer.single(*ticks));
        let count = ticks.len() as f64;
        let mean = nanos().sum::<f64>() / count;
        let variance = nanos().map(|nanos| (nanos - mean).powi(2)).sum::<f64>() / count;
        Singled {
            stddev: variance.sqrt(),
            quantiles: [at(500), at(990), at(999), at(1000)],
        }
    }
}

/// Returns the sum, over all positions, of the means of the undisturbed repetitions, in ticks.
fn undisturbed(rounds: &[&[u32]], timer: &Timer) -> f64 {
    let microsecond = timer.ticks(1000.0);
    let mut sum = 0.0;
    repetitions(rounds, |sorted| {
        let limit = 2 * u64::from(sorted[sorted.len() / 2]) + microsecond;
        let calm = sorted
            .iter()
            .take_while(|ticks| u64::from(**ticks) <= limit);
        let (count, ticks) = calm.fold((0u32, 0u64), |(n, sum), t| (n + 1, sum + u64::from(*t)));
        sum += ticks as f64 / f64::from(count.max(1));
    });
    sum
}

/// Visits each position of all rounds with its repetitions, sorted.
pub fn repetitions(rounds: &[&[u32]], mut visit: impl FnMut(&[u32])) {
    let mut sorted = vec![0; rounds.len()];
    for position in 0..shortest(rounds) {
        for (repetition, round) in sorted.iter_mut().zip(rounds) {
            *repetition = round[position];
        }
        sorted.sort_unstable();
        visit(&sorted);
    }
}

fn shortest(rounds: &[&[u32]]) -> usize {
    rounds.iter().map(|round| round.len()).min().unwrap_or(0)
}

/// Returns the median: the mean of the two middle values for an even number of values; 0 for an empty sequence.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        length if length % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(singles: Vec<u32>, segments: Vec<u32>) -> Round {
        Round {
            elapsed: 1.0,
            stretches: vec![1000],
            operations: [segments.len() as u64, 0],
            segments: [segments, vec![]],
            singles: [singles, vec![]],
        }
    }

    #[test]
    fn singles_below_the_floor_are_left_out() {
        let timer = Timer::calibrated();
        let slow: Vec<u32> = (0..1000).map(|i| i * 1000).collect();
        let fast = Latency::repeated(&[round(vec![0; 1000], vec![])], 0, &timer);
        assert_eq!((fast.stddev, fast.quantiles), (None, [None; 4]));
        let seen = Latency::repeated(&[round(slow.clone(), vec![])], 0, &timer);
        let [p50, p99, p999, max] = seen.quantiles.map(Option::unwrap);
        assert!(p50 < p99 && p99 < p999 && p999 <= max);
        assert_eq!(max, timer.single(999_000));
        let varying = Latency::varying(&[round(slow, vec![])], 0, &timer);
        assert_eq!(varying.quantiles, seen.quantiles);
    }

    #[test]
    fn a_disturbed_repetition_does_not_count() {
        let timer = Timer::calibrated();
        let calm = [100_000u32, 100_000, 100_000, 100_000].to_vec();
        let mut disturbed = calm.clone();
        disturbed[1] = 900_000_000;
        let rounds = [calm.clone(), disturbed, calm.clone()].map(|s| round(vec![], s));
        let mean = Latency::repeated(&rounds, 0, &timer).mean;
        let expected = timer.sum(100_000.0, 1);
        assert!((mean - expected).abs() < 1.0, "{mean} {expected}");
    }
}
