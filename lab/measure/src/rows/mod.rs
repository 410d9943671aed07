//! Rows: one measurement each.
//!
//! Rows are the only result. Whatever was measured, every command gives the same columns; tables, pages, files and
//! claims are made of rows.
//!
//! | file | contents |
//! |---|---|
//! | [`comparison`] | the rows of a comparison |
//! | [`table`](mod@table) | rows laid out as a table, for the terminal and the page |
//!
//! # Invariants
//! The order of the rows depends on the command line alone. A row that leaves the program names a metric and a
//! statistic of [`METRICS`](everybuddy_metrics::METRICS); its unit comes from there ([`checked`]).

pub mod comparison;
pub mod table;

use std::fmt;
use std::str::FromStr;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::Error;

/// Where a measurement was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Platform {
    /// On this machine.
    #[default]
    Native,
    /// Nowhere: a property of a recorded trace.
    Recorded,
    /// On the simulated machine of this name.
    Sim(String),
    /// Inside Linux, in the way that the name says.
    Linux(String),
}

impl Platform {
    /// Returns `true` if the machine was simulated.
    pub fn is_simulated(&self) -> bool {
        matches!(self, Platform::Sim(_))
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Platform::Native => out.write_str("native"),
            Platform::Recorded => out.write_str("recorded"),
            Platform::Sim(machine) => write!(out, "sim:{machine}"),
            Platform::Linux(how) => write!(out, "linux:{how}"),
        }
    }
}

impl FromStr for Platform {
    type Err = String;

    fn from_str(text: &str) -> Result<Platform, String> {
        match text.split_once(':') {
            None if text == "native" => Ok(Platform::Native),
            None if text == "recorded" => Ok(Platform::Recorded),
            Some(("sim", machine)) if !machine.is_empty() => Ok(Platform::Sim(machine.to_string())),
            Some(("linux", how)) if !how.is_empty() => Ok(Platform::Linux(how.to_string())),
            _ => Err(format!(
                "platform `{text}`: write `native`, `recorded`, `sim:MACHINE` or `linux:HOW`"
            )),
        }
    }
}

/// One measurement. The columns are those of `docs/metrics.md`; `contender`, unit and `simulated` follow
/// from the others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The experiment and, after an `@`, the position in the trace (0 to 1).
    pub experiment: String,
    /// The trace, workload or cell of a table.
    pub source: String,
    /// The system, without options.
    pub system: String,
    /// The system's options.
    pub options: String,
    /// The machine.
    pub platform: Platform,
    /// The number of CPUs of the system.
    pub cpus: u16,
    /// The seed of the run.
    pub seed: u64,
    /// `allocate`, `free`, `pair` or `all`.
    pub operation: &'static str,
    /// The order that the metric refers to, if any.
    pub order: Option<u8>,
    /// What was measured: the name of a metric.
    pub metric: &'static str,
    /// The statistic that summarizes the values.
    pub statistic: &'static str,
    /// The value.
    pub value: f64,
    /// The expected value according to the source.
    pub expected: Option<f64>,
    /// What made the row: the commit, a digest of its system, and one of its machine or the family of the processor.
    /// Empty until the row leaves the program.
    pub program: String,
}

/// The columns of rows, in their order, in all formats.
#[rustfmt::skip]
pub const COLUMNS: [&str; 17] = [
    "experiment", "source", "system", "options", "contender", "platform", "cpus", "seed", "operation", "order",
    "metric", "statistic", "value", "unit", "expected", "simulated", "program",
];

/// What rows name as a system, but hands out no memory, or only bounds what can: private arrays or nothing at all, the
/// same behind a table of functions, and the clock.
const NO_SYSTEMS: [&str; 3] = [comparison::FLOOR, "floor+table", comparison::TIMER];

impl Row {
    /// Returns `true` if the row is about an allocator, and not about what measuring itself costs.
    pub fn is_of_system(&self) -> bool {
        !NO_SYSTEMS.contains(&self.system.as_str())
    }

    /// Returns the system's full name, including options: the column `contender`.
    pub fn name(&self) -> String {
        if self.options.is_empty() {
            self.system.clone()
        } else {
            format!("{}+{}", self.system, self.options)
        }
    }

    /// Returns the unit, as the metric has it; empty for a metric that does not exist.
    pub fn unit(&self) -> &'static str {
        everybuddy_metrics::find(self.metric).map_or("", |metric| metric.unit(self.statistic))
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Row", COLUMNS.len())?;
        let [
            experiment,
            source,
            system,
            options,
            contender,
            platform,
            rest @ ..,
        ] = COLUMNS;
        let [cpus, seed, operation, order, metric, rest @ ..] = rest;
        let [statistic, value, unit, expected, simulated, program] = rest;
        out.serialize_field(experiment, &self.experiment)?;
        out.serialize_field(source, &self.source)?;
        out.serialize_field(system, &self.system)?;
        out.serialize_field(options, &self.options)?;
        out.serialize_field(contender, &self.name())?;
        out.serialize_field(platform, &self.platform.to_string())?;
        out.serialize_field(cpus, &self.cpus)?;
        out.serialize_field(seed, &self.seed)?;
        out.serialize_field(operation, self.operation)?;
        out.serialize_field(order, &self.order)?;
        out.serialize_field(metric, self.metric)?;
        out.serialize_field(statistic, self.statistic)?;
        out.serialize_field(value, &self.value)?;
        out.serialize_field(unit, self.unit())?;
        out.serialize_field(expected, &self.expected)?;
        out.serialize_field(simulated, &self.platform.is_simulated())?;
        out.serialize_field(program, &self.program)?;
        out.end()
    }
}

/// Checks that every row names a metric that is defined, and one of its statistics.
///
/// # Errors
/// [`Error::Broken`]: what measures and the table of metrics disagree.
pub fn checked(rows: &[Row]) -> Result<(), Error> {
    let is_defined = |row: &Row| {
        everybuddy_metrics::find(row.metric)
            .is_some_and(|metric| metric.statistics.contains(&row.statistic))
    };
    match rows.iter().find(|row| !is_defined(row)) {
        None => Ok(()),
        Some(Row {
            metric, statistic, ..
        }) => Err(Error::Broken(format!(
            "a row has the metric `{metric}` with the statistic `{statistic}`, which is not defined"
        ))),
    }
}

/// Rounds to six significant digits: more would be noise, and would differ between machines.
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

    #[test]
    fn platforms_are_read_as_they_are_written() {
        for text in ["native", "recorded", "sim:flat", "linux:module"] {
            let platform: Platform = text.parse().unwrap();
            assert_eq!(platform.to_string(), text);
            assert_eq!(platform.is_simulated(), text.starts_with("sim:"));
        }
        for text in ["", "sim", "sim:", "natve", "linux"] {
            assert!(
                text.parse::<Platform>()
                    .unwrap_err()
                    .contains("sim:MACHINE")
            );
        }
    }

    #[test]
    fn only_defined_metrics_leave_the_program() {
        let row = |metric, statistic| Row {
            metric,
            statistic,
            ..Row::default()
        };
        assert!(checked(&[row("latency", "mean"), row("splits", "count")]).is_ok());
        assert!(checked(&[row("latncy", "mean")]).is_err());
        assert!(checked(&[row("latency", "p42")]).is_err());
        assert_eq!(row("residual", "mean").unit(), "frames");
        assert_eq!(row("residual", "count").unit(), "1");
    }
}
