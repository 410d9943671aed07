//! The number of repetitions of a measurement, and their summary.
//!
//! The page describes them in the same words for every experiment, with the numbers that the methods use.
//!
//! # Invariants
//! Applies to a run that is not shortened.

/// The repetitions of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// Counted once: the numbers are reproducible.
    Counted,
    /// Counted once, on simulated CPUs.
    Simulated,
    /// Counted on simulated CPUs, with several seeds; means only.
    SimulatedMeans(u32),
    /// Counted on simulated CPUs, with several seeds.
    SimulatedSeeds(u32),
    /// Rounds in which the systems take turns.
    Rounds(u32),
    /// Rounds for times; everything else is counted once.
    RoundsAndCounted(u32),
    /// Repetitions of the same calls; the result of a call is its median.
    Calls(u32),
    /// Seeds, each of which makes different calls.
    Seeds(u32),
    /// Like [`Seeds`](Self::Seeds), but calls are also timed.
    TimedSeeds(u32),
}

impl Repeats {
    /// Returns `true` if each median of rounds has rows of its minimum and maximum next to it.
    pub fn has_ends(self) -> bool {
        matches!(self, Repeats::Rounds(_) | Repeats::RoundsAndCounted(_))
    }

    /// Returns `true` if times are measured, which other work on the same machine would disturb.
    pub fn is_timed(self) -> bool {
        self.has_ends() || matches!(self, Repeats::Calls(_) | Repeats::TimedSeeds(_))
    }

    /// Describes them in a sentence or two.
    pub fn words(self) -> String {
        match self {
            Repeats::Counted => "Counted once; the same numbers come out each time.".to_string(),
            Repeats::Simulated => {
                "Counted once on simulated CPUs; the same numbers come out each time.".to_string()
            }
            Repeats::SimulatedMeans(seeds) => format!(
                "Counted on simulated CPUs with {seeds} seeds; means. The same numbers come out each time."
            ),
            Repeats::SimulatedSeeds(seeds) => format!(
                "Counted on simulated CPUs with {seeds} seeds; means, and intervals from the least to the most. The \
                 same numbers come out each time."
            ),
            Repeats::Rounds(rounds) => {
                format!("Measured in {rounds} rounds in which systems take turns; medians.")
            }
            Repeats::RoundsAndCounted(rounds) => format!(
                "Times: medians of {rounds} rounds in which systems take turns. The rest is counted once."
            ),
            Repeats::Calls(rounds) => format!(
                "The same calls {rounds} times, systems taking turns; each call counts with its median."
            ),
            Repeats::Seeds(seeds) | Repeats::TimedSeeds(seeds) => format!(
                "{seeds} seeds, each with calls of its own, the same for all systems; means, and 95 % intervals \
                 over the seeds."
            ),
        }
    }
}
