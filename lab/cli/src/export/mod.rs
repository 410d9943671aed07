//! Results in files: for other programs tidy rows, one measurement each; for readers pages.
//!
//! Every command exports the same columns in every format. To add a format, add a file with a function from rows to
//! bytes, and a line in [`Format`].
//!
//! # Invariants
//! The columns and their order are the same in all formats; the order of the rows depends on the command line alone.

mod csv;
pub mod earlier;
pub mod json;
mod outputs;
pub mod page;
pub(crate) mod parquet;
pub mod trace;

use std::path::Path;

use everybuddy_measure::Error;
use everybuddy_measure::rows::{self, Row};

use crate::commit;

pub(crate) use outputs::refused;
pub use outputs::{Output, Outputs, write_trace};

/// A format for rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object per line.
    Json,
    /// Comma-separated values with a header.
    Csv,
    /// A Parquet file, compressed.
    Parquet,
}

impl Format {
    /// Returns the command-line option of the format.
    pub fn option(self) -> &'static str {
        match self {
            Format::Json => "--json",
            Format::Csv => "--csv",
            Format::Parquet => "--parquet",
        }
    }

    /// Encodes rows.
    ///
    /// # Errors
    /// Returns [`Error::Broken`] if a row's metric is not defined, or if the format cannot have it.
    pub fn encode(self, rows: &[Row]) -> Result<Vec<u8>, Error> {
        rows::checked(rows)?;
        let rows = &commit::named(rows);
        let encoded = match self {
            Format::Parquet => parquet::encode(rows),
            Format::Json => json::encode(rows),
            Format::Csv => csv::encode(rows),
        };
        encoded.map_err(|cause| Error::Broken(format!("{}: {cause}", self.option())))
    }
}

/// The destination of results.
#[derive(Debug)]
pub enum Sink {
    /// Standard output (`-`).
    Output,
    /// A file, which appears when it is complete.
    File(Output),
}

impl Sink {
    /// Prepares the destination that an option names, so that an impossible one is rejected before the work starts.
    ///
    /// # Errors
    /// Like [`Outputs::open`].
    pub fn open(outputs: &mut Outputs, option: &str, path: &Path) -> Result<Sink, Error> {
        if path == Path::new("-") {
            return Ok(Sink::Output);
        }
        outputs.open(option, path).map(Sink::File)
    }

    /// Returns `true` for standard output.
    pub fn is_output(&self) -> bool {
        matches!(self, Sink::Output)
    }

    /// Writes everything.
    ///
    /// # Errors
    /// Returns [`Error::Write`], with no file left behind.
    pub fn write(self, bytes: &[u8]) -> Result<(), Error> {
        match self {
            Sink::Output => crate::show::output::bytes(bytes),
            Sink::File(file) => file.finish(bytes),
        }
    }
}
