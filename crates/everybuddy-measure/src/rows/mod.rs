//! Tidy rows: one measurement each.
//!
//! Exists so that every command gives the same columns, whatever was measured.
//!
//! Invariant: the order of the rows depends on the command line alone.

pub mod bench;
pub mod comparison;

use serde::Serialize;

/// One measurement. The columns are those of `docs/metrics.md`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// What was done, and after an `@` at which point of the trace (0 to 1).
    pub experiment: String,
    /// The trace, workload or cell of a table.
    pub source: String,
    /// The system, without options.
    pub system: String,
    /// The system's options.
    pub options: String,
    /// `native`, or the machine that was simulated.
    pub platform: String,
    /// CPUs of the system.
    pub cpus: u16,
    /// The seed of the run.
    pub seed: u64,
    /// `allocate`, `free` or `all`.
    pub operation: &'static str,
    /// The order that the metric is about, if it is about one.
    pub order: Option<u8>,
    /// What was measured.
    pub metric: &'static str,
    /// How it was summed up.
    pub statistic: &'static str,
    /// The number.
    pub value: f64,
    /// Its unit; `1` for ratios.
    pub unit: &'static str,
    /// What the source says it should be.
    pub expected: Option<f64>,
    /// Whether the machine was simulated.
    pub simulated: bool,
}

impl Row {
    /// Returns the system's full name, options included.
    pub fn name(&self) -> String {
        match self.options.is_empty() {
            true => self.system.clone(),
            false => format!("{}+{}", self.system, self.options),
        }
    }
}

/// Rounds to six significant digits: more would only be noise, and differ between machines.
pub fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_stably() {
        assert_eq!(rounded(0.0), 0.0);
        assert_eq!(rounded(1.0 / 3.0), 0.333333);
        assert_eq!(rounded(123_456_789.0), 123_457_000.0);
        assert_eq!(rounded(-0.000_012_345_678), -0.000_012_345_7);
    }
}
