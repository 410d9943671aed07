//! Medians of rounds, and the clock rate.
//!
//! Other programs take the CPU away: rounds in which this thread had to wait for it do not count, as far as the
//! operating system says so. Neither do rounds next to which a CPU was not [`Steady`]. They are counted and repeated.
//!
//! # Invariants
//! A summary is of at least one round.

use std::fs;
use std::hint::black_box;
use std::time::Instant;

use everybuddy_measure::replay::steady::Steady;

/// The number of rounds of a measurement.
pub(super) const ROUNDS: usize = 15;
/// The number of rounds that may be tried.
pub(super) const TRIES: usize = 20 * ROUNDS;

/// A measurement: median, smallest and largest of the rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounds {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    /// The rounds that were tried, and those of the summary that were disturbed: too few others were found.
    pub(super) tried: usize,
    pub(super) missing: usize,
}

impl Rounds {
    /// Runs a measurement several times. A round should take less than a millisecond: longer ones are seldom alone on
    /// a busy host.
    pub(super) fn of(round: impl FnMut() -> f64) -> Rounds {
        Rounds::beside(|| true, round)
    }

    /// The same with a helper, which `is_calm` asks after each round whether its CPU was steady.
    pub(super) fn beside(is_calm: impl Fn() -> bool, mut round: impl FnMut() -> f64) -> Rounds {
        let (mut all, mut disturbed) = (Vec::new(), Vec::new());
        // Threads of measurements stay on the first CPU.
        let steady = Steady::on(0);
        let mut was_steady = steady.is_steady();
        for _ in 0..TRIES {
            let before = waited();
            let own = round();
            let is_steady = steady.is_steady() && is_calm();
            if waited() == before && std::mem::replace(&mut was_steady, is_steady) && is_steady {
                all.push(own)
            } else {
                disturbed.push(own)
            }
            if all.len() == ROUNDS {
                break;
            }
        }
        let (tried, missing) = (all.len() + disturbed.len(), ROUNDS - all.len());
        // The least disturbed ones complete what is missing.
        disturbed.sort_by(f64::total_cmp);
        all.extend(disturbed.into_iter().take(missing));
        all.sort_by(f64::total_cmp);
        Rounds {
            median: all[ROUNDS / 2],
            min: all[0],
            max: all[ROUNDS - 1],
            tried,
            missing,
        }
    }

    /// Returns the number of rounds that do not count.
    pub(super) fn disturbed(&self) -> usize {
        self.tried + self.missing - ROUNDS
    }

    /// Subtracts a constant, and stays above zero.
    pub(super) fn minus(self, other: f64) -> Rounds {
        let less = |own: f64| (own - other).max(0.0);
        Rounds {
            median: less(self.median),
            min: less(self.min),
            max: less(self.max),
            ..self
        }
    }

    /// Returns median and spread as text.
    pub(super) fn spread(&self, places: usize) -> String {
        let Rounds {
            median, min, max, ..
        } = self;
        format!("{median:.places$} ({min:.places$} to {max:.places$} in {ROUNDS} rounds)")
    }
}

/// Returns how long this thread has waited for a CPU, if Linux says it.
fn waited() -> Option<u64> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').nth(1)?.parse().ok()
}

/// Returns how many nanoseconds each of `count` steps takes.
pub(super) fn time(count: usize, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64 / count as f64
}

/// Computes with steps of three shifts and three exclusive ors, each of which waits for the one before it.
pub(super) fn dependent(steps: usize) {
    let mut value = black_box(88_172_645_463_325_252_u64);
    for _ in 0..steps {
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
    }
    black_box(value);
}

/// Measures the clock rate in MHz: a step of [`dependent`] takes six cycles on all current processors.
pub(super) fn clock() -> Rounds {
    const STEPS: usize = 100_000;
    dependent(200 * STEPS);
    Rounds::of(|| 6000.0 / time(STEPS, || dependent(STEPS)))
}

/// Writes a number of bytes.
pub(super) fn size(bytes: usize) -> String {
    match bytes {
        small if small < 1 << 20 => format!("{} KiB", small >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_summarized() {
        let rounds = Rounds {
            median: 8.0,
            min: 1.0,
            max: 15.0,
            tried: 15,
            missing: 0,
        };
        assert_eq!(rounds.spread(1), "8.0 (1.0 to 15.0 in 15 rounds)");
        let less = rounds.minus(2.0);
        assert_eq!([less.median, less.min, less.max], [6.0, 0.0, 13.0]);
        let mut count = 0;
        let rounds = Rounds::of(|| {
            count += 1;
            7.0
        });
        assert!((ROUNDS..=TRIES).contains(&count));
        assert_eq!([rounds.median, rounds.min, rounds.max], [7.0; 3]);
        assert_eq!(size(48 << 10), "48 KiB");
        assert_eq!(size(32 << 20), "32 MiB");
    }
}
