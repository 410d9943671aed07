//! The address regions that the calls of a published program are for.
//!
//! A paper states how many requests follow each other in one region. Predictive systems are told the region of each
//! call, as a kernel would tell them.
//!
//! # Invariants
//! Two consecutive runs are for different regions. The lengths of runs are geometrically distributed. Assumed: a
//! frame's region when it is freed does not depend on that when it was allocated.

use everybuddy::Hint;
use everybuddy_measure::replay::random::Random;
use everybuddy_workload::Runs;

/// The regions of a thread among which its runs alternate. Assumed: the three arrays of stream.
const REGIONS: u32 = 3;

/// The regions of a thread.
pub(crate) struct Regions {
    random: Random,
    /// The mean lengths of runs of allocations and of frees.
    means: [u32; 2],
    /// The current region, and the requests that are left of the run, in either direction.
    now: [(u32, u64); 2],
}

impl Regions {
    pub(crate) fn new(runs: Runs, seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            means: [runs.allocate, runs.free],
            now: [(0, 0); 2],
        }
    }

    /// Returns the hint of the next allocation (0) or free (1) of a thread that will make `after` more of them. What is
    /// left of a region is what is left of the run, unless the thread ends before.
    pub(crate) fn hint(&mut self, thread: usize, kind: usize, after: u32) -> Hint {
        let (region, left) = &mut self.now[kind];
        if *left == 0 {
            *region = (*region + 1) % REGIONS;
            *left = length(&mut self.random, self.means[kind]);
        }
        *left -= 1;
        Hint {
            task: thread as u32,
            region: *region,
            left: after.min((*left).min(u64::from(u32::MAX - 1)) as u32),
        }
    }
}

/// Returns a geometrically distributed length of at least one.
fn length(random: &mut Random, mean: u32) -> u64 {
    const STEPS: u64 = 1 << 32;
    let share = (random.below(STEPS) as f64 + 0.5) / STEPS as f64;
    let stop = 1.0 / f64::from(mean.max(1));
    if stop >= 1.0 {
        return 1;
    }
    1 + (share.ln() / (1.0 - stop).ln()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_have_their_mean_length_and_alternate() {
        let runs = Runs {
            allocate: 122,
            free: 976,
        };
        let mut regions = Regions::new(runs, 7);
        for (kind, mean) in [(0, 122.0), (1, 976.0)] {
            let calls = 1_000_000;
            let hints: Vec<Hint> = (0..calls).map(|_| regions.hint(3, kind, 30)).collect();
            let changes = hints
                .windows(2)
                .filter(|pair| pair[0].region != pair[1].region)
                .count();
            let own = f64::from(calls) / (changes + 1) as f64;
            assert!((own / mean - 1.0).abs() < 0.1, "{own} instead of {mean}");
            assert!(hints.iter().all(|hint| hint.task == 3 && hint.left <= 30));
        }
    }
}
