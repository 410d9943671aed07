//! How often an experiment measures, and what it makes of that.
//!
//! # Purpose
//!
//! A page can say it in the same words for every experiment, with the numbers that the methods use.
//!
//! # Invariants
//!
//! Holds for a run that is not shortened.

/// How often something is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// Counted once: the same numbers come out each time.
    Counted,
    /// Counted once, on simulated CPUs.
    Simulated,
    /// Rounds in which systems take turns.
    Rounds(u32),
    /// Rounds for times; the rest is counted once.
    RoundsAndCounted(u32),
    /// Repetitions of the same calls; a call counts with its median.
    Calls(u32),
    /// Seeds, each of which makes other calls.
    Seeds(u32),
}

impl Repeats {
    /// Says it in a sentence or two.
    pub fn words(self) -> String {
        match self {
            Repeats::Counted => "Counted once; the same numbers come out each time.".to_string(),
            Repeats::Simulated => {
                "Counted once on simulated CPUs; the same numbers come out each time.".to_string()
            }
            Repeats::Rounds(rounds) => {
                format!("Measured in {rounds} rounds in which systems take turns; medians.")
            }
            Repeats::RoundsAndCounted(rounds) => format!(
                "Times: medians of {rounds} rounds in which systems take turns. The rest is counted once."
            ),
            Repeats::Calls(rounds) => format!(
                "The same calls {rounds} times, systems taking turns; each call counts with its median."
            ),
            Repeats::Seeds(seeds) => format!(
                "{seeds} seeds, each with calls of its own, the same for all systems; means, and 95 % intervals \
                 over the seeds."
            ),
        }
    }
}
