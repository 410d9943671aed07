//! Results for programs: tidy rows, one measurement each.
//!
//! Exists so that every command exports the same columns, in every format. To add a format: one
//! file with a function from rows to bytes, and one line in [`Format`].
//!
//! Invariant: columns are the same, in the same order, in all formats; the order of the rows
//! depends on the command line alone.

pub mod bench;
mod csv;
mod file;
mod json;
pub mod page;
pub mod rows;
pub mod trace;

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::Error;

pub use file::Pending;

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
pub(crate) fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// A format for rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line.
    Json,
    /// Comma-separated values with a header.
    Csv,
}

impl Format {
    /// Writes rows down.
    fn encode(self, rows: &[Row]) -> Result<Vec<u8>, std::io::Error> {
        match self {
            Format::Json => json::encode(rows),
            Format::Csv => csv::encode(rows),
        }
    }
}

/// Where rows go.
#[derive(Debug)]
pub enum Sink {
    /// To standard output (`-`).
    Output(Format),
    /// To a file, which appears when it is whole.
    File(Format, Pending),
}

impl Sink {
    /// Prepares a place for rows, so that an impossible one is refused before the work begins.
    ///
    /// # Errors
    /// [`Error::Write`] when there can be no such file.
    pub fn open(format: Format, path: &Path) -> Result<Sink, Error> {
        if path == Path::new("-") {
            return Ok(Sink::Output(format));
        }
        let pending = Pending::create(path);
        let refuse = |cause| Error::Write {
            path: PathBuf::from(path),
            cause,
        };
        pending
            .map(|pending| Sink::File(format, pending))
            .map_err(refuse)
    }

    /// Tells whether rows go to standard output.
    pub fn is_output(&self) -> bool {
        matches!(self, Sink::Output(_))
    }

    /// Writes all rows.
    ///
    /// # Errors
    /// [`Error::Write`]; then no file is left behind.
    pub fn write(self, rows: &[Row]) -> Result<(), Error> {
        match self {
            Sink::Output(format) => {
                let bytes = format
                    .encode(rows)
                    .map_err(|e| Error::stream("standard output", e))?;
                crate::show::output::bytes(&bytes)
            }
            Sink::File(format, pending) => {
                let path = pending.path().to_path_buf();
                let bytes = format.encode(rows);
                let written = bytes.and_then(|bytes| pending.finish(&bytes));
                written.map_err(|cause| Error::Write { path, cause })
            }
        }
    }
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
