//! Results for other programs: tidy rows, one measurement each.
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
use everybuddy_measure::error::STANDARD_OUTPUT;
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
    fn encode(self, rows: &[Row]) -> Result<Vec<u8>, std::io::Error> {
        match self {
            Format::Parquet => parquet::encode(rows),
            Format::Json => json::encode(rows),
            Format::Csv => csv::encode(rows),
        }
    }
}

/// The destination of rows.
#[derive(Debug)]
pub enum Sink {
    /// To standard output (`-`).
    Output(Format),
    /// To a file, which appears when it is complete.
    File(Format, Output),
}

impl Sink {
    /// Prepares a destination, so that an impossible one is rejected before the work starts.
    ///
    /// # Errors
    /// Like [`Outputs::open`].
    pub fn open(outputs: &mut Outputs, format: Format, path: &Path) -> Result<Sink, Error> {
        if path == Path::new("-") {
            return Ok(Sink::Output(format));
        }
        let file = outputs.open(format.option(), path)?;
        Ok(Sink::File(format, file))
    }

    /// Returns `true` if the rows go to standard output.
    pub fn is_output(&self) -> bool {
        matches!(self, Sink::Output(_))
    }

    /// Writes all rows.
    ///
    /// # Errors
    /// Returns [`Error::Write`], with no file left behind, or [`Error::Broken`] if a row's metric is not defined.
    pub fn write(self, rows: &[Row]) -> Result<(), Error> {
        rows::checked(rows)?;
        let rows = &commit::named(rows);
        match self {
            Sink::Output(format) => {
                let bytes = format
                    .encode(rows)
                    .map_err(|e| Error::stream(STANDARD_OUTPUT, e))?;
                crate::show::output::bytes(&bytes)
            }
            Sink::File(format, file) => {
                let bytes = format.encode(rows);
                let bytes = bytes.map_err(|cause| outputs::refused(file.path(), cause))?;
                file.finish(&bytes)
            }
        }
    }
}
